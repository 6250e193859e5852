package outbound_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/obs"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// names answers each lookup with the next of its lists. After the last list, it repeats that list.
type names struct {
	lists [][]netip.Addr
	calls atomic.Int32
}

func (n *names) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	i := int(n.calls.Add(1)) - 1
	return append([]netip.Addr(nil), n.lists[min(i, len(n.lists)-1)]...), nil
}

func addrs(ss ...string) []netip.Addr {
	as := make([]netip.Addr, len(ss))
	for i, s := range ss {
		as[i] = netip.MustParseAddr(s)
	}
	return as
}

func server(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// named returns the URL of s under the name example.test.
func named(s *httptest.Server) string {
	u, _ := url.Parse(s.URL)
	return "http://example.test:" + u.Port() + "/"
}

func get(c *outbound.Client, url string) (outbound.Reply, error) {
	return c.Do(context.Background(), outbound.HostActor(outbound.Stranger), outbound.Request{Method: http.MethodGet, URL: url})
}

func wantKind(t *testing.T, err error, want problem.Kind) {
	t.Helper()
	if got := problem.AsError(err); got == nil || got.Kind != want {
		t.Fatalf("error = %v, want kind %v", err, want)
	}
}

func TestNothingReachesAServerOnLoopbackUnlessAllowed(t *testing.T) {
	var hits atomic.Int32
	s := server(t, func(http.ResponseWriter, *http.Request) { hits.Add(1) })
	u, _ := url.Parse(s.URL)
	closed := outbound.New(outbound.Options{})
	for _, host := range []string{"127.0.0.1", "localhost", "0.0.0.0", "[::ffff:127.0.0.1]", "[::]", "127.1", "0x7f.1", "2130706433", "0177.0.0.1"} {
		_, err := get(closed, "http://"+net.JoinHostPort(strings.Trim(host, "[]"), u.Port())+"/")
		if err == nil {
			t.Errorf("Do(%s) = no error, want a refusal", host)
		}
	}
	_, err := get(closed, s.URL)
	wantKind(t, err, problem.Forbidden)
	if log := err.Error(); !strings.Contains(log, "127.0.0.1") || !strings.Contains(log, "loopback (RFC 1122") {
		t.Errorf("refusal = %q, want the host and the reason", log)
	}
	if hits.Load() != 0 {
		t.Fatalf("the server saw %d requests, want 0", hits.Load())
	}
	if _, err := get(outbound.New(outbound.Options{AllowLoopback: true}), s.URL); err != nil {
		t.Errorf("Do() with loopback allowed = %v", err)
	}
}

func TestNameIsRefusedIfOneCandidateIs(t *testing.T) {
	s := server(t, func(http.ResponseWriter, *http.Request) { t.Error("the server was reached") })
	for _, list := range [][]netip.Addr{
		addrs("10.0.0.1"),
		addrs("8.8.8.8", "169.254.169.254"),
		addrs("127.0.0.1", "10.0.0.1"), // the first is allowed and would answer
		addrs("::ffff:10.0.0.1"),       // some resolvers return an A record like this
		addrs("fd00::1"),
	} {
		c := outbound.New(outbound.Options{AllowLoopback: true, Resolver: &names{lists: [][]netip.Addr{list}}})
		_, err := get(c, named(s))
		wantKind(t, err, problem.Unavailable)
		inside := list[len(list)-1].Unmap().String()
		if text := problem.AsError(err).Text(); !strings.HasPrefix(text, "example.test: no public address was found") || strings.Contains(text, inside) {
			t.Errorf("refusal = %q, want the name, and not the address", text)
		}
		if log := err.Error(); !strings.Contains(log, "address "+inside+" is ") {
			t.Errorf("cause = %q, want the address %s, for the log", log, inside)
		}
	}
}

// System resolvers may return A records in v4-mapped form. A name with such a record is reached,
// but the mapped form in a URL is refused.
func TestV4MappedAnswersOfTheResolverAreAddresses(t *testing.T) {
	s := server(t, func(http.ResponseWriter, *http.Request) {})
	mapped := &names{lists: [][]netip.Addr{addrs("::ffff:127.0.0.1")}}
	if _, err := get(outbound.New(outbound.Options{AllowLoopback: true, Resolver: mapped}), named(s)); err != nil {
		t.Errorf("Do() where loopback may be reached = %v, want an answer", err)
	}
	_, err := get(outbound.New(outbound.Options{Resolver: mapped}), named(s))
	wantKind(t, err, problem.Unavailable)
	if !strings.Contains(err.Error(), "address 127.0.0.1 is loopback") {
		t.Errorf("Do() where it may not = %v, want the address refused as loopback", err)
	}
	_, err = get(outbound.New(outbound.Options{AllowLoopback: true}), strings.Replace(s.URL, "127.0.0.1", "[::ffff:127.0.0.1]", 1))
	wantKind(t, err, problem.Forbidden)
}

// A stranger's request does not reuse an open connection of the operator's requests.
func TestOnlyURLsOfTheOperatorReachLoopback(t *testing.T) {
	s, reached := counted(t, func(http.ResponseWriter, *http.Request) {})
	c := outbound.New(outbound.Options{OperatorLoopback: true, Guard: func(context.Context, outbound.Actor, string) error { return nil }})
	for _, tt := range []struct {
		by   outbound.URLChooser
		want bool
	}{{outbound.Operator, true}, {outbound.Tenant, false}, {outbound.Stranger, false}, {outbound.Operator, true}} {
		for _, as := range []outbound.Actor{outbound.HostActor(tt.by), outbound.VacantActor(identity.ID{1}, tt.by)} {
			reached.Store(0)
			_, err := c.Do(t.Context(), as, outbound.Request{Method: http.MethodGet, URL: s.URL})
			reply, raw := c.ForActor(as).HTTPClient().Get(s.URL)
			if raw == nil {
				reply.Body.Close()
			}
			if (err == nil) != tt.want || (raw == nil) != tt.want || (reached.Load() == 2) != tt.want {
				t.Errorf("chooser %d: %v, %v with %d requests, want them sent: %t", tt.by, err, raw, reached.Load(), tt.want)
			}
		}
	}
}

// The operator can allow single URLs to lead to a private address. URLs of others cannot reach such
// addresses.
func TestOnlyURLsOfTheOperatorReachPrivateAddresses(t *testing.T) {
	s := server(t, func(http.ResponseWriter, *http.Request) {})
	dialled := ""
	c := outbound.New(outbound.Options{
		Resolver: &names{lists: [][]netip.Addr{addrs("10.0.0.1")}},
		Dial: func(ctx context.Context, network, at string) (net.Conn, error) {
			dialled = at
			return new(net.Dialer).DialContext(ctx, network, s.Listener.Addr().String())
		},
	})
	for name, tt := range map[string]struct {
		as   outbound.Actor
		want bool
	}{
		"the operator's, in private": {outbound.HostActor(outbound.Operator).WithPrivateAddresses(), true},
		"the operator's":             {outbound.HostActor(outbound.Operator), false},
		"a stranger's, in private":   {outbound.HostActor(outbound.Stranger).WithPrivateAddresses(), false},
		"a tenant's, in private":     {outbound.HostActor(outbound.Tenant).WithPrivateAddresses(), false},
	} {
		dialled = ""
		_, err := c.Do(t.Context(), tt.as, outbound.Request{Method: http.MethodGet, URL: named(s)})
		if (err == nil) != tt.want || strings.HasPrefix(dialled, "10.0.0.1:") != tt.want {
			t.Errorf("%s: %v, dialled %q, want it reached: %t", name, err, dialled, tt.want)
		}
	}
}

func TestTheCheckedAddressIsTheOneDialled(t *testing.T) {
	s := server(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Host) })
	n := &names{lists: [][]netip.Addr{addrs("127.0.0.1"), addrs("10.0.0.1")}}
	c := outbound.New(outbound.Options{AllowLoopback: true, Resolver: n})
	r, err := get(c, named(s))
	if err != nil {
		t.Fatalf("Do() = %v", err)
	}
	if n.calls.Load() != 1 {
		t.Errorf("%d look-ups for one connection, want 1: a second answer could differ from the checked one", n.calls.Load())
	}
	if got := string(r.Body); !strings.HasPrefix(got, "example.test:") {
		t.Errorf("Host = %q, want the name", got)
	}
	c.CloseIdle()
	_, err = get(c, named(s)) // the name now resolves to a private address
	wantKind(t, err, problem.Unavailable)
}

