package call

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/retry"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// Behaviour answers one accepted envelope. It runs at most once per envelope,
// in its own goroutine; ctx ends at the deadline and later results are
// discarded. host is the pipeline that runs it, for vacants that call others. e
// holds only what the signature covers. The message is sent as
// ROLE_AGENT whatever its role. An error of kind problem.Deadline becomes 504,
// any other 500, of its own kind if that is a failure (Kind.IsFailure); both void
// the call. An AgentError in its chain is kept for the operator.
type Behaviour func(ctx context.Context, host *Host, e envelope.Envelope) (envelope.Message, error)

// Vacant is the part of a hosted vacant's record that the pipeline needs.
type Vacant struct {
	ID        identity.ID
	State     lifecycle.State
	Floor     time.Time // envelopes signed at or before it are refused; zero refuses none
	Restored  time.Time // when the vacant came back from a backup; zero if it never did
	Behaviour Behaviour
	Signer    identity.Signer
	// Ready opens the key that Signer signs with, which may fail and may cost money.
	// It is called after the caller's signature is verified and before the call is
	// accepted: a host that cannot reach its keys answers 503 instead of accepting a
	// call it could only void. The error is of kind problem.BudgetSpent if the
	// vacant's budget of the day is spent; the call is then refused with 429. A nil
	// Ready means that the Signer is always ready.
	Ready func(context.Context) error
	// Parent is nil unless the vacant is a child. Closed means that the child's
	// manifest admits only its parent and siblings; everybody else is told that
	// it is not hosted here. Reach is the endpoint reachability in a v2
	// manifest of an open child, or "".
	Parent *identity.ID
	Closed bool
	Reach  composite.Reachability
	// HasKin reports whether the vacant has a parent or children. Their answers
	// are recorded (Config.Observe).
	HasKin bool
	// Tenant is the tenant that the vacant is hosted for, or "" for the
	// operator.
	Tenant string
	// Price is the price of a call. With nil, calls are free. Parents, siblings and the
	// host do not pay.
	Price *price.Price
	// Work bounds a call. Zero means the bound that the host or the handler sets.
	Work time.Duration
}

// Directory finds the vacants of this host. ok is false if the id is not hosted
// here. If fresh is set, it reads the store; otherwise the result may be up to
// one second old. Safe for concurrent use.
type Directory interface {
	Vacant(ctx context.Context, id identity.ID, fresh bool) (v Vacant, ok bool, err error)
}

// Single is a Directory of one vacant that never changes, for programs that
// host their own.
type Single Vacant

// Vacant implements Directory.
func (o Single) Vacant(_ context.Context, id identity.ID, _ bool) (Vacant, bool, error) {
	return Vacant(o), id == o.ID, nil
}

// Texts seals request and reply texts under the host's key of the UTC day. Open
// returns textkeys.ErrGone once that key is destroyed. Safe for concurrent use.
type Texts interface {
	Warm(ctx context.Context) error
	Seal(ctx context.Context, bound, plain []byte) (textkeys.Sealed, error)
	Open(ctx context.Context, bound []byte, s textkeys.Sealed) ([]byte, error)
}

// Config holds the dependencies of a Host. A nil Ledger makes all calls free.
// Zero durations mean the defaults.
type Config struct {
	Store     store.Store
	Directory Directory
	Texts     Texts
	Ledger    Ledger
	// Revoked reports for each id whether its key is revoked, read from the
	// store. It is called once per call. With nil, no key is ever revoked.
	Revoked func(ctx context.Context, ids ...identity.ID) ([]bool, error)
	// Sibling reports whether caller is a child of parent by a manifest that
	// both signed. It is called for children that admit only their tree, after
	// the caller's signature is verified. With nil, nobody is a sibling.
	Sibling func(ctx context.Context, parent, caller identity.ID) (bool, error)
	// Observe receives the answers of vacants with kin while the answer is
	// being committed. The reply waits for it, one second at most. A call
	// succeeds even if its observation is lost. With nil, nothing is recorded.
	Observe func(ctx context.Context, o Observation)
	// Self returns the host's own identity, which 421 names on the host route.
	// It is called only then, so that starting needs no key. With nil, 421
	// names zeros.
	Self func(ctx context.Context) (identity.ID, error)
	Now  func() time.Time
	Rand io.Reader
	// Wait sleeps between retries and ends early with ctx.
	Wait func(ctx context.Context, d time.Duration) error
	// Work bounds a behaviour (default 25 s). Margin is the part of the
	// caller's deadline kept for writing the answer (default 2 s).
	Work, Margin time.Duration
	// Log gets the calls that this process decides; it may be nil.
	Log *Log
}

