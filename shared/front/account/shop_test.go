package account_test

import (
	"context"
	"crypto/rand"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/account"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/call/calltest"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/usage"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/bolt"
	"github.com/vacancy-host/vacancy/shared/vacant/claim"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// shop is an account that pays for a caller of a vacant with a price by tokens. Each call
// takes two thousand tokens, of a dollar a million.
type shop struct {
	*fixture
	file   *bolt.Store
	clock  *calltest.Clock
	key    string
	during func() // called within a call, unless nil
	send   func(text string)
	meter  *usage.Meter
}

func openShop(t *testing.T, clock *calltest.Clock) *shop {
	t.Helper()
	file, err := bolt.Open(filepath.Join(t.TempDir(), "data"), bolt.Options{})
	must(t, err)
	t.Cleanup(func() { file.Close() })
	now := clock.NowFunc(0)
	f := newFixtureOver(t, file, now)
	ctx, s := t.Context(), &shop{fixture: f, file: file, clock: clock, key: f.key()}
	_, _, err = f.billing.Credit(ctx, f.account.ID, 10_000, "first", "")
	must(t, err)
	vacant, who := newKey(t), newKey(t)
	p := &price.Price{Version: 1, InputPrice: 1_000_000, MaxCharge: 3000}
	data, err := price.VersionDocs.Encode(*p)
	must(t, err)
	must(t, file.Commit(ctx, store.Put{Key: price.VersionKey(vacant.ID(), 1), WriteID: store.WriteID{1}, Data: data}))
	one := claim.PaymentClaim{Host: hostID, Account: f.account.ID}
	must(t, one.Sign(ctx, who, now()))
	_, err = f.billing.Link(ctx, f.account.ID, one.String())
	must(t, err)
	host := call.New(call.Config{
		Store: file, Texts: &calltest.Texts{}, Now: now, Rand: rand.Reader, Ledger: f.billing,
		Self: func(context.Context) (identity.ID, error) { return hostID, nil },
		Directory: call.SingleVacant{ID: vacant.ID(), State: lifecycle.Active, Signer: vacant, Price: p, Behaviour: func(ctx context.Context, _ *call.Host, e envelope.Envelope) (envelope.Message, error) {
			if s.during != nil {
				s.during()
			}
			if e.Payload.Text() == "fail" {
				return envelope.Message{}, errors.New("it fails")
			}
			call.RecordUsage(ctx, call.Usage{InputTokens: 2000})
			return envelope.Message{Role: envelope.RoleAgent, Parts: []string{"yes"}}, nil
		}},
	})
	var before *envelope.Envelope
	s.send = func(text string) {
		t.Helper()
		e := &envelope.Envelope{From: who.ID(), To: vacant.ID(), Seq: 1, Time: now().UTC().Truncate(time.Microsecond), Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{text}}}
		if before != nil {
			e.Seq, e.Prev = before.Seq+1, before.Hash()
		}
		_, err := e.Sign(ctx, who)
		must(t, err)
		if out := host.Send(ctx, identity.ID{}, e); (out.Problem != nil) != (text == "fail") {
			t.Errorf("a call %q: %v", text, out.Problem)
		}
		before = e
	}
	s.meter = &usage.Meter{Store: file, Feed: file, Now: now, Rand: rand.Reader, TenantOf: func(context.Context, identity.ID) (string, error) { return "acme", nil }}
	return s
}

func (s *shop) fold() {
	s.Helper()
	_, err := s.meter.Fold(s.Context())
	must(s.T, err)
}

// The amount that a call holds is neither in the balance nor spent. At each moment balance,
// held and spent add up to the credits.
func TestHeldIsWhatCallsHaveTakenAndUsageDoesNotCount(t *testing.T) {
	s := openShop(t, calltest.NewClock(time.Now()))
	_, err := s.billing.SetCreditLine(t.Context(), s.account.ID, 5_000, "")
	must(t, err)
	wants := func(balance, held string) {
		t.Helper()
		s.do("GET", account.TenantPath, "", s.key, 200, `"balance":`+balance+`,"held":`+held+`,`)
	}
	wants("15000", "0")
	s.during = func() { wants("12000", "3000") } // the most that the call may cost
	s.send("fail")
	wants("15000", "0") // given back at once
	s.send("hi")
	wants("13000", "2000") // what it cost
	s.fold()
	wants("13000", "0")
	_, _, err = s.billing.Adjust(t.Context(), s.account.ID, -1000, "second", "agreed")
	must(t, err)
	wants("12000", "0")
}

