package loop_test

import (
	"context"
	"crypto/rand"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/loop"
	"github.com/vacancy-host/vacancy/shared/host/substrate/models"
	"github.com/vacancy-host/vacancy/shared/host/substrate/openai"
	"github.com/vacancy-host/vacancy/shared/host/substrate/spend"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// paid returns the spending of a call, and a function that reads the total.
func paid(t *testing.T, budget money.Amount) (c *spend.Call, spent func() money.Amount) {
	t.Helper()
	s := memory.New()
	now := func() time.Time { return time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC) }
	all := spend.New(store.Updater{Store: s, Rand: rand.Reader}, now, 100*money.Dollar)
	c = all.BeginCall(spend.Payer{Vacant: identity.ID{2}, DailyBudget: 100 * money.Dollar, CallBudget: budget}, spend.Prices{
		Model:    models.Price{InputPrice: money.Dollar, OutputPrice: 10 * money.Dollar, CachedPrice: money.Dollar},
		Fallback: models.Price{InputPrice: money.Dollar, OutputPrice: money.Dollar, CachedPrice: money.Dollar}, Version: 3,
	})
	return c, func() money.Amount {
		d, err := s.Doc(t.Context(), store.Key{Partition: "spend#host", Sort: "2026-05-06"})
		if err != nil {
			t.Fatal(err)
		}
		return money.Amount(d.Number)
	}
}

// bill returns the last usage of an answer.
func bill(t *testing.T, c loop.Config) (substrate.Usage, error) {
	t.Helper()
	a, err := substrate.ReadAnswer(loop.New(c).Infer(t.Context(), question()))
	if a.Usage == nil {
		return substrate.Usage{}, err
	}
	return *a.Usage, err
}

func with(u substrate.Usage, events ...any) []any { return append([]any{u}, events...) }

func TestTurnsAreReservedAndSettled(t *testing.T) {
	m := &model{turns: [][]any{
		with(substrate.Usage{InputTokens: 500, OutputTokens: 40}, uses(`look {"at":"it"}`)...),
		with(substrate.Usage{InputTokens: 700, OutputTokens: 60}, says("seen")...),
	}}
	c, spent := paid(t, -1)
	got, err := bill(t, loop.Config{Agent: agent(t, `,"max_tokens":100`), Model: m, Spending: c, Offer: loop.Offer{Tools: []loop.Tool{tool("look", echo)}}})
	want := substrate.Usage{InputTokens: 1200, OutputTokens: 100, Turns: 2, ToolCalls: 1, Cost: 1200 + 1000, PriceTableVersion: 3}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v, usage (-want +got):\n%s", err, diff)
	}
	if spent() != 2200 {
		t.Errorf("%d is spent, want 2200", spent())
	}
}

func TestMaxTokensIsLimitedByTheBudget(t *testing.T) {
	result := strings.Repeat("x", 2000)
	m := &model{turns: [][]any{
		with(substrate.Usage{InputTokens: 300, OutputTokens: 10}, uses("look")...),
		says("seen"), // nothing is said of the usage
	}}
	c, spent := paid(t, 20_000)
	got, err := bill(t, loop.Config{Agent: agent(t, ``), Model: m, Spending: c, Offer: loop.Offer{Tools: []loop.Tool{tool("look", func(context.Context, string) (string, error) { return result, nil })}}})
	if err != nil {
		t.Fatal(err)
	}
	// 1. The question, the tool and what is added: 1024 + 8 + 4 + 17 = 1053 tokens.
	// 2. 310 that were counted, 2008 for the call and its result, and what is added:
	// 3342 of the 19600 that are left.
	var asked []int
	for _, r := range m.asked {
		asked = append(asked, r.MaxTokens)
	}
	if diff := cmp.Diff([]int{(20_000 - 1053) / 10, (19_600 - 3342) / 10}, asked); diff != "" {
		t.Errorf("the model may say (-want +got):\n%s", diff)
	}
	if got.MaxTokens != asked[1] {
		t.Errorf("the usage says %d of max_tokens, want what is left for the last turn", got.MaxTokens)
	}
	if got.UnreportedTurns != 1 || got.Cost != 19_992 || spent() != 19_992 {
		t.Errorf("usage %+v, %d is spent; want that a turn of which nothing is known is paid in full", got, spent())
	}
}