// Observation is one answer of a vacant with kin.
type Observation struct {
	Pair   Pair
	Parent *identity.ID // of the vacant, or nil
	// Position is the position of the pair's response stream at which the
	// answer was first tried. If another writer took this position, the row
	// there is not this answer.
	Position uint64
	Time     time.Time     // of the answer
	Took     time.Duration // from accept to answer
}

// Limits of the pipeline.
const (
	DefaultWork   = 25 * time.Second
	DefaultMargin = 2 * time.Second
	// MinWork and MaxWork bound what operators may set as the bound of a call.
	MinWork = time.Second
	MaxWork = 14 * time.Minute
	// Grace is the time after the behaviour's deadline before others may void
	// the call.
	Grace = 10 * time.Second
	// MaxSkew bounds how far an envelope may be signed ahead of the host's
	// clock, and a reset ahead or behind.
	MaxSkew = 300 * time.Second
	// epochsSearched bounds the search for a resend: the current epoch and
	// seven before it.
	epochsSearched = 8
	// maxTries bounds the attempts at one write whose outcome is unknown.
	maxTries = 6
)

// Host runs the call pipeline over one store. It is safe for concurrent use,
// and any number of hosts may share a store.
type Host struct {
	Config
	tipCache tipCache
	kinCache kinCache
}

// New returns a Host.
func New(c Config) *Host {
	c.Work = cmp.Or(c.Work, DefaultWork)
	c.Margin = cmp.Or(c.Margin, DefaultMargin)
	if c.Wait == nil {
		c.Wait = retry.Sleep
	}
	if c.Self == nil {
		c.Self = func(context.Context) (identity.ID, error) { return identity.ID{}, nil }
	}
	return &Host{Config: c}
}

// IsSlow reports whether callers do not wait for the calls of a vacant, by its Vacant.Work: the
// calls may take longer than a request.
func (h *Host) IsSlow(work time.Duration) bool { return cmp.Or(work, h.Work) > DefaultWork }

// Forget clears the cached tips of all pairs, because a store that came back
// from a backup may lack rows.
func (h *Host) Forget() { h.tipCache.clear() }

// State is the outcome of an envelope that was accepted before.
type State string

// The values of the wire member `state`.
const (
	Pending    State = "pending"    // accepted, not decided yet
	Answered   State = "answered"   // the answer is in the same response
	Unanswered State = "unanswered" // final: it will never be answered
	Unknown    State = "unknown"    // not accepted in the epochs that were searched
)

// Outcome is the result of a request. Problem is nil for 200. The other fields
// are set where PROTOCOL §6 puts them in the answer.
type Outcome struct {
	Problem *problem.Error

	Reply     *envelope.Envelope // the reply of Send, or with Answered the stored answer
	State     State
	ReplySeq  int64         // with Answered and a destroyed text key
	ReplyHash identity.Hash // with Answered and a destroyed text key
	Cut       Cut           // with Reply or Answered, why the answer ends early; "" for a whole answer
	Charged   bool          // with Answered: the call had a price, so the answer has a receipt
	TooOld    bool          // with Unknown: older epochs were not searched
	ResetAt   time.Time     // of a successful Reset

	Chain       bool // ExpectedSeq and ChainTip are set
	ExpectedSeq int64
	ChainTip    identity.Hash
	Floor, Now  time.Time // omitted if zero
	Due         time.Time // with Pending, when the call is decided at the latest
	Restored    time.Time // with a refusal by the chain: Vacant.Restored

	// Cause tells why this request voided the call, Usage counts the work done for it, and
	// AgentLog tells what the vacant's agent did, for the log of the host. They may be nil.
	Cause    *Cause
	Usage    *Usage
	AgentLog *AgentLog

	// Price is the vacant's price, if the call has a price. Charge is the amount charged
	// for the answer. Pay lists the ways to pay, in JSON, with a 402.
	Price  *price.Price
	Charge money.Amount
	Pay    []json.RawMessage

	Ended    bool          // the call ended within this request, and has its row in Log
	Position uint64        // of the request row, or zero
	Hash     identity.Hash // of the envelope
}

