package standalone_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/edge"
	"github.com/vacancy-host/vacancy/shared/front/origin"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/front/standalone"
)

func TestOnlyATrustedProxySaysWhoAsks(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24"), netip.MustParsePrefix("fd00::/8")}
	for name, tt := range map[string]struct {
		peer       string
		forwarded  []string
		proto      string
		want       string // the handler's RemoteAddr; "" if it is refused
		wantHeader bool
	}{
		"a caller without a proxy":           {"192.0.2.1:5000", nil, "", "192.0.2.1:5000", false},
		"a caller who claims another":        {"192.0.2.1:5000", []string{"198.51.100.7"}, "https", "192.0.2.1:5000", false},
		"a caller who claims plain http":     {"192.0.2.1:5000", nil, "http", "192.0.2.1:5000", false},
		"through the proxy":                  {"10.0.0.9:5000", []string{"198.51.100.7"}, "https", "198.51.100.7", false},
		"a lie before the proxy's own word":  {"10.0.0.9:5000", []string{"203.0.113.1, 198.51.100.7"}, "https", "198.51.100.7", false},
		"a lie in a line of its own":         {"10.0.0.9:5000", []string{"203.0.113.1", "198.51.100.7"}, "https", "198.51.100.7", false},
		"two proxies":                        {"10.0.0.9:5000", []string{"198.51.100.7, 10.0.0.3"}, "https", "198.51.100.7", false},
		"only proxies":                       {"10.0.0.9:5000", []string{"10.0.0.4, 10.0.0.3"}, "https", "10.0.0.9:5000", false},
		"IPv6 through an IPv6 proxy":         {"[fd00::1]:5000", []string{"2001:db8::7"}, "https", "2001:db8::7", false},
		"IPv6 with a port":                   {"[fd00::1]:5000", []string{"[2001:db8::7]:443"}, "https", "2001:db8::7", false},
		"a proxy mapped into IPv6":           {"[::ffff:10.0.0.9]:5000", []string{"198.51.100.7"}, "https", "198.51.100.7", false},
		"no address from the proxy":          {"10.0.0.9:5000", []string{"unknown"}, "https", "10.0.0.9:5000", false},
		"nothing from the proxy":             {"10.0.0.9:5000", nil, "", "10.0.0.9:5000", false},
		"plain http to the proxy":            {"10.0.0.9:5000", []string{"198.51.100.7"}, "http", "", false},
		"plain http to the last proxy alone": {"10.0.0.9:5000", []string{"198.51.100.7"}, "HTTP", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			h := standalone.BehindProxy(trusted, true, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				got = r.RemoteAddr
				if r.Header.Get("X-Forwarded-For")+r.Header.Get("X-Forwarded-Proto") != "" {
					t.Error("the handler sees the proxy's headers")
				}
			}))
			r := httptest.NewRequest("GET", "/", nil)
			r.RemoteAddr = tt.peer
			r.Header["X-Forwarded-For"] = tt.forwarded
			if tt.proto != "" {
				r.Header.Set("X-Forwarded-Proto", tt.proto)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if got != tt.want || (tt.want == "") != (w.Code == http.StatusForbidden) {
				t.Errorf("the handler sees %q, status %d; want %q", got, w.Code, tt.want)
			}
		})
	}
}

func FuzzForwarded(f *testing.F) {
	f.Add("198.51.100.7, 10.0.0.3")
	f.Add("[::1]:80,,")
	f.Fuzz(func(t *testing.T, header string) {
		trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
		h := standalone.BehindProxy(trusted, false, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			addr, err := netip.ParseAddr(r.RemoteAddr)
			if r.RemoteAddr != "10.0.0.9:5000" && (err != nil || trusted[0].Contains(addr)) {
				t.Errorf("X-Forwarded-For: %q makes RemoteAddr %q", header, r.RemoteAddr)
			}
		}))
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = "10.0.0.9:5000"
		r.Header["X-Forwarded-For"] = []string{header}
		h.ServeHTTP(httptest.NewRecorder(), r)
	})
}

