package a2a_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
)

// until makes agents that answer once release is closed. inside counts their turns.
func until(release <-chan struct{}, inside *atomic.Int32) func(string) (substrate.Substrate, error) {
	return func(string) (substrate.Substrate, error) {
		return substrate.Func(func(ctx context.Context, _ substrate.Request) (string, error) {
			inside.Add(1)
			select {
			case <-release:
			case <-ctx.Done():
			}
			return "done", nil
		}), nil
	}
}

// One sender holds 16 streams and one vacant 64, whoever asks; others are served beside, and
// a stream that ends makes room.
func TestStreamsAreSharedOut(t *testing.T) {
	release := make(chan struct{})
	w := openWorld(t, true, func(c *serve.Config) {
		c.Substrates["slow"] = until(release, new(atomic.Int32))
	}).runs()
	w.create("slow", "slow:a")
	w.create("other", "slow:b")
	inner := w.http.Config.Handler
	w.serveAs(func(s *http.Server) {
		s.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			r.RemoteAddr = r.Header.Get("Test-Address") + ":1"
			inner.ServeHTTP(rw, r)
		})
	})
	var open []*http.Response
	// stream begins a stream, which is held once its first event is there.
	stream := func(vacant string, address int) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), "POST", w.http.URL+"/v/"+vacant+"/message:stream", strings.NewReader(message("hi", "")))
		must(t, err)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Test-Address", fmt.Sprintf("10.0.0.%d", address))
		resp, err := http.DefaultClient.Do(r)
		must(t, err)
		if resp.StatusCode == http.StatusOK {
			_, err := bufio.NewReaderSize(resp.Body, 16).ReadByte()
			must(t, err)
			open = append(open, resp)
		}
		return resp
	}
	refused := func(what string, resp *http.Response, because string) {
		t.Helper()
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" || !strings.Contains(string(body), because) {
			t.Errorf("%s = %d, Retry-After %q, %s", what, resp.StatusCode, resp.Header.Get("Retry-After"), body)
		}
	}
	for address := range 4 {
		for n := range 16 {
			if resp := stream("slow", address); resp.StatusCode != http.StatusOK {
				t.Fatalf("stream %d of address %d = %d", n, address, resp.StatusCode)
			}
		}
		refused("the 17th stream of an address", stream("slow", address), "you have 16 streams open")
		refused("its stream of another vacant", stream("other", address), "you have 16 streams open")
	}
	refused("the 65th stream of a vacant", stream("slow", 9), "the agent has 64 streams open")
	if resp := stream("other", 9); resp.StatusCode != http.StatusOK {
		t.Errorf("a stream of another vacant = %d", resp.StatusCode)
	}
	close(release)
	for _, resp := range open {
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Error(err)
		}
		resp.Body.Close()
	}
	if resp := stream("slow", 1); resp.StatusCode != http.StatusOK {
		t.Errorf("a stream after the others ended = %d", resp.StatusCode)
	} else {
		resp.Body.Close()
	}
}

// 24 completions at once of one sender are all answered, though 16 may wait for a slow vacant.
func TestCompletionsWaitInLine(t *testing.T) {
	release := make(chan struct{})
	var inside atomic.Int32
	w := openWorld(t, true, func(c *serve.Config) { c.Substrates["slow"] = until(release, &inside) }).runs()
	_, err := w.server.Vacants.Create(t.Context(), vacants.CreateSpec{Name: "slow", Capability: "Thinks", Substrate: "slow:a", CallTimeout: call.MaxCallTimeout})
	must(t, err)
	codes := make(chan int, 24)
	for i := range cap(codes) {
		go func() {
			codes <- w.do("POST", "/v/slow"+completions, fmt.Sprintf(`{"messages":[{"role":"user","content":"%d"}]}`, i)).status
		}()
	}
	await.Until(t, "as many as may run are asked", func() bool { return inside.Load() == 16 })
	close(release)
	for range cap(codes) {
		if code := await.Receive(t, "a completion is answered", codes); code != http.StatusOK {
			t.Errorf("a completion is answered with %d", code)
		}
	}
}

// On a host whose callers are all on its machine, the turns of one address have a quarter of the
// host's, so that another address waits for none of them, however many vacants they are of.
func TestTurnsOfAnAddressAreShared(t *testing.T) {
	release := make(chan struct{})
	var inside atomic.Int32
	w := openWorld(t, true, func(c *serve.Config) {
		c.Substrates["slow"] = until(release, &inside)
	}).runs()
	begin := func(from, vacant string) (id string) {
		q := httptest.NewRequest(http.MethodPost, "/v/"+vacant+"/message:send", strings.NewReader(strings.TrimSuffix(message("hi", ""), "}")+`,"configuration":{"returnImmediately":true}}`))
		q.Header.Set("Content-Type", "application/json")
		q.RemoteAddr = from
		out := httptest.NewRecorder()
		w.http.Config.Handler.ServeHTTP(out, q)
		return at(t, out.Body.String(), "task", "id")
	}
	state := func(vacant, id string) string {
		return at(t, w.do("GET", "/v/"+vacant+"/tasks/"+id, "").body, "status", "state")
	}
	last, name := "", ""
	for i := range 5 {
		name = fmt.Sprintf("slow-%d", i)
		w.create(name, "slow:"+name)
		for range 10 {
			last = begin("192.0.2.1:1000", name)
		}
	}
	await.Until(t, "the address has its share", func() bool { return inside.Load() == 16 })
	id := begin("192.0.2.2:1000", "echo")
	await.Until(t, "a turn of another address ends", func() bool { return state("echo", id) == "TASK_STATE_COMPLETED" })
	if n := inside.Load(); n != 16 {
		t.Errorf("%d turns of one address ran at once, want 16", n)
	}
	close(release)
	await.Until(t, "the last turn ends", func() bool { return state(name, last) == "TASK_STATE_COMPLETED" })
}

// unread is the answer to a client that reads nothing until it is released.
type unread struct {
	*httptest.ResponseRecorder
	began   chan<- bool
	release <-chan struct{}
}

func (u unread) Write(b []byte) (int, error) {
	u.began <- true
	<-u.release
	return u.ResponseRecorder.Write(b)
}

// A sender that reads its lists slowly has four of them, and keeps nobody else from theirs.
func TestListsAreSharedOut(t *testing.T) {
	w := newWorld(t)
	release, began := make(chan struct{}), make(chan bool)
	var slow sync.WaitGroup
	list := func(from string) *http.Request {
		q := httptest.NewRequest(http.MethodGet, "/v/echo/tasks", nil)
		q.RemoteAddr = from
		return q
	}
	for range 4 {
		slow.Go(func() {
			out := unread{httptest.NewRecorder(), began, release}
			if w.http.Config.Handler.ServeHTTP(out, list("192.0.2.1:1")); out.Code != http.StatusOK {
				t.Errorf("a slow list is %d %s", out.Code, out.Body)
			}
		})
		await.Receive(t, "the list begins", began)
	}
	for from, want := range map[string]int{"192.0.2.1:2": http.StatusTooManyRequests, "192.0.2.2:1": http.StatusOK} {
		out := httptest.NewRecorder()
		w.http.Config.Handler.ServeHTTP(out, list(from))
		if out.Code != want || want == http.StatusTooManyRequests && !strings.Contains(out.Body.String(), "you have 4 lists of tasks under way") {
			t.Errorf("a list of %s is %d %s, want %d", from, out.Code, out.Body, want)
		}
	}
	close(release)
	slow.Wait()
}
