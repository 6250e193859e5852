package dispatch_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch/dispatchtest"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Every case of dispatch.json: what the reference's caller accepts and refuses,
// with its texts.
func TestVectors(t *testing.T) {
	raw, err := os.ReadFile("testdata/dispatch.json")
	must(t, err)
	var file struct {
		Cases []struct {
			Name  string
			Input struct {
				CardBlob      string          `json:"card_blob"`
				RequesterSeed string          `json:"requester_seed"`
				Response      json.RawMessage `json:"response"`
				ResponseChain *struct {
					LastSeq int64         `json:"last_sequence_no"`
					Tip     identity.Hash `json:"chain_tip"`
				} `json:"response_chain"`
			}
			Expect struct{ Accepted, Error, Message string }
		}
	}
	must(t, json.Unmarshal(raw, &file))
	for _, c := range file.Cases {
		t.Run(c.Name, func(t *testing.T) {
			seed, err := identity.ParseHex(c.Input.RequesterSeed)
			must(t, err)
			k, err := identity.KeyFromSeed(seed)
			must(t, err)
			cd, err := card.Parse([]byte(c.Input.CardBlob))
			must(t, err)
			w := newWorld(t)
			w.Signer = k
			posts := 0
			w.Transport = dispatchtest.PostFunc(func(string, []byte) (int, []byte, error) { posts++; return 200, c.Input.Response, nil })
			if rc := c.Input.ResponseChain; rc != nil {
				s, _ := w.Book.Open(t.Context(), k.ID(), cd.VacantID)
				must(t, s.Save(dispatch.State{Self: k.ID(), Target: cd.VacantID, ResponseTip: dispatch.Point{Seq: rc.LastSeq, Hash: rc.Tip}}))
				s.Close()
			}
			res, err := w.Call(t.Context(), dispatch.TargetOfCard(&cd), dispatchtest.UserMessage("x"))
			if want := c.Expect.Accepted; want != "" {
				if err != nil || res.ReplyHash.String() != want {
					t.Errorf("Call() = %v, %v, want %v", res.ReplyHash, err, want)
				}
				return
			}
			if err == nil || !strings.HasPrefix(problem.AsError(err).Text(), withoutPython(c.Expect.Message)) {
				t.Errorf("Call() = %v, want %v", err, c.Expect.Message)
			}
			if want := map[string]problem.Kind{"TargetNotFoundError": problem.NotFound}[c.Expect.Error]; want != 0 && !problem.Is(err, want) {
				t.Errorf("Call() is of kind %v, want %v", problem.AsError(err).Kind, want)
			} else if want == 0 && !problem.Is(err, problem.Untrusted) {
				t.Errorf("Call() is of kind %v, want %v", problem.AsError(err).Kind, problem.Untrusted)
			}
			if strings.HasPrefix(c.Name, "card:") && posts > 0 {
				t.Errorf("Call() posted %d times with a bad card", posts)
			}
		})
	}
}

// withoutPython removes the one text that Python itself wrote.
func withoutPython(s string) string { s, _, _ = strings.Cut(s, "'NoneType'"); return s }

func wantPaths(t *testing.T, w *world, want ...string) {
	t.Helper()
	if d := cmp.Diff(want, w.wire.Paths()); d != "" {
		t.Fatalf("posts (-want +got):\n%s", d)
	}
}

// once makes a fault for the first n posts.
func once(fault string, n int) func(string, *envelope.Envelope) string {
	return func(string, *envelope.Envelope) string {
		if n--; n >= 0 {
			return fault
		}
		return ""
	}
}

func TestAnswerSettlesTheCall(t *testing.T) {
	w := newWorld(t)
	w.wire.Fault = func(_ string, e *envelope.Envelope) string {
		if st := w.state(t); len(st.Sent) != 1 || st.Sent[0].Hash() != e.Hash() || !st.LastSignedTime.Equal(e.Time) {
			t.Errorf("posted before it was kept: %+v", st)
		}
		return ""
	}
	w.book.book = unlocked{w.book.book} // so that state() can read during a call
	var answered []dispatch.Point
	for n := int64(1); n <= 3; n++ {
		res := w.answers(t, "hi")
		answered = append(answered, dispatch.Point{Seq: n, Hash: res.RequestHash})
		if res.Request.Seq != n || res.ReplySeq != n || !res.ReplyBound || res.RequestCount != 1 || res.Status != 200 || res.Fate != dispatch.Answered || res.Resumed {
			t.Errorf("Call() = %+v", res)
		}
		got := w.state(t)
		st := dispatch.State{Self: w.Signer.ID(), Target: w.host.ID(), RequestTip: dispatch.Point{Seq: n, Hash: res.RequestHash},
			ResponseTip: dispatch.Point{Seq: n, Hash: res.ReplyHash}, LastSignedTime: res.Request.Time, BindsAnswers: true, Answered: answered}
		if d := cmp.Diff(st, got); d != "" {
			t.Errorf("state (-want +got):\n%s", d)
		}
	}
}

