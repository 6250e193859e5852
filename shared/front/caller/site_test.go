package caller_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/vacancy-host/vacancy/shared/front/caller"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// A browser names the site of the page that sends a request. The host's own pages are below its
// public URL, or below a Host that is certainly its own.
func TestOnlyPagesOfTheHostPassCheckSite(t *testing.T) {
	const public = "https://agents.example"
	for _, tt := range []struct {
		name, host, header, value string
		routed, passes            bool
	}{
		{"a program", "agents.example", "", "", false, true},
		{"the public URL", "agents.example", "Origin", public, false, true},
		{"the public URL, behind a CDN", "x.lambda-url.example", "Origin", public, false, true},
		{"in other letters", "agents.example", "Origin", "https://Agents.Example", false, true},
		{"another port", "agents.example", "Origin", public + ":444", false, false},
		{"a name that was rebound", "evil.example", "Origin", "https://evil.example", false, false},
		{"a Host that a router chose", "other.example", "Origin", "https://other.example", true, true},
		{"this machine", "localhost:8080", "Origin", "http://localhost:8080", false, true},
		{"another port of this machine", "localhost:8080", "Origin", "http://localhost:9000", false, false},
		{"another site", "agents.example", "Origin", "https://evil.example", false, false},
		{"a longer name", "agents.example", "Origin", public + ".evil.example", false, false},
		{"a sandboxed page", "agents.example", "Origin", "null", false, false},
		{"no origin", "agents.example", "Origin", "", false, false},
		{"no URL", "agents.example", "Origin", "%", false, false},
		{"a person", "agents.example", "Sec-Fetch-Site", "none", false, true},
		{"the same origin", "agents.example", "Sec-Fetch-Site", "same-origin", false, true},
		{"the same site", "agents.example", "Sec-Fetch-Site", "same-site", false, false},
		{"across sites", "agents.example", "Sec-Fetch-Site", "cross-site", false, false},
	} {
		r := httptest.NewRequest(http.MethodPost, "/v/clerk/text", nil)
		r.Host = tt.host
		if tt.header != "" {
			r.Header.Set(tt.header, tt.value)
		}
		v := caller.Verifier{Routed: tt.routed, URL: func(context.Context) (string, error) { return public, nil }}
		if err := v.CheckSite(r); (err == nil) != tt.passes || err != nil && !problem.Is(err, problem.Forbidden) {
			t.Errorf("%s: CheckSite = %v, want it to pass: %t", tt.name, err, tt.passes)
		}
	}
	r := httptest.NewRequest(http.MethodPost, "/v/clerk/text", nil)
	r.Header["Origin"] = []string{public, "https://evil.example"}
	v := caller.Verifier{URL: func(context.Context) (string, error) { return public, nil }}
	if err := v.CheckSite(r); !problem.Is(err, problem.Forbidden) {
		t.Errorf("two origins: %v", err)
	}
	away := errors.New("away")
	v.URL = func(context.Context) (string, error) { return "", away }
	if err := v.CheckSite(r); !errors.Is(err, away) {
		t.Errorf("without a URL: %v", err)
	}
	v.URL = nil
	if err := v.CheckSite(r); !problem.Is(err, problem.Forbidden) {
		t.Errorf("a host without a URL: %v", err)
	}
}
