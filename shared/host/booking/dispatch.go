package booking

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch/memorybook"
	"github.com/vacancy-host/vacancy/shared/host/due"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/booking"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/certificate"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// actorHost identifies the host as the actor in rows.
const actorHost = "host"

// HandleMessage handles a message of the queue: it dispatches the booking or handles its due reminder.
func (s *Service) HandleMessage(ctx context.Context, message string) error {
	id, due := strings.CutPrefix(strings.TrimPrefix(message, messagePrefix), dueMark)
	return s.advance(ctx, id, due)
}

// SendDue sends the bookings with due reminders to the queue. It is for a process whose time limit
// is too short for a dispatch. Each call sends a booking again until its state has changed.
func (s *Service) SendDue(ctx context.Context) (due.SweepResult, error) {
	return s.due().Sweep(ctx, func(ctx context.Context, d store.Doc) (bool, error) {
		b, err := s.readBooking(ctx, string(d.Data))
		if err != nil || s.due().Key(b.Due, b.ID) != d.Key {
			return err == nil, err
		}
		settle, err := s.queue(ctx, dueMark+b.ID, b.Account)
		if err == nil {
			settle(ctx, true)
		}
		return false, err
	})
}

func (s *Service) Sweep(ctx context.Context) (due.SweepResult, error) {
	return s.due().Sweep(ctx, func(ctx context.Context, d store.Doc) (bool, error) {
		err := s.advance(ctx, string(d.Data), true)
		if err != nil && !problem.Is(err, problem.NotFound) && !errors.Is(err, errChanged) {
			return false, err
		}
		// If the booking now has another reminder, or no reminder, the sweep deletes this one.
		b, err := s.readBooking(ctx, string(d.Data))
		return err == nil && s.due().Key(b.Due, b.ID) != d.Key, err
	})
}

func (s *Service) readBooking(ctx context.Context, id string) (stored, error) {
	b, _, err := BookingDocs.Get(ctx, s.Store, Key(id))
	return b, store.AsProblem(err)
}

// advance makes the next step of a booking. due means that the booking's reminder is due, so any process
// that was handling the booking has crashed or taken too long.
func (s *Service) advance(ctx context.Context, id string, due bool) error {
	current, err := s.readBooking(ctx, id)
	if err != nil || current.ID == "" {
		return err
	}
	b := &current.Booking
	late := !s.Now().Before(current.Due)
	switch b.State {
	case booking.Pending:
		if !s.Now().Before(expiry(b)) {
			_, err = s.moveAsHost(ctx, b, booking.Expired, reasonExpired)
			return err
		}
		return s.dispatch(ctx, b)
	case booking.DispatchFailed:
		if b.Cancelled || b.Attempts > len(retries) || !b.Starts.IsZero() && s.Now().After(b.Starts) {
			// A booking can be rejected only in the state dispatched. It changes to this state without
			// being sent.
			if current, err := s.moveAsHost(ctx, b, booking.Dispatched, reasonUnreachable); err == nil {
				_, err = s.moveAsHost(ctx, &current, booking.Rejected, reasonUnreachable)
				return err
			}
			return err
		}
		if late {
			return s.dispatch(ctx, b)
		}
	case booking.Dispatched:
		if due && late {
			// The venue took too long. A venue on this host returns the same answer to the same
			// bytes, so its decision is not lost.
			v, err := s.Find(ctx, b.Venue.String())
			if err == nil && v.hosted && s.Now().Sub(b.Sent) < MaxPending && b.Attempts <= len(retries)+1 {
				return s.deliver(ctx, b)
			}
			if err != nil && !problem.Is(err, problem.NotFound) {
				return err
			}
			return s.recordFailure(ctx, b, reasonTimeout)
		}
	case booking.Accepted:
		if due && late {
			_, err = s.moveAsHost(ctx, b, booking.Completed, "")
			return err
		}
	}
	return nil
}

// moveAsHost makes a transition for the host. If the booking has changed since b was read, the error is
// errChanged.
func (s *Service) moveAsHost(ctx context.Context, b *Booking, to booking.State, reason string) (Booking, error) {
	return s.moveIfUnchanged(ctx, b, step{To: to, Actor: actorHost, Reason: reason})
}

