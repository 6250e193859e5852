package booking_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/booking"
	"github.com/vacancy-host/vacancy/shared/host/due"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	states "github.com/vacancy-host/vacancy/shared/vacant/booking"
	"github.com/vacancy-host/vacancy/shared/vacant/certificate"
	"github.com/vacancy-host/vacancy/shared/vacant/listing"
	"github.com/vacancy-host/vacancy/tests/memhost"
)

// world is a host with a venue that takes two guests at a time and charges $2 per call, and a buyer
// with $100. Bookings are dispatched only when a test calls Sweep.
type world struct {
	*memhost.Host
	*booking.Service
	buyer billing.Account
	key   billing.Key
}

const (
	fee        = booking.DefaultPrice
	venuePrice = 2 * money.Dollar
	credit     = 100 * money.Dollar
)

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{Host: memhost.Open(t, func(c *serve.Config) { c.AllowRemote = true })}
	w.Service = w.OpenBookings(quiet{}, nil)
	venue := w.Create(vacants.CreateSpec{Name: "warung", Capability: "serves", Substrate: "echo"})
	_, _, err := w.Vacants.Publish(t.Context(), venue.ID, vacants.PublishOptions{Listing: &vacants.ListingOptions{}, EditVenue: func(v *listing.Venue) error {
		v.Slug, v.Capacity = "warung", 2
		return nil
	}})
	w.Must(err)
	_, err = w.Vacants.SetPrice(t.Context(), venue.ID, price.Price{Flat: venuePrice})
	w.Must(err)
	w.buyer = w.Account("buyer", credit)
	w.key, _, err = w.Host.Billing.MakeKey(t.Context(), w.buyer.ID, billing.KeyOptions{Tier: billing.Pro})
	w.Must(err)
	return w
}

// quiet is a queue that loses all messages, so that only the reminders dispatch.
type quiet struct{}

func (quiet) Send(context.Context, string, task.Sender) (func(context.Context, bool), error) {
	return func(context.Context, bool) {}, nil
}

func (w *world) balance() money.Amount { return w.Balance(w.buyer) }

// start is the start of the bookings. The table has two places.
var start = time.Date(2026, 12, 24, 19, 0, 0, 0, time.UTC)

func (w *world) confirm(party int64) (booking.Booking, error) {
	c, err := w.Confirm(w.Context(), &w.key, booking.Request{From: "guest", Agent: "guest", Venue: "warung", PartySize: party, Start: start, Details: booking.Details{Notes: "n"}})
	return c.Booking, err
}

func (w *world) confirmed(party int64) booking.Booking {
	w.Helper()
	b, err := w.confirm(party)
	w.Must(err)
	return b
}

// taken reports whether the slot is full.
func (w *world) taken() bool {
	w.Helper()
	b, err := w.confirm(1)
	if errors.Is(err, booking.ErrSlotTaken) {
		return true
	}
	w.Must(err)
	_, err = w.Cancel(w.Context(), b.ID, "test") // which gives back all of it
	w.Must(err)
	return false
}

// move makes a transition as the operator.
func (w *world) move(id string, to states.State) booking.Booking {
	w.Helper()
	b, err := w.Transition(w.Context(), id, booking.TransitionRequest{To: to, Actor: "operator", AllowHostStates: true})
	w.Must(err)
	return b
}

// paths contains a sequence of states from pending to each state.
var paths = map[states.State][]states.State{
	states.Pending: nil, states.Dispatched: {states.Dispatched}, states.DispatchFailed: {states.Dispatched, states.DispatchFailed},
	states.Accepted: {states.Dispatched, states.Accepted}, states.Rejected: {states.Dispatched, states.Rejected},
	states.Completed: {states.Dispatched, states.Accepted, states.Completed}, states.NoShow: {states.Dispatched, states.Accepted, states.NoShow},
	states.Expired: {states.Expired},
}

