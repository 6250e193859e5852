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

// These limit the reviews of class quarter of a target together, in each dimension. A thousand new
// keys can then move a score by 0.03 in a day, and by 0.13 at most.
const (
	quarterWeight  = 0.25
	maxQuarterDay  = 0.5 // in a UTC day
	maxQuarterEver = 2.0 // decayed sum at any time
)

// Book is the reputation of a vacant by the rows of its reviews. It follows only from the rows.
type Book struct {
	Rows     uint64           `json:"rows"`
	Tip      identity.Hash    `json:"tip"`               // hash of the last row
	Current  string           `json:"current"`           // substrate of the last answer that was reviewed
	Answered time.Time        `json:"answered,omitzero"` // time of this answer
	States   map[string]State `json:"states"`            // by substrate
	Quarter  Allowance        `json:"quarter"`
}

// Allowance counts the weights of class quarter.
type Allowance struct {
	At    time.Time           `json:"at,omitzero"`
	Today [dimensions]float64 `json:"today"` // in the UTC day of At
	Ever  [dimensions]float64 `json:"ever"`  // decayed to At
}

func (a Allowance) decay(at time.Time) Allowance {
	if !at.After(a.At) {
		return a
	}
	for _, d := range All() {
		a.Ever[d] *= math.Exp(-math.Ln2 * at.Sub(a.At).Hours() / 24 / priors[d].halfLife)
	}
	if at.UTC().Truncate(24*time.Hour) != a.At.UTC().Truncate(24*time.Hour) {
		a.Today = [dimensions]float64{}
	}
	a.At = at
	return a
}

// State returns the posteriors of the current substrate, or nil without reviews.
func (b *Book) State() *State {
	s, ok := b.States[b.Current]
	if !ok {
		return nil
	}
	return &s
}

// Weigh returns the weights of a review that is counted at a time.
func (b *Book) Weigh(of review.Ratings, class review.Class, f Factors, at time.Time) review.Ratings {
	used, all := b.Quarter.decay(at), review.Ratings{}
	for _, d := range All() {
		if _, rated := of[d.String()]; !rated {
			continue
		}
		w := f.Weight(d)
		if class != review.Full {
			w = max(min(w*quarterWeight, maxQuarterDay-used.Today[d], maxQuarterEver-used.Ever[d]), 0)
		}
		all[d.String()] = w
	}
	return all
}

// Verify reads the next row of a target from its encoded form, verifies it as review.Row.Verify does,
// and adds it.
func (b *Book) Verify(target identity.ID, data []byte, claim *string) (row review.Row, err error) {
	if row, err = review.DecodeRow(data); err != nil {
		return row, err
	}
	if err = row.Verify(target, claim); err == nil {
		err = b.Add(&row, data)
	}
	return row, err
}

// Add adds the next row, whose encoded form is data. A row that does not follow is Damaged.
func (b *Book) Add(row *review.Row, data []byte) error {
	if row.Prev != b.Tip {
		return problem.New(problem.Damaged, "review %d: expected the hash %s of the row before, got %s", b.Rows+1, b.Tip, row.Prev)
	}
	s, ok := b.States[row.Substrate]
	if !ok {
		s = NewState(row.At)
	}
	used := b.Quarter.decay(row.At)
	for _, d := range All() {
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

// tolerance is the difference between numbers that Compare accepts. Sums may be fused on other
// processors.
const tolerance = 1e-9

// Compare returns an error of kind Damaged unless b equals a book that was folded again.
func (b *Book) Compare(again *Book) error {
	var exact [2]string
	var numbers [2][]float64
	for i, one := range []*Book{b, again} {
		substrates := slices.Sorted(maps.Keys(one.States))
		exact[i] = fmt.Sprint(one.Rows, one.Tip, one.Current, one.Answered.UnixMicro(), one.Quarter.At.UnixMicro(), substrates)
		for _, name := range substrates {
			s := one.States[name]
			for _, d := range All() {
				p := s.In(d)
				numbers[i] = append(numbers[i], p.Alpha, p.Beta, p.Alpha0, p.Beta0, p.Evidence, p.Updated, p.HalfLife)
			}
		}
		numbers[i] = slices.Concat(numbers[i], one.Quarter.Today[:], one.Quarter.Ever[:])
	}
	near := func(x, y float64) bool { return math.Abs(x-y) <= tolerance*max(1, math.Abs(x), math.Abs(y)) }
	if exact[0] != exact[1] || !slices.EqualFunc(numbers[0], numbers[1], near) {
		return problem.New(problem.Damaged, "the reputation is not the one that its %d reviews make", again.Rows)
	}
	return nil
}
