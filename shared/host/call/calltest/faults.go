package calltest

import (
	"context"
	"crypto/rand"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/local"
	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// scenario is one request with the store calls that it makes.
type scenario struct {
	name       string
	storeCalls []string
	// prepare prepares the scene and returns the request to host A.
	prepare func(s *scene) *envelope.Envelope
	// wantKind is the expected problem without a fault, or zero.
	wantKind  problem.Kind
	wantState call.State
	// retriesRevocations is set if the host retries a failed read of revocations.
	retriesRevocations bool
}

// scenarios covers every store call of the pipeline.
var scenarios = []scenario{
	{
		name: "a cold call",
		storeCalls: []string{
			"Commit req",     // accept
			"Commit rsp",     // the answer
			"Commit textkey", // the first text of a day creates its key
			"Doc revoked",    // whether keys are revoked
			"Doc textkey",
			"Doc v", // the vacant's record
			"Tip req", "Tip rsp",
		},
		prepare: func(s *scene) *envelope.Envelope { return s.signCall(nil, "hi") },
	},
	{
		name: "a warm call", retriesRevocations: true,
		storeCalls: []string{"Commit req", "Commit rsp", "Doc revoked"},
		prepare: func(s *scene) *envelope.Envelope {
			first := s.signCall(nil, "first")
			s.wantAnswer(s.send(s.hostA, first), first)
			return s.signCall(first, "hi")
		},
	},
	{
		name:       "a call through a host with an old tip in its cache",
		storeCalls: []string{"Commit req", "Commit rsp", "Doc revoked", "Doc v", "Tip req", "Tip rsp"},
		prepare: func(s *scene) *envelope.Envelope {
			first := s.signCall(nil, "first")
			s.wantAnswer(s.send(s.hostA, first), first)
			second := s.signCall(first, "second")
			s.wantAnswer(s.send(s.hostB, second), second)
			return s.signCall(second, "hi")
		},
	},
	{
		name: "a call whose copy was already answered", retriesRevocations: true,
		storeCalls: []string{"Commit req", "Doc revoked", "Doc v", "Rows req", "Rows rsp", "Tip req", "Tip rsp"},
		prepare: func(s *scene) *envelope.Envelope {
			first := s.signCall(nil, "first")
			s.wantAnswer(s.send(s.hostA, first), first)
			e := s.signCall(first, "hi")
			s.wantAnswer(s.send(s.hostB, e), e)
			return e
		},
		wantKind: problem.Replay, wantState: call.Answered,
	},
	{
		name:       "an answer whose position was taken",
		storeCalls: []string{"Commit req", "Commit rsp", "Commit rsp", "Doc revoked", "Doc v", "Rows rsp", "Rows rsp", "Tip req", "Tip rsp"},
		prepare: func(s *scene) *envelope.Envelope {
			aside := s.newHostWith(func(c *call.Config) {
				c.Store = s.store.Store // without faults
				c.Texts = s.hostA.Texts
			})
			first := s.signCall(nil, "first")
			x := s.startCall(aside, first)
			s.setBehaviour("hi", func(context.Context, *call.Host, envelope.Envelope) (envelope.Message, error) {
				s.wantAnswer(x.finish(), first) // answer before the answer to e
				return envelope.Message{Parts: []string{"second"}}, nil
			})
			return s.signCall(first, "hi")
		},
	},
	{
		name: "a failing behaviour", retriesRevocations: true,
		storeCalls: []string{"Commit req", "Commit rsp", "Doc revoked", "Rows rsp", "Rows rsp"},
		prepare: func(s *scene) *envelope.Envelope {
			first := s.signCall(nil, "first")
			s.wantAnswer(s.send(s.hostA, first), first)
			s.setBehaviour("hi", failWithError)
			return s.signCall(first, "hi")
		},
		wantKind: problem.BehaviourFailed, wantState: call.Unanswered,
	},
	{
		name:       "a priced call",
		storeCalls: []string{"Commit req", "Commit rsp", "Doc balance", "Doc revoked"},
		prepare: func(s *scene) *envelope.Envelope {
			s.useLedger(100)
			s.useRealTextKeys()
			first := s.signCall(nil, "first")
			s.wantAnswer(s.send(s.hostA, first), first)
			return s.signCall(first, "hi")
		},
	},
	{
		name:       "a priced call that fails",
		storeCalls: []string{"Commit req", "Commit rsp", "Doc balance", "Doc revoked", "Rows rsp", "Rows rsp"},
		prepare: func(s *scene) *envelope.Envelope {
			s.useLedger(100)
			s.useRealTextKeys()
			s.setBehaviour("hi", failWithError)
			first := s.signCall(nil, "first")
			s.wantAnswer(s.send(s.hostA, first), first)
			return s.signCall(first, "hi")
		},
		wantKind: problem.BehaviourFailed, wantState: call.Unanswered,
	},
	{
		name:       "a resend after the due time",
		storeCalls: []string{"Commit rsp", "Doc revoked", "Doc v", "Rows req", "Rows rsp", "Rows rsp", "Tip req", "Tip rsp"},
		prepare: func(s *scene) *envelope.Envelope {
			e := s.signCall(nil, "hi")
			s.store.PrepareNext("Commit req", Repeat(LoseAck, 6)...)
			s.wantRefusal(s.send(s.hostB, e), problem.Unavailable, "")
			s.must(s.warmTextKey())
			s.clock.Advance(voidDelay + time.Second)
			return e
		},
		wantKind: problem.Replay, wantState: call.Unanswered,
	},
	{
		name:       "a reset",
		storeCalls: []string{"Commit req", "Doc revoked", "Doc v", "Tip req"},
		prepare: func(s *scene) *envelope.Envelope {
			first := s.signCall(nil, "first")
			s.wantAnswer(s.send(s.hostA, first), first)
			s.clock.Advance(time.Second)
			return s.signReset()
		},
	},
	{
		name:       "a reset with a price",
		storeCalls: []string{"Commit req", "Doc balance", "Doc revoked", "Doc v", "Rows req", "Tip req"},
		prepare: func(s *scene) *envelope.Envelope {
			s.useLedger(100)
			s.useRealTextKeys()
			first := s.signCall(nil, "first")
			s.wantAnswer(s.send(s.hostA, first), first)
			s.clock.Advance(time.Second)
			return s.signReset()
		},
	},
}

// fault is one way in which a store call fails.
type fault struct {
	name            string
	steps           func(late *Delayed) []Step
	succeedsOnRetry bool
	isUnnoticed     bool
	// applyPhase is 1 or 2 if a delayed write is applied before or after the request is resent.
	applyPhase int
}

var faults = []fault{
	{name: "not applied", steps: onceSteps(LoseRequest), succeedsOnRetry: true},
	{name: "applied but not acknowledged", steps: onceSteps(LoseAck), succeedsOnRetry: true},
	{name: "timed out", steps: onceSteps(TimeOut), succeedsOnRetry: true},
	{name: "throttled twice", steps: repeatSteps(Throttle, 2), succeedsOnRetry: true},
	{name: "throttled for long", steps: repeatSteps(Throttle, 6)},
	{name: "applied but not acknowledged for long", steps: repeatSteps(LoseAck, 6)},
	{name: "hangs until the deadline", steps: onceSteps(hang)},
	{name: "delivered twice", steps: onceSteps(CallTwice), isUnnoticed: true},
	{name: "applied just before its retry", steps: overtakeSteps, succeedsOnRetry: true},
	{name: "applied after the error", steps: delayedSteps, applyPhase: 1},
	{name: "applied after the next try", steps: delayedSteps, applyPhase: 2},
}

func onceSteps(s Step) func(*Delayed) []Step { return repeatSteps(s, 1) }

func repeatSteps(s Step, n int) func(*Delayed) []Step {
	return func(*Delayed) []Step { return Repeat(s, n) }
}

func hang(ctx context.Context, _ func(context.Context) error) error {
	<-ctx.Done()
	return fmt.Errorf("%w: injected: %w", store.ErrUnavailable, ctx.Err())
}

func overtakeSteps(d *Delayed) []Step {
	return []Step{d.Step, func(ctx context.Context, do func(context.Context) error) error {
		_ = d.Apply(ctx)
		return do(ctx)
	}}
}

func delayedSteps(d *Delayed) []Step { return append([]Step{d.Step}, Repeat(LoseRequest, 5)...) }

func isRetriedCommit(name string) bool { return name == "Commit req" || name == "Commit rsp" }

// testFaults makes every store call of a request fail in every way. A fault must never cause 409,
// run a behaviour twice or damage the rows. A resend must get the stored reply or a definite
// refusal.
func testFaults(t *testing.T, openStore func(t *testing.T) store.Store, inSample func(n int) bool) {
	inner := openStore(t)
	vault, err := local.Open(filepath.Join(t.TempDir(), "seal.key"), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	day, faultNumber := 0, 0
	prepareScene := func(t *testing.T, sc scenario) (*scene, *envelope.Envelope) {
		s := newScene(t, inner)
		day++ // each scene has its own day and creates that day's key
		s.clock.Advance(time.Duration(day) * 24 * time.Hour)
		s.vault = vault
		s.useRealTextKeys()
		e := sc.prepare(s)
		s.store.TakeCallNames()
		return s, e
	}
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			t.Run("makes these calls", func(t *testing.T) {
				s, e := prepareScene(t, sc)
				sc.wantOutcome(s, s.sendOrReset(s.hostA, e, time.Minute), e)
				got := s.store.TakeCallNames()
				slices.Sort(got)
				if diff := cmp.Diff(sc.storeCalls, got); diff != "" {
					t.Errorf("store calls (-listed +made); list each call in its scenario:\n%s", diff)
				}
			})
			occurrences := map[string]int{}
			for _, name := range sc.storeCalls {
				occurrences[name]++
				for _, f := range faults {
					if faultNumber++; !inSample(faultNumber) {
						continue
					}
					n := occurrences[name]
					t.Run(fmt.Sprintf("%s %d %s", name, n, f.name), func(t *testing.T) {
						s, e := prepareScene(t, sc)
						s.opener = nil // skip the check of signatures, which do not depend on the fault
						f.test(s, sc, e, name, n)
					})
				}
			}
		})
	}
}

