package integration

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/localstack/server"
)

// faulty are the AWS calls with faults: how many of the kind succeed before,
// and whether the call was accepted before the fault.
var faulty = []struct {
	service, operation string
	skip               int
}{
	{"dynamodb", "GetItem", 0},
	{"dynamodb", "Query", 0},
	{"kms", "Decrypt", 0},
	{"dynamodb", "PutItem", 0}, // the request row
	{"dynamodb", "PutItem", 1}, // the answer row
}

// lasting is more often than anybody retries within one call.
const lasting = 60

// Whatever fails between the function and DynamoDB or KMS during the call: the
// caller gets 503 and never a refusal of the chain; afterwards the same bytes
// get their outcome.
func TestAFaultOfAWSIsNeverTakenForTheCallers(t *testing.T) {
	s := shared(t)
	v := s.vacant(t)
	var left []undecided
	for i, f := range faulty {
		for j, kind := range []server.Kind{server.Throttled, server.Internal, server.Denied, server.Expired, server.Lost, server.Refused} {
			if !covered(i + j) {
				continue
			}
			p := s.pair(t, v)
			what := fmt.Sprintf("%s of %s, %d passed", kind, f.operation, f.skip)
			s.kill(t, "message")
			s.fault(t, server.Fault{Kind: kind, Service: f.service, Operation: f.operation, Skip: f.skip, Times: lasting})
			e := p.Call(what, time.Now())
			began := time.Now()
			a := p.send(e)
			p.refused(what, a, http.StatusServiceUnavailable, "unavailable")
			t.Logf("%s: %d after %v", what, a.Status, time.Since(began).Round(time.Millisecond))
			s.faultless(t)

			written := f.operation == "PutItem"
			carriedOut := kind == server.Lost
			want := "200"
			switch {
			case written && f.skip == 1 && carriedOut:
				want = "answered"
			case written && (f.skip == 1 || carriedOut):
				want = "pending"
			}
			a = p.send(e)
			got := a.State
			if a.Status == http.StatusOK {
				got = "200"
			}
			if got != want || a.Code == "replay" && a.State == "" {
				t.Errorf("%s, sent again without it: %v, want %s", what, a, want)
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
	t.Parallel()
	decided(t, left)
}

// A fault that happens once is resolved within the call, or is 503; the same
// bytes sent again succeed.
func TestAFaultThatPassesIsSettledOrSaid(t *testing.T) {
	s := shared(t)
	v := s.vacant(t)
	for i, f := range faulty {
		for j, kind := range []server.Kind{server.Throttled, server.Internal, server.Lost, server.Refused, server.Slow} {
			if !covered(i + j) {
				continue
			}
			p := s.pair(t, v)
			what := fmt.Sprintf("one %s of %s, %d passed", kind, f.operation, f.skip)
			s.kill(t, "message")
			s.fault(t, server.Fault{Kind: kind, Service: f.service, Operation: f.operation, Skip: f.skip, Times: 1, Seconds: 0.5})
			e := p.Call(what, time.Now())
			a := p.send(e)
			if a.Status != http.StatusOK && a.Status != http.StatusServiceUnavailable {
				t.Errorf("%s: %v, want 200 or 503", what, a)
			}
			s.faultless(t)
			if again := p.send(e); again.Status != http.StatusOK && again.State != "answered" {
				t.Errorf("%s, sent again: %v, want it answered", what, again)
			}
			p.Accepted(e)
			p.say("after " + what)
		}
	}
	s.whole(t)
}
