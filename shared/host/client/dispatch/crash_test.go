package dispatch_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch/dispatchtest"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
)

// scenarios are the situations in which a call is made and the process may die.
var scenarios = map[string]func(t *testing.T, w *world){
	"first call": func(*testing.T, *world) {},
	"later call": func(t *testing.T, w *world) {
		w.answers(t, "before")
	},
	"lost reply": func(_ *testing.T, w *world) { w.wire.Fault = once("reply lost", 1) },
	"pending": func(_ *testing.T, w *world) {
		w.host.Behaviour = func(*envelope.Envelope) string { return "hang" }
		w.wire.Fault = func(string, *envelope.Envelope) string {
			for _, p := range w.host.Pairs {
				if len(p.Rows) > 0 && len(w.wire.Posts) > 2 {
					w.host.Answer(p, p.Rows[0])
				}
			}
			return ""
		}
	},
	"fast clock": func(_ *testing.T, w *world) {
		w.Now = func() time.Time { return w.clock.Now().Add(10 * time.Minute) }
	},
	"an earlier call was accepted": func(t *testing.T, w *world) {
		w.wire.Fault = once("reply lost", dispatch.DefaultTries)
		w.fails(t, "before", problem.Pending)
	},
	"an earlier call was refused": func(t *testing.T, w *world) {
		w.host.Refuse = func(*envelope.Envelope) *problem.Error { return problem.New(problem.NotAccepting, "asleep") }
		w.fails(t, "before", problem.NotAccepting)
		w.host.Refuse = nil
	},
	"moved by another device": func(t *testing.T, w *world) {
		w.answers(t, "before")
		other := w.device()
		other.answers(t, "theirs")
	},
	"a new pair that was reset by another device": func(t *testing.T, w *world) {
		other := w.device()
		other.Now = func() time.Time { return w.clock.Now().Add(100 * time.Second) }
		other.answers(t, "theirs")
		other.resets(t)
	},
}

// The process dies before and after each Save and around each Post, and makes
// the same call again: it gets the same answer, the work runs once, and no
// other bytes are sent than without the crash.
func TestCrashAtEveryPoint(t *testing.T) {
	for name, setup := range scenarios {
		t.Run(name, func(t *testing.T) {
			plain := play(t, setup, "", 0)
			if plain.died {
				t.Fatal("died without being told to")
			}
			for _, how := range []string{"before save", "after save", "before post", "after post"} {
				for n := 1; ; n++ {
					got := play(t, setup, how, n)
					if !got.died {
						break // no such point any more
					}
					if got.bodies > plain.bodies {
						t.Errorf("death %s %d: %d different envelopes were sent for the call, want at most %d", how, n, got.bodies, plain.bodies)
					}
				}
			}
		})
	}
}

type played struct {
	died   bool
	bodies int
}

// play makes the call "job", dies at the n-th point of a kind, and repeats the
// call until it is answered.
func play(t *testing.T, setup func(*testing.T, *world), how string, n int) played {
	t.Helper()
	w := newWorld(t)
	w.AutoReset = true
	setup(t, w)
	base := len(w.wire.Posts)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out played
	dead := false
	die := func() { out.died, dead = true, true; cancel() }
	at := n + w.book.saves
	w.book.die = func(k int) string {
		if dead {
			return "before"
		}
		if k == at && (how == "before save" || how == "after save") {
			die()
			return how[:len(how)-len(" save")]
		}
		return ""
	}
	posts := 0
	inner := w.Transport
	w.Transport = dispatchtest.PostFunc(func(url string, body []byte) (int, []byte, error) {
		if dead {
			return 0, nil, errDied
		}
		posts++
		if posts == n && how == "before post" {
			die()
			return 0, nil, errDied
		}
		status, reply, err := inner.Post(context.Background(), url, body)
		if posts == n && how == "after post" {
			die()
			return 0, nil, errDied
		}
		return status, reply, err
	})
	res, err := w.Call(ctx, w.host.Target(), dispatchtest.UserMessage("job"))
	w.book.die = nil
	if dead && res.Reply != nil && w.state(t).CallKey == "" {
		return out // died with the answer in the caller's hands
	}
	if dead {
		dead = false
		res, err = w.call("job")
	}
	if err != nil || res.Reply == nil || res.Reply.Payload.Text() != "echo: job" {
		t.Fatalf("death %s %d: Call() = %v, %v", how, n, res.Fate, err)
	}
	if ran := executedText(w.host, "job"); ran != 1 {
		t.Errorf("death %s %d: the work ran %d times, want once", how, n, ran)
	}
	if len(w.host.Violations) > 0 {
		t.Errorf("death %s %d: %q", how, n, w.host.Violations)
	}
	out.bodies = bodiesOf(w.wire.Posts[base:], "job")
	// The pair is in order: the next call works.
	w.Transport, w.wire.Fault, w.host.Behaviour = w.wire, nil, nil
	if next, err := w.call("after"); err != nil {
		t.Errorf("death %s %d: the call after it = %v, %v", how, n, next.Fate, err)
	}
	return out
}

// bodiesOf counts the different bodies that were sent for a text.
func bodiesOf(log []dispatchtest.PostedRequest, text string) int {
	var bodies []string
	for _, s := range log {
		if s.Path == "/a2a/message/send" && s.Envelope.Payload.Text() == text && !slices.Contains(bodies, s.Raw) {
			bodies = append(bodies, s.Raw)
		}
	}
	return len(bodies)
}

func executedText(h *dispatchtest.Host, text string) (n int) {
	for _, p := range h.Pairs {
		for _, r := range p.Rows {
			if !r.Reset && r.Envelope.Payload.Text() == text {
				n++
			}
		}
	}
	return n
}

// The same for a reset.
func TestCrashWhileResetting(t *testing.T) {
	for _, how := range []string{"before", "after"} {
		for n := 1; n < 8; n++ {
			t.Run(fmt.Sprint(how, n), func(t *testing.T) {
				w := newWorld(t)
				w.wire.Fault = once("reply lost", dispatch.DefaultTries)
				_, err := w.call("one") // accepted, its answer open
				dispatchtest.WantKind(t, err, problem.Pending)
				at := w.book.saves + n
				w.book.die = func(k int) string {
					if k == at {
						return how
					}
					return ""
				}
				reset, err := w.Reset(t.Context(), w.host.Target())
				died := err != nil
				w.book.die = nil
				res := w.answers(t, "two")
				if how == "after" && len(res.LateOutcomes) == 0 {
					res.LateOutcomes = reset.LateOutcomes // it died with the answer in the caller's hands
				}
				found := 0
				for _, l := range res.LateOutcomes {
					if l.Request.Payload.Text() == "one" && l.Fate == dispatch.Answered {
						found++
					}
				}
				if died && found != 1 {
					t.Errorf("Late = %+v, want the answer to the call before", res.LateOutcomes)
				}
			})
		}
	}
}

// Nothing is sent that could not be saved, and an answer that could not be
// saved is asked for again.
func TestDiskThatFails(t *testing.T) {
	for n := 1; n <= 3; n++ {
		w := newWorld(t)
		w.book.die = func(k int) string { return map[bool]string{true: "before"}[k == n] }
		w.fails(t, "hi", problem.Unavailable, "could not be stored")
		if n == 1 && len(w.wire.Posts) > 0 {
			t.Error("sent, though it could not be stored")
		}
		w.book.die = nil
		w.answers(t, "hi")
		if len(w.wire.SentBodies(1)) != 1 {
			t.Errorf("%d bodies, want 1", len(w.wire.SentBodies(1)))
		}
	}
}
