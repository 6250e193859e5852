package serve_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/local"
	"github.com/vacancy-host/vacancy/shared/host/keys/operator"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

var quiet = slog.New(slog.DiscardHandler)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func httpServer(t *testing.T, s store.Store, url string, log *slog.Logger, changes ...func(*serve.Config)) *serve.Server {
	t.Helper()
	vault, err := local.Open(filepath.Join(t.TempDir(), "seal.key"), rand.Reader)
	must(t, err)
	c := serve.Config{Store: s, Vault: vault, AllowLoopback: true, URL: url, Log: log, Now: time.Now, Rand: rand.Reader}
	for _, change := range changes {
		change(&c)
	}
	h, err := c.Open()
	must(t, err)
	return h
}

// runningHost is a running host: its public URL, and a client of its admin socket.
type runningHost struct {
	url  string
	api  *admin.Client
	stop func() error
}

func start(t *testing.T) *runningHost {
	t.Helper()
	dir, err := os.MkdirTemp("", "vacancy")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	dir = filepath.Join(dir, "data")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	url := "http://" + l.Addr().String()
	h := httpServer(t, memory.New(), url, quiet)
	handler, err := serve.ListenAdmin(dir, rand.Reader)
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- serve.Run(ctx, quiet, time.Second,
			serve.Endpoint{Listener: l, Handler: serve.Public(h.MessageHandler())},
			serve.Endpoint{Listener: handler, Handler: serve.AdminHandler(handler, h.Admin()), NoWriteLimit: true})
	}()
	stopped := false
	stop := func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-done
	}
	t.Cleanup(func() { stop() })
	client, base, err := serve.DialAdmin(dir)
	must(t, err)
	return &runningHost{url: url, api: &admin.Client{HTTP: client, URL: base}, stop: stop}
}

// call signs and posts one first message, and returns status and answer.
func call(t *testing.T, url string, to identity.ID) (int, []byte, *identity.Key) {
	t.Helper()
	key, err := identity.NewKey(rand.Reader)
	must(t, err)
	e := envelope.Envelope{From: key.ID(), To: to, Seq: 1, Time: time.Now().UTC().Truncate(time.Microsecond),
		Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{"hi"}}}
	_, err = e.Sign(t.Context(), key)
	must(t, err)
	resp, err := http.Post(url, "application/json", bytes.NewReader(envelope.AppendRequest(nil, nil, &e)))
	must(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	must(t, err)
	return resp.StatusCode, b, key
}

func TestThePublicListenerServesNoControlRoute(t *testing.T) {
	h := start(t)
	v, err := admin.CreateVacant.Call(t.Context(), h.api, op.NewBody(admin.Creation{Name: "demo", Capability: "echoes"}))
	must(t, err)
	for _, path := range []string{
		"/v1/admin/vacants", "/v1/admin/vacants/", "/v1/admin/vacants/demo", "/v1/admin/vacants/demo/logbook", "/v1/admin/vacants/demo/sink", "/v1/admin/verify", "/v1/admin/chain/a/b", "/v1/admin",
		"//v1/admin/vacants", "/v1//vacants", "/x/../v1/admin/vacants", "/v1/./vacants", "/V1/vacants", "/%76%31/vacants", "/v1/admin/vacants%2fdemo", "/v1/admin/vacants?x=/a2a/message/send",
	} {
		for _, method := range []string{"GET", "POST", "PUT", "DELETE", "OPTIONS"} {
			r, err := http.NewRequest(method, h.url+path, strings.NewReader(`{"name":"intruder","capability":"c"}`))
			must(t, err)
			r.Header.Set("Content-Type", "application/json")
			r.Host = admin.SocketHost
			resp, err := http.DefaultTransport.RoundTrip(r)
			must(t, err)
			b, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode < 300 || strings.Contains(string(b), v.ID.String()) {
				t.Errorf("%s %s = %d %s on the public listener", method, path, resp.StatusCode, b)
			}
		}
	}
	// A path that ends like a call is a call, except below these routes.
	if status, body, _ := call(t, h.url+"/v1/admin/vacants/demo/a2a/message/send", v.ID); status != http.StatusNotFound {
		t.Errorf("a call below a control route = %d %s, want 404", status, body)
	}
	if status, body, _ := call(t, h.url+"/any/where/a2a/message/send", v.ID); status != http.StatusOK {
		t.Errorf("a call elsewhere = %d %s, want 200", status, body)
	}
	p, err := admin.ListVacants.Call(t.Context(), h.api, admin.ListVacantsRequest{Cursor: "", All: false})
	if err != nil || len(p.Vacants) != 1 || p.Vacants[0].State != lifecycle.Local {
		t.Errorf("List() = %+v, %v, want the one vacant as it was", p, err)
	}
}

