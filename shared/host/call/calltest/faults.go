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

// scenario is one request with all store calls that it makes. proveFaults makes each of these calls
// fail with each of the faults.
type scenario struct {
	name string
	// calls are the sorted names of the store calls.
	calls []string
	// prepare brings the scene to the state before the request and returns the request, which is
	// sent to host a.
	prepare func(s *scene) *envelope.Envelope
	// kind is the kind of the expected problem without a fault, or zero for status 200.
	kind  problem.Kind
	state call.State
	// beside is set if the host reads revocations concurrently with the accept, and retries a
	// failed read.
	beside bool
}

// scenarios covers every store call of the pipeline. The test fails if a scenario makes a store
// call that it does not list.
var scenarios = []scenario{
	{
		name: "a cold call",
		calls: []string{
			"Commit req",     // accept
			"Commit rsp",     // the answer
			"Commit textkey", // the first text of a day creates its key
			"Doc revoked",    // whether keys are revoked
			"Doc textkey",
			"Doc v", // the vacant's record
			"Tip req", "Tip rsp",
		},
		prepare: func(s *scene) *envelope.Envelope { return s.call(nil, "hi") },
	},
	{
		name: "a warm call", beside: true,
		calls: []string{"Commit req", "Commit rsp", "Doc revoked"},
		prepare: func(s *scene) *envelope.Envelope {
			first := s.call(nil, "first")
			s.wantAnswer(s.send(s.a, first), first)
			return s.call(first, "hi")
		},
	},
	{
		name:  "a call through a host with an old tip in its cache",
		calls: []string{"Commit req", "Commit rsp", "Doc revoked", "Doc v", "Tip req", "Tip rsp"},
		prepare: func(s *scene) *envelope.Envelope {
			first := s.call(nil, "first")
			s.wantAnswer(s.send(s.a, first), first)
			second := s.call(first, "second")
			s.wantAnswer(s.send(s.b, second), second)
			return s.call(second, "hi")
		},
	},
	{
		name: "a call whose copy was already answered", beside: true,
		calls: []string{"Commit req", "Doc revoked", "Doc v", "Rows req", "Rows rsp", "Tip req", "Tip rsp"},
		prepare: func(s *scene) *envelope.Envelope {
			first := s.call(nil, "first")
			s.wantAnswer(s.send(s.a, first), first)
			e := s.call(first, "hi")
			s.wantAnswer(s.send(s.b, e), e)
			return e
		},
		kind: problem.Replay, state: call.Answered,
	},
	{
		name:  "an answer whose position was taken",
		calls: []string{"Commit req", "Commit rsp", "Commit rsp", "Doc revoked", "Doc v", "Rows rsp", "Rows rsp", "Tip req", "Tip rsp"},
		prepare: func(s *scene) *envelope.Envelope {
			aside := s.hostWith(func(c *call.Config) {
				c.Store = s.store.Store // without faults
				c.Texts = s.a.Texts
			})
			first := s.call(nil, "first")
			x := s.start(aside, first)
			s.act("hi", func(context.Context, *call.Host, envelope.Envelope) (envelope.Message, error) {
				s.wantAnswer(x.finish(), first) // answer before the answer to e
				return envelope.Message{Parts: []string{"second"}}, nil
			})
			return s.call(first, "hi")
		},
	},
	{
		name: "a failing behaviour", beside: true,
		calls: []string{"Commit req", "Commit rsp", "Doc revoked", "Rows rsp", "Rows rsp"},
		prepare: func(s *scene) *envelope.Envelope {
			first := s.call(nil, "first")
			s.wantAnswer(s.send(s.a, first), first)
			s.act("hi", failWithError)
			return s.call(first, "hi")
		},
		kind: problem.BehaviourFailed, state: call.Unanswered,
	},
	{
		name:  "a priced call",
		calls: []string{"Commit req", "Commit rsp", "Doc balance", "Doc revoked"},
		prepare: func(s *scene) *envelope.Envelope {
			s.charge(100)
			s.useRealKeys()
			first := s.call(nil, "first")
			s.wantAnswer(s.send(s.a, first), first)
			return s.call(first, "hi")
		},
	},
	{
		name:  "a priced call that fails",
		calls: []string{"Commit req", "Commit rsp", "Doc balance", "Doc revoked", "Rows rsp", "Rows rsp"},
		prepare: func(s *scene) *envelope.Envelope {
			s.charge(100)
			s.useRealKeys()
			s.act("hi", failWithError)
			first := s.call(nil, "first")
			s.wantAnswer(s.send(s.a, first), first)
			return s.call(first, "hi")
		},
		kind: problem.BehaviourFailed, state: call.Unanswered,
	},
	{
		name:  "a resend after the due time",
		calls: []string{"Commit rsp", "Doc revoked", "Doc v", "Rows req", "Rows rsp", "Rows rsp", "Tip req", "Tip rsp"},
		prepare: func(s *scene) *envelope.Envelope {
			e := s.call(nil, "hi")
			s.store.Next("Commit req", Repeat(LoseAck, 6)...)
			s.wantRefusal(s.send(s.b, e), problem.Unavailable, "")
			s.must(s.warm())
			s.clock.Advance(due + time.Second)
			return e
		},
		kind: problem.Replay, state: call.Unanswered,
	},
	{
		name:  "a reset",
		calls: []string{"Commit req", "Doc revoked", "Doc v", "Tip req"},
		prepare: func(s *scene) *envelope.Envelope {
			first := s.call(nil, "first")
			s.wantAnswer(s.send(s.a, first), first)
			s.clock.Advance(time.Second)
			return s.reset()
		},
	},
	{
		name:  "a reset with a price",
		calls: []string{"Commit req", "Doc balance", "Doc revoked", "Doc v", "Rows req", "Tip req"},
		prepare: func(s *scene) *envelope.Envelope {
			s.charge(100)
			s.useRealKeys()
			first := s.call(nil, "first")
			s.wantAnswer(s.send(s.a, first), first)
			s.clock.Advance(time.Second)
			return s.reset()
		},
	},
}

