package web_test

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/front/standalone/standalonetest"
	"github.com/vacancy-host/vacancy/shared/front/web"
	"github.com/vacancy-host/vacancy/shared/front/web/webpath"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/listing"
)

// hosted is a host in this process.
type hosted struct {
	*standalone.Host
	t   testing.TB
	url string
}

func newHost(t testing.TB) *hosted {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &hosted{t: t, url: "http://" + listener.Addr().String()}
	h.Host, err = standalone.Open(standalone.Config{
		Dir: filepath.Join(t.TempDir(), "host"), URL: h.url, AllowNew: true, AllowLoopback: true, OwnMachine: true, Log: slog.New(slog.DiscardHandler), Now: time.Now, Rand: rand.Reader,
	})
	if err != nil {
		t.Fatal(err)
	}
	standalonetest.Run(t, h.Host, standalone.RunConfig{Public: listener})
	return h
}

func (h *hosted) create(name, capability string, publish bool) vacants.Record {
	h.t.Helper()
	r, err := h.Vacants.Create(h.t.Context(), vacants.CreateSpec{Name: name, Capability: capability, Substrate: "echo"})
	if err == nil && publish {
		r, _, err = h.Vacants.Publish(h.t.Context(), r.ID, vacants.PublishOptions{})
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return r
}

type answer struct {
	status int
	header http.Header
	body   string
}

// client does not follow redirects.
var client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

func do(t *testing.T, method, url string, headers ...string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	resp.Header.Del("Date")
	return answer{resp.StatusCode, resp.Header, string(b)}
}

func TestPagesAnswerAsTheTableSays(t *testing.T) {
	h := newHost(t)
	demo := h.create("demo", "Echoes", true)
	h.create("quiet", "Is not published", false)
	for _, name := range []string{"web", "log", "keys"} { // an address below /v/ is a vacant's, whatever its name
		h.create("x"+name, "Has the name of a page", false)
	}
	for path, want := range map[string]struct {
		status int
		cache  string
		says   string
	}{
		"/web/":                            {200, "public, max-age=10", "<h1>Agents of this host</h1>"},
		"/web/search?q=echoes":             {200, "public, max-age=2", "Search"},
		"/web/search?max_price=lots":       {400, "no-store", "max_price: expected dollars such as 0.05, got &#34;lots&#34;"},
		"/web/search?max_price=-1":         {400, "no-store", "max_price: expected dollars such as 0.05, got &#34;-1&#34;"},
		"/web/vacants/demo":                {200, "public, max-age=10", `data-id="` + demo.ID.String() + `"`},
		"/web/vacants/" + demo.ID.String(): {200, "public, max-age=10", "vacancy call " + h.url + "/v/demo/"},
		"/web/vacants/quiet":               {200, "public, max-age=10", "not published: it can be found only by this address"},
		"/web/vacants/nobody":              {404, "no-store", "this host has no such page or vacant"},
		"/web/vacants/%3Cb%3E":             {404, "no-store", "this host has no such page or vacant"},
		"/web/log":                         {200, "public, max-age=10", "Transparency log"},
		"/web/log?to=x":                    {400, "no-store", "to: expected the number of an event, got &#34;x&#34;"},
		"/web/log/1":                       {200, "public, max-age=10", "register"},
		"/web/log/0":                       {404, "no-store", "this host has no such page or vacant"},
		"/web/log/99":                      {404, "no-store", "this host has no such page or vacant"},
		"/web/keys":                        {200, "public, max-age=10", "vacancy init"},
		"/web/chains":                      {200, "public, max-age=10", "vacancy verify FILE"},
		"/web/nothing":                     {404, "no-store", "this host has no such page or vacant"},
		"/web//log":                        {404, "no-store", "this host has no such page or vacant"},
		"/web/..//evil.example/x":          {404, "no-store", "this host has no such page or vacant"},
		// A page has only one address, so an id is accepted in only one form.
		"/web/vacants/%0A" + demo.ID.String():               {404, "no-store", "this host has no such page or vacant"},
		"/web/vacants/%20" + demo.ID.String():               {404, "no-store", "this host has no such page or vacant"},
		"/web/vacants/" + strings.ToUpper(demo.ID.String()): {404, "no-store", "this host has no such page or vacant"},
	} {
		got := do(t, "GET", h.url+path)
		if got.status != want.status || got.header.Get("Cache-Control") != want.cache || !strings.Contains(got.body, want.says) {
			t.Errorf("%s: %d %q, want %d %q and %q in:\n%s", path, got.status, got.header.Get("Cache-Control"), want.status, want.cache, want.says, got.body)
		}
		for name, value := range map[string]string{
			"Content-Type": "text/html; charset=utf-8", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
		} {
			if got.header.Get(name) != value {
				t.Errorf("%s: %s: %q", path, name, got.header.Get(name))
			}
		}
		if got.header["Set-Cookie"] != nil {
			t.Errorf("%s sets a cookie", path)
		}
		head := do(t, "HEAD", h.url+path)
		if head.status != got.status || head.body != "" || head.header.Get("Content-Length") != fmt.Sprint(len(got.body)) {
			t.Errorf("HEAD %s: %d, %s bytes", path, head.status, head.header.Get("Content-Length"))
		}
		if post := do(t, "POST", h.url+path); post.status != 405 || post.header.Get("Allow") != "GET, HEAD" {
			t.Errorf("POST %s: %d, Allow %q", path, post.status, post.header.Get("Allow"))
		}
		if tag := got.header.Get("ETag"); tag != "" {
			if again := do(t, "GET", h.url+path, "If-None-Match: "+tag); again.status != 304 || again.body != "" {
				t.Errorf("%s again: %d %s", path, again.status, again.body)
			}
		}
	}
	if got := do(t, "GET", h.url+"/"); got.status != 303 || got.header.Get("Location") != "/web/" {
		t.Errorf("the root: %d to %q", got.status, got.header.Get("Location"))
	}
	if got := do(t, "GET", h.url+"/web/vacants/quiet"); got.header.Get("X-Robots-Tag") != "noindex" || !strings.Contains(got.body, `<meta name="robots" content="noindex">`) {
		t.Error("the page of a vacant that is not published may be indexed")
	}
	page := do(t, "GET", h.url+"/web/vacants/demo").body
	total := len(page)
	at := page[strings.Index(page, "/web/assets/"):]
	at = at[:strings.LastIndex(at[:strings.IndexByte(at, '"')], "/")+1]
	for _, name := range []string{"style.css", "icon.svg", "page.js", "vacant.js", "talk.js", "caller.js", "book.js", "dom.js"} {
		file := do(t, "GET", h.url+at+name)
		if file.status != 200 || file.header.Get("Cache-Control") != "public, max-age=31536000, immutable" || file.header.Get("Content-Security-Policy") == "" {
			t.Errorf("%s: %d %v", name, file.status, file.header)
		}
		total += len(file.body)
	}
	if total > 110_000 {
		t.Errorf("a vacant's page has %d bytes with its files, want at most 110 KB", total)
	}
	// A page of an earlier program version must still find its assets.
	if file := do(t, "GET", h.url+"/web/assets/0123456789abcdef/receipt.js"); file.status != 200 || file.header.Get("Cache-Control") != "public, max-age=60" {
		t.Errorf("a file of another program: %d %v", file.status, file.header)
	}
	if got := do(t, "GET", h.url+"/web"); got.status != 303 || got.header.Get("Location") != "/web/" {
		t.Errorf("/web: %d to %q", got.status, got.header.Get("Location"))
	}
	for _, path := range []string{at + "nothing.js", at + "..%2fpages%2fhome.html", at + "package.json"} {
		if got := do(t, "GET", h.url+path); got.status != 404 {
			t.Errorf("%s: %d", path, got.status)
		}
	}
}

// Browsers are redirected to the page of a vacant. All other clients get the card.
func TestTheAddressOfAVacantIsAPageForBrowsers(t *testing.T) {
	h := newHost(t)
	h.create("demo", "Echoes", false)
	for accept, page := range map[string]bool{
		"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8": true, "text/html": true, "text/html;q=0.9, application/json;q=0.8": true, "*/*": false, "application/json": false,
		"text/html, application/json": false, "text/html;q=0.5, application/json": false, "text/*": false, "text/html;q=0.2,*/*;q=0.2": false, "text/html;q=x": false, "": false,
	} {
		for _, path := range []string{"/v/demo", "/v/demo/"} {
			got := do(t, "GET", h.url+path, "Accept: "+accept)
			if page && (got.status != 303 || got.header.Get("Location") != "/web/vacants/demo" || got.body != "") {
				t.Errorf("%q: %d %s", accept, got.status, got.body)
			}
			if !page && (got.status != 200 || !strings.Contains(got.body, `"name":"demo"`)) {
				t.Errorf("%q: %d %s", accept, got.status, got.body)
			}
			if !slices.Contains(got.header.Values("Vary"), "Accept") {
				t.Errorf("%q: Vary %q", accept, got.header.Get("Vary"))
			}
		}
	}
	demo, err := h.Vacants.GetByName(t.Context(), vacants.OperatorAsker(), "demo")
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{demo.ID.String(), "%0A" + demo.ID.String(), strings.ToUpper(demo.ID.String())} {
		if got := do(t, "GET", h.url+"/v/"+id, "Accept: text/html"); got.status == 303 && got.header.Get("Location") != "/web/vacants/"+demo.ID.String() {
			t.Errorf("%s leads to %q", id, got.header.Get("Location"))
		}
	}
	if got := do(t, "GET", h.url+"/v/demo/.well-known/agent-card.json", "Accept: text/html"); got.status != 200 {
		t.Errorf("the card is %d for a browser", got.status)
	}
}

// A browser that opens an unknown path gets a page. All other clients get a JSON error. Browsers
// find the icon at its usual address.
func TestAnUnknownPathIsAPageForBrowsers(t *testing.T) {
	h := newHost(t)
	h.create("demo", "Echoes", false)
	for _, path := range []string{"/nope", "/nope/deeper?x=1", "//evil.example", "/%0d%0aX:y", "/v/nobody", "/v/demo/nope", "/v/"} {
		got := do(t, "GET", h.url+path, "Accept: text/html,application/xhtml+xml,*/*;q=0.8")
		if got.status != 404 || !strings.Contains(got.body, "this host has no such page or vacant") || !slices.Contains(got.header.Values("Vary"), "Accept") || got.header.Get("Content-Security-Policy") == "" {
			t.Errorf("%s: %d %v: %s", path, got.status, got.header, got.body)
		}
		if got := do(t, "GET", h.url+path, "Accept: */*"); got.status != 404 || !strings.HasPrefix(got.body, "{") || !slices.Contains(got.header.Values("Vary"), "Accept") {
			t.Errorf("%s for a program: %d %s", path, got.status, got.body)
		}
		// A function without pages redirects to the pages of its host.
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "http://x.example/", nil)
		r.URL.Path = path
		webpath.Redirect.ServeHTTP(w, r)
		if to := w.Header().Get("Location"); w.Code != 303 || !strings.HasPrefix(to, "/web/") || strings.ContainsAny(to[len("/web/"):], "/\r\n") {
			t.Errorf("%s leads to %q", path, to)
		}
	}
	if got := do(t, "POST", h.url+"/nope", "Accept: text/html"); got.status == 303 {
		t.Errorf("a POST is led to %q", got.header.Get("Location"))
	}
	first := do(t, "GET", h.url+"/favicon.ico")
	second := do(t, "GET", h.url+first.header.Get("Location"))
	icon := do(t, "GET", h.url+second.header.Get("Location"))
	if first.status != 303 || first.header.Get("Cache-Control") != "public, max-age=86400" || second.status != 303 || icon.status != 200 ||
		icon.header.Get("Content-Type") != "image/svg+xml" || icon.header.Get("Cache-Control") != "public, max-age=31536000, immutable" || len(icon.body) > 1<<10 {
		t.Errorf("the icon: %v, then %v, then %v", first, second, icon)
	}
}

