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

const actorHost = "host"

func (s *Service) HandleMessage(ctx context.Context, message string) error {
	id, isReminderDue := strings.CutPrefix(strings.TrimPrefix(message, messagePrefix), dueMarker)
	return s.advance(ctx, id, isReminderDue)
}

// EnqueueDue queues due bookings, for a process with too little time to dispatch them.
func (s *Service) EnqueueDue(ctx context.Context) (due.SweepResult, error) {
	return s.reminders().Sweep(ctx, func(ctx context.Context, d store.Doc) (bool, error) {
		b, err := s.loadBooking(ctx, string(d.Data))
		if err != nil || s.reminders().Key(b.Due, b.ID) != d.Key {
			return err == nil, err
		}
		confirmSend, err := s.enqueue(ctx, dueMarker+b.ID, b.Account)
		if err == nil {
			confirmSend(ctx, true)
		}
		return false, err
	})
}

func (s *Service) Sweep(ctx context.Context) (due.SweepResult, error) {
	return s.reminders().Sweep(ctx, func(ctx context.Context, d store.Doc) (bool, error) {
		err := s.advance(ctx, string(d.Data), true)
		if err != nil && !problem.Is(err, problem.NotFound) && !errors.Is(err, errChanged) {
			return false, err
		}
		b, err := s.loadBooking(ctx, string(d.Data))
		// An outdated reminder is deleted.
		return err == nil && s.reminders().Key(b.Due, b.ID) != d.Key, err
	})
}

func (s *Service) loadBooking(ctx context.Context, id string) (storedBooking, error) {
	b, _, err := BookingDocs.Get(ctx, s.Store, Key(id))
	return b, store.AsProblem(err)
}

// advance takes the next step of a booking. If the reminder is due, any process that was handling
// the booking has crashed or taken too long.
func (s *Service) advance(ctx context.Context, id string, isReminderDue bool) error {
	current, err := s.loadBooking(ctx, id)
	if err != nil || current.ID == "" {
		return err
	}
	b := &current.Booking
	isOverdue := !s.Now().Before(current.Due)
	switch b.State {
	case booking.Pending:
		if !s.Now().Before(expiry(b)) {
			_, err = s.transitionAsHost(ctx, b, booking.Expired, reasonExpired)
			return err
		}
		return s.dispatch(ctx, b)
	case booking.DispatchFailed:
		if b.Cancelled || b.Attempts > len(retryPauses) || !b.Start.IsZero() && s.Now().After(b.Start) {
			// Only a dispatched booking can be rejected, so it enters this state without being
			// sent.
			if current, err := s.transitionAsHost(ctx, b, booking.Dispatched, reasonUnreachable); err == nil {
				_, err = s.transitionAsHost(ctx, &current, booking.Rejected, reasonUnreachable)
				return err
			}
			return err
		}
		if isOverdue {
			return s.dispatch(ctx, b)
		}
	case booking.Dispatched:
		if isReminderDue && isOverdue {
			// A venue on this host returns the same answer to the same bytes, so its decision is
			// not lost.
			v, err := s.FindVenue(ctx, b.Venue.String())
			if err == nil && v.hosted && s.Now().Sub(b.LastDispatch) < MaxPendingTime && b.Attempts <= len(retryPauses)+1 {
				return s.deliver(ctx, b)
			}
			if err != nil && !problem.Is(err, problem.NotFound) {
				return err
			}
			return s.recordFailure(ctx, b, reasonTimeout)
		}
	case booking.Accepted:
		if isReminderDue && isOverdue {
			_, err = s.transitionAsHost(ctx, b, booking.Completed, "")
			return err
		}
	}
	return nil
}

// transitionAsHost returns errChanged if the booking has changed since b was read.
func (s *Service) transitionAsHost(ctx context.Context, b *Booking, to booking.State, reason string) (Booking, error) {
	return s.changeIfUnchanged(ctx, b, step{To: to, Actor: actorHost, Reason: reason})
}

