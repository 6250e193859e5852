package workapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/workapi"
	"github.com/vacancy-host/vacancy/shared/front/workclient"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/substrate/plan"
	"github.com/vacancy-host/vacancy/shared/host/substrate/worker"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/tests/memhost"
)

// workHost has the vacant fox of acme, which costs 2,000 micro-dollars, and a caller with a dollar.
type workHost struct {
	*memhost.Host
	acme, buyer    billing.Account
	key, callerKey string
	fox            vacants.Record
	url            string
	away           atomic.Bool // the host cannot be reached at url
}

func open(t *testing.T, work time.Duration) *workHost {
	h := &workHost{Host: memhost.Open(t)}
	h.Serve()
	h.acme, h.buyer = h.Account("acme", 0), h.Account("buyer", money.Dollar)
	h.key, h.callerKey = h.Key(h.acme, billing.KeyOptions{Scopes: []billing.Scope{billing.ScopeWork}}), h.Key(h.buyer, billing.KeyOptions{})
	h.fox = h.Create(vacants.CreateSpec{Asker: vacants.OperatorAsker(), Name: "fox", Capability: "works elsewhere", Substrate: "worker", Tenant: "acme", CallTimeout: work})
	_, err := h.Vacants.SetPrice(t.Context(), h.fox.ID, price.Price{Flat: 2000})
	h.Must(err)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h.away.Load() {
			panic(http.ErrAbortHandler)
		}
		h.Public.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	t.Cleanup(h.Workers.Drain)
	h.url = s.URL
	return h
}

// call calls fox, and sends the answer.
func (h *workHost) call(key string) <-chan memhost.Answer {
	ended := make(chan memhost.Answer, 1)
	go func() { ended <- h.Do("POST", "/v/fox/text", key, "what is green?") }()
	return ended
}

func (h *workHost) post(key, path, body string) memhost.Answer {
	h.Helper()
	return h.Do("POST", workapi.Path+path, key, body)
}

// lease leases the next turn of fox and returns its path.
func (h *workHost) lease(key string) string {
	h.Helper()
	var turn map[string]any
	await.Until(h, "a turn comes", func() bool {
		a := h.post(key, "/lease", `{"vacant":"fox"}`)
		if a.Status != 200 || a.JSON["vacant_id"] != h.fox.ID.String() {
			h.Fatalf("lease = %d %s", a.Status, a.Body)
		}
		turn, _ = a.JSON["turn"].(map[string]any)
		return turn != nil
	})
	if q := turn["question"].(map[string]any); q["message"] != "what is green?" || q["vacant"] != h.fox.ID.String() || turn["lease_seconds"] != 60.0 {
		h.Errorf("the turn = %v", turn)
	}
	return "/" + turn["lease"].(string)
}

func TestAWorkersAnswerIsChargedOnce(t *testing.T) {
	h := open(t, 0)
	ended := h.call(h.callerKey)
	lease := h.lease(h.key)
	for _, r := range []struct {
		path, body string
		status     int
	}{
		{"/heartbeat", "", 200},
		{"/events", `{"batch":1,"events":[{"type":"started"},{"type":"text","text":"grass"}]}`, 204},
		{"/events", `{"batch":1,"events":[{"type":"started"},{"type":"text","text":"grass"}]}`, 204},
		{"/result", `{"text":" and frogs","usage":{"input_tokens":7,"output_tokens":3}}`, 204},
		{"/result", `{"text":" and frogs","usage":{"input_tokens":7,"output_tokens":3}}`, 204},
		{"/result", `{"text":" and toads"}`, 409},
		{"/events", `{"batch":2,"events":[{"type":"text","text":"late"}]}`, 409},
	} {
		if a := h.post(h.key, lease+r.path, r.body); a.Status != r.status {
			t.Errorf("%s %s = %d %s, want %d", r.path, r.body, a.Status, a.Body, r.status)
		}
	}
	if a := await.Receive(t, "the call ends", ended); a.Status != 200 || a.Body != "grass and frogs" {
		t.Errorf("the answer = %d %q", a.Status, a.Body)
	}
	if got := h.Balance(h.buyer); got != money.Dollar-2000 {
		t.Errorf("the balance is %s", got)
	}
}