func (s *Service) moveIfUnchanged(ctx context.Context, b *Booking, next step) (Booking, error) {
	return s.move(ctx, b.ID, func(now *Booking) (*step, error) {
		if now.Rows != b.Rows {
			return nil, errChanged
		}
		return &next, nil
	})
}

// errChanged is returned if another process has changed the booking.
var errChanged = problem.New(problem.Pending, "the booking was changed concurrently")

func (s *Service) dispatch(ctx context.Context, b *Booking) error {
	wait, err := s.breakerWait(ctx, b.Venue)
	if err != nil {
		return err
	}
	if !wait.IsZero() {
		_, err := s.moveIfUnchanged(ctx, b, step{wait: wait})
		return ignoreMoved(err)
	}
	// If the host has no signing key yet, the booking is not sent, and no failure of the venue is
	// recorded.
	if _, err := s.Signer(ctx, s.now()); err != nil {
		return err
	}
	sent, err := s.moveAsHost(ctx, b, booking.Dispatched, "")
	if err != nil {
		return ignoreMoved(err)
	}
	return s.deliver(ctx, &sent)
}

func ignoreMoved(err error) error {
	if errors.Is(err, errChanged) {
		return nil
	}
	return err
}

func (s *Service) recordFailure(ctx context.Context, b *Booking, reason string) error {
	if _, err := s.moveAsHost(ctx, b, booking.DispatchFailed, reason); err != nil {
		return ignoreMoved(err)
	}
	// The dispatch of a cancelled booking does not show whether the venue can be reached, and a
	// test booking has no venue.
	if b.Test || b.Cancelled {
		return nil
	}
	return s.recordReach(ctx, b.Venue, false)
}

type answer struct {
	Decision string          `json:"decision"`
	Reason   string          `json:"reason"`
	Result   json.RawMessage `json:"result"`
}

// These are the decisions in a venue's answer. After decideLater, the venue itself sets the state of
// the booking later, with a TransitionRequest.
const (
	decideAccept = "accept"
	decideReject = "reject"
	decideLater  = "later"
)

const maxResult = 128 << 10

// parseAnswer parses a venue's answer. An answer that is not a decision accepts the booking, and
// its text is the result.
func parseAnswer(text string) answer {
	var a answer
	d := json.NewDecoder(strings.NewReader(text))
	if err := d.Decode(&a); err == nil && !d.More() {
		switch a.Decision {
		case decideAccept, decideReject, decideLater:
			if bytes.Equal(a.Result, []byte("null")) || len(a.Result) > maxResult {
				a.Result = nil
			}
			a.Reason = clip(a.Reason)
			return a
		}
	}
	if strings.TrimSpace(text) == "" {
		return answer{Decision: decideAccept}
	}
	b, err := json.Marshal(text)
	if err != nil || len(b) > maxResult {
		b = nil
	}
	return answer{Decision: decideAccept, Result: b}
}

func clip(s string) string {
	const most = 512
	return strings.ToValidUTF8(s[:min(len(s), most)], "")
}