func TestAPageForAnUnknownPathKeepsTheHeadersOfOuterHandlers(t *testing.T) {
	w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/nope", nil)
	r.Header.Set("Accept", "text/html")
	for _, name := range []string{"X-Request-Id", "Access-Control-Allow-Origin", "Etag"} {
		w.Header().Set(name, "x")
	}
	webpath.ServePages(http.NotFoundHandler(), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) })).ServeHTTP(w, r)
	if h := w.Header(); w.Code != 404 || h.Get("X-Request-Id") == "" || h.Get("Access-Control-Allow-Origin") == "" || h.Get("Etag") != "" {
		t.Errorf("%d %v, want the request id and CORS headers, and none of the answer", w.Code, w.Header())
	}
}

// The pages of a closed child equal the pages of an unknown id, byte for byte.
func TestAClosedChildIsAsUnknown(t *testing.T) {
	h := newHost(t)
	parent := h.create("parent", "Has children", true)
	child, _, err := h.Vacants.Spawn(t.Context(), vacants.SpawnSpec{Parent: parent.ID, Path: "D2", Name: "child", Capability: "Is closed", Substrate: "echo"})
	if err != nil {
		t.Fatal(err)
	}
	unknown, err := identity.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	same := func(what, path, other string, headers ...string) {
		a, b := do(t, "GET", h.url+path, headers...), do(t, "GET", h.url+other, headers...)
		a.header.Del("X-Request-Id") // of each answer
		b.header.Del("X-Request-Id")
		if a.status != 404 || a.body != b.body || fmt.Sprint(a.header) != fmt.Sprint(b.header) {
			t.Errorf("%s differs: %d %v %s\nand %v %s", what, a.status, a.header, a.body, b.header, b.body)
		}
	}
	same("the page by id", "/web/vacants/"+child.ID.String(), "/web/vacants/"+unknown.ID().String())
	same("the page by name", "/web/vacants/child", "/web/vacants/thild")
	same("the redirection", "/v/"+child.ID.String(), "/v/"+unknown.ID().String(), "Accept: text/html")
	if got := do(t, "GET", h.url+"/web/vacants/parent"); strings.Contains(got.body, child.ID.Short()) {
		t.Error("the parent's page names its closed child")
	}
	if got := do(t, "GET", h.url+"/web/search?q=closed"); strings.Contains(got.body, child.ID.Short()) {
		t.Error("search finds the closed child")
	}
}

