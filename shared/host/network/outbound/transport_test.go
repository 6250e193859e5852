package outbound_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// fetch gets a URL by a client of net/http.
func fetch(t *testing.T, o outbound.Options, as outbound.Actor, url string) (string, error) {
	t.Helper()
	c := outbound.New(o).ForActor(as).HTTPClient()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("ask"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

func TestAnHTTPClientChecksAsTheClientDoes(t *testing.T) {
	asked := ""
	guard := func(_ context.Context, _ outbound.Actor, url string) error {
		asked = url
		if strings.Contains(url, "outside") {
			return problem.New(problem.TreeOnly, "not among its tools")
		}
		return nil
	}
	big := outbound.MaxStreamBytes + 1
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/far":
			http.Redirect(w, r, "/near", http.StatusTemporaryRedirect)
		case "/big":
			_, _ = w.Write(make([]byte, big))
		case "/cut":
			w.Header().Set("Content-Length", "100")
		default:
			b, _ := io.ReadAll(r.Body)
			_, _ = io.WriteString(w, string(b)+" "+r.Header.Get("User-Agent"))
		}
	}))
	defer s.Close()
	near, me := outbound.Options{AllowLoopback: true, Guard: guard}, outbound.VacantActor(identity.ID{1}, outbound.Stranger)
	if got, err := fetch(t, near, me, s.URL+"/near?a=b"); got != "ask vacancy" || err != nil || asked != s.URL+"/near?a=b" {
		t.Errorf("fetch() = %q, %v; the guard was asked for %q", got, err, asked)
	}
	for _, tt := range []struct {
		what string
		o    outbound.Options
		as   outbound.Actor
		url  string
		want problem.Kind
	}{
		{"no actor", near, outbound.Actor{}, s.URL, problem.Forbidden},
		{"no guard", outbound.Options{AllowLoopback: true}, me, s.URL, problem.Forbidden},
		{"the guard's refusal", near, me, s.URL + "/outside", problem.TreeOnly},
		{"an address inside", outbound.Options{Guard: guard}, me, s.URL, problem.Forbidden},
		{"a redirect", near, me, s.URL + "/far", problem.Forbidden},
		{"a user and password", near, me, strings.Replace(s.URL, "//", "//me:secret@", 1), problem.Malformed},
		{"a long reply", near, me, s.URL + "/big", problem.TooLarge},
		{"a reply that breaks off", near, me, s.URL + "/cut", problem.Unavailable},
		{"nobody", near, me, "http://127.0.0.1:1/", problem.Unavailable},
	} {
		if got, err := fetch(t, tt.o, tt.as, tt.url); !problem.Is(err, tt.want) {
			t.Errorf("%s: %d bytes, %v (%s), want %s", tt.what, len(got), err, problem.AsError(err).Kind, tt.want)
		}
	}
	big--
	if got, err := fetch(t, near, me, s.URL+"/big"); len(got) != outbound.MaxStreamBytes || err != nil {
		t.Errorf("fetch() of the most = %d bytes, %v", len(got), err)
	}
}
