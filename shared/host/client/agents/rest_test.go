package agents

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/a2a/a2awire"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// An agent is called by HTTP+JSON only if this client may use no address for JSON-RPC.
func TestWhichAgentsAreCalledByREST(t *testing.T) {
	at := func(url, binding, version string) Interface { return Interface{url, binding, version} }
	for name, tt := range map[string]struct {
		interfaces []Interface
		rest       bool
		err        error
	}{
		"both, REST first":           {[]Interface{at("https://x.example/r", "HTTP+JSON", "1.0"), at("https://x.example/j", "JSONRPC", "1.0")}, false, nil},
		"REST alone":                 {[]Interface{at("https://x.example/r", "HTTP+JSON", "1.0")}, true, nil},
		"REST in lower case":         {[]Interface{at("https://x.example/r", "http+json", "1.1")}, true, nil},
		"REST and JSON-RPC of 2.0":   {[]Interface{at("https://x.example/j", "JSONRPC", "2.0"), at("https://x.example/r", "HTTP+JSON", "1.0")}, true, nil},
		"REST of 0.3":                {[]Interface{at("https://x.example/r", "HTTP+JSON", "0.3")}, false, ErrNoJSONRPCInterface},
		"REST of an unknown version": {[]Interface{at("https://x.example/r", "HTTP+JSON", "")}, false, ErrNoJSONRPCInterface},
		"REST at another host":       {[]Interface{at("https://y.example/r", "HTTP+JSON", "1.0")}, false, ErrNoJSONRPCInterface},
		"REST in clear":              {[]Interface{at("http://x.example/r", "HTTP+JSON", "1.0")}, false, ErrNoJSONRPCInterface},
	} {
		a, err := NewAgent(nil, &Card{Interfaces: tt.interfaces, url: "https://x.example/card"})
		if !errors.Is(err, tt.err) || err == nil && a.isREST != tt.rest {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
	}
}

// An id from another party remains one segment of the path, whatever it contains.
func TestRequestsByREST(t *testing.T) {
	a := &Agent{url: "https://x.example/a/?k=v", isREST: true}
	for want, params := range map[string]struct {
		op     a2awire.Operation
		params []byte
	}{
		"POST https://x.example/a/message:send?k=v":                                        {a2awire.Send, []byte(`{"message":{}}`)},
		"GET https://x.example/a/tasks/t%2F..%3Fx=%7Btask%7D?historyLength=3&k=v":          {a2awire.GetTask, []byte(`{"id":"t/..?x={task}","historyLength":3}`)},
		"GET https://x.example/a/tasks?contextId=a+b&includeArtifacts=true&k=v&pageSize=2": {a2awire.ListTasks, []byte(`{"contextId":"a b","pageSize":2,"includeArtifacts":true}`)},
		"POST https://x.example/a/tasks/t:cancel?k=v":                                      {a2awire.CancelTask, []byte(`{"id":"t"}`)},
		"DELETE https://x.example/a/tasks/%7Bid%7D/pushNotificationConfigs/c%23?k=v":       {a2awire.DeletePushConfig, a2awire.EncodePushParams(a2awire.V1, "{id}", "c#")},
		"POST https://x.example/a/tasks/t/pushNotificationConfigs?k=v":                     {a2awire.CreatePushConfig, a2awire.EncodePushConfig(a2awire.V1, "t", &task.PushConfig{URL: "https://a.example"})},
		"GET https://x.example/a/extendedAgentCard?k=v":                                    {a2awire.ExtendedCard, []byte(`{}`)},
	} {
		r, _, err := a.newRequest(t.Context(), params.op, params.params)
		if got := r.Method + " " + r.URL; err != nil || got != want || (r.Method == http.MethodPost) != (len(r.Body) > 0) || r.Header.Get("A2A-Version") != "1.0" {
			t.Errorf("%s %v %s, %v, want %s", got, r.Header, r.Body, err, want)
		}
	}
}

// Every HTTP response of an agent becomes a result or an error with a kind.
func TestRepliesByREST(t *testing.T) {
	for name, tt := range map[string]struct {
		status int
		body   string
		kind   problem.Kind
		says   string
	}{
		"no such task": {404, `{"error":{"code":404,"message":"task not found: x","details":[{"reason":"TASK_NOT_FOUND"}]}}`, problem.NotFound, "task not found: x"},
		"no such path": {404, `<html>nothing</html>`, problem.Forbidden, "the agent answers 404"},
		"a fault":      {500, `{"error":{"code":500,"message":"oops","details":[{"reason":"INTERNAL_ERROR"}]}}`, problem.BehaviourFailed, "oops"},
		"no task":      {200, `{"tasks":5}`, problem.Untrusted, "the agent's answer is invalid"},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(tt.status)
			_, _ = w.Write([]byte(tt.body))
		}))
		a := &Agent{url: s.URL, isREST: true, http: dispatch.NewHTTP(dispatch.HTTPOptions{})}
		_, err := a.GetTask(t.Context(), "x")
		streamed := a.Subscribe(t.Context(), "x", func(a2awire.Answer) bool { return true })
		for how, err := range map[string]error{"Get": err, "Subscribe": streamed} {
			if !problem.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%s, %s: %v, want %s %q", name, how, err, tt.kind, tt.says)
			}
		}
		s.Close()
	}
}

// The lifetime of a peer's card is determined by the peer, or by its server if the peer does not
// specify one.
func TestThePeerDecidesForHowLongItsCardIsFresh(t *testing.T) {
	var asked atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Header().Set("Cache-Control", "no-store")
		_, _ = w.Write([]byte(`{"name":"a","version":"1","url":"http://127.0.0.1/"}`))
	}))
	t.Cleanup(s.Close)
	peers, err := NewPeers(Peer{URL: s.URL + "/a", Trust: 1, CardFreshSeconds: 90}, Peer{URL: s.URL + "/b", Trust: 1})
	must(t, err)
	now := time.Now()
	c := &Cache{HTTP: dispatch.NewHTTP(dispatch.HTTPOptions{}), Dir: filepath.Join(t.TempDir(), "cards"), Now: func() time.Time { return now }, Lifetime: peers.CardLifetime}
	fetch := func(path string) int32 {
		t.Helper()
		if _, err := FetchCard(t.Context(), c, s.URL+path); err != nil {
			t.Fatal(err)
		}
		return asked.Load()
	}
	fetch("/a/")
	if now = now.Add(89 * time.Second); fetch("/a") != 1 {
		t.Error("a card was fetched again within its lifetime")
	}
	if now = now.Add(time.Second); fetch("/a") != 2 {
		t.Error("a card was not fetched again after its lifetime")
	}
	fetch("/b")
	if fetch("/b") != 4 {
		t.Error("the card of a peer without a lifetime was kept, although its server forbids it")
	}
	for _, seconds := range []int{-1, 86401} {
		if err := peers.Add(Peer{URL: s.URL, Trust: 1, CardFreshSeconds: seconds}); err == nil || !strings.Contains(err.Error(), "card_seconds: expected 0 to 86400") {
			t.Errorf("a lifetime of %d seconds: %v", seconds, err)
		}
	}
}