// An answer that ends at its limit says whether a budget set the limit.
func TestAnAnswerIsCutByTheBudgetOrByItsOwnLimit(t *testing.T) {
	for members, want := range map[string]substrate.FinishReason{``: substrate.FinishBudget, `,"max_tokens":100`: substrate.FinishLength} {
		c, _ := paid(t, 20_000)
		a, err := substrate.ReadAnswer(loop.New(loop.Config{Agent: agent(t, members), Model: &model{turns: [][]any{{substrate.Text("so"), substrate.FinishLength}}}, Spending: c}).Infer(t.Context(), question()))
		if a.Reason != want || err != nil {
			t.Errorf("agent %s: the answer ends by %q, %v, want %q", members, a.Reason, err, want)
		}
	}
	c, _ := paid(t, 20_000)
	_, err := substrate.ReadAnswer(loop.New(loop.Config{Agent: agent(t, ``), Model: &model{turns: [][]any{{substrate.FinishLength}}}, Spending: c}).Infer(t.Context(), question()))
	if err == nil || !strings.Contains(problem.AsError(err).Text(), "budget") {
		t.Errorf("without a word: %v, want the budget named", err)
	}
}

func TestABudgetEndsACallInItsMiddle(t *testing.T) {
	m := &model{turns: [][]any{with(substrate.Usage{InputTokens: 900, OutputTokens: 400}, uses("look")...)}}
	c, spent := paid(t, 10_000)
	got, err := bill(t, loop.Config{Agent: agent(t, ``), Model: m, Spending: c, Offer: loop.Offer{Tools: []loop.Tool{tool("look", echo)}}})
	if !problem.Is(err, problem.BudgetExceeded) || len(m.asked) != 2 {
		t.Errorf("%v after %d turns, want budget_exceeded after 2", err, len(m.asked))
	}
	if got.Turns != 2 || got.Cost != 9800 || spent() != 9800 {
		t.Errorf("usage %+v, %d is spent; want 2 turns for 9800", got, spent())
	}
}

func TestCostOfFailedTurns(t *testing.T) {
	refused := &call.AgentError{Status: 529, Err: problem.New(problem.SubstrateBusy, "overloaded")}
	cut := problem.New(problem.SubstrateUnavailable, "cut off")
	for name, tt := range map[string]struct {
		model, fallback [][]any
		turns, cost     int
	}{
		"refused, and then by the fallback": {[][]any{{refused}}, [][]any{with(substrate.Usage{InputTokens: 10, OutputTokens: 5}, says("yes")...)}, 2, 15},
		"refused by both":                   {[][]any{{refused}}, [][]any{{refused}}, 2, 0},
		"broken off after a first usage":    {[][]any{with(substrate.Usage{InputTokens: 10, OutputTokens: 1}, substrate.Text("so"), cut)}, [][]any{says("never")}, 1, 1032 + 1000},
		"never sent":                        {[][]any{{cut}}, [][]any{says("never")}, 1, 0},
		"cut off before its first word":     {[][]any{with(substrate.Usage{InputTokens: 10, OutputTokens: 5}, substrate.Thought("hm"), substrate.FinishLength)}, [][]any{says("never")}, 1, 60},
	} {
		c, spent := paid(t, -1)
		got, _ := bill(t, loop.Config{Agent: agent(t, `,"max_tokens":100,"fallback_model":"n"`), Model: &model{turns: tt.model}, Fallback: &model{turns: tt.fallback}, Spending: c})
		if got.Turns != tt.turns || got.Cost != tt.cost || int(spent()) != tt.cost {
			t.Errorf("%s: usage %+v, %d is spent; want %d turns for %d", name, got, spent(), tt.turns, tt.cost)
		}
	}
}