// Hidden events must not cost a page more reads than visible events.
func TestHiddenEventsAreNotLookedThrough(t *testing.T) {
	var asked atomic.Int64
	api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/checkpoint" {
			_, _ = io.WriteString(w, "vacancy/x\n1000\nAAAA\n\n\u2014 x y\n")
			return
		}
		if strings.HasPrefix(r.URL.Path, "/v1/event/") {
			asked.Add(1)
		}
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"detail":"no","code":"not_found"}`)
	})
	pages := web.Handler(web.Config{API: api, Log: slog.New(slog.DiscardHandler), Now: time.Now})
	w := httptest.NewRecorder()
	pages.ServeHTTP(w, httptest.NewRequest("GET", "http://x.example/web/log?to=500", nil))
	if w.Code != http.StatusOK || asked.Load() != 10 || !strings.Contains(w.Body.String(), `href="/web/log?to=490"`) {
		t.Errorf("%d after %d reads: %s", w.Code, asked.Load(), w.Body)
	}
}

// If a read fails because of a fault, the page fails. It must not show the missing data as absent.
func TestAFaultOfAnyReadIsAFaultOfThePage(t *testing.T) {
	h := newHost(t)
	parent := h.create("parent", "Has a price", true)
	if _, err := h.Vacants.SetPrice(t.Context(), parent.ID, price.Price{Flat: 2000}); err != nil {
		t.Fatal(err)
	}
	log, err := h.OpenLog(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := log.Seal(t.Context()); err != nil && !problem.Is(err, problem.Conflict) { // the host may seal, too
		t.Fatal(err)
	}
	for _, path := range []string{"/web/", "/web/search?q=price", "/web/vacants/parent", "/web/vacants/" + parent.ID.String(), "/web/log", "/web/log/1"} {
		ask := func(failing string) (status int, reads []string) {
			api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if reads = append(reads, r.URL.Path); r.URL.Path == failing {
					w.WriteHeader(http.StatusServiceUnavailable)
					_, _ = io.WriteString(w, `{"detail":"no","code":"unavailable"}`)
					return
				}
				got := do(t, r.Method, h.url+r.URL.RequestURI())
				w.WriteHeader(got.status)
				_, _ = io.WriteString(w, got.body)
			})
			w := httptest.NewRecorder()
			web.Handler(web.Config{API: api, Log: slog.New(slog.DiscardHandler), Now: time.Now}).ServeHTTP(w, httptest.NewRequest("GET", h.url+path, nil))
			return w.Code, reads
		}
		status, reads := ask("")
		if status != http.StatusOK || len(reads) == 0 {
			t.Errorf("%s: %d after the reads %v", path, status, reads)
		}
		for _, read := range reads {
			if status, _ := ask(read); status != http.StatusServiceUnavailable {
				t.Errorf("%s: %d when %s fails, want 503", path, status, read)
			}
		}
	}
}

// Texts of vacants are shown as texts, and characters that would hide or reorder other text are
// made visible.
func TestForeignTextsAreShownAsTheyAre(t *testing.T) {
	h := newHost(t)
	h.create("hostile", `<script>alert(1)</script> {{.}} javascript:alert(1) "onload="x" `+"\u202e\u2066\u200b"+strings.Repeat("w", 2000), true)
	got := do(t, "GET", h.url+"/web/vacants/hostile").body
	for _, bad := range []string{"<script>alert", "\u202e", "\u2066", "\u200b", `"onload="x"`, `href="javascript:`} {
		if strings.Contains(got, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	if !strings.Contains(got, "&lt;script&gt;alert(1)&lt;/script&gt; {{.}} javascript:alert(1)") || !strings.Contains(got, "⟨U&#43;202E⟩⟨U&#43;2066⟩⟨U&#43;200B⟩www") {
		t.Errorf("the text is not shown: %s", got)
	}
}

// signed returns a signed card of a new key, in the registry's form.
func signed(t *testing.T, capability string) (id string, match map[string]any) {
	t.Helper()
	key, err := identity.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := card.Card{VacantID: key.ID(), CapabilityText: capability, AllowedSubstrates: []string{"echo"}, HaloVersion: card.Version, Endpoint: "https://elsewhere.example/$(touch x)/v/1"}
	if err := c.Sign(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	id = key.ID().String()
	return id, map[string]any{"vacant_id": id, "capability_card_blob_hex": hex.EncodeToString(c.Blob()), "visibility": "PUBLIC", "state": "ACTIVE"}
}

// matchesOf returns an API whose searches find the matches.
func matchesOf(matches ...any) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/search":
			_ = json.NewEncoder(w).Encode(map[string]any{"matches": matches})
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"detail":"no","code":"not_found"}`)
		}
	})
}

// Pages are cached for all clients, so they contain only what the API shows to anonymous clients.
// The API counts the requests of a page under its client's address.
func TestPagesAskTheAPIAsTheirViewerWithoutItsHeaders(t *testing.T) {
	id, match := signed(t, "Answers letters")
	found := matchesOf(match)
	var asked []*http.Request
	pages := web.Handler(web.Config{Log: slog.New(slog.DiscardHandler), Now: time.Now, API: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r)
		switch {
		case r.URL.Path == "/v1/checkpoint":
			_, _ = io.WriteString(w, "vacancy/x\n2\nAAAA\n\n\u2014 x y\n")
		case strings.HasPrefix(r.URL.Path, "/v1/capability_card/"):
			_ = json.NewEncoder(w).Encode(match)
		default:
			found.ServeHTTP(w, r)
		}
	})})
	view := func(path, address string, headers http.Header) (sent []http.Header) {
		asked = nil
		r := httptest.NewRequest("GET", "http://x.example"+path, nil)
		r.Header, r.RemoteAddr = headers, address
		pages.ServeHTTP(httptest.NewRecorder(), r)
		for _, q := range asked {
			if q.RemoteAddr != address {
				t.Errorf("%s viewed from %s asks for %s from %s", path, address, q.URL, q.RemoteAddr)
			}
			sent = append(sent, q.Header)
		}
		return sent
	}
	headers := http.Header{}
	for _, name := range []string{"Authorization", "Cookie", "Vacancy-Caller", "Vacancy-Edge", "X-Forwarded-For", "Forwarded", "Accept-Language", "If-None-Match", "Range"} {
		headers.Set(name, "secret")
	}
	for _, path := range []string{"/web/", "/web/search?q=letters", "/web/vacants/" + id, "/web/vacants/" + id + "?from=2", "/web/log", "/web/log/1"} {
		plain := view(path, "203.0.113.7:1234", http.Header{})
		if got := view(path, "203.0.113.8:1234", headers); len(got) == 0 || fmt.Sprint(got) != fmt.Sprint(plain) {
			t.Errorf("%s: the API is sent %v, without the viewer's headers %v", path, got, plain)
		}
	}
}

// Each match in a list shows its own verification result.
func TestListsSayWhichCardsDoNotVerify(t *testing.T) {
	const bad = "The card of this vacant does not verify."
	id, good := signed(t, "Answers letters")
	otherID, other := signed(t, "Answers others")
	forgedID, forged := signed(t, "Answers truly")
	blob := forged["capability_card_blob_hex"].(string)
	forged["capability_card_blob_hex"] = hex.EncodeToString([]byte(strings.Replace(string(must(hex.DecodeString(blob))), "truly", "TRULY", 1)))
	other["capability_card_blob_hex"] = good["capability_card_blob_hex"] // of another vacant
	pages := web.Handler(web.Config{API: matchesOf(good, other, forged), Log: slog.New(slog.DiscardHandler), Now: time.Now})
	for _, path := range []string{"/web/", "/web/search?q=answers", "/web/"} {
		w := httptest.NewRecorder()
		pages.ServeHTTP(w, httptest.NewRequest("GET", "http://x.example"+path, nil))
		cards := strings.Split(w.Body.String(), `<li class="card">`)[1:]
		if len(cards) != 3 {
			t.Fatalf("%s has %d results, want 3: %d %s", path, len(cards), w.Code, w.Body)
		}
		for i, want := range []struct {
			id, says string
			bad      bool
		}{{id, "Answers letters", false}, {otherID, "", true}, {forgedID, "", true}} {
			shows := strings.Contains(cards[i], "Answers ")
			if !strings.Contains(cards[i], want.id) || strings.Contains(cards[i], bad) != want.bad || shows == want.bad || !strings.Contains(cards[i], want.says) {
				t.Errorf("%s: result %d is %s, want %+v", path, i+1, cards[i], want)
			}
		}
	}
}

// Pages must be honest and bounded for any answer of the registry.
func TestARegistryMayLie(t *testing.T) {
	const detail = "open /var/lib/host/data: permission denied" // is for programs
	id, good := signed(t, "Is elsewhere")
	_, other := signed(t, "Is another")
	wrong := func(change func(map[string]any)) map[string]any {
		m := map[string]any{}
		for k, v := range good {
			m[k] = v
		}
		change(m)
		return m
	}
	for name, tt := range map[string]struct {
		card   any
		status int
		says   string
	}{
		"honest":             {good, 200, "Is elsewhere"},
		"another's card":     {wrong(func(m map[string]any) { m["capability_card_blob_hex"] = other["capability_card_blob_hex"] }), 502, "did not verify"},
		"another's match":    {other, 502, "did not verify"},
		"no card":            {wrong(func(m map[string]any) { delete(m, "capability_card_blob_hex") }), 502, "did not verify"},
		"no JSON":            {json.RawMessage(`{`), 502, "did not verify"},
		"too much":           {json.RawMessage(`{"vacant_id":"` + strings.Repeat("x", 9<<20) + `"}`), 502, "did not verify"},
		"too many requests":  {429, 429, "too many requests"},
		"a refusal":          {400, 400, "malformed request"},
		"a fault":            {500, 500, "internal error"},
		"storage that fails": {503, 503, "storage or network unavailable"},
	} {
		api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			status, isStatus := tt.card.(int)
			switch {
			case strings.HasPrefix(r.URL.Path, "/v1/capability_card/") && isStatus:
				w.Header().Set("Retry-After", "7")
				w.WriteHeader(status)
				_, _ = io.WriteString(w, `{"detail":"`+detail+`","code":"`+map[int]string{400: "malformed", 429: "rate_limited", 500: "internal", 503: "unavailable"}[status]+`"}`)
			case strings.HasPrefix(r.URL.Path, "/v1/capability_card/"):
				_ = json.NewEncoder(w).Encode(tt.card)
			case strings.HasPrefix(r.URL.Path, "/v1/event_log/"):
				_, _ = io.WriteString(w, `[]`)
			case strings.HasPrefix(r.URL.Path, "/v1/lineage/"):
				_, _ = io.WriteString(w, `{"vacant_id":"`+id+`","chain":[]}`)
			default:
				w.WriteHeader(404)
				_, _ = io.WriteString(w, `{"detail":"no","code":"not_found"}`)
			}
		})
		pages := web.Handler(web.Config{API: api, Log: slog.New(slog.DiscardHandler), Now: time.Now})
		w := httptest.NewRecorder()
		pages.ServeHTTP(w, httptest.NewRequest("GET", "http://x.example/web/vacants/"+id, nil))
		body := w.Body.String()
		if w.Code/100 != tt.status/100 || tt.status == 200 && !strings.Contains(body, tt.says) || tt.status != 200 && strings.Contains(body, "Is another") || len(body) > 60<<10 {
			t.Errorf("%s: %d, %d bytes, %.300s", name, w.Code, len(body), body)
		}
		if lead := `<p class="lead">` + tt.says + `</p>`; tt.status != 200 && !strings.Contains(body, lead) || strings.Contains(body, detail) {
			t.Errorf("%s: the page says %s, want %s", name, body, lead)
		}
		if _, refused := tt.card.(int); refused != (w.Header().Get("Retry-After") == "7") {
			t.Errorf("%s: Retry-After %q", name, w.Header().Get("Retry-After"))
		}
		if name == "honest" && (!strings.Contains(body, "vacancy call "+id) || strings.Contains(body, `href="https://elsewhere.example`)) {
			t.Errorf("a vacant elsewhere: %s", body)
		}
	}
}