func TestTheNextCandidateIsTriedWhenOneDoesNotConnect(t *testing.T) {
	s := server(t, func(http.ResponseWriter, *http.Request) {}) // on 127.0.0.1, not on 127.0.0.2
	c := outbound.New(outbound.Options{AllowLoopback: true, Resolver: &names{lists: [][]netip.Addr{addrs("127.0.0.2", "127.0.0.1")}}})
	if _, err := get(c, named(s)); err != nil {
		t.Errorf("Do() = %v, want the second address to answer", err)
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	target := server(t, func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") })
	s := server(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, target.URL, http.StatusTemporaryRedirect)
	})
	r, err := get(outbound.New(outbound.Options{AllowLoopback: true}), s.URL)
	if err != nil || r.Status != http.StatusTemporaryRedirect {
		t.Errorf("Do() = %d, %v, want 307 itself", r.Status, err)
	}
}

func TestNoProxyIsTakenFromTheEnvironment(t *testing.T) {
	proxy := server(t, func(http.ResponseWriter, *http.Request) { t.Error("the proxy was asked") })
	t.Setenv("HTTP_PROXY", proxy.URL)
	t.Setenv("http_proxy", proxy.URL)
	t.Setenv("ALL_PROXY", proxy.URL)
	_, err := get(outbound.New(outbound.Options{Resolver: &names{lists: [][]netip.Addr{addrs("10.1.2.3")}}}), "http://example.test/")
	wantKind(t, err, problem.Unavailable)
}