// unlocked is a Book without locks.
type unlocked struct{ book dispatch.Book }

func (u unlocked) Open(ctx context.Context, self, target identity.ID) (dispatch.Session, error) {
	s, err := u.book.Open(ctx, self, target)
	if err == nil {
		err = s.Close()
	}
	return s, err
}

func TestLostReplyIsRecoveredByTheSameBytes(t *testing.T) {
	for _, fault := range []string{"reply lost", "request lost", "503", "503 after", "twice"} {
		t.Run(fault, func(t *testing.T) {
			w := newWorld(t)
			w.wire.Fault = once(fault, 2)
			res := w.answers(t, "hi")
			if got := len(w.wire.SentBodies(1)); got != 1 {
				t.Errorf("%d different bodies were posted, want 1", got)
			}
			if n := w.host.CountExecuted(res.Request.IdempotencyKey); n != 1 {
				t.Errorf("executed %d times, want once", n)
			}
			w.answers(t, "next")
		})
	}
}

func TestUnansweredSettlesAndTheResponseChainStands(t *testing.T) {
	w := newWorld(t)
	w.answers(t, "one")
	w.host.Behaviour = func(*envelope.Envelope) string { return "fail" }
	res := w.fails(t, "two", problem.BehaviourFailed, "failed: the vacant failed to answer")
	if res.Fate != dispatch.Unanswered || res.Status != 500 || res.Reply != nil {
		t.Errorf("Call() = %+v", res)
	}
	if st := w.state(t); st.RequestTip.Seq != 2 || st.ResponseTip.Seq != 1 || len(st.Sent) > 0 || st.CallKey != "" {
		t.Errorf("state = %+v", st)
	}
	w.host.Behaviour = nil
	res = w.answers(t, "two")
	if res.Request.Seq != 3 || res.ReplySeq != 2 {
		t.Errorf("Call() = request %d, answer %d, want 3, 2", res.Request.Seq, res.ReplySeq)
	}
}

func TestAnswerWithoutItsTextSettles(t *testing.T) {
	w := newWorld(t)
	w.wire.Fault = func(string, *envelope.Envelope) string {
		for _, p := range w.host.Pairs {
			for _, r := range p.Rows {
				r.TextGone = true
			}
		}
		return once("reply lost", 1-len(w.wire.Posts))("", nil)
	}
	res := w.fails(t, "hi", problem.BehaviourFailed, "no longer stores the text")
	if res.Fate != dispatch.TextGone || res.ReplySeq != 1 || res.ReplyHash.IsZero() {
		t.Errorf("Call() = %+v", res)
	}
	w.wire.Fault = nil
	res, err := w.call("next") // follows the answer that was never received
	dispatchtest.WantAnswer(t, res, err, "echo: next")
	if res.ReplySeq != 2 {
		t.Errorf("Call() = answer %d, want 2", res.ReplySeq)
	}
}

func TestPendingIsWaitedFor(t *testing.T) {
	w := newWorld(t)
	w.host.Behaviour = func(*envelope.Envelope) string { return "hang" }
	w.wire.Fault = func(string, *envelope.Envelope) string {
		if len(w.wire.Posts) == 4 {
			for _, p := range w.host.Pairs {
				w.host.Answer(p, p.Rows[0])
			}
		}
		return ""
	}
	w.answers(t, "hi")
	wantPaths(t, w, "send", "send", "send", "send", "send")
}