func TestACallWithoutAWorkerIsFree(t *testing.T) {
	h := open(t, time.Second)
	a := await.Receive(t, "the call ends", h.call(h.callerKey))
	if a.Status != 500 || !strings.Contains(a.Body, "no worker is connected") {
		t.Errorf("the call = %d %s", a.Status, a.Body)
	}
	if got := h.Balance(h.buyer); got != money.Dollar {
		t.Errorf("the balance is %s", got)
	}
}

func TestAFailedTurnIsFree(t *testing.T) {
	h := open(t, 0)
	ended := h.call(h.callerKey)
	lease := h.lease(h.key)
	if a := h.post(h.key, lease+"/result", `{"error":"the paint is dry","failure":"misconfigured"}`); a.Status != 204 {
		t.Errorf("a failure = %d %s", a.Status, a.Body)
	}
	if a := await.Receive(t, "the call ends", ended); a.Status != 500 || strings.Contains(a.Body, "paint") || !strings.Contains(a.Body, "is misconfigured") {
		t.Errorf("a failed turn: %d %s", a.Status, a.Body)
	}
	if got := h.Balance(h.buyer); got != money.Dollar {
		t.Errorf("the balance is %s", got)
	}
}

func TestWhoMayWork(t *testing.T) {
	h := open(t, 0)
	other := h.Account("other", 0)
	work := func(a billing.Account, test bool) string {
		return h.Key(a, billing.KeyOptions{Scopes: []billing.Scope{billing.ScopeWork}, Test: test})
	}
	second, test, stranger, revoked := work(h.acme, false), work(h.acme, true), work(other, false), work(h.acme, false)
	ended := h.call(h.callerKey)
	h.Create(vacants.CreateSpec{Asker: vacants.OperatorAsker(), Name: "own", Capability: "x", Substrate: "worker"})
	for _, r := range []struct {
		key, path, body string
		status          int
		want            string
	}{
		{"", "/lease", `{}`, 401, "a key of an account is required"},
		{h.callerKey, "/lease", `{}`, 403, "the key lacks the scope work"},
		{stranger, "/lease", `{"vacant":"fox"}`, 404, "other has no vacant"},
		{stranger, "/lease", `{"vacant":"` + h.fox.ID.String() + `"}`, 200, `"turn":null`},
		{stranger, "/lease", `{}`, 200, `"turn":null`},
		{test, "/lease", `{"vacant":"fox"}`, 200, `"turn":null`},
		{h.key, "/lease", `{"vacant":"own"}`, 404, "acme has no vacant"},
		{h.key, "/lease", `{"wait":21}`, 400, "wait: expected 0 to 20 seconds, got 21"},
		{h.key, "/lease", `{"wait":-1}`, 400, "wait: expected 0 to 20 seconds, got -1"},
		{h.key, "/lease", `{"vacants":["fox"]}`, 400, "vacants"},
		{h.key, "/x/heartbeat", ``, 404, "lease: expected a lease that this key holds"},
		{h.key, "/" + strings.Repeat("0", 32) + ".1/result", `{"text":"x"}`, 404, "lease: expected a lease that this key holds"},
		{h.key, "/x/events", `{"batch":1,"events":[]}`, 400, "events: expected 1 to 256 events, got 0"},
	} {
		if a := h.post(r.key, r.path, r.body); a.Status != r.status || !strings.Contains(a.Body, r.want) {
			t.Errorf("%s %s = %d %s, want %d %s", r.path, r.body, a.Status, a.Body, r.status, r.want)
		}
	}
	lease := h.lease(h.key)
	for name, key := range map[string]string{"another key": second, "another tenant": stranger, "a test key": test} {
		for _, r := range []struct{ path, body string }{{"/heartbeat", ""}, {"/events", `{"batch":1,"events":[{"type":"started"}]}`}, {"/result", `{"text":"x"}`}} {
			if a := h.post(key, lease+r.path, r.body); a.Status != 404 {
				t.Errorf("%s of %s = %d %s", r.path, name, a.Status, a.Body)
			}
		}
	}
	h.post(h.key, lease+"/result", `{"text":"mine"}`)
	if a := await.Receive(t, "the call ends", ended); a.Body != "mine" {
		t.Errorf("the answer = %d %s", a.Status, a.Body)
	}
	keys, err := h.Billing.Keys(t.Context(), h.acme.ID)
	h.Must(err)
	for _, k := range keys {
		if strings.HasPrefix(revoked, k.Prefix) {
			_, err := h.Billing.RevokeKey(t.Context(), nil, h.acme.ID, k.ID)
			h.Must(err)
		}
	}
	if a := h.post(revoked, "/lease", `{}`); a.Status != 401 {
		t.Errorf("a revoked key = %d %s", a.Status, a.Body)
	}
}

