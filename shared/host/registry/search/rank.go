package search

import (
	"math"
	"slices"
	"unicode/utf8"
)

// Group is how much the texts of some fields are worth.
type Group int

// The groups, strongest first. A word that is in a stronger group need not be
// indexed in a weaker one: it can never be worth more there.
const (
	Signed  Group = iota // capability of the card, tags, skills
	Summary              // summary of the listing
	Claimed              // declared by the publisher
	Groups  int   = 3
)

// Kind is how a word of a query matches a word of an entry.
type Kind int

// The kinds, strongest first.
const (
	Exact Kind = iota
	Prefix
	Inside
	Kinds int = 3
)

const (
	// MaxPoints are what the best match of one word is worth.
	MaxPoints = 16
	// ScoreSteps is how finely a score is told apart.
	ScoreSteps = 4096
)

// Points is what one match is worth.
func Points(g Group, k Kind) int { return (4 - int(g)) * (4 - int(k)) }

// ScoreStep is a score in steps of 1/ScoreSteps, as an index keeps it. What is
// no number from 0 to 1 becomes the nearer end, NaN becomes 0.
func ScoreStep(score float64) int {
	if !(score > 0) {
		return 0
	}
	return int(math.Round(min(score, 1) * ScoreSteps))
}

// Weight is the integer that a query's hits are ordered by: the points of its
// words, summed, and the step of the score. It stays below 2^21, so that it is
// exact also in an index that computes with 32-bit floats.
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

// WeightOf gives back the weight of a rank of this query: the nearest one, for
// a rank that none has.
func (q *Query) WeightOf(rank float64) int {
	if q.ByScore {
		return int(math.Round(rank * ScoreSteps))
	}
	return int(math.Round(rank * float64(max(len(q.Words), 1)*MaxPoints*2*ScoreSteps)))
}

// Terms are the distinct words of an entry by group, each in its strongest one
// only, sorted.
type Terms [Groups][]string

// MaxText is how many bytes of a group's texts are indexed, normalised: the
// first ones. Who says more wants to be found by everything, and every index
// would pay for it: 25 KB of Chinese takes it half a second and a megabyte.
const MaxText = 4 << 10

// Terms gives the words that an entry is found by.
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

// GroupTexts gives the distinct texts of each group, normalised and cut to MaxText.
func (e *Entry) GroupTexts() [Groups][]string {
	return [Groups][]string{
		normalised(slices.Concat(e.Tags, e.Skills, []string{e.Capability})), normalised([]string{e.Summary}), e.Texts(),
	}
}

// Texts are the normalised Declared texts, which Query.Text is looked for in.
func (e *Entry) Texts() []string { return normalised(e.Declared) }

// NormalTags are the normalised tags, which Query.Tag is compared with.
func (e *Entry) NormalTags() []string { return normalised(e.Tags) }

// normalised gives the distinct texts as they are compared, up to MaxText.
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
