package faults

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/call/calltest"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/tests/awshost"
	"github.com/vacancy-host/vacancy/tests/caller"
)

// fixture is a host with one vacant, which counts its questions.
type fixture struct {
	*awshost.Host
	t      *testing.T
	vacant identity.ID
	caller *caller.Caller

	mu    sync.Mutex
	asked map[string]int // by text
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	h := &fixture{Host: awshost.New(t), t: t, asked: map[string]int{}}
	server := h.Open(t, h.Store(h.Endpoint), time.Now, h.kinds())
	r, err := server.Vacants.Create(t.Context(), vacants.CreateSpec{Name: "counting", Capability: "counts", Substrate: "counting"})
	if err != nil {
		t.Fatal(err)
	}
	h.vacant, h.caller = r.ID, caller.New(t, r.ID)
	return h
}

// kinds are the host's substrates: one that echoes, and counts.
func (h *fixture) kinds() substrate.Kinds {
	return substrate.Kinds{"counting": func(string) (substrate.Substrate, error) { return substrate.Func(h.answer), nil }}
}

// answer is the substrate's.
func (h *fixture) answer(_ context.Context, q substrate.Request) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked[q.Text()]++
	return "echo from " + q.Vacant.Short() + ": " + q.Text(), nil
}

func (h *fixture) ran(text string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.asked[text]
}

// handler is the public handler of another host over a store.
func (h *fixture) handler(s store.Store, now func() time.Time) http.Handler {
	h.t.Helper()
	return serve.Public(h.Open(h.t, s, now, h.kinds()).MessageHandler())
}

// post gives a handler an envelope and returns its answer.
func (h *fixture) post(handler http.Handler, path string, e *envelope.Envelope) caller.Answer {
	h.t.Helper()
	in := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(caller.Body(e))).WithContext(h.t.Context())
	in.Header.Set("Content-Type", "application/json")
	out := httptest.NewRecorder()
	handler.ServeHTTP(out, in)
	a, err := caller.Read(e, out.Code, out.Body.Bytes())
	if err != nil {
		h.t.Fatal(err)
	}
	return a
}

// answered has a call answered by a host without faults.
func (h *fixture) answered(text string) {
	h.t.Helper()
	e := h.caller.Call(text, time.Now())
	if a := h.post(h.handler(h.Store(h.Endpoint), time.Now), caller.SendPath, e); a.Status != 200 {
		h.t.Fatalf("%q: %v, want 200", text, a)
	}
	h.caller.Accepted(e)
}

// sound requires the rows of the pair to obey their rules.
func (h *fixture) sound() {
	h.t.Helper()
	s := h.Store(h.Endpoint)
	pair := call.Pair{Caller: h.caller.Key.ID(), Vacant: h.vacant}
	for _, err := range calltest.CheckStreams(h.t.Context(), s, pair, h.Open(h.t, s, time.Now, h.kinds()).Texts) {
		h.t.Error(err)
	}
}