func TestPendingForLongIsResumedByTheSameCall(t *testing.T) {
	w := newWorld(t)
	w.AnswerTimeout = 5 * time.Second
	w.host.Behaviour = func(*envelope.Envelope) string { return "hang" }
	first := w.fails(t, "hi", problem.Pending, "demo has not answered yet", "run the same command again to resume it")
	if first.Request.Seq != 1 {
		t.Errorf("Call() = %+v", first)
	}
	again := w.fails(t, "hi", problem.Pending)
	if again.RequestHash != first.RequestHash || !again.Resumed {
		t.Errorf("Call() = %v resumed %v, want %v", again.RequestHash, again.Resumed, first.RequestHash)
	}
	w.clock.Add(time.Minute) // past its due time: nobody will answer
	res := w.fails(t, "hi", problem.BehaviourFailed)
	if res.Fate != dispatch.Unanswered || len(w.wire.SentBodies(1)) != 1 {
		t.Errorf("Call() = %+v after %d bodies", res, len(w.wire.SentBodies(1)))
	}
}

func TestInconclusiveAnswersKeepTheCall(t *testing.T) {
	for fault, kind := range map[string]problem.Kind{"503": problem.Pending, "request lost": problem.Pending, "unreachable": problem.Unavailable} {
		t.Run(fault, func(t *testing.T) {
			w := newWorld(t)
			w.wire.Fault = once(fault, 6)
			first := w.fails(t, "hi", kind, "same command again")
			if first.RequestCount != dispatch.DefaultTries {
				t.Errorf("Call() posted %d times, want %d", first.RequestCount, dispatch.DefaultTries)
			}
			res := w.answers(t, "hi")
			if res.RequestHash != first.RequestHash || len(w.wire.SentBodies(1)) != 1 {
				t.Errorf("another envelope was signed: %v, want %v", res.RequestHash, first.RequestHash)
			}
		})
	}
}

func TestCanceledCallIsKept(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	w.wire.Fault = func(string, *envelope.Envelope) string { cancel(); return "reply lost" }
	_, err := w.Call(ctx, w.host.Target(), dispatchtest.UserMessage("hi"))
	dispatchtest.WantKind(t, err, problem.Canceled, "run the same command again to resume it")
	w.wire.Fault = nil
	res := w.answers(t, "hi")
	if !res.Resumed || len(w.wire.SentBodies(1)) != 1 {
		t.Errorf("Call() = %+v, want it resumed", res)
	}
}

func TestRefusalLeavesTheEnvelopeListedAndTheNextTakesItsNumber(t *testing.T) {
	for _, kind := range []problem.Kind{problem.PaymentRequired, problem.Gone, problem.NotAccepting, problem.TooManyRequests, problem.Misdirected, problem.BadSignature, problem.Malformed} {
		t.Run(kind.String(), func(t *testing.T) {
			w := newWorld(t)
			w.host.Refuse = func(*envelope.Envelope) *problem.Error { return problem.New(kind, "not now\x1b[31m") }
			first, err := w.call("hi")
			if kind == problem.Malformed {
				dispatchtest.WantKind(t, err, problem.Forbidden)
			} else {
				dispatchtest.WantKind(t, err, kind)
			}
			if text := problem.AsError(err).Text(); !strings.Contains(text, "not now") || strings.Contains(text, "\x1b") {
				t.Errorf("error = %q, want the host's text without control characters", text)
			}
			if st := w.state(t); len(st.Sent) != 1 || st.CallKey != "" {
				t.Fatalf("state = %+v, want the envelope listed and nothing in hand", st)
			}
			w.host.Refuse = nil
			res := w.answers(t, "hi")
			if res.Request.Seq != 1 || res.RequestHash == first.RequestHash || res.Resumed {
				t.Errorf("Call() = %+v, want another envelope for number 1", res)
			}
			if st := w.state(t); len(st.Overtaken) != 1 {
				t.Fatalf("state = %+v, want the refused envelope listed", st)
			}
			res = w.answers(t, "more")
			wantPaths(t, w, "send", "send", "ask", "send")
			if st := w.state(t); len(st.Overtaken)+len(st.Acceptable)+len(res.LateOutcomes) != 0 {
				t.Errorf("state = %+v, want nothing listed: the host knows no such envelope", st)
			}
		})
	}
}

