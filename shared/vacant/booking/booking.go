// Package booking implements the protocol of bookings: the states of a booking's envelope, and the
// signed statement by which a venue recognizes a host's booking.
//
// CheckTransition decides which state may follow which. Callers must call it before they store a new
// state.
package booking

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/certificate"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// State is the state of a booking's envelope.
type State string

const (
	Pending        State = "pending"    // not sent yet
	Dispatched     State = "dispatched" // on its way to the venue
	DispatchFailed State = "dispatch_failed"
	Accepted       State = "accepted"
	Rejected       State = "rejected"
	Completed      State = "completed"
	NoShow         State = "no_show"
	Expired        State = "expired"
)

// nextStates maps each state to the states that may follow it.
var nextStates = map[State][]State{
	Pending:        {Dispatched, Expired},
	Dispatched:     {Accepted, Rejected, DispatchFailed},
	DispatchFailed: {Dispatched},
	Accepted:       {Completed, NoShow},
	Rejected:       {},
	Completed:      {},
	NoShow:         {},
	Expired:        {},
}

func States() []State {
	return []State{Pending, Dispatched, DispatchFailed, Accepted, Rejected, Completed, NoShow, Expired}
}

func ParseState(s string) (State, error) {
	if _, ok := nextStates[State(s)]; !ok {
		return "", &problem.Error{Kind: problem.Schema, Field: "to", Want: "one of " + join(States()), Got: fmt.Sprintf("%.40q", s)}
	}
	return State(s), nil
}

func join(states []State) string {
	words := make([]string, len(states))
	for i, s := range states {
		words[i] = string(s)
	}
	return strings.Join(words, ", ")
}

func (s State) IsTerminal() bool { return len(nextStates[s]) == 0 }

func (s State) NextStates() []State { return slices.Clone(nextStates[s]) }

// IllegalError is the error for a transition that is not allowed.
type IllegalError struct {
	From, To State
	Allowed  []State
}

func (e *IllegalError) Error() string {
	if len(e.Allowed) == 0 {
		return fmt.Sprintf("a booking that is %s cannot change its state, got %s", e.From, e.To)
	}
	return fmt.Sprintf("a booking that is %s can change only to %s, got %s", e.From, join(e.Allowed), e.To)
}

// CheckTransition returns an *IllegalError unless to may follow from.
func CheckTransition(from, to State) error {
	if slices.Contains(nextStates[from], to) {
		return nil
	}
	return &IllegalError{from, to, from.NextStates()}
}

// Status is a booking's status as its guest sees it.
type Status string

const (
	StatusPending   Status = "pending"
	StatusConfirmed Status = "confirmed"
	StatusCompleted Status = "completed"
	StatusCancelled Status = "cancelled"
	StatusNoShow    Status = "no_show"
)

// Status returns the status that the guest sees. It does not apply if the guest has canceled the booking.
func (s State) Status() Status {
	switch s {
	case Accepted:
		return StatusConfirmed
	case Completed:
		return StatusCompleted
	case NoShow:
		return StatusNoShow
	case Rejected, Expired:
		return StatusCancelled
	}
	return StatusPending
}

// Statement is a host's signed statement that an envelope of a guest carries one of the host's
// bookings. The host created the guest's key, so the venue cannot recognize the guest by that key.
type Statement struct {
	Host, Guest, Venue identity.ID
	Booking            string
	Time               time.Time // whole microseconds
	Certificate        certificate.Certificate
	Signature          []byte // signature by the certified key
}

// domain separates the signed bytes of bookings from all other bytes that are signed for a host.
const domain = "vacancy:booking:v2\x1f"

func (c *Statement) Sign(ctx context.Context, s certificate.Signer) (err error) {
	c.Host, c.Certificate = s.Certificate.Host, s.Certificate
	c.Signature, err = s.Sign(ctx, c.signedBytes())
	return err
}

// Verify returns an error of kind BadSignature unless c is signed by a key that c.Host certified for
// c.Time. The venue must decide whether c.Time is recent.
func (c *Statement) Verify() error {
	if err := c.Certificate.Verify(c.Host, c.Time); err != nil {
		return err
	}
	if !identity.Verify(c.Certificate.Key, c.signedBytes(), c.Signature) {
		return problem.New(problem.BadSignature, "claim: signature did not verify for key %s", c.Certificate.Key.Short())
	}
	return nil
}

func (c *Statement) signedBytes() []byte {
	b := canon.AppendString([]byte(domain+`{"booking_id":`), c.Booking)
	b = append(c.Guest.AppendHex(append(b, `,"guest_id":"`...)), `","host_id":"`...)
	b = append(c.Host.AppendHex(b), `","key_id":"`...)
	b = append(c.Certificate.Key.AppendHex(b), `","time":`...)
	b = canon.AppendString(b, canon.FormatTime(c.Time))
	return append(c.Venue.AppendHex(append(b, `,"venue_id":"`...)), `"}`...)
}
