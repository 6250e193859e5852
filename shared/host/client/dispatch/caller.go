package dispatch

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Caller calls targets with one identity. Signer, Book and Transport are required; other fields
// have defaults. It is safe for concurrent use, but calls of one target run one after the other.
type Caller struct {
	Signer    identity.Signer
	Book      Book
	Transport Transport
	Now       func() time.Time
	Rand      io.Reader
	// Wait pauses between tries. It returns early if ctx ends.
	Wait func(ctx context.Context, d time.Duration) error

	// AutoReset lets Call reset a chain that another program has moved. It is for agents and load
	// generators. If it is false, Call returns a StuckError with RemedyReset, and a person decides.
	AutoReset bool
	// MaxTries limits how often the same bytes are posted while replies are inconclusive (default 6).
	// AnswerTimeout limits the wait for the answer to an accepted call (default 45 s, which exceeds a
	// host's deadline and grace).
	MaxTries      int
	AnswerTimeout time.Duration

	// MaxDueWait replaces AnswerTimeout if MaxDueWait is larger and the host reports the time by which
	// the call will be decided (the due time). OnDue, if not nil, gets the due time, converted to the
	// Caller's clock. The Caller then waits until the due time, at most MaxDueWait.
	MaxDueWait time.Duration
	OnDue      func(due time.Time)
	// MaxTime limits an operation, excluding the waits for another session of the pair and for the
	// answer to an accepted call. Zero means no limit.
	MaxTime time.Duration

	// Thread selects the context id of new messages.
	Thread ThreadChoice

	// MaxPrice is the limit of a call's price, in micro-dollars. Hosts refuse calls that may cost
	// more. If it is nil, any price is accepted.
	MaxPrice *int64
	// Check is called before a new call is signed, and before a stored call that the target did not
	// accept is resent. Its error ends the call. It may be nil.
	Check func(ctx context.Context, t Target) error

	// MaxUnacceptedTries, if not 0, also limits the tries as long as the target cannot have accepted
	// the call. It is for callers that prefer to try another vacant.
	MaxUnacceptedTries int
}

// ThreadChoice selects the context id of a message.
type ThreadChoice uint8

const (
	AnyThread   ThreadChoice = iota // the message's id, if any; State.ThreadID does not change
	NamedThread                     // the message's id, which becomes State.ThreadID
	NewThread                       // a new id, which becomes State.ThreadID
	LastThread                      // State.ThreadID
)

// Defaults and limits of a Caller.
const (
	DefaultTries         = 6
	DefaultAnswerTimeout = 45 * time.Second

	firstPause = 200 * time.Millisecond
	maxPause   = 5 * time.Second

	// maxSkew is the largest clock error that is corrected by the host's time. A person must correct a
	// larger error, because a lying host must not choose the times that are signed.
	maxSkew = time.Hour
	// maxResetSkew is the largest difference between the signed time of a reset and the host's clock
	// (PROTOCOL §9).
	maxResetSkew = 300 * time.Second
	// maxSteps limits the iterations of one operation, whatever the host replies.
	maxSteps = 32
	// dueMargin is added to a call's due time, so that a last resend finds out that the call is
	// void.
	dueMargin = 10 * time.Second
)

// Result is the result of an operation. After an error, it describes the state that was reached.
type Result struct {
	Target identity.ID

	Request     envelope.Envelope // call that was settled or is under way
	RequestHash identity.Hash
	Resumed     bool // whether the call was already under way, so the same bytes were sent again

	Fate      Fate // empty while the call is open
	Reply     *envelope.Envelope
	ReplyHash identity.Hash
	ReplySeq  int64
	CutReason string // reason why Reply is incomplete (CallOutcome.CutReason)
	// ReplyBound is set if the signed answer names its request.
	ReplyBound bool
	// Status is the HTTP status of the deciding reply, or 0.
	Status int
	// PaymentOptions lists the ways to pay for a call that the host refused with 402: key, link, free,
	// or credit if an account pays whose balance is too low.
	PaymentOptions []string

	// Due is the time by which, according to the host, a call under way will be decided. It is zero
	// if unknown.
	Due time.Time

	StartedAt    time.Time     // start of the operation
	Duration     time.Duration // total duration, including waits
	RequestTime  time.Duration // duration of all posts
	RequestCount int           // number of requests
	IsReset      bool          // whether the chain was reset

	// MayBeAccepted is set if the call is not settled and the target may have accepted it. The call
	// may then run or have run. If MayBeAccepted is not set after an error, another vacant can be
	// called.
	MayBeAccepted bool

	LateOutcomes []CallOutcome // outcomes of earlier calls, learned in this operation
	// Undetermined lists, in sentences, what could not be determined.
	Undetermined []string
}