// Copies in flight: one copy meets 423, the caller signs again, the other copy
// is accepted.
func TestEveryEnvelopeSentForANumberIsKept(t *testing.T) {
	w := newWorld(t)
	w.host.Refuse = func(*envelope.Envelope) *problem.Error {
		return problem.New(problem.NotAccepting, "vacant is HIBERNATING")
	}
	first := w.fails(t, "one", problem.NotAccepting)
	w.host.Refuse = nil
	w.host.Serve("/a2a/message/send", []byte(w.wire.Posts[0].Raw)) // the other copy arrives

	res := w.answers(t, "two")
	if res.Request.Seq != 2 {
		t.Errorf("Call() took number %d, want 2", res.Request.Seq)
	}
	if len(res.LateOutcomes) != 1 || res.LateOutcomes[0].Request.Hash() != first.RequestHash || res.LateOutcomes[0].Reply.Payload.Text() != "echo: one" {
		t.Errorf("Late = %+v, want the answer to the first call", res.LateOutcomes)
	}
	wantPaths(t, w, "send", "send", "ask", "ask", "send")
	if n := w.host.CountExecuted(first.Request.IdempotencyKey); n != 1 {
		t.Errorf("the first call ran %d times, want once", n)
	}
}

// An envelope is refused with 409, and another device resets with a slower
// clock. If it were sent again, the old envelope would fit and run.
func TestListedEnvelopesAreAskedForNeverResent(t *testing.T) {
	w := newWorld(t)
	w.AutoReset = true
	other := w.device()
	other.Now = func() time.Time { return w.clock.Now().Add(-100 * time.Second) }
	other.answers(t, "theirs")

	// Ours meets 409 and dies before it can reset.
	w.book.die = func(n int) string { return map[bool]string{true: "before"}[n == 2] }
	refused, err := w.call("ours")
	if err == nil || refused.RequestHash.IsZero() {
		t.Fatalf("Call() = %v, want it to die", err)
	}
	w.book.die = nil
	// The other device resets. Its clock is slow, so the floor is below what
	// was refused.
	other.resets(t)
	w.setState(t, func(st *dispatch.State) { st.Overtaken, st.Sent, st.CallKey = st.Sent, nil, "" })
	w.answers(t, "new")
	for _, s := range w.wire.Posts[len(w.wire.Posts)-2:] {
		if s.Envelope.Hash() == refused.RequestHash && strings.HasSuffix(s.Path, "send") {
			t.Error("the old envelope was sent again")
		}
	}
	if n := w.host.CountExecuted(refused.Request.IdempotencyKey); n != 0 {
		t.Errorf("the refused call ran %d times", n)
	}
	if st := w.state(t); len(st.Acceptable) != 0 || len(st.Overtaken) != 1 {
		t.Errorf("state = %+v, want it asked for again: it is later than the floor and may still be accepted", st)
	}
}

// A lost answer on the caller's side: the answer was stored, its
// acknowledgement lost. Only that answer is returned later.
func TestLostAnswerIsTheSameWhenAskedAgain(t *testing.T) {
	w := newWorld(t)
	w.wire.Fault = once("reply lost", dispatch.DefaultTries)
	w.fails(t, "hi", problem.Pending)
	stored := w.host.Pairs[w.Signer.ID()].Rows[0].Reply
	res, err := w.Ask(t.Context(), w.host.Target())
	if err != nil || len(res.LateOutcomes) != 1 || res.LateOutcomes[0].ReplyHash != stored.Hash() {
		t.Fatalf("Ask() = %+v, %v, want the stored answer", res, err)
	}
	if st := w.state(t); st.RequestTip.Seq != 1 || st.ResponseTip.Hash != stored.Hash() || len(st.Sent) != 0 {
		t.Errorf("state = %+v, want it settled", st)
	}
}

func TestGivenUpCallIsAskedForAndSettled(t *testing.T) {
	for _, how := range []string{"answer", "fail", "hang"} {
		t.Run(how, func(t *testing.T) {
			w := newWorld(t)
			w.host.Behaviour = func(e *envelope.Envelope) string {
				if e.Payload.Text() == "one" {
					return how
				}
				return "answer"
			}
			w.wire.Fault = once("reply lost", dispatch.DefaultTries)
			first := w.fails(t, "one", problem.Pending)
			res := w.answers(t, "two")
			fate := map[string]dispatch.Fate{"answer": dispatch.Answered}[how]
			if fate == "" {
				fate = dispatch.Unanswered
			}
			if len(res.LateOutcomes) != 1 || res.LateOutcomes[0].Fate != fate || res.LateOutcomes[0].Request.Hash() != first.RequestHash || res.Request.Seq != 2 {
				t.Errorf("Call() = number %d, late %+v, want number 2 and %v", res.Request.Seq, res.LateOutcomes, fate)
			}
		})
	}
}

