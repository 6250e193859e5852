package outbound_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// counted is a server that counts its requests.
func counted(t *testing.T, h http.HandlerFunc) (*httptest.Server, *atomic.Int64) {
	t.Helper()
	var n atomic.Int64
	return server(t, func(w http.ResponseWriter, r *http.Request) {
		n.Add(1)
		h(w, r)
	}), &n
}

func TestRequestWithoutAnActorIsRefused(t *testing.T) {
	s, reached := counted(t, func(http.ResponseWriter, *http.Request) {})
	open := func(context.Context, outbound.Actor, string) error { return nil }
	for name, tt := range map[string]struct {
		as    outbound.Actor
		guard outbound.EndpointGuard
		want  string
	}{
		"nobody":                       {outbound.Actor{}, open, "no actor is given"},
		"the zero vacant":              {outbound.VacantActor(identity.ID{}, outbound.Stranger), open, "no actor is given"},
		"nobody that calls somebody":   {outbound.Actor{}.WithCallee(&card.Card{}), open, "no actor is given"},
		"a vacant where none is let":   {outbound.VacantActor(identity.ID{1}, outbound.Stranger), nil, "may not send requests from this host"},
		"a vacant that a guard let":    {outbound.VacantActor(identity.ID{1}, outbound.Stranger), open, ""},
		"the host where none is let":   {outbound.HostActor(outbound.Stranger), nil, ""},
		"the host, whatever the guard": {outbound.HostActor(outbound.Stranger), func(context.Context, outbound.Actor, string) error { return problem.New(problem.TreeOnly, "no") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			reached.Store(0)
			c := outbound.New(outbound.Options{AllowLoopback: true, Guard: tt.guard})
			_, err := c.Do(t.Context(), tt.as, outbound.Request{Method: http.MethodGet, URL: s.URL})
			_, _, posted := c.Post(t.Context(), tt.as, s.URL, nil)
			_, acting := c.ForActor(tt.as).Do(t.Context(), outbound.Request{Method: http.MethodGet, URL: s.URL})
			for _, err := range []error{err, posted, acting} {
				if (tt.want == "") != (err == nil) || err != nil && (!problem.Is(err, problem.Forbidden) || !strings.Contains(problem.AsError(err).Text(), tt.want)) {
					t.Errorf("Do() = %v, want %q", err, tt.want)
				}
			}
			want := int64(0)
			if tt.want == "" {
				want = 3
			}
			if reached.Load() != want {
				t.Errorf("%d requests left the host, want %d", reached.Load(), want)
			}
		})
	}
}

// The guard gets the URL as written, before its name is resolved, and the
// vacant that acts. Exactly that URL is dialled.
func TestTheGuardIsAskedBeforeAnythingIsLookedUp(t *testing.T) {
	callee := &card.Card{VacantID: identity.ID{9}}
	var saw []string
	looked := &names{lists: [][]netip.Addr{addrs("10.0.0.1")}}
	c := outbound.New(outbound.Options{Resolver: looked, Guard: func(_ context.Context, as outbound.Actor, url string) error {
		id, ok := as.Vacant()
		if !ok || id != (identity.ID{1}) || as.Callee() != callee {
			t.Errorf("the guard was told of %v, %t, %v", id, ok, as.Callee())
		}
		saw = append(saw, url)
		return problem.New(problem.TreeOnly, "outside")
	}})
	urls := []string{"https://EXAMPLE.test:443/a/../b?c#d", "http://10.0.0.1/", "https://[::1]/"}
	for _, u := range urls {
		_, err := c.Do(t.Context(), outbound.VacantActor(identity.ID{1}, outbound.Stranger).WithCallee(callee), outbound.Request{Method: http.MethodGet, URL: u})
		wantKind(t, err, problem.TreeOnly)
	}
	if diff := cmp.Diff(urls, saw); diff != "" {
		t.Errorf("the guard saw (-want +got):\n%s", diff)
	}
	if n := looked.calls.Load(); n > 0 {
		t.Errorf("%d names were looked up, want none", n)
	}
	_, err := c.Do(t.Context(), outbound.VacantActor(identity.ID{1}, outbound.Stranger), outbound.Request{Method: http.MethodGet, URL: "gopher://x/"})
	wantKind(t, err, problem.Malformed)
}

// A permitted endpoint redirects to a forbidden one.
func TestARedirectIsAnAnswerAndIsNotFollowed(t *testing.T) {
	secret, reached := counted(t, func(http.ResponseWriter, *http.Request) {})
	for _, status := range []int{301, 302, 303, 307, 308} {
		front := server(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, secret.URL, status) })
		c := outbound.New(outbound.Options{AllowLoopback: true, Guard: func(_ context.Context, _ outbound.Actor, url string) error {
			if !strings.HasPrefix(url, front.URL) {
				return problem.New(problem.TreeOnly, "outside")
			}
			return nil
		}})
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			r, err := c.Do(t.Context(), outbound.VacantActor(identity.ID{1}, outbound.Stranger), outbound.Request{Method: method, URL: front.URL + "/answer"})
			if err != nil || r.Status != status || r.Header.Get("Location") != secret.URL {
				t.Errorf("%s = %d, %v, want the redirect %d itself", method, r.Status, err, status)
			}
		}
	}
	if reached.Load() > 0 {
		t.Errorf("%d requests followed, want none", reached.Load())
	}
}
