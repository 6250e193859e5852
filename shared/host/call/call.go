package call

import (
	"context"
	"io"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/retry"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"golang.org/x/sync/errgroup"
)

// Behaviour answers one accepted envelope. It runs at most once for an
// envelope, in a goroutine of its own; ctx ends at the deadline, and what
// comes later is thrown away. e holds only what the signature covers. The
// message goes out as ROLE_AGENT whatever its role says. An error of kind
// problem.Deadline becomes 504, any other 500; either way the call is void.
type Behaviour func(ctx context.Context, e envelope.Envelope) (envelope.Message, error)

// Vacant is what the pipeline needs to know of a hosted vacant.
type Vacant struct {
	ID        identity.ID
	State     lifecycle.State
	Floor     time.Time // nothing signed at or before it is accepted; zero: no bound
	Behaviour Behaviour
	Signer    identity.Signer
	// Ready opens what Signer signs with, which may fail and may cost something.
	// It is called for calls that their caller has signed, and before they are
	// accepted: a host whose keys are out of reach refuses with 503 what could
	// only be voided. nil: the Signer is ready.
	Ready func(context.Context) error
	// Parent of a child, nil for anybody else; Closed: its manifest keeps it to
	// parent and siblings, and to all others it is not here. Reach is what a v2
	// manifest signs of who may call an open child, "" where nothing is signed.
	Parent *identity.ID
	Closed bool
	Reach  composite.Reachability
	// Kin says that the vacant has a parent or children: what it answers is
	// observed (Config.Observe).
	Kin bool
}

// Directory finds the vacants of this host. ok is false for an id that is not
// hosted here. With fresh it reads the store; otherwise it may answer from
// memory at most one second old. Safe for concurrent use.
type Directory interface {
	Vacant(ctx context.Context, id identity.ID, fresh bool) (v Vacant, ok bool, err error)
}

// Only is a Directory of one vacant that never changes, for programs that
// host their own.
type Only Vacant

// Vacant is the Directory method.
func (o Only) Vacant(_ context.Context, id identity.ID, _ bool) (Vacant, bool, error) {
	return Vacant(o), id == o.ID, nil
}

// Texts seals what people wrote under the host's key of the UTC day. Open says
// texts.ErrGone once that key is destroyed. Safe for concurrent use.
type Texts interface {
	Warm(ctx context.Context) error
	Seal(ctx context.Context, bound, plain []byte) (textkeys.Sealed, error)
	Open(ctx context.Context, bound []byte, s textkeys.Sealed) ([]byte, error)
}

// Charge is the price of one call, in micro-units, and where it is debited.
type Charge struct {
	Price uint64
	Shard uint8
}

// Ledger moves the money of priced calls beside their rows. Its writes go into
// the same commit, so there is never a row without its debit, nor a refund
// without its void. Safe for concurrent use.
type Ledger interface {
	// Quote says what a call costs its caller now; a problem of kind
	// PaymentRequired or TooMany refuses it.
	Quote(ctx context.Context, pair Pair) (Charge, error)
	// Debit is written with the request row: the debit as a bounded Add, and
	// the reminder that leads the sweeper here.
	Debit(pair Pair, r *RequestRow) []store.Write
	// Refund is written with the void row.
	Refund(pair Pair, r *RequestRow) []store.Write
}

// Config is what a Host is made of. Ledger may be nil: then all calls are
// free. Zero durations mean the defaults.
type Config struct {
	Store     store.Store
	Directory Directory
	Texts     Texts
	Ledger    Ledger
	// Revoked tells of each id whether its key is revoked, as the store says now.
	// It is asked once for every call. nil: none ever is.
	Revoked func(ctx context.Context, ids ...identity.ID) ([]bool, error)
	// Sibling reports whether caller is a child of parent by its own manifest, which
	// both have signed. It is asked for callers of children that admit their tree
	// alone, whose signature is valid and who are not the parent. nil: nobody is.
	Sibling func(ctx context.Context, parent, caller identity.ID) (bool, error)
	// Observe is told of the answers of vacants with kin, beside the commit of the
	// answer: the reply waits for it too, for a second at most. It may lose what it
	// is told and fails no call. nil: nobody observes.
	Observe func(ctx context.Context, o Observation)
	// Self is the host's own identity, which 421 names on the host route. It is
	// asked for only then, so that no start waits for it. nil: 421 names zeros.
	Self func(ctx context.Context) (identity.ID, error)
	Now  func() time.Time
	Rand io.Reader
	// Wait sleeps between tries, or ends early with ctx.
	Wait func(ctx context.Context, d time.Duration) error
	// Work is how long a behaviour may take (25 s), Margin what is kept of the
	// caller's deadline for writing the answer (2 s).
	Work, Margin time.Duration
}

