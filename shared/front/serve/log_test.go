package serve_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/local"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/store/storetest"
)

// sealing is a host whose admin socket can seal.
func sealing(t *testing.T, s store.Store, seals bool) *serve.Server {
	t.Helper()
	vault, err := local.Open(filepath.Join(t.TempDir(), "seal.key"), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	h, err := serve.Config{
		Store: s, Vault: vault, AllowLoopback: true, URL: "http://127.0.0.1:8080", Log: quiet,
		Now: time.Now, Rand: rand.Reader, HoldsIdentity: seals,
	}.Open()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func publishOne(t *testing.T, h *serve.Server, name string) {
	t.Helper()
	r, err := h.Vacants.Create(t.Context(), vacants.Spec{Name: name, Capability: "echoes", Substrate: "echo"})
	if err == nil {
		_, _, err = h.Vacants.Publish(t.Context(), r.ID, vacants.PublishOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestTheControlHandlerSealsTheLogOnDemand(t *testing.T) {
	h := sealing(t, memory.New(), true)
	publishOne(t, h, "one")
	web, base := serve.InProcess(h.Admin())
	client := admin.Client{HTTP: web, URL: base}
	for _, added := range []uint64{1, 0} {
		s, err := admin.SealLog.Call(t.Context(), client, op.Unread{})
		if err != nil || s.Size != 1 || s.Added != added || s.Epochs != 1 {
			t.Errorf("Seal() = %+v, %v, want 1 event, %d of them new", s, err, added)
		}
	}
	l, err := h.OpenLog(nil)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := l.Latest(t.Context()); err != nil || p.Size != 1 {
		t.Errorf("Latest() = %d, %v, want 1", p.Size, err)
	}
}

func TestAHomeThatDoesNotSealHasNoSuchRoute(t *testing.T) {
	web, base := serve.InProcess(sealing(t, memory.New(), false).Admin())
	if _, err := admin.SealLog.Call(t.Context(), &admin.Client{HTTP: web, URL: base}, op.Unread{}); !problem.Is(err, problem.NotFound) {
		t.Errorf("Seal() = %v, want not found", err)
	}
}

// The log is sealed periodically while there are new events; a failure is
// logged and retried.
func TestALogIsKeptSealed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failing atomic.Bool
		home := memory.New()
		h := sealing(t, &storetest.Lossy{Store: home, Decide: func(op string, _ []store.Write) storetest.Fate {
			if failing.Load() {
				return storetest.Lost
			}
			return storetest.Fine
		}}, false)
		l, err := h.OpenLog(nil)
		if err != nil {
			t.Fatal(err)
		}
		var said bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			job(t, h, serve.JobParts{Log: l}, "log").Loop(ctx, slog.New(slog.NewTextHandler(&said, nil)))
			close(ended)
		}()
		size := func() uint64 {
			t.Helper()
			p, err := l.Latest(t.Context())
			if err != nil && !problem.Is(err, problem.NotFound) {
				t.Fatal(err)
			}
			return p.Size
		}
		publishOne(t, h, "one")
		time.Sleep(61 * time.Second)
		if got := size(); got != 1 {
			t.Errorf("after a minute %d events are sealed, want 1", got)
		}
		publishOne(t, h, "two")
		failing.Store(true)
		time.Sleep(time.Minute)
		failing.Store(false)
		if got := size(); got != 1 {
			t.Errorf("without a store %d events are sealed, want 1", got)
		}
		time.Sleep(2 * time.Minute)
		if got := size(); got != 2 {
			t.Errorf("two minutes later %d events are sealed, want 2", got)
		}
		cancel()
		<-ended
		for _, want := range []string{"the log is sealed", `msg="a job failed" job=log`} {
			if !strings.Contains(said.String(), want) {
				t.Errorf("the log says %q, want %q in it", said.String(), want)
			}
		}
	})
}
