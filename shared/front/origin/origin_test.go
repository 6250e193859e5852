package origin_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/vacancy-host/vacancy/shared/front/origin"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func urlOf(base string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return base, nil }
}

// The matrix: hosts by http and by https, on loopback, at a name, and behind a proxy that ends TLS or forwards another
// Host; and the pages that a browser may show.
func TestOnlyPagesOfTheHostAndAllowedPagesPass(t *testing.T) {
	const public = "https://agents.example"
	allowed := []string{"https://chat.example", "app://client"}
	for _, host := range []struct {
		name, base, host string
		routed           bool
		own              []string
	}{
		{"a name by https", public, "agents.example", false, []string{public, "https://Agents.Example", public + ":443"}},
		{"a name with a port", public + ":8443", "agents.example:8443", false, []string{public + ":8443"}},
		{"behind a proxy that keeps Host", public, "agents.example", false, []string{public}},
		{"behind a proxy on another host", public, "backend.internal:8080", false, []string{public}},
		{"behind a proxy on this machine", public, "127.0.0.1:8080", false, []string{public, "http://127.0.0.1:8080"}},
		{"behind a CDN", public, "x.lambda-url.example", true, []string{public, "https://x.lambda-url.example"}},
		{"a function without a URL", "", "x.lambda-url.example", true, []string{"https://x.lambda-url.example"}},
		{"loopback by http", "http://127.0.0.1:8080", "127.0.0.1:8080", false, []string{"http://127.0.0.1:8080"}},
		{"loopback by another name", "http://127.0.0.1:8080", "localhost:8080", false, []string{"http://localhost:8080", "http://127.0.0.1:8080"}},
		{"loopback by IPv6", "http://127.0.0.1:8080", "[::1]:8080", false, []string{"http://[::1]:8080"}},
		{"loopback by https", "https://localhost:8443", "localhost:8443", false, []string{"https://localhost:8443"}},
		{"loopback at the standard port", "http://localhost", "localhost", false, []string{"http://localhost", "http://localhost:80"}},
		{"no URL", "", "agents.example", false, nil},
	} {
		j := origin.Judge{URL: urlOf(host.base), TrustHostHeader: host.routed, Allowed: allowed}
		check := func(want bool, headers ...string) {
			t.Helper()
			r := httptest.NewRequest(http.MethodPost, "/v/clerk/text", nil)
			r.Host = host.host
			for i := 0; i < len(headers); i += 2 {
				r.Header.Add(headers[i], headers[i+1])
			}
			if err := j.Check(r); (err == nil) != want || err != nil && !problem.Is(err, problem.Forbidden) {
				t.Errorf("%s, %q: %v, want it to pass: %t", host.name, headers, err, want)
			}
		}
		check(true)
		check(true, "Sec-Fetch-Site", "none")
		check(true, "Sec-Fetch-Site", "same-origin")
		check(false, "Sec-Fetch-Site", "same-site")
		check(false, "Sec-Fetch-Site", "cross-site")
		for _, own := range host.own {
			check(true, "Origin", own)
			check(true, "Origin", own, "Sec-Fetch-Site", "same-origin")
			check(false, "Origin", own, "Origin", "https://evil.example")
			check(false, "Origin", own+"0")
			check(false, "Origin", own+".evil.example")
			check(false, "Origin", own+"@evil.example")
		}
		for _, page := range allowed {
			check(true, "Origin", page)
			check(true, "Origin", page, "Sec-Fetch-Site", "cross-site")
			check(false, "Origin", page, "Origin", "https://evil.example")
			check(false, "Origin", page+".evil.example")
			check(false, "Origin", page+":444")
		}
		for _, foreign := range []string{
			"https://evil.example", "http://agents.example", public + ":444", "http://127.0.0.1:3000", "http://localhost:3000", "https://127.0.0.1.evil.example",
			"http://chat.example", "app://other", "null", "", "%", "*", "file://",
		} {
			check(false, "Origin", foreign)
			check(false, "Origin", foreign, "Sec-Fetch-Site", "cross-site")
		}
	}
	// A name that was rebound to the host is in Host and in Origin.
	j := origin.Judge{URL: urlOf(public)}
	r := httptest.NewRequest(http.MethodPost, "/v/clerk/text", nil)
	r.Host = "evil.example"
	r.Header.Set("Origin", "https://evil.example")
	if err := j.Check(r); !problem.Is(err, problem.Forbidden) {
		t.Errorf("a name that was rebound: %v", err)
	}
	away := errors.New("away")
	j.URL = func(context.Context) (string, error) { return "", away }
	if err := j.Check(r); !errors.Is(err, away) {
		t.Errorf("while the URL cannot be read: %v", err)
	}
	j.URL = nil
	if err := j.Check(r); !problem.Is(err, problem.Forbidden) {
		t.Errorf("a host that never has a URL: %v", err)
	}
}

func TestOrigins(t *testing.T) {
	for s, want := range map[string]string{
		"https://chat.example": "https://chat.example", "HTTPS://Chat.Example": "https://chat.example", "https://chat.example:443": "https://chat.example", "http://chat.example:80": "http://chat.example",
		"https://chat.example:80": "https://chat.example:80", "http://[::1]:80": "http://[::1]", "vscode-file://vscode-app": "vscode-file://vscode-app", "app://obsidian.md": "app://obsidian.md",
	} {
		if got, ok := origin.Parse(s); !ok || got != want {
			t.Errorf("Parse(%q) = %q, %t, want %q", s, got, ok, want)
		}
	}
	for _, s := range []string{"", "null", "*", "https://", "https://*/", "https://chat.example/", "https://chat.example/a", "https://a@chat.example", "https://chat.example?a", "https://chat.example#a", "chat.example", "//chat.example", "file://", "https://chat.example:"} {
		if got, ok := origin.Parse(s); ok && got != "https://chat.example:" {
			t.Errorf("Parse(%q) = %q, want none", s, got)
		}
	}
}

func FuzzLoopbackHost(f *testing.F) {
	for _, s := range []string{"127.0.0.1:80", "[::1]", "localhost.", "evil.example", "[", ":", "[fe80::1%lo]:1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, host string) {
		if origin.IsLoopback(host) && origin.IsLoopback(host+".evil.example") {
			t.Errorf("%q is loopback, and is with another site's name behind it", host)
		}
	})
}

// Browsers send an origin in one form, which Parse leaves unchanged.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"https://chat.example", "app://client", "http://[::1]:80", "null", "https://a:b@c", "https://chat.example:443"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		once, ok := origin.Parse(s)
		if !ok {
			return
		}
		if twice, ok := origin.Parse(once); !ok || twice != once {
			t.Errorf("Parse(%q) = %q, and Parse of that is %q, %t", s, once, twice, ok)
		}
	})
}