func TestURLsThatAreNotSentTo(t *testing.T) {
	c := outbound.New(outbound.Options{AllowLoopback: true})
	for _, u := range []string{"", "/path", "example.test", "ftp://example.test/", "file:///etc/passwd", "gopher://127.0.0.1/", "http:opaque", "http://", "http:///path", "http://u:p@example.test/", "http://%zz/", "http://a b/", "http://x/" + strings.Repeat("a", 5000), "unix:///tmp/s"} {
		_, err := get(c, u)
		wantKind(t, err, problem.Malformed)
		if strings.Contains(err.Error(), "u:p@") {
			t.Errorf("error shows a password: %v", err)
		}
	}
}

func TestFailuresHaveTheirKind(t *testing.T) {
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	slow := server(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	stalls := server(t, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "x")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	large := server(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, strings.Repeat("x", 2000)) })
	header := server(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", 1<<20)) })
	cuts := server(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0) // the refused handshake is expected
	secure.TLS = &tls.Config{}
	secure.StartTLS()
	t.Cleanup(secure.Close)
	gone := httptest.NewServer(nil)
	gone.Close()

	patient := outbound.New(outbound.Options{AllowLoopback: true, MaxReply: 1000})
	hasty := outbound.New(outbound.Options{AllowLoopback: true, Timeout: 100 * time.Millisecond})
	for name, want := range map[string]struct {
		url  string
		kind problem.Kind
	}{
		"no answer":       {slow.URL, problem.DeadlineExceeded},
		"half an answer":  {stalls.URL, problem.DeadlineExceeded},
		"large body":      {large.URL, problem.TooLarge},
		"large header":    {header.URL, problem.Unavailable},
		"closed by peer":  {cuts.URL, problem.Unavailable},
		"nobody listens":  {gone.URL, problem.Unavailable},
		"bad certificate": {secure.URL, problem.Untrusted},
	} {
		t.Run(name, func(t *testing.T) {
			c := patient
			if want.kind == problem.DeadlineExceeded {
				c = hasty
			}
			_, err := get(c, want.url+"/hidden?key=hidden")
			wantKind(t, err, want.kind)
			if strings.Contains(err.Error(), "hidden") {
				t.Errorf("error = %v, which the log shows: want no path and no query", err)
			}
		})
	}
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(10*time.Millisecond, cancel)
		_, err := patient.Do(ctx, outbound.HostActor(outbound.Stranger), outbound.Request{Method: http.MethodGet, URL: slow.URL})
		wantKind(t, err, problem.Canceled)
	})
	t.Run("resolver fails", func(t *testing.T) {
		_, err := get(outbound.New(outbound.Options{Resolver: failing{errors.New("no route")}}), "http://example.test/")
		wantKind(t, err, problem.Unavailable)
		_, err = get(outbound.New(outbound.Options{Resolver: failing{&net.DNSError{IsNotFound: true}}}), "http://example.test/")
		wantKind(t, err, problem.Unavailable)
		_, err = get(outbound.New(outbound.Options{Resolver: failing{}}), "http://example.test/")
		wantKind(t, err, problem.Unavailable)
	})
}