func (o Outcome) refuse(err error) Outcome {
	o.Problem = problem.Of(err)
	if o.Problem.Kind == problem.Unavailable || o.Problem.Kind == problem.Internal || o.Problem.Kind == problem.Damaged {
		// State that could not be read, or may be stale, is not reported.
		o.Chain, o.Floor, o.Restored, o.State, o.Due = false, time.Time{}, time.Time{}, "", time.Time{}
	}
	return o
}

func (o Outcome) at(tip RequestRow) Outcome {
	t := tip.Tip()
	o.Chain, o.ExpectedSeq, o.ChainTip = true, t.Seq+1, t.Hash
	return o
}

// below tells with a refusal by the chain which floor a new envelope must pass, zero for
// none, and whether calls may be lost.
func (o Outcome) below(floor time.Time, v *Vacant) Outcome {
	if o.Floor = floor; !floor.IsZero() {
		o.Restored = v.Restored
	}
	return o
}

// request is one envelope in the pipeline.
type request struct {
	pair        Pair
	env         *envelope.Envelope
	hash        identity.Hash
	needsSigner bool // an accepted call must be signed by the vacant
	reporter    *reporter
	opts        Options
	pays        bool // the call or reset is to be accepted, so somebody pays
	reset       bool
	queued      time.Duration // how long the call may wait before it runs
	handsOff    bool          // Options.Handoff takes the call
	until       time.Time     // when the behaviour must have ended; zero without such a time
	cut         Cut           // why the answer ends early; "" for a whole answer
	tools       []ToolTexts   // what the agent's tools were asked and said, if it is kept
	root        *request      // root of the call's walk; nil if the call is the root
	walk        walk          // payments in the walk of a root
	facts
	began time.Time // when the call came
	out   Outcome
}

// detach returns a context that outlives the caller's connection and keeps its
// deadline: an accepted request is completed and stored even if the caller
// disconnects.
func (h *Host) detach(ctx context.Context, o Options) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	ctx = context.WithoutCancel(ctx)
	if !ok {
		return context.WithTimeout(ctx, cmp.Or(o.Work, h.Work)+Grace)
	}
	return context.WithDeadline(ctx, deadline)
}

// verifyAndFetch does steps 3 and 4 of Send and Ask: it verifies the signature
// and reads everything the decision needs into r and v, in one round. If warm
// is set, cached tips are used. fresh reports whether the store was read.
func (h *Host) verifyAndFetch(ctx context.Context, route identity.ID, r *request, v *tips, warm bool) (fresh bool, err error) {
	e := r.env
	signed := true
	if r.opts.Guest {
		r.hash = e.Hash()
	} else {
		r.hash, signed = e.Verify()
	}
	r.out.Hash = r.hash
	if !route.IsZero() && route != e.To {
		return false, misdirected(e.To, route)
	}
	if !signed {
		// A forged envelope costs one read, of the record.
		v, ok, err := h.Directory.Vacant(ctx, e.To, false)
		switch {
		case err != nil:
			return false, h.unavailable(err)
		case !ok || v.Closed: // a forged envelope does not prove kinship
			return false, h.notHosted(ctx, e.To)
		}
		return false, badSignature(e.From)
	}
	generation := h.tipCache.generation.Load()
	known, ok := h.tipCache.get(r.pair, v), false
	if warm && known {
		// The record is cached for a second and the text key for a day, so this
		// usually reads nothing, unless the call has a price.
		if ok, err = h.fetchVacant(ctx, r, false); err == nil && ok && r.toQuote() {
			// A call with a price waits for a read anyway, so revocations are checked beside
			// the quote: a revoked call then needs no refund.
			g, ctx := errgroup.WithContext(ctx)
			g.Go(func() error { return h.quote(ctx, r) })
			g.Go(func() error { return h.checkRevoked(ctx, r) })
			err = g.Wait()
			h.invalidate(r)
		}
		if err == nil && generation != h.tipCache.generation.Load() {
			// The record just read says that the store came back from a backup.
			fresh = true
			ok, err = h.fetch(ctx, r, v, fresh)
		}
		if err == nil {
			err = h.unavailable(h.Texts.Warm(ctx))
		}
	} else {
		fresh = !warm || !known
		ok, err = h.fetch(ctx, r, v, fresh)
	}
	switch {
	case err != nil:
		return fresh, err
	case !ok || r.concealed():
		return fresh, h.notHosted(ctx, e.To)
	}
	return fresh, r.callerRevoked
}

