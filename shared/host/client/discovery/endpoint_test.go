package discovery_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/client/discovery"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch/dispatchtest"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func TestAnEndpointIsAFullURLOrABase(t *testing.T) {
	id := dispatchtest.NewKey(t, 10).ID().String()
	for endpoint, c := range map[string]struct{ url, called string }{
		"https://x.test/a2a/message/send":              {"https://x.test/a2a/message/send", "https://x.test/a2a/message/send"},
		"https://x.test/some/a2a/message/send":         {"https://x.test/some/a2a/message/send", "https://x.test/some/a2a/message/send"},
		"https://x.test":                               {"https://x.test/a2a/message/send", "https://x.test/a2a/message/send"},
		"https://x.test/":                              {"https://x.test/a2a/message/send", "https://x.test/a2a/message/send"},
		"https://x.test/v/" + id:                       {"https://x.test/v/" + id + "/a2a/message/send", "https://x.test/v/" + id + "/a2a/message/send"},
		"https://x.test/v/" + id + "/a2a/message/send": {"https://x.test/v/" + id + "/a2a/message/send", "https://x.test/v/" + id + "/a2a/message/send"},
		// If only the target can tell, the URL is tried verbatim first, like the reference.
		"https://x.test/agents/7": {"https://x.test/agents/7", "https://x.test/agents/7/a2a/message/send"},
	} {
		t.Run(endpoint, func(t *testing.T) {
			m := newMarket(t)
			m.add(t, 10, "x", "translate")
			m.reg.rows[0] = row(t, 10, "translate", endpoint)
			out, err := m.CallCapability(t.Context(), words("translate"), dispatchtest.UserMessage("hi"))
			dispatchtest.WantAnswer(t, out.Result, err, "echo: hi")
			if got := out.Chosen.URL; got != c.url {
				t.Errorf("URL = %s, want %s", got, c.url)
			}
			path := strings.TrimPrefix(c.called, "https://x.test")
			if log := m.wire("x").Posts; !strings.HasSuffix(path, log[len(log)-1].Path) {
				t.Errorf("called at %s, want %s", log[len(log)-1].Path, path)
			}
		})
	}
}

func TestWhereARegistryMayLeadAPersonsMachine(t *testing.T) {
	route := discovery.PersonalRoute(0, nil)
	const public, local = "https://registry.example", "http://127.0.0.1:8080"
	for _, c := range []struct {
		registry, endpoint, refused string
	}{
		{public, "https://agent.example/a2a/message/send", ""},
		{public, "http://agent.example/a2a/message/send", "does not use https"},
		{public, "http://127.0.0.1:8080/a2a/message/send", "is on this machine"},
		{public, "https://localhost/a2a/message/send", "is on this machine"},
		{public, "https://agent.localhost./a2a/message/send", "is on this machine"},
		{public, "https://[::1]/a2a/message/send", "is on this machine"},
		{public, "https://[::ffff:127.0.0.1]/a2a/message/send", "is on this machine"},
		{public, "file:///etc/passwd", "http or https URL"},
		{local, "http://127.0.0.1:8080/v/x/a2a/message/send", ""},
		{local, "http://localhost:9090/a2a/message/send", ""},
		{local, "https://agent.example/a2a/message/send", ""},
		{local, "http://agent.example/a2a/message/send", "does not use https"},
		{"http://registry.lan:8080", "http://registry.lan:8080/v/x/a2a/message/send", ""}, // its own
		{"http://registry.lan:8080", "http://other.lan:8080/v/x/a2a/message/send", "does not use https"},
		{"http://registry.lan:8080", "http://registry.lan:22/a2a/message/send", "does not use https"},
	} {
		_, err := route(c.registry, &card.Card{Endpoint: c.endpoint})
		if c.refused == "" && err != nil || c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)) {
			t.Errorf("Personal()(%s, %s) = %v, want %q", c.registry, c.endpoint, err, c.refused)
		}
	}
}

// names resolves every name to one address.
type names netip.Addr