// The test covers every pair of states and a cancellation in each state. It checks the cost of the
// booking and whether it keeps its place. Venues are not called, so they earn no money.
func TestEachStepMovesStateMoneyAndSlot(t *testing.T) {
	waits := map[states.State]bool{states.Pending: true, states.Dispatched: true, states.DispatchFailed: true}
	freed := map[states.State]bool{states.Rejected: true, states.Expired: true}
	costs := func(s states.State, cancelled bool) money.Amount {
		switch {
		case s == states.Expired:
			return 0
		case waits[s] && !cancelled:
			return fee + venuePrice
		}
		return fee
	}
	for _, from := range states.States() {
		for _, to := range append(states.States(), "cancel") {
			t.Run(fmt.Sprint(from, " to ", to), func(t *testing.T) {
				w := newWorld(t)
				b := w.confirmed(2)
				for _, s := range paths[from] {
					b = w.move(b.ID, s)
				}
				var after booking.Booking
				var err error
				want, legal := to, states.CheckTransition(from, to) == nil
				if to == "cancel" {
					after, err = w.Cancel(t.Context(), b.ID, "guest")
					want, legal = from, !from.IsTerminal()
					if from == states.Pending {
						want = states.Expired
					}
				} else {
					after, err = w.Transition(t.Context(), b.ID, booking.TransitionRequest{To: to, Actor: "operator", AllowHostStates: true})
				}
				cancelled := to == "cancel" && legal
				if !legal {
					if want = from; !problem.Is(err, problem.Conflict) {
						t.Errorf("error %v, want a conflict", err)
					}
					after, err = w.Get(t.Context(), b.ID)
				}
				w.Must(err)
				if after.State != want || after.Cancelled != cancelled || credit-w.balance() != costs(want, cancelled) {
					t.Errorf("%s, cancelled %t, %s spent, want %s, %t, %s", after.State, after.Cancelled, credit-w.balance(), want, cancelled, costs(want, cancelled))
				}
				if taken := w.taken(); taken == (cancelled || freed[want]) {
					t.Errorf("the slot is taken: %t", taken)
				}
				if rows, err := w.History(t.Context(), b.ID); err != nil || uint64(len(rows)) != after.RowCount || legal == (len(rows) == len(paths[from])+1) {
					t.Errorf("%d rows, the booking says %d, %v", len(rows), after.RowCount, err)
				}
				w.WantWhole(w.Host.Store)
			})
		}
	}
}

// A place is released only once, and not again when the venue accepts a booking that its guest has
// cancelled.
func TestAPlaceIsGivenBackOnce(t *testing.T) {
	w := newWorld(t)
	first := w.confirmed(2)
	w.move(first.ID, states.Dispatched)
	_, err := w.Cancel(t.Context(), first.ID, "guest")
	w.Must(err)
	w.confirmed(2)
	w.move(first.ID, states.Accepted)
	if _, err := w.confirm(1); !errors.Is(err, booking.ErrSlotTaken) {
		t.Errorf("a third guest at a table for two = %v, want %v", err, booking.ErrSlotTaken)
	}
}

// The reason of a booking is set only by the step that ended it for its guest.
func TestTheFirstReasonStays(t *testing.T) {
	for _, path := range [][]states.State{{states.Accepted}, {states.Rejected}, {states.Accepted, states.Completed}, {states.Accepted, states.NoShow}, {states.DispatchFailed}} {
		for _, reason := range []string{"full", ""} {
			w := newWorld(t)
			b := w.confirmed(1)
			w.move(b.ID, states.Dispatched)
			_, err := w.Cancel(t.Context(), b.ID, "guest")
			w.Must(err)
			for _, to := range path {
				after, err := w.Transition(t.Context(), b.ID, booking.TransitionRequest{To: to, Actor: "venue", Reason: reason, AllowHostStates: true})
				w.Must(err)
				if after.Reason != "guest" || !after.Cancelled {
					t.Errorf("%v for %q: the reason is %q, want guest", path, reason, after.Reason)
				}
			}
		}
	}
	for to, want := range map[states.State]string{states.Rejected: "full", states.Accepted: "", states.DispatchFailed: ""} {
		w := newWorld(t)
		b := w.confirmed(1)
		w.move(b.ID, states.Dispatched)
		if after, err := w.Transition(t.Context(), b.ID, booking.TransitionRequest{To: to, Actor: "venue", Reason: "full", AllowHostStates: true}); err != nil || after.Reason != want {
			t.Errorf("%s: the reason is %q, %v, want %q", to, after.Reason, err, want)
		}
	}
}

