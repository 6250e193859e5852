package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// foreign is an agent that is not a vacant: its card, and one answer to every message.
func foreign(t *testing.T, card, answer string) string {
	t.Helper()
	s := httptest.NewServer(nil)
	t.Cleanup(s.Close)
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/agent-card.json"):
			fmt.Fprint(w, strings.ReplaceAll(card, "URL", s.URL))
		case r.Method == http.MethodPost:
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"result":%s}`, answer)
		default:
			http.NotFound(w, r)
		}
	})
	return s.URL
}

const foreignCard = `{"name":"other","version":"2","url":"URL/","protocolVersion":"0.3.0","capabilities":{},"skills":[]%s}`

func TestAnAgentThatIsNoVacantIsCalledByItsURL(t *testing.T) {
	s := newShell(t)
	url := foreign(t, fmt.Sprintf(foreignCard, ""), `{"kind":"message","messageId":"m","role":"agent","parts":[{"kind":"text","text":"hello \u001b[31m"},{"kind":"file","file":{"uri":"https://x.example"}}]}`)
	code, out, errs := s.run("", "call", url, "hi")
	if code != 0 || !strings.HasPrefix(out, "hello ") || strings.Contains(out, "\x1b") || !strings.Contains(out, "1 more parts are not text") || !strings.Contains(errs, "its answer is not verified") {
		t.Errorf("call: exit %d, %q, %q", code, out, errs)
	}
	url = foreign(t, fmt.Sprintf(foreignCard, ""), `{"kind":"task","id":"t","contextId":"c","status":{"state":"failed","message":{"kind":"message","messageId":"m","role":"agent","parts":[{"kind":"text","text":"too bad"}]}}}`)
	s.fails(problem.ExitFailed, "too bad", "call", url, "hi")
	if code, out, _ := s.run("", "card", url); code != 0 || !strings.Contains(out, "not signed") || !strings.Contains(out, "other, version 2") {
		t.Errorf("card: exit %d, %q", code, out)
	}
}

func TestACallKeepsEscapesAndFinalSlashOfAURL(t *testing.T) {
	const path = "/runtimes/arn%3Aaws%3Aagent%2Fmine/invocations/"
	server := httptest.NewServer(nil)
	t.Cleanup(server.Close)
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method + " " + r.RequestURI {
		case "GET " + path + ".well-known/agent-card.json":
			fmt.Fprintf(w, `{"name":"other","version":"2","url":"%s","protocolVersion":"0.3.0"}`, server.URL+path)
		case "POST " + path:
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"result":{"kind":"message","messageId":"m","role":"agent","parts":[{"kind":"text","text":"hello"}]}}`)
		default:
			http.NotFound(w, r)
		}
	})
	if out := newShell(t).must("call", server.URL+path, "hi"); out != "hello\n" {
		t.Errorf("call = %q, want the agent's answer", out)
	}
}

func TestTextOfStandardInputReachesAnAgent(t *testing.T) {
	s := newShell(t)
	url := foreign(t, fmt.Sprintf(foreignCard, ""), `{"kind":"message","messageId":"m","role":"agent","parts":[{"kind":"text","text":"hello"}]}`)
	for _, flag := range [][]string{nil, {"--no-wait"}} {
		if code, out, errs := s.run("from a pipe\n", append([]string{"call", url}, flag...)...); code != 0 || out != "hello\n" {
			t.Errorf("%v: exit %d, %q, %q", flag, code, out, errs)
		}
	}
}

// Whoever answers at the address of a vacant that is named by its id is not called in
// its place.
func TestAURLWithAnIDIsCalledSignedOrNotAtAll(t *testing.T) {
	s := newShell(t)
	url := foreign(t, fmt.Sprintf(foreignCard, ""), `{"kind":"message","messageId":"m","role":"agent","parts":[{"kind":"text","text":"gotcha"}]}`)
	if code, out, errs := s.run("", "call", url+"/v/"+strings.Repeat("5866666666666666", 4), "secret"); code != problem.ExitNotFound || out != "" || !strings.Contains(errs, "404") {
		t.Errorf("exit %d, %q, %q", code, out, errs)
	}
}

