package agp_test

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/billing"
	hostbooking "github.com/vacancy-host/vacancy/shared/host/booking"
	"github.com/vacancy-host/vacancy/shared/host/fsck"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/usage"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/listing"
)

// damaged is a store that shows some documents and rows otherwise.
type damaged struct {
	fsck.Source
	key    store.Key
	doc    func(*store.Doc)
	stream store.Stream
	row    func(*store.Row)
}

func (d *damaged) Walk(ctx context.Context, fn func(store.View) error) error {
	return d.Source.Walk(ctx, func(v store.View) error { return fn(damagedView{v, d}) })
}

type damagedView struct {
	store.View
	*damaged
}

func (v damagedView) Doc(ctx context.Context, k store.Key) (store.Doc, error) {
	d, err := v.View.Doc(ctx, k)
	if k == v.key {
		v.doc(&d)
	}
	return d, err
}

func (v damagedView) Rows(ctx context.Context, s store.Stream, from uint64, n int, d store.Direction) ([]store.Row, error) {
	rows, err := v.View.Rows(ctx, s, from, n, d)
	if s == v.stream {
		for i := range rows {
			rows[i] = store.CloneRow(rows[i])
			v.row(&rows[i])
		}
	}
	return rows, err
}

// What a confirm costs is held until usage counts it, and what a cancellation gives back is
// in neither.
func TestBookingsAreHeldUntilUsageCountsThem(t *testing.T) {
	n := open(t, true)
	n.venue("warung", substrate.KindMock, func(v *listing.Venue) { v.Capacity = 9 })
	held := func() money.Amount {
		t.Helper()
		acme, err := n.Server.Billing.Account(t.Context(), n.acme.ID)
		n.Must(err)
		balance, err := n.Server.Billing.Balance(t.Context(), &acme)
		n.Must(err)
		added, err := n.Server.Billing.SumChanges(t.Context(), &acme, func(c billing.Change) money.Amount { return c.Amount })
		n.Must(err)
		n.Must(usage.EachSpentDay(t.Context(), n.Store, n.acme.ID, func(_ time.Time, spent money.Amount) error {
			added -= spent
			return nil
		}))
		return added - balance
	}
	n.confirmed(n.pro, `{"venue_slug":"warung","starts_at":"2026-12-24T19:00:00Z"}`)
	n.said = func(string) (string, error) { return "", errDown }
	n.venue("down", substrate.KindMock, nil)
	n.confirmed(n.pro, `{"venue_slug":"down"}`)
	for range 45 { // until the second is given up
		n.sweep()
	}
	if got := held(); got != 250_000 {
		t.Errorf("held %s, want a booking of $0.25", got)
	}
	n.Clock.Advance(48 * time.Hour)
	r := usage.Recounter{Meter: &usage.Meter{Store: n.Store, Now: n.Clock.NowFunc(0), Rand: rand.Reader, TenantOf: func(context.Context, identity.ID) (string, error) { return "", nil }},
		Rows: n.Store, Fold: func(context.Context) error { return nil }}
	if done, err := r.Recount(t.Context()); err != nil || done.Corrected == 0 {
		t.Fatalf("Recount() = %+v, %v, want days that usage did not have", done, err)
	}
	if got := held(); got != 0 {
		t.Errorf("held %s after usage counts it, want nothing", got)
	}
	n.WantWhole(n.Store)
}

func TestVerifyRecountsBookings(t *testing.T) {
	n := open(t, true)
	n.venue("warung", substrate.KindMock, func(v *listing.Venue) { v.Capacity = 9 })
	n.venue("down", substrate.KindMock, nil)
	first, _ := n.confirmed(n.pro, `{"venue_slug":"warung","starts_at":"2026-12-24T19:00:00Z"}`)
	n.confirmed(n.test, `{"venue_slug":"test"}`)
	n.said = func(string) (string, error) { return "", errDown }
	lost, _ := n.confirmed(n.pro, `{"venue_slug":"down"}`)
	for range 45 {
		n.sweep()
	}
	if found := n.Findings(n.Store); len(found) > 0 {
		t.Fatalf("a whole host is found to be %v", found)
	}
	event := func(id, word string) store.Key {
		rows, err := n.AGP.Bookings.History(t.Context(), id)
		n.Must(err)
		for _, r := range rows {
			if r.UsageEventID != "" && strings.HasSuffix(r.UsageEventID, word) {
				return hostbooking.EventKey(&hostbooking.UsageEvent{ID: r.UsageEventID, Account: r.Account, Time: r.Time})
			}
		}
		t.Fatalf("booking %s has no event %s", id, word)
		return store.Key{}
	}
	stream, err := hostbooking.Stream(first)
	n.Must(err)
	replace := func(old, with string) func([]byte) []byte {
		return func(b []byte) []byte { return []byte(strings.Replace(string(b), old, with, 1)) }
	}
	doc := func(k store.Key, change func([]byte) []byte) *damaged {
		return &damaged{Source: n.Store, key: k, doc: func(d *store.Doc) { d.Data = change(append([]byte{}, d.Data...)) }}
	}
	row := func(change func([]byte) []byte) *damaged {
		return &damaged{Source: n.Store, stream: stream, row: func(r *store.Row) { r.Data = change(r.Data) }}
	}
	for what, d := range map[string]*damaged{
		"another state":          doc(hostbooking.Key(first), replace(`"envelope_status":"accepted"`, `"envelope_status":"completed"`)),
		"fewer rows":             doc(hostbooking.Key(first), replace(`"history":3`, `"history":2`)),
		"another booking":        doc(hostbooking.Key(first), replace(first, lost)),
		"an event of more":       doc(event(first, ""), replace(`"amount":250000`, `"amount":260000`)),
		"a credit of less":       doc(event(lost, "-credit"), replace(`"amount":-250000`, `"amount":-10000`)),
		"a balance of more":      {Source: n.Store, key: billing.BalanceKey(n.acme.ID, 1), doc: func(d *store.Doc) { d.Number++ }},
		"a row that costs less":  row(replace(`"amount":250000`, `"amount":240000`)),
		"a row that may not be":  row(replace(`"to":"dispatched"`, `"to":"completed"`)),
		"a row nobody can read":  row(replace(`{`, `[`)),
		"a row of another state": row(replace(`"to":"accepted"`, `"to":"rejected"`)),
	} {
		if found := n.Findings(d); len(found) == 0 {
			t.Errorf("%s is not found", what)
		}
	}
}