// A worker that is silent for a minute after it has started loses the turn, and the caller gets the money back.
func TestALeaseThatIsLostBySilenceIsRefunded(t *testing.T) {
	h := open(t, 0)
	ended := h.call(h.callerKey)
	lease := h.lease(h.key)
	if a := h.post(h.key, lease+"/events", `{"batch":1,"events":[{"type":"text","text":"half of "}]}`); a.Status != 204 {
		t.Fatalf("events = %d %s", a.Status, a.Body)
	}
	if got := h.Balance(h.buyer); got != money.Dollar-2000 {
		t.Errorf("during the turn the balance is %s", got)
	}
	time.Sleep(700 * time.Millisecond) // the call has read that
	h.Clock.Advance(worker.LeaseDuration)
	if a := await.Receive(t, "the call ends", ended); a.Status != 500 || !strings.Contains(a.Body, "its agent is not available") {
		t.Errorf("the call = %d %s", a.Status, a.Body)
	}
	if got := h.Balance(h.buyer); got != money.Dollar {
		t.Errorf("the balance is %s", got)
	}
	if a := h.post(h.key, lease+"/result", `{"text":"it"}`); a.Status != 409 {
		t.Errorf("the late result = %d %s", a.Status, a.Body)
	}
}

// The turns of closed children, which a composite asks, are for the workers of the parent's tenant.
func TestTurnsOfClosedChildrenGoToTheWorkersOfTheirParent(t *testing.T) {
	h := open(t, 0)
	other := h.Key(h.Account("other", 0), billing.KeyOptions{Scopes: []billing.Scope{billing.ScopeWork}})
	firm := h.Create(vacants.CreateSpec{Asker: vacants.OperatorAsker(), Name: "firm", Capability: "delegates", Substrate: "echo", Tenant: "acme"})
	own, _, err := h.Vacants.Spawn(t.Context(), vacants.SpawnSpec{Asker: vacants.OperatorAsker(), Parent: firm.ID, Path: "D2", Name: "own", Substrate: "worker"})
	h.Must(err)
	for name, tt := range map[string]struct {
		tenant string
		status int
		answer string
	}{"own": {"acme", 200, "dug"}, "alien": {"other", 500, "is misconfigured"}} {
		child := own.ID
		if name != "own" {
			alien, _, err := h.Vacants.Spawn(t.Context(), vacants.SpawnSpec{Asker: vacants.OperatorAsker(), Parent: firm.ID, Path: "D2", Name: name, Substrate: "worker", Tenant: tt.tenant})
			h.Must(err)
			child = alien.ID
		}
		p, err := plan.Parse([]byte(`{"version":1,"aggregate":{"how":"first"},"delegate":[{"child":"` + name + `"}]}`))
		h.Must(err)
		_, _, err = h.Vacants.SetPlan(t.Context(), vacants.OperatorAsker(), firm.ID, p)
		h.Must(err)
		h.Clock.Advance(2 * time.Second) // records are cached for a second
		ended := make(chan memhost.Answer, 1)
		go func() { ended <- h.Do("POST", "/v/firm/text", h.callerKey, "dig") }()
		if name == "own" {
			await.Until(t, "the turn comes", func() bool {
				if a := h.post(other, "/lease", `{}`); a.JSON["turn"] != nil {
					t.Errorf("another tenant leases %s", a.Body)
				}
				turn, _ := h.post(h.key, "/lease", `{}`).JSON["turn"].(map[string]any)
				if turn == nil {
					return false
				}
				if turn["vacant_id"] != child.String() {
					t.Errorf("the turn is %v", turn)
				}
				h.post(h.key, "/"+turn["lease"].(string)+"/result", `{"text":"dug"}`)
				return true
			})
		}
		if a := await.Receive(t, "the call ends", ended); a.Status != tt.status || !strings.Contains(a.Body, tt.answer) {
			t.Errorf("%s: the answer = %d %s, want %d %s", name, a.Status, a.Body, tt.status, tt.answer)
		}
		for _, key := range []string{h.key, other} {
			if a := h.post(key, "/lease", `{}`); a.JSON["turn"] != nil {
				t.Errorf("%s: afterwards a worker leases %s", name, a.Body)
			}
		}
	}
}