func (s *Service) changeIfUnchanged(ctx context.Context, b *Booking, next step) (Booking, error) {
	return s.changeBooking(ctx, b.ID, func(current *Booking) (*step, error) {
		if current.RowCount != b.RowCount {
			return nil, errChanged
		}
		return &next, nil
	})
}

var errChanged = problem.New(problem.Pending, "the booking was changed concurrently")

func (s *Service) dispatch(ctx context.Context, b *Booking) error {
	waitUntil, err := s.reserveProbe(ctx, b.Venue)
	if err != nil {
		return err
	}
	if !waitUntil.IsZero() {
		_, err := s.changeIfUnchanged(ctx, b, step{postponeUntil: waitUntil})
		return ignoreChanged(err)
	}
	// A missing signing key of the host must not count as a failure of the venue.
	if _, err := s.Signer(ctx, s.currentMicrosecond()); err != nil {
		return err
	}
	dispatched, err := s.transitionAsHost(ctx, b, booking.Dispatched, "")
	if err != nil {
		return ignoreChanged(err)
	}
	return s.deliver(ctx, &dispatched)
}

func ignoreChanged(err error) error {
	if errors.Is(err, errChanged) {
		return nil
	}
	return err
}

func (s *Service) recordFailure(ctx context.Context, b *Booking, reason string) error {
	if _, err := s.transitionAsHost(ctx, b, booking.DispatchFailed, reason); err != nil {
		return ignoreChanged(err)
	}
	// The dispatch of a cancelled booking does not show whether the venue can be reached.
	if b.Test || b.Cancelled {
		return nil
	}
	return s.recordReachability(ctx, b.Venue, false)
}

type venueDecision struct {
	Decision string          `json:"decision"`
	Reason   string          `json:"reason"`
	Result   json.RawMessage `json:"result"`
}

// After decideLater, the venue sets the state with a TransitionRequest.
const (
	decideAccept = "accept"
	decideReject = "reject"
	decideLater  = "later"
)

const maxResultBytes = 128 << 10

// parseDecision treats an answer that is not a decision as the result of an accepted booking.
func parseDecision(text string) venueDecision {
	var decision venueDecision
	d := json.NewDecoder(strings.NewReader(text))
	if err := d.Decode(&decision); err == nil && !d.More() {
		switch decision.Decision {
		case decideAccept, decideReject, decideLater:
			if bytes.Equal(decision.Result, []byte("null")) || len(decision.Result) > maxResultBytes {
				decision.Result = nil
			}
			decision.Reason = truncate(decision.Reason)
			return decision
		}
	}
	if strings.TrimSpace(text) == "" {
		return venueDecision{Decision: decideAccept}
	}
	b, err := json.Marshal(text)
	if err != nil || len(b) > maxResultBytes {
		b = nil
	}
	return venueDecision{Decision: decideAccept, Result: b}
}

func truncate(s string) string {
	const maxBytes = 512
	return strings.ToValidUTF8(s[:min(len(s), maxBytes)], "")
}

