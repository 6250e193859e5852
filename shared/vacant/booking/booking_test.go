package booking_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/booking"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/certificate"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// legal lists the allowed transitions of the specification independently of the code.
var legal = [][2]booking.State{
	{"pending", "dispatched"}, {"pending", "expired"}, {"dispatched", "accepted"}, {"dispatched", "rejected"},
	{"dispatched", "dispatch_failed"}, {"dispatch_failed", "dispatched"}, {"accepted", "completed"}, {"accepted", "no_show"},
}

func TestEightOf64PairsAreLegal(t *testing.T) {
	ok := 0
	for _, from := range booking.States() {
		for _, to := range booking.States() {
			err := booking.CheckTransition(from, to)
			want := slices.Contains(legal, [2]booking.State{from, to})
			if want != (err == nil) {
				t.Errorf("Transition(%s, %s) = %v, want legal: %t", from, to, err, want)
			}
			var illegal *booking.TransitionError
			if err != nil && (!errors.As(err, &illegal) || illegal.From != from || illegal.To != to || slices.Contains(illegal.Allowed, to)) {
				t.Errorf("Transition(%s, %s) = %+v", from, to, err)
			}
			if err == nil {
				ok++
			}
		}
	}
	if ok != 8 || len(booking.States()) != 8 {
		t.Errorf("%d pairs of %d states are legal, want 8 of 8", ok, len(booking.States()))
	}
}

func TestStatesAndStatuses(t *testing.T) {
	for state, want := range map[booking.State]struct {
		terminal bool
		status   booking.Status
	}{
		"pending": {false, "pending"}, "dispatched": {false, "pending"}, "dispatch_failed": {false, "pending"}, "accepted": {false, "confirmed"},
		"rejected": {true, "cancelled"}, "expired": {true, "cancelled"}, "completed": {true, "completed"}, "no_show": {true, "no_show"},
	} {
		got, err := booking.ParseState(string(state))
		if err != nil || got.IsTerminal() != want.terminal || got.Status() != want.status {
			t.Errorf("%s: terminal %t, status %s, %v, want %+v", state, got.IsTerminal(), got.Status(), err, want)
		}
	}
	for _, s := range []string{"", "Pending", "cancelled", "confirmed"} {
		if _, err := booking.ParseState(s); !problem.Is(err, problem.InvalidMember) {
			t.Errorf("ParseState(%q) = %v, want Schema", s, err)
		}
	}
}

func TestAClaimIsOfOneBookingGuestAndVenue(t *testing.T) {
	var keys [4]*identity.Key
	for i := range keys {
		k, err := identity.KeyFromSeed(bytes.Repeat([]byte{byte(i + 1)}, identity.Size))
		if err != nil {
			t.Fatal(err)
		}
		keys[i] = k
	}
	at := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	certified, err := certificate.New(t.Context(), keys[0], keys[3].ID(), at.Add(-time.Hour), at.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	by := certificate.Signer{Signer: keys[3], Certificate: certified}
	c := booking.Statement{Guest: keys[1].ID(), Venue: keys[2].ID(), Booking: "b1", Time: at}
	if err := c.Sign(t.Context(), by); err != nil || c.Verify() != nil || c.Host != keys[0].ID() {
		t.Fatalf("Sign() = %v, Verify() = %v", err, c.Verify())
	}
	// PROTOCOL §19.7 defines the signed bytes.
	signed := "vacancy:booking:v2\x1f" + `{"booking_id":"b1","guest_id":"` + keys[1].ID().String() + `","host_id":"` + keys[0].ID().String() + `","key_id":"` + keys[3].ID().String() +
		`","time":"2026-11-24T12:00:00+00:00","venue_id":"` + keys[2].ID().String() + `"}`
	if !identity.Verify(keys[3].ID(), []byte(signed), c.Signature) {
		t.Errorf("the key did not sign %q", signed)
	}
	for name, change := range map[string]func(*booking.Statement){
		"guest": func(c *booking.Statement) { c.Guest = keys[2].ID() }, "venue": func(c *booking.Statement) { c.Venue = keys[1].ID() },
		"host": func(c *booking.Statement) { c.Host = keys[1].ID() }, "booking": func(c *booking.Statement) { c.Booking = "b2" },
		"time": func(c *booking.Statement) { c.Time = c.Time.Add(time.Second) }, "key": func(c *booking.Statement) { c.Certificate.Key = keys[1].ID() },
		"certificate's host": func(c *booking.Statement) { c.Certificate.Host = keys[1].ID() },
		"certificate's end":  func(c *booking.Statement) { c.Certificate.ValidUntil = canon.FormatTime(at.Add(2 * time.Hour)) },
	} {
		other := c
		change(&other)
		if err := other.Verify(); !problem.Is(err, problem.BadSignature) {
			t.Errorf("Verify() after a change of %s = %v, want a bad signature", name, err)
		}
	}
	for name, claim := range map[string]booking.Statement{
		"after the certificate's time": {Time: at.Add(time.Hour)}, "before it": {Time: at.Add(-time.Hour - time.Microsecond)},
	} {
		if err := claim.Sign(t.Context(), by); err != nil || claim.Verify() == nil {
			t.Errorf("a claim of a time %s: Sign() = %v, Verify() = %v", name, err, claim.Verify())
		}
	}
	itself := certificate.Signer{Signer: keys[0], Certificate: certified} // signed by the host's own key, as in v1
	if err := c.Sign(t.Context(), itself); err != nil || c.Verify() == nil {
		t.Errorf("a claim that the host's identity signed: Sign() = %v, Verify() = %v", err, c.Verify())
	}
}
