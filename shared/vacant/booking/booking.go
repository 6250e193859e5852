// Package booking implements the protocol of bookings: the states of a booking's envelope, and the
// signed statement by which a venue recognizes a host's booking.
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

type State string

const (
	Pending        State = "pending"
	Dispatched     State = "dispatched" // on its way to the venue
	DispatchFailed State = "dispatch_failed"
	Accepted       State = "accepted"
	Rejected       State = "rejected"
	Completed      State = "completed"
	NoShow         State = "no_show"
	Expired        State = "expired"
)

var transitions = map[State][]State{
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
	if _, ok := transitions[State(s)]; !ok {
		return "", &problem.Error{Kind: problem.InvalidMember, Field: "to", Want: "one of " + joinStates(States()), Got: fmt.Sprintf("%.40q", s)}
	}
	return State(s), nil
}

func joinStates(states []State) string {
	words := make([]string, len(states))
	for i, s := range states {
		words[i] = string(s)
	}
	return strings.Join(words, ", ")
}

func (s State) IsTerminal() bool { return len(transitions[s]) == 0 }

func (s State) NextStates() []State { return slices.Clone(transitions[s]) }

type TransitionError struct {
	From, To State
	Allowed  []State
}

func (e *TransitionError) Error() string {
	if len(e.Allowed) == 0 {
		return fmt.Sprintf("a booking that is %s cannot change its state, got %s", e.From, e.To)
	}
	return fmt.Sprintf("a booking that is %s can change only to %s, got %s", e.From, joinStates(e.Allowed), e.To)
}

// CheckTransition returns a *TransitionError unless to may follow from.
func CheckTransition(from, to State) error {
	if slices.Contains(transitions[from], to) {
		return nil
	}
	return &TransitionError{from, to, from.NextStates()}
}

type Status string

const (
	StatusPending   Status = "pending"
	StatusConfirmed Status = "confirmed"
	StatusCompleted Status = "completed"
	StatusCancelled Status = "cancelled"
	StatusNoShow    Status = "no_show"
)

// Status returns the status that the guest sees. The caller must handle canceled bookings.
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

// Statement is a host's signed statement that a guest's envelope carries one of the host's
// bookings.
type Statement struct {
	Host, Guest, Venue identity.ID
	Booking            string
	Time               time.Time
	Certificate        certificate.Certificate
	Signature          []byte
}

// domainTag separates booking statements from all other signed bytes.
const domainTag = "vacancy:booking:v2\x1f"

func (st *Statement) Sign(ctx context.Context, s certificate.Signer) (err error) {
	st.Host, st.Certificate = s.Certificate.Host, s.Certificate
	st.Signature, err = s.Sign(ctx, st.signedBytes())
	return err
}

// Verify returns an error unless st is signed by a key that st.Host certified for st.Time. The
// venue must check that st.Time is recent.
func (st *Statement) Verify() error {
	if err := st.Certificate.Verify(st.Host, st.Time); err != nil {
		return err
	}
	if !identity.Verify(st.Certificate.Key, st.signedBytes(), st.Signature) {
		return problem.New(problem.BadSignature, "booking statement: signature did not verify for key %s", st.Certificate.Key.Short())
	}
	return nil
}

func (st *Statement) signedBytes() []byte {
	b := canon.AppendString([]byte(domainTag+`{"booking_id":`), st.Booking)
	b = append(st.Guest.AppendHex(append(b, `,"guest_id":"`...)), `","host_id":"`...)
	b = append(st.Host.AppendHex(b), `","key_id":"`...)
	b = append(st.Certificate.Key.AppendHex(b), `","time":`...)
	b = canon.AppendString(b, canon.FormatTime(st.Time))
	return append(st.Venue.AppendHex(append(b, `,"venue_id":"`...)), `"}`...)
}
