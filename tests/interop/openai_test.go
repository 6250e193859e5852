package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/tests/installed"
)

// Each client of OpenAI's API reports these scenarios.
var completions = map[string]string{
	"models":  "echo",
	"unary":   "hi stop 64",
	"stream":  "hi",
	"usage":   "0",
	"proof":   "envelope",
	"priced":  "paid for /v1/account/receipts/",
	"cut":     "cut",
	"guest":   "hi",
	"unpaid":  "402 insufficient_quota",
	"nobody":  "401 invalid_api_key",
	"missing": "NotFoundError model_not_found None",
	"failing": "InternalServerError substrate_busy None",
	"tools":   "BadRequestError malformed tools",
	"image":   "image/png of 8",

	"responses":          "hi completed",
	"responses stream":   "hi response.completed hi",
	"responses retrieve": "NotFoundError not_found None",
}

// The frameworks on top of OpenAI's clients report these scenarios.
var frameworks = map[string]string{
	"ai":                  "hi stop 0",
	"ai conversation":     "more",
	"ai stream":           "hi stop",
	"ai image":            "image/png of 8",
	"ai chat":             "hi",
	"ai compatible":       "hi",
	"ai failing":          "500 substrate_busy",
	"ai key":              "cut",
	"ai reset":            "wait done",
	"langchain":           "hi",
	"langchain responses": "hi",
	"langchain stream":    "hi",
	"langchain key":       "cut",
	"langchain reset":     "wait done",
}

// The official SDKs, and LangChain, read every answer and refusal. The connection of one paid request is cut
// after the host has answered: the SDK sends the request again, and it is charged once.
func TestClientsOfOpenAI(t *testing.T) {
	if *at != "" {
		t.Skip("the account is made on the host of this test")
	}
	langchain := map[string]string{"langchain": "hi stop", "langchain stream": "hi", "langchain responses": "hi", "langchain responses stream": "hi"}
	for name, tt := range map[string]struct {
		command func(*testing.T) []string
		more    map[string]string
	}{
		"Python": {func(t *testing.T) []string {
			dir := installed.Python(t, files, "pythonopenai")
			return []string{filepath.Join(dir, "env", "bin", "python"), filepath.Join(dir, "client.py")}
		}, langchain},
		"Node": {func(t *testing.T) []string {
			return []string{"node", filepath.Join(installed.Node(t, files, "nodeopenai", "openai"), "client.mjs")}
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			at := cutting(t)
			got := at.run(t, tt.command(t))
			for k, v := range tt.more {
				if got[k] != v {
					t.Errorf("%s: got %q, want %q", k, got[k], v)
				}
				delete(got, k)
			}
			if diff := cmp.Diff(completions, got); diff != "" {
				t.Errorf("scenarios (-want +got):\n%s", diff)
			}
			if n := at.cut.Load(); n != 1 {
				t.Errorf("%d connections were cut, want 1", n)
			}
			if n := at.repeated.Load(); n != 1 {
				t.Errorf("%d requests came again, want 1: no refusal after the accept is sent again", n)
			}
			if left := at.balance(); left != 8*callPrice {
				t.Errorf("the balance is %s, want %s: two calls of %s", left, 8*callPrice, callPrice)
			}
		})
	}
}

// Vercel's AI SDK and LangChain for JavaScript read every answer. They send a request again without telling: with
// a key of their own, or if the host saw the connection break, it is charged once.
func TestFrameworksOnTopOfOpenAI(t *testing.T) {
	if *at != "" {
		t.Skip("the account is made on the host of this test")
	}
	at := cutting(t)
	got := at.run(t, []string{"node", filepath.Join(installed.Node(t, files, "nodeai", "ai"), "client.mjs")})
	if diff := cmp.Diff(frameworks, got); diff != "" {
		t.Errorf("scenarios (-want +got):\n%s", diff)
	}
	if n, resets := at.cut.Load(), at.resets.Load(); n != 2 || resets != 2 {
		t.Errorf("%d answers were cut and %d connections reset, want 2 and 2", n, resets)
	}
	if left := at.balance(); left != 6*callPrice {
		t.Errorf("the balance is %s, want %s: four calls of %s", left, 6*callPrice, callPrice)
	}
}

const callPrice = 2 * money.Dollar / 100

// proxy leads to a host with the account of a key. The first request that has a text with the word cut is answered by
// the host, and its connection is closed without the answer. Of the first request that has a text with the word
// reset, both connections are closed while the agent answers.
type proxy struct {
	*httptest.Server
	secret                string
	balance               func() money.Amount
	cut, resets, repeated atomic.Int64
	seen                  sync.Map // texts with the words
}

// run runs a client and returns what it reports.
func (p *proxy) run(t *testing.T, command []string) (got map[string]string) {
	t.Helper()
	command = append(command, p.URL, p.secret)
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	var errors bytes.Buffer
	cmd.Stderr = &errors
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, errors.Bytes())
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("it printed %q: %v", out, err)
	}
	return got
}

// trouble matches the texts that the proxy does not let through at first.
var trouble = regexp.MustCompile(`"(cut|reset[a-z ]*)"`)

func cutting(t *testing.T) *proxy {
	t.Helper()
	p := &proxy{}
	to, err := url.Parse(hostIn(t, filepath.Join(t.TempDir(), "host"), map[string]string{"paid": "echo", "pausing": "slow"}, func(h *standalone.Host) {
		ctx := t.Context()
		a, key := openAcme(t, h, 10*callPrice)
		p.secret = key
		priced(t, h, "paid", callPrice)
		priced(t, h, "pausing", callPrice)
		echo, err := h.Vacants.GetByName(ctx, vacants.OperatorAsker(), "echo")
		must(t, err)
		_, _, err = h.Vacants.Publish(ctx, echo.ID, vacants.PublishOptions{})
		must(t, err)
		p.balance = func() money.Amount {
			left, err := h.Billing.Balance(ctx, &a)
			must(t, err)
			return left
		}
	}))
	must(t, err)
	next := httputil.NewSingleHostReverseProxy(to)
	next.ErrorLog = log.New(io.Discard, "", 0)
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if n := r.Header.Get("X-Stainless-Retry-Count"); n != "" && n != "0" {
			p.repeated.Add(1)
		}
		if found := trouble.FindSubmatch(body); found != nil {
			key := string(found[1]) + r.Header.Get("Idempotency-Key")
			switch _, again := p.seen.LoadOrStore(key, true); {
			case again:
			case string(found[1]) == "cut":
				p.cut.Add(1)
				next.ServeHTTP(httptest.NewRecorder(), r)
				panic(http.ErrAbortHandler)
			default:
				p.resets.Add(1)
				ctx, cancel := context.WithCancel(r.Context())
				before := p.balance()
				go func() { // the accepted call holds its price
					for ctx.Err() == nil && p.balance() == before {
						time.Sleep(time.Millisecond)
					}
					cancel()
				}()
				next.ServeHTTP(httptest.NewRecorder(), r.WithContext(ctx))
				panic(http.ErrAbortHandler)
			}
		}
		next.ServeHTTP(w, r)
	}))
	t.Cleanup(p.Close)
	return p
}
