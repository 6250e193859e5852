package interop

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/tests/installed"
)

// oidcProvider is a process of testdata/provider/provider.mjs.
type oidcProvider struct {
	URL  string
	send io.WriteCloser
	said *bufio.Scanner
}

func startProvider(t *testing.T, dir string) *oidcProvider {
	t.Helper()
	cmd := exec.Command("node", filepath.Join(dir, "provider.mjs"))
	var problems bytes.Buffer
	cmd.Stderr = &problems
	send, err := cmd.StdinPipe()
	must(t, err)
	said, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = send.Close() // the end of its input ends the process
		if err := cmd.Wait(); err != nil {
			t.Errorf("the provider: %v\n%s", err, problems.Bytes())
		}
	})
	p := &oidcProvider{send: send, said: bufio.NewScanner(said)}
	p.URL = p.answer(t)
	return p
}

func (p *oidcProvider) answer(t *testing.T) string {
	t.Helper()
	if !p.said.Scan() {
		t.Fatalf("the provider does not answer: %v", p.said.Err())
	}
	return p.said.Text()
}

// obey sends a line, and returns how often the keys were fetched.
func (p *oidcProvider) obey(t *testing.T, line string) (fetches int) {
	t.Helper()
	_, err := fmt.Fprintln(p.send, line)
	must(t, err)
	fetches, err = strconv.Atoi(p.answer(t))
	must(t, err)
	return fetches
}