// Details are stored until 30 days after the start, or after the confirm of a booking without a
// start.
func TestDetailsAreKeptForThirtyDays(t *testing.T) {
	const days = 24 * time.Hour
	w := newWorld(t)
	at := w.confirmed(1)
	c, err := w.Confirm(t.Context(), &w.key, booking.Request{From: "guest", Agent: "guest", Venue: "warung", PartySize: 1, Details: booking.Details{Notes: "n"}})
	w.Must(err)
	for id, from := range map[string]time.Time{at.ID: start, c.ID: w.Clock.NowFunc(0)()} {
		d, err := w.Host.Store.Doc(t.Context(), store.Key{Partition: "bkg#" + id, Sort: "details"})
		w.Must(err)
		if want := from.Add(30 * days).Truncate(time.Second); !d.Expires.Equal(want) {
			t.Errorf("details expire %s, want %s", d.Expires, want)
		}
	}
	w.Clock.Advance(29 * days)
	if all, err := w.Details(t.Context(), c.ID); err != nil || all.Notes != "n" {
		t.Errorf("after 29 days = %+v, %v", all, err)
	}
	w.Clock.Advance(2 * days)
	if all, err := w.Details(t.Context(), c.ID); err != nil || all.Notes != "" {
		t.Errorf("after 31 days = %+v, %v", all, err)
	}
}

// An event id has only one effect, however often it is sent.
func TestAChangeIsMadeOnce(t *testing.T) {
	w := newWorld(t)
	b := w.confirmed(1)
	w.move(b.ID, states.Dispatched)
	for range 3 {
		if after, err := w.Transition(t.Context(), b.ID, booking.TransitionRequest{To: states.Accepted, Actor: "venue", ChangeID: "e"}); err != nil || after.RowCount != 3 {
			t.Errorf("%d rows, %v, want 3", after.RowCount, err)
		}
	}
	if _, err := w.Transition(t.Context(), b.ID, booking.TransitionRequest{To: states.Expired, Actor: "venue"}); !problem.Is(err, problem.Conflict) {
		t.Errorf("an illegal state = %v", err)
	}
	other := w.confirmed(1)
	if _, err := w.Transition(t.Context(), other.ID, booking.TransitionRequest{To: states.Dispatched, Actor: "venue"}); !problem.Is(err, problem.Forbidden) {
		t.Errorf("a state of the host's by a venue = %v", err)
	}
}

// reminded returns the time of the booking's reminder in minutes from now, or nil. A booking has at
// most one reminder.
func (w *world) reminded(id string) (minutes []int64) {
	w.Helper()
	of := due.Reminders{Kind: booking.DueDocs.Shape}
	for minute := int64(-120); minute <= 120; minute++ {
		d, err := w.Host.Store.Doc(w.Context(), of.Key(w.Clock.NowFunc(0)().Add(time.Duration(minute)*time.Minute), id))
		w.Must(err)
		if d.Version != 0 {
			minutes = append(minutes, minute)
		}
	}
	return minutes
}