func TestGivenUpCallThatNeverArrivedIsOvertaken(t *testing.T) {
	w := newWorld(t)
	w.wire.Fault = once("request lost", dispatch.DefaultTries)
	w.fails(t, "one", problem.Pending)
	res := w.answers(t, "two")
	if st := w.state(t); res.Request.Seq != 1 || len(st.Overtaken) != 1 {
		t.Errorf("Call() took %d, state %+v, want number 1 and the other listed", res.Request.Seq, st)
	}
}

func TestAnswerOutsideTheChainIsKept(t *testing.T) {
	// Two devices with copies of one state: ours is accepted, its reply lost,
	// and the other continues after it.
	w := newWorld(t)
	w.wire.Fault = once("reply lost", dispatch.DefaultTries)
	first := w.fails(t, "one", problem.Pending)
	other := w.device()
	other.AutoReset = true
	other.answers(t, "theirs")

	res := w.answers(t, "one")
	if st := w.state(t); st.RequestTip.Seq != 0 || st.ResponseTip.Seq != 0 || len(st.Sent) != 0 || res.RequestHash != first.RequestHash {
		t.Errorf("state = %+v, want the chain untouched", st)
	}
	if len(res.Undetermined) == 0 || !strings.Contains(res.Undetermined[0], "has moved the chain") {
		t.Errorf("Unknown = %q", res.Undetermined)
	}
	w.fails(t, "two", problem.Replay, "a reset starts it again")
	w.resets(t)
	w.answers(t, "two")
}

func TestMovedChain(t *testing.T) {
	setup := func(t *testing.T) *world {
		w := newWorld(t)
		w.answers(t, "one")
		other := w.device()
		other.AutoReset = true
		other.answers(t, "theirs")
		w.wire.Posts = nil
		return w
	}
	t.Run("is reset with AutoReset", func(t *testing.T) {
		w := setup(t)
		w.AutoReset = true
		res := w.answers(t, "two")
		wantPaths(t, w, "send", "reset", "ask", "send")
		if !res.IsReset || res.Request.Seq != 1 || res.ReplySeq != 1 {
			t.Errorf("Call() = %+v, want a new chain", res)
		}
	})
	t.Run("is for a person without", func(t *testing.T) {
		w := setup(t)
		w.fails(t, "two", problem.Fork, "a reset starts it again", "same command again")
		w.resets(t)
		w.answers(t, "two")
	})
}

func TestFloorOfAResetIsPassed(t *testing.T) {
	// Another device, with a clock 200 s ahead, resets a pair that is new to
	// us.
	w := newWorld(t)
	other := w.device()
	other.Now = func() time.Time { return w.clock.Now().Add(200 * time.Second) }
	other.answers(t, "theirs")
	other.resets(t)
	w.wire.Posts = nil
	res := w.answers(t, "ours")
	wantPaths(t, w, "send", "ask", "send")
	if res.Request.Seq != 1 || !res.Request.Time.After(w.clock.Now().Add(200*time.Second)) {
		t.Errorf("Call() signed %v, want later than the floor", res.Request.Time)
	}

	// And a third device's reset passes the floor that is left.
	third := w.device()
	w.wire.Posts = nil
	third.resets(t)
	wantPaths(t, w, "reset", "reset")
}

