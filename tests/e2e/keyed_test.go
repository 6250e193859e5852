package e2e

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/export"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/local"
	"github.com/vacancy-host/vacancy/shared/host/keys/operator"
	"github.com/vacancy-host/vacancy/shared/store/bolt"
)

// keyedHost is a host of a story whose admin API requires an operator key, like
// a deployed one: all handlers have one address.
type keyedHost struct {
	file   *bolt.Store
	path   string
	keys   operator.Keys
	server *httptest.Server
}

// keyedHostKey finds the story's *keyedHost among the values of its script.
type keyedHostKey struct{}

// startKeyed is the command: keyedhost [stop|rotate|redirect]. It starts the
// host over $WORK/keyed and sets $URL, and $KEY to the operator's key; stop
// ends it, so that its data file can be changed; started again it has the same
// key. rotate gives it another key, in $KEY. redirect starts a server at
// $ELSEWHERE that sends every request to $URL.
func startKeyed(ts *testscript.TestScript, neg bool, args []string) {
	h := ts.Value(keyedHostKey{}).(*keyedHost)
	if neg || len(args) > 1 {
		ts.Fatalf("usage: keyedhost [stop|rotate|redirect]")
	}
	switch strings.Join(args, "") {
	case "":
		h.start(ts)
	case "stop":
		h.server.Close()
		ts.Check(h.file.Close())
	case "rotate":
		h.rotate(ts)
	case "redirect":
		to := h.server.URL
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, to+r.URL.RequestURI(), http.StatusTemporaryRedirect)
		}))
		ts.Defer(s.Close)
		ts.Setenv("ELSEWHERE", s.URL)
	default:
		ts.Fatalf("keyedhost: unknown %q", args[0])
	}
}

func (h *keyedHost) start(ts *testscript.TestScript) {
	dir := ts.MkAbs("keyed")
	ts.Check(os.MkdirAll(dir, 0o700))
	vault, err := local.Open(filepath.Join(dir, "seal.key"), rand.Reader)
	ts.Check(err)
	first := h.path == ""
	h.path = filepath.Join(dir, "vacancy.db")
	h.file, err = bolt.Open(h.path, bolt.Options{})
	ts.Check(err)
	h.keys = operator.Keys{Store: h.file, Now: time.Now, Rand: rand.Reader}
	log := slog.New(slog.DiscardHandler)
	mux := http.NewServeMux()
	h.server = httptest.NewServer(mux)
	ts.Defer(func() { h.server.Close(); _ = h.file.Close() })
	server, err := serve.Config{
		Store: h.file, Vault: vault, AllowLoopback: true, URL: h.server.URL, Operator: h.keys, Stage: "story",
		Log: log, Now: time.Now, Rand: rand.Reader,
		// In a story every address is local.
		AllowRemote: true,
	}.Open()
	ts.Check(err)
	ts.Defer(server.Vacants.Close)
	_, err = server.Vacants.UpdateCardURLs(context.Background())
	ts.Check(err)
	mux.Handle("/", serve.Handlers{Message: server.MessageHandler(), Registry: server.RegistryHandler(nil), Gate: server.GateHandler(nil)}.Public())
	for _, path := range []string{"/v1/admin/vacants", "/v1/admin/vacants/", "/v1/admin/host", "/v1/admin/root", "/v1/admin/restored", "/v1/admin/gate", "/v1/admin/secrets", "/v1/admin/secrets/key", "/v1/admin/models", "/v1/admin/budgets"} {
		mux.Handle(path, server.Admin())
	}
	export := admin.RequireKey(h.keys, export.PagesHandler(export.Config{Source: h.file, Vault: vault, Now: time.Now, Log: log}))
	mux.Handle("/v1/admin/export", export)
	mux.Handle("/v1/admin/export/", export)
	ts.Setenv("URL", h.server.URL)
	if first {
		h.rotate(ts)
	}
}

func (h *keyedHost) rotate(ts *testscript.TestScript) {
	key, err := h.keys.Rotate(context.Background())
	ts.Check(err)
	ts.Setenv("KEY", key)
}