// deliver leaves the booking dispatched if the outcome is not known yet.
func (s *Service) deliver(ctx context.Context, b *Booking) error {
	if b.Test {
		_, err := s.transitionAsHost(ctx, b, booking.Accepted, "")
		return ignoreChanged(err)
	}
	venueReply, reason, err := s.callVenue(ctx, b)
	if err != nil {
		return err
	}
	// The accepted call has changed the held money, and the guest may have cancelled the booking.
	current, err := s.Get(ctx, b.ID)
	if err != nil {
		return err
	}
	if current.State != b.State || current.Attempts != b.Attempts {
		return nil // another process has applied the answer
	}
	b = &current
	switch {
	case reason != "":
		return s.recordFailure(ctx, b, reason)
	}
	if err := s.recordReachability(ctx, b.Venue, true); err != nil {
		return err
	}
	decision := parseDecision(venueReply.text)
	actor := "venue " + b.Venue.Short()
	switch decision.Decision {
	case decideLater:
		until := s.currentMicrosecond().Add(MaxPendingTime)
		if !b.Start.IsZero() && b.Start.Before(until) {
			until = b.Start
		}
		// After the start of the booking, a postponed reminder would be due at once, and the venue
		// would return the same answer again.
		if !s.currentMicrosecond().Before(until) {
			return s.recordFailure(ctx, b, reasonTimeout)
		}
		_, err := s.changeIfUnchanged(ctx, b, step{postponeUntil: until, CutReason: venueReply.cutReason})
		return ignoreChanged(err)
	case decideReject:
		if decision.Reason == "" || decision.Reason == reasonUnreachable { // reserved for the host
			decision.Reason = "rejected"
		}
		_, err := s.changeIfUnchanged(ctx, b, step{To: booking.Rejected, Actor: actor, Reason: decision.Reason, CutReason: venueReply.cutReason})
		return ignoreChanged(err)
	}
	accepted, err := s.changeIfUnchanged(ctx, b, step{To: booking.Accepted, Actor: actor, Reason: decision.Reason, Result: decision.Result, CutReason: venueReply.cutReason})
	if err == nil && decision.Result != nil && b.Start.IsZero() {
		_, err = s.changeIfUnchanged(ctx, &accepted, step{To: booking.Completed, Actor: actor})
	}
	return ignoreChanged(err)
}

type reply struct {
	text      string
	cutReason call.CutReason
}

// callVenue returns the venue's answer, or the reason why the dispatch failed. After an error, the
// outcome is not known.
func (s *Service) callVenue(ctx context.Context, b *Booking) (venueReply reply, reason string, err error) {
	registration, ok, err := s.Registry.Get(ctx, b.Venue)
	if err != nil {
		return venueReply, "", err
	}
	if !ok {
		return venueReply, "not_found", nil
	}
	key, err := s.Guests.DeriveKey(ctx, b.Venue, "booking#"+b.ID+"#"+strconv.Itoa(b.Attempts))
	if err != nil {
		return venueReply, "", err
	}
	msg, err := s.newMessage(ctx, b, key.ID())
	if err != nil {
		return venueReply, "", err
	}
	if registration.Hosted {
		return s.callHostedVenue(ctx, b, key, msg)
	}
	return s.callRemoteVenue(ctx, registration.Card, key, msg)
}

func (s *Service) callHostedVenue(ctx context.Context, b *Booking, key *identity.Key, msg envelope.Message) (venueReply reply, reason string, err error) {
	// A repeated delivery sends the same envelope, so the venue's answer is also the same.
	e := &envelope.Envelope{From: key.ID(), To: b.Venue, Seq: 1, Time: b.LastDispatch, Payload: msg, IdempotencyKey: "booking:" + b.ID}
	if _, err := e.Sign(ctx, key); err != nil {
		return venueReply, "", err
	}
	agreement, credential, err := s.loadPaymentTerms(ctx, b)
	if err != nil {
		return venueReply, "", err
	}
	out := s.Calls.SendWith(ctx, b.Venue, e, call.Options{
		Guest: true, CallTimeout: venueCallTimeout, AgreedPrice: agreement, Credential: credential,
		AcceptWrites: func(*call.RequestRow) ([]store.Write, error) { return s.heldMoneyWrites(ctx, b) },
	})
	switch {
	case out.Reply != nil:
		return reply{out.Reply.Payload.Text(), out.CutReason}, "", nil
	case out.Problem.Kind == problem.Unavailable, errors.Is(out.Problem, errChanged), out.State == call.Pending:
		return venueReply, "", errChanged // another process handles the booking or will do so
	case out.Problem.Kind == problem.DeadlineExceeded && out.State == "":
		return venueReply, reasonSlow, nil
	}
	return venueReply, out.Problem.Kind.String(), nil
}