func (n names) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.Addr(n)}, nil
}

func TestANameThatLeadsInsideIsNotCalled(t *testing.T) {
	for _, addr := range []string{"127.0.0.1", "10.0.0.5", "192.168.1.1", "169.254.169.254", "::1", "fd00::1", "100.64.0.1"} {
		client := outbound.New(outbound.Options{Resolver: names(netip.MustParseAddr(addr)), Guard: anybody})
		transport, err := discovery.HostRoute(client, identity.ID{1})("https://registry.example", &card.Card{Endpoint: "https://innocent.example/a2a/message/send"})
		must(t, err)
		_, _, err = transport.Post(t.Context(), "https://innocent.example/a2a/message/send", nil)
		dispatchtest.WantKind(t, err, problem.Unavailable, "innocent.example: no public address was found")
	}
	_, err := discovery.HostRoute(nil, identity.ID{1})("https://registry.example", &card.Card{Endpoint: "http://innocent.example/"})
	dispatchtest.WantKind(t, err, problem.Forbidden, "does not use https")
}

func TestGuardedTellsWhatWasNotSent(t *testing.T) {
	g := dispatch.GuardedTransport{Client: outbound.New(outbound.Options{AllowLoopback: true}).ForActor(outbound.HostActor(outbound.Stranger))}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/cut":
			c, _, _ := w.(http.Hijacker).Hijack()
			c.Close()
		case "/elsewhere":
			http.Redirect(w, r, "http://127.0.0.1/", http.StatusTemporaryRedirect)
		case "/large":
			_, _ = w.Write(make([]byte, outbound.DefaultMaxReply+1))
		}
	})
	plain, encrypted := dispatchtest.NewServer(t, handler.ServeHTTP), httptest.NewTLSServer(handler)
	t.Cleanup(encrypted.Close)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	nobody := "http://" + closed.Addr().String()
	closed.Close()
	for url, kind := range map[string]problem.Kind{
		plain.URL + "/cut":       problem.DeadlineExceeded, // it may have arrived
		plain.URL + "/large":     problem.TooLarge,         // it did
		plain.URL + "/elsewhere": problem.Usage,
		nobody:                   problem.Unavailable,
		encrypted.URL:            problem.Unavailable, // a certificate of an unknown authority
		"http://10.0.0.1/":       problem.Usage,
		"gopher://x/":            problem.Usage,
	} {
		if _, _, err := g.Post(t.Context(), url, []byte("x")); !problem.Is(err, kind) {
			t.Errorf("Post(%s) = %v, want %v", url, err, kind)
		}
	}
	if status, _, err := g.Post(t.Context(), plain.URL+"/", nil); status != 200 || err != nil {
		t.Errorf("Post() = %d, %v, want 200", status, err)
	}
}

// anybody is the guard of a vacant that may call every other vacant.
func anybody(context.Context, outbound.Actor, string) error { return nil }

func TestAVacantThatLeadsInsideIsPassedOver(t *testing.T) {
	m := newMarket(t)
	m.Policy = discovery.ByScore
	m.add(t, 10, "inside", "translate")
	m.add(t, 11, "good", "translate")
	guarded, route := discovery.HostRoute(outbound.New(outbound.Options{Resolver: names(netip.MustParseAddr("10.0.0.1")), Guard: anybody}), m.Caller.Signer.ID()), m.Route
	m.Route = func(registry string, callee *card.Card) (dispatch.Transport, error) {
		if strings.Contains(callee.Endpoint, "inside") {
			return guarded(registry, callee)
		}
		return route(registry, callee)
	}
	out, err := m.CallCapability(t.Context(), words("translate"), dispatchtest.UserMessage("hi"))
	dispatchtest.WantAnswer(t, out.Result, err, "echo: hi")
	if len(out.FailedCalls) != 1 || !strings.Contains(out.FailedCalls[0].Err.Error(), "10.0.0.1 is private") {
		t.Errorf("Tried = %+v, want the one inside", out.FailedCalls)
	}
}
