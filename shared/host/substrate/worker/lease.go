package worker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

type Worker struct {
	Tenant string // "" means the operator
	Holder string // name of the worker's key
	Test   bool   // whether the worker runs test calls
}

// Leased is a leased turn. Times are durations, so that the clock of the worker does not matter.
type Leased struct {
	Lease  string      `json:"lease"`
	Vacant identity.ID `json:"vacant_id"`
	// Seconds is the time until the lease is lost unless it is renewed.
	Seconds    int   `json:"lease_seconds"`
	DeadlineMS int64 `json:"deadline_ms"`
	// Question is the request that an HTTP agent would get.
	Question json.RawMessage `json:"question"`
}

const (
	TypeStarted  = "started" // another worker may not repeat the turn without redo=1
	TypeText     = "text"
	TypeThought  = "thought"
	TypeQuestion = "asks" // the text that follows is a question to the caller
	TypeTool     = "tool"
)

// Event is a worker's report about a turn.
type Event struct {
	Type string         `json:"type" canon:"required"`
	Text string         `json:"text,omitempty"`
	Tool *call.ToolStep `json:"tool,omitempty"`
}

type Usage struct {
	InputTokens  int64 `json:"input_tokens,omitempty"`
	OutputTokens int64 `json:"output_tokens,omitempty"`
	CachedTokens int64 `json:"cached_tokens,omitempty"`
}

// StateInputRequired means that the text is a question to the caller.
const StateInputRequired = "input-required"

// Result ends a turn. The answer is the texts of all events, followed by Text.
type Result struct {
	Text  string `json:"text,omitempty"`
	State string `json:"state,omitempty"`
	Usage *Usage `json:"usage,omitempty"`
	// Error is a message to the vacant's owner, and Failure is a key of failureKinds.
	Error   string `json:"error,omitempty"`
	Failure string `json:"failure,omitempty"`
}

var failureKinds = map[string]problem.Kind{
	"": problem.SubstrateUnavailable, "unavailable": problem.SubstrateUnavailable, "busy": problem.SubstrateBusy,
	"refused": problem.SubstrateRefused, "misconfigured": problem.SubstrateMisconfigured,
}

const (
	maxErrorBytes    = 1000
	maxToolNameBytes = 128
)

// Lease leases a waiting turn of a vacant, or of any vacant of the worker's tenant if vacant is nil. It returns nil if
// no turn appears within wait.
func (d *Broker) Lease(ctx context.Context, w Worker, vacant *identity.ID, wait time.Duration) (*Leased, error) {
	if err := d.recordConnection(ctx, w.Tenant, w.Test, vacant); err != nil {
		return nil, err
	}
	if wait > 0 {
		unregister, err := d.registerWaiting(w.Holder)
		if err != nil {
			return nil, err
		}
		defer unregister()
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		change := d.changeSignal(queueName(w.Tenant, w.Test))
		l, err := d.leaseNext(ctx, w, vacant)
		if l != nil || err != nil || wait <= 0 {
			return l, err
		}
		select {
		case <-change:
		case <-timer.C:
			return nil, nil
		case <-d.closing:
			return nil, problem.New(problem.Unavailable, "the host is closing")
		case <-ctx.Done():
			return nil, problem.Wrap(problem.Canceled, ctx.Err(), "the worker has stopped waiting")
		}
	}
}

func (d *Broker) registerWaiting(holder string) (unregister func(), err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waitingRequests[holder] >= MaxWaitingRequests {
		return nil, problem.New(problem.TooManyRequests, "%d requests of this key are waiting for turns: expected at most %d; let one worker run several turns, or use another key", d.waitingRequests[holder], MaxWaitingRequests)
	}
	d.waitingRequests[holder]++
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.waitingRequests[holder]--; d.waitingRequests[holder] == 0 {
			delete(d.waitingRequests, holder)
		}
	}, nil
}

// leaseNext leases a waiting turn. If vacant is nil, it starts after the vacant that was served last, so that every
// vacant is served.
func (d *Broker) leaseNext(ctx context.Context, w Worker, vacant *identity.ID) (*Leased, error) {
	r := WaitingDocs.Range(w.Tenant, modeName(w.Test))
	if vacant != nil {
		r.Start, r.End = vacant.String()+"#", vacant.String()+"$" // $ follows #
		return d.leaseFirst(ctx, w, r)
	}
	queue := queueName(w.Tenant, w.Test)
	d.mu.Lock()
	last, isKnown := d.lastLeased[queue]
	delete(d.lastLeased, queue)
	d.mu.Unlock()
	var l *Leased
	var err error
	if isKnown {
		rest := r
		rest.Start = last.String() + "$"
		l, err = d.leaseFirst(ctx, w, rest)
	}
	if l == nil && err == nil {
		l, err = d.leaseFirst(ctx, w, r)
	}
	if l != nil {
		d.mu.Lock()
		d.lastLeased[queue] = l.Vacant
		d.mu.Unlock()
	}
	return l, err
}

