package search

import (
	"math"
	"slices"
	"unicode/utf8"
)

// Group is a group of fields of equal value.
type Group int

// The groups, strongest first. A word in a stronger group need not be indexed
// in a weaker one, where its value is always lower.
const (
	Signed  Group = iota // capability of the card, tags, skills, the venue's names
	Summary              // summary of the listing
	Claimed              // declared by the publisher
	Groups  int   = 3
)

// Kind tells in which way a word of a query matches a word of an entry.
type Kind int

// The kinds, strongest first.
const (
	Exact Kind = iota
	Prefix
	Inside
	Kinds int = 3
)

const (
	// MaxPoints is the value of a word's best match.
	MaxPoints = 16
	// ScoreSteps is the resolution of a score.
	ScoreSteps = 4096
)

// Points is the value of a match.
func Points(g Group, k Kind) int { return (4 - int(g)) * (4 - int(k)) }

// ScoreStep is a score in steps of 1/ScoreSteps, as an index stores it. Values
// outside 0 to 1 are clamped, NaN becomes 0.
func ScoreStep(score float64) int {
	if !(score > 0) {
		return 0
	}
	return int(math.Round(min(score, 1) * ScoreSteps))
}

// Weight is the integer that orders a query's hits: the summed points of its
// words, and the step of the score. It is below 2^21, so that 32-bit floats
// represent it exactly.
func (q *Query) Weight(points, step int) int {
	if q.ByScore {
		return step
	}
	if len(q.Words) == 0 {
		points = MaxPoints
	}
	return points * (ScoreSteps + step)
}

// Rank is the rank of a weight, from 0 to 1.
func (q *Query) Rank(weight int) float64 {
	if q.ByScore {
		return float64(weight) / ScoreSteps
	}
	return float64(weight) / float64(max(len(q.Words), 1)*MaxPoints*2*ScoreSteps)
}

// WeightOf is the inverse of Rank, to the nearest weight.
func (q *Query) WeightOf(rank float64) int {
	if q.ByScore {
		return int(math.Round(rank * ScoreSteps))
	}
	return int(math.Round(rank * float64(max(len(q.Words), 1)*MaxPoints*2*ScoreSteps)))
}

// Terms are the distinct words of an entry, sorted, each in its strongest group
// only.
type Terms [Groups][]string

// MaxText bounds the indexed bytes of a group's normalised texts; the rest is
// cut. A longer text would match everything and burden every index: 25 KB of
// Chinese takes half a second and a megabyte.
const MaxText = 4 << 10

// Terms returns the indexed words of an entry.
func (e *Entry) Terms() Terms {
	var t Terms
	seen := make(map[string]bool)
	for g, texts := range e.GroupTexts() {
		for _, text := range texts {
			for _, w := range Words(text) {
				if !seen[w] {
					seen[w] = true
					t[g] = append(t[g], w)
				}
			}
		}
		slices.Sort(t[g])
	}
	return t
}

// GroupTexts returns the distinct normalised texts of each group, cut to
// MaxText.
func (e *Entry) GroupTexts() [Groups][]string {
	return [Groups][]string{
		normalised(slices.Concat(e.Tags, e.Skills, e.VenueTexts, []string{e.Name, e.Capability})), normalised([]string{e.Summary}), e.Texts(),
	}
}

// Texts are the normalised Declared texts, which Query.Text is compared with.
func (e *Entry) Texts() []string { return normalised(e.Declared) }

// NormalTags returns the normalised tags and the marks of the short id and the venue. A
// query's tags are compared with them.
func (e *Entry) NormalTags() []string {
	all := append(normalised(e.Tags), shortIDTag(e.ID.Short()))
	if c := Normalise(e.Category); c != "" {
		all = append(all, categoryMark+c)
	}
	for _, a := range normalised(e.Areas) {
		all = append(all, areaMark+a)
	}
	if e.Bookable {
		all = append(all, bookableMark)
	}
	return all
}

// The marks of a venue. No listing has such tags, because Normalise removes control
// characters.
const (
	categoryMark = "\x1ccategory:"
	areaMark     = "\x1carea:"
	bookableMark = "\x1cbookable"
)

// Tags are the tags and marks that an entry must all have.
func (q *Query) Tags() []string {
	var all []string
	for _, f := range []struct{ mark, value string }{{"", q.Tag}, {categoryMark, q.Category}, {areaMark, q.Area}} {
		if f.value != "" {
			all = append(all, f.mark+f.value)
		}
	}
	if q.Bookable {
		all = append(all, bookableMark)
	}
	return all
}

// shortIDTag is the tag by which indexes find a vacant's short id. No listing has
// such a tag, because Normalise removes control characters.
func shortIDTag(short string) string { return "\x1c" + short }

// normalised returns the distinct normal forms of texts, up to MaxText.
func normalised(texts []string) []string {
	out, room := make([]string, 0, len(texts)), MaxText
	for _, t := range texts {
		n := Normalise(t)
		if len(n) > room {
			cut := room
			for !utf8.RuneStart(n[cut]) {
				cut--
			}
			n, room = n[:cut], 0
		}
		if n != "" && !slices.Contains(out, n) {
			out = append(out, n)
			room -= len(n)
		}
		if room <= 0 {
			break
		}
	}
	return out
}