// run is one operation on one pair.
type run struct {
	caller   *Caller
	target   Target
	callURLs callURLs
	self     identity.ID
	session  Session
	state    State
	result   *Result

	callKey          string                 // idempotency key of the call in hand
	isCall           bool                   // whether the operation is a Call, which must determine the fate of the call in hand
	hasPendingCall   bool                   // whether an envelope that was asked for is accepted but not answered
	clockCorrected   bool                   // whether the clock was corrected
	floorRetries     int                    // number of new signatures because of a floor
	askedHashes      map[identity.Hash]bool // envelopes whose fate was asked for
	waitedTime       time.Duration          // time spent in pauses and streams
	unlimitedCtx     context.Context        // context without the limit Caller.MaxTime
	lastWaitStreamed bool                   // whether the last wait for an answer was a stream
	streamRefused    bool                   // whether the host refused to stream
	mayHaveReached   bool                   // whether a request may have reached the target
	mayBeAccepted    bool                   // whether the target may have accepted the call in hand
	askError         error                  // error of a failed ask; if set, only envelopes of the call in hand are still asked for
}

func (c *Caller) runLocked(ctx context.Context, t Target, f func(context.Context, *run) error) (Result, error) {
	res := Result{StartedAt: c.currentTime()}
	self := c.Signer.ID()
	t, err := t.validate(self)
	if err != nil {
		return res, err
	}
	res.Target = t.ID
	urls, err := callURLsOf(&t)
	if err != nil {
		return res, err
	}
	s, err := c.Book.Open(ctx, self, t.ID)
	if err != nil {
		return res, lockError(ctx, t, err)
	}
	r := &run{caller: c, target: t, callURLs: urls, self: self, session: s, result: &res, askedHashes: map[identity.Hash]bool{}, unlimitedCtx: ctx}
	if c.MaxTime > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.MaxTime)
		defer cancel()
	}
	if r.state, err = s.Load(); err == nil {
		err = f(ctx, r)
		res.LateOutcomes = append(res.LateOutcomes, r.state.UnreturnedOutcomes...)
	}
	res.MayBeAccepted = res.Fate == "" && r.isInDoubt()
	res.Duration = c.currentTime().Sub(res.StartedAt)
	if closeErr := s.Close(); err == nil {
		err = closeErr
	}
	return res, err
}

// isInDoubt reports whether the target may have accepted the call in hand: an envelope posted in
// this operation, or an envelope of the call that is listed as overtaken or acceptable.
func (r *run) isInDoubt() bool {
	isOfCall := func(e envelope.Envelope) bool { return r.callKey != "" && e.IdempotencyKey == r.callKey }
	return r.mayBeAccepted || slices.ContainsFunc(r.state.Overtaken, isOfCall) || slices.ContainsFunc(r.state.Acceptable, isOfCall)
}

// ErrBusy is in the error chain if another session held the pair for too long.
var ErrBusy = errors.New("another session of the pair is open")

func lockError(ctx context.Context, t Target, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return problem.Wrap(problem.Canceled, err, "stopped while another call to %s was under way", t.Name)
	case ctx.Err() != nil:
		return problem.Wrap(problem.Unavailable, errors.Join(ErrBusy, err), "another call to %s is under way on this machine: try again", t.Name)
	}
	return err
}

func (c *Caller) currentTime() time.Time {
	if c.Now == nil {
		return time.Now()
	}
	return c.Now()
}

func (c *Caller) randReader() io.Reader {
	if c.Rand == nil {
		return rand.Reader
	}
	return c.Rand
}

func (c *Caller) tryLimit() int {
	return cmp.Or(c.MaxTries, DefaultTries)
}

func (c *Caller) waitLimit() time.Duration {
	return cmp.Or(c.AnswerTimeout, DefaultAnswerTimeout)
}

func (r *run) save() error {
	// After an error the operation must end, because memory and storage differ.
	if err := r.session.Save(r.state); err != nil {
		return problem.Wrap(problem.Unavailable, err, "the state of the calls to %s could not be stored", r.target.Name)
	}
	return nil
}

func (r *run) addUndetermined(s string) { r.result.Undetermined = append(r.result.Undetermined, s) }

func (c *Caller) newIdempotencyKey() (string, error) {
	var u [16]byte
	if _, err := io.ReadFull(c.randReader(), u[:]); err != nil {
		return "", problem.Wrap(problem.Unavailable, err, "no randomness for an idempotency key")
	}
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80 // a random UUID, like the reference's
	x := hex.EncodeToString(u[:])
	return x[:8] + "-" + x[8:12] + "-" + x[12:16] + "-" + x[16:20] + "-" + x[20:], nil
}