// deliver sends a dispatched booking and applies the venue's answer. If the outcome is not known
// yet, the booking remains dispatched.
func (s *Service) deliver(ctx context.Context, b *Booking) error {
	if b.Test {
		_, err := s.moveAsHost(ctx, b, booking.Accepted, "")
		return ignoreMoved(err)
	}
	answer, reason, err := s.ask(ctx, b)
	if err != nil {
		return err
	}
	// The booking is read again, because the accepted call has changed its held money, and the guest
	// may have cancelled it.
	now, err := s.Get(ctx, b.ID)
	if err != nil {
		return err
	}
	if now.State != b.State || now.Attempts != b.Attempts {
		return nil // another process has applied the answer
	}
	b = &now
	switch {
	case reason != "":
		return s.recordFailure(ctx, b, reason)
	}
	if err := s.recordReach(ctx, b.Venue, true); err != nil {
		return err
	}
	a := parseAnswer(answer.text)
	actor := "venue " + b.Venue.Short()
	switch a.Decision {
	case decideLater:
		until := s.now().Add(MaxPending)
		if !b.Starts.IsZero() && b.Starts.Before(until) {
			until = b.Starts
		}
		// After the start of the booking, the reminder would be due at once, and a venue on this host
		// would return the same answer again.
		if !s.now().Before(until) {
			return s.recordFailure(ctx, b, reasonTimeout)
		}
		_, err := s.moveIfUnchanged(ctx, b, step{wait: until, Cut: answer.cut})
		return ignoreMoved(err)
	case decideReject:
		if a.Reason == "" || a.Reason == reasonUnreachable { // reserved for the host
			a.Reason = "rejected"
		}
		_, err := s.moveIfUnchanged(ctx, b, step{To: booking.Rejected, Actor: actor, Reason: a.Reason, Cut: answer.cut})
		return ignoreMoved(err)
	}
	done, err := s.moveIfUnchanged(ctx, b, step{To: booking.Accepted, Actor: actor, Reason: a.Reason, Result: a.Result, Cut: answer.cut})
	if err == nil && a.Result != nil && b.Starts.IsZero() {
		_, err = s.moveIfUnchanged(ctx, &done, step{To: booking.Completed, Actor: actor})
	}
	return ignoreMoved(err)
}

type reply struct {
	text string
	cut  call.CutReason
}

// ask sends a booking to its venue. It returns the answer, or the reason why the dispatch failed.
// If it returns an error, the outcome is not known.
func (s *Service) ask(ctx context.Context, b *Booking) (answer reply, reason string, err error) {
	g, ok, err := s.Registry.Get(ctx, b.Venue)
	if err != nil {
		return answer, "", err
	}
	if !ok {
		return answer, "not_found", nil
	}
	key, err := s.Guests.Key(ctx, b.Venue, "booking#"+b.ID+"#"+strconv.Itoa(b.Attempts))
	if err != nil {
		return answer, "", err
	}
	msg, err := s.message(ctx, b, key.ID())
	if err != nil {
		return answer, "", err
	}
	if g.Hosted {
		return s.askHere(ctx, b, key, msg)
	}
	return s.askElsewhere(ctx, g.Card, key, msg)
}

func (s *Service) askHere(ctx context.Context, b *Booking, key *identity.Key, msg envelope.Message) (answer reply, reason string, err error) {
	// If a dispatch is delivered again, the envelope is the same, so the venue's answer is also the
	// same.
	e := &envelope.Envelope{From: key.ID(), To: b.Venue, Seq: 1, Time: b.Sent, Payload: msg, IdempotencyKey: "booking:" + b.ID}
	if _, err := e.Sign(ctx, key); err != nil {
		return answer, "", err
	}
	agreed, by, err := s.payment(ctx, b)
	if err != nil {
		return answer, "", err
	}
	out := s.Calls.SendWith(ctx, b.Venue, e, call.Options{
		Guest: true, Work: maxWork, AgreedPrice: agreed, Credential: by,
		AcceptWrites: func(*call.RequestRow) ([]store.Write, error) { return s.passHeldMoney(ctx, b) },
	})
	switch {
	case out.Reply != nil:
		return reply{out.Reply.Payload.Text(), out.Cut}, "", nil
	case out.Problem.Kind == problem.Unavailable, errors.Is(out.Problem, errChanged), out.State == call.Pending:
		return answer, "", errChanged // another process handles the booking or will do so
	case out.Problem.Kind == problem.Deadline && out.State == "":
		return answer, reasonSlow, nil
	}
	return answer, out.Problem.Kind.String(), nil
}

