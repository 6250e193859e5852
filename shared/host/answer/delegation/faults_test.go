package delegation_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/answer/delegation"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/storetest"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

// Each store call of a composite's call meets each fault, once or with a crash:
// what is left is consistent, and the next call is answered.
func TestACallBrokenOffAnywhereLeavesWholeLogbooks(t *testing.T) {
	for name, text := range map[string]string{
		"one after the other": both,
		"at once":             `{"version":1,"parallel":true,"delegate":[{"child":"drafter"},{"child":"reviewer"}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ops := brokenOff(t, text, -1, storetest.NoFault, false)
			if len(ops) < 10 {
				t.Fatalf("a call makes %d store calls, want more", len(ops))
			}
			n := 0
			for at, op := range ops {
				for _, fate := range storetest.FaultsOf(op) {
					for _, crash := range []bool{false, true} {
						if n++; !storetest.InSample(n) {
							continue
						}
						t.Run(fmt.Sprintf("store call %d %s, crash %t", at, fate, crash), func(t *testing.T) {
							brokenOff(t, text, at, fate, crash)
						})
					}
				}
			}
		})
	}
}

func brokenOff(t *testing.T, text string, at int, fate storetest.Fault, crash bool) (ops []string) {
	t.Helper()
	s := newStore()
	clean, parent, children := firm(t, s, text)
	var mu sync.Mutex
	lossy := &storetest.Lossy{Store: s, ChooseFault: func(op string, _ []store.Write) storetest.Fault {
		mu.Lock()
		defer mu.Unlock()
		ops = append(ops, op)
		switch n := len(ops) - 1; {
		case n == at:
			return fate
		case n > at && at >= 0 && crash:
			return storetest.Lost
		}
		return storetest.NoFault
	}}
	clean.wait = noWait
	broken := clean.over(lossy, ample)
	const want = `["drafter(x)","reviewer(x)"]`
	got, failed := broken.ask(parent.ID, "x")
	if failed == nil && got != want {
		t.Errorf("Send() = %q, want %q or a failure", got, want)
	}
	if at < 0 && failed != nil {
		t.Errorf("Send() = %v, want no failure", failed)
	}
	lossy.ApplyPending(t.Context())
	after := clean.over(s, ample)
	given, taken := count(after.log(parent.ID), logbook.KindDelegate), 0
	for _, child := range children {
		taken += count(after.log(child.ID), logbook.KindExecute)
	}
	if given != taken || given > 2 {
		t.Errorf("%d tasks given and %d taken, want as many, two at most", given, taken)
	}
	if got, failed := after.ask(parent.ID, "x"); failed != nil || got != want {
		t.Errorf("the next Send() = %q, %v, want %q", got, failed, want)
	}
	wantClean(t, after, s)
	return ops
}

// scripted is a pipeline with prepared answers.
type scripted struct {
	outcomes []func(e *envelope.Envelope) call.Outcome
	sent     []envelope.Envelope
}

func (c *scripted) Send(_ context.Context, _ identity.ID, e *envelope.Envelope) call.Outcome {
	c.sent = append(c.sent, *e)
	out := c.outcomes[0]
	if c.outcomes = c.outcomes[1:]; len(c.outcomes) == 0 {
		c.outcomes = []func(*envelope.Envelope) call.Outcome{out}
	}
	return out(e)
}

func refusal(k problem.Kind) call.Outcome {
	return call.Outcome{Problem: problem.New(k, "%s", k.Forms().DefaultMessage)}
}

func TestUnknownOutcomeIsResentAndTakenPositionIsResigned(t *testing.T) {
	hash := func(b byte) identity.Hash { return identity.Hash{b} }
	unknown := func(*envelope.Envelope) call.Outcome { return refusal(problem.Unavailable) }
	pending := func(*envelope.Envelope) call.Outcome {
		o := refusal(problem.Replay)
		o.State = call.Pending
		return o
	}
	stands := func(k problem.Kind, seq int64, h identity.Hash) func(*envelope.Envelope) call.Outcome {
		return func(*envelope.Envelope) call.Outcome {
			o := refusal(k)
			o.HasChain, o.ExpectedSeq, o.ChainTip = true, seq, h
			return o
		}
	}
	later := time.Now().UTC().Truncate(time.Microsecond).Add(time.Hour)
	floor := func(*envelope.Envelope) call.Outcome {
		o := refusal(problem.BelowFloor)
		o.HasChain, o.ExpectedSeq, o.Floor = true, 1, later
		return o
	}
	answer := func(*envelope.Envelope) call.Outcome {
		return call.Outcome{Reply: &envelope.Envelope{Payload: envelope.Message{Parts: []string{"yes"}}}}
	}
	before := func(e *envelope.Envelope) call.Outcome {
		o := answer(e)
		o.Problem, o.State = problem.New(problem.Replay, "replay"), call.Answered
		return o
	}
	final := func(k problem.Kind) func(*envelope.Envelope) call.Outcome {
		return func(*envelope.Envelope) call.Outcome {
			o := refusal(k)
			o.State, o.HasChain = call.Unanswered, true
			return o
		}
	}
	for name, c := range map[string]struct {
		outcomes []func(*envelope.Envelope) call.Outcome
		seqs     []int64 // of what was sent
		same     []bool  // whether it equals what was sent before
		fails    problem.Kind
	}{
		"answered":               {outcomes: []func(*envelope.Envelope) call.Outcome{answer}, seqs: []int64{1}, same: []bool{false}},
		"unknown, then answered": {outcomes: []func(*envelope.Envelope) call.Outcome{unknown, unknown, answer}, seqs: []int64{1, 1, 1}, same: []bool{false, true, true}},
		"it had been answered":   {outcomes: []func(*envelope.Envelope) call.Outcome{unknown, pending, before}, seqs: []int64{1, 1, 1}, same: []bool{false, true, true}},
		"unknown, then taken": {outcomes: []func(*envelope.Envelope) call.Outcome{unknown, stands(problem.Replay, 2, hash(1)), answer},
			seqs: []int64{1, 1, 2}, same: []bool{false, true, false}},
		"overtaken": {outcomes: []func(*envelope.Envelope) call.Outcome{stands(problem.Replay, 4, hash(3)), stands(problem.Fork, 4, hash(9)), stands(problem.Gap, 2, hash(1)), answer},
			seqs: []int64{1, 4, 4, 2}, same: []bool{false, false, false, false}},
		"below the floor":  {outcomes: []func(*envelope.Envelope) call.Outcome{floor, answer}, seqs: []int64{1, 1}, same: []bool{false, false}},
		"refused":          {outcomes: []func(*envelope.Envelope) call.Outcome{stands(problem.NotAccepting, 1, hash(0))}, seqs: []int64{1}, same: []bool{false}, fails: problem.NotAccepting},
		"failed":           {outcomes: []func(*envelope.Envelope) call.Outcome{final(problem.BehaviourFailed)}, seqs: []int64{1}, same: []bool{false}, fails: problem.BehaviourFailed},
		"late":             {outcomes: []func(*envelope.Envelope) call.Outcome{final(problem.DeadlineExceeded)}, seqs: []int64{1}, same: []bool{false}, fails: problem.DeadlineExceeded},
		"void when resent": {outcomes: []func(*envelope.Envelope) call.Outcome{unknown, final(problem.Replay)}, seqs: []int64{1, 1}, same: []bool{false, true}, fails: problem.Replay},
		"never known":      {outcomes: []func(*envelope.Envelope) call.Outcome{unknown}, seqs: []int64{1, 1, 1, 1, 1, 1}, same: []bool{false, true, true, true, true, true}, fails: problem.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore()
			h, parent, children := firm(t, s, `{"version":1,"aggregate":{"how":"first"},"delegate":[{"child":"drafter"}]}`)
			calls := &scripted{outcomes: c.outcomes}
			runner := delegation.New(delegation.Config{Store: s, Now: time.Now, Rand: rand.Reader, Wait: noWait})
			got, err := runner.Answer(t.Context(), h.vacants, calls, substrate.NewTextRequest(parent.ID, parent.ID, "x"))
			switch {
			case c.fails == problem.Internal && (err != nil || got != "yes"):
				t.Errorf("Answer() = %q, %v, want yes", got, err)
			case c.fails != problem.Internal && !problem.Is(err, c.fails):
				t.Errorf("Answer() = %q, %v, want kind %v", got, err, c.fails)
			}
			var seqs []int64
			var same []bool
			for i, e := range calls.sent {
				seqs = append(seqs, e.Seq)
				same = append(same, i > 0 && e.Hash() == calls.sent[i-1].Hash())
				if _, ok := e.Verify(); !ok || e.From != parent.ID || e.To != children[0].ID {
					t.Errorf("envelope %d is not one of the parent to the child", i)
				}
			}
			if diff := cmp.Diff(c.seqs, seqs); diff != "" {
				t.Errorf("sequence numbers (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.same, same); diff != "" {
				t.Errorf("sent again as it was (-want +got):\n%s", diff)
			}
			if name == "below the floor" && !calls.sent[1].Time.After(later) {
				t.Errorf("signed again at %s, want after the floor %s", calls.sent[1].Time, later)
			}
		})
	}
}

func TestWithTooLittleTimeNothingIsAsked(t *testing.T) {
	h, parent, children := firm(t, newStore(), both)
	ctx, cancel := context.WithTimeout(t.Context(), margin) // all of it is the pipeline's
	defer cancel()
	before := len(h.log(parent.ID))
	if _, err := h.runner.Answer(ctx, h.vacants, h.calls, substrate.NewTextRequest(parent.ID, parent.ID, "x")); !problem.Is(err, problem.DeadlineExceeded) {
		t.Errorf("Answer() = %v, want Deadline", err)
	}
	if n := len(h.log(parent.ID)) + len(h.log(children[0].ID)) - before; n != 1 {
		t.Errorf("%d new entries, want only the child's birth", n)
	}
}

func TestAVacantWithoutAPlanAnswersNothing(t *testing.T) {
	h := open(t, newStore())
	r, err := h.vacants.Create(t.Context(), vacants.CreateSpec{Name: "bare", Capability: "c", Substrate: "composite"})
	h.must(err)
	if got, failed := h.ask(r.ID, "x"); failed == nil || failed.Kind != problem.SubstrateMisconfigured {
		t.Errorf("Send() to a composite without a plan = %q, %v, want a failure", got, failed)
	}
}
