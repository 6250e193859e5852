package integration

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/localstack/server"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
)

// due is the time after which an accepted and undecided call may be voided, by
// the host's own bounds.
const due = call.DefaultCallTimeout + call.GracePeriod + time.Second

// undecided is a call that its function left pending.
type undecided struct {
	*pair
	what string
	e    *envelope.Envelope
	from time.Time // it was accepted before
}

// decided waits until every call is due, and requires each of them to be
// unanswered for good, and its chain to continue.
func decided(t *testing.T, left []undecided) {
	for _, u := range left {
		time.Sleep(time.Until(u.from.Add(due)))
		u.t = t
		for range 2 {
			if a := u.send(u.e); a.Status != http.StatusConflict || a.State != string(call.Unanswered) {
				t.Errorf("%s, sent again when due: %v, want it unanswered", u.what, a)
			}
		}
		u.Accepted(u.e)
		u.say("after " + u.what)
	}
}

// step is an AWS call within one invocation: the nth of an operation.
type step struct {
	service, operation string
	nth                int
}

func (s step) String() string { return fmt.Sprintf("%s %d", s.operation, s.nth) }

// writes reports whether the step changes something.
func (s step) writes() bool { return s.operation == "PutItem" }

// steps are the AWS calls of a first call at a function with empty caches, in a
// possible order.
func (s *deployed) steps(t *testing.T, p *pair) (steps []step) {
	t.Helper()
	s.kill(t, "message")
	p.say("what a call asks for")
	all, err := local(t).Calls(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var invocation string
	for _, c := range slices.Backward(all) {
		if c.Function == s.function("message") && c.Invocation != "" {
			invocation = c.Invocation
			break
		}
	}
	for _, c := range all {
		if c.Invocation != invocation || invocation == "" {
			continue
		}
		one := step{c.Service, c.Operation, 1}
		for slices.Contains(steps, one) {
			one.nth++
		}
		steps = append(steps, one)
	}
	puts := 0
	for _, s := range steps {
		if s.writes() {
			puts++
		}
	}
	if puts != 2 {
		t.Fatalf("a call made the AWS calls %v, want 2 PutItem among them", steps)
	}
	return steps
}

// A function is killed with SIGKILL before and after each AWS call of an
// invocation. Another replaces it, and the same bytes get their outcome: none
// yet, pending and then unanswered, or answered.
func TestAFunctionKilledInMidCallLeavesNoDoubt(t *testing.T) {
	s := shared(t)
	v := s.vacant(t)
	var left []undecided
	written := 0
	for i, at := range s.steps(t, s.pair(t, v)) {
		// In the evening a function looks for the next day's key after the answer.
		afterAnswer := written == 2
		if at.writes() {
			written++
		}
		for name, moment := range map[string]server.Moment{"before": server.BeforeCall(at.nth), "after": server.AfterCall(at.nth)} {
			if name == "after" && !at.writes() || !at.writes() && !covered(i) {
				continue // after a read is the same as before the next call
			}
			p := s.pair(t, v)
			what := fmt.Sprintf("killed %s %v", name, at)
			s.kill(t, "message")
			if _, err := local(t).Kill(t.Context(), s.function("message"), moment.ForOperation(at.service, at.operation)); err != nil {
				t.Fatal(err)
			}
			e := p.Call(what, time.Now())
			if a := p.send(e); a.Status != http.StatusBadGateway && a.Status != 0 {
				t.Errorf("%s: %v, want no answer of the function", what, a)
			}
			s.nothingPlanned(t)
			a := p.send(e)
			got := a.State
			if a.Status == http.StatusOK {
				got = "200"
			}
			want := map[bool]string{false: "200", true: "pending"}[at.writes() && (at.nth == 2 || name == "after")]
			if afterAnswer || at.writes() && at.nth == 2 && name == "after" {
				want = "answered"
			}
			if got != want || a.State == "pending" && a.header.Get("Retry-After") == "" {
				t.Errorf("%s, sent again: %v, want %s", what, a, want)
			}
			if got == "pending" {
				left = append(left, undecided{p, what, e, time.Now()})
				continue
			}
			p.Accepted(e)
			p.say("after " + what)
		}
	}
	s.whole(t)
	t.Parallel() // while others run, pending calls become due
	decided(t, left)
	s.wholeAtLast(t) // parallel tests end after all others
}
