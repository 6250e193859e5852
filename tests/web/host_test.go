package web

import (
	"context"
	"crypto/rand"
	"errors"
	"html"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/host/registry/search/bleve"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
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
	index, err := bleve.Open(filepath.Join(t.TempDir(), "index"))
	if err != nil {
		t.Fatal(err)
	}
	wrap := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if between := h.between.Load(); between != nil && (*between)(w, r) || skeleton(w, r) {
				return
			}
			next.ServeHTTP(w, r)
		})
	}
	ctx, end := context.WithCancel(context.Background())
	ready, ended := make(chan bool), make(chan error, 1)
	go func() {
		ended <- h.Run(ctx, standalone.Running{Public: listener, Index: index, Grace: time.Second, Wrap: wrap}, func(context.Context) error { close(ready); return nil })
	}()
	t.Cleanup(func() {
		end()
		if err := errors.Join(<-ended, h.Close()); err != nil {
			t.Error(err)
		}
	})
	select {
	case <-ready:
	case err := <-ended:
		ended <- nil
		t.Fatal(err)
	}
	return h
}

// publish creates a vacant and publishes it, which is an event.
func (h *hosted) publish(name string) {
	h.t.Helper()
	id, err := h.Vacants.Create(h.t.Context(), vacants.Spec{Name: name, Capability: "Echoes " + name, Substrate: "echo"})
	if err == nil {
		_, _, err = h.Vacants.Publish(h.t.Context(), id.ID, vacants.PublishOptions{})
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

// skeleton serves the assets, and pages of which scripts need only the named sections.
func skeleton(w http.ResponseWriter, r *http.Request) bool {
	asset, isAsset := strings.CutPrefix(r.URL.Path, "/web/assets/h/")
	section, script := "", "log.js"
	seq, isEvent := strings.CutPrefix(r.URL.Path, "/web/log/")
	switch {
	case isAsset:
		http.ServeFile(w, r, filepath.Join(assets, filepath.Base(asset)))
		return true
	case r.URL.Path == "/web/skeleton.css":
		w.Header().Set("Content-Type", "text/css")
		_, _ = io.WriteString(w, "body { overflow-wrap: anywhere }")
		return true
	case r.URL.Path == "/favicon.ico":
		w.WriteHeader(http.StatusNoContent)
		return true
	case r.URL.Path == "/web/log":
		section = `<section id="log" data-checkpoint="/v1/checkpoint"></section>`
	case isEvent:
		section = `<section id="event" data-seq="` + html.EscapeString(seq) + `"></section>`
	case r.URL.Path == "/web/chains":
		section, script = `<section id="chains"><label>File <input type="file" id="file"></label> <output id="verdict"></output></section>`, "chains.js"
	default:
		return false
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", policy)
	_, _ = io.WriteString(w, `<!doctype html><html lang="en"><title>Vacancy</title><meta name="viewport" content="width=device-width"><link rel="stylesheet" href="/web/skeleton.css">
		<script type="module" src="/web/assets/h/`+script+`"></script><main><h1>Vacancy</h1>`+section+`</main></html>`)
	return true
}