// A test key's call is a test turn.
func TestATestTurnGoesToATestKey(t *testing.T) {
	h := open(t, 0)
	scopes := []billing.Scope{billing.ScopeCall, billing.ScopeWork}
	test := h.Key(h.acme, billing.KeyOptions{Scopes: scopes, Test: true})
	ended := h.call(test)
	time.Sleep(100 * time.Millisecond)
	if a := h.post(h.key, "/lease", `{}`); a.JSON["turn"] != nil {
		t.Errorf("a live key leases %s", a.Body)
	}
	h.post(test, h.lease(test)+"/result", `{"text":"a trial"}`)
	if a := await.Receive(t, "the call ends", ended); a.Body != "a trial" {
		t.Errorf("the answer = %d %s", a.Status, a.Body)
	}
}

func (h *workHost) worker(handle workclient.Handler) *workclient.Worker {
	c := admin.Client{HTTP: &http.Client{}, URL: h.url, Key: h.key}
	return &workclient.Worker{Client: c, Vacant: "fox", MaxTurns: 2, Handle: handle}
}

// run runs a worker until the test ends.
func (h *workHost) run(w *workclient.Worker) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	stop = sync.OnceValue(func() error { cancel(); return <-ended })
	h.Cleanup(func() { _ = stop() })
	return stop
}

func TestTheClientDoesTurns(t *testing.T) {
	h := open(t, 0)
	var mu sync.Mutex
	var seen []string
	w := h.worker(func(_ context.Context, turn *workclient.Turn, emit func(workclient.Event)) (workclient.Answer, error) {
		var q struct{ Message string }
		h.Must(json.Unmarshal(turn.Question, &q))
		for _, word := range strings.SplitAfter(q.Message, " ") {
			emit(workclient.Event{Type: worker.TypeText, Text: word})
		}
		emit(workclient.Event{Type: worker.TypeThought, Text: "hm"})
		return workclient.Answer{Text: " grass!"}, nil
	})
	w.Observe = func(s workclient.Status) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, fmt.Sprintf("%v %d %v", s.Connected, s.Running, s.Ended))
	}
	stop := h.run(w)
	for range 3 {
		if a := await.Receive(t, "the call ends", h.call(h.callerKey)); a.Body != "what is green? grass!" {
			t.Errorf("the answer = %d %s", a.Status, a.Body)
		}
		await.Until(t, "the turn ends", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return slices.Contains(seen, "true 0 true")
		})
	}
	h.Workers.Drain() // as a host that closes
	await.Until(t, "the worker notices that", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(seen) > 0 && strings.HasPrefix(seen[len(seen)-1], "false 0")
	})
	if err := stop(); err != nil {
		t.Errorf("Run() = %v", err)
	}
	if !strings.Contains(strings.Join(seen, ","), "true 1 false,true 0 true") {
		t.Errorf("the status was %q", seen)
	}
}

func TestATurnOutlastsAHostThatIsAway(t *testing.T) {
	h := open(t, 0)
	h.run(h.worker(func(_ context.Context, _ *workclient.Turn, emit func(workclient.Event)) (workclient.Answer, error) {
		for i := range 10 {
			h.away.Store(i >= 2 && i < 8)
			emit(workclient.Event{Type: worker.TypeText, Text: fmt.Sprint(i)})
			time.Sleep(200 * time.Millisecond)
		}
		h.away.Store(true)
		time.AfterFunc(time.Second, func() { h.away.Store(false) })
		return workclient.Answer{Text: "."}, nil
	}))
	for range 2 { // the second shows that the worker is connected again
		if a := await.Receive(t, "the call ends", h.call(h.callerKey)); a.Status != 200 || a.Body != "0123456789." {
			t.Errorf("the answer = %d %s", a.Status, a.Body)
		}
	}
}

