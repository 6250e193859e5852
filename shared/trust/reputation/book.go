package reputation

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/review"
)

// In each dimension, the reviews of class quarter add at most these weights to a target. If a vacant has
// no other reviews, a thousand new keys therefore raise its score by at most 0.03 in a day and 0.13 in
// total.
const (
	quarterWeight  = 0.25
	maxQuarterDay  = 0.5 // weight in a UTC day
	maxQuarterEver = 2.0 // decayed weight at any time
)

// Book is a vacant's reputation. It depends only on the rows of the vacant's reviews.
type Book struct {
	Rows     uint64           `json:"rows"`
	Tip      identity.Hash    `json:"tip"`               // hash of the last row
	Current  string           `json:"current"`           // substrate of the latest reviewed answer
	Answered time.Time        `json:"answered,omitzero"` // signing time of the latest reviewed answer
	States   map[string]State `json:"states"`            // posteriors by substrate
	Quarter  Allowance        `json:"quarter"`
}

// Allowance is the weight that the reviews of class quarter have added to a target.
type Allowance struct {
	At    time.Time           `json:"at,omitzero"` // time at which the latest such review was accepted
	Today [dimensions]float64 `json:"today"`       // weight in the UTC day of At
	Ever  [dimensions]float64 `json:"ever"`        // weight decayed to At
}

func (a Allowance) decay(t time.Time) Allowance {
	if !t.After(a.At) {
		return a
	}
	for _, d := range Dimensions() {
		a.Ever[d] *= math.Exp(-math.Ln2 * t.Sub(a.At).Hours() / 24 / priors[d].halfLife)
	}
	if t.UTC().Truncate(24*time.Hour) != a.At.UTC().Truncate(24*time.Hour) {
		a.Today = [dimensions]float64{}
	}
	a.At = t
	return a
}

func (b *Book) State() *State {
	s, ok := b.States[b.Current]
	if !ok { // b has no reviews
		return nil
	}
	return &s
}

func (b *Book) Weigh(ratings review.Ratings, class review.Class, f Factors, t time.Time) review.Ratings {
	used, weights := b.Quarter.decay(t), review.Ratings{}
	for _, d := range Dimensions() {
		if _, rated := ratings[d.String()]; !rated {
			continue
		}
		w := f.Weight(d)
		if class != review.Full {
			w = max(min(w*quarterWeight, maxQuarterDay-used.Today[d], maxQuarterEver-used.Ever[d]), 0)
		}
		weights[d.String()] = w
	}
	return weights
}

func (b *Book) Verify(target identity.ID, data []byte, claim *string) (row review.Row, err error) {
	if row, err = review.DecodeRow(data); err != nil {
		return row, err
	}
	if err = row.Verify(target, claim); err == nil {
		err = b.Add(&row, data)
	}
	return row, err
}

// Add adds the next row, whose encoded form is data. If the row does not contain the hash of the last
// row, or has an invalid signal or weight, the error has kind Damaged.
func (b *Book) Add(row *review.Row, data []byte) error {
	if row.Prev != b.Tip {
		return problem.New(problem.Damaged, "review %d: expected the hash %s of the row before, got %s", b.Rows+1, b.Tip, row.Prev)
	}
	s, ok := b.States[row.Substrate]
	if !ok {
		s = NewState(row.At)
	}
	used := b.Quarter.decay(row.At)
	for _, d := range Dimensions() {
		signal, rated := row.Record.Ratings[d.String()]
		if !rated {
			continue
		}
		w := row.Weights[d.String()]
		var err error
		if s, err = s.Update(d, signal, w, row.At); err != nil {
			return problem.Wrap(problem.Damaged, err, "review %d", b.Rows+1)
		}
		used.Today[d] += w
		used.Ever[d] += w
	}
	if row.Class != review.Full {
		b.Quarter = used
	}
	b.States = maps.Clone(b.States) // a failed commit must not change the map of the book that was read
	if b.States == nil {
		b.States = map[string]State{}
	}
	b.States[row.Substrate] = s
	if b.Rows == 0 || !row.Answered.Before(b.Answered) {
		b.Current, b.Answered = row.Substrate, row.Answered
	}
	b.Rows, b.Tip = b.Rows+1, identity.Sum(data)
	return nil
}

// tolerance is the relative difference between numbers that CheckEqual accepts, because some
// processors fuse additions and multiplications.
const tolerance = 1e-9

// CheckEqual returns an error of kind Damaged unless b equals recounted, the book that results from
// adding all rows again.
func (b *Book) CheckEqual(recounted *Book) error {
	var exact [2]string
	var numbers [2][]float64
	for i, book := range []*Book{b, recounted} {
		substrates := slices.Sorted(maps.Keys(book.States))
		exact[i] = fmt.Sprint(book.Rows, book.Tip, book.Current, book.Answered.UnixMicro(), book.Quarter.At.UnixMicro(), substrates)
		for _, name := range substrates {
			s := book.States[name]
			for _, d := range Dimensions() {
				p := s.Posterior(d)
				numbers[i] = append(numbers[i], p.Alpha, p.Beta, p.Alpha0, p.Beta0, p.Evidence, p.Updated, p.HalfLife)
			}
		}
		numbers[i] = slices.Concat(numbers[i], book.Quarter.Today[:], book.Quarter.Ever[:])
	}
	near := func(x, y float64) bool { return math.Abs(x-y) <= tolerance*max(1, math.Abs(x), math.Abs(y)) }
	if exact[0] != exact[1] || !slices.EqualFunc(numbers[0], numbers[1], near) {
		return problem.New(problem.Damaged, "the stored reputation differs from the one computed from its %d reviews", recounted.Rows)
	}
	return nil
}
