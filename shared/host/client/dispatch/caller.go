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

// Caller calls targets with one identity. Signer, Book and Transport are required. A Caller is safe
// for concurrent use, but calls to one target run one after the other.
type Caller struct {
	Signer    identity.Signer
	Book      Book
	Transport Transport
	Now       func() time.Time
	Rand      io.Reader
	Wait      func(ctx context.Context, d time.Duration) error

	// AutoReset lets Call reset a chain that another program has moved.
	AutoReset bool
	// MaxTries limits the posts of one request, and AnswerTimeout the wait for its answer.
	MaxTries      int
	AnswerTimeout time.Duration

	// MaxDueWait, if larger than AnswerTimeout, limits the wait if the host reports a due time.
	// OnDue, if not nil, receives the due time.
	MaxDueWait time.Duration
	OnDue      func(due time.Time)
	// MaxTime limits an operation, excluding waits for another session and for an answer.
	MaxTime time.Duration

	Thread ThreadChoice

	// MaxPrice is the highest acceptable price in micro-dollars, or nil for any price.
	MaxPrice *int64
	// Check, if not nil, is called before a new or resumed call is sent. Its error ends the call
	// unless the target has accepted the call earlier.
	Check func(ctx context.Context, t Target) error

	// MaxUnacceptedTries, if not 0, limits the tries while the target cannot have accepted the
	// call.
	MaxUnacceptedTries int
}

type ThreadChoice uint8

const (
	AnyThread   ThreadChoice = iota // the message's id
	NamedThread                     // the message's id, which becomes State.ThreadID
	NewThread                       // a new id, which becomes State.ThreadID
	LastThread                      // State.ThreadID
)

const (
	DefaultTries         = 6
	DefaultAnswerTimeout = 45 * time.Second // exceeds a host's deadline and grace

	firstPause = 200 * time.Millisecond
	maxPause   = 5 * time.Second

	// maxSkew limits clock corrections, because a lying host must not choose the times that are
	// signed.
	maxSkew      = time.Hour
	maxResetSkew = 300 * time.Second
	maxSteps     = 32
	dueMargin    = 10 * time.Second // wait after the due time, for a last resend
)

type Result struct {
	Target identity.ID

	Request     envelope.Envelope
	RequestHash identity.Hash
	Resumed     bool

	Fate      Fate // empty while the call is open
	Reply     *envelope.Envelope
	ReplyHash identity.Hash
	ReplySeq  int64
	CutReason string
	// ReplyBound is set if the signed answer names its request.
	ReplyBound bool
	Status     int
	// PaymentOptions lists the ways to pay if the host refused with 402.
	PaymentOptions []string

	// Due is the time by which the host will decide the call, or zero.
	Due time.Time

	StartedAt    time.Time
	Duration     time.Duration
	RequestTime  time.Duration
	RequestCount int
	IsReset      bool

	// MayBeAccepted is set if the call is open and the target may have accepted it. Calling another
	// vacant could then run the call twice.
	MayBeAccepted bool

	LateOutcomes []CallOutcome
	// Undetermined explains which outcomes are unknown.
	Undetermined []string
}

type run struct {
	caller   *Caller
	target   Target
	callURLs callURLs
	self     identity.ID
	session  Session
	state    State
	result   *Result

	callKey              string
	isCall               bool
	hasPendingCall       bool
	clockCorrected       bool
	floorRetries         int
	askedHashes          map[identity.Hash]bool
	waitedTime           time.Duration
	unlimitedCtx         context.Context // not limited by Caller.MaxTime
	lastWaitStreamed     bool
	streamRefused        bool
	mayHaveReachedTarget bool
	mayBeAccepted        bool
	askError             error // if set, only envelopes of the call in hand are asked for
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
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80 // random UUID
	x := hex.EncodeToString(u[:])
	return x[:8] + "-" + x[8:12] + "-" + x[12:16] + "-" + x[16:20] + "-" + x[20:], nil
}