// useRealTextKeys gives both hosts real textkeys instead of plain texts.
func (s *scene) useRealTextKeys() {
	newHost := func() *call.Host {
		return s.newHostWith(func(c *call.Config) {
			c.Texts = textkeys.New(s.store, s.vault, c.Now, rand.Reader, 0)
			c.ReplyMargin = time.Millisecond // hang needs a near deadline
			c.AreRevoked = s.readRevoked
		})
	}
	s.hostA, s.hostB = newHost(), newHost()
	s.opener = textkeys.New(s.store, s.vault, s.clock.NowFunc(0), rand.Reader, 0)
}

// readRevoked reads a document and reports all keys as valid.
func (s *scene) readRevoked(ctx context.Context, ids ...identity.ID) ([]bool, error) {
	_, err := s.store.Doc(ctx, store.Key{Partition: "revoked", Sort: "#all"})
	return make([]bool, len(ids)), err
}

func (s *scene) warmTextKey() error { return s.hostA.Texts.Warm(s.ctx) }

func (s *scene) sendOrReset(h *call.Host, e *envelope.Envelope, timeout time.Duration) call.Outcome {
	ctx, cancel := context.WithTimeout(s.ctx, timeout)
	defer cancel()
	if e.IsReset() {
		return h.Reset(ctx, identity.ID{}, e)
	}
	return h.Send(ctx, identity.ID{}, e)
}

