package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// slowness is longer than the patience of the caller in its story.
const slowness = 3 * time.Second

// startSubstrate is the command: substrate, which starts an HTTP endpoint as a
// vacant's substrate and sets $SUBSTRATE to its URL. The last request is in the
// file asked.json, and the texts of all requests are in asked.log. For the text
// "fail" it answers 500, for "leak" with a secret, for "redirect" it redirects
// elsewhere, for "garbage", "untexted" and "endless" it sends something that is
// not an answer, for "slow" it answers late, and for "held" once there is a
// file release.
func startSubstrate(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: substrate")
	}
	asked, release := ts.MkAbs("asked.json"), ts.MkAbs("release")
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
		case "garbage":
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"text": "never`)
		case "untexted":
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"answer": "elsewhere"}`)
		case "endless":
			w.Header().Set("Content-Type", "text/plain")
			_, _ = io.WriteString(w, strings.Repeat("much ", 62<<10))
		case "leak":
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, "the key is sk-hunter2hunter2, the cause is a full disk")
		case "redirect":
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		default:
			if q.Message == "slow" {
				time.Sleep(slowness)
			}
			for q.Message == "held" && r.Context().Err() == nil {
				if _, err := os.Stat(release); err == nil {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(map[string]string{"text": "I thought about " + q.Message})
		}
	}))
	ts.Defer(func() {
		server.Close()
		_ = all.Close()
	})
	ts.Setenv("SUBSTRATE", server.URL)
}