// A cached result is verified again if any part of its input has changed.
func TestACachedResultIsReadAgainWhenItChanges(t *testing.T) {
	id, match := signed(t, "Answers letters")
	pages := web.Handler(web.Config{API: matchesOf(match), Log: slog.New(slog.DiscardHandler), Now: time.Now})
	good := match["capability_card_blob_hex"].(string)
	forged := hex.EncodeToString([]byte(strings.Replace(string(must(hex.DecodeString(good))), "letters", "LETTERS", 1)))
	costs := func(micro int64) json.RawMessage {
		l := listing.New(must(identity.ParseID(id)), 1)
		l.Price = micro
		return l.Blob()
	}
	for _, step := range []struct {
		blob, card, state string
		listing           json.RawMessage
		verified          bool
		price             string
	}{
		{good, "", "ACTIVE", costs(50_000), true, "$0.05 a call"},
		{good, "", "SUNK", costs(50_000), true, "$0.05 a call"},
		{good, "", "ACTIVE", costs(60_000), true, "$0.06 a call"},
		{good, "", "ACTIVE", nil, true, ""},
		{good, "", "ACTIVE", costs(0), true, "free"},
		{forged, "", "ACTIVE", nil, false, ""},
		{"", good, "ACTIVE", nil, true, ""}, // of the reference's route
		{"", forged, "ACTIVE", nil, false, ""},
		{good, "", "ACTIVE", costs(50_000), true, "$0.05 a call"},
	} {
		match["capability_card_blob_hex"], match["capability_card"], match["state"], match["listing"] = step.blob, step.card, step.state, step.listing
		if step.listing == nil {
			delete(match, "listing")
		}
		w := httptest.NewRecorder()
		pages.ServeHTTP(w, httptest.NewRequest("GET", "http://x.example/web/search", nil))
		body := w.Body.String()
		if w.Code != 200 || !strings.Contains(body, id) || strings.Contains(body, "Answers letters") != step.verified || strings.Contains(body, "LETTERS") || !strings.Contains(body, step.state) {
			t.Errorf("%+v: %d %s", step, w.Code, body)
		}
		if step.price == "" && strings.Contains(body, " a call</span>") || !strings.Contains(body, step.price) {
			t.Errorf("%+v: the price in %s", step, body)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Prices have the same form as in other places.
func TestResultsSayTheirPrices(t *testing.T) {
	h := newHost(t)
	paid := h.create("paid", "Answers letters", true)
	if _, err := h.Vacants.SetPrice(t.Context(), paid.ID, price.Price{Flat: 50_000}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/web/", "/web/search?q=letters"} {
		if got := do(t, "GET", h.url+path).body; !strings.Contains(got, "<span>$0.05 a call</span>") || strings.Contains(got, "$$") {
			t.Errorf("%s: %s", path, got)
		}
	}
	if got := do(t, "GET", h.url+"/web/vacants/paid").body; !strings.Contains(got, "<span>$0.05 a call</span>") || !strings.Contains(got, `data-most="50000"`) {
		t.Errorf("the vacant's page: %s", got)
	}
}

// The next page belongs to the same search. A listing that another vacant signed must not show a
// price.
func TestResultsOfARegistryThatLies(t *testing.T) {
	sign := func(text string, micro int64) (match map[string]any, list json.RawMessage) {
		key, err := identity.NewKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		l := listing.Listing{VacantID: key.ID(), Version: 1, Price: micro, Tags: []string{text}}
		if err := l.Sign(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		c := card.Card{VacantID: key.ID(), CapabilityText: text, AllowedSubstrates: []string{"echo"}, HaloVersion: card.Version, Endpoint: "https://elsewhere.example/v/1"}
		if err := c.Sign(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		return map[string]any{"vacant_id": key.ID().String(), "capability_card_blob_hex": hex.EncodeToString(c.Blob()), "visibility": "PUBLIC", "state": "ACTIVE"}, l.Blob()
	}
	dear, own := sign("dear", 50_000)
	_, cheap := sign("cheap", 1)
	for list, price := range map[string]string{string(own): "$0.05 a call", string(cheap): ""} {
		dear["listing"] = json.RawMessage(list)
		api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_ = json.NewEncoder(w).Encode(map[string]any{"matches": []any{dear}, "next": "more"})
		})
		w := httptest.NewRecorder()
		asked := url.Values{"q": {"a b"}, "tag": {"t"}, "family": {"f"}, "max_price": {"0.5"}}
		web.Handler(web.Config{API: api, Log: slog.New(slog.DiscardHandler), Now: time.Now}).ServeHTTP(w, httptest.NewRequest("GET", "http://x.example/web/search?"+asked.Encode(), nil))
		asked.Set("cursor", "more")
		if !strings.Contains(html.UnescapeString(w.Body.String()), `href="/web/search?`+asked.Encode()+`"`) {
			t.Errorf("the next page is another search: %s", w.Body)
		}
		if got := w.Body.String(); price != "" && !strings.Contains(got, "<span>"+price+"</span>") || price == "" && strings.Contains(got, "<span>$") || strings.Contains(got, "cheap") {
			t.Errorf("with the listing %s: %s", list, got)
		}
	}
}

func TestAPageOfResultsIsSmall(t *testing.T) {
	h := newHost(t)
	for i := range 20 {
		h.create(fmt.Sprint("letters-", i), "Answers letters, and everything that a letter may ask, "+strings.Repeat("politely and ", 20), true)
	}
	if got := do(t, "GET", h.url+"/web/search?q=letters"); strings.Count(got.body, `<li class="card">`) != 20 || len(got.body) > 60<<10 {
		t.Errorf("%d results in %d bytes", strings.Count(got.body, `<li class="card">`), len(got.body))
	}
}