// A request that is sent again without a member that the server refuses is one turn, which costs its answer.
func TestARefusedMemberCostsNothing(t *testing.T) {
	for what, tt := range map[string]struct {
		answer string
		cost   int
	}{
		"then an answer":         {"data: {\"choices\":[{\"delta\":{\"content\":\"yes\"},\"finish_reason\":\"stop\"}]}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":5}}\n\n", 60},
		"then another refusal":   {"", 0},
		"then half of an answer": {"data: {\"choices\":[{\"delta\":{\"content\":\"ye\"}}]}\n\n", 1032 + 1000},
	} {
		requests := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if requests++; requests == 1 || tt.answer == "" {
				w.WriteHeader(http.StatusBadRequest)
				_, _ = w.Write([]byte("stream_options: not supported"))
				return
			}
			_, _ = w.Write([]byte(tt.answer))
		}))
		defer server.Close()
		anybody := func(context.Context, outbound.Actor, string) error { return nil }
		m, err := openai.Kinds(outbound.New(outbound.Options{AllowLoopback: true, Guard: anybody})).Open(substrate.Spec{Kind: substrate.KindOpenAI, Argument: server.URL + "#m"})
		if err != nil {
			t.Fatal(err)
		}
		c, spent := paid(t, -1)
		got, err := bill(t, loop.Config{Agent: agent(t, `,"max_tokens":100`), Model: m, Spending: c})
		if requests != 2 || got.Turns != 1 || got.Cost != tt.cost || int(spent()) != tt.cost {
			t.Errorf("%s: %v, usage %+v after %d requests, %d is spent; want one turn for %d", what, err, got, requests, spent(), tt.cost)
		}
	}
}

func TestATurnThatWasNotSentCostsNothing(t *testing.T) {
	hangsUp := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer hangsUp.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for url, want := range map[string]int{hangsUp.URL: 1032 + 1000, gone.URL: 0} {
		c, spent := paid(t, -1)
		asks := substrate.Func(func(ctx context.Context, _ substrate.Request) (string, error) {
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, err = http.DefaultClient.Do(r)
			return "", problem.Wrap(problem.SubstrateUnavailable, err, "no answer")
		})
		got, err := bill(t, loop.Config{Agent: agent(t, `,"max_tokens":100`), Model: asks, Spending: c})
		if !problem.Is(err, problem.SubstrateUnavailable) || got.Cost != want || int(spent()) != want {
			t.Errorf("usage %+v, %v, %d is spent; want %d", got, err, spent(), want)
		}
	}
}

func TestADeadlineInAToolIsSettled(t *testing.T) {
	m := &model{turns: [][]any{with(substrate.Usage{InputTokens: 500, OutputTokens: 40}, uses("look")...)}}
	c, spent := paid(t, -1)
	ctx, cancel := context.WithCancel(t.Context())
	slow := tool("look", func(ctx context.Context, _ string) (string, error) { cancel(); <-ctx.Done(); return "", ctx.Err() })
	a, err := substrate.ReadAnswer(loop.New(loop.Config{Agent: agent(t, ``), Model: m, Spending: c, Offer: loop.Offer{Tools: []loop.Tool{slow}}}).Infer(ctx, question()))
	if err == nil || a.Usage == nil || a.Usage.Cost != 900 || spent() != 900 {
		t.Errorf("%v, usage %+v, %d is spent; want 900", err, a.Usage, spent())
	}
}

func TestAFreeCallHasNoCost(t *testing.T) {
	got, err := bill(t, loop.Config{Agent: agent(t, ``), Model: &model{turns: [][]any{with(substrate.Usage{InputTokens: 5, OutputTokens: 5}, says("yes")...)}}})
	if err != nil || got.Cost != 0 || got.PriceTableVersion != 0 {
		t.Errorf("usage %+v, %v", got, err)
	}
}
