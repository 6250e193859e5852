//go:build unix

package kills

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/call/calltest"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/tests/awshost"
	"github.com/vacancy-host/vacancy/tests/faultproxy"
	"github.com/vacancy-host/vacancy/tests/lambda"
)

// bootstrap is functions/message, built once.
var bootstrap = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp(scratch, "")
	if err != nil {
		return "", err
	}
	return lambda.Build(dir, "github.com/vacancy-host/vacancy/functions/message")
})

// lambdaTarget is tables on DynamoDB Local. Its functions use the machine's
// clock.
type lambdaTarget struct {
	*awshost.Host
	vacants map[string]identity.ID
}

func newLambdaTarget(t *testing.T) *lambdaTarget {
	t.Helper()
	h := &lambdaTarget{Host: awshost.New(t), vacants: map[string]identity.ID{}}
	server := h.Open(t, h.Store(h.Endpoint), time.Now, nil)
	for name, substrate := range map[string]string{"echo": "echo", "failing": unreachable} {
		r, err := server.Vacants.Create(t.Context(), vacants.CreateSpec{Name: name, Capability: name, Substrate: substrate})
		if err != nil {
			t.Fatal(err)
		}
		h.vacants[name] = r.ID
	}
	return h
}

func (h *lambdaTarget) now() time.Time { return time.Now() }

func (h *lambdaTarget) vacant(_ *testing.T, name string) identity.ID { return h.vacants[name] }

func (h *lambdaTarget) aside(t *testing.T, now func() time.Time) (*serve.Server, *calltest.Script, func()) {
	t.Helper()
	script := calltest.NewScript(h.Store(h.Endpoint))
	return h.Open(t, script, now, nil), script, func() {}
}

// function is a running functions/message with a proxy before its tables.
type function struct {
	steps
	t      *testing.T
	target *lambdaTarget
	f      *lambda.Function
	hit    sync.Map // requests under way: their body, and their name and number
}

// start runs a function. Its reads to warm connections change nothing, so there
// is no place to die before its first invocation.
func (h *lambdaTarget) start(t *testing.T, kill *place) process {
	t.Helper()
	program, err := bootstrap()
	if err != nil {
		t.Fatal(err)
	}
	p := &function{t: t, target: h}
	p.restart(kill)
	proxy := faultproxy.Start(t, h.Endpoint)
	p.f = lambda.Start(t, program, lambda.Options{Env: h.Env(proxy.URL), Answering: p.answering})
	if _, err := p.f.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	proxy.Watch(p.requested)
	return p
}

// requested is a request to DynamoDB, and its answer.
func (p *function) requested(operation string, body []byte, carriedOut bool) bool {
	var dies bool
	if carriedOut {
		name, _ := p.hit.Load(string(body))
		dies = p.after(name.(string))
	} else {
		name, now := p.before(callOf(operation, body))
		p.hit.Store(string(body), name)
		dies = now
	}
	if dies {
		p.f.Kill()
	}
	return !dies
}

func (p *function) answering(f *lambda.Function, read bool) {
	var dies bool
	if read {
		dies = p.after(write)
	} else {
		_, dies = p.before(write)
	}
	if dies {
		f.Kill()
	}
}

func (p *function) arm(kill *place) []string { return p.restart(kill) }

func (p *function) stop() { p.f.Kill() }

func (p *function) do(r request) (response, error) {
	got, err := p.f.Post(p.t.Context(), r.path, r.body)
	if err != nil && !errors.Is(err, lambda.ErrDied) {
		err = fmt.Errorf("%w\n%s", err, p.f.Log())
	}
	return response{got.Status, []byte(got.Body)}, err
}

// later is another instance of the host with a clock ahead: the built binary's
// clock cannot be moved.
func (p *function) later(d time.Duration) func(request) (response, error) {
	server, _, _ := p.target.aside(p.t, func() time.Time { return time.Now().Add(d) })
	handler := serve.Public(server.MessageHandler())
	return func(r request) (response, error) {
		in := httptest.NewRequest("POST", r.path, strings.NewReader(string(r.body)))
		in.Header.Set("Content-Type", "application/json")
		out := httptest.NewRecorder()
		handler.ServeHTTP(out, in)
		return response{out.Code, out.Body.Bytes()}, nil
	}
}

func (p *function) killed() error {
	select {
	case <-p.f.Died():
		return nil
	case <-time.After(await.Limit):
		return fmt.Errorf("the function lives %v after its place to die: it never came there", await.Limit)
	}
}
