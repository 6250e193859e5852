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

// Behaviour answers one accepted envelope. It runs at most once per envelope, in its own goroutine,
// and calls other vacants with host. ctx ends at the deadline. A later result is discarded. e
// contains only what the signature covers. The returned message is sent as ROLE_AGENT. An error
// voids the call with status 504 for the kind problem.DeadlineExceeded and 500 for other kinds. A
// kind for which Kind.IsFailure is false is reported as problem.BehaviourFailed. An AgentError in
// the error chain is stored for the operator.
type Behaviour func(ctx context.Context, host *Host, e envelope.Envelope) (envelope.Message, error)

// Vacant is the part of a hosted vacant's record that the pipeline needs.
type Vacant struct {
	ID         identity.ID
	State      lifecycle.State
	Floor      time.Time // envelopes signed at or before this time are refused; zero means no limit
	RestoredAt time.Time // time of the last restore from a backup; may be zero
	Behaviour  Behaviour
	Signer     identity.Signer
	// Ready opens the key of Signer, which may fail and may cost money. It is called after the
	// caller's signature is verified and before the call is accepted. If it fails, the host refuses
	// the call with 503, because an accepted call could only be voided. If the vacant's daily budget
	// is spent, the error has kind problem.BudgetSpent and the refusal is 429. If Ready is nil, Signer
	// is always ready.
	Ready func(context.Context) error
	// Parent is the parent of a child, otherwise nil. IsClosedChild reports whether the vacant is a
	// child whose manifest admits only its parent and siblings. To other callers, it looks like a
	// vacant that this host does not have. Reachability is the member endpoint_reachability of an open
	// child's manifest (version 2), or "".
	Parent        *identity.ID
	IsClosedChild bool
	Reachability  composite.Reachability
	// HasKin reports whether the vacant has a parent or children. Its answers are then recorded
	// (Config.Observe).
	HasKin bool
	// Tenant is the tenant for which the vacant is hosted. It is empty for vacants of the operator.
	Tenant string
	// Price is the price of a call. If it is nil, calls are free. Parents, siblings and the host do
	// not pay.
	Price *price.Price
	// CallTimeout limits the duration of a call. Zero means the limit of the host or the handler.
	CallTimeout time.Duration
}

// Directory finds the vacants of this host. If the id is not hosted here, ok is false. If fresh is
// set, the record is read from the store; otherwise it may be up to one second old. A Directory is
// safe for concurrent use.
type Directory interface {
	Vacant(ctx context.Context, id identity.ID, fresh bool) (v Vacant, ok bool, err error)
}

// SingleVacant is a Directory with one vacant that never changes, for programs that host their own
// vacant.
type SingleVacant Vacant

func (v SingleVacant) Vacant(_ context.Context, id identity.ID, _ bool) (Vacant, bool, error) {
	return Vacant(v), id == v.ID, nil
}

// Texts seals request and reply texts with the host's key of the UTC day. Warm loads today's key
// into memory. Open returns textkeys.ErrDestroyed after the key of the text is destroyed. Texts is
// safe for concurrent use.
type Texts interface {
	Warm(ctx context.Context) error
	Seal(ctx context.Context, bound, plain []byte) (textkeys.Sealed, error)
	Open(ctx context.Context, bound []byte, s textkeys.Sealed) ([]byte, error)
}

// Config contains the dependencies of a Host. If Ledger is nil, calls to vacants with a price are
// refused. Zero durations mean the defaults.
type Config struct {
	Store     store.Store
	Directory Directory
	Texts     Texts
	Ledger    Ledger
	// AreRevoked reports for each id whether its key is revoked. It reads the store and is called once
	// per call. If it is nil, no key is considered revoked.
	AreRevoked func(ctx context.Context, ids ...identity.ID) ([]bool, error)
	// IsSibling reports whether caller is a child of parent, according to a manifest that caller
	// and parent signed. It is called after the caller's signature is verified. If it is nil, no
	// caller is considered a sibling.
	IsSibling func(ctx context.Context, parent, caller identity.ID) (bool, error)
	// Observe receives an answer of a vacant with kin while the answer is being committed. The
	// reply waits for Observe, at most one second. A call succeeds even if its observation is lost.
	// Observe may be nil.
	Observe func(ctx context.Context, o Observation)
	// Self returns the host's own identity, which a 421 response on the host route names. It is called
	// only for such a response or for a call with a price. The host can therefore start without a key.
	// If it is nil, the response names the zero id.
	Self func(ctx context.Context) (identity.ID, error)
	Now  func() time.Time
	Rand io.Reader
	// Wait sleeps between retries. It returns early if ctx ends.
	Wait func(ctx context.Context, d time.Duration) error
	// CallTimeout is the time limit of a behaviour (default 25 s). ReplyMargin is the part of the
	// caller's deadline that is reserved for writing the answer (default 2 s).
	CallTimeout, ReplyMargin time.Duration
	// Log receives the calls that this process decides. It may be nil.
	Log *Log
}

