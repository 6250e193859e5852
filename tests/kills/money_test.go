//go:build unix

package kills

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/account"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/billing/paykeys"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/vacant/claim"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/receipt"
	"github.com/vacancy-host/vacancy/tests/caller"
	"github.com/vacancy-host/vacancy/tests/stripemock"
)

const (
	accountPath = account.OperatorPath + "/acme"
	// The account has funds before the request. A call costs callPrice.
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
	self, err := server.Vacants.HostID(s.ctx)
	s.must(err)
	c := claim.PaymentClaim{Host: self, Account: a.ID}
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
	return request{control: true, path: accountPath + "/credit", body: []byte(`{"amount":5,"note":"bank"}`), header: http.Header{account.IdempotencyHeader: {"invoice-7"}}}
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
	if a := decode[account.Account](s.t, s.get(p, accountPath)); len(a.Links) != 1 || a.Links[0].Caller != s.caller.Key.ID() || a.LastPosition != 3 {
		s.t.Fatalf("%d links by %d changes, want 1 by 3", len(a.Links), a.LastPosition)
	}
}

// withTree sets a price, and makes a key, which makes another, which links the caller.
func withTree(s *stage) {
	s.t.Helper()
	rich(s)
	echo := s.target.vacant(s.t, "echo")
	server, _, done := s.target.aside(s.t, s.target.now)
	defer done()
	_, err := server.Vacants.SetPrice(s.ctx, echo, price.Price{Flat: callPrice})
	s.must(err)
	root, _, err := server.Billing.MakeKey(s.ctx, s.account, billing.KeyOptions{})
	s.must(err)
	child, secret, err := server.Billing.MakeKeyBy(s.ctx, &root, s.account, billing.KeyOptions{})
	s.must(err)
	_, err = server.Billing.LinkBy(s.ctx, &child, s.account, s.claim)
	s.must(err)
	s.root, s.key = root.ID, secret
}

func revokeKey(s *stage) request {
	return request{control: true, method: http.MethodDelete, path: accountPath + "/keys/" + s.root}
}

// revokeKeyAgain revokes the key again. Once the key is revoked, its tree is refused, and at the end
// nothing is left to end.
func revokeKeyAgain(s *stage, p process, r request, _ *response, then fate) {
	s.t.Helper()
	wantTree := func(usable bool) {
		s.t.Helper()
		got, err := p.do(s.keyed(account.TenantPath, nil))
		s.must(err)
		if want := map[bool]int{true: http.StatusOK, false: http.StatusUnauthorized}[usable]; got.status != want {
			s.t.Fatalf("the key that it made = %d %s, want %d", got.status, got.body, want)
		}
		e := s.caller.Call("next", s.target.now())
		got, err = p.do(message(caller.SendPath, e))
		if a := s.read(e, got, err); a.Status != map[bool]int{true: http.StatusOK, false: http.StatusPaymentRequired}[usable] {
			s.t.Fatalf("a call by the link: %v", a)
		} else if usable {
			s.caller.Accepted(e)
		}
	}
	wantTree(then == fresh)
	for range 2 {
		if got, err := p.do(r); err != nil || got.status != http.StatusOK {
			s.t.Fatalf("the revocation again = %d %s, %v", got.status, got.body, err)
		}
		wantTree(false)
	}
	if a := decode[account.Account](s.t, s.get(p, accountPath)); len(a.EndingTrees)+len(a.Links) > 0 {
		s.t.Fatalf("%d links and the trees of %v are left", len(a.Links), a.EndingTrees)
	}
}

func aReceipt(s *stage) request {
	return request{control: true, path: account.OperatorReceiptsPath + s.caller.Key.ID().String() + "/" + s.target.vacant(s.t, "echo").String() + "/" + account.LastPosition}
}

// receiptAgain asks again: the receipt verifies, and a later one is signed by the same key.
func receiptAgain(s *stage, p process, r request, first *response, _ fate) {
	s.t.Helper()
	var keys []identity.ID
	all := []*response{first}
	for range 2 {
		got, err := p.do(r)
		s.must(err)
		all = append(all, &got)
	}
	for _, got := range all {
		if got == nil {
			continue // it died with its host
		}
		one, err := receipt.Parse(got.body)
		if err != nil || one.Verify() != nil {
			s.t.Fatalf("the receipt = %d %s, %v", got.status, got.body, err)
		}
		if keys = append(keys, one.Certificate.Key); keys[0] != one.Certificate.Key {
			s.t.Errorf("receipts are signed by %s and %s", keys[0].Short(), one.Certificate.Key.Short())
		}
	}
	s.next(p)
}