// A failed dispatch is repeated three times, after 1, 5 and 25 minutes. Then the booking is
// rejected. Each step removes the previous reminder.
func TestABookingHasTheReminderOfItsLastStep(t *testing.T) {
	w := newWorld(t)
	b := w.confirmed(1)
	reminded := func(want ...int64) {
		t.Helper()
		if got := w.reminded(b.ID); !slices.Equal(got, want) {
			t.Errorf("%s after %d dispatches is looked at in %v minutes, want %v", b.State, b.Attempts, got, want)
		}
	}
	reminded(1)
	for _, wait := range []int64{1, 5, 25, 0} {
		w.Clock.Advance(10 * time.Minute)
		b = w.move(b.ID, states.Dispatched)
		reminded(2)
		w.Clock.Advance(10 * time.Minute)
		b = w.move(b.ID, states.DispatchFailed)
		reminded(wait)
	}
	b = w.move(b.ID, states.Dispatched)
	b = w.move(b.ID, states.Rejected)
	reminded()
}

// The size of a booking is limited, however often its state changes.
func TestABookingRemembersFewEvents(t *testing.T) {
	w := newWorld(t)
	b := w.confirmed(1)
	const changes = 100
	for i := range changes {
		to := []states.State{states.Dispatched, states.DispatchFailed}[i%2]
		_, err := w.Transition(t.Context(), b.ID, booking.TransitionRequest{To: to, Actor: "operator", ChangeID: fmt.Sprintf("event-%064d", i), AllowHostStates: true})
		w.Must(err)
	}
	d, err := w.Host.Store.Doc(t.Context(), booking.Key(b.ID))
	w.Must(err)
	if n := bytes.Count(d.Data, []byte("event-")); n != 32 {
		t.Errorf("the booking remembers %d events of %d, want 32", n, changes)
	}
}

// If the host's key has no certificate yet, the booking is not sent, and the attempt does not
// count.
func TestABookingWaitsForTheHostsKey(t *testing.T) {
	w := newWorld(t)
	signer := w.Signer
	w.Signer = func(context.Context, time.Time) (certificate.Signer, error) {
		return certificate.Signer{}, problem.New(problem.Unavailable, "no key is certified yet")
	}
	b := w.confirmed(1)
	for range 3 {
		w.Clock.Advance(3 * time.Minute)
		_, _ = w.Sweep(t.Context()) // fails, or tries again later
		if now, err := w.Get(t.Context(), b.ID); err != nil || now.State != states.Pending || now.Attempts != 0 {
			t.Errorf("without a key: %s after %d attempts, %v, want pending and none", now.State, now.Attempts, err)
		}
	}
	w.Signer = signer
	w.Clock.Advance(3 * time.Minute)
	_, err := w.Sweep(t.Context())
	w.Must(err)
	if now, err := w.Get(t.Context(), b.ID); err != nil || now.State != states.Accepted || now.Attempts != 1 {
		t.Errorf("with a key: %s after %d attempts, %v, want accepted and 1", now.State, now.Attempts, err)
	}
}

// A guest cancels while the venue is called. Either the call was accepted and is paid for, or it is
// never accepted.
func TestACancelMeetsADispatch(t *testing.T) {
	for _, at := range []string{"before the call is accepted", "after"} {
		t.Run(at, func(t *testing.T) {
			w := newWorld(t)
			b := w.confirmed(1)
			if at == "after" {
				w.Clock.Advance(3 * time.Minute)
				_, err := w.Sweep(t.Context())
				w.Must(err)
			} else {
				w.move(b.ID, states.Dispatched)
			}
			_, err := w.Cancel(t.Context(), b.ID, "guest")
			w.Must(err)
			for range 5 {
				w.Clock.Advance(3 * time.Minute)
				_, err := w.Sweep(t.Context())
				w.Must(err)
			}
			after, err := w.Get(t.Context(), b.ID)
			w.Must(err)
			want, spent := states.Rejected, money.Amount(0)
			if at == "after" {
				want, spent = states.Accepted, fee+venuePrice
			}
			if after.State != want || after.Reason != "guest" || credit-w.balance() != spent {
				t.Errorf("%s for %q, %s spent, want %s, guest, %s", after.State, after.Reason, credit-w.balance(), want, spent)
			}
			w.WantWhole(w.Host.Store)
		})
	}
}