// A tenant must not learn from an error whether a name has an address in the operator's network, so
// the error is the same for all names without a public address.
func TestANameThatLeadsInsideIsRefusedAsANameWithoutAnAddress(t *testing.T) {
	inside := func(list ...string) outbound.Resolver { return &names{lists: [][]netip.Addr{addrs(list...)}} }
	for what, resolver := range map[string]outbound.Resolver{
		"no such name":       failing{&net.DNSError{Err: "no such host", IsNotFound: true}},
		"no address":         failing{},
		"a broken resolver":  failing{&net.DNSError{Err: "server misbehaving", IsTemporary: true}},
		"a slow resolver":    failing{&net.DNSError{Err: "i/o timeout", IsTimeout: true}},
		"this machine":       inside("127.0.0.1"),
		"a private address":  inside("10.0.0.1"),
		"metadata":           inside("169.254.169.254"),
		"inside and outside": inside("8.8.8.8", "fd00::1"),
		"unspecified":        inside("::"),
	} {
		for _, scheme := range []string{"http", "https"} {
			_, err := get(outbound.New(outbound.Options{Resolver: resolver}), scheme+"://example.test/")
			if p := problem.AsError(err); err == nil || p.Kind != problem.Unavailable || p.Text() != "example.test: no public address was found for this name" {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
}

type failing struct{ err error }

func (f failing) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return nil, f.err
}

func TestPostSendsJSON(t *testing.T) {
	s := server(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusAccepted)
		io.WriteString(w, r.Method+" "+r.Header.Get("Content-Type")+" "+string(b))
	})
	status, reply, err := outbound.New(outbound.Options{AllowLoopback: true}).Post(context.Background(), outbound.HostActor(outbound.Stranger), s.URL, []byte(`{"a":1}`))
	if err != nil || status != http.StatusAccepted {
		t.Fatalf("Post() = %d, %v", status, err)
	}
	if diff := cmp.Diff(`POST application/json {"a":1}`, string(reply)); diff != "" {
		t.Errorf("Post() sent (-want +got):\n%s", diff)
	}
}

func TestTheTraceGoesOnAndNothingElseOfTheInvocation(t *testing.T) {
	const trace = "1-5bef4de7-ad49b0e87f6ef6c87fc2e700"
	var headers []http.Header
	s := server(t, func(_ http.ResponseWriter, r *http.Request) { headers = append(headers, r.Header) })
	c := outbound.New(outbound.Options{AllowLoopback: true})
	traced, _ := obs.WithUsage(t.Context(), obs.Invocation{RequestID: "request-1", TraceID: trace, Now: time.Now})
	bare, _ := obs.WithUsage(t.Context(), obs.Invocation{RequestID: "request-1", Now: time.Now})
	for _, ctx := range []context.Context{traced, bare, t.Context()} {
		if _, _, err := c.Post(ctx, outbound.HostActor(outbound.Stranger), s.URL, nil); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, h := range headers {
		got = append(got, strings.Join(h.Values(obs.TraceHeader), "|"))
	}
	if diff := cmp.Diff([]string{"Root=" + trace, "", ""}, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", obs.TraceHeader, diff)
	}
}

// Strangers choose the hosts without a limit, and each idle connection is an open file of this
// process.
func TestConnectionsToManyHostsAreNotAllKept(t *testing.T) {
	const hosts, most = 400, 300
	var open atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed:
			open.Add(-1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	c := outbound.New(outbound.Options{AllowLoopback: true, Resolver: &names{lists: [][]netip.Addr{addrs("127.0.0.1")}}})
	u, _ := url.Parse(s.URL)
	for i := range hosts {
		if _, err := get(c, fmt.Sprintf("http://h%d.example.test:%s/", i, u.Port())); err != nil {
			t.Fatal(err)
		}
	}
	for wait := time.Millisecond; open.Load() > most && wait < 5*time.Second; wait *= 2 {
		time.Sleep(wait) // the server learns of a close when it reads
	}
	if got := open.Load(); got > most {
		t.Errorf("%d connections are open after one request to each of %d hosts, want at most %d", got, hosts, most)
	}
}