func TestInProcessAnswersStream(t *testing.T) {
	stopped := make(chan error, 1)
	client, base := serve.InProcessClient(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/panic":
			panic("broken")
		case "/late-panic":
			io.WriteString(w, "half")
			panic("broken")
		case "/nothing":
			return
		case "/hang":
			<-r.Context().Done()
			return
		}
		w.Header().Set("X", "y")
		w.WriteHeader(http.StatusAccepted)
		for {
			if _, err := io.WriteString(w, "line\n"); err != nil {
				stopped <- err
				return
			}
			w.(http.Flusher).Flush()
		}
	}))
	resp, err := client.Get(base + "/stream")
	must(t, err)
	b := make([]byte, 10)
	if _, err := io.ReadFull(resp.Body, b); err != nil || string(b) != "line\nline\n" || resp.StatusCode != http.StatusAccepted || resp.Header.Get("X") != "y" {
		t.Errorf("stream = %d %q, %v", resp.StatusCode, b, err)
	}
	resp.Body.Close()
	if err := <-stopped; err == nil {
		t.Error("the handler goes on after the body was closed")
	}
	resp, err = client.Get(base + "/nothing")
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("an empty answer = %v, %v", resp, err)
	}
	if b, err := io.ReadAll(resp.Body); len(b) > 0 || err != nil {
		t.Errorf("an empty answer = %q, %v", b, err)
	}
	for path, want := range map[string]int{"/panic": http.StatusInternalServerError, "/late-panic": http.StatusOK} {
		resp, err := client.Get(base + path)
		if err != nil || resp.StatusCode != want {
			t.Fatalf("GET %s = %v, %v, want %d", path, resp, err, want)
		}
		if _, err := io.ReadAll(resp.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("GET %s ends with %v, want a cut answer", path, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	r, _ := http.NewRequestWithContext(ctx, "GET", base+"/hang", nil)
	if _, err := client.Do(r); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled request = %v", err)
	}
}

func TestTheEndWaitsForWhatIsUnderWayAndCutsTheRest(t *testing.T) {
	for name, c := range map[string]struct {
		grace time.Duration
		cut   bool
	}{"in time": {10 * time.Second, false}, "too slow": {time.Millisecond, true}} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			must(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			release := make(chan struct{})
			slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				cancel() // the server stops while this request is under way
				if c.cut {
					<-r.Context().Done()
				} else {
					<-release
				}
				io.WriteString(w, "done")
			})
			done := make(chan error, 1)
			go func() { done <- serve.Run(ctx, quiet, c.grace, serve.Endpoint{Listener: l, Handler: slow}) }()
			context.AfterFunc(ctx, func() { close(release) })
			resp, err := http.Get("http://" + l.Addr().String())
			if (err != nil) != c.cut {
				t.Errorf("the request under way = %v, want it cut: %t", err, c.cut)
			}
			if err == nil {
				if b, err := io.ReadAll(resp.Body); string(b) != "done" || err != nil {
					t.Errorf("answer = %q, %v", b, err)
				}
				resp.Body.Close()
			}
			if err := <-done; err != nil {
				t.Errorf("Run() = %v, want an orderly end", err)
			}
		})
	}
}

func TestAHandlerThatFailsEndsTheOthers(t *testing.T) {
	good, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	bad, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	bad.Close()
	err = serve.Run(t.Context(), quiet, time.Second, serve.Endpoint{Listener: good, Handler: http.NotFoundHandler()}, serve.Endpoint{Listener: bad, Handler: http.NotFoundHandler()})
	if !problem.Is(err, problem.Unavailable) {
		t.Errorf("Run() = %v, want which listener failed", err)
	}
	if _, err := net.Dial("tcp", good.Addr().String()); err == nil {
		t.Error("the other handler is still open")
	}
}

func TestHeadersAreBounded(t *testing.T) {
	h := start(t)
	r, _ := http.NewRequest("GET", h.url+"/card", nil)
	r.Header.Set("X", strings.Repeat("x", 32<<10))
	resp, err := http.DefaultClient.Do(r)
	must(t, err)
	resp.Body.Close()
	if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("32 KiB of headers = %d, want 431", resp.StatusCode)
	}
}