func (d *Broker) leaseFirst(ctx context.Context, w Worker, r store.Range) (*Leased, error) {
	for doc, err := range store.Flatten(store.Pages(ctx, d.Store, r, scanPageSize)) {
		if err != nil {
			return nil, store.AsProblem(err)
		}
		waiting, err := WaitingDocs.Parse(doc)
		if err != nil {
			return nil, err
		}
		l, err := d.leaseTurn(ctx, w, waiting.Turn, doc.Key)
		if l != nil || err != nil {
			return l, err
		}
	}
	return nil, nil
}

func (d *Broker) leaseTurn(ctx context.Context, w Worker, id string, waitingKey store.Key) (*Leased, error) {
	var l *Leased
	err := d.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		l = nil
		waitingDoc, err := tx.Doc(ctx, waitingKey)
		if err != nil || waitingDoc.Version == 0 {
			return err
		}
		t, doc, err := TurnDocs.Get(ctx, tx, TurnDocs.Key(id))
		if err != nil {
			return err
		}
		remaining := t.Deadline.Sub(d.now())
		if doc.Version > 0 && t.State == stateWaiting && remaining <= 0 {
			return nil // the turn's supervisor has died, or the clock of this process is wrong
		}
		if tx.Delete(waitingKey); doc.Version == 0 || t.State != stateWaiting {
			return nil
		}
		t.State, t.Holders = stateLeased, append(t.Holders, w.Holder)
		TurnDocs.Put(tx, store.Doc{Key: doc.Key, Expires: t.expires()}, t)
		l = &Leased{Lease: id + "." + strconv.Itoa(len(t.Holders)), Vacant: t.Vacant, Seconds: int(LeaseDuration.Seconds()), DeadlineMS: remaining.Milliseconds()}
		return nil
	})
	d.signalChange(id)
	if err != nil || l == nil {
		return nil, store.AsProblem(err)
	}
	question, err := d.loadText(ctx, textKey(id, 0, 0))
	if err != nil {
		return nil, err // the lease is lost after LeaseDuration, and the turn is leased again
	}
	l.Question = fmt.Appendf(question[:len(question)-1], `,"deadline_ms":%d}`, l.DeadlineMS)
	return l, nil
}

// updateLease commits the changes that decide makes to the turn of a lease. It fails unless w holds the lease.
func (d *Broker) updateLease(ctx context.Context, w Worker, lease string, decide func(tx *store.Tx, id string, t *turn) (bool, error)) error {
	id, number, _ := strings.Cut(lease, ".")
	n, err := strconv.Atoi(number)
	if err != nil || len(id) != 32 || strings.Trim(id, "0123456789abcdef") != "" {
		return noLeaseError()
	}
	return d.updateTurn(ctx, id, func(tx *store.Tx, t *turn, _ uint64) (bool, error) {
		switch {
		case n < 1 || n > len(t.Holders) || t.Holders[n-1] != w.Holder || t.Tenant != w.Tenant || t.Test != w.Test:
			return false, noLeaseError()
		case n < len(t.Holders) || t.State == stateWaiting || t.State == stateLost:
			return false, problem.New(problem.Conflict, "lease %s is lost: expected a heartbeat, an event or the result within %d s; lease another turn", lease, int(LeaseDuration.Seconds()))
		}
		return decide(tx, id, t)
	})
}

// RenewLease renews a lease. canceled reports whether the turn has ended without an answer.
func (d *Broker) RenewLease(ctx context.Context, w Worker, lease string) (canceled bool, err error) {
	var vacant identity.ID
	err = d.updateLease(ctx, w, lease, func(_ *store.Tx, _ string, t *turn) (bool, error) {
		canceled, vacant = t.State == stateWithdrawn, t.Vacant
		t.HeartbeatCount++
		return t.State == stateLeased, nil
	})
	if err == nil {
		err = d.recordConnection(ctx, w.Tenant, w.Test, &vacant)
	}
	return canceled, err
}

// AppendEvents stores the events of a lease and renews it. A repeated batch is ignored.
func (d *Broker) AppendEvents(ctx context.Context, w Worker, lease string, batch int, events []Event) error {
	for i := range events {
		if err := events[i].check(fmt.Sprintf("events[%d].", i)); err != nil {
			return err
		}
	}
	return d.storeReport(ctx, w, lease, batch, report{Events: events})
}

// FinishTurn ends a turn with a result. Repeating the call with the same result has no effect.
func (d *Broker) FinishTurn(ctx context.Context, w Worker, lease string, r Result) error {
	if err := r.check(); err != nil {
		return err
	}
	return d.storeReport(ctx, w, lease, 0, report{Result: &r})
}

type report struct {
	Events []Event `json:"events,omitempty"`
	Result *Result `json:"result,omitempty"`
}

