//go:build unix

package kills

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/vacancy-host/vacancy/shared/front/account"
	"github.com/vacancy-host/vacancy/shared/host/billing/money"
	"github.com/vacancy-host/vacancy/shared/host/billing/paykeys"
	"github.com/vacancy-host/vacancy/shared/host/billing/price"
	"github.com/vacancy-host/vacancy/shared/vacant/claim"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/tests/stripemock"
)

const (
	accountPath = account.OperatorPath + "/acme"
	// funds are what the account has before the request, callPrice is what a call costs.
	funds     = money.Dollar
	callPrice = 2000
)

// rich opens the account of acme, with one shard: which one a call takes is random. The
// caller signs a claim of a link.
func rich(s *stage) {
	s.t.Helper()
	server, _, done := s.target.aside(s.t, s.target.now)
	defer done()
	s.must(server.Texts.Warm(s.ctx))
	a, err := server.Billing.OpenAccount(s.ctx, "acme", 1)
	s.must(err)
	_, _, err = server.Billing.Credit(s.ctx, a.ID, funds, "first", "")
	s.must(err)
	self, err := server.Vacants.SelfID(s.ctx)
	s.must(err)
	c := claim.Claim{Host: self, Account: a.ID}
	s.must(c.Sign(s.ctx, s.caller.Key, s.target.now()))
	s.account, s.claim = a.ID, c.String()
}

// priced sets a price, and links the caller to the account.
func priced(s *stage) {
	s.t.Helper()
	rich(s)
	echo, failing := s.target.vacant(s.t, "echo"), s.target.vacant(s.t, "failing")
	server, _, done := s.target.aside(s.t, s.target.now)
	defer done()
	for _, id := range []identity.ID{echo, failing} {
		_, err := server.Vacants.SetPrice(s.ctx, id, price.Price{Flat: callPrice})
		s.must(err)
	}
	_, err := server.Billing.Link(s.ctx, s.account, s.claim)
	s.must(err)
}

// pricedAgain is callAgain; what was answered is paid for, and nothing else.
func pricedAgain(s *stage, p process, r request, first *response, then fate) {
	s.t.Helper()
	callAgain(s, p, r, first, then)
	answered := 2 // this call and the next
	switch {
	case r.envelope.To == s.target.vacant(s.t, "failing"):
		answered = 0
	case then == pending || then == unanswered:
		answered = 1
	}
	p.stop()
	s.wantBalance(funds - money.Amount(answered)*callPrice)
}

// wantBalance requires what the account has, while no host runs.
func (s *stage) wantBalance(want money.Amount) {
	s.t.Helper()
	server, _, done := s.target.aside(s.t, s.target.now)
	defer done()
	a, err := server.Billing.Account(s.ctx, s.account)
	s.must(err)
	got, err := server.Billing.Balance(s.ctx, &a)
	s.must(err)
	if got != want {
		s.t.Errorf("the balance is %s, want %s", got, want)
	}
}

func aCredit(*stage) request {
	return request{control: true, path: accountPath + "/credit", body: []byte(`{"amount":5,"note":"bank"}`), header: http.Header{account.IdempotencyKey: {"invoice-7"}}}
}

// creditAgain makes the credit again: it counts once.
func creditAgain(s *stage, p process, r request, _ *response, _ fate) {
	s.t.Helper()
	for range 2 {
		got, err := p.do(r)
		s.must(err)
		if a := decode[account.Account](s.t, got); got.status != http.StatusOK || a.Balance != funds+5 {
			s.t.Fatalf("the credit again = %d %s, want the balance %s", got.status, got.body, funds+5)
		}
	}
}

func aLink(s *stage) request {
	body, err := json.Marshal(map[string]string{"claim": s.claim})
	s.must(err)
	return request{control: true, path: accountPath + "/links", body: body}
}

// linkAgain brings the claim again: there is one link, by one row.
func linkAgain(s *stage, p process, r request, _ *response, _ fate) {
	s.t.Helper()
	if got, err := p.do(r); err != nil || got.status != http.StatusCreated {
		s.t.Fatalf("the link again = %d %s, %v", got.status, got.body, err)
	}
	if a := decode[account.Account](s.t, s.get(p, accountPath)); len(a.Links) != 1 || a.Links[0].Caller != s.caller.Key.ID() || a.Changes != 3 {
		s.t.Fatalf("%d links by %d changes, want 1 by 3", len(a.Links), a.Changes)
	}
}

// takesPayments sets the keys of payments.
func takesPayments(s *stage, p process) {
	s.t.Helper()
	for name, value := range map[string]string{paykeys.Stripe: stripemock.Key, paykeys.StripeWebhook: stripemock.Signing} {
		r := request{control: true, method: http.MethodPut, path: "/v1/admin/payments/" + name, body: fmt.Appendf(nil, `{"value":%q}`, value)}
		if got, err := p.do(r); err != nil || got.status != http.StatusOK {
			s.t.Fatalf("%s = %d %s, %v", name, got.status, got.body, err)
		}
	}
	got, err := p.do(request{path: account.TenantPath + "/host"})
	s.must(err)
	host := decode[account.Host](s.t, got)
	s.paid = stripemock.Paid("pi_1", host.ID.String(), s.account, 2500)
}

// isPaid has the payment credited before.
func isPaid(s *stage, p process) {
	s.t.Helper()
	takesPayments(s, p)
	if got, err := p.do(aPayment(s)); err != nil || got.status != http.StatusOK {
		s.t.Fatalf("the payment = %d %s, %v", got.status, got.body, err)
	}
}

func aPayment(s *stage) request { return notice(s, s.paid) }

func aRefund(s *stage) request { return notice(s, stripemock.Refunded("pi_1", 500)) }

func notice(s *stage, body string) request {
	return request{path: account.StripePath, body: []byte(body),
		header: http.Header{paykeys.SignatureHeader: {stripemock.Sign(body, stripemock.Signing, s.target.now())}}}
}

func paidAgain(s *stage, p process, r request, _ *response, _ fate) {
	s.t.Helper()
	noticeAgain(s, p, r, funds+25*money.Dollar)
}

func refundAgain(s *stage, p process, r request, _ *response, _ fate) {
	s.t.Helper()
	noticeAgain(s, p, r, funds+20*money.Dollar)
}

// noticeAgain sends a notice until all of it is done, as Stripe does, and once more.
func noticeAgain(s *stage, p process, r request, want money.Amount) {
	s.t.Helper()
	for range 2 {
		if got, err := p.do(r); err != nil || got.status != http.StatusOK {
			s.t.Fatalf("the notice again = %d %s, %v", got.status, got.body, err)
		}
	}
	p.stop()
	s.wantBalance(want)
}
