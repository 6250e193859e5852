//go:build unix

package kills

import (
	"net/http"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/openai/openaiwire"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
)

// completing makes a key of an account, and sets a price.
func completing(s *stage) {
	s.t.Helper()
	rich(s)
	echo := s.target.vacant(s.t, "echo")
	server, _, done := s.target.aside(s.t, s.target.now)
	defer done()
	_, err := server.Vacants.SetPrice(s.ctx, echo, price.Price{Flat: callPrice})
	s.must(err)
	_, s.key, err = server.Billing.MakeKey(s.ctx, s.account, billing.KeyOptions{})
	s.must(err)
}

// completion is a chat completion, as a client of OpenAI's API asks for it.
func completion(s *stage, text string) request {
	return request{
		path: "/v/" + s.target.vacant(s.t, "echo").String() + openaiwire.CompletionsPath, body: []byte(`{"model":"echo","messages":[{"role":"user","content":"` + text + `"}]}`),
		header: http.Header{"Authorization": {"Bearer " + s.key}},
	}
}

// aCompletion is sent again by the number of its retry, as the stock clients do.
func aCompletion(s *stage) request { return completion(s, "hi") }

// aKeyedCompletion is sent again by its key.
func aKeyedCompletion(s *stage) request {
	r := completion(s, "hi")
	r.header.Set(openaiwire.IdempotencyHeader, "one")
	return r
}

// completionAgain sends a completion again, as a client does that lost its connection: it is charged once, or
// void and free, and nothing runs twice.
func completionAgain(s *stage, p process, r request, first *response, then fate) {
	s.t.Helper()
	if r.header.Get(openaiwire.IdempotencyHeader) == "" {
		r.header.Set(openaiwire.RetryCountHeader, "1")
	}
	do, paid := p.do, 1
	if then == pending {
		do, paid = p.later(past), 0
	}
	var answers []string
	for range 2 {
		got, err := do(r)
		s.must(err)
		if (got.status == http.StatusOK) != (paid == 1) || paid == 0 && !strings.Contains(string(got.body), `"error":{`) {
			s.t.Fatalf("sent again: %d %s; want it %s", got.status, got.body, then)
		}
		if paid == 1 {
			answers = append(answers, decode[struct{ ID string }](s.t, got).ID)
		}
	}
	if first != nil && first.status == http.StatusOK {
		answers = append(answers, decode[struct{ ID string }](s.t, *first).ID)
	}
	for _, id := range answers {
		if id == "" || id != answers[0] {
			s.t.Errorf("the answers are of %q, want one", answers)
		}
	}
	if got, err := do(completion(s, "next")); err != nil || got.status != http.StatusOK {
		s.t.Fatalf("the next completion = %d %s, %v", got.status, got.body, err)
	}
	p.stop()
	s.wantBalance(funds - money.Amount(paid+1)*callPrice)
}