func TestAHomeWhoseURLIsNoneIsRefused(t *testing.T) {
	_, err := serve.Config{Store: memory.New(), URL: "vacancy.example", Log: quiet, Now: time.Now, Rand: rand.Reader}.Open()
	if !problem.Is(err, problem.Usage) {
		t.Errorf("Open() = %v, want a refusal", err)
	}
}

// A host as on AWS: it learns its URL later, its identity is in a key service,
// and an operator key guards the admin API.
func TestAHomeWithAnOperatorAsksForItsKeyAndTakesAnyHost(t *testing.T) {
	s := memory.New()
	vault, err := local.FromHex(strings.Repeat("5a", 32), rand.Reader)
	must(t, err)
	self, err := identity.NewKey(rand.Reader)
	must(t, err)
	keys := operator.Keys{Store: s, Now: time.Now, Rand: rand.Reader}
	h, err := serve.Config{
		Store: s, Vault: vault, Log: quiet, Now: time.Now, Rand: rand.Reader,
		Identity: func(context.Context) (identity.Signer, error) { return self, nil },
		Operator: keys, Stage: "test", Version: "v1",
	}.Open()
	must(t, err)
	srv := httptest.NewServer(h.Admin())
	defer srv.Close()
	c := admin.Client{HTTP: srv.Client(), URL: srv.URL}
	if _, err := admin.GetHost.Call(t.Context(), c, admin.HostRequest{}); !problem.Is(err, problem.Unauthorized) {
		t.Errorf("Host() without a key = %v, want unauthorized", err)
	}
	c.Key, err = keys.Rotate(t.Context())
	must(t, err)
	creation := admin.Creation{Name: "demo", Capability: "says what it hears"}
	if _, err := admin.CreateVacant.Call(t.Context(), c, op.NewBody(creation)); !problem.Is(err, problem.Conflict) {
		t.Errorf("Create() before the URL is set = %v, want a conflict", err)
	}
	_, err = admin.SetHost.Call(t.Context(), c, op.NewBody(admin.HostURL{URL: "https://vacancy.example"}))
	must(t, err)
	if v, err := admin.CreateVacant.Call(t.Context(), c, op.NewBody(creation)); err != nil || !strings.HasPrefix(v.Endpoint, "https://vacancy.example/v/") {
		t.Errorf("Create() = endpoint %s, %v", v.Endpoint, err)
	}
	got, err := admin.GetHost.Call(t.Context(), c, admin.HostRequest{Challenge: []string{"abc"}})
	if err != nil || !got.HasValidProof("abc") {
		t.Fatalf("Host() = %+v, %v, want a proof", got, err)
	}
	got.Signature = ""
	want := admin.Host{ID: self.ID(), KeyStorage: "kms", URL: "https://vacancy.example", Version: "v1", Stage: "test"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Host() (-want +got):\n%s", diff)
	}
}

func TestAgentsReachLoopbackIfTheOperatorChoseThem(t *testing.T) {
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		io.WriteString(w, "thought")
	}))
	defer target.Close()
	for _, tt := range []struct {
		loopback, own bool
		tenant        string
		by            vacants.Asker
		want          bool
	}{
		{false, false, "", vacants.OperatorAsker(), false},
		{true, false, "", vacants.OperatorAsker(), true},
		{true, false, "", vacants.Asker{}, true}, // only the operator makes vacants without a tenant
		{true, false, "acme", vacants.OperatorAsker(), true},
		{true, false, "acme", vacants.TenantAsker("acme"), false},
		{true, false, "acme", vacants.Asker{}, false},
		{true, true, "acme", vacants.TenantAsker("acme"), true},
	} {
		h := httpServer(t, memory.New(), "http://127.0.0.1:1", quiet, func(c *serve.Config) { c.AllowLoopback, c.OwnMachine = tt.loopback, tt.own })
		asked, err := h.Vacants.Create(t.Context(), vacants.CreateSpec{Name: "demo", Capability: "thinks", Substrate: "http:" + target.URL, Tenant: tt.tenant, Asker: tt.by})
		must(t, err)
		err = h.Answers.CheckAgent(t.Context(), asked.ID)
		if tt.want && err != nil || !tt.want && !problem.Is(err, problem.SubstrateMisconfigured) {
			t.Errorf("%+v: CheckAgent() = %v", tt, err)
		}
	}
}
