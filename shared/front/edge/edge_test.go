package edge

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	secret = "q4mZk2v9XcT7bN1sWgRj8pLdYfHa0uEoIiQyVtGz3KB"
	before = "A1c3E5g7I9k1M3o5Q7s9U1w3Y5a7C9e1G3i5K7m9O1q"
)

// seen is the request as the handler behind the guard receives it.
type seen struct {
	Reached bool
	Remote  string
	Secret  bool // either header is still there
}

// guarded sends a request through a guard.
func guarded(secrets []string, headers map[string][]string) (status int, body string, s seen) {
	h := Guard(secrets, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		s = seen{true, r.RemoteAddr, r.Header.Get(SecretHeader) != "" || r.Header.Get(viewerHeader) != ""}
	}))
	r := httptest.NewRequest("GET", "/card", nil)
	r.RemoteAddr = "192.0.2.1"
	for name, values := range headers {
		r.Header[http.CanonicalHeaderKey(name)] = values
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String(), s
}

func TestOnlyWhatKnowsTheSecretGetsThrough(t *testing.T) {
	one := func(name, value string) map[string][]string { return map[string][]string{name: {value}} }
	for _, tt := range []struct {
		name    string
		secrets []string
		headers map[string][]string
		passes  bool
	}{
		{"the secret", []string{secret, ""}, one("x-vacancy-edge", secret), true},
		{"the secret while both count", []string{secret, before}, one("x-vacancy-edge", secret), true},
		{"the one before", []string{secret, before}, one("x-vacancy-edge", before), true},
		{"the one before, when its time is over", []string{secret}, one("x-vacancy-edge", before), false},
		{"no header", []string{secret, before}, nil, false},
		{"an empty one", []string{secret, ""}, one("x-vacancy-edge", ""), false},
		{"another secret", []string{secret}, one("x-vacancy-edge", strings.Repeat("q", len(secret))), false},
		{"its beginning", []string{secret}, one("x-vacancy-edge", secret[:42]), false},
		{"more than it", []string{secret}, one("x-vacancy-edge", secret+"x"), false},
		{"in another case", []string{secret}, one("x-vacancy-edge", strings.ToLower(secret)), false},
		{"twice", []string{secret}, map[string][]string{"x-vacancy-edge": {secret, secret}}, false},
		{"among others", []string{secret}, map[string][]string{"x-vacancy-edge": {"x", secret}}, false},
		{"in a cookie", []string{secret}, one("cookie", "x-vacancy-edge="+secret), false},
		{"no edge", nil, nil, true},
		{"no edge, by two empty secrets", []string{"", ""}, nil, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status, body, s := guarded(tt.secrets, tt.headers)
			if s.Reached != tt.passes || s.Secret {
				t.Errorf("the handler saw %+v, want it reached: %t, without the secret", s, tt.passes)
			}
			if !tt.passes && (status != http.StatusForbidden || !strings.Contains(body, `"code":"forbidden"`) || strings.Contains(body, secret)) {
				t.Errorf("answer = %d %s, want 403", status, body)
			}
		})
	}
}

func TestTheViewersAddressIsBelievedBehindTheSecretAlone(t *testing.T) {
	for _, tt := range []struct {
		name    string
		secrets []string
		viewer  []string
		want    string
	}{
		{"behind the secret", []string{secret}, []string{"198.51.100.7:46532"}, "198.51.100.7"},
		{"IPv6 without brackets, as CloudFront writes it", []string{secret}, []string{"2001:db8:85a3::8a2e:370:7334:443"}, "2001:db8:85a3::8a2e:370:7334"},
		{"IPv6 with brackets", []string{secret}, []string{"[2001:db8::1]:443"}, "2001:db8::1"},
		{"no address", []string{secret}, []string{"me"}, "192.0.2.1"},
		{"no port", []string{secret}, []string{"198.51.100.7"}, "192.0.2.1"},
		{"two", []string{secret}, []string{"198.51.100.7:1", "198.51.100.8:1"}, "192.0.2.1"},
		{"none", []string{secret}, nil, "192.0.2.1"},
		{"without an edge", nil, []string{"198.51.100.7:46532"}, "192.0.2.1"},
	} {
		headers := map[string][]string{SecretHeader: {secret}, viewerHeader: tt.viewer, "X-Forwarded-For": {"203.0.113.9"}}
		_, _, s := guarded(tt.secrets, headers)
		if diff := cmp.Diff(seen{true, tt.want, false}, s); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func FuzzViewerAddr(f *testing.F) {
	f.Add("198.51.100.7:46532")
	f.Add("2001:db8::1:443")
	f.Add("[2001:db8::1%eth0]:443")
	f.Fuzz(func(t *testing.T, s string) {
		if addr, ok := parseViewerAddr(s); ok && !addr.IsValid() {
			t.Errorf("viewerAddr(%q) = %v", s, addr)
		}
	})
}