func TestOnlyRequestsForItsOwnURLAreAnswered(t *testing.T) {
	for _, tt := range []struct {
		base, host, path string
		want             int
	}{
		{"https://agents.example.org", "agents.example.org", "/", 200},
		{"https://agents.example.org", "AGENTS.example.org:443", "/", 200},
		{"https://agents.example.org", "agents.example.org:80", "/", 421},
		{"https://agents.example.org", "evil.example", "/v/demo/card", 421},
		{"https://agents.example.org", "agents.example.org.evil.example", "/", 421},
		{"https://agents.example.org", "10.0.0.5:8080", "/health", 200},
		{"https://agents.example.org", "10.0.0.5:8080", "/ready", 200},
		{"https://agents.example.org", "10.0.0.5:8080", "/v/demo/health", 421},
		{"https://agents.example.org:8443", "agents.example.org:8443", "/", 200},
		{"https://agents.example.org:8443", "agents.example.org", "/", 421},
	} {
		base, err := url.Parse(tt.base)
		must(t, err)
		h := standalone.RequireHost(base, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		r := httptest.NewRequest("GET", tt.path, nil)
		r.Host = tt.host
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != tt.want || tt.want != 200 && !strings.Contains(w.Body.String(), "Host: expected "+base.Host) {
			t.Errorf("%s at %s for %s = %d %s, want %d", tt.path, tt.host, tt.base, w.Code, w.Body, tt.want)
		}
	}
}

func TestABaseIsHTTPSOrThisMachine(t *testing.T) {
	for s, want := range map[string]string{
		"https://agents.example.org":       "https://agents.example.org",
		"https://agents.example.org:8443/": "https://agents.example.org:8443",
		"http://127.0.0.1:8080":            "http://127.0.0.1:8080",
		"http://localhost":                 "http://localhost",
		"http://agents.example.org":        "",
		"https://agents.example.org/under": "",
		"https://agents.example.org?a=b":   "",
		"https://agents.example.org?":      "",
		"https://agents.example.org#part":  "",
		"https://me@agents.example.org":    "",
		"https://:8443":                    "",
		"ftp://127.0.0.1":                  "",
		"agents.example.org":               "",
		"":                                 "",
	} {
		base, ok := standalone.ParseBaseURL(s)
		if ok != (want != "") || ok && base.String() != want {
			t.Errorf("ParseBaseURL(%q) = %v, %t; want %q", s, base, ok, want)
		}
	}
}

// A host accepts the requests of its own pages wherever it is reached: by http and by https, on loopback, at a name, and
// behind a proxy. Browsers send Origin with the script of a page and with each message.
func TestAHostAcceptsTheRequestsOfItsOwnPages(t *testing.T) {
	for name, tt := range map[string]struct{ base, host, origin string }{
		"http on loopback":                              {"http://127.0.0.1:8080", "127.0.0.1:8080", "http://127.0.0.1:8080"},
		"http at localhost":                             {"http://localhost:8080", "localhost:8080", "http://localhost:8080"},
		"http at another name of loopback":              {"http://127.0.0.1:8080", "localhost:8080", "http://localhost:8080"},
		"https at localhost":                            {"https://localhost:8443", "localhost:8443", "https://localhost:8443"},
		"https at IPv6 loopback":                        {"https://[::1]:8443", "[::1]:8443", "https://[::1]:8443"},
		"https at localhost by a proxy with its Host":   {"https://localhost:8443", "localhost:8443", "https://localhost:8443"},
		"https at localhost by a proxy with our Host":   {"https://localhost:8443", "127.0.0.1:8080", "https://localhost:8443"},
		"https at a name":                               {"https://agents.example", "agents.example", "https://agents.example"},
		"https at a name with a port":                   {"https://agents.example:8443", "agents.example:8443", "https://agents.example:8443"},
		"https at a name by a proxy with the port 443":  {"https://agents.example", "agents.example:443", "https://agents.example"},
		"https at a name, spelled otherwise by a proxy": {"https://agents.example", "Agents.Example", "https://agents.example"},
	} {
		base, err := url.Parse(tt.base)
		must(t, err)
		here := func(context.Context) (string, error) { return tt.base, nil }
		none := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
		h := standalone.Guard(base, edge.Config{Now: time.Now}, nil, serve.Handlers{Message: none, Web: none, PageJudge: &origin.Judge{URL: here}}.Public())
		ask := func(method, path, from, site string) int {
			r := httptest.NewRequest(method, path, nil)
			r.Host = tt.host
			r.Header.Set("Origin", from)
			r.Header.Set("Sec-Fetch-Site", site)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w.Code
		}
		if script, post := ask("GET", "/web/assets/h/page.js", tt.origin, "same-origin"), ask("POST", "/v/fox/a2a/message/send", tt.origin, "same-origin"); script != 200 || post != 200 {
			t.Errorf("%s: the script of a page is %d, a message %d, want 200", name, script, post)
		}
		for _, foreign := range []string{"https://evil.example", tt.origin + "0", "null"} {
			if post := ask("POST", "/v/fox/a2a/message/send", foreign, "cross-site"); post != 403 {
				t.Errorf("%s: a message of %s is %d, want 403", name, foreign, post)
			}
		}
	}
}