// A call belongs to the month, the day and the hour in which it was answered, in UTC.
func TestAMonthEndsAtMidnight(t *testing.T) {
	clock := calltest.NewClock(time.Date(2026, 12, 31, 23, 59, 59, 999_999_000, time.UTC))
	s := openShop(t, clock)
	s.send("the last of the year")
	clock.Advance(time.Microsecond)
	s.send("the first of the next")
	s.send("the second")
	s.fold()
	for month, want := range map[string]string{
		"2026-11": `"credited":0,"spent":0,"gross":0,`, "2026-12": `"credited":10000,"spent":2000,"gross":2000,`, "2027-01": `"credited":0,"spent":4000,"gross":4000,`,
	} {
		s.do("GET", account.TenantPath+"/statement?month="+month, "", s.key, 200, want)
	}
	s.do("GET", account.TenantPath+"/statement", "", s.key, 200, `"month":"2027-01"`)
	s.do("GET", account.UsagePath, "", s.key, 200, `"answers":2,`)
	days := s.do("GET", account.UsagePath+"?by=hour&from=2026-12-01", "", s.key, 200, `{"hour":"2026-12-31T23","answers":1,`)
	if hours := days["paid"].([]any); len(hours) != 2 || hours[1].(map[string]any)["hour"] != "2027-01-01T00" {
		t.Errorf("hours: %v, want the last of 2026 and the first of 2027", hours)
	}
	old := s.do("GET", account.UsagePath+"?from=2026-12-31&until=2027-01-01&by=day", "", s.key, 200, `"paid":[{"day":"2026-12-31","answers":1,`)
	if paid := old["paid"].([]any); len(paid) != 1 {
		t.Errorf("days until 2027: %v, want one", paid)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newKey(t *testing.T) *identity.Key {
	t.Helper()
	k, err := identity.NewKey(rand.Reader)
	must(t, err)
	return k
}

// A statement has what was paid in and what paid a debt, and no line. What is owed is never
// below zero.
func TestAStatementCountsWhatWasPaidIn(t *testing.T) {
	clock := calltest.NewClock(time.Date(2026, 12, 31, 23, 59, 59, 0, time.UTC))
	s := openShop(t, clock) // with a credit of 10000
	statement := func(month, want string) {
		t.Helper()
		s.do("GET", account.TenantPath+"/statement?month="+month, "", s.key, 200, want)
	}
	_, err := s.billing.SetCreditLine(t.Context(), s.account.ID, 5000, "")
	must(t, err)
	statement("2026-12", `"credited":10000,`)
	statement("2026-12", `"balance":15000,"owed":0}`)
	clock.Advance(time.Second)
	// A payment that is taken back after it was spent is owed, and the next credit pays it.
	must(t, s.billing.SettlePayment(t.Context(), billing.Event{PaymentID: "pi_1", Account: s.account.ID, Paid: 6000}))
	_, _, err = s.billing.Adjust(t.Context(), s.account.ID, -18_000, "spend", "spent")
	must(t, err)
	must(t, s.billing.SettlePayment(t.Context(), billing.Event{PaymentID: "pi_1", RefundedTotal: 6000}))
	statement("2027-01", `"credited":-18000,`)
	statement("2027-01", `"balance":0,"owed":8000}`) // 5000 of the line, 3000 of the payment
	_, _, err = s.billing.Credit(t.Context(), s.account.ID, 4000, "second", "")
	must(t, err)
	statement("2027-01", `"credited":-14000,`)
	statement("2027-01", `"balance":1000,"owed":4000}`)
	statement("2026-12", `"credited":10000,`)
}

func TestUsageSpansAtMost400Days(t *testing.T) {
	s := openShop(t, calltest.NewClock(time.Now()))
	s.do("GET", account.UsagePath+"?from=2025-01-01&until=2026-02-05", "", s.key, 200, `"paid":[]`)
	s.do("GET", account.UsagePath+"?from=2025-01-01&until=2026-02-06", "", s.key, 400, "at most 400 days after from")
	s.do("GET", account.UsagePath+"?from=2025-01-01&until=2025-01-01", "", s.key, 400, "a time after from")
}