// Observation is one answer of a vacant with kin.
type Observation struct {
	Pair   Pair
	Parent *identity.ID // parent of the vacant, or nil
	// Position is the position of the pair's response stream at which the host first tried to write
	// the answer. If another writer took this position, the row at Position contains another decision.
	Position uint64
	Time     time.Time     // signed time of the answer
	Duration time.Duration // time from the start of the behaviour to the answer
}

// Limits of the pipeline.
const (
	DefaultCallTimeout = 25 * time.Second
	DefaultReplyMargin = 2 * time.Second
	// MinCallTimeout and MaxCallTimeout are the bounds of the time limit that operators may set for a
	// call.
	MinCallTimeout = time.Second
	MaxCallTimeout = 14 * time.Minute
	// GracePeriod is the time from the behaviour's deadline until other processes may void the call.
	GracePeriod = 10 * time.Second
	// MaxSkew limits how far in the future, by the host's clock, an envelope may be signed. It also
	// limits how far in the past a reset may be signed.
	MaxSkew = 300 * time.Second
	// epochsSearched limits the search for a resend to the current epoch and the seven epochs
	// before it.
	epochsSearched = 8
	// maxTries limits the attempts at one write whose outcome is unknown.
	maxTries = 6
)

// Host runs the call pipeline on one store. It is safe for concurrent use, and several hosts may
// share a store.
type Host struct {
	Config
	tipCache tipCache
	kinCache kinCache
}

func New(c Config) *Host {
	c.CallTimeout = cmp.Or(c.CallTimeout, DefaultCallTimeout)
	c.ReplyMargin = cmp.Or(c.ReplyMargin, DefaultReplyMargin)
	if c.Wait == nil {
		c.Wait = retry.Sleep
	}
	if c.Self == nil {
		c.Self = func(context.Context) (identity.ID, error) { return identity.ID{}, nil }
	}
	return &Host{Config: c}
}

// IsSlow reports whether a call to a vacant with the given Vacant.CallTimeout may take longer than
// DefaultCallTimeout, which is too long for a caller to wait (Options.HandoffWrites).
func (h *Host) IsSlow(callTimeout time.Duration) bool {
	return cmp.Or(callTimeout, h.CallTimeout) > DefaultCallTimeout
}

// ClearCache clears the cached tips of all pairs. Call it after the store was restored from a
// backup, which may lack the cached rows.
func (h *Host) ClearCache() { h.tipCache.clear() }

// State is the state of an envelope, as a resend or an ask reports it.
type State string

// The values of the wire member `state`.
const (
	Pending    State = "pending"    // accepted, but not decided yet
	Answered   State = "answered"   // answered; the response contains the answer
	Unanswered State = "unanswered" // final; it will not be answered
	Unknown    State = "unknown"    // not accepted in the searched epochs
)

// Outcome is the result of a request. Problem is nil for status 200. PROTOCOL §6 specifies which of
// the other fields a response has.
type Outcome struct {
	Problem *problem.Error

	Reply               *envelope.Envelope // reply of Send, or the stored answer if State is Answered
	State               State
	ReplySeq            int64         // set instead of Reply if the text key is destroyed
	ReplyHash           identity.Hash // set instead of Reply if the text key is destroyed
	CutReason           CutReason     // "" for a complete answer
	HasReceipt          bool          // whether the answered call had a price, so that a receipt exists
	HasUnsearchedEpochs bool          // whether older epochs were not searched; may be set if State is Unknown
	ResetAt             time.Time     // time of a successful Reset

	HasChain        bool // whether ExpectedSeq and ChainTip are set
	ExpectedSeq     int64
	ChainTip        identity.Hash
	Floor, HostTime time.Time // time after which a new envelope must be signed, and the host's time; omitted if zero
	Due             time.Time // time by which a pending call will be decided
	RestoredAt      time.Time // Vacant.RestoredAt, if the call is refused with a Floor

	// Cause is the reason why this request voided the call. Usage counts the work of the agent.
	// AgentLog describes the agent's tools, for the host's log. All three may be nil.
	Cause    *Cause
	Usage    *Usage
	AgentLog *AgentLog

	// Price is the vacant's price; nil if the call is free. Charge is the amount charged for the
	// answer. PaymentOptions contains the ways to pay, as JSON values, for a 402 response.
	Price          *price.Price
	Charge         money.Amount
	PaymentOptions []json.RawMessage

	HasEnded bool          // whether this request ended the call and logged it
	Position uint64        // position of the request row, or zero
	Hash     identity.Hash // hash of the envelope
}

