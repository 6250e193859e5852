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

// These limits bound an attack with many new keys: a thousand keys can raise the score of a vacant
// without other reviews by at most 0.03 in a day.
const (
	quarterWeight         = 0.25
	maxDailyQuarterWeight = 0.5
	maxTotalQuarterWeight = 2.0 // decayed
)

// Book is a vacant's reputation, computed from the rows of its reviews.
type Book struct {
	Rows             uint64           `json:"rows"`
	Tip              identity.Hash    `json:"tip"` // hash of the last row
	CurrentSubstrate string           `json:"current"`
	AnsweredAt       time.Time        `json:"answered,omitzero"` // signing time of the latest reviewed answer
	States           map[string]State `json:"states"`
	QuarterUsage     WeightUsage      `json:"quarter"`
}

type WeightUsage struct {
	UpdatedAt      time.Time               `json:"at,omitzero"`
	DailyWeights   [dimensionCount]float64 `json:"today"`
	DecayedWeights [dimensionCount]float64 `json:"ever"`
}

func (u WeightUsage) decay(t time.Time) WeightUsage {
	if !t.After(u.UpdatedAt) {
		return u
	}
	for _, d := range Dimensions() {
		u.DecayedWeights[d] *= math.Exp(-math.Ln2 * t.Sub(u.UpdatedAt).Hours() / 24 / priors[d].halfLife)
	}
	if t.UTC().Truncate(24*time.Hour) != u.UpdatedAt.UTC().Truncate(24*time.Hour) {
		u.DailyWeights = [dimensionCount]float64{}
	}
	u.UpdatedAt = t
	return u
}

func (b *Book) State() *State {
	s, ok := b.States[b.CurrentSubstrate]
	if !ok {
		return nil
	}
	return &s
}

func (b *Book) ComputeWeights(ratings review.Ratings, class review.Class, factors Factors, t time.Time) review.Ratings {
	usage, weights := b.QuarterUsage.decay(t), review.Ratings{}
	for _, d := range Dimensions() {
		if _, rated := ratings[d.String()]; !rated {
			continue
		}
		w := factors.Weight(d)
		if class != review.ClassFull {
			w = max(min(w*quarterWeight, maxDailyQuarterWeight-usage.DailyWeights[d], maxTotalQuarterWeight-usage.DecayedWeights[d]), 0)
		}
		weights[d.String()] = w
	}
	return weights
}

func (b *Book) VerifyAndAdd(target identity.ID, data []byte, claim *string) (row review.Row, err error) {
	if row, err = review.DecodeRow(data); err != nil {
		return row, err
	}
	if err = row.Verify(target, claim); err == nil {
		err = b.Add(&row, data)
	}
	return row, err
}

// Add adds the next row, whose encoded form is data. If the row is not linked to the last row, the
// error has kind Damaged.
func (b *Book) Add(row *review.Row, data []byte) error {
	if row.Prev != b.Tip {
		return problem.New(problem.Damaged, "review %d: expected the hash %s of the row before, got %s", b.Rows+1, b.Tip, row.Prev)
	}
	s, ok := b.States[row.Substrate]
	if !ok {
		s = NewState(row.At)
	}
	usage := b.QuarterUsage.decay(row.At)
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
		usage.DailyWeights[d] += w
		usage.DecayedWeights[d] += w
	}
	if row.Class != review.ClassFull {
		b.QuarterUsage = usage
	}
	b.States = maps.Clone(b.States) // a failed commit must not change the caller's map
	if b.States == nil {
		b.States = map[string]State{}
	}
	b.States[row.Substrate] = s
	if b.Rows == 0 || !row.AnsweredAt.Before(b.AnsweredAt) {
		b.CurrentSubstrate, b.AnsweredAt = row.Substrate, row.AnsweredAt
	}
	b.Rows, b.Tip = b.Rows+1, identity.Sum(data)
	return nil
}

// tolerance allows for processors that fuse additions and multiplications.
const tolerance = 1e-9

// CheckEqual returns an error of kind Damaged unless b equals recounted.
func (b *Book) CheckEqual(recounted *Book) error {
	var exactFields [2]string
	var numbers [2][]float64
	for i, book := range []*Book{b, recounted} {
		substrates := slices.Sorted(maps.Keys(book.States))
		exactFields[i] = fmt.Sprint(book.Rows, book.Tip, book.CurrentSubstrate, book.AnsweredAt.UnixMicro(), book.QuarterUsage.UpdatedAt.UnixMicro(), substrates)
		for _, name := range substrates {
			s := book.States[name]
			for _, d := range Dimensions() {
				p := s.Posterior(d)
				numbers[i] = append(numbers[i], p.Alpha, p.Beta, p.Alpha0, p.Beta0, p.Evidence, p.UpdatedUnix, p.HalfLifeDays)
			}
		}
		numbers[i] = slices.Concat(numbers[i], book.QuarterUsage.DailyWeights[:], book.QuarterUsage.DecayedWeights[:])
	}
	areClose := func(x, y float64) bool { return math.Abs(x-y) <= tolerance*max(1, math.Abs(x), math.Abs(y)) }
	if exactFields[0] != exactFields[1] || !slices.EqualFunc(numbers[0], numbers[1], areClose) {
		return problem.New(problem.Damaged, "the stored reputation differs from the one computed from its %d reviews", recounted.Rows)
	}
	return nil
}
