package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// startModel is the command: model, which starts a server that speaks OpenAI's
// chat completions and sets $MODEL to its base URL, and $SAGE and $MISSING to
// substrates there. The model sage thinks and then
// says "I know TEXT"; other models do not exist. The last request's body is in the
// file prompt.json. For the texts "busy" and "refuse" it does so, for "slow" it
// answers late.
func startModel(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: model")
	}
	prompt := ts.MkAbs("prompt.json")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			Model    string
			Messages []struct{ Role, Content string }
		}
		body, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(body, &q); err != nil || len(q.Messages) == 0 || r.URL.Path != "/v1/chat/completions" {
			http.Error(w, "no chat completion", http.StatusBadRequest)
			return
		}
		if err := os.WriteFile(prompt, body, 0o600); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		text := q.Messages[len(q.Messages)-1].Content
		switch {
		case q.Model != "sage":
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprintf(w, `{"error":{"message":"model %q not found, try pulling it first"}}`, q.Model)
			return
		case text == "busy":
			w.WriteHeader(http.StatusTooManyRequests)
			return
		case text == "slow":
			time.Sleep(slowness)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		say := func(delta map[string]string, finish any) {
			b, _ := json.Marshal(map[string]any{"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}}})
			fmt.Fprintf(w, "data: %s\n\n", b)
			_ = http.NewResponseController(w).Flush()
		}
		if text == "refuse" {
			say(map[string]string{"refusal": "not that"}, nil)
		} else {
			say(map[string]string{"reasoning": "they ask " + text}, nil)
			for _, word := range strings.SplitAfter("I know "+text, " ") {
				say(map[string]string{"content": word}, nil)
			}
			say(map[string]string{}, "stop")
		}
		_, _ = io.WriteString(w, "data: [DONE]\n\n")
	}))
	ts.Defer(server.Close)
	ts.Setenv("MODEL", server.URL+"/v1")
	for _, name := range []string{"SAGE", "MISSING"} { // # begins a comment in a script
		ts.Setenv(name, "openai:"+server.URL+"/v1#"+strings.ToLower(name))
	}
}