// token returns a token of a client of the provider, for a resource. Without a resource the provider makes a
// token that only the provider can read.
func (p *oidcProvider) token(t *testing.T, client, resource string) string {
	t.Helper()
	form := url.Values{"grant_type": {"client_credentials"}}
	if resource != "" {
		form.Set("resource", resource)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.URL+"/token", strings.NewReader(form.Encode()))
	must(t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth(client, "secret")
	answer, err := http.DefaultClient.Do(r)
	must(t, err)
	defer answer.Body.Close()
	var said struct {
		Token string `json:"access_token"`
	}
	must(t, json.NewDecoder(answer.Body).Decode(&said))
	if said.Token == "" {
		t.Fatalf("the provider made no token for %s: %s", client, answer.Status)
	}
	return said.Token
}

// ways are requests that ask the vacant paid, by their names.
var ways = map[string]struct{ path, body string }{
	"text":   {"/text", "hi"},
	"A2A":    {"", `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m1","role":"ROLE_USER","parts":[{"text":"hi"}]}}}`},
	"OpenAI": {"/v1/chat/completions", `{"model":"paid","messages":[{"role":"user","content":"hi"}]}`},
	"MCP":    {"/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask","arguments":{"message":"hi"}}}`},
}

// asks asks the vacant paid by one of ways, and returns the status, the challenge and the body.
func asks(t *testing.T, host, way, token string) (status int, challenge, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, host+"/v/paid"+ways[way].path, strings.NewReader(ways[way].body))
	must(t, err)
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("A2A-Version", "1.0")
	r.Header.Set("Content-Type", "application/json")
	if way == "text" {
		r.Header.Set("Content-Type", "text/plain")
	}
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := http.DefaultClient.Do(r)
	must(t, err)
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	must(t, err)
	return answer.StatusCode, answer.Header.Get("WWW-Authenticate"), string(b)
}

// paidByTokens are the scenarios of testdata/provider/client.mjs: six calls of a program, a call of a person who
// has logged in, and a call that is refused.
var paidByTokens = map[string]string{
	"a2a":                   "TASK_STATE_COMPLETED hi, 1 refused",
	"openai":                "hi",
	"openai of the host":    "hi",
	"openai elsewhere":      "401 invalid_api_key",
	"mcp":                   "hi",
	"mcp as a stream":       "hi",
	"mcp of the host":       "hi",
	"login":                 "login",
	"after the login":       "hi",
	"audience of the login": "/v/paid/mcp",
}

// A provider of OpenID Connect that others wrote makes the tokens, and stock clients pay with them. A key that
// the provider begins to sign with counts after 30 seconds. The clock of the host stands still, half an hour
// ahead, so that no test depends on how fast the machine is.
func TestTokensOfAProvider(t *testing.T) {
	needsLocalHost(t)
	const each = 2 * money.Dollar / 1000
	installedIn := installed.Node(t, files, "provider", "oidc-provider")
	p, unknown := startProvider(t, installedIn), startProvider(t, installedIn)
	// The scripts run in the installs of other tests, which are named by all of their files.
	python := func(packages, script string) []string {
		return []string{filepath.Join(installed.Python(t, files, packages), "env", "bin", "python"), filepath.Join("testdata", "tokens", script)}
	}
	var ahead atomic.Int64
	start := time.Now().Add(30 * time.Minute)
	dir := filepath.Join(t.TempDir(), "host")
	t.Run("host", func(t *testing.T) {
		var balance func() money.Amount
		host := hostAt(t, dir, func() time.Time { return start.Add(time.Duration(ahead.Load())) }, map[string]string{"paid": "echo"}, func(h *standalone.Host) {
			ctx := t.Context()
			a, err := h.Billing.OpenAccount(ctx, "acme", 1)
			must(t, err)
			_, _, err = h.Billing.Credit(ctx, a.ID, money.Dollar, "first", "")
			must(t, err)
			paid, err := h.Vacants.ByName(ctx, vacants.Operator(), "paid")
			must(t, err)
			_, err = h.Vacants.SetPrice(ctx, paid.ID, price.Price{Flat: each})
			must(t, err)
			_, _, err = h.Vacants.Publish(ctx, paid.ID, vacants.PublishOptions{})
			must(t, err)
			_, err = h.Billing.AddIssuer(ctx, a.ID, p.URL, billing.IssuerOptions{Cap: money.Dollar, Most: money.Dollar, Require: map[string]string{"org": "acme"}, Listed: true})
			must(t, err)
			balance = func() money.Amount {
				left, err := h.Billing.Balance(ctx, &a)
				must(t, err)
				return left
			}
		})
		charged := 0
		counts := func(t *testing.T, fetches int) {
			t.Helper()
			if got := p.obey(t, "fetches"); got != fetches {
				t.Errorf("the keys were fetched %d times, want %d", got, fetches)
			}
			if got, want := balance(), money.Dollar-money.Amount(charged)*each; got != want {
				t.Errorf("the balance is %s, want %s: %d calls of %s", got, want, charged, each)
			}
		}
		for name, tt := range map[string]struct {
			want    map[string]string
			charged int
			command []string
		}{
			"Node": {paidByTokens, 7, []string{"node", filepath.Join(installedIn, "client.mjs")}},
			"Python by A2A": {map[string]string{
				"login": "/.well-known/openid-configuration", "JSONRPC": "TASK_STATE_COMPLETED hi", "HTTP+JSON": "TASK_STATE_COMPLETED hi",
			}, 2, python("python1", "by_a2a.py")},
			"Python by MCP": {map[string]string{"program": "hi", "program at the host": "hi", "login": "hi"}, 3, python("mcppython2", "by_mcp.py")},
		} {
			t.Run(name, func(t *testing.T) {
				cmd := exec.CommandContext(t.Context(), tt.command[0], append(tt.command[1:], host, p.URL)...)
				var problems bytes.Buffer
				cmd.Stderr = &problems
				out, err := cmd.Output()
				var got map[string]string
				if err != nil || json.Unmarshal(out, &got) != nil {
					t.Fatalf("%v: %v\n%s%s", tt.command, err, out, problems.Bytes())
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("scenarios (-want +got):\n%s", diff)
				}
				charged += tt.charged
				counts(t, 1)
			})
		}
		t.Run("refused", func(t *testing.T) {
			vacant := host + "/v/paid"
			for name, tt := range map[string]struct{ token, want string }{
				"expired":           {p.token(t, "brief", vacant), "the token expired at"},
				"another resource":  {p.token(t, "robot", host+"/v/echo"), "the token is for another audience"},
				"the whole host":    {p.token(t, "robot", host), "the token is for another audience"},
				"opaque":            {p.token(t, "robot", ""), "expected Bearer and a key of this host"},
				"without the claim": {p.token(t, "stranger", vacant), "lacks the claim org"},
				"an unknown issuer": {unknown.token(t, "robot", vacant), "tokens of the issuer"},
				"signed by another": {withoutSignature(p.token(t, "robot", vacant)) + "." + signature(p.token(t, "robot", vacant+"/mcp")), "does not verify"},
				"no signature":      {withoutSignature(p.token(t, "robot", vacant)) + ".", "does not verify"},
			} {
				for way := range ways {
					status, challenge, body := asks(t, host, way, tt.token)
					metadata := host + "/.well-known/oauth-protected-resource/v/paid"
					if way == "MCP" {
						metadata += "/mcp"
					}
					if want := `Bearer realm="vacancy", error="invalid_token", resource_metadata="` + metadata + `"`; status != http.StatusUnauthorized || challenge != want || !strings.Contains(body, tt.want) {
						t.Errorf("%s by %s: %d, %s, %s; want 401, %s, %s", name, way, status, challenge, body, want, tt.want)
					}
					if strings.Contains(body, tt.token) {
						t.Errorf("%s by %s: the answer quotes the token", name, way)
					}
				}
			}
			counts(t, 1)
			if n := unknown.obey(t, "fetches"); n != 0 {
				t.Errorf("the keys of an unknown issuer were fetched %d times", n)
			}
		})
		t.Run("rotation", func(t *testing.T) {
			before := p.token(t, "robot", host+"/v/paid")
			p.obey(t, "rotate")
			after := p.token(t, "robot", host+"/v/paid")
			ahead.Store(int64(29 * time.Second))
			for way := range ways {
				if status, _, body := asks(t, host, way, after); status != http.StatusUnauthorized || !strings.Contains(body, "key-2") {
					t.Errorf("29 s after the fetch by %s: %d %s, want 401 and the key", way, status, body)
				}
			}
			if status, _, body := asks(t, host, "text", before); status != http.StatusOK {
				t.Errorf("the key before: %d %s", status, body)
			}
			charged++
			counts(t, 1)
			ahead.Store(int64(31 * time.Second))
			again := []string{"text", "OpenAI", "MCP"} // the message by A2A has the same id each time
			var all sync.WaitGroup
			for range 4 {
				for _, way := range again {
					all.Go(func() {
						if status, _, body := asks(t, host, way, after); status != http.StatusOK || !strings.Contains(body, "hi") {
							t.Errorf("31 s after the fetch by %s: %d %s", way, status, body)
						}
					})
				}
			}
			all.Wait()
			charged += 4 * len(again)
			if status, _, body := asks(t, host, "text", before); status != http.StatusUnauthorized || !strings.Contains(body, "key-1") {
				t.Errorf("a key that the provider withdrew: %d %s, want 401 and the key", status, body)
			}
			counts(t, 2)
		})
	})
	day := func(days int) string { return start.AddDate(0, 0, days).UTC().Format(time.DateOnly) }
	usage := vacancyOf(t, dir, "usage", "acme", "--by", "subject", "--from", day(-1), "--until", day(2))
	for _, want := range []string{`(?m)^paid +robot \([0-9a-f]{32}\) +23 +0 +\$0\.046`, `(?m)^paid +ann \([0-9a-f]{32}\) +1 +0 +\$0\.002`, `(?m)^paid +bob \([0-9a-f]{32}\) +1 +0 +\$0\.002`} {
		if !regexp.MustCompile(want).MatchString(usage) {
			t.Errorf("usage is %s, want %s", usage, want)
		}
	}
	if out := vacancyOf(t, dir, "verify"); !strings.Contains(out, "whole") {
		t.Errorf("verify: %s", out)
	}
}

func withoutSignature(token string) string { return token[:strings.LastIndexByte(token, '.')] }
func signature(token string) string        { return token[strings.LastIndexByte(token, '.')+1:] }