// Observation is one answer of a vacant that has kin.
type Observation struct {
	Pair   Pair
	Parent *identity.ID // the vacant's, nil if it has none
	// Position is where on the pair's response stream the answer was first tried:
	// if others were quicker there, it has that of another decision of the pair.
	Position uint64
	Time     time.Time     // of the answer
	Took     time.Duration // from accept to answer
}

// Limits of the pipeline.
const (
	DefaultWork   = 25 * time.Second
	DefaultMargin = 2 * time.Second
	// Grace after the behaviour's deadline before others may void the call.
	Grace = 10 * time.Second
	// MaxSkew bounds how far ahead of the host's clock an envelope, and how far
	// off either way a reset, may be signed.
	MaxSkew = 300 * time.Second
	// epochs searched for an envelope that was accepted before: this one and
	// seven back.
	epochs = 8
	// tries at one write whose outcome is unknown.
	tries = 6
)

// Host runs the call pipeline over one store. It is safe for concurrent use,
// and any number of hosts may share a store.
type Host struct {
	Config
	views views
	kin   kin
}

// New makes a Host.
func New(c Config) *Host {
	if c.Work == 0 {
		c.Work = DefaultWork
	}
	if c.Margin == 0 {
		c.Margin = DefaultMargin
	}
	if c.Wait == nil {
		c.Wait = retry.For
	}
	if c.Self == nil {
		c.Self = func(context.Context) (identity.ID, error) { return identity.ID{}, nil }
	}
	return &Host{Config: c}
}

// State tells what became of an envelope that was accepted before.
type State string

// The states of wire members `state`.
const (
	Pending    State = "pending"    // accepted, not decided yet
	Answered   State = "answered"   // the answer is beside it
	Unanswered State = "unanswered" // final: it will never be answered
	Unknown    State = "unknown"    // never accepted, as far as was looked
)

// Outcome is what a request came to. Problem is nil for 200. The other members
// are set where design and wire want them in the answer.
type Outcome struct {
	Problem *problem.Error

	Reply     *envelope.Envelope // 200 of Send; with Answered, the stored answer
	State     State
	ReplySeq  int64         // with Answered, when the text can no longer be read:
	ReplyHash identity.Hash // all that is left of the answer
	TooOld    bool          // with Unknown: older epochs remain unread
	ResetAt   time.Time     // 200 of Reset

	Chain       bool // ExpectedSeq and ChainTip are set
	ExpectedSeq int64
	ChainTip    identity.Hash
	Floor, Now  time.Time // zero: not told

	Position uint64        // of the request row, if there is one
	Hash     identity.Hash // of the envelope
}

func (o Outcome) refuse(err error) Outcome {
	o.Problem = problem.Of(err)
	if o.Problem.Kind == problem.Unavailable || o.Problem.Kind == problem.Internal || o.Problem.Kind == problem.Damaged {
		// What could not be read must not be told, and what may be stale neither.
		o.Chain, o.Floor, o.State = false, time.Time{}, ""
	}
	return o
}

func (o Outcome) at(tip RequestRow) Outcome {
	t := tip.Tip()
	o.Chain, o.ExpectedSeq, o.ChainTip = true, t.Seq+1, t.Hash
	return o
}

// request is one envelope on its way.
type request struct {
	pair    Pair
	env     *envelope.Envelope
	hash    identity.Hash
	vacant  Vacant
	answer  bool  // with a signature of the vacant, if it is accepted
	unready error // why it could not be signed now
	checked bool  // whether the keys of both ends are good was read
	barred  error // why its caller may call nobody
	closed  bool  // the vacant's key is revoked
	// stranger: the vacant admits its parent and siblings only, and the caller is
	// none of them.
	stranger bool
	charge   Charge
	// refusal by the account (402, 429), shown only where design §3 lets it.
	unpaid error
	out    Outcome
}

// detach separates the work from the caller's connection: once a request is
// accepted it is answered for the record, even if nobody listens any more. The
// deadline stays.
func (h *Host) detach(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	ctx = context.WithoutCancel(ctx)
	if !ok {
		return context.WithTimeout(ctx, h.Work+Grace)
	}
	return context.WithDeadline(ctx, deadline)
}

// open does steps 3 and 4 for Send and Ask: signature, then everything that is
// needed of the store, at once, into r and v. With warm it goes by what is
// remembered; fresh says that it has just read the store.
func (h *Host) open(ctx context.Context, route identity.ID, r *request, v *view, warm bool) (fresh bool, err error) {
	e := r.env
	var signed bool
	r.hash, signed = e.Verify()
	r.out.Hash = r.hash
	if !route.IsZero() && route != e.To {
		return false, misdirected(e.To, route)
	}
	if !signed {
		// A forged envelope costs one read, of the record only.
		v, ok, err := h.Directory.Vacant(ctx, e.To, false)
		switch {
		case err != nil:
			return false, h.fault(err)
		case !ok || v.Closed: // whose signature proves nothing is nobody's parent
			return false, h.notHere(ctx, e.To)
		}
		return false, badSignature(e.From)
	}
	known, ok := h.views.get(r.pair, v), false
	if warm && known && h.Ledger == nil {
		// Nothing to fetch unless a second has passed or the day has changed.
		ok, err = h.vacant(ctx, r, false)
		if err == nil {
			err = h.fault(h.Texts.Warm(ctx))
		}
	} else {
		fresh = !warm || !known
		ok, err = h.fetch(ctx, r, v, fresh)
	}
	switch {
	case err != nil:
		return fresh, err
	case !ok || r.hidden():
		return fresh, h.notHere(ctx, e.To)
	}
	return fresh, r.barred
}