func (d *Broker) storeReport(ctx context.Context, w Worker, lease string, batch int, r report) error {
	encoded, err := json.Marshal(r)
	if err != nil {
		return problem.Wrap(problem.Internal, err, "the report")
	}
	sum := sha256.Sum256(encoded)
	hash := hex.EncodeToString(sum[:16])
	return d.updateLease(ctx, w, lease, func(tx *store.Tx, id string, t *turn) (bool, error) {
		isResult := r.Result != nil
		switch {
		case isResult && t.State == stateAnswered && t.AnswerHash == hash:
			return false, nil
		case isResult && t.State == stateAnswered:
			return false, problem.New(problem.Conflict, "lease %s has another result already", lease)
		case t.State != stateLeased:
			return false, problem.New(problem.Conflict, "the turn of lease %s has ended: its caller no longer waits for an answer; lease another turn", lease)
		case isResult:
			t.State, t.AnswerHash = stateAnswered, hash
		case batch >= 1 && batch <= t.ReportCount:
			return false, nil
		case batch != t.ReportCount+1:
			return false, problem.Invalid("batch", fmt.Sprintf("the next batch of the lease, %d", t.ReportCount+1), strconv.Itoa(batch))
		case batch > MaxBatches || t.ReportBytes+len(encoded) > MaxEventBytes:
			return false, problem.New(problem.TooLarge, "events: expected at most %d batches and %d bytes for a turn", MaxBatches, MaxEventBytes)
		}
		t.Started, t.ReportCount, t.ReportBytes = true, t.ReportCount+1, t.ReportBytes+len(encoded)
		return true, d.storeText(ctx, tx, textKey(id, len(t.Holders), t.ReportCount), t, encoded)
	})
}

func (e *Event) check(prefix string) error {
	invalid := func(field, want, got string) error { return problem.Invalid(prefix+field, want, got) }
	isTool, hasText := e.Type == TypeTool, e.Type == TypeText || e.Type == TypeThought
	switch {
	case !isTool && !hasText && e.Type != TypeStarted && e.Type != TypeQuestion:
		return invalid("type", "started, text, thought, asks or tool", fmt.Sprintf("%.40q", e.Type))
	case hasText != (e.Text != ""):
		return invalid("text", "a text for the types text and thought, and no text for other types", fmt.Sprintf("%d bytes for the type %s", len(e.Text), e.Type))
	case isTool != (e.Tool != nil):
		got := "one"
		if isTool {
			got = "none"
		}
		return invalid("tool", "an object for the type tool, and no object for other types", got+" for the type "+e.Type)
	case !isTool:
		return nil
	}
	t := e.Tool
	if t.ID == "" || t.Name == "" || len(t.ID) > maxToolNameBytes || len(t.Name) > maxToolNameBytes {
		return invalid("tool", fmt.Sprintf("an id and a name of 1 to %d bytes", maxToolNameBytes), fmt.Sprintf("%.80q and %.80q", t.ID, t.Name))
	}
	switch t.Outcome {
	case "", call.ToolOK, call.ToolError, call.ToolRefused, call.ToolTimedOut:
	default:
		return invalid("tool.outcome", "ok, error, refused, timed out or nothing", fmt.Sprintf("%.40q", t.Outcome))
	}
	t.Arguments = substrate.Redact(t.Arguments, call.MaxToolArgumentBytes)
	return nil
}

func (r *Result) check() error {
	_, isKnown := failureKinds[r.Failure]
	switch {
	case r.Error != "" && (r.Text != "" || r.State != ""):
		return problem.Invalid("error", "no error together with a text or a state", "one")
	case len(r.Error) > maxErrorBytes || !utf8.ValidString(r.Error):
		return problem.Invalid("error", fmt.Sprintf("at most %d bytes", maxErrorBytes), strconv.Itoa(len(r.Error)))
	case r.Failure != "" && (r.Error == "" || !isKnown):
		return problem.Invalid("failure", "unavailable, busy, refused or misconfigured, together with an error", fmt.Sprintf("%.40q", r.Failure))
	case r.State != "" && r.State != StateInputRequired:
		return problem.Invalid("state", StateInputRequired+" or nothing", fmt.Sprintf("%.40q", r.State))
	case len(r.Text) > substrate.MaxText:
		return &problem.Error{Kind: problem.TooLarge, Field: "text", Want: fmt.Sprintf("at most %d bytes", substrate.MaxText), Got: strconv.Itoa(len(r.Text))}
	}
	if u := r.Usage; u != nil && min(u.InputTokens, u.OutputTokens, u.CachedTokens) < 0 {
		return problem.Invalid("usage", "counts of 0 or more tokens", fmt.Sprintf("%d, %d and %d", u.InputTokens, u.OutputTokens, u.CachedTokens))
	}
	return nil
}
