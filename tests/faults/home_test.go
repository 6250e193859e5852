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
	"github.com/vacancy-host/vacancy/tests/awshome"
	"github.com/vacancy-host/vacancy/tests/caller"
)

// home is a host with one vacant, which counts what it is asked.
type home struct {
	*awshome.Home
	t      *testing.T
	vacant identity.ID
	caller *caller.Caller

	mu    sync.Mutex
	asked map[string]int // by text
}

func newHome(t *testing.T) *home {
	t.Helper()
	h := &home{Home: awshome.New(t), t: t, asked: map[string]int{}}
	house := h.Open(t, h.Store(h.Endpoint), time.Now, h.kinds())
	r, err := house.Vacants.Create(t.Context(), vacants.Spec{Name: "counting", Capability: "counts", Substrate: "counting"})
	if err != nil {
		t.Fatal(err)
	}
	h.vacant, h.caller = r.ID, caller.New(t, r.ID)
	return h
}

// kinds are the substrates of the home: one that answers as the echo does, and
// counts.
func (h *home) kinds() substrate.Kinds {
	return substrate.Kinds{"counting": func(string) (substrate.Substrate, error) { return h, nil }}
}

// Answer is the substrate's.
func (h *home) Answer(_ context.Context, q substrate.Question) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked[q.Text]++
	return "echo from " + q.Vacant.Short() + ": " + q.Text, nil
}

func (h *home) ran(text string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.asked[text]
}

// door is the public door of a host of its own over a store.
func (h *home) door(s store.Store, now func() time.Time) http.Handler {
	h.t.Helper()
	return serve.Public(h.Open(h.t, s, now, h.kinds()).Message)
}

// post gives a door an envelope and reads what it says.
func (h *home) post(door http.Handler, path string, e *envelope.Envelope) caller.Answer {
	h.t.Helper()
	in := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(caller.Body(e))).WithContext(h.t.Context())
	in.Header.Set("Content-Type", "application/json")
	out := httptest.NewRecorder()
	door.ServeHTTP(out, in)
	a, err := caller.Read(e, out.Code, out.Body.Bytes())
	if err != nil {
		h.t.Fatal(err)
	}
	return a
}

// answered has a call answered by a host without faults.
func (h *home) answered(text string) {
	h.t.Helper()
	e := h.caller.Call(text, time.Now())
	if a := h.post(h.door(h.Store(h.Endpoint), time.Now), caller.SendPath, e); a.Status != 200 {
		h.t.Fatalf("%q: %v, want 200", text, a)
	}
	h.caller.Accepted(e)
}

// sound wants the rows of the pair to obey their rules.
func (h *home) sound() {
	h.t.Helper()
	s := h.Store(h.Endpoint)
	pair := call.Pair{Caller: h.caller.Key.ID(), Vacant: h.vacant}
	for _, err := range calltest.CheckStreams(h.t.Context(), s, pair, h.Open(h.t, s, time.Now, h.kinds()).Texts) {
		h.t.Error(err)
	}
}
