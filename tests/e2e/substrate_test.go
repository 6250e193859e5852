package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// slowness is longer than the patience of the caller in the story about it.
const slowness = 3 * time.Second

// startSubstrate is the command: substrate, which starts an HTTP endpoint that
// thinks for a vacant and sets $SUBSTRATE to its URL. What it was asked last is
// in the file asked.json, and the texts of all questions are in asked.log. A
// text of "fail" makes it answer 500, "redirect" makes it send the asker
// elsewhere, "slow" makes it think for a while.
func startSubstrate(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: substrate")
	}
	asked := ts.MkAbs("asked.json")
	all, err := os.Create(ts.MkAbs("asked.log"))
	ts.Check(err)
	var log sync.Mutex
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			Message string `json:"message"`
			Caller  string `json:"caller"`
			Vacant  string `json:"vacant"`
		}
		var raw json.RawMessage
		if err := json.NewDecoder(r.Body).Decode(&raw); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if err := os.WriteFile(asked, raw, 0o600); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_ = json.Unmarshal(raw, &q)
		log.Lock()
		fmt.Fprintln(all, q.Message)
		log.Unlock()
		switch q.Message {
		case "fail":
			w.WriteHeader(http.StatusInternalServerError)
		case "redirect":
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		case "slow":
			time.Sleep(slowness)
			fallthrough
		default:
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"text": "I thought about %s"}`, q.Message)
		}
	}))
	ts.Defer(func() {
		server.Close()
		_ = all.Close()
	})
	ts.Setenv("SUBSTRATE", server.URL)
}