// A host that came back from a backup refuses what was signed before, and may have lost
// calls.
func TestARestoredHost(t *testing.T) {
	restored := func(t *testing.T, lost ...string) *world {
		w := newWorld(t)
		w.answers(t, "one")
		backup := *w.host.Pair(w.Signer.ID())
		for _, text := range lost {
			_, _ = w.call(text)
		}
		w.clock.Add(time.Minute)
		*w.host.Pair(w.Signer.ID()), w.host.RestoredAt = backup, w.clock.Now()
		w.wire.Posts, w.wire.Fault = nil, nil
		return w
	}
	t.Run("that lost no call gets the next one, signed later", func(t *testing.T) {
		w := restored(t)
		w.clock.Add(time.Second)
		res := w.answers(t, "two")
		wantPaths(t, w, "send", "ask", "send")
		if floor := w.host.RestoredAt.Add(300 * time.Second); res.Request.Seq != 2 || !res.Request.Time.After(floor) {
			t.Errorf("Call() signed number %d at %v, want 2, later than the floor %v", res.Request.Seq, res.Request.Time, floor)
		}
	})
	t.Run("that lost calls is for a person", func(t *testing.T) {
		w := restored(t, "two", "three")
		_, err := w.call("four")
		dispatchtest.WantKind(t, err, problem.Gap, "demo was restored from a backup at 2026-05-06 12:01:00 UTC: it has the chain up to call 1, and accepts only messages signed later than 2026-05-06 12:06:00 UTC",
			"a reset starts the chain again now, then run the same command again")
		w.clock.Add(time.Second)
		w.resets(t)
		w.answers(t, "four")
	})
	t.Run("that may have run the call before gets it again from a person only", func(t *testing.T) {
		w := newWorld(t)
		w.answers(t, "one")
		backup := *w.host.Pair(w.Signer.ID())
		w.wire.Fault = func(string, *envelope.Envelope) string { return "reply lost" }
		w.fails(t, "pay", problem.Pending)
		*w.host.Pair(w.Signer.ID()), w.host.RestoredAt = backup, w.clock.Now()
		w.wire.Posts, w.wire.Fault = nil, nil
		w.clock.Add(time.Second)
		w.fails(t, "pay", problem.BelowFloor, "demo was restored from a backup")
		if n := len(w.wire.SentBodies(2)); n != 1 {
			t.Errorf("%d calls with number 2 were sent, want only the one that may have run", n)
		}
	})
	t.Run("is not named by a host that is ahead of the caller", func(t *testing.T) {
		w := restored(t)
		other := w.device()
		other.resets(t)
		for range 3 {
			must(t, errorOf(other.call("theirs")))
		}
		w.fails(t, "two", problem.Replay, "moved by another holder of this key")
	})
}

func TestClock(t *testing.T) {
	t.Run("fast: signs by the host's clock", func(t *testing.T) {
		w := newWorld(t)
		w.Now = func() time.Time { return w.clock.Now().Add(10 * time.Minute) }
		w.answers(t, "hi")
		wantPaths(t, w, "send", "send")
		if st := w.state(t); st.ClockOffset != -10*time.Minute || len(st.Overtaken) != 1 {
			t.Errorf("state = %+v, want the correction and the refused envelope listed", st)
		}
		w.answers(t, "more")
		wantPaths(t, w, "send", "send", "ask", "send")
		if st := w.state(t); len(st.Overtaken) != 1 {
			t.Errorf("state = %+v, want it still listed: its time has not come", st)
		}
		w.clock.Add(time.Hour)
		for range 3 {
			w.answers(t, "more")
		}
		if st := w.state(t); len(st.Overtaken)+len(st.Acceptable) != 0 {
			t.Errorf("state = %+v, want it gone: the floor has passed it", st)
		}
	})
	for _, off := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(fmt.Sprintf("off by %s: signs by the host's clock", off), func(t *testing.T) {
			w := newWorld(t)
			w.Now = func() time.Time { return w.clock.Now().Add(off) }
			for range 2 {
				w.answers(t, "hi")
			}
			w.resets(t)
		})
	}
	t.Run("fast, and the refused envelope is accepted after all", func(t *testing.T) {
		w := newWorld(t)
		w.Now = func() time.Time { return w.clock.Now().Add(10 * time.Minute) }
		w.wire.Fault = func(_ string, e *envelope.Envelope) string {
			if len(w.wire.Posts) == 1 { // its time comes before the new one arrives
				w.clock.Add(10 * time.Minute)
				w.host.Serve("/a2a/message/send", []byte(w.wire.Posts[0].Raw))
			}
			return ""
		}
		res := w.answers(t, "hi")
		if n := w.host.CountExecuted(res.Request.IdempotencyKey); n != 1 {
			t.Errorf("the call ran %d times, want once", n)
		}
	})
}

