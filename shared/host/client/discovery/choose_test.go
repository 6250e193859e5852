package discovery_test

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/client/discovery"
	"github.com/vacancy-host/vacancy/shared/trust/reputation"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/listing"
)

func TestByScoreChoosesWhomTheReferenceDispatchesTo(t *testing.T) {
	b, err := os.ReadFile("testdata/ucb.json")
	must(t, err)
	var file struct {
		Cases []struct {
			Name  string
			Input struct {
				Vacants []struct {
					ID         identity.ID      `json:"vacant_id"`
					Reputation reputation.State `json:"reputation"`
				}
			}
			Expect struct {
				Winner identity.ID `json:"dispatch_winner"`
			}
		}
	}
	must(t, json.Unmarshal(b, &file))
	n := 0
	for _, c := range file.Cases {
		var matches []discovery.Match
		for _, v := range c.Input.Vacants {
			matches = append(matches, discovery.Match{ID: v.ID, Reputation: &v.Reputation})
		}
		if len(matches) == 0 {
			continue
		}
		n++
		if got := discovery.RateMatches(discovery.ByScore, matches)[0].ID; got != c.Expect.Winner {
			t.Errorf("%s: RateMatches() = %s, want %s", c.Name, got.Short(), c.Expect.Winner.Short())
		}
	}
	if n != 15 {
		t.Errorf("%d cases, want 15", n)
	}
}

// of is a match with a reputation of n reviews at a mean signal.
func of(t *testing.T, name byte, n, signal, rank float64) discovery.Match {
	r := row(t, name, "x", "https://x.test/")
	if n > 0 {
		judged(t, &r, n, signal)
	}
	return discovery.Match{ID: r.ID, Reputation: r.Reputation, Score: r.Score, Rank: rank * (0.5 + 0.5*r.Score)}
}

func TestByUCBWeighsProofChanceAndFit(t *testing.T) {
	for name, c := range map[string]struct{ better, worse discovery.Match }{
		"proven before untried":              {of(t, 1, 100, 0.95, 1), of(t, 2, 0, 0, 1)},
		"untried before mediocre":            {of(t, 1, 0, 0, 1), of(t, 2, 100, 0.5, 1)},
		"untried before bad":                 {of(t, 1, 0, 0, 1), of(t, 2, 100, 0.1, 1)},
		"made for it before mentioning it":   {of(t, 1, 100, 0.8, 1), of(t, 2, 100, 0.95, 0.25)},
		"a reference's good before untried":  {discovery.Match{ID: identity.ID{1}, Score: 0.9}, discovery.Match{ID: identity.ID{2}}},
		"a reference's untried before a bad": {discovery.Match{ID: identity.ID{1}}, discovery.Match{ID: identity.ID{2}, Score: 0.3}},
		"current before outdated": {of(t, 1, 100, 0.1, 0.1), func() discovery.Match {
			m := of(t, 2, 100, 1, 1)
			m.Freshness = discovery.Outdated
			return m
		}()},
	} {
		t.Run(name, func(t *testing.T) {
			for _, order := range [][]discovery.Match{{c.better, c.worse}, {c.worse, c.better}} {
				if got := discovery.RateMatches(nil, order); got[0].ID != c.better.ID {
					t.Errorf("RateMatches() = %.3f before %.3f, want the other way", got[0].Rating, got[1].Rating)
				}
			}
		})
	}
}

func does(name byte, capability string, tags ...string) discovery.Match {
	id := identity.ID{name}
	return discovery.Match{ID: id, Card: card.Card{VacantID: id, CapabilityText: capability}, Listing: &listing.Listing{Tags: tags}}
}

func TestAPromptFindsWhoIsMadeForIt(t *testing.T) {
	market := []discovery.Match{
		does(1, "translation of legal texts into French and the other way"),
		does(2, "reviews Go code, the tests and the docs", "golang", "review"),
		does(3, "writes the SQL and explains query plans", "database"),
		does(4, "法律文件审查和翻译"),
		does(5, "cooks, the whole day"),
		{ID: identity.ID{6}, Card: card.Card{CapabilityText: "anything"}, DeclaredCapabilities: []string{"translate French legal SQL code review the contract 法律"}},
	}
	for prompt, c := range map[string]struct {
		best  byte
		words string
	}{
		"Please translate the attached contract into french: ...": {1, "french"},
		"could you REVIEW this golang function":                   {2, "golang"},
		"why is my SQL query so slow":                             {3, "query"},
		"请帮我审查这份法律文件":                                             {4, "审查"},
		"what shall we eat to-day":                                {5, "day"},
		"kubernetes":                                              {0, ""},
		"":                                                        {0, ""},
		strings.Repeat("no ", 1_000_000):                          {0, ""},
	} {
		fits := discovery.RankByPrompt(prompt, nil, market)
		if c.best == 0 {
			if len(fits) != 0 {
				t.Errorf("RankByPrompt(%.30q) = %v, want nobody", prompt, fits[0].SharedWords)
			}
			continue
		}
		if len(fits) == 0 || fits[0].ID[0] != c.best || !strings.Contains(strings.Join(fits[0].SharedWords, " "), c.words) {
			t.Errorf("RankByPrompt(%.30q) = %+v, want %d by %q", prompt, fits, c.best, c.words)
		}
	}
}

func TestAPromptsFitIsAtMostOneAndItsOrderIsStable(t *testing.T) {
	same := []discovery.Match{does(1, "translate"), does(2, "translate"), does(3, "translate")}
	fits := discovery.RankByPrompt("translate translate translate", discovery.ByScore, same)
	var got []byte
	for _, f := range fits {
		got = append(got, f.ID[0])
		if f.Fit != 1 || f.Rating != 0.5 {
			t.Errorf("fit %v, value %v, want 1 and 0.5", f.Fit, f.Rating)
		}
	}
	if diff := cmp.Diff([]byte{1, 2, 3}, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func FuzzFitPrompt(f *testing.F) {
	f.Add("translate 法律", "legal translation", "tag")
	f.Fuzz(func(t *testing.T, prompt, capability, tag string) {
		for _, x := range discovery.RankByPrompt(prompt, nil, []discovery.Match{does(1, capability, tag), does(2, "x")}) {
			if !(x.Fit > 0 && x.Fit <= 1.0000001) || len(x.SharedWords) == 0 {
				t.Errorf("fit %v by %q", x.Fit, x.SharedWords)
			}
		}
	})
}

func TestARatingIsExplainedByItsParts(t *testing.T) {
	for name, c := range map[string]struct {
		m                      discovery.Match
		relevance, exploration float64
	}{
		"reviewed": {of(t, 1, 100, 0.9, 0.5), 0.5, 0.107}, "untried": {of(t, 2, 0, 0, 1), 1, 0.25},
		"a bare score": {discovery.Match{Score: 0.9}, 0, 0.25}, "nothing": {discovery.Match{}, 0, 0.25},
	} {
		got := discovery.ExplainRating(&c.m, 100)
		if math.Abs(got.Relevance-c.relevance) > 1e-9 || got.Score != c.m.Score || math.Abs(got.Exploration-c.exploration) > 1e-3 || (got.Evidence > 0) != (c.m.Score > 0) {
			t.Errorf("%s: ExplainRating() = %+v, want relevance %g and exploration %g", name, got, c.relevance, c.exploration)
		}
	}
}
