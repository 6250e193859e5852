package agents

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func TestACardIsKeptWhileItIsFresh(t *testing.T) {
	const card = `{"name":"a","version":"1","supportedInterfaces":[{"url":"http://127.0.0.1/","protocolBinding":"JSONRPC","protocolVersion":"1.0"}]}`
	for control, want := range map[string]time.Duration{
		"": 10 * time.Minute, "public, max-age=60": time.Minute, `max-age="5", private`: 5 * time.Second, "max-age=99999999999": 24 * time.Hour, "max-age=-1": 0, "max-age=x": 0,
		"no-store": 0, "max-age=60, no-cache": 0, "Max-Age=60": time.Minute,
	} {
		var asked atomic.Int32
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			w.Header().Set("Cache-Control", control)
			_, _ = w.Write([]byte(card))
		}))
		defer server.Close()
		now := time.Now()
		dir := filepath.Join(t.TempDir(), "cards")
		fetch := func(at time.Time) int32 {
			t.Helper()
			// Each process has its own.
			c := &Cache{HTTP: dispatch.NewHTTP(dispatch.HTTPOptions{}), Dir: dir, Now: func() time.Time { return at }}
			if got, err := FetchCard(t.Context(), c, server.URL); err != nil || got.Name != "a" {
				t.Fatalf("FetchCard() = %+v, %v", got, err)
			}
			return asked.Load()
		}
		fetch(now)
		if n := fetch(now.Add(want - time.Nanosecond)); want > 0 && n != 1 || want == 0 && n != 2 {
			t.Errorf("%q: asked %d times within %v", control, n, want)
		}
		before := asked.Load()
		if n := fetch(now.Add(want)); n != before+1 {
			t.Errorf("%q: not asked again after %v", control, want)
		}
		renewed := &Cache{HTTP: dispatch.NewHTTP(dispatch.HTTPOptions{}), Dir: dir, Now: func() time.Time { return now }, ForceFetch: true}
		before = asked.Load()
		if _, err := FetchCard(t.Context(), renewed, server.URL); err != nil || asked.Load() != before+1 {
			t.Errorf("%q: not asked again, %v", control, err)
		}
		for _, f := range files(t, dir) { // a damaged file is ignored
			must(t, os.WriteFile(f, []byte("{"), 0o600))
		}
		fetch(now)
	}
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "*"))
	must(t, err)
	return all
}

func TestOneOfManyFetchesACard(t *testing.T) {
	var asked atomic.Int32
	gate := make(chan bool)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) == 1 {
			<-gate
			w.WriteHeader(http.StatusServiceUnavailable) // not stored, so the next request fetches the card
			return
		}
		_, _ = w.Write([]byte(`{"name":"a","version":"1","supportedInterfaces":[{"url":"http://127.0.0.1/","protocolBinding":"JSONRPC","protocolVersion":"1.0"}]}`))
	}))
	defer server.Close()
	c := &Cache{HTTP: dispatch.NewHTTP(dispatch.HTTPOptions{}), Dir: t.TempDir(), Now: time.Now}
	var all sync.WaitGroup
	var good atomic.Int32
	for range 64 {
		all.Go(func() {
			if _, err := FetchCard(t.Context(), c, server.URL+cardPath); err == nil {
				good.Add(1)
			}
		})
	}
	for asked.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	// A waiting request ends with its own context.
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := FetchCard(ctx, c, server.URL+cardPath); err == nil || problem.Is(err, problem.NotFound) {
		t.Errorf("FetchCard() with little time = %v", err)
	}
	close(gate)
	all.Wait()
	if n, g := asked.Load(), good.Load(); n > 3 || g < 63 {
		t.Errorf("%d requests for 64, of which %d got the card; want one after the first failure", n, g)
	}
}
