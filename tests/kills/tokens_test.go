//go:build unix

package kills

import (
	"bytes"
	"net/http"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/account"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/billing/tokens/tokenstest"
	"github.com/vacancy-host/vacancy/shared/host/money"
)

const issuersPath = "/v1/admin/issuers"

// loginURL is an issuer that nobody asks, because no token of it comes.
const loginURL = "https://login.example.com"

func addIssuer(*stage) request {
	return request{control: true, method: http.MethodPost, path: issuersPath, body: []byte(`{"tenant":"acme","issuer":"` + loginURL + `","cap":1,"most":2,"anybody":true}`)}
}

func issuers(s *stage, p process) []billing.Issuer {
	s.t.Helper()
	return decode[account.Issuers](s.t, s.get(p, issuersPath)).Issuers
}

func addIssuerAgain(s *stage, p process, r request, _ *response, then fate) {
	s.t.Helper()
	if there := len(issuers(s, p)) == 1; there != (then == done) {
		s.t.Fatalf("the issuer is there: %t, want %s", there, then)
	}
	got, err := p.do(r)
	s.must(err)
	if got.status != http.StatusCreated || len(issuers(s, p)) != 1 {
		s.t.Fatalf("again: %d %s, want 201 and one issuer", got.status, got.body)
	}
}

func removeIssuer(s *stage) request {
	return request{control: true, method: http.MethodDelete, path: issuersPath + "/" + s.issuer}
}

// taken has an issuer of acme.
func taken(s *stage) {
	s.t.Helper()
	rich(s)
	s.addIssuer(loginURL)
}

func (s *stage) addIssuer(url string) {
	s.t.Helper()
	server, _, end := s.target.aside(s.t, s.target.now)
	defer end()
	i, err := server.Billing.AddIssuer(s.ctx, s.account, url, billing.IssuerOptions{Audiences: []string{"api://kills"}, SubjectDailyCap: money.Dollar, TotalDailyCap: money.Dollar, AllowAll: true})
	s.must(err)
	s.issuer = i.ID
}

func removeIssuerAgain(s *stage, p process, r request, _ *response, then fate) {
	s.t.Helper()
	if there := len(issuers(s, p)) == 1; there != (then == fresh) {
		s.t.Fatalf("the issuer is there: %t, want %s", there, then)
	}
	got, err := p.do(r)
	s.must(err)
	want := map[fate]int{fresh: http.StatusOK, done: http.StatusNotFound}[then]
	if got.status != want || len(issuers(s, p)) != 0 {
		s.t.Fatalf("again: %d %s, want %d and no issuer", got.status, got.body, want)
	}
}

// subject has an issuer whose subjects acme pays for, and a token of it.
func subject(s *stage) {
	s.t.Helper()
	priced(s)
	login := tokenstest.New()
	s.t.Cleanup(login.Close)
	s.addIssuer(login.URL)
	var err error
	s.key, err = tokenstest.Sign("ES256", "ES256", map[string]any{"iss": login.URL, "sub": "ann", "aud": "api://kills", "exp": time.Now().AddDate(1, 0, 0).Unix()}, nil)
	s.must(err)
}

// aSubjectsMessage is a message with an id, by a token.
func aSubjectsMessage(s *stage) request {
	return request{
		path:   "/v/" + s.target.vacant(s.t, "echo").String(),
		body:   []byte(`{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"once","role":"ROLE_USER","parts":[{"text":"hi"}]}}}`),
		header: http.Header{"A2a-Version": {"1.0"}, "Authorization": {"Bearer " + s.key}},
	}
}

// subjectAgain sends the message again: it is answered and paid for once, or its task has failed and is
// free.
func subjectAgain(s *stage, p process, r request, _ *response, then fate) {
	s.t.Helper()
	state, paid, ask := "TASK_STATE_COMPLETED", 1, p.do
	if then == pending {
		state, paid, ask = "TASK_STATE_FAILED", 0, p.later(past)
	}
	for range 2 {
		got, err := ask(r)
		s.must(err)
		if got.status != http.StatusOK || !bytes.Contains(got.body, []byte(state)) {
			s.t.Fatalf("again: %d %s, want a task that is %s", got.status, got.body, state)
		}
	}
	p.stop()
	s.wantBalance(funds - money.Amount(paid)*callPrice)
}