func TestClockForAPerson(t *testing.T) {
	t.Run("off by more than an hour", func(t *testing.T) {
		w := newWorld(t)
		w.Now = func() time.Time { return w.clock.Now().Add(2 * time.Hour) }
		w.fails(t, "hi", problem.ClockSkew, "2h0m0s", "set this machine's")
	})
	t.Run("slow: a reset is signed again", func(t *testing.T) {
		w := newWorld(t)
		w.answers(t, "hi")
		w.Now = func() time.Time { return w.clock.Now().Add(-10 * time.Minute) }
		w.resets(t)
		w.answers(t, "hi")
	})
	t.Run("mended: the correction is the host's word, not a sum", func(t *testing.T) {
		w := newWorld(t)
		w.Now = func() time.Time { return w.clock.Now().Add(10 * time.Minute) }
		w.answers(t, "hi")
		w.Now = w.clock.Now
		w.clock.Add(time.Hour)
		w.resets(t)
		if st := w.state(t); st.ClockOffset != 0 {
			t.Errorf("Ahead = %v, want 0", st.ClockOffset)
		}
	})
	t.Run("a host that lies about a floor does not move it", func(t *testing.T) {
		w := newWorld(t)
		w.Transport = dispatchtest.PostFunc(func(string, []byte) (int, []byte, error) {
			return 409, []byte(`{"detail":"x","code":"floor","floor":"9999-12-31T00:00:00+00:00","expected_seq":1}`), nil
		})
		w.fails(t, "hi", problem.ClockSkew)
		if st := w.state(t); st.LastSignedTime.Year() == 9999 {
			t.Error("the lie was taken over")
		}
	})
}

func TestAnswersThatAreNotBelieved(t *testing.T) {
	w := newWorld(t)
	res := w.answers(t, "one")
	old := *res.Reply

	sign := func(change func(*envelope.Envelope)) []byte {
		e := envelope.Envelope{From: w.host.ID(), To: w.Signer.ID(), Seq: 2, Prev: old.Hash(), Time: dispatchtest.Start, Payload: dispatchtest.UserMessage("forged")}
		change(&e)
		must(t, errorOf(e.Sign(t.Context(), w.host.Key)))
		return envelope.AppendResponse(nil, nil, &e)
	}
	cases := map[string]func(req *envelope.Envelope) []byte{
		"an earlier answer": func(*envelope.Envelope) []byte { return envelope.AppendResponse(nil, nil, &old) },
		"an answer to another request": func(*envelope.Envelope) []byte {
			return sign(func(e *envelope.Envelope) { e.IdempotencyKey = envelope.ReplyKey(identity.Hash{1}) })
		},
		"an unbound answer of a host that binds": func(*envelope.Envelope) []byte {
			return sign(func(e *envelope.Envelope) { e.IdempotencyKey = "x" })
		},
		"a gap": func(r *envelope.Envelope) []byte {
			return sign(func(e *envelope.Envelope) { e.IdempotencyKey, e.Seq = envelope.ReplyKey(r.Hash()), 3 })
		},
		"a fork": func(r *envelope.Envelope) []byte {
			return sign(func(e *envelope.Envelope) { e.IdempotencyKey, e.Prev = envelope.ReplyKey(r.Hash()), identity.Hash{9} })
		},
		"our own request": func(r *envelope.Envelope) []byte { return envelope.AppendResponse(nil, nil, r) },
		"a page":          func(*envelope.Envelope) []byte { return []byte("<html>Welcome") },
		"nothing":         func(*envelope.Envelope) []byte { return nil },
	}
	for name, answer := range cases {
		t.Run(name, func(t *testing.T) {
			for _, form := range []string{"200", "stored"} {
				before := w.state(t)
				w.Transport = dispatchtest.PostFunc(func(_ string, raw []byte) (int, []byte, error) {
					req, _ := envelope.DecodeRequest(raw)
					b := answer(&req.Envelope)
					if form == "200" {
						return 200, b, nil
					}
					var m struct {
						Result struct{ Message json.RawMessage }
					}
					_ = json.Unmarshal(b, &m)
					return 409, dispatchtest.Marshal(dispatchtest.Body{"detail": "x", "state": "answered", "reply": m.Result.Message}), nil
				})
				w.fails(t, "two", problem.Untrusted)
				st := w.state(t)
				if st.RequestTip != before.RequestTip || st.ResponseTip != before.ResponseTip || len(st.Sent) != 1 {
					t.Errorf("state = %+v, want the call open", st)
				}
			}
		})
	}
	w.Transport = w.wire // the true answer is still available
	w.answers(t, "two")
}

