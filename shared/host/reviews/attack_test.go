package reviews_test

import (
	"cmp"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// flood reviews a vacant by n new keys, each with a free call, over a time.
func (f *fixture) flood(shop identity.ID, n int, over time.Duration, signal float64) {
	f.Helper()
	for range n {
		f.praise(f.key(), shop, signal)
		f.Clock.Advance(over/time.Duration(n) - time.Millisecond)
	}
}

func TestAThousandNewKeysMoveAScoreLittle(t *testing.T) {
	for name, earlier := range map[string]int{"without reviews": 0, "with reviews": 10} {
		for _, signal := range []float64{1, 0} {
			f := open(t)
			shop := f.host("acme", "shop")
			f.price(shop)
			for i := range earlier {
				f.praise(f.payer(fmt.Sprintf("buyer-%c", 'a'+i)), shop, 0.6)
			}
			f.Clock.Advance(12*time.Hour + time.Second) // to midnight
			start := f.reputation(shop).Score
			f.flood(shop, 1000, 12*time.Hour, signal)
			day := f.reputation(shop).Score
			if moved := day - start; moved > 0.03 || moved < -0.03 {
				t.Errorf("%s, signal %v: a day moved the score by %v, want at most 0.03", name, signal, moved)
			}
			f.flood(shop, 300, 29*24*time.Hour, signal)
			month := f.reputation(shop).Score
			if moved := month - start; moved > 0.13 || moved < -0.13 {
				t.Errorf("%s, signal %v: a month moved the score by %v, want at most 0.13", name, signal, moved)
			}
			f.WantWhole()
			if earlier > 0 || signal < 1 {
				continue
			}
			honest := f.host("acme", "honest")
			f.price(honest)
			for i := range 10 {
				buyer := f.payer(fmt.Sprintf("payer-%c", 'a'+i))
				for range 3 {
					f.praise(buyer, honest, 1)
				}
			}
			if paid := f.reputation(honest).Score; paid <= month {
				t.Errorf("ten paying reviewers make %v, want more than the %v of new keys", paid, month)
			}
		}
	}
}

// A ring of four owners praises itself. Six honest vacants of different quality are reviewed by
// callers who pay, and by some that do not.
func TestARingDoesNotReachTheTop(t *testing.T) {
	for seed := range uint64(3) {
		f := open(t)
		dice := mathrand.New(mathrand.NewPCG(seed, 55))
		var honest, ring []identity.ID
		quality := map[identity.ID]float64{}
		for i := range 6 {
			id := f.host(fmt.Sprintf("firm-%c", 'a'+i), fmt.Sprintf("honest-%c", 'a'+i))
			f.price(id)
			honest, quality[id] = append(honest, id), 0.55+0.07*float64(i)
		}
		for i := range 4 {
			ring = append(ring, f.host(fmt.Sprintf("ring-%c", 'a'+i), fmt.Sprintf("ring-%c", 'a'+i)))
		}
		var buyers []identity.Signer
		for i := range 12 {
			buyers = append(buyers, f.payer(fmt.Sprintf("buyer-%c", 'a'+i)))
		}
		counted := 0
		for counted < 200 {
			f.Clock.Advance(time.Duration(dice.IntN(180)) * time.Minute)
			var by identity.Signer
			to, signal := honest[dice.IntN(6)], 0.0
			if counted%2 == 0 {
				i := dice.IntN(4)
				by, to, signal = f.as(ring[i]), ring[(i+1+dice.IntN(3))%4], 1
			} else {
				by, signal = buyers[dice.IntN(12)], min(max(quality[to]+0.1*dice.NormFloat64(), 0), 1)
			}
			_, err := f.Reviews.Submit(t.Context(), f.rate(f.call(by, to), signal))
			if err == nil {
				counted++
			} else if !problem.Is(err, problem.TooManyRequests) {
				t.Fatal(err)
			}
		}
		all := slices.Concat(honest, ring)
		score := map[identity.ID]float64{}
		for _, id := range all {
			score[id] = f.reputation(id).Score
		}
		slices.SortFunc(all, func(a, b identity.ID) int { return cmp.Compare(score[b], score[a]) })
		above := 0
		for i, id := range all {
			if slices.Contains(ring, id) && i < 6 {
				above++
			}
			t.Logf("seed %d: %d. %.3f ring %t, evidence %.2f", seed, i+1, score[id], slices.Contains(ring, id), f.reputation(id).Evidence)
		}
		if above > 1 {
			t.Errorf("seed %d: %d of the ring are among the first six, want at most one", seed, above)
		}
		f.WantWhole()
	}
}
