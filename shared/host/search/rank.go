package search

import (
	"math"
	"slices"
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

// MaxTerms is the most distinct words of one group that are indexed: the first
// ones. A card has room for more only if it wants to be found by everything.
const MaxTerms = 1024

// Terms gives the words that an entry is found by.
func (e *Entry) Terms() Terms {
	var t Terms
	seen := make(map[string]bool)
	add := func(g Group, texts ...string) {
		for _, text := range texts {
			for _, w := range Words(Normalise(text)) {
				if !seen[w] && len(t[g]) < MaxTerms {
					seen[w] = true
					t[g] = append(t[g], w)
				}
			}
		}
	}
	add(Signed, e.Tags...)
	add(Signed, e.Skills...)
	add(Signed, e.Capability)
	add(Summary, e.Summary)
	add(Claimed, e.Declared...)
	for g := range t {
		slices.Sort(t[g])
	}
	return t
}

// Texts are the normalised Declared texts, which Query.Text is looked for in.
func (e *Entry) Texts() []string { return normalised(e.Declared) }

// NormalTags are the normalised tags, which Query.Tag is compared with.
func (e *Entry) NormalTags() []string { return normalised(e.Tags) }

func normalised(texts []string) []string {
	out := make([]string, 0, len(texts))
	for _, t := range texts {
		if n := Normalise(t); n != "" && !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}
