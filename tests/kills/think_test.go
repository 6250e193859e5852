//go:build unix

package kills

import (
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/front/setting"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/mock"
	"github.com/vacancy-host/vacancy/shared/host/substrate/models"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store/storetest"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/tests/awshost"
	"github.com/vacancy-host/vacancy/tests/caller"
	"github.com/vacancy-host/vacancy/tests/faultproxy"
	"github.com/vacancy-host/vacancy/tests/lambda"
)

const (
	thinkARN = "arn:aws:lambda:us-east-1:123456789012:function:vacancy-test-think"
	// invoke is the step at which message asks think.
	invoke = "Invoke"
)

// thinker is functions/think, built once.
var thinker = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp(scratch, "")
	if err != nil {
		return "", err
	}
	return lambda.Build(dir, "github.com/vacancy-host/vacancy/functions/think")
})

// mortal is a function that may die at a step.
type mortal struct {
	steps
	f   *lambda.Function
	hit sync.Map // requests under way: their body, and their name and number
}

func (m *mortal) requested(operation string, body []byte, carriedOut bool) bool {
	var dies bool
	if carriedOut {
		name, _ := m.hit.Load(string(body))
		dies = m.after(name.(string))
	} else {
		name, now := m.before(callOf(operation, body))
		m.hit.Store(string(body), name)
		dies = now
	}
	if dies {
		m.f.Kill()
	}
	return !dies
}

// answering notes the answer to Lambda as a step.
func (m *mortal) answering(f *lambda.Function, read bool) {
	dies := false
	if read {
		dies = m.after(write)
	} else {
		_, dies = m.before(write)
	}
	if dies {
		f.Kill()
	}
}

// parted is a host whose message asks think.
type parted struct {
	*lambdaTarget
	message, think *mortal
	env            []string // of message
	invoked        int
}

// newParted starts both functions for a vacant whose model costs money.
func newParted(t *testing.T) (*parted, *caller.Caller) {
	t.Helper()
	p := &parted{lambdaTarget: &lambdaTarget{Host: awshost.New(t)}}
	server, err := serve.Config{
		Store: p.Store(p.Endpoint), Vault: p.Vault, URL: awshost.URL, Log: slog.New(slog.DiscardHandler), Now: time.Now, Rand: rand.Reader,
		Host: setting.Host{ModelBudget: money.Dollar}, Models: func(*outbound.Client) substrate.Kinds { return mock.Kinds() },
	}.Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Texts.Warm(t.Context()); err != nil {
		t.Fatal(err)
	}
	agent := &definition.Agent{Provider: substrate.KindMock, System: "```mock\ntext: yes\nusage: 100 10\n```", Price: &models.Price{InputPrice: money.Dollar, OutputPrice: money.Dollar}}
	sage, err := server.Vacants.Create(t.Context(), vacants.CreateSpec{Name: "sage", Capability: "knows", Agent: agent})
	if err != nil {
		t.Fatal(err)
	}
	api := httptest.NewServer(http.HandlerFunc(p.api))
	t.Cleanup(api.Close)
	p.env = []string{"VACANCY_MOCK=true", "VACANCY_THINK=" + thinkARN, "AWS_ENDPOINT_URL_LAMBDA=" + api.URL}
	p.think = p.run(t, thinker)
	p.message = p.run(t, bootstrap)
	return p, caller.New(t, sage.ID)
}

func (p *parted) run(t *testing.T, built func() (string, error)) *mortal {
	t.Helper()
	program, err := built()
	if err != nil {
		t.Fatal(err)
	}
	m := &mortal{}
	proxy := faultproxy.Start(t, p.Endpoint)
	m.f = lambda.Start(t, program, lambda.Options{Env: append(p.Env(proxy.URL), p.env...), Answering: m.answering})
	if _, err := m.f.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.restart(nil)
	proxy.Watch(m.requested)
	return m
}

// api is Lambda's API, at which message asks think.
func (p *parted) api(w http.ResponseWriter, r *http.Request) {
	event, _ := io.ReadAll(r.Body)
	name, dies := p.message.before(invoke)
	if dies {
		p.message.f.Kill()
		return // the request never arrived
	}
	p.invoked++
	reply, err := p.think.f.Invoke(context.WithoutCancel(r.Context()), event)
	if p.message.after(name) {
		p.message.f.Kill()
	}
	if err != nil {
		w.Header().Set("X-Amz-Function-Error", "Unhandled")
		reply = []byte(`{"errorType":"Runtime.ExitError"}`)
	}
	_, _ = w.Write(reply)
}

// healthy are the steps of both functions in a call that nothing disturbs.
func healthy(t *testing.T) (message, think []string) {
	t.Helper()
	p, c := newParted(t)
	if a := p.send(t, c.Call("hi", time.Now())); a.Status != http.StatusOK {
		t.Fatalf("the call = %v\n%s", a, p.message.f.Log())
	}
	return p.message.restart(nil), p.think.restart(nil)
}