// takesPayments sets the keys of payments.
func takesPayments(s *stage, p process) {
	s.t.Helper()
	for name, value := range map[string]string{paykeys.StripeAPIKey: stripemock.Key, paykeys.StripeWebhookKey: stripemock.Signing} {
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

func aPayment(s *stage) request { return webhookOf(s, s.paid) }

func aRefund(s *stage) request { return webhookOf(s, stripemock.Refunded("pi_1", 500)) }

// isRefunded has a part of the payment refunded before.
func isRefunded(s *stage, p process) {
	s.t.Helper()
	isPaid(s, p)
	if got, err := p.do(aRefund(s)); err != nil || got.status != http.StatusOK {
		s.t.Fatalf("the refund = %d %s, %v", got.status, got.body, err)
	}
}

func aFailedRefund(s *stage) request {
	return webhookOf(s, stripemock.Refund("failed", "pi_1", "re_1", "failed", 500))
}

func webhookOf(s *stage, body string) request {
	return request{path: account.StripePath, body: []byte(body),
		header: http.Header{paykeys.SignatureHeader: {stripemock.Sign(body, stripemock.Signing, s.target.now())}}}
}

func paidAgain(s *stage, p process, r request, _ *response, _ fate) {
	s.t.Helper()
	webhookAgain(s, p, r, funds+25*money.Dollar)
}

func refundAgain(s *stage, p process, r request, _ *response, _ fate) {
	s.t.Helper()
	webhookAgain(s, p, r, funds+20*money.Dollar)
}

// webhookAgain sends a webhook until all of it is done, as Stripe does, and once more.
func webhookAgain(s *stage, p process, r request, want money.Amount) {
	s.t.Helper()
	for range 2 {
		if got, err := p.do(r); err != nil || got.status != http.StatusOK {
			s.t.Fatalf("the webhook again = %d %s, %v", got.status, got.body, err)
		}
	}
	p.stop()
	s.wantBalance(want)
}

// hires publishes a venue of the account's tenant, and makes a key that may book it.
func hires(s *stage, p process) {
	s.t.Helper()
	must := func(r request, want int) response {
		s.t.Helper()
		r.control = true
		got, err := p.do(r)
		if err != nil || got.status != want {
			s.t.Fatalf("%s = %d %s, %v", r.path, got.status, got.body, err)
		}
		return got
	}
	must(request{path: "/v1/admin/vacants", body: []byte(`{"name":"clerk","capability":"answers letters","substrate":"echo","tenant":"acme"}`)}, http.StatusCreated)
	must(request{path: "/v1/admin/vacants/clerk/publish", body: []byte(`{"listing":{"venue":{"slug":"clerk","name":"The Clerk","category":"office","location":"zurich"}}}`)}, http.StatusOK)
	made := must(request{path: accountPath + "/keys", body: []byte(`{"tier":"pro"}`)}, http.StatusCreated)
	s.key = decode[struct{ Secret string }](s.t, made).Secret
}

// keyed is a request by the key of the account.
func (s *stage) keyed(path string, body []byte) request {
	return request{path: path, body: body, header: http.Header{"Authorization": {"Bearer " + s.key}, "Prefer": {"respond-async"}}}
}

// confirm books the venue for the day after tomorrow.
func confirm(s *stage) request {
	return s.keyed("/a2a/v1", fmt.Appendf(nil, `{"from":"acme:agent","intent":"booking.confirm","payload":{"venue_slug":"clerk","starts_at":%q,"idempotency_key":"one"}}`,
		s.target.now().Truncate(24*time.Hour).Add(48*time.Hour).Format(time.RFC3339)))
}

// confirmAgain confirms again: there is one booking, which is paid once and arrives.
func confirmAgain(s *stage, p process, r request, _ *response, _ fate) {
	s.t.Helper()
	got, err := p.do(r)
	s.must(err)
	one := decode[struct {
		ID string `json:"booking_id"`
	}](s.t, got)
	if got.status != http.StatusOK || one.ID == "" {
		s.t.Fatalf("confirmed again: %d %s", got.status, got.body)
	}
	p = s.arrives(p, one.ID, "confirmed", 3)
	p.stop()
	s.wantBalance(funds - money.Dollar/4)
}

// arrives waits until the only booking has a status, and requires a number of rows at
// least. A host sweeps when it starts, so what nobody dispatched is dispatched by the next
// one, minutes later. It returns the host that runs in the end.
func (s *stage) arrives(p process, id, status string, rows int) process {
	s.t.Helper()
	const starts, wait = 10, 30 * time.Second
	var got response
	for range starts {
		for end := time.Now().Add(wait); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			var err error
			got, err = p.do(s.keyed("/v1/bookings/"+id, nil))
			s.must(err)
			b := decode[struct {
				Status  string
				History []any
			}](s.t, got)
			if b.Status != status {
				continue
			}
			all, err := p.do(s.keyed("/v1/bookings", nil))
			s.must(err)
			if n := len(decode[struct{ Bookings []any }](s.t, all).Bookings); n != 1 || len(b.History) < rows {
				s.t.Errorf("%d bookings with %d rows, want 1 with %d: %s", n, len(b.History), rows, all.body)
			}
			return p
		}
		p.stop()
		s.target.(*devTarget).at = s.target.now().Add(3 * time.Minute)
		p = s.target.start(s.t, nil)
	}
	s.t.Fatalf("the booking is %s, want it %s", got.body, status)
	return p
}

// isBooked has a booking accepted before.
func isBooked(s *stage, p process) {
	s.t.Helper()
	hires(s, p)
	got, err := p.do(confirm(s))
	s.must(err)
	s.booking = decode[struct {
		ID string `json:"booking_id"`
	}](s.t, got).ID
	if s.arrives(p, s.booking, "confirmed", 3) != p {
		s.t.Fatal("the booking was not dispatched by the host that took it")
	}
}

func cancel(s *stage) request {
	return s.keyed("/v1/bookings/"+s.booking+"/cancel", []byte(`{}`))
}

// cancelAgain cancels again: it is cancelled once, and what was paid stays.
func cancelAgain(s *stage, p process, r request, _ *response, _ fate) {
	s.t.Helper()
	for range 2 {
		if got, err := p.do(r); err != nil || got.status != http.StatusOK {
			s.t.Fatalf("cancelled again: %d %s, %v", got.status, got.body, err)
		}
	}
	s.arrives(p, s.booking, "cancelled", 4)
	p.stop()
	s.wantBalance(funds - money.Dollar/4)
}
