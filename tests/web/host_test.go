package web

import (
	"crypto/rand"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/setting"
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
	must(t, err)
	h := &hosted{t: t, url: "http://" + listener.Addr().String()}
	h.serve(listener, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if between := h.between.Load(); between != nil && (*between)(w, r) {
				return
			}
			next.ServeHTTP(w, r)
		})
	})
	return h
}

// newHTTPSHost serves a host at https://localhost as vacancy serve does, with a certificate that no browser trusts.
func newHTTPSHost(t *testing.T) *hosted {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	server.Close()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: server.TLS.Certificates})
	must(t, err)
	_, port, err := net.SplitHostPort(listener.Addr().String())
	must(t, err)
	h := &hosted{t: t, url: "https://localhost:" + port}
	base, ok := standalone.ParseBaseURL(h.url)
	if !ok {
		t.Fatal(h.url)
	}
	h.serve(listener, func(next http.Handler) http.Handler {
		return standalone.Guard(base, standalone.EdgeLimits(setting.Defaults().Host, time.Now), nil, next)
	})
	return h
}

// serve serves the host at a listener until the test ends.
func (h *hosted) serve(listener net.Listener, wrap func(http.Handler) http.Handler) {
	h.t.Helper()
	var err error
	h.Host, err = standalone.Open(standalone.Config{
		Dir: filepath.Join(h.t.TempDir(), "host"), URL: h.url, AllowNew: true, AllowLoopback: true, OwnMachine: true, Log: slog.New(slog.DiscardHandler), Now: time.Now, Rand: rand.Reader,
	})
	must(h.t, err)
	standalonetest.Run(h.t, h.Host, standalone.RunConfig{Public: listener, WrapPublic: wrap})
}

// publish creates a vacant and publishes it, which is an event.
func (h *hosted) publish(name string) identity.ID {
	h.t.Helper()
	made, err := h.Vacants.Create(h.t.Context(), vacants.CreateSpec{Name: name, Capability: "Echoes " + name, Substrate: "echo"})
	if err == nil {
		_, _, err = h.Vacants.Publish(h.t.Context(), made.ID, vacants.PublishOptions{})
	}
	must(h.t, err)
	return made.ID
}
