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

// Caller calls targets with one identity. Signer, Book and Transport are
// required, other fields have defaults. Safe for concurrent use; calls of one
// target run one after the other.
type Caller struct {
	Signer    identity.Signer
	Book      Book
	Transport Transport
	Now       func() time.Time
	Rand      io.Reader
	// Wait pauses between tries, or returns early when ctx ends.
	Wait func(ctx context.Context, d time.Duration) error

	// AutoReset resets a chain that others have moved, without asking: for
	// agents and load generators. Without it, Call returns a problem of kind
	// Conflict that names the command, and a person decides.
	AutoReset bool
	// Tries bounds how often the same bytes are posted while replies are
	// inconclusive (6). Patience bounds the wait for an accepted call's answer
	// (45 s, more than a host's deadline and grace).
	Tries    int
	Patience time.Duration

	// UntilDue replaces Patience as the bound if it is larger and the host names the time by which the
	// call will be decided; the Caller then waits until that time. If Waits is not nil, the Caller
	// reports the time to it, by the Caller's own clock.
	UntilDue time.Duration
	Waits    func(due time.Time)
	// Time bounds an operation, apart from the waits for another session of the pair and for an
	// accepted call's answer. Zero means no bound.
	Time time.Duration

	// Thread chooses the context id of new messages.
	Thread ThreadChoice

	// MaxPrice is the most that a call may cost, in micro-dollars: hosts refuse calls that
	// may cost more. With nil, any price is accepted.
	MaxPrice *int64
	// Check is asked before a new call is signed, and before a kept call is sent again that the
	// target did not accept. Its error ends the call. With nil, every target is called.
	Check func(ctx context.Context, t Target) error

	// BriefTries replaces Tries, if not 0, as long as the target cannot have
	// accepted the call: for callers that would rather try another vacant.
	BriefTries int
}

// ThreadChoice is the choice of a message's context id.
type ThreadChoice uint8

const (
	AnyThread   ThreadChoice = iota // the message's id, if any; State.Thread does not change
	NamedThread                     // the message's id, which becomes State.Thread
	NewThread                       // a new id, which becomes State.Thread
	LastThread                      // State.Thread
)

// Defaults and bounds of a Caller.
const (
	DefaultTries    = 6
	DefaultPatience = 45 * time.Second

	firstPause = 200 * time.Millisecond
	longPause  = 5 * time.Second

	// maxSkew is the largest clock error that is corrected by the host's word.
	// A larger one is for a person to correct: a lying host must not make us
	// sign times of its choice.
	maxSkew = time.Hour
	// resetSpan is how far a reset's time may be from a host's clock (PROTOCOL
	// §9).
	resetSpan = 300 * time.Second
	// maxTurns bounds one operation, whatever the host replies.
	maxTurns = 32
	// afterDue is added to a call's due time, so that a last resend learns that the call is void.
	afterDue = 10 * time.Second
)

// Result is the result of an operation. After an error it holds what was
// reached.
type Result struct {
	Target identity.ID

	Request     envelope.Envelope // the call that was settled or is under way
	RequestHash identity.Hash
	Resumed     bool // the call was already under way; the same bytes were sent

	Fate      Fate // empty while it is open
	Reply     *envelope.Envelope
	ReplyHash identity.Hash
	ReplySeq  int64
	Cut       string // why Reply is only a part of the answer (Late.Cut)
	// ReplyBound means that the signed answer names its request.
	ReplyBound bool
	// Status is the HTTP status of the deciding reply, 0 if there was none.
	Status int
	// Pay names the ways to pay that the host lists for a call that it refused with 402:
	// key, link, free, or credit if an account pays and its balance is short.
	Pay []string

	// Due is the time at which the host says that a call under way is decided at the latest;
	// zero if it says none.
	Due time.Time

	Began time.Time     // when the operation began
	Took  time.Duration // in all, including waits
	Wire  time.Duration // spent in posts
	Posts int           // requests made
	Reset bool          // the chain was reset on the way

	// Doubt: the call is not settled and the target may have accepted it, so it
	// may run or have run. After an error without Doubt it has not, and another
	// vacant can be called.
	Doubt bool

	Late []Late // outcomes of earlier calls, learnt in this operation
	// Unknown lists, in sentences, what could not be learnt.
	Unknown []string
}

