package serve

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/front/serve/browsertest"
)

func TestPagesOfOtherSitesAreRefusedOnLoopback(t *testing.T) {
	h := LoopbackOnly(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	for _, tt := range []struct {
		name, host   string
		header       [2]string
		want         int
		wantInDetail string
	}{
		{"a program", "127.0.0.1:8080", [2]string{}, 204, ""},
		{"IPv6", "[::1]:8080", [2]string{}, 204, ""},
		{"without a port", "127.0.0.1", [2]string{}, 204, ""},
		{"IPv6 without a port", "[::1]", [2]string{}, 204, ""},
		{"a mapped address", "[::ffff:127.0.0.1]:8080", [2]string{}, 204, ""},
		{"localhost", "LocalHost:8080", [2]string{}, 204, ""},
		{"a name below localhost", "app.localhost.:8080", [2]string{}, 204, ""},
		{"a page of the host itself", "127.0.0.1:8080", [2]string{"Origin", "http://127.0.0.1:8080"}, 204, ""},
		{"typed by the person", "127.0.0.1:8080", [2]string{"Sec-Fetch-Site", "none"}, 204, ""},
		{"of the same origin", "127.0.0.1:8080", [2]string{"Sec-Fetch-Site", "same-origin"}, 204, ""},
		{"a rebound name", "evil.example:8080", [2]string{}, 403, `Host: expected a loopback address or localhost, got \"evil.example:8080\"`},
		{"a rebound name with a loopback address in it", "127.0.0.1.evil.example", [2]string{}, 403, "Host"},
		{"a name that ends like localhost", "evillocalhost:8080", [2]string{}, 403, "Host"},
		{"an address of the network", "192.168.0.2:8080", [2]string{}, 403, "Host"},
		{"no Host", "", [2]string{}, 403, "Host"},
		{"a page of another site", "127.0.0.1:8080", [2]string{"Origin", "https://evil.example"}, 403, "another site"},
		{"a page of another port", "127.0.0.1:8080", [2]string{"Origin", "http://127.0.0.1:3000"}, 403, "another site"},
		{"a sandboxed page", "127.0.0.1:8080", [2]string{"Origin", "null"}, 403, "another site"},
		{"an image in a page of another site", "127.0.0.1:8080", [2]string{"Sec-Fetch-Site", "cross-site"}, 403, "another site"},
		{"a page of a sibling site", "127.0.0.1:8080", [2]string{"Sec-Fetch-Site", "same-site"}, 403, "another site"},
	} {
		r := httptest.NewRequest("POST", "/a2a/message/send", nil)
		r.Host = tt.host
		if tt.header[0] != "" {
			r.Header.Set(tt.header[0], tt.header[1])
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != tt.want || !strings.Contains(w.Body.String(), tt.wantInDetail) {
			t.Errorf("%s: %d %s, want %d with %q", tt.name, w.Code, w.Body, tt.want, tt.wantInDetail)
		}
		if w.Code == 403 && w.Header().Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: a refusal has a CORS header", tt.name)
		}
	}
}

func TestNoPageReachesAListenerOnLoopback(t *testing.T) {
	reached := ""
	h := LoopbackOnly(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { reached = r.Method }))
	for _, attack := range browsertest.Attacks("127.0.0.1:8080") {
		r := httptest.NewRequest(attack.Method, "/", nil)
		r.Host = attack.Host
		for _, line := range attack.Header {
			r.Header.Set(line[0], line[1])
		}
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != http.StatusForbidden || reached != "" {
			t.Errorf("%s: %d, reached %q, want 403", attack.Name, w.Code, reached)
		}
	}
}

func FuzzLoopbackHost(f *testing.F) {
	for _, s := range []string{"127.0.0.1:80", "[::1]", "localhost.", "evil.example", "[", ":", "[fe80::1%lo]:1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, host string) {
		if isLoopback(host) && isLoopback(host+".evil.example") {
			t.Errorf("%q is loopback, and is with another site's name behind it", host)
		}
	})
}