// loadPaymentTerms uses the price that was current at the confirm.
func (s *Service) loadPaymentTerms(ctx context.Context, b *Booking) (*call.Agreement, call.Credential, error) {
	current, err := s.loadBooking(ctx, b.ID)
	if err != nil {
		return nil, call.Credential{}, err
	}
	agreement := &call.Agreement{}
	if current.VenueVersion > 0 {
		p, err := s.Billing.PriceVersion(ctx, b.Venue, current.VenueVersion)
		if err != nil {
			return nil, call.Credential{}, err
		}
		agreement.Price = &p
	}
	if current.Held > 0 {
		agreement.Hold = &call.Hold{Amount: current.Held, Shard: uint8(current.Shard)}
	}
	// The guest's IP address is not stored, so free calls are counted per account.
	credential := call.Credential{Payer: &call.Payer{Account: b.Account, Key: b.KeyID, DailyCap: current.DailyCap}, Address: "account " + b.Account}
	if current.MaxCost > 0 {
		remaining := current.MaxCost - current.Price
		// The cost of the calls that the venue made in earlier attempts is not known, so the limit
		// covers only the venue's own price.
		if b.Attempts > 1 {
			remaining = current.VenuePrice
		}
		credential.MaxPrice = &remaining
	}
	return agreement, credential, nil
}

func (s *Service) callRemoteVenue(ctx context.Context, cardBytes []byte, key *identity.Key, msg envelope.Message) (venueReply reply, reason string, err error) {
	c, err := card.Parse(cardBytes)
	if err != nil || s.Outbound == nil {
		return venueReply, problem.AsError(errors.Join(err, errNoOutbound)).Kind.String(), nil
	}
	ctx, cancel := context.WithTimeout(ctx, venueCallTimeout)
	defer cancel()
	caller := &dispatch.Caller{
		Signer: key, Book: &memorybook.Book{}, Transport: dispatch.GuardedTransport{Client: s.Outbound.ForActor(outbound.HostActor(outbound.Stranger).WithCallee(&c))},
		Now: s.Now, Rand: s.Rand, Wait: s.Wait, MaxTries: 2, AnswerTimeout: venueCallTimeout / 2,
	}
	result, err := caller.Call(ctx, dispatch.TargetOfCard(&c), msg)
	if err != nil {
		return venueReply, problem.AsError(err).Kind.String(), nil
	}
	if result.Reply == nil {
		return venueReply, "no_answer", nil
	}
	return reply{result.Reply.Payload.Text(), call.CutReason(truncate(result.CutReason))}, "", nil
}

func (s *Service) newMessage(ctx context.Context, b *Booking, guest identity.ID) (m envelope.Message, err error) {
	details, err := s.Details(ctx, b.ID)
	if err != nil {
		return m, err
	}
	// A repeated delivery must send the same bytes.
	signer, err := s.Signer(ctx, b.LastDispatch)
	if err != nil {
		return m, err
	}
	base, err := s.BaseURL(ctx)
	if err != nil {
		return m, err
	}
	statement := booking.Statement{Guest: guest, Venue: b.Venue, Booking: b.ID, Time: b.LastDispatch}
	if err := statement.Sign(ctx, signer); err != nil {
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

		Certificate certificate.Certificate `json:"certificate"`
	}{
		IntentConfirm, b.ID, b.From, nil, b.PartySize, details.Guest, details.Notes, details.Input, int64(b.Price / Cent),
		base + "/v1/bookings/" + b.ID + "/transition", statement.Host, canon.FormatTime(statement.Time), hex.EncodeToString(statement.Signature), statement.Certificate,
	}
	if !b.Start.IsZero() {
		part.Starts = &b.Start
	}
	text, err := json.Marshal(part)
	if err != nil {
		return m, problem.Wrap(problem.Internal, err, "")
	}
	id := "booking:" + b.ID
	m = envelope.Message{Role: envelope.RoleUser, Parts: []string{string(text)}, ContextID: &b.ID, MessageID: &id}
	return m, m.Check()
}
