package standalone_test

import (
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/storetest"
)

// running is a host that serves.
type running struct {
	*standalone.Host
	t   *testing.T
	url string
	dir string
	end func() error
}

func run(t *testing.T, dir string, change ...func(*standalone.Config)) *running {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	c := standalone.Config{Dir: dir, URL: "http://" + l.Addr().String(), Log: slog.New(slog.DiscardHandler), Now: time.Now, Rand: rand.Reader}
	for _, f := range change {
		f(&c)
	}
	host, err := standalone.Open(c)
	if err != nil {
		l.Close()
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- host.Run(ctx, standalone.RunConfig{Public: l, Grace: 10 * time.Second}, func(context.Context) error { close(ready); return nil })
	}()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatalf("Run() = %v", err)
	}
	r := &running{Host: host, t: t, url: c.URL, dir: dir}
	stopped := false
	r.end = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		err := <-ended
		return join(err, host.Close())
	}
	t.Cleanup(func() {
		if err := r.end(); err != nil {
			t.Errorf("the host ends with %v", err)
		}
	})
	return r
}

func join(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *running) get(path string) (int, string) {
	r.t.Helper()
	resp, err := http.Get(r.url + path)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.StatusCode, strings.TrimSpace(string(b))
}

func TestHealthIsOfTheProcessAndReadyOfWhatItNeeds(t *testing.T) {
	var broken atomic.Bool
	h := run(t, filepath.Join(t.TempDir(), "host"), func(c *standalone.Config) {
		c.WrapStore = func(s store.Store) store.Store {
			return &storetest.Lossy{Store: s, ChooseFault: func(string, []store.Write) storetest.Fault {
				if broken.Load() {
					return storetest.Lost
				}
				return storetest.NoFault
			}}
		}
	})
	want := func(path string, status int, body string) {
		t.Helper()
		if got, b := h.get(path); got != status || !strings.Contains(b, body) {
			t.Errorf("GET %s = %d %s, want %d with %s", path, got, b, status, body)
		}
	}
	want("/health", 200, `{"status":"ok"}`)
	want("/ready", 200, `{"status":"ready"}`)
	want("/health?vacant=nobody", 404, "not hosted here")
	if _, err := h.Vacants.Create(t.Context(), vacants.CreateSpec{Name: "demo", Capability: "echoes", Substrate: "echo"}); err != nil {
		t.Fatal(err)
	}
	want("/health", 200, `"name":"demo"`) // as the reference answers
	if _, err := h.Vacants.Create(t.Context(), vacants.CreateSpec{Name: "other", Capability: "echoes", Substrate: "echo"}); err != nil {
		t.Fatal(err)
	}
	want("/health", 200, `{"status":"ok"}`)
	broken.Store(true)
	want("/ready", 503, "the store does not answer")
	time.Sleep(1100 * time.Millisecond) // what is open is remembered for a second
	want("/health", 200, `{"status":"ok"}`)
	want("/v1/admin/vacants", 404, "no such path")
	broken.Store(false)
	want("/ready", 200, "ready")
}