// fault is one way in which a store call fails.
type fault struct {
	name  string
	steps func(late *Delayed) []Step
	// heals is set if a retry of the store call succeeds.
	heals bool
	// fine is set if the caller does not notice the fault.
	fine bool
	// lands is 0 if no write is delayed. Otherwise the delayed write is applied before (1) or after
	// (2) the request is resent.
	lands int
}

var faults = []fault{
	{name: "not applied", steps: onceSteps(NotApplied), heals: true},
	{name: "applied but not acknowledged", steps: onceSteps(LoseAck), heals: true},
	{name: "timed out", steps: onceSteps(TimedOut), heals: true},
	{name: "throttled twice", steps: times(Throttle, 2), heals: true},
	{name: "throttled for long", steps: times(Throttle, 6)},
	{name: "applied but not acknowledged for long", steps: times(LoseAck, 6)},
	{name: "hangs until the deadline", steps: onceSteps(hang)},
	{name: "delivered twice", steps: onceSteps(CallTwice), fine: true},
	{name: "applied just before its retry", steps: overtakeSteps, heals: true},
	{name: "applied after the error", steps: lateSteps, lands: 1},
	{name: "applied after the next try", steps: lateSteps, lands: 2},
}

func onceSteps(s Step) func(*Delayed) []Step { return times(s, 1) }

func times(s Step, n int) func(*Delayed) []Step {
	return func(*Delayed) []Step { return Repeat(s, n) }
}

func hang(ctx context.Context, _ func(context.Context) error) error {
	<-ctx.Done()
	return fmt.Errorf("%w: injected: %w", store.ErrUnavailable, ctx.Err())
}

func overtakeSteps(l *Delayed) []Step {
	return []Step{l.Step, func(ctx context.Context, do func(context.Context) error) error {
		_ = l.Land(ctx)
		return do(ctx)
	}}
}

func lateSteps(l *Delayed) []Step { return append([]Step{l.Step}, Repeat(NotApplied, 5)...) }

func isRetried(name string) bool { return name == "Commit req" || name == "Commit rsp" }

// proveFaults makes every store call of a request fail in every way. The request must get 503 or its
// normal outcome, and a fault must never cause 409. No behaviour may run twice, and the rows must be
// valid. A resend must get the stored reply or a definite refusal, and the next request must succeed.
func proveFaults(t *testing.T, open func(t *testing.T) store.Store, covers func(n int) bool) {
	inner := open(t)
	vault, err := local.Open(filepath.Join(t.TempDir(), "seal.key"), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	day, number := 0, 0
	stage := func(t *testing.T, sc scenario) (*scene, *envelope.Envelope) {
		s := newScene(t, inner)
		day++ // each scene has its own day and creates that day's key
		s.clock.Advance(time.Duration(day) * 24 * time.Hour)
		s.vault = vault
		s.useRealKeys()
		e := sc.prepare(s)
		s.store.Trace()
		return s, e
	}
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			t.Run("makes these calls", func(t *testing.T) {
				s, e := stage(t, sc)
				sc.wantOutcome(s, s.deliver(s.a, e, time.Minute), e)
				got := s.store.Trace()
				slices.Sort(got)
				if diff := cmp.Diff(sc.calls, got); diff != "" {
					t.Errorf("store calls (-listed +made); list each call in its scenario:\n%s", diff)
				}
			})
			nth := map[string]int{}
			for _, name := range sc.calls {
				nth[name]++
				for _, f := range faults {
					if number++; !covers(number) {
						continue
					}
					n := nth[name]
					t.Run(fmt.Sprintf("%s %d %s", name, n, f.name), func(t *testing.T) {
						s, e := stage(t, sc)
						s.opener = nil // skip the check of signatures, which do not depend on the fault
						f.prove(s, sc, e, name, n)
					})
				}
			}
		})
	}
}