func TestTooManyListedEnvelopesAreNotForgotten(t *testing.T) {
	w := newWorld(t)
	w.host.Refuse = func(*envelope.Envelope) *problem.Error { return problem.New(problem.NotAccepting, "asleep") }
	for range dispatch.MaxListed {
		w.fails(t, "hi", problem.NotAccepting)
	}
	w.fails(t, "hi", problem.Conflict, "ask for their outcomes", "by a reset")
	if _, _, err := w.SignRequest(t.Context(), w.host.Target(), dispatchtest.UserMessage("hi")); !problem.Is(err, problem.Conflict) {
		t.Errorf("Print() = %v, want a conflict", err)
	}
	w.host.Refuse = nil
	w.AutoReset = true
	w.answers(t, "hi")
	if st := w.state(t); len(st.Sent)+len(st.Overtaken)+len(st.Acceptable) != 0 {
		t.Errorf("%d envelopes are listed after the reset", len(st.Sent)+len(st.Overtaken)+len(st.Acceptable))
	}
}

func TestUsage(t *testing.T) {
	w := newWorld(t)
	self := w.host.Target()
	self.ID = w.Signer.ID()
	for name, f := range map[string]func() error{
		"self": func() error { _, err := w.Call(t.Context(), self, dispatchtest.UserMessage("x")); return err },
		"agent": func() error {
			_, err := w.Call(t.Context(), w.host.Target(), envelope.Message{Role: envelope.RoleAgent})
			return err
		},
		"reset": func() error { _, err := w.call(" RESET_CHAIN "); return err },
		"no http": func() error {
			u := w.host.Target()
			u.URL = "ftp://x/"
			_, err := w.Call(t.Context(), u, dispatchtest.UserMessage("x"))
			return err
		},
		"password": func() error {
			u := w.host.Target()
			u.URL = "http://a:b@x/"
			_, err := w.Call(t.Context(), u, dispatchtest.UserMessage("x"))
			return err
		},
	} {
		if err := f(); !problem.Is(err, problem.Usage) {
			t.Errorf("%s: error = %v, want usage", name, err)
		}
	}
	if _, err := w.call(strings.Repeat("x", 300<<10)); !problem.Is(err, problem.TooLarge) {
		t.Errorf("Call() of a large message = %v, want too large", err)
	}
	if st := w.state(t); len(st.Sent) != 0 || len(w.wire.Posts) != 0 {
		t.Errorf("state = %+v, want nothing signed", st)
	}
}

func TestBusyTarget(t *testing.T) {
	w := newWorld(t)
	s, err := w.Book.Open(t.Context(), w.Signer.ID(), w.host.ID())
	must(t, err)
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = w.Call(ctx, w.host.Target(), dispatchtest.UserMessage("hi"))
	dispatchtest.WantKind(t, err, problem.Canceled, "another call to demo was under way")
	ctx, cancel = context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	_, err = w.Call(ctx, w.host.Target(), dispatchtest.UserMessage("hi"))
	dispatchtest.WantKind(t, err, problem.Unavailable, "another call to demo is under way")
}

func TestResetThatCannotBeConfirmedIsKept(t *testing.T) {
	for fault, kind := range map[string]problem.Kind{"unreachable": problem.Unavailable, "reply lost": problem.Pending} {
		w := newWorld(t)
		w.wire.Fault = once(fault, dispatch.DefaultTries)
		_, err := w.Reset(t.Context(), w.host.Target())
		dispatchtest.WantKind(t, err, kind, "it is stored")
		w.clock.Add(10 * time.Minute) // too old by now: signed again
		res, err := w.Reset(t.Context(), w.host.Target())
		if err != nil || !res.IsReset || w.state(t).PendingReset != nil {
			t.Errorf("Reset() = %+v, %v, want it finished", res, err)
		}
	}
	w := newWorld(t)
	w.Wait = nil // the real pause ends with its context
	ctx, cancel := context.WithCancel(t.Context())
	w.wire.Fault = func(string, *envelope.Envelope) string { cancel(); return "request lost" }
	_, err := w.Reset(ctx, w.host.Target())
	dispatchtest.WantKind(t, err, problem.Pending, "it is stored")
}

func BenchmarkCall(b *testing.B) {
	w := newWorld(b)
	w.Now, w.host.Clock = time.Now, time.Now
	for b.Loop() {
		must(b, errorOf(w.call("hi")))
		p := w.host.Pair(w.Signer.ID())
		p.Rows = p.Rows[len(p.Rows)-1:] // the test double is not what is measured
		w.wire.Posts = w.wire.Posts[:0]
	}
}