func TestACardWithAWrongSignatureIsUntrusted(t *testing.T) {
	s := newShell(t)
	url := foreign(t, fmt.Sprintf(foreignCard, `,"signatures":[{"protected":"eyJhbGciOiJFZERTQSIsImtpZCI6ImEifQ","signature":"AAAA"}]`), `{}`)
	code, out, errs := s.run("", "card", url)
	if code != problem.ExitUntrusted || !strings.Contains(out, "NOT VERIFIED") || !strings.Contains(errs, "does not verify") {
		t.Errorf("exit %d, %q, %q", code, out, errs)
	}
}

func TestAStreamThatIsCutOffIsNoAnswer(t *testing.T) {
	s := newShell(t)
	server := httptest.NewServer(nil)
	t.Cleanup(server.Close)
	end := ""
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			fmt.Fprintf(w, `{"name":"other","version":"2","url":"%s/","protocolVersion":"0.3.0"}`, server.URL)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: {\"kind\":\"artifact-update\",\"taskId\":\"t7\",\"artifact\":{\"parts\":[{\"kind\":\"text\",\"text\":\"half\"}]}}\n\n"+end)
	})
	code, out, errs := s.run("", "call", server.URL, "hi", "--stream")
	if code != problem.ExitUnavailable || out != "half\n" || !strings.Contains(errs, "ends before its answer") || !strings.Contains(errs, "--task t7") {
		t.Errorf("without an end: exit %d, %q, %q", code, out, errs)
	}
	end = "data: {\"kind\":\"status-update\",\"taskId\":\"t7\",\"status\":{\"state\":\"\\u001b[31mpaused\"}}\n\ndata: {\"kind\":\"status-update\",\"taskId\":\"t7\",\"status\":{\"state\":\"completed\"}}\n\n"
	if code, out, errs := s.run("", "call", server.URL, "hi", "--stream"); code != 0 || out != "half\n" {
		t.Errorf("with an end: exit %d, %q, %q", code, out, errs)
	}
}

// Of the two tries, a signed call and an agent's, the error is of the one that says more.
func TestTheErrorOfACallIsTheMoreTelling(t *testing.T) {
	s := newShell(t)
	for name, tt := range map[string]struct {
		card, want string
		status     int // of the vacant's own card
		code       int
	}{
		"a card for all addresses": {`{"name":"a","version":"1","url":"http://0.0.0.0:9999/"}`, "names an address at .0.0.0.0:9999.", 404, problem.ExitUntrusted},
		"a later version":          {`{"name":"a","version":"1","supportedInterfaces":[{"url":"URL/","protocolBinding":"JSONRPC","protocolVersion":"2.0"}]}`, "supports A2A version .2.0.", 404, problem.ExitUntrusted},
		"a card without a name":    {`{"version":"1","url":"URL/"}`, "card has no name", 404, problem.ExitUntrusted},
		"neither":                  {"", "/card: 404", 404, problem.ExitNotFound},
		"refused, neither":         {"", "/card: 403", 403, problem.ExitRefused},
		"refused, an agent":        {`{"name":"a","version":"1","url":"URL/"}`, "", 403, 0},
		"away":                     {`{"name":"a","version":"1","url":"URL/"}`, "/card: 503", 503, problem.ExitUnavailable},
	} {
		server := httptest.NewServer(nil)
		t.Cleanup(server.Close)
		server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.Method == http.MethodPost:
				fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"result":{"kind":"message","parts":[{"kind":"text","text":"hello"}]}}`)
			case r.URL.Path == "/card":
				w.WriteHeader(tt.status)
			case tt.card == "":
				http.NotFound(w, r)
			default:
				fmt.Fprint(w, strings.ReplaceAll(tt.card, "URL", server.URL))
			}
		})
		code, out, errs := s.run("", "call", server.URL, "hi")
		if code != tt.code || (out == "hello\n") != (code == 0) || !regexp.MustCompile(tt.want).MatchString(errs) {
			t.Errorf("%s: exit %d, %q, %q", name, code, out, errs)
		}
	}
}
