package reputation

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/review"
)

func TestReviewsAreWeightedAsTheReferences(t *testing.T) {
	type at struct{ vacant, substrate string }
	type posterior struct{ Alpha, Beta, Evidence float64 }
	weighed := 0
	for _, v := range load[struct {
		Name   string
		Input  vectorInput
		Expect vectorExpect
	}](t, "review_intake.json", 40) {
		t.Run(v.Name, func(t *testing.T) {
			family, states, count := map[string]string{}, map[at]State{}, map[[2]string]int64{}
			for _, one := range v.Input.Vacants {
				family[one.ID] = one.Family
			}
			for i, r := range v.Input.Reviews {
				want := v.Expect.Steps[i]
				if want.Refused != "" {
					continue
				}
				pair := [2]string{r.Reviewer, r.Target}
				count[pair]++
				f := Factors{Source: r.Source, SameFamily: family[r.Reviewer] == family[r.Target], ReviewNumber: count[pair]}
				for _, s := range r.Signals {
					f.Similarity = max(f.Similarity, s)
				}
				if own, ok := states[at{r.Reviewer, r.Substrate}]; ok {
					f.Reviewer = &own
				}
				s, ok := states[at{r.Target, r.Substrate}]
				if !ok {
					s = NewState(instant(r.TS))
				}
				for name, signal := range r.Dimensions {
					d := dimension(t, name)
					var err error
					if s, err = s.Update(d, signal, f.Weight(d), instant(r.TS)); err != nil {
						t.Fatal(err)
					}
				}
				states[at{r.Target, r.Substrate}] = s
				weighed++
				for name, p := range want.State {
					d := dimension(t, name)
					got := s.Posterior(d)
					if diff := cmp.Diff(posterior{p.Alpha, p.Beta, p.Evidence}, posterior{got.Alpha, got.Beta, got.Evidence}, near); diff != "" {
						t.Fatalf("review %d, %s (-want +got):\n%s", i, name, diff)
					}
				}
			}
		})
	}
	if weighed < 40 {
		t.Errorf("%d reviews were weighed, want more", weighed)
	}
}

type vectorInput struct {
	Vacants []struct {
		ID     string `json:"vacant_id"`
		Family string
	}
	Reviews []struct {
		Reviewer, Target, Substrate string
		Dimensions                  map[string]float64
		Source                      string
		Signals                     []float64 `json:"signal_strengths"`
		TS                          float64
	}
}

type vectorExpect struct {
	Steps []struct {
		Refused string
		State   map[string]struct {
			Alpha, Beta float64
			Evidence    float64 `json:"n_eff"`
		} `json:"target_state"`
	}
}

func TestAnEarnedScoreGrowsWithItsEvidence(t *testing.T) {
	var none *State
	if none.EarnedScore() != 0 || none.Evidence() != 0 {
		t.Error("a vacant without reviews has earned a score")
	}
	last := 0.0
	for _, n := range []float64{0.01, 0.5, 2, 10, 100, 10000} {
		got := reviewed(t, n, 1, SearchDimensions()...).EarnedScore()
		if got <= last || got >= 1 {
			t.Errorf("EarnedScore() of %v = %v, want more than %v and less than 1", n, got, last)
		}
		last = got
	}
	if s := reviewed(t, 100, 1, Factual, Logical, Honesty, Adoption); s.Evidence() != 0 || s.EarnedScore() != 0 {
		t.Errorf("EarnedScore() without relevance = %v, want 0", s.EarnedScore())
	}
	// These are the limits that the constants of a Book are made for.
	if day := reviewed(t, maxDailyQuarterWeight, 1, SearchDimensions()...).EarnedScore(); day > 0.03 {
		t.Errorf("a day of free reviews moves a score to %v, want at most 0.03", day)
	}
	if ever := reviewed(t, maxTotalQuarterWeight, 1, SearchDimensions()...).EarnedScore(); ever > 0.13 {
		t.Errorf("free reviews move a score to %v, want at most 0.13", ever)
	}
}