// run is one operation on one pair.
type run struct {
	c        *Caller
	t        Target
	callURLs callURLs
	self     identity.ID
	session  Session
	st       State
	res      *Result

	jobKey         string // the key of the call in hand
	calling        bool   // it is a Call: the fate of the call in hand must be learnt
	pending        bool   // an envelope that was asked for is accepted and not answered
	corrected      bool   // the clock was corrected once
	floorRetries   int    // how often a floor forced a new signature
	asked          map[identity.Hash]bool
	waited         time.Duration
	unbounded      context.Context // context without the bound Caller.Time
	followed       bool            // the last wait for an answer was a stream
	unstreamed     bool            // the host refused to stream
	sent           bool            // something may have reached the target
	doubt          bool            // the target may have accepted the call in hand
	ignoresReplies error           // why an ask failed; further asks only for this call
}

// with runs f on the locked pair of c and t.
func (c *Caller) with(ctx context.Context, t Target, f func(context.Context, *run) error) (Result, error) {
	res := Result{Began: c.now()}
	self := c.Signer.ID()
	t, err := t.checked(self)
	if err != nil {
		return res, err
	}
	res.Target = t.ID
	d, err := callURLsOf(&t)
	if err != nil {
		return res, err
	}
	s, err := c.Book.Open(ctx, self, t.ID)
	if err != nil {
		return res, busy(ctx, t, err)
	}
	r := &run{c: c, t: t, callURLs: d, self: self, session: s, res: &res, asked: map[identity.Hash]bool{}, unbounded: ctx}
	if c.Time > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.Time)
		defer cancel()
	}
	if r.st, err = s.Load(); err == nil {
		err = f(ctx, r)
		res.Late = append(res.Late, r.st.Late...)
	}
	res.Doubt = res.Fate == "" && r.inDoubt()
	res.Took = c.now().Sub(res.Began)
	if cerr := s.Close(); err == nil {
		err = cerr
	}
	return res, err
}

// inDoubt reports whether the target may have accepted the call in hand, by an
// envelope posted now or one still asked for.
func (r *run) inDoubt() bool {
	of := func(e envelope.Envelope) bool { return r.jobKey != "" && e.IdempotencyKey == r.jobKey }
	return r.doubt || slices.ContainsFunc(r.st.Old, of) || slices.ContainsFunc(r.st.Live, of)
}

// ErrBusy is the cause of an error of a pair that another session held for too long.
var ErrBusy = errors.New("another session of the pair is open")

// busy is the error of a pair that could not be locked.
func busy(ctx context.Context, t Target, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return problem.Wrap(problem.Canceled, err, "stopped while another call to %s was under way", t.Name)
	case ctx.Err() != nil:
		return problem.Wrap(problem.Unavailable, errors.Join(ErrBusy, err), "another call to %s is under way on this machine: try again", t.Name)
	}
	return err
}

func (c *Caller) now() time.Time {
	if c.Now == nil {
		return time.Now()
	}
	return c.Now()
}

func (c *Caller) rand() io.Reader {
	if c.Rand == nil {
		return rand.Reader
	}
	return c.Rand
}

func (c *Caller) tries() int {
	return cmp.Or(c.Tries, DefaultTries)
}

func (c *Caller) patience() time.Duration {
	return cmp.Or(c.Patience, DefaultPatience)
}

// save makes the state durable. After an error the operation must end, because
// memory and storage differ.
func (r *run) save() error {
	if err := r.session.Save(r.st); err != nil {
		return problem.Wrap(problem.Unavailable, err, "the state of the calls to %s could not be kept", r.t.Name)
	}
	return nil
}

func (r *run) note(s string) { r.res.Unknown = append(r.res.Unknown, s) }

// newKey makes an idempotency key, a random UUID like the reference's.
func (c *Caller) newKey() (string, error) {
	var u [16]byte
	if _, err := io.ReadFull(c.rand(), u[:]); err != nil {
		return "", problem.Wrap(problem.Unavailable, err, "no randomness for an idempotency key")
	}
	u[6], u[8] = u[6]&0x0f|0x40, u[8]&0x3f|0x80
	x := hex.EncodeToString(u[:])
	return x[:8] + "-" + x[8:12] + "-" + x[12:16] + "-" + x[16:20] + "-" + x[20:], nil
}