func (o Outcome) withProblem(err error) Outcome {
	o.Problem = problem.AsError(err)
	if o.Problem.Kind == problem.Unavailable || o.Problem.Kind == problem.Internal || o.Problem.Kind == problem.Damaged {
		// State that could not be read or may be stale is not reported.
		o.HasChain, o.Floor, o.RestoredAt, o.State, o.Due = false, time.Time{}, time.Time{}, "", time.Time{}
	}
	return o
}

func (o Outcome) withTip(tip RequestRow) Outcome {
	t := tip.Tip()
	o.HasChain, o.ExpectedSeq, o.ChainTip = true, t.Seq+1, t.Hash
	return o
}

func (o Outcome) withFloor(floor time.Time, v *Vacant) Outcome {
	if o.Floor = floor; !floor.IsZero() { // a restore may be the reason for the floor
		o.RestoredAt = v.RestoredAt
	}
	return o
}

// request is one envelope in the pipeline.
type request struct {
	pair           Pair
	env            *envelope.Envelope
	hash           identity.Hash
	needsSigner    bool // whether the vacant must sign an answer if the call is accepted
	reporter       *reporter
	opts           Options
	mayNeedPayment bool               // whether the request is a new call or a reset, which may have to be paid for
	isReset        bool               // whether the request is a reset
	maxQueueTime   time.Duration      // longest time for which the call may wait before it runs
	isHandedOff    bool               // whether Options.HandoffWrites passes the call to Resume
	behaviourEnd   time.Time          // time at which the behaviour must end; zero means no such limit
	cutReason      CutReason          // "" for a complete answer
	tools          []RecordedToolCall // texts of the agent's tool calls, if they are stored
	root           *request           // root of the call's walk; nil if the call is the root
	callingRequest *request           // request whose vacant makes the call; nil if the call is the root
	walk           walk               // cost of the walk, if the request is its root
	facts
	arrival time.Time // arrival of the call; zero if this request does not run the call
	out     Outcome
}

// detach returns a context with the deadline of ctx that is not canceled with ctx. An accepted
// request is completed and stored even if the caller disconnects.
func (h *Host) detach(ctx context.Context, o Options) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	ctx = context.WithoutCancel(ctx)
	if !ok {
		return context.WithTimeout(ctx, cmp.Or(o.CallTimeout, h.CallTimeout)+GracePeriod)
	}
	return context.WithDeadline(ctx, deadline)
}

// verifyAndFetch performs steps 2 and 3 of Send and Ask. It verifies the signature and concurrently
// reads everything that the decision needs into r and v. If useCache is set, it may use cached
// tips. isFresh reports whether the tips were read from the store.
func (h *Host) verifyAndFetch(ctx context.Context, route identity.ID, r *request, v *tips, useCache bool) (isFresh bool, err error) {
	e := r.env
	signed := true
	if r.opts.Guest {
		r.hash = e.Hash()
	} else {
		r.hash, signed = e.Verify()
	}
	r.out.Hash = r.hash
	if !route.IsZero() && route != e.To {
		return false, misdirectedError(e.To, route)
	}
	if !signed {
		// A forged envelope costs only one read of the record.
		v, ok, err := h.Directory.Vacant(ctx, e.To, false)
		switch {
		case err != nil:
			return false, h.unavailableError(err)
		case !ok || v.IsClosedChild: // a forged envelope does not prove kinship
			return false, h.notHostedError(ctx, e.To)
		}
		return false, badSignatureError(e.From)
	}
	generation := h.tipCache.generation.Load()
	isCached, ok := h.tipCache.get(r.pair, v), false
	if useCache && isCached {
		// The record is cached for a second and the text key for a day. Unless the call has a price, this
		// branch therefore usually reads no data.
		if ok, err = h.fetchVacant(ctx, r, false); err == nil && ok && r.needsQuote() {
			// A call with a price waits for a read anyway, so revocation is checked concurrently with the
			// quote. A call with a revoked key is then refused before its debit.
			g, ctx := errgroup.WithContext(ctx)
			g.Go(func() error { return h.planPayment(ctx, r) })
			g.Go(func() error { return h.checkRevoked(ctx, r) })
			err = g.Wait()
			h.forgetTipsIfRevoked(r)
		}
		if err == nil && generation != h.tipCache.generation.Load() {
			// The vacant's record shows that the store was restored from a backup, which cleared
			// the cache.
			isFresh = true
			ok, err = h.fetch(ctx, r, v, isFresh)
		}
		if err == nil {
			err = h.unavailableError(h.Texts.Warm(ctx))
		}
	} else {
		isFresh = !useCache || !isCached
		ok, err = h.fetch(ctx, r, v, isFresh)
	}
	switch {
	case err != nil:
		return isFresh, err
	case !ok || r.isConcealed():
		return isFresh, h.notHostedError(ctx, e.To)
	}
	return isFresh, r.revokedCallerErr
}