func (sc scenario) wantOutcome(s *scene, out call.Outcome, e *envelope.Envelope) {
	s.t.Helper()
	if sc.wantKind == 0 {
		s.wantAnswer(out, e)
		return
	}
	s.wantRefusal(out, sc.wantKind, sc.wantState)
}

func (f fault) test(s *scene, sc scenario, e *envelope.Envelope, name string, n int) {
	var delayed Delayed
	s.store.PrepareNext(name, append(Repeat(PassThrough, n-1), f.steps(&delayed)...)...)
	timeout := time.Minute
	if f.name == "hangs until the deadline" {
		timeout = 10 * time.Millisecond
	}
	out := s.sendOrReset(s.hostA, e, timeout)
	s.store.DropSteps() // steps remain if the host does not retry the call
	switch {
	case f.isUnnoticed, f.succeedsOnRetry && isRetriedCommit(name), f.succeedsOnRetry && sc.retriesRevocations && name == "Doc revoked":
		sc.wantOutcome(s, out, e)
	case timeout < time.Minute && out.Problem != nil && problem.Is(out.Problem, problem.DeadlineExceeded):
		// On a slow machine the deadline may pass before the call.
	default:
		s.wantRefusal(out, problem.Unavailable, "")
	}
	s.wantValidRows()
	if f.applyPhase == 1 && delayed.call != nil {
		_ = delayed.Apply(s.ctx)
		s.wantValidRows()
	}
	s.resendUntilKnown(e, out, func() {
		if f.applyPhase == 2 && delayed.call != nil {
			_ = delayed.Apply(s.ctx)
			s.wantValidRows()
		}
	})
}