// fetch reads the record, the account, the key of the day, whether the keys of
// both ends are revoked and, with tips, both tips, all in one round.
func (h *Host) fetch(ctx context.Context, r *request, v *view, tips bool) (ok bool, err error) {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		// A record just read is as good as one read again before a refusal.
		ok, err = h.vacant(ctx, r, tips)
		return err
	})
	g.Go(func() error { return h.fault(h.Texts.Warm(ctx)) })
	g.Go(func() error { return h.bar(ctx, r) })
	if tips {
		g.Go(func() (err error) { *v, err = h.read(ctx, r.pair); return err })
	}
	if h.Ledger != nil {
		g.Go(func() error { return h.quote(ctx, r) })
	}
	err = g.Wait()
	h.doubt(r)
	return ok, err
}

// vacant reads the vacant's record and, beside what else is read, makes its
// signer ready. That it could not be refuses only what would be accepted: a
// resend finds its answer in the store. ok is false too for a closed child that
// does not admit the caller.
func (h *Host) vacant(ctx context.Context, r *request, fresh bool) (ok bool, err error) {
	r.vacant, ok, err = h.Directory.Vacant(ctx, r.env.To, fresh)
	if err != nil || !ok {
		return false, h.fault(err)
	}
	r.unready = nil
	if err := h.admit(ctx, r); err != nil {
		return false, err
	}
	if r.vacant.Closed && r.stranger {
		return false, nil
	}
	if r.answer && !r.stranger && r.vacant.Ready != nil && r.vacant.State.CanBeCalled() {
		r.unready = r.vacant.Ready(ctx)
	}
	return true, nil
}

func (h *Host) quote(ctx context.Context, r *request) (err error) {
	r.charge, r.unpaid = h.Ledger.Quote(ctx, r.pair)
	if r.unpaid != nil && !problem.Is(r.unpaid, problem.PaymentRequired) && !problem.Is(r.unpaid, problem.TooMany) {
		return h.fault(r.unpaid)
	}
	return nil
}

func misdirected(to, here identity.ID) error {
	return problem.New(problem.Misdirected, "envelope addressed to %s; this server is %s", to.Short(), here.Short())
}

// notHere refuses what is addressed to a vacant of another host.
func (h *Host) notHere(ctx context.Context, to identity.ID) error {
	self, err := h.Self(ctx)
	if err != nil {
		return h.fault(err)
	}
	return misdirected(to, self)
}

func badSignature(from identity.ID) error {
	return problem.New(problem.BadSignature, "envelope signature did not verify for sender %s", from.Short())
}

// admissible refuses what no chain position makes right: a time too far ahead,
// a self-call, and envelopes that only an answering side signs (wire §23 A3,
// A13).
func (h *Host) admissible(r *request, asking bool) error {
	e := r.env
	if !asking {
		now := h.Now()
		if ahead := e.Time.Sub(now); ahead > MaxSkew {
			r.out.Now = now.UTC().Truncate(time.Microsecond)
			return &problem.Error{Kind: problem.Clock, Field: "timestamp", Want: "at most 300 s ahead of " + canon.FormatTime(now), Got: canon.FormatTime(e.Time)}
		}
		if e.Payload.Role == envelope.RoleAgent {
			return problem.Invalid("role", "ROLE_USER or ROLE_TOOL in a request", string(envelope.RoleAgent))
		}
	}
	return addressable(e)
}

func addressable(e *envelope.Envelope) error {
	if e.From == e.To {
		return problem.Invalid("to_vacant_id", "another vacant than from_vacant_id", e.To.Short())
	}
	if envelope.IsReplyKey(e.IdempotencyKey) {
		return problem.Invalid("idempotency_key", "no key that begins with re:, which marks answers", "re:…")
	}
	return nil
}

// awake is the state gate of wire §6.2.
func awake(s lifecycle.State) error {
	switch {
	case s.CanBeCalled():
		return nil
	case s.Closed():
		return problem.New(problem.Gone, "vacant is %s; calls permanently rejected", s)
	}
	return problem.New(problem.NotAccepting, "vacant is %s; not accepting calls", s)
}
