package serve

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/front/origin"
	"github.com/vacancy-host/vacancy/shared/front/protocol"
	"github.com/vacancy-host/vacancy/shared/front/serve/browsertest"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func TestPagesOfOtherSitesAreRefusedOnLoopback(t *testing.T) {
	h := LoopbackOnly(&origin.Judge{}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
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
		{"a page of another site", "127.0.0.1:8080", [2]string{"Origin", "https://evil.example"}, 403, "pages of other sites"},
		{"a page of another port", "127.0.0.1:8080", [2]string{"Origin", "http://127.0.0.1:3000"}, 403, "pages of other sites"},
		{"a sandboxed page", "127.0.0.1:8080", [2]string{"Origin", "null"}, 403, "pages of other sites"},
		{"an image in a page of another site", "127.0.0.1:8080", [2]string{"Sec-Fetch-Site", "cross-site"}, 403, "pages of other sites"},
		{"a page of a sibling site", "127.0.0.1:8080", [2]string{"Sec-Fetch-Site", "same-site"}, 403, "pages of other sites"},
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
	h := LoopbackOnly(&origin.Judge{}, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { reached = r.Method }))
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

// The pages of an allowed origin send requests and read the answers. Pages of other sites do neither.
func TestPagesOfAllowedOriginsReadAnswers(t *testing.T) {
	pages := &origin.Judge{URL: func(context.Context) (string, error) { return "https://agents.example", nil }, Allowed: []string{"app://client"}}
	reached := ""
	public := Handlers{PageJudge: pages, Message: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reached = r.Method
		if r.URL.Path == "/refused" {
			protocol.Refuse(w, r, problem.New(problem.Unauthorized, "no"))
		}
	})}.Public()
	for _, tt := range []struct {
		name, method, path string
		header             [][2]string
		reached            bool
		status             int
		readable           bool
	}{
		{"a page of an allowed origin posts", "POST", "/", [][2]string{{"Origin", "app://client"}, {"Sec-Fetch-Site", "cross-site"}}, true, 200, true},
		{"it reads", "GET", "/", [][2]string{{"Origin", "app://client"}}, true, 200, true},
		{"it is refused", "POST", "/refused", [][2]string{{"Origin", "app://client"}}, true, 401, true},
		{"its browser asks first", "OPTIONS", "/", [][2]string{{"Origin", "app://client"}, {"Access-Control-Request-Method", "POST"}, {"Access-Control-Request-Headers", "authorization"}}, false, 204, true},
		{"another page posts", "POST", "/", [][2]string{{"Origin", "https://evil.example"}}, false, 403, false},
		{"another page deletes", "DELETE", "/", [][2]string{{"Origin", "https://evil.example"}}, false, 403, false},
		{"another page reads", "GET", "/", [][2]string{{"Origin", "https://evil.example"}}, true, 200, false},
		{"its browser asks first", "OPTIONS", "/", [][2]string{{"Origin", "https://evil.example"}, {"Access-Control-Request-Method", "POST"}}, true, 200, false},
		{"two origins", "POST", "/", [][2]string{{"Origin", "app://client"}, {"Origin", "https://evil.example"}}, false, 403, false},
		{"a page of the host", "POST", "/", [][2]string{{"Origin", "https://agents.example"}}, true, 200, false},
		{"a program", "POST", "/", nil, true, 200, false},
	} {
		r := httptest.NewRequest(tt.method, tt.path, nil)
		for _, line := range tt.header {
			r.Header.Add(line[0], line[1])
		}
		w := httptest.NewRecorder()
		reached = ""
		public.ServeHTTP(w, r)
		if w.Code != tt.status || (reached != "") != tt.reached {
			t.Errorf("%s: %d, reached %q, want %d, reached: %t", tt.name, w.Code, reached, tt.status, tt.reached)
		}
		allowed := w.Header().Get("Access-Control-Allow-Origin")
		if (allowed == "app://client") != tt.readable || !tt.readable && allowed != "" || w.Header().Get("Vary") != "Origin" || w.Header().Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%s: the headers are %v, want them readable: %t", tt.name, w.Header(), tt.readable)
		}
		if tt.status == 204 && !strings.Contains(w.Header().Get("Access-Control-Allow-Headers"), "Authorization") {
			t.Errorf("%s: the headers are %v, want Authorization allowed", tt.name, w.Header())
		}
	}
	// By default, and on loopback, too, a page of another site reaches nothing.
	for _, allowed := range [][]string{nil, {"app://client"}} {
		reached = ""
		h := LoopbackOnly(&origin.Judge{Allowed: allowed}, public)
		r := httptest.NewRequest("POST", "/", nil)
		r.Host = "localhost:8080"
		r.Header.Set("Origin", "app://client")
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); (reached != "") != (allowed != nil) {
			t.Errorf("on loopback, with %q: %d, reached %q", allowed, w.Code, reached)
		}
	}
}