// resendUntilKnown resends e until its outcome is known, and then sends the next call.
func (s *scene) resendUntilKnown(e *envelope.Envelope, first call.Outcome, afterResend func()) {
	s.t.Helper()
	if e.IsReset() {
		if out := s.sendOrReset(s.hostB, e, time.Minute); out.Problem != nil {
			s.wantRefusal(out, problem.BelowFloor, "") // the row exists
		}
		afterResend()
		s.clock.Advance(time.Second)
		next := s.signCall(nil, "next")
		s.wantAnswer(s.send(s.hostB, next), next)
		return
	}
	out := s.send(s.hostB, e)
	afterResend()
	if out.State == call.Pending {
		s.clock.Advance(voidDelay + time.Second)
		out = s.send(s.hostB, e)
	}
	switch {
	case out.Problem == nil:
		s.wantAnswer(out, e)
	case out.State == call.Answered:
		s.wantSignedReply(out.Reply, e)
	case out.State != call.Unanswered:
		s.t.Fatalf("resend: %v, state %q; want the answer or state unanswered", out.Problem, out.State)
	}
	if first.Reply != nil && (out.State != call.Answered || encodeEnvelope(out.Reply) != encodeEnvelope(first.Reply)) {
		s.t.Fatalf("the answer was %s; resend: %v, state %q, %s", encodeEnvelope(first.Reply), out.Problem, out.State, encodeEnvelope(out.Reply))
	}
	s.wantValidRows()
	next := s.signCall(e, "next")
	s.wantAnswer(s.send(s.hostB, next), next)
	s.wantBalanceOfRows()
}

func (s *scene) wantValidRows() {
	s.t.Helper()
	for _, err := range CheckStreams(s.ctx, s.store, s.pair, nil) {
		s.t.Fatal(err)
	}
}

func (s *scene) wantBalanceOfRows() {
	s.t.Helper()
	if s.ledger == nil {
		return
	}
	s.clock.Advance(voidDelay + time.Second)
	remaining, err := s.ledger.Sweep(s.ctx, s.hostB, s.pair.Caller)
	s.must(err)
	if remaining > 0 {
		s.t.Fatalf("%d priced calls are neither settled nor refunded", remaining)
	}
	got, err := ReadStreams(s.ctx, s.store, s.pair)
	s.must(err)
	want := int64(100)
	for _, r := range got.Requests {
		if d := got.Decision(r.Position); d == nil || d.Kind == call.RowAnswer {
			want -= int64(r.Price)
		}
	}
	s.wantBalance(want)
}
