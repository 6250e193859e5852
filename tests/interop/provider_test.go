package interop

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
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

	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/tests/installed"
)

// oidcProvider is a process of testdata/provider or of testdata/zitadel.
type oidcProvider struct {
	URL      string
	send     io.WriteCloser
	said     *bufio.Reader
	problems *await.Output
}

func startProvider(t *testing.T, command ...string) *oidcProvider {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	problems := new(await.Output)
	cmd.Stderr = problems
	send, err := cmd.StdinPipe()
	must(t, err)
	said, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = send.Close() // the end of its input ends the process
		patience := await.Limit
		if t.Failed() {
			patience = 0 // the process may hang
		}
		defer time.AfterFunc(patience, func() { _ = cmd.Process.Kill() }).Stop()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the provider: %v\n%s", err, problems)
		}
	})
	p := &oidcProvider{send: send, said: bufio.NewReader(said), problems: problems}
	p.URL = p.answer(t)
	return p
}

func (p *oidcProvider) answer(t *testing.T) string {
	t.Helper()
	return await.ReadLine(t, "the provider", p.said, p.problems)
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
	r.Close = true // the provider closes connections that were idle for five seconds, also while a request comes
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

// refuses checks that a token is refused by each of ways, with a challenge and a reason.
func refuses(t *testing.T, host, name, token, reason string) {
	t.Helper()
	for way := range ways {
		status, challenge, body := asks(t, host, way, token)
		metadata := host + "/.well-known/oauth-protected-resource/v/paid"
		if way == "MCP" {
			metadata += "/mcp"
		}
		if want := `Bearer realm="vacancy", error="invalid_token", scope="call", resource_metadata="` + metadata + `"`; status != http.StatusUnauthorized || challenge != want || !strings.Contains(body, reason) {
			t.Errorf("%s by %s: %d, %s, %s; want 401, %s, %s", name, way, status, challenge, body, want, reason)
		}
		if strings.Contains(body, token) {
			t.Errorf("%s by %s: the answer quotes the token", name, way)
		}
	}
}

// perCall is the price of a call of the vacant paid.
const perCall = 2 * money.Dollar / 1000

// hostOfAcme serves the published vacant paid. The tenant acme has a dollar, and takes tokens of issuers.
func hostOfAcme(t *testing.T, dir string, now func() time.Time, issuers map[string]billing.IssuerOptions) (url string, balance func() money.Amount) {
	t.Helper()
	url = hostAt(t, dir, now, map[string]string{"paid": "echo"}, func(h *standalone.Host) {
		ctx := t.Context()
		a, _ := openAcme(t, h, money.Dollar)
		_, _, err := h.Vacants.Publish(ctx, priced(t, h, "paid", perCall).ID, vacants.PublishOptions{})
		must(t, err)
		for issuer, o := range issuers {
			o.SubjectDailyCap, o.TotalDailyCap = money.Dollar, money.Dollar
			_, err = h.Billing.AddIssuer(ctx, a.ID, issuer, o)
			must(t, err)
		}
		balance = func() money.Amount {
			left, err := h.Billing.Balance(ctx, &a)
			must(t, err)
			return left
		}
	})
	return url, balance
}

// paidByMCP are the scenarios of testdata/provider/mcp.mjs: three calls of a program, and a call of a person who has
// logged in.
var paidByMCP = map[string]string{
	"program":               "hi",
	"program with progress": "hi",
	"program at the host":   "hi",
	"login":                 "login",
	"after the login":       "hi",
	"audience of the login": "/v/paid/mcp",
}

// A provider of OpenID Connect that others wrote makes the tokens, and stock clients pay with them. A key that
// the provider begins to sign with counts after 30 seconds. The clock of the host stands still, half an hour
// ahead, so that no test depends on how fast the machine is.
func TestTokensOfAProvider(t *testing.T) {
	needsLocalHost(t)
	installedIn := installed.Node(t, files, "provider", "oidc-provider")
	script := filepath.Join(installedIn, "provider.mjs")
	p, unknown := startProvider(t, "node", script), startProvider(t, "node", script)
	// The scripts run in the installs of other tests, which are named by all of their files.
	python := func(packages, script string) []string {
		return []string{filepath.Join(installed.Python(t, files, packages), "env", "bin", "python"), filepath.Join("testdata", "tokens", script)}
	}
	var ahead atomic.Int64
	start := time.Now().Add(30 * time.Minute)
	dir := filepath.Join(t.TempDir(), "host")
	t.Run("host", func(t *testing.T) {
		host, balance := hostOfAcme(t, dir, func() time.Time { return start.Add(time.Duration(ahead.Load())) }, map[string]billing.IssuerOptions{
			p.URL: {RequiredClaims: map[string]string{"org": "acme"}, Publish: true},
		})
		charged := 0
		counts := func(t *testing.T, fetches int) {
			t.Helper()
			if got := p.obey(t, "fetches"); got != fetches {
				t.Errorf("the keys were fetched %d times, want %d", got, fetches)
			}
			if got, want := balance(), money.Dollar-money.Amount(charged)*perCall; got != want {
				t.Errorf("the balance is %s, want %s: %d calls of %s", got, want, charged, perCall)
			}
		}
		for name, tt := range map[string]struct {
			want    map[string]string
			charged int
			command []string
		}{
			"Node": {map[string]string{
				"a2a": "TASK_STATE_COMPLETED hi, 1 refused", "openai": "hi", "openai of the host": "hi", "openai elsewhere": "401 invalid_api_key",
				"a2a guest JSONRPC": "TASK_STATE_COMPLETED hi", "a2a guest HTTP+JSON": "TASK_STATE_COMPLETED hi", "openai guest": "401 true",
			}, 5, []string{"node", filepath.Join(installedIn, "client.mjs")}},
			"Node by MCP":                  {paidByMCP, 4, []string{"node", filepath.Join(installedIn, "mcp.mjs"), "sdk", "ann"}},
			"Node by MCP of two revisions": {paidByMCP, 4, []string{"node", filepath.Join(installedIn, "mcp.mjs"), "client", "eve"}},
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
				"an unknown issuer": {unknown.token(t, "robot", vacant), "tokens from the issuer"},
				"signed by another": {withoutSignature(p.token(t, "robot", vacant)) + "." + signature(p.token(t, "robot", vacant+"/mcp")), "does not verify"},
				"no signature":      {withoutSignature(p.token(t, "robot", vacant)) + ".", "does not verify"},
			} {
				refuses(t, host, name, tt.token, tt.want)
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
		// Tokens that name no key: only a signature that does not verify tells of the new key.
		t.Run("rotation without kid", func(t *testing.T) {
			p.obey(t, "rotate without kid")
			ahead.Store(int64(2 * time.Minute))
			for n, way := range []string{"text", "OpenAI", "MCP"} {
				after := p.token(t, "robot", host+"/v/paid")
				if status, _, body := asks(t, host, way, after); status != http.StatusOK {
					t.Errorf("%s, rotation %d: %d %s", way, n+1, status, body)
				}
				charged++
				counts(t, n+3)
				p.obey(t, "rotate")
				next := p.token(t, "robot", host+"/v/paid")
				if status, _, body := asks(t, host, way, next); status != http.StatusUnauthorized || !strings.Contains(body, "does not verify") {
					t.Errorf("%s, a moment after a fetch: %d %s", way, status, body)
				}
				if status, _, body := asks(t, host, "text", after); status != http.StatusOK {
					t.Errorf("the key before: %d %s", status, body)
				}
				charged++
				counts(t, n+3)
				ahead.Add(int64(31 * time.Second))
			}
		})
	})
	day := func(days int) string { return start.AddDate(0, 0, days).UTC().Format(time.DateOnly) }
	usage := vacancyOf(t, dir, "usage", "acme", "--by", "subject", "--from", day(-1), "--until", day(2))
	for _, want := range []string{`(?m)^paid +robot \([0-9a-f]{32}\) +34 +0 +\$0\.068`, `(?m)^paid +ann \([0-9a-f]{32}\) +1 +0 +\$0\.002`, `(?m)^paid +bob \([0-9a-f]{32}\) +1 +0 +\$0\.002`, `(?m)^paid +eve \([0-9a-f]{32}\) +1 +0 +\$0\.002`} {
		if !regexp.MustCompile(want).MatchString(usage) {
			t.Errorf("usage is %s, want %s", usage, want)
		}
	}
	if out := vacancyOf(t, dir, "verify"); !strings.Contains(out, "all checks passed") {
		t.Errorf("verify: %s", out)
	}
}

func withoutSignature(token string) string { return token[:strings.LastIndexByte(token, '.')] }
func signature(token string) string        { return token[strings.LastIndexByte(token, '.')+1:] }

// zitadelTokens logs the example's person in by the code flow, and returns the ID token, and an access token of the
// example's program.
func zitadelTokens(t *testing.T, p *oidcProvider) (id, access string) {
	t.Helper()
	const callback, verifier = "http://localhost/callback", "a-verifier-that-has-at-least-forty-three-bytes"
	sum := sha256.Sum256([]byte(verifier))
	jar, err := cookiejar.New(nil)
	must(t, err)
	browser := &http.Client{Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(r.URL.String(), callback) {
			return http.ErrUseLastResponse
		}
		return nil
	}}
	do := func(method, at string, form url.Values, secret string) (*http.Response, []byte) {
		r, err := http.NewRequestWithContext(t.Context(), method, at, strings.NewReader(form.Encode()))
		must(t, err)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if secret != "" {
			r.SetBasicAuth("sid1", secret)
		}
		answer, err := browser.Do(r)
		must(t, err)
		defer answer.Body.Close()
		b, err := io.ReadAll(answer.Body)
		must(t, err)
		return answer, b
	}
	token := func(form url.Values, secret, member string) string {
		_, body := do(http.MethodPost, p.URL+"oauth/token", form, secret)
		var said map[string]any
		must(t, json.Unmarshal(body, &said))
		got, _ := said[member].(string)
		if got == "" {
			t.Fatalf("the provider made no %s: %s", member, body)
		}
		return got
	}
	begin := url.Values{"client_id": {"native"}, "redirect_uri": {callback}, "response_type": {"code"}, "scope": {"openid"}, "state": {"s"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"}}
	form, _ := do(http.MethodGet, p.URL+"auth?"+begin.Encode(), nil, "")
	request := form.Request.URL.Query().Get("authRequestID")
	back, page := do(http.MethodPost, p.URL+"login/username", url.Values{"username": {"test-user@127.0.0.1"}, "password": {"verysecure"}, "id": {request}}, "")
	to, err := back.Location()
	if err != nil {
		t.Fatalf("the login ended at %s: %d %s", back.Request.URL, back.StatusCode, page)
	}
	code := url.Values{"grant_type": {"authorization_code"}, "client_id": {"native"}, "redirect_uri": {callback}, "code": {to.Query().Get("code")}, "code_verifier": {verifier}}
	return token(code, "", "id_token"), token(url.Values{"grant_type": {"client_credentials"}}, "verysecret", "access_token")
}

// The example provider of zitadel's library has a slash at the end of its URL, encrypts its access tokens, and makes
// ID tokens whose audience is the client. None of them counts unless the operator gave that audience.
func TestTokensOfZitadelsExample(t *testing.T) {
	needsLocalHost(t)
	dir := installed.In(t, files, "zitadel", "provider", []string{"cp", "go.mod.txt", "go.mod"}, []string{"cp", "go.sum.txt", "go.sum"}, []string{"go", "build", "-mod=readonly", "-o", "provider", "."})
	p := startProvider(t, filepath.Join(dir, "provider"))
	id, access := zitadelTokens(t, p)
	for name, tt := range map[string]struct {
		issuer        string
		audiences     []string
		id            string // why the ID token is refused; "" if it counts
		fetches, paid int
	}{
		"to the letter":     {p.URL, nil, "the token is for another audience", 1, 0},
		"without the slash": {strings.TrimSuffix(p.URL, "/"), nil, "tokens from the issuer", 0, 0},
		"a given audience":  {p.URL, []string{"native"}, "", 1, len(ways)},
	} {
		t.Run(name, func(t *testing.T) {
			before := p.obey(t, "fetches")
			host, balance := hostOfAcme(t, filepath.Join(t.TempDir(), "host"), time.Now, map[string]billing.IssuerOptions{tt.issuer: {AllowAll: true, Publish: true, Audiences: tt.audiences}})
			refuses(t, host, "encrypted", access, "expected Bearer and a key of this host")
			if tt.id != "" {
				refuses(t, host, "an ID token", id, tt.id)
			} else {
				for way := range ways {
					if status, _, body := asks(t, host, way, id); status != http.StatusOK {
						t.Errorf("an ID token by %s: %d %s", way, status, body)
					}
				}
			}
			if n := p.obey(t, "fetches") - before; n != tt.fetches {
				t.Errorf("the keys were fetched %d times, want %d", n, tt.fetches)
			}
			if left, want := balance(), money.Dollar-money.Amount(tt.paid)*perCall; left != want {
				t.Errorf("the balance is %s, want %s", left, want)
			}
		})
	}
}
