package interop

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/tests/installed"
)

// Each client of OpenAI's API reports these scenarios.
var completions = map[string]string{
	"models":    "echo",
	"unary":     "hi stop 64",
	"stream":    "hi",
	"usage":     "0",
	"proof":     "envelope",
	"priced":    "paid for /v1/account/receipts/",
	"cut":       "cut",
	"guest":     "hi",
	"unpaid":    "402 insufficient_quota",
	"nobody":    "401 invalid_api_key",
	"missing":   "NotFoundError model_not_found None",
	"failing":   "InternalServerError substrate_busy None",
	"tools":     "BadRequestError malformed tools",
	"responses": "True",
	"image":     "image/png of 8",
}

// The official SDKs, and LangChain, read every answer and refusal. The connection of one paid request is cut
// after the host has answered: the SDK sends the request again, and it is charged once.
func TestClientsOfOpenAI(t *testing.T) {
	if *at != "" {
		t.Skip("the account is made on the host of this test")
	}
	langchain := map[string]string{"langchain": "hi stop", "langchain stream": "hi"}
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
			const each = 2 * money.Dollar / 100
			var secret string
			var balance func() money.Amount
			at := cutting(t, hostIn(t, filepath.Join(t.TempDir(), "host"), map[string]string{"paid": "echo"}, func(h *standalone.Host) {
				ctx := t.Context()
				must := func(err error) {
					t.Helper()
					if err != nil {
						t.Fatal(err)
					}
				}
				a, err := h.Billing.OpenAccount(ctx, "acme", 1)
				must(err)
				_, _, err = h.Billing.Credit(ctx, a.ID, 10*each, "first", "")
				must(err)
				_, secret, err = h.Billing.MakeKey(ctx, a.ID, billing.KeyOptions{})
				must(err)
				paid, err := h.Vacants.ByName(ctx, vacants.Operator(), "paid")
				must(err)
				_, err = h.Vacants.SetPrice(ctx, paid.ID, price.Price{Flat: each})
				must(err)
				echo, err := h.Vacants.ByName(ctx, vacants.Operator(), "echo")
				must(err)
				_, _, err = h.Vacants.Publish(ctx, echo.ID, vacants.PublishOptions{})
				must(err)
				balance = func() money.Amount {
					left, err := h.Billing.Balance(ctx, &a)
					must(err)
					return left
				}
			}))
			command := append(tt.command(t), at.URL, secret)
			cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
			var errors bytes.Buffer
			cmd.Stderr = &errors
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s%s", err, out, errors.Bytes())
			}
			var got map[string]string
			if err := json.Unmarshal(out, &got); err != nil {
				t.Fatalf("it printed %q: %v", out, err)
			}
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
			if left := balance(); left != 8*each {
				t.Errorf("the balance is %s, want %s: two calls of %s", left, 8*each, each)
			}
		})
	}
}

// proxy leads to a host. The first request that has the text cut is answered by the host, and its connection
// is closed without the answer.
type proxy struct {
	*httptest.Server
	cut, repeated atomic.Int64
}

func cutting(t *testing.T, host string) *proxy {
	t.Helper()
	to, err := url.Parse(host)
	if err != nil {
		t.Fatal(err)
	}
	next := httputil.NewSingleHostReverseProxy(to)
	p := &proxy{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if n := r.Header.Get("X-Stainless-Retry-Count"); n != "" && n != "0" {
			p.repeated.Add(1)
		}
		if bytes.Contains(body, []byte(`"cut"`)) && p.cut.CompareAndSwap(0, 1) {
			next.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		next.ServeHTTP(w, r)
	}))
	t.Cleanup(p.Close)
	return p
}
