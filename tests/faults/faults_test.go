package faults

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/store/dynamo"
	"github.com/vacancy-host/vacancy/shared/store/storetest"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/tests/caller"
	"github.com/vacancy-host/vacancy/tests/faultproxy"
)

// request is a request that a host with empty caches makes for a call.
type request struct {
	name      string
	operation string
	nth       int
}

var requests = []request{
	{"one read of documents", "GetItem", 1},
	{"the other read of documents", "GetItem", 2},
	{"one read of a tip", "Query", 1},
	{"the other read of a tip", "Query", 2},
	{"the accept", "PutItem", 1},
	{"the answer", "PutItem", 2},
}

// writes: the request is repeated until its outcome is known.
func (r request) writes() bool { return r.operation == "PutItem" }

// The effect of a fault that happens once to a request.
var (
	// harmless faults are not noticed.
	harmless = []faultproxy.Fault{faultproxy.Delay, faultproxy.Twice, faultproxy.TwiceLater}
	// reached: the request is applied, and its client gets an error.
	reached = []faultproxy.Fault{faultproxy.DropAnswer, faultproxy.FailAfter, faultproxy.HangAfter}
)

// faulty is a store behind a proxy whose client tries once and waits so long:
// the SDK's own retries are the adapter's matter.
func (h *fixture) faulty(url string, patience time.Duration) *dynamo.Store {
	return h.Store(url, func(o *dynamodb.Options) {
		o.RetryMaxAttempts = 1
		o.HTTPClient = awshttp.NewBuildableClient().WithTimeout(patience)
	})
}

// Every request of a call fails once in every way: a write succeeds none the
// less, a failed read is 503. Nothing runs twice, the rows are sound, the same
// bytes sent again get the same answer, and the next call succeeds.
func TestFaultInOneRequestOfACall(t *testing.T) {
	base := newFixture(t)
	n := 0
	for _, r := range requests {
		for _, f := range faultproxy.Faults() {
			if n++; !storetest.InSample(n) {
				continue
			}
			t.Run(fmt.Sprintf("%s, %v", r.name, f), func(t *testing.T) {
				t.Parallel()
				h, proxy := base.another(t)
				proxy.Set(faultproxy.Rule{Operation: r.operation, Nth: r.nth, Fault: f, For: 20 * time.Millisecond})
				handler := h.handler(h.faulty(proxy.URL, time.Second), time.Now)
				e := h.caller.Call(t.Name(), time.Now())
				first := h.post(handler, caller.SendPath, e)
				want := 200
				if !r.writes() && !slices.Contains(harmless, f) {
					want = 503
				}
				if first.Status != want || want == 503 && first.State != "" {
					t.Errorf("call = %v, want %d without a word on the chain", first, want)
				}
				h.sound()
				release(t, proxy)
				fate := h.again(e, first)
				if !r.writes() && fate != "200" && first.Status != 200 {
					t.Errorf("sent again: %s; a call whose reads failed was not accepted", fate)
				}
			})
		}
	}
}

// A write fails in one way as long as anybody retries: 503, and the stored rows
// decide the answer to the same bytes later.
func TestFaultThatLasts(t *testing.T) {
	base := newFixture(t)
	n := 0
	for _, r := range requests {
		for _, f := range faultproxy.Faults() {
			if !r.writes() || slices.Contains(harmless, f) || f == faultproxy.Conflict {
				continue // a single put meets a transaction, and no two in a row
			}
			for _, order := range []string{"released, sent again", "sent again, released"} {
				if order == "sent again, released" && f != faultproxy.Late {
					continue // there is nothing to release
				}
				if n++; !storetest.InSample(n) {
					continue
				}
				t.Run(fmt.Sprintf("%s, %v, %s", r.name, f, order), func(t *testing.T) {
					t.Parallel()
					h, proxy := base.another(t)
					var lasting []faultproxy.Rule
					for n := r.nth; n < r.nth+20; n++ {
						lasting = append(lasting, faultproxy.Rule{Operation: r.operation, Nth: n, Fault: f})
					}
					proxy.Set(lasting...)
					handler := h.handler(h.faulty(proxy.URL, 200*time.Millisecond), time.Now)
					e := h.caller.Call(t.Name(), time.Now())
					first := h.post(handler, caller.SendPath, e)
					if first.Status != 503 || first.State != "" {
						t.Errorf("call = %v, want 503 without a word on the chain", first)
					}
					h.sound()
					late := order == "sent again, released"
					if !late {
						release(t, proxy)
					}
					if got, want := h.again(e, first), lasts(r, f, late); got != want {
						t.Errorf("sent again: %s, want %s", got, want)
					}
					release(t, proxy)
					h.sound()
				})
			}
		}
	}
}

// lasts is the outcome of a call whose write met a lasting fault.
func lasts(r request, f faultproxy.Fault, stillLate bool) string {
	there := slices.Contains(reached, f) || f == faultproxy.Late && !stillLate
	switch {
	case r.nth == 1 && there:
		return "pending, unanswered" // accepted, but its host could not know, and ran nothing
	case r.nth == 1:
		return "200"
	case there:
		return "answered"
	}
	return "pending, unanswered"
}

func release(t *testing.T, p *faultproxy.Proxy) {
	t.Helper()
	if _, err := p.Release(); err != nil {
		t.Fatal(err)
	}
}

// again sends e once more, to a host without faults, until its fate is known,
// and then the next call. It returns the fate.
func (h *fixture) again(e *envelope.Envelope, first caller.Answer) string {
	h.t.Helper()
	direct := h.Store(h.Endpoint)
	a := h.post(h.handler(direct, time.Now), caller.SendPath, e)
	fate := a.State
	switch {
	case a.Status == 200:
		fate = "200"
	case a.State == string(call.Pending):
		due := func() time.Time { return time.Now().Add(call.DefaultCallTimeout + call.GracePeriod + time.Second) }
		a = h.post(h.handler(direct, due), caller.SendPath, e)
		fate += ", " + a.State
	}
	known := []string{"200", "answered", "unanswered", "pending, unanswered"}
	if !slices.Contains(known, fate) {
		h.t.Fatalf("sent again: %v, %q; want one of %s", a, fate, strings.Join(known, "; "))
	}
	if first.Status == 200 && (fate != "answered" || string(a.Raw) != string(first.Raw)) {
		h.t.Errorf("answered, and sent again: %s, with\n%s\nwant\n%s", fate, a.Raw, first.Raw)
	}
	text := e.Payload.Text()
	if n := h.ran(text); n > 1 || n == 0 && a.Reply != nil {
		h.t.Errorf("the behaviour ran %d times, the fate is %s", n, fate)
	}
	h.caller.Accepted(e)
	h.answered("after " + text)
	h.sound()
	return fate
}

// another is the same host with a caller of its own and a proxy.
func (h *fixture) another(t *testing.T) (*fixture, *faultproxy.Proxy) {
	t.Helper()
	other := &fixture{Host: h.Host, t: t, vacant: h.vacant, caller: caller.New(t, h.vacant), asked: map[string]int{}}
	other.answered("first of " + t.Name())
	return other, faultproxy.Start(t, h.Endpoint)
}