func TestAHandlersEndIsTheEndOfTheCall(t *testing.T) {
	for name, tt := range map[string]struct {
		handle workclient.Handler
		status int
		want   string
	}{
		"an error": {func(context.Context, *workclient.Turn, func(workclient.Event)) (workclient.Answer, error) {
			return workclient.Answer{}, problem.New(problem.SubstrateRefused, "no")
		}, 500, "its agent refused the request"},
		"a panic": {func(context.Context, *workclient.Turn, func(workclient.Event)) (workclient.Answer, error) {
			panic("ouch")
		}, 500, "its agent is not available"},
		"a flood": {func(_ context.Context, _ *workclient.Turn, emit func(workclient.Event)) (workclient.Answer, error) {
			for range 100 {
				emit(workclient.Event{Type: worker.TypeText, Text: strings.Repeat("x", 64<<10)})
			}
			return workclient.Answer{}, nil
		}, 500, "its agent returned an answer that is too large"},
		"nothing": {func(context.Context, *workclient.Turn, func(workclient.Event)) (workclient.Answer, error) {
			return workclient.Answer{}, nil
		}, 500, "its agent is not available"},
		"a question": {func(context.Context, *workclient.Turn, func(workclient.Event)) (workclient.Answer, error) {
			return workclient.Answer{Text: "why?", State: worker.StateInputRequired}, nil
		}, 200, "why?"},
	} {
		t.Run(name, func(t *testing.T) {
			h := open(t, 0)
			h.run(h.worker(tt.handle))
			a := await.Receive(t, "the call ends", h.call(h.callerKey))
			if a.Status != tt.status || !strings.Contains(a.Body, tt.want) {
				t.Errorf("the answer = %d %.200s, want %d %s", a.Status, a.Body, tt.status, tt.want)
			}
			if want := money.Dollar - map[bool]money.Amount{true: 2000}[tt.status == 200]; h.Balance(h.buyer) != want {
				t.Errorf("the balance is %s, want %s", h.Balance(h.buyer), want)
			}
		})
	}
}

func TestAStoppedWorkerVoidsItsTurnsAtOnce(t *testing.T) {
	h := open(t, 0)
	began := make(chan bool, 1)
	stop := h.run(h.worker(func(ctx context.Context, _ *workclient.Turn, _ func(workclient.Event)) (workclient.Answer, error) {
		began <- true
		<-ctx.Done()
		return workclient.Answer{}, context.Cause(ctx)
	}))
	ended := h.call(h.callerKey)
	await.Receive(t, "the turn begins", began)
	h.Must(stop())
	if a := await.Receive(t, "the call ends", ended); a.Status != 500 || !strings.Contains(a.Body, "its agent is not available") {
		t.Errorf("the answer = %d %s", a.Status, a.Body)
	}
	if got := h.Balance(h.buyer); got != money.Dollar {
		t.Errorf("the balance is %s", got)
	}
}

func TestAWorkerEndsIfItsKeyMayNotWork(t *testing.T) {
	h := open(t, 0)
	h.key = h.callerKey
	if err := h.worker(nil).Run(t.Context()); !problem.Is(err, problem.ScopeRequired) {
		t.Errorf("Run() = %v, want that the scope is missing", err)
	}
}

// A key that is revoked, or whose account is suspended, loses its lease like a silent worker.
func TestAKeyThatMayNotWorkLosesItsLease(t *testing.T) {
	for name, end := range map[string]func(h *workHost, id string) error{
		"revoked": func(h *workHost, id string) error {
			_, err := h.Billing.RevokeKey(h.Context(), nil, h.acme.ID, id)
			return err
		},
		"suspended": func(h *workHost, _ string) error {
			_, err := h.Billing.SetSuspended(h.Context(), h.acme.ID, true, "")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := open(t, 0)
			keys, err := h.Billing.Keys(t.Context(), h.acme.ID)
			h.Must(err)
			ended := h.call(h.callerKey)
			lease := h.lease(h.key)
			if a := h.post(h.key, lease+"/events", `{"batch":1,"events":[{"type":"started"}]}`); a.Status != 204 {
				t.Fatalf("events = %d %s", a.Status, a.Body)
			}
			time.Sleep(700 * time.Millisecond) // the call has read that
			h.Must(end(h, keys[0].ID))
			h.Clock.Advance(15 * time.Second) // keys are cached for some seconds
			for path, body := range map[string]string{
				"/lease": "{}", lease + "/heartbeat": "", lease + "/events": `{"batch":2,"events":[{"type":"started"}]}`, lease + "/result": `{"text":"late"}`,
			} {
				if a := h.post(h.key, path, body); a.Status != 401 && a.Status != 403 {
					t.Errorf("%s = %d %s", path, a.Status, a.Body)
				}
			}
			h.Clock.Advance(worker.LeaseDuration)
			if a := await.Receive(t, "the call ends", ended); a.Status != 500 || !strings.Contains(a.Body, "its agent is not available") {
				t.Errorf("the call = %d %s", a.Status, a.Body)
			}
			if got := h.Balance(h.buyer); got != money.Dollar {
				t.Errorf("the balance is %s", got)
			}
		})
	}
}