// send sends an envelope to message, which answers.
func (p *parted) send(t *testing.T, e *envelope.Envelope) caller.Answer {
	t.Helper()
	r, err := p.message.f.Post(t.Context(), caller.SendPath, caller.Body(e))
	if err != nil {
		t.Fatal(err)
	}
	a, err := caller.Read(e, r.Status, []byte(r.Body))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// places are where a function with some steps can die.
func places(trace []string) (all []place) {
	for _, name := range trace {
		all = append(all, place{Call: name})
		if changes := []string{"Commit ", "Send ", "Hide ", putBlob, deleteBlob, invoke, write}; slices.ContainsFunc(changes, func(c string) bool { return strings.HasPrefix(name, c) }) {
			all = append(all, place{Call: name, After: true})
		}
	}
	return all
}

// A think that dies anywhere leaves the caller its void, and what was reserved spent.
func TestAThinkThatDiesVoidsTheCall(t *testing.T) {
	_, trace := healthy(t)
	t.Logf("think: %s", strings.Join(trace, ", "))
	if !slices.Contains(trace, "Commit spend") || !slices.Contains(trace, "Commit spend 2") {
		t.Fatalf("think reserves and settles nothing: %v", trace)
	}
	for i, at := range places(trace) {
		if !storetest.InSample(i) {
			continue
		}
		t.Run(at.String(), func(t *testing.T) {
			t.Parallel()
			p, c := newParted(t)
			p.think.restart(&at)
			want, state := http.StatusInternalServerError, call.Unanswered
			if at == (place{write, true}) { // Lambda had the answer
				want, state = http.StatusOK, call.Answered
			}
			e := c.Call("hi", time.Now())
			if a := p.send(t, e); a.Status != want || want != http.StatusOK && a.Code != "substrate_unavailable" {
				t.Errorf("the call = %v, want %d", a, want)
			}
			if a := p.send(t, e); a.State != string(state) {
				t.Errorf("sent again = %v, want it %s", a, state)
			}
			if p.invoked != 1 {
				t.Errorf("think was asked %d times, want once", p.invoked)
			}
			p.verify(t)
		})
	}
}

// A message that dies at any place leaves a certain outcome, and think is asked again
// only for a new call.
func TestAMessageThatDiesWhileThinkingLeavesNoDoubt(t *testing.T) {
	trace, _ := healthy(t)
	t.Logf("message: %s", strings.Join(trace, ", "))
	accepted, decided := slices.Index(trace, "Commit req"), slices.Index(trace, "Commit rsp")
	if accepted < 0 || decided < accepted || !slices.Contains(trace[accepted:decided], invoke) {
		t.Fatalf("message does not ask think between its rows: %v", trace)
	}
	for i, at := range places(trace) {
		if !storetest.InSample(i) {
			continue
		}
		t.Run(at.String(), func(t *testing.T) {
			t.Parallel()
			p, c := newParted(t)
			p.message.restart(&at)
			e := c.Call("hi", time.Now())
			if r, err := p.message.f.Post(t.Context(), caller.SendPath, caller.Body(e)); err == nil && at != (place{write, true}) {
				t.Fatalf("the call = %d %s, want it dead", r.Status, r.Body)
			}
			asked := p.invoked
			p.message = p.run(t, bootstrap)
			n := slices.Index(trace, at.Call)
			switch {
			case n < accepted || n == accepted && !at.After:
				if a := p.send(t, e); a.Status != http.StatusOK {
					t.Errorf("sent again = %v, want it answered now", a)
				}
				asked++
			case n > decided || n == decided && at.After:
				if a := p.send(t, e); a.State != string(call.Answered) {
					t.Errorf("sent again = %v, want the stored reply", a)
				}
			default:
				if a := p.send(t, e); a.State != string(call.Pending) {
					t.Errorf("sent again = %v, want it pending", a)
				}
				p.due(t, caller.Body(e))
				if a := p.send(t, e); a.State != string(call.Unanswered) {
					t.Errorf("sent again when it was due = %v, want it unanswered", a)
				}
			}
			if p.invoked != asked {
				t.Errorf("think was asked %d times, want %d", p.invoked, asked)
			}
			p.verify(t)
		})
	}
}

// due sends a body to an instance of the host whose clock is past the call's due time.
func (p *parted) due(t *testing.T, body []byte) {
	t.Helper()
	server, _, _ := p.aside(t, func() time.Time { return time.Now().Add(past) })
	in := httptest.NewRequest(http.MethodPost, caller.SendPath, strings.NewReader(string(body)))
	in.Header.Set("Content-Type", "application/json")
	serve.Public(server.MessageHandler()).ServeHTTP(httptest.NewRecorder(), in)
}

func (p *parted) verify(t *testing.T) {
	t.Helper()
	(&stage{t: t, ctx: t.Context(), target: p.lambdaTarget}).whole()
	if t.Failed() {
		t.Logf("message:\n%s\nthink:\n%s", p.message.f.Log(), p.think.f.Log())
	}
}