// useRealKeys gives both hosts real textkeys instead of plain texts.
func (s *scene) useRealKeys() {
	host := func() *call.Host {
		return s.hostWith(func(c *call.Config) {
			c.Texts = textkeys.New(s.store, s.vault, c.Now, rand.Reader, 0)
			c.Margin = time.Millisecond // hang needs a near deadline
			c.Revoked = s.readRevoked
		})
	}
	s.a, s.b = host(), host()
	s.opener = textkeys.New(s.store, s.vault, s.clock.NowFunc(0), rand.Reader, 0)
}

// readRevoked reads a document, as a host does to check keys, and reports all keys as valid.
func (s *scene) readRevoked(ctx context.Context, ids ...identity.ID) ([]bool, error) {
	_, err := s.store.Doc(ctx, store.Key{Partition: "revoked", Sort: "#all"})
	return make([]bool, len(ids)), err
}

// warm loads the day's key into host a's memory.
func (s *scene) warm() error { return s.a.Texts.Warm(s.ctx) }

// deliver calls Reset if e is a reset, and Send otherwise.
func (s *scene) deliver(h *call.Host, e *envelope.Envelope, patience time.Duration) call.Outcome {
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	if e.IsReset() {
		return h.Reset(ctx, identity.ID{}, e)
	}
	return h.Send(ctx, identity.ID{}, e)
}

func (sc scenario) wantOutcome(s *scene, out call.Outcome, e *envelope.Envelope) {
	s.t.Helper()
	if sc.kind == 0 {
		s.wantAnswer(out, e)
		return
	}
	s.wantRefusal(out, sc.kind, sc.state)
}

func (f fault) prove(s *scene, sc scenario, e *envelope.Envelope, name string, n int) {
	var late Delayed
	s.store.Next(name, append(Repeat(Pass, n-1), f.steps(&late)...)...)
	patience := time.Minute
	if f.name == "hangs until the deadline" {
		patience = 10 * time.Millisecond
	}
	out := s.deliver(s.a, e, patience)
	s.store.Drop() // reads, and writes after success, are not retried
	switch {
	case f.fine, f.heals && isRetried(name), f.heals && sc.beside && name == "Doc revoked":
		sc.wantOutcome(s, out, e)
	case patience < time.Minute && out.Problem != nil && problem.Is(out.Problem, problem.Deadline):
		// On a slow machine the deadline may pass before the call.
	default:
		s.wantRefusal(out, problem.Unavailable, "")
	}
	s.wantValidRows()
	if f.lands == 1 && late.do != nil {
		_ = late.Land(s.ctx)
		s.wantValidRows()
	}
	s.resendUntilKnown(e, out, func() {
		if f.lands == 2 && late.do != nil {
			_ = late.Land(s.ctx)
			s.wantValidRows()
		}
	})
}

// resendUntilKnown resends e until its outcome is known, as a caller would, and then sends the next
// call. between runs after the first resend.
func (s *scene) resendUntilKnown(e *envelope.Envelope, first call.Outcome, between func()) {
	s.t.Helper()
	if e.IsReset() {
		if out := s.deliver(s.b, e, time.Minute); out.Problem != nil {
			s.wantRefusal(out, problem.Floor, "") // the row exists
		}
		between()
		s.clock.Advance(time.Second)
		next := s.call(nil, "next")
		s.wantAnswer(s.send(s.b, next), next)
		return
	}
	out := s.send(s.b, e)
	between()
	if out.State == call.Pending {
		s.clock.Advance(due + time.Second)
		out = s.send(s.b, e)
	}
	switch {
	case out.Problem == nil:
		s.wantAnswer(out, e)
	case out.State == call.Answered:
		s.wantSignedReply(out.Reply, e)
	case out.State != call.Unanswered:
		s.t.Fatalf("resend: %v, state %q; want the answer or state unanswered", out.Problem, out.State)
	}
	if first.Reply != nil && (out.State != call.Answered || wire(out.Reply) != wire(first.Reply)) {
		s.t.Fatalf("the answer was %s; resend: %v, state %q, %s", wire(first.Reply), out.Problem, out.State, wire(out.Reply))
	}
	s.wantValidRows()
	next := s.call(e, "next")
	s.wantAnswer(s.send(s.b, next), next)
	s.books()
}

func (s *scene) wantValidRows() {
	s.t.Helper()
	for _, err := range CheckStreams(s.ctx, s.store, s.pair, nil) {
		s.t.Fatal(err)
	}
}

func (s *scene) books() {
	s.t.Helper()
	if s.ledger == nil {
		return
	}
	s.clock.Advance(due + time.Second)
	left, err := s.ledger.Sweep(s.ctx, s.b, s.pair.Caller)
	s.must(err)
	if left > 0 {
		s.t.Fatalf("%d priced calls are neither settled nor refunded", left)
	}
	got, err := ReadStreams(s.ctx, s.store, s.pair)
	s.must(err)
	want := int64(100)
	for _, r := range got.Requests {
		if d := got.Decision(r.Position); d == nil || d.Kind == call.RowAnswer {
			want -= int64(r.Price)
		}
	}
	s.balance(want)
}
