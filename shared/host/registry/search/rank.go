package search

import (
	"math"
	"slices"
	"unicode/utf8"
)

// Group is a group of fields of equal weight. The constants begin with the strongest group.
type Group int

const (
	GroupSigned Group = iota // capability in the card, tags, skills, and names of the venue
	GroupSummary
	GroupClaimed     // capabilities that the publisher declared
	GroupCount   int = 3
)

// Kind is a kind of match. The constants begin with the strongest kind.
type Kind int

const (
	KindExact Kind = iota
	KindPrefix
	KindInside
	KindCount int = 3
)

const (
	MaxPoints  = 16
	ScoreSteps = 4096
)

func MatchPoints(g Group, k Kind) int { return (4 - int(g)) * (4 - int(k)) }

func ScoreStep(score float64) int {
	if !(score > 0) {
		return 0
	}
	return int(math.Round(min(score, 1) * ScoreSteps))
}

// Weight returns the integer that orders the hits of a query. It is below 2^21, so 32-bit floats
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

func (q *Query) Rank(weight int) float64 {
	if q.ByScore {
		return float64(weight) / ScoreSteps
	}
	return float64(weight) / float64(max(len(q.Words), 1)*MaxPoints*2*ScoreSteps)
}

func (q *Query) WeightFromRank(rank float64) int {
	if q.ByScore {
		return int(math.Round(rank * ScoreSteps))
	}
	return int(math.Round(rank * float64(max(len(q.Words), 1)*MaxPoints*2*ScoreSteps)))
}

// Terms contains the distinct words of an entry in sorted order. Each word is only in its strongest
// group.
type Terms [GroupCount][]string

// MaxGroupTextBytes limits the normalised text of a group in bytes, because a longer text would match almost
// all queries and slow down every index.
const MaxGroupTextBytes = 4 << 10

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

func (e *Entry) GroupTexts() [GroupCount][]string {
	return [GroupCount][]string{
		normaliseTexts(slices.Concat(e.Tags, e.Skills, e.VenueTexts, []string{e.Name, e.Capability})), normaliseTexts([]string{e.Summary}), e.DeclaredTexts(),
	}
}

func (e *Entry) DeclaredTexts() []string { return normaliseTexts(e.DeclaredCapabilities) }

func (e *Entry) NormalTags() []string {
	tags := append(normaliseTexts(e.Tags), shortIDTag(e.ID.Short()))
	if c := Normalise(e.Category); c != "" {
		tags = append(tags, categoryMark+c)
	}
	for _, a := range normaliseTexts(e.Areas) {
		tags = append(tags, areaMark+a)
	}
	if e.Bookable {
		tags = append(tags, bookableMark)
	}
	return tags
}

// Tags of listings cannot collide with these marks, because Normalise removes control characters.
const (
	categoryMark = "\x1ccategory:"
	areaMark     = "\x1carea:"
	bookableMark = "\x1cbookable"
)

func (q *Query) Tags() []string {
	var tags []string
	for _, f := range []struct{ mark, value string }{{"", q.Tag}, {categoryMark, q.Category}, {areaMark, q.Area}} {
		if f.value != "" {
			tags = append(tags, f.mark+f.value)
		}
	}
	if q.Bookable {
		tags = append(tags, bookableMark)
	}
	return tags
}

func shortIDTag(short string) string { return "\x1c" + short }

func normaliseTexts(texts []string) []string {
	out, remaining := make([]string, 0, len(texts)), MaxGroupTextBytes
	for _, t := range texts {
		n := Normalise(t)
		if len(n) > remaining {
			cut := remaining
			for !utf8.RuneStart(n[cut]) {
				cut--
			}
			n, remaining = n[:cut], 0
		}
		if n != "" && !slices.Contains(out, n) {
			out = append(out, n)
			remaining -= len(n)
		}
		if remaining <= 0 {
			break
		}
	}
	return out
}