// fetch reads in one round the record and what follows from it, the key of the day, the
// revocation of both keys and, if tips is set, both tips.
func (h *Host) fetch(ctx context.Context, r *request, v *tips, tips bool) (ok bool, err error) {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		// A record that was just read need not be read again before a refusal.
		ok, err = h.fetchAndQuote(ctx, r, tips)
		return err
	})
	g.Go(func() error { return h.unavailable(h.Texts.Warm(ctx)) })
	g.Go(func() error { return h.checkRevoked(ctx, r) })
	if tips {
		g.Go(func() (err error) { *v, err = h.read(ctx, r.pair); return err })
	}
	err = g.Wait()
	h.invalidate(r)
	return ok, err
}

// fetchVacant reads the vacant's record and makes its signer ready,
// concurrently with the other reads. If the signer is not ready, only new calls
// are refused; resends are still answered. ok is also false for a closed child
// that does not admit the caller.
func (h *Host) fetchVacant(ctx context.Context, r *request, fresh bool) (ok bool, err error) {
	r.vacant, ok, err = h.Directory.Vacant(ctx, r.env.To, fresh)
	if err != nil {
		return false, h.unavailable(err)
	}
	if !ok {
		// Nobody costs the same reads as a closed child, or the time of the
		// answer would tell them apart.
		_, err := h.related(ctx, r.pair, &r.env.To)
		return false, err
	}
	if agreed := r.opts.Agreed; agreed != nil {
		r.vacant.Price = agreed.Price
	}
	r.signerErr = nil
	r.notRelated = false
	if r.vacant.TreeOnly() { // the caller's signature was verified before
		related, err := h.related(ctx, r.pair, r.vacant.Parent)
		if err != nil {
			return false, err
		}
		r.notRelated = !related
	}
	if r.vacant.Closed && r.notRelated {
		return false, nil
	}
	if r.needsSigner && !r.notRelated && r.vacant.Ready != nil && r.vacant.State.CanBeCalled() {
		r.signerErr = r.vacant.Ready(ctx)
	}
	return true, nil
}

func misdirected(to, here identity.ID) error {
	return problem.New(problem.Misdirected, "envelope addressed to %s; this server is %s", to.Short(), here.Short())
}

// notHosted is the refusal of an envelope for a vacant of another host.
func (h *Host) notHosted(ctx context.Context, to identity.ID) error {
	self, err := h.Self(ctx)
	if err != nil {
		return h.unavailable(err)
	}
	return misdirected(to, self)
}

func badSignature(from identity.ID) error {
	return problem.New(problem.BadSignature, "envelope signature did not verify for sender %s", from.Short())
}

// checkEnvelope refuses envelopes that no chain position can make valid: signed
// too far ahead, to oneself, or of a kind only the answering side signs
// (PROTOCOL §23 A3, A13).
func (h *Host) checkEnvelope(r *request, asking bool) error {
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
	return checkAddress(e)
}

func checkAddress(e *envelope.Envelope) error {
	if e.From == e.To {
		return problem.Invalid("to_vacant_id", "another vacant than from_vacant_id", e.To.Short())
	}
	if envelope.IsReplyKey(e.IdempotencyKey) {
		return problem.Invalid("idempotency_key", "no key that begins with re:, which marks answers", "re:…")
	}
	return nil
}