// addTo counts a review in b, and returns its row as it is stored.
func addTo(t *testing.T, b *Book, substrate string, class review.Class, nth int64, at time.Time, ratings review.Ratings) []byte {
	t.Helper()
	key, err := identity.KeyFromSeed(make([]byte, identity.Size))
	if err != nil {
		t.Fatal(err)
	}
	rec := review.Record{Members: review.Members{Target: key.ID(), Ratings: ratings, Substrate: "x", CallHash: identity.Hash{1}, IssuedAt: canon.FormatTime(at)}}
	if err := rec.Sign(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	row := review.NewRow(rec, nil)
	row.Prev, row.At, row.AnsweredAt, row.Class, row.ReviewNumber, row.Substrate = b.Tip, at, at, class, nth, substrate
	row.Weights = b.ComputeWeights(ratings, class, Factors{Source: SourceCallerReview, ReviewNumber: nth}, at)
	data, err := json.Marshal(row)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Add(&row, data); err != nil {
		t.Fatal(err)
	}
	return data
}

func TestABookFollowsFromItsRows(t *testing.T) {
	start := time.Date(2026, 11, 30, 23, 59, 0, 0, time.UTC)
	flr := review.Ratings{"factual": 1, "logical": 1, "relevance": 1}
	var b Book
	var rows [][]byte
	for i := range 60 { // the cap of the day, midnight, the cap of all days, and years
		class := review.ClassQuarter
		if i%7 == 3 {
			class = review.ClassFull
		}
		rows = append(rows, addTo(t, &b, []string{"model:a", "echo"}[i/40], class, int64(1+i%3), start.Add(time.Duration(i*i)*11*time.Minute), flr))
		for _, d := range SearchDimensions() {
			if b.QuarterUsage.DailyWeights[d] > maxDailyQuarterWeight+1e-12 || b.QuarterUsage.DecayedWeights[d] > maxTotalQuarterWeight+1e-12 {
				t.Fatalf("after %d reviews a quarter counts %v today and %v ever", i+1, b.QuarterUsage.DailyWeights[d], b.QuarterUsage.DecayedWeights[d])
			}
		}
	}
	first, err := review.DecodeRow(rows[0])
	if err != nil {
		t.Fatal(err)
	}
	target := first.Record.Target
	var again Book
	for _, data := range rows {
		if _, err := again.VerifyAndAdd(target, data, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.CheckEqual(&again); err != nil || b.CurrentSubstrate != "echo" || len(b.States) != 2 {
		t.Errorf("CheckEqual() = %v, current %s", err, b.CurrentSubstrate)
	}
	if diff := cmp.Diff(b, again, cmpopts.EquateApprox(0, 1e-12)); diff != "" {
		t.Errorf("the rows make another book (-want +got):\n%s", diff)
	}
	for name, spoil := range map[string]func(*Book){
		"a row less": func(b *Book) { b.Rows-- },
		"a posterior": func(b *Book) {
			s := b.States["echo"]
			s.Logical.Alpha += 1e-6
			b.States = map[string]State{"echo": s, "model:a": b.States["model:a"]}
		},
		"a substrate":   func(b *Book) { b.States = map[string]State{"echo": b.States["echo"], "other": b.States["model:a"]} },
		"the day's cap": func(b *Book) { b.QuarterUsage.DailyWeights[Factual] = 0.1 },
	} {
		damaged := again
		spoil(&damaged)
		if damaged.CheckEqual(&again) == nil {
			t.Errorf("%s: CheckEqual() = nil, want a difference", name)
		}
	}
	if again.Add(&first, rows[0]) == nil {
		t.Error("a row that does not follow was added")
	}
}

func TestMidnightUTCStartsANewDayOfFreeReviews(t *testing.T) {
	flr := review.Ratings{"factual": 0, "logical": 0, "relevance": 0}
	last := time.Date(2026, 11, 30, 23, 59, 59, 999_999_000, time.UTC)
	var b Book
	for range 20 {
		addTo(t, &b, "echo", review.ClassQuarter, 1, last, flr)
	}
	if got := b.ComputeWeights(flr, review.ClassQuarter, Factors{Source: SourceCallerReview}, last)["factual"]; got != 0 || b.QuarterUsage.DailyWeights[Factual] != maxDailyQuarterWeight {
		t.Errorf("at the end of the day a review weighs %v, want 0", got)
	}
	if got := b.ComputeWeights(flr, review.ClassFull, Factors{Source: SourceCallerReview}, last)["factual"]; got != 0.18 {
		t.Errorf("a paid review weighs %v, want 0.18", got)
	}
	if got := b.ComputeWeights(flr, review.ClassQuarter, Factors{Source: SourceCallerReview}, last.Add(time.Microsecond))["factual"]; got != 0.045 {
		t.Errorf("after midnight a review weighs %v, want 0.045", got)
	}
	if got := b.ComputeWeights(flr, review.ClassQuarter, Factors{Source: SourceCallerReview}, last.Add(-time.Hour))["factual"]; got != 0 {
		t.Errorf("with a clock that went back a review weighs %v, want 0", got)
	}
}
