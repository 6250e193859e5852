package dispatch_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch/dispatchtest"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func TestNamesOfLocalhostAreThisMachine(t *testing.T) {
	s := dispatchtest.NewServer(t, func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(r.Host)) })
	_, port, _ := strings.Cut(strings.TrimPrefix(s.URL, "http://"), ":")
	h := dispatch.NewHTTP(dispatch.HTTPOptions{})
	for _, host := range []string{"localhost", "abc.lambda-url.us-east-1.localhost", "A.LocalHost", "a.localhost."} {
		status, got, err := h.Get(t.Context(), "http://"+host+":"+port+"/")
		if status != http.StatusOK || string(got) != host+":"+port || err != nil {
			t.Errorf("Get(%s) = %d %q %v, want the server to see that name", host, status, got, err)
		}
	}
	s.Close()
	if _, _, err := h.Get(t.Context(), "http://a.localhost:"+port+"/"); !problem.Is(err, problem.Unavailable) {
		t.Errorf("Get() where nobody listens = %v, want Unavailable", err)
	}
}

func TestAProxyIsNotAskedForThisMachine(t *testing.T) {
	if u, err := dispatch.ProxyURL(httptest.NewRequest(http.MethodGet, "http://x.localhost:4566/", nil)); u != nil || err != nil {
		t.Errorf("Proxy() = %v, %v, want none", u, err)
	}
}
