package web

import (
	"crypto/rand"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/front/standalone/standalonetest"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// hosted is a host of this process.
type hosted struct {
	*standalone.Host
	t   *testing.T
	url string
	// between, if set, answers requests before the host does; it reports whether it did.
	between atomic.Pointer[func(http.ResponseWriter, *http.Request) bool]
}

// newHost serves a host in a directory until the test ends.
func newHost(t *testing.T) *hosted {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &hosted{t: t, url: "http://" + listener.Addr().String()}
	h.Host, err = standalone.Open(standalone.Config{
		Dir: filepath.Join(t.TempDir(), "host"), URL: h.url, New: true, AllowLoopback: true, OwnMachine: true, Log: slog.New(slog.DiscardHandler), Now: time.Now, Rand: rand.Reader,
	})
	if err != nil {
		t.Fatal(err)
	}
	wrap := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if between := h.between.Load(); between != nil && (*between)(w, r) {
				return
			}
			next.ServeHTTP(w, r)
		})
	}
	standalonetest.Run(t, h.Host, standalone.Running{Public: listener, Wrap: wrap})
	return h
}

// publish creates a vacant and publishes it, which is an event.
func (h *hosted) publish(name string) identity.ID {
	h.t.Helper()
	made, err := h.Vacants.Create(h.t.Context(), vacants.Spec{Name: name, Capability: "Echoes " + name, Substrate: "echo"})
	if err == nil {
		_, _, err = h.Vacants.Publish(h.t.Context(), made.ID, vacants.PublishOptions{})
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return made.ID
}
