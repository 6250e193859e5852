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

// Behaviour answers an accepted envelope, and runs at most once per envelope. ctx ends at the
// deadline, and a later result is discarded. An error voids the call.
type Behaviour func(ctx context.Context, host *Host, e envelope.Envelope) (envelope.Message, error)

type Vacant struct {
	ID         identity.ID
	State      lifecycle.State
	Floor      time.Time // new envelopes must be signed later; zero means no limit
	RestoredAt time.Time
	Behaviour  Behaviour
	Signer     identity.Signer
	// Ready opens the key of Signer, or is nil. It may cost money, so the caller's signature is
	// verified first.
	Ready func(context.Context) error
	// To callers other than its parent and siblings, a closed child looks like an unknown vacant.
	Parent        *identity.ID
	IsClosedChild bool
	Reachability  composite.Reachability
	HasKin        bool
	Tenant        string
	// Price is nil if calls are free. Parents, siblings and the host do not pay.
	Price       *price.Price
	CallTimeout time.Duration
}

// Directory finds the vacants of this host. If fresh is false, the record may be up to one second
// old. A Directory is safe for concurrent use.
type Directory interface {
	Vacant(ctx context.Context, id identity.ID, fresh bool) (v Vacant, ok bool, err error)
}

type SingleVacant Vacant

func (v SingleVacant) Vacant(_ context.Context, id identity.ID, _ bool) (Vacant, bool, error) {
	return Vacant(v), id == v.ID, nil
}

// Texts seals texts with the host's key of the UTC day. Open returns textkeys.ErrDestroyed after
// the key is destroyed. Texts is safe for concurrent use.
type Texts interface {
	Warm(ctx context.Context) error
	Seal(ctx context.Context, bound, plain []byte) (textkeys.Sealed, error)
	Open(ctx context.Context, bound []byte, s textkeys.Sealed) ([]byte, error)
}

// Config contains the dependencies of a Host. If Ledger is nil, calls with a price are refused.
type Config struct {
	Store     store.Store
	Directory Directory
	Texts     Texts
	Ledger    Ledger
	// If AreRevoked is nil, no key is treated as revoked.
	AreRevoked func(ctx context.Context, ids ...identity.ID) ([]bool, error)
	// IsSibling reports whether caller is a child of parent. It may be nil.
	IsSibling func(ctx context.Context, parent, caller identity.ID) (bool, error)
	// Observe receives the answers of vacants with kin. It may be nil, and delays a reply by at
	// most one second.
	Observe func(ctx context.Context, o Observation)
	// Self returns the host's own identity, which may not exist at startup.
	Self func(ctx context.Context) (identity.ID, error)
	Now  func() time.Time
	Rand io.Reader
	Wait func(ctx context.Context, d time.Duration) error
	// ReplyMargin is the part of the caller's deadline that is reserved for writing the answer.
	CallTimeout, ReplyMargin time.Duration
	Log                      *Log
}

type Observation struct {
	Pair   Pair
	Parent *identity.ID
	// The host first tried to write the answer at Position, which another writer may have taken.
	Position uint64
	Time     time.Time
	Duration time.Duration
}

const (
	DefaultCallTimeout = 25 * time.Second
	DefaultReplyMargin = 2 * time.Second
	MinCallTimeout     = time.Second
	MaxCallTimeout     = 14 * time.Minute
	// GracePeriod is the time from the behaviour's deadline until other processes may void the
	// call.
	GracePeriod = 10 * time.Second
	// MaxSkew limits how far in the future an envelope may be signed, and how old a reset may be.
	MaxSkew        = 300 * time.Second
	epochsSearched = 8
	maxTries       = 6
)

// Host runs the call pipeline. It is safe for concurrent use, and several hosts may share a store.
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

func (h *Host) IsSlow(callTimeout time.Duration) bool {
	return cmp.Or(callTimeout, h.CallTimeout) > DefaultCallTimeout
}

// ClearCache must be called after the store is restored from a backup, which may lack the cached
// rows.
func (h *Host) ClearCache() { h.tipCache.clear() }

type State string

const (
	Pending    State = "pending"
	Answered   State = "answered"
	Unanswered State = "unanswered"
	Unknown    State = "unknown"
)

// Outcome is the result of a request. Problem is nil for status 200.
type Outcome struct {
	Problem *problem.Error

	Reply               *envelope.Envelope
	State               State
	ReplySeq            int64 // set instead of Reply if the text key is destroyed
	ReplyHash           identity.Hash
	CutReason           CutReason
	HasReceipt          bool
	HasUnsearchedEpochs bool
	ResetAt             time.Time

	HasChain        bool
	ExpectedSeq     int64
	ChainTip        identity.Hash
	Floor, HostTime time.Time // a new envelope must be signed after Floor
	Due             time.Time
	RestoredAt      time.Time

	Cause    *Cause
	Usage    *Usage
	AgentLog *AgentLog

	Price          *price.Price
	Charge         money.Amount
	PaymentOptions []json.RawMessage

	HasEnded bool // whether this request decided the call
	Position uint64
	Hash     identity.Hash
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
	if o.Floor = floor; !floor.IsZero() {
		o.RestoredAt = v.RestoredAt
	}
	return o
}

type request struct {
	pair              Pair
	env               *envelope.Envelope
	hash              identity.Hash
	needsSigner       bool
	reporter          *reporter
	opts              Options
	mayNeedPayment    bool
	isReset           bool
	maxQueueTime      time.Duration
	isHandedOff       bool // whether Resume will run the call
	behaviourDeadline time.Time
	cutReason         CutReason
	tools             []RecordedToolCall
	root              *request // nil for the root of a walk
	callingRequest    *request
	walk              walk
	facts
	arrival time.Time // zero if this request does not run the call
	out     Outcome
}

// detach keeps the deadline of ctx but not its cancellation: an accepted request is completed even
// if the caller disconnects.
func (h *Host) detach(ctx context.Context, o Options) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	ctx = context.WithoutCancel(ctx)
	if !ok {
		return context.WithTimeout(ctx, cmp.Or(o.CallTimeout, h.CallTimeout)+GracePeriod)
	}
	return context.WithDeadline(ctx, deadline)
}

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
		// A forged envelope must cost only one read.
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
		if ok, err = h.fetchVacant(ctx, r, false); err == nil && ok && r.needsQuote() {
			// Revocation is checked before the debit, so that the call of a revoked key costs no
			// money.
			g, ctx := errgroup.WithContext(ctx)
			g.Go(func() error { return h.planPayment(ctx, r) })
			g.Go(func() error { return h.checkRevoked(ctx, r) })
			err = g.Wait()
			h.forgetTipsIfRevoked(r)
		}
		if err == nil && generation != h.tipCache.generation.Load() {
			// The store was restored from a backup while the cached tips were in use.
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

func (h *Host) fetchVacant(ctx context.Context, r *request, fresh bool) (ok bool, err error) {
	r.vacant, ok, err = h.Directory.Vacant(ctx, r.env.To, fresh)
	if err != nil {
		return false, h.unavailableError(err)
	}
	if !ok {
		// An unknown id costs the same reads as a closed child. Otherwise, response times would
		// reveal closed children.
		_, err := h.isRelated(ctx, r.pair, &r.env.To)
		return false, err
	}
	if agreement := r.opts.AgreedPrice; agreement != nil {
		r.vacant.Price = agreement.Price
	}
	r.signerErr = nil
	r.notRelated = false
	if r.vacant.IsTreeOnly() {
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

// checkEnvelope refuses envelopes that are invalid at every position of a chain (PROTOCOL §23 A3,
// A13).
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
