package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/rogpeppe/go-internal/testscript"
)

// startInner is the command: inner, which starts a service that only this machine is to
// reach, and sets $INNER to its URL and $INNERPORT to its port. Each connection and each
// request is a line of inner.log. It answers like an agent.
func startInner(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: inner")
	}
	log, err := os.OpenFile(ts.MkAbs("inner.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	ts.Check(err)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		fmt.Fprintln(log, r.Method, r.URL.Path)
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, "from inside")
	}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			fmt.Fprintln(log, "connection")
		}
	}
	server.Start()
	ts.Defer(func() {
		server.Close()
		_ = log.Close()
	})
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	ts.Check(err)
	ts.Setenv("INNER", server.URL)
	ts.Setenv("INNERPORT", port)
}