func (h *Host) fetch(ctx context.Context, r *request, v *tips, wantTips bool) (ok bool, err error) {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		// If the tips are read, the record is also read from the store, so that a refusal needs no
		// second read.
		ok, err = h.fetchAndQuote(ctx, r, wantTips)
		return err
	})
	g.Go(func() error { return h.unavailableError(h.Texts.Warm(ctx)) })
	g.Go(func() error { return h.checkRevoked(ctx, r) })
	if wantTips {
		g.Go(func() (err error) { *v, err = h.readTips(ctx, r.pair); return err })
	}
	err = g.Wait()
	h.forgetTipsIfRevoked(r)
	return ok, err
}

// fetchVacant reads the vacant's record and makes its signer ready. If the signer is not ready,
// only new calls are refused, while resends are still answered. If the vacant is a closed child
// that does not admit the caller, ok is false.
func (h *Host) fetchVacant(ctx context.Context, r *request, fresh bool) (ok bool, err error) {
	r.vacant, ok, err = h.Directory.Vacant(ctx, r.env.To, fresh)
	if err != nil {
		return false, h.unavailableError(err)
	}
	if !ok {
		// An id that is not hosted costs the same reads as a closed child. Otherwise, callers could
		// distinguish the two by the response time.
		_, err := h.isRelated(ctx, r.pair, &r.env.To)
		return false, err
	}
	if agreement := r.opts.AgreedPrice; agreement != nil {
		r.vacant.Price = agreement.Price
	}
	r.signerErr = nil
	r.notRelated = false
	if r.vacant.IsTreeOnly() { // the caller's signature has been verified
		related, err := h.isRelated(ctx, r.pair, r.vacant.Parent)
		if err != nil {
			return false, err
		}
		r.notRelated = !related
	}
	if r.vacant.IsClosedChild && r.notRelated {
		return false, nil
	}
	if r.needsSigner && !r.notRelated && r.vacant.Ready != nil && r.vacant.State.CanBeCalled() {
		r.signerErr = r.vacant.Ready(ctx)
	}
	return true, nil
}

func misdirectedError(to, self identity.ID) error {
	return problem.New(problem.Misdirected, "envelope addressed to %s; this server is %s", to.Short(), self.Short())
}

func (h *Host) notHostedError(ctx context.Context, to identity.ID) error {
	self, err := h.Self(ctx)
	if err != nil {
		return h.unavailableError(err)
	}
	return misdirectedError(to, self)
}

func badSignatureError(from identity.ID) error {
	return problem.New(problem.BadSignature, "envelope signature did not verify for sender %s", from.Short())
}

// checkEnvelope refuses envelopes that are invalid at every position of a chain: signed too far in
// the future, addressed to the sender, or of a kind that only the answering side signs (PROTOCOL
// §23 A3, A13).
func (h *Host) checkEnvelope(r *request, isAsk bool) error {
	e := r.env
	if !isAsk {
		now := h.Now()
		if ahead := e.Time.Sub(now); ahead > MaxSkew {
			r.out.HostTime = now.UTC().Truncate(time.Microsecond)
			return &problem.Error{Kind: problem.ClockSkew, Field: "timestamp", Want: "at most 300 s ahead of " + canon.FormatTime(now), Got: canon.FormatTime(e.Time)}
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