// A new host has no identity yet. What is wrong is told, and others who ask do not cost
// another write.
func TestReadyTellsWhatIsWrong(t *testing.T) {
	var full atomic.Bool
	var free, tries, skipped atomic.Int64
	free.Store(1 << 40)
	h := run(t, filepath.Join(t.TempDir(), "host"), func(c *standalone.Config) {
		c.Now = func() time.Time { return time.Now().Add(time.Duration(skipped.Load())) }
		c.Disk = func(string) (int64, int64) { return free.Load(), 1 << 40 }
		c.WrapStore = func(s store.Store) store.Store {
			return &storetest.Lossy{Store: s, ChooseFault: func(_ string, writes []store.Write) storetest.Fault {
				for _, w := range writes {
					if p, ok := w.(store.Put); ok && p.Key.Sort == "ready" {
						tries.Add(1)
					}
				}
				if full.Load() && writes != nil {
					return storetest.Lost
				}
				return storetest.NoFault
			}}
		}
	})
	want := func(status int, body string) {
		t.Helper()
		if got, b := h.get("/ready"); got != status || !strings.Contains(b, body) {
			t.Errorf("GET /ready = %d %s, want %d with %s", got, b, status, body)
		}
	}
	full.Store(true)
	want(503, "the store does not accept writes")
	full.Store(false)
	before := tries.Load()
	want(503, "the store does not accept writes")
	skipped.Add(int64(10 * time.Second))
	for range 3 {
		want(200, "ready")
	}
	if n := tries.Load() - before; n != 1 {
		t.Errorf("%d writes by four requests, want 1", n)
	}
	free.Store(1 << 20)
	skipped.Add(int64(10 * time.Second))
	want(503, "has only 1 MB left")
	if n := tries.Load() - before; n != 1 {
		t.Errorf("%d writes on a full disk, want none more", n-1)
	}
}

// closedKeys is a store whose copy of the host's identity was sealed by another key.
type closedKeys struct{ store.Store }

func (c closedKeys) Doc(ctx context.Context, k store.Key) (store.Doc, error) {
	d, err := c.Store.Doc(ctx, k)
	if k == vacants.HostIdentityKey() && err == nil {
		d.Data = []byte(strings.Replace(string(d.Data), `"seed":"`, `"seed":"AAAA`, 1))
	}
	return d, err
}

func TestAHostWhoseKeysDoNotOpenIsNotReady(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "host")
	h := run(t, dir)
	if status, body := h.get("/ready"); status != 200 {
		t.Fatalf("GET /ready = %d %s", status, body)
	}
	must(t, h.end())
	h = run(t, dir, func(c *standalone.Config) {
		c.WrapStore = func(s store.Store) store.Store { return closedKeys{s} }
	})
	if status, body := h.get("/ready"); status != 503 || !strings.Contains(body, "the host's keys cannot be opened") {
		t.Errorf("GET /ready = %d %s, want 503 because the host's keys cannot be opened", status, body)
	}
	if status, body := h.get("/health"); status != 200 {
		t.Errorf("GET /health = %d %s, want 200", status, body)
	}
}

func TestADirectoryHasOneHostAndRemembersItsURL(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "host")
	h := run(t, dir)
	c := standalone.Config{Dir: dir, Log: slog.New(slog.DiscardHandler), Now: time.Now, Rand: rand.Reader}
	if other, err := standalone.Open(c); !problem.Is(err, problem.Conflict) && !problem.Is(err, problem.Unavailable) {
		t.Errorf("Open() beside a running host = %v, %v; want a refusal", other, err)
	}
	r, err := h.Vacants.Create(t.Context(), vacants.CreateSpec{Name: "demo", Capability: "echoes", Substrate: "echo"})
	must(t, err)
	url := h.url
	must(t, h.end())
	host, err := standalone.Open(c)
	must(t, err)
	defer host.Close()
	later, err := host.Vacants.Create(t.Context(), vacants.CreateSpec{Name: "later", Capability: "echoes", Substrate: "echo"})
	if err != nil || !strings.Contains(string(later.Card), url) || !strings.Contains(string(r.Card), url) {
		t.Errorf("a card made while no host runs names %s, %v; want %s", later.Card, err, url)
	}
}

func TestADataFileWithoutItsKeyIsRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "host")
	must(t, run(t, dir).end())
	must(t, os.Remove(filepath.Join(dir, standalone.SealFile)))
	_, err := standalone.Open(standalone.Config{Dir: dir, Log: slog.New(slog.DiscardHandler), Now: time.Now, Rand: rand.Reader})
	if !problem.Is(err, problem.Damaged) || !strings.Contains(err.Error(), "is missing: restore the key file") {
		t.Errorf("Open() = %v, want that the key is missing", err)
	}
}
