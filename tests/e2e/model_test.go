package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// startModel is the command: model, which starts a server that speaks OpenAI's chat completions and sets $MODEL to its
// base URL, $MODELHOST to its host, and $SAGE and $MISSING to substrates there. The model sage thinks and then says "I
// know TEXT"; the model backup says it, too, and other models do not exist. The last request's body is in the file
// prompt.json, and what its sender is known by in known.txt. For the texts "busy" and "refuse" it does so, for "slow"
// it answers late, for "overload" sage answers 503, for "ask TOOL TEXT" it calls the tool, and then says "I heard
// RESULT", for "endless" it says its words and never ends, for "silent" it says none, for "long" it may not say all,
// for "ponder" its thoughts leave no room for words, for "begin TOOL" a call of the tool is cut off, for "eos" it ends
// in its own way, and for "write" it says JSON only once it is asked again. $CLAUDE and $GEMINI are sage at servers
// that speak as Anthropic's and Google's do: they say only "I know TEXT".
func startModel(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: model")
	}
	prompt, known := ts.MkAbs("prompt.json"), ts.MkAbs("known.txt")
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
		err := errors.Join(os.WriteFile(prompt, body, 0o600), os.WriteFile(known, []byte(r.Header.Get("Authorization")), 0o600))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		text := q.Messages[len(q.Messages)-1].Content
		switch {
		case q.Model == "sage" && text == "overload":
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		case q.Model != "sage" && q.Model != "backup":
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprintf(w, `{"error":{"message":"model %q not found, try pulling it first"}}`, q.Model)
			return
		case text == "busy":
			w.WriteHeader(http.StatusTooManyRequests)
			return
		case text == "slow":
			time.Sleep(slowness)
		case text == "silent":
			<-r.Context().Done()
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		say := func(delta map[string]any, finish any) {
			b, _ := json.Marshal(map[string]any{"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}}})
			fmt.Fprintf(w, "data: %s\n\n", b)
			_ = http.NewResponseController(w).Flush()
		}
		answer, end := "I know "+text, "stop"
		switch tool, message, asks := strings.Cut(strings.TrimPrefix(text, "ask "), " "); {
		case text == "refuse":
			say(map[string]any{"refusal": "not that"}, nil)
			answer = ""
		case strings.HasPrefix(text, "ask ") && asks:
			arguments, _ := json.Marshal(map[string]string{"message": message})
			say(map[string]any{"tool_calls": []any{map[string]any{"index": 0, "id": "c1", "function": map[string]any{"name": tool, "arguments": string(arguments)}}}}, "tool_calls")
			answer = ""
		case text == "nothing":
			say(map[string]any{"content": "\n"}, "stop")
			answer = ""
		case text == "ponder":
			say(map[string]any{"reasoning": "hm"}, "length")
			answer = ""
		case strings.HasPrefix(text, "begin "):
			say(map[string]any{"content": "Let me see."}, nil)
			say(map[string]any{"tool_calls": []any{map[string]any{"index": 0, "id": "c1", "function": map[string]any{"name": strings.TrimPrefix(text, "begin "), "arguments": ""}}}}, "length")
			answer = ""
		case text == "broken": // as llama.cpp says it
			say(map[string]any{"content": "I know "}, nil)
			_, _ = io.WriteString(w, "error: {\"code\":500,\"message\":\"out of memory\"}\n\n")
			answer = ""
		case text == "long":
			end = "length"
		case text == "eos", text == "abort":
			end = text
		case q.Messages[len(q.Messages)-1].Role == "tool":
			answer = "I heard " + text
		case strings.HasPrefix(text, "That was not a JSON document"):
			answer = `{"written": true}`
		}
		if answer != "" {
			say(map[string]any{"reasoning": "they ask " + text}, nil)
			for _, word := range strings.SplitAfter(answer, " ") {
				say(map[string]any{"content": word}, nil)
			}
			if text == "endless" {
				<-r.Context().Done()
				return
			}
			say(map[string]any{}, end)
		}
		_, _ = io.WriteString(w, `data: {"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":4}}}`+"\n\ndata: [DONE]\n\n")
	}))
	ts.Defer(server.Close)
	ts.Setenv("MODEL", server.URL+"/v1")
	ts.Setenv("MODELHOST", strings.TrimPrefix(server.URL, "http://"))
	others := httptest.NewServer(http.HandlerFunc(otherModels))
	ts.Defer(others.Close)
	ts.Setenv("OTHERSHOST", strings.TrimPrefix(others.URL, "http://"))
	ts.Setenv("CLAUDE", "anthropic:"+others.URL+"/v1#sage")
	ts.Setenv("GEMINI", "gemini:"+others.URL+"/v1beta#sage")
	for _, name := range []string{"SAGE", "MISSING"} { // # begins a comment in a script
		ts.Setenv(name, "openai:"+server.URL+"/v1#"+strings.ToLower(name))
	}
}

// otherModels speaks as Anthropic's and Google's servers do.
func otherModels(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Messages []struct{ Content []struct{ Text string } }
		Contents []struct{ Parts []struct{ Text string } }
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	say := func(events ...any) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range events {
			b, _ := json.Marshal(e)
			fmt.Fprintf(w, "data: %s\n\n", b)
		}
	}
	type object = map[string]any
	switch {
	case r.URL.Path == "/v1/messages" && r.Header.Get("X-Api-Key") == "canary-one":
		text := "I know " + q.Messages[len(q.Messages)-1].Content[0].Text
		say(object{"type": "message_start", "message": object{"usage": object{"input_tokens": 8, "cache_read_input_tokens": 4, "output_tokens": 1}}},
			object{"type": "content_block_start", "index": 0, "content_block": object{"type": "text", "text": ""}},
			object{"type": "content_block_delta", "index": 0, "delta": object{"type": "text_delta", "text": text}},
			object{"type": "content_block_stop", "index": 0},
			object{"type": "message_delta", "delta": object{"stop_reason": "end_turn"}, "usage": object{"output_tokens": 7}},
			object{"type": "message_stop"})
	case r.URL.Path == "/v1beta/models/sage:streamGenerateContent" && r.Header.Get("X-Goog-Api-Key") == "canary-one":
		text := "I know " + q.Contents[len(q.Contents)-1].Parts[0].Text
		say(object{"candidates": []any{object{"content": object{"role": "model", "parts": []any{object{"text": text}}}, "finishReason": "STOP"}},
			"usageMetadata": object{"promptTokenCount": 12, "candidatesTokenCount": 7, "cachedContentTokenCount": 4}})
	default:
		http.Error(w, "no such model, or another key", http.StatusUnauthorized)
	}
}