// payment returns the terms of the venue's call: the account pays the price that was current at the
// confirm.
func (s *Service) payment(ctx context.Context, b *Booking) (*call.Agreement, call.Credential, error) {
	current, err := s.readBooking(ctx, b.ID)
	if err != nil {
		return nil, call.Credential{}, err
	}
	agreed := &call.Agreement{}
	if current.VenueVersion > 0 {
		p, err := s.Billing.PriceVersion(ctx, b.Venue, current.VenueVersion)
		if err != nil {
			return nil, call.Credential{}, err
		}
		agreed.Price = &p
	}
	if current.Held > 0 {
		agreed.Hold = &call.Hold{Amount: current.Held, Shard: uint8(current.Shard)}
	}
	// The guest's IP address is not stored, so free calls are counted per account.
	by := call.Credential{Payer: &call.Payer{Account: b.Account, Key: b.Key, DailyCap: current.Cap}, Address: "account " + b.Account}
	if current.Most > 0 {
		rest := current.Most - current.Price
		// The cost of the calls that the venue made in earlier attempts is not known. The limit
		// therefore covers only the venue's own price.
		if b.Attempts > 1 {
			rest = current.VenuePrice
		}
		by.MaxPrice = &rest
	}
	return agreed, by, nil
}

func (s *Service) askElsewhere(ctx context.Context, blob []byte, key *identity.Key, msg envelope.Message) (answer reply, reason string, err error) {
	c, err := card.Parse(blob)
	if err != nil || s.Outbound == nil {
		return answer, problem.AsError(errors.Join(err, errNoOutbound)).Kind.String(), nil
	}
	ctx, cancel := context.WithTimeout(ctx, maxWork)
	defer cancel()
	caller := &dispatch.Caller{
		Signer: key, Book: &memorybook.Book{}, Transport: dispatch.GuardedTransport{Client: s.Outbound.As(outbound.HostActor(outbound.Stranger).WithCallee(&c))},
		Now: s.Now, Rand: s.Rand, Wait: s.Wait, MaxTries: 2, Patience: maxWork / 2,
	}
	result, err := caller.Call(ctx, dispatch.TargetOfCard(&c), msg)
	if err != nil {
		return answer, problem.AsError(err).Kind.String(), nil
	}
	if result.Reply == nil {
		return answer, "no_answer", nil
	}
	return reply{result.Reply.Payload.Text(), call.CutReason(clip(result.Cut))}, "", nil
}

func (s *Service) message(ctx context.Context, b *Booking, guest identity.ID) (m envelope.Message, err error) {
	details, err := s.Details(ctx, b.ID)
	if err != nil {
		return m, err
	}
	// The signer is chosen by the time of the dispatch instead of the current time, so that a retry
	// sends the same bytes to a venue on this host.
	signer, err := s.Signer(ctx, b.Sent)
	if err != nil {
		return m, err
	}
	base, err := s.URL(ctx)
	if err != nil {
		return m, err
	}
	c := booking.Statement{Guest: guest, Venue: b.Venue, Booking: b.ID, Time: b.Sent}
	if err := c.Sign(ctx, signer); err != nil {
		return m, err
	}
	part := struct {
		Type     string          `json:"type"`
		Booking  string          `json:"booking_id"`
		From     string          `json:"from"`
		Starts   *time.Time      `json:"starts_at,omitempty"`
		Party    int64           `json:"party_size"`
		Guest    json.RawMessage `json:"guest,omitempty"`
		Notes    string          `json:"notes,omitempty"`
		Input    json.RawMessage `json:"input,omitempty"`
		Cents    int64           `json:"price_cents"`
		Callback string          `json:"callback"`
		Host     identity.ID     `json:"host_id"`
		Time     string          `json:"time"`
		Claim    string          `json:"claim"` // signature of the booking.Statement, in hex

		// Certificate is the certificate of the key that signed the claim.
		Certificate certificate.Certificate `json:"certificate"`
	}{
		IntentConfirm, b.ID, b.From, nil, b.Party, details.Guest, details.Notes, details.Input, int64(b.Price / Cent),
		base + "/v1/bookings/" + b.ID + "/transition", c.Host, canon.FormatTime(c.Time), hex.EncodeToString(c.Signature), c.Certificate,
	}
	if !b.Starts.IsZero() {
		part.Starts = &b.Starts
	}
	text, err := json.Marshal(part)
	if err != nil {
		return m, problem.Wrap(problem.Internal, err, "")
	}
	id := "booking:" + b.ID
	m = envelope.Message{Role: envelope.RoleUser, Parts: []string{string(text)}, ContextID: &b.ID, MessageID: &id}
	return m, m.Check()
}
