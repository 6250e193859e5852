package promises

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/front/handlers"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/billing/paykeys"
	"github.com/vacancy-host/vacancy/shared/host/billing/stripe"
	"github.com/vacancy-host/vacancy/shared/host/billing/tokens"
	"github.com/vacancy-host/vacancy/shared/host/billing/tokens/tokenstest"
	"github.com/vacancy-host/vacancy/shared/host/booking"
	"github.com/vacancy-host/vacancy/shared/host/client/discovery"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/registry/registrytest"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/mcp"
	"github.com/vacancy-host/vacancy/shared/host/substrate/openai"
	"github.com/vacancy-host/vacancy/shared/host/substrate/think"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/listing"
	"github.com/vacancy-host/vacancy/tests/memhost"
	"github.com/vacancy-host/vacancy/tests/stripemock"
)

// Whose URLs lead where, by how the host is run: "all", "operator" or "none". A new range of
// addresses is a row.
var reached = []struct {
	where, address     string
	dev, loopback, not string // `vacancy dev`, `vacancy serve --allow-loopback-agents`, and without it, or on AWS
}{
	{"public", "8.8.8.8", "all", "all", "all"},
	{"public-v6", "2606:4700::1111", "all", "all", "all"},
	{"host", "8.8.4.4", "all", "all", "all"}, // the host's own public address
	{"loopback", "127.0.0.1", "all", "operator", "none"},
	{"loopback-other", "127.9.9.9", "all", "operator", "none"},
	{"loopback-v6", "::1", "all", "operator", "none"},
	{"loopback-mapped", "::ffff:127.0.0.1", "all", "operator", "none"},
	{"unspecified", "0.0.0.0", "none", "none", "none"},
	{"private", "10.0.0.5", "none", "none", "none"},
	{"private-v6", "fd12:3456::1", "none", "none", "none"},
	{"metadata", "169.254.169.254", "none", "none", "none"},
	{"metadata-v6", "fd00:ec2::254", "none", "none", "none"},
	{"metadata-mapped", "::ffff:169.254.169.254", "none", "none", "none"},
}

const ownURL = "https://host.example"

// senders are the places that send requests out of a host, or ask whether one may be sent,
// with the party that chose the URL. A new one needs a row.
var senders = map[string]struct {
	by   string // the argument of outbound.HostActor or outbound.VacantActor
	send func(h *reaching, by outbound.URLChooser, url string)
	why  string // there is no send
}{
	"shared/host/substrate/httpagent/httpagent.go Infer": {by: "q.Chooser", send: agent("http:%s")},
	"shared/host/substrate/remote/remote.go post":        {by: "r.Chooser", send: agent("openai:%s/v1#m")},
	"shared/host/substrate/mcp/mcp.go answer":            {by: "r.Chooser", send: agent("mcp:%s/mcp#tool")},
	"shared/host/substrate/mcp/mcp.go Servers":           {by: "chooser", send: servers},
	"shared/host/a2a/push/delivery.go sendRequest":       {by: "outbound.Stranger", send: pushes},
	"shared/host/registry/reach.go NewProbe":             {by: "outbound.Stranger", send: probes},
	"shared/host/booking/dispatch.go callRemoteVenue":    {by: "outbound.Stranger", send: books},
	"shared/host/client/discovery/endpoint.go HostRoute": {by: "outbound.Stranger", send: calls},
	"shared/host/billing/stripe/stripe.go newClient":     {by: "outbound.Operator", send: pays},
	"shared/host/billing/tokens/keys.go actorFor":        {by: "outbound.Stranger and outbound.Operator", send: issues}, // TestAnIssuerLeadsToNoOtherPort of package tokens sends the stranger's

	"shared/host/a2a/push/push.go CheckConfig":                {by: "outbound.Stranger", why: "it asks the guard"},
	"shared/host/answer/delegation/vacanttools.go checkReach": {by: "outbound.Stranger", why: "it asks the guard; the vacant is called by the pipeline"},
	"shared/host/substrate/awsapi/awsapi.go CheckPermitted":   {by: "r.Chooser", why: "it asks the guard; the request goes to AWS"},
	"cmd/vacancy/cli/startcmd/watchhost.go answerTurn":        {by: "outbound.Operator", why: "a person's own machine: the URL is in the agent's file"},
	"shared/host/client/discovery/endpoint.go PersonalRoute":  {by: "outbound.Stranger", why: "a person's own machine, which outbound lets reach public addresses only"},
}

// makers are the places that make a client, and what it may reach.
var makers = map[string]string{
	"shared/front/serve/server.go Open":                      "the client of a host, which is tested here",
	"shared/host/client/discovery/endpoint.go PersonalRoute": "public addresses only",
	"cmd/vacancy/cli/vacantcmd/agents.go agentsCommand":      "a person's own machine: the URL is an argument of the command",
	"cmd/vacancy/cli/startcmd/watchhost.go runRemoteWatch":   "a person's own machine: the URL is in the agent's file",
	"cmd/vacancy/cli/kit/tokens.go TokenChecker":             "the operator's own machine: an issuer that the operator added",
}

func TestOnlyTheOperatorsURLsReachThisMachine(t *testing.T) {
	for mode, config := range map[string]serve.Config{
		"dev":                           {AllowLoopback: true, OwnMachine: true},
		"serve --allow-loopback-agents": {AllowLoopback: true},
		"serve, AWS":                    {},
	} {
		for at, s := range senders {
			if s.send == nil {
				continue
			}
			choosers := map[string]outbound.URLChooser{"operator": outbound.Operator, "tenant": outbound.Tenant, "stranger": outbound.Stranger}
			if name, static := strings.CutPrefix(s.by, "outbound."); static {
				maps.DeleteFunc(choosers, func(k string, _ outbound.URLChooser) bool { return k != strings.ToLower(name) })
			}
			for who, by := range choosers {
				t.Run(mode+"/"+at+"/"+who, func(t *testing.T) {
					t.Parallel()
					h := open(t, config)
					for _, r := range reached {
						want := map[string]string{"dev": r.dev, "serve --allow-loopback-agents": r.loopback, "serve, AWS": r.not}[mode]
						addr := netip.MustParseAddr(r.address)
						h.lead(r.where+".example", addr)
						s.send(h, by, "https://"+r.where+".example")
						lookups, dialled := h.took()
						if lookups == 0 {
							t.Errorf("%s: no name was looked up, so the client sent nothing: this proves nothing", r.where)
						}
						for _, to := range dialled {
							if got, _, err := net.SplitHostPort(to); err != nil || got != addr.Unmap().String() {
								t.Errorf("%s: dialled %s, want no address but %s", r.where, to, addr.Unmap())
							}
						}
						if may := want == "all" || want == who; may != (len(dialled) > 0) {
							t.Errorf("%s, %s: %d connections, want URLs of %s to lead there", r.where, r.address, len(dialled), want)
						}
					}
				})
			}
		}
	}
}

// linkers are the ways in which a stranger hands a URL to an agent, which may fetch it: the request's
// path and its body with the URL in place of %s. A new protocol or form of a part needs a row.
var linkers = map[string]struct{ path, version, body string }{
	"A2A 1.0, REST":            {"/v/NAME/message:send", "1.0", `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"look"},{"url":%s,"mediaType":"image/png"}]}}`},
	"A2A 1.0, REST, stream":    {"/v/NAME/message:stream", "1.0", `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"look"},{"url":%s,"mediaType":"image/png"}]}}`},
	"A2A 1.0, JSON-RPC":        {"/v/NAME/", "1.0", `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"look"},{"url":%s}]}}}`},
	"A2A 1.0, JSON-RPC stream": {"/v/NAME/", "1.0", `{"jsonrpc":"2.0","id":1,"method":"SendStreamingMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"url":%s}]}}}`},
	"A2A 0.3, JSON-RPC":        {"/v/NAME/", "", `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"kind":"message","messageId":"m","role":"user","parts":[{"kind":"text","text":"look"},{"kind":"file","file":{"uri":%s,"mimeType":"image/png"}}]}}}`},
	"OpenAI":                   {"/v/NAME/v1/chat/completions", "", `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"look"},{"type":"image_url","image_url":{"url":%s}}]}]}`},
	"OpenAI, stream":           {"/v/NAME/v1/chat/completions", "", `{"model":"m","stream":true,"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":%s}}]}]}`},
	"Responses":                {"/v/NAME/v1/responses", "", `{"input":[{"role":"user","content":[{"type":"input_text","text":"look"},{"type":"input_image","image_url":%s}]}]}`},
	"OpenAI, of the host":      {"/v1/chat/completions", "", `{"model":"NAME","messages":[{"role":"user","content":[{"type":"text","text":"look"},{"type":"image_url","image_url":{"url":%s}}]}]}`},
}

func TestStrangersHandAgentsLinksToPublicHostsOnly(t *testing.T) {
	good := []string{"https://example.com/cat.png", "https://8.8.8.8/cat.png", "https://[2606:4700::1111]:8443/cat.png"}
	bad := []string{
		"file:///etc/passwd", "http://example.com/cat.png", "data:text/html,hi", "ftp://example.com/x", "https://ann:secret@example.com/x", "https://example.com@127.0.0.1/", "https://localhost/x", "https://app.localhost./x",
		"https://127.1/x", "https://2130706433/", "https://0x7f.0.0.1/", "https://0177.0.0.1/", "https://127.0.0.1./x", "https://metadata.google.internal/x", "https://intranet/x", "https://１２７.0.0.1/x", "/etc/passwd", "",
	}
	for _, r := range reached {
		if r.not == "none" {
			host := r.address
			if strings.Contains(host, ":") {
				host = "[" + host + "]"
			}
			bad = append(bad, "https://"+host+"/x")
		}
	}
	for way, l := range linkers {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			h := open(t, serve.Config{AllowLoopback: true, OwnMachine: true})
			h.lead("agent.example", netip.MustParseAddr("8.8.8.8"))
			a := &definition.Agent{Provider: substrate.KindHTTP, BaseURL: "https://agent.example/", Input: []string{"image/png"}}
			_, err := h.Vacants.Create(h.Context(), vacants.CreateSpec{Name: h.name(), Capability: "looks", Agent: a, Asker: vacants.OperatorAsker()})
			h.Must(err)
			agents := h.OpenA2A()
			handler := serve.Handlers{Message: h.MessageHandler(), Plain: agents.Plain, Protocols: handlers.NewProtocols(agents)}.Public()
			ask := func(link string) (said string, dialled int) {
				quoted, err := json.Marshal(link)
				h.Must(err)
				r := httptest.NewRequest(http.MethodPost, ownURL+strings.ReplaceAll(l.path, "NAME", h.name()), strings.NewReader(fmt.Sprintf(strings.ReplaceAll(l.body, "NAME", h.name()), quoted)))
				r.Header.Set("Content-Type", "application/json")
				if l.version != "" {
					r.Header.Set("A2A-Version", l.version)
				}
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, r)
				_, all := h.took()
				return fmt.Sprint(w.Code, " ", w.Body), len(all)
			}
			for _, link := range good {
				if said, dialled := ask(link); dialled == 0 {
					t.Errorf("%s: the agent is not asked: %s", link, said)
				}
			}
			for _, link := range bad {
				if said, dialled := ask(link); dialled > 0 || !strings.Contains(said, "url") && !strings.Contains(said, "part") {
					t.Errorf("%s: %d connections to the agent, and %s; want the part refused", link, dialled, said)
				}
			}
		})
	}
}

func TestEachPlaceThatSendsRequestsSaysWhoChoseTheURL(t *testing.T) {
	sent, made := map[string]string{}, map[string]string{}
	for _, top := range []string{"shared", "functions", "cmd"} {
		err := filepath.WalkDir(filepath.Join("..", "..", top), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasSuffix(filepath.Dir(path), "test") {
				return err
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			for _, im := range f.Imports {
				if im.Name != nil && strings.HasSuffix(im.Path.Value, `/host/network/outbound"`) {
					t.Errorf("%s imports %s as %s, under which this test does not find it", path, im.Path.Value, im.Name.Name)
				}
			}
			for _, decl := range f.Decls {
				name := "declaration"
				if fn, ok := decl.(*ast.FuncDecl); ok {
					name = fn.Name.Name
				}
				at := strings.TrimPrefix(filepath.ToSlash(path), "../../") + " " + name
				ast.Inspect(decl, func(n ast.Node) bool {
					call, ok := n.(*ast.CallExpr)
					if !ok {
						return true
					}
					switch types.ExprString(call.Fun) {
					case "outbound.HostActor", "outbound.VacantActor":
						by := types.ExprString(call.Args[len(call.Args)-1])
						if before, ok := sent[at]; ok && before != by {
							by = before + " and " + by
						}
						sent[at] = by
					case "outbound.New":
						made[at] = ""
					}
					return true
				})
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	rows := map[string]string{}
	for at, s := range senders {
		rows[at] = s.by
		if (s.send == nil) == (s.why == "") {
			t.Errorf("%s: a row has what sends a request, or why there is nothing", at)
		}
	}
	if diff := cmp.Diff(rows, sent); diff != "" {
		t.Errorf("who chose the URLs, by the rows and by the code (-rows +code):\n%s", diff)
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(makers)), slices.Sorted(maps.Keys(made))); diff != "" {
		t.Errorf("what makes clients (-rows +code):\n%s", diff)
	}
}

// reaching is a host without a network: names lead where the test says, and connections are
// counted and refused.
type reaching struct {
	*memhost.Host
	config serve.Config

	mu      sync.Mutex
	names   map[string]netip.Addr
	lookups int
	dialled []string
	dials   func() // called for each
	n       int    // of what was made
}

var errRefused = errors.New("nobody is there")

func open(t *testing.T, c serve.Config) *reaching {
	h := &reaching{names: map[string]netip.Addr{}, dials: func() {}}
	h.Host = memhost.Open(t, func(own *serve.Config) {
		own.AllowLoopback, own.OwnMachine = c.AllowLoopback, c.OwnMachine
		own.URL, own.Now, own.NewTokenChecker = ownURL, time.Now, tokens.NewForBilling
		own.AllowRemote, own.MCPServers, own.Resolver, own.Dial = true, mcp.Servers, h, h.dial
		own.Models = func(client *outbound.Client) substrate.Kinds {
			kinds := mcp.Kinds(client)
			maps.Copy(kinds, openai.Kinds(client))
			return kinds
		}
		h.config = *own
	})
	return h
}

// LookupNetIP implements outbound.Resolver.
func (h *reaching) LookupNetIP(_ context.Context, _, name string) ([]netip.Addr, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lookups++
	a, ok := h.names[name]
	if !ok {
		return nil, fmt.Errorf("a look-up of %s", name)
	}
	return []netip.Addr{a}, nil
}

func (h *reaching) dial(_ context.Context, _, addr string) (net.Conn, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dialled = append(h.dialled, addr)
	h.dials()
	return nil, &net.OpError{Op: "dial", Err: errRefused}
}

func (h *reaching) lead(name string, to netip.Addr) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.names[name] = to
	h.n++
}

// took returns what was looked up and dialled since.
func (h *reaching) took() (lookups int, dialled []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	lookups, dialled = h.lookups, h.dialled
	h.lookups, h.dialled = 0, nil
	return lookups, dialled
}

// untilDialled is a context that ends with the first connection: what is tried again after
// that is the same.
func (h *reaching) untilDialled() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(h.Context())
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dials = cancel
	return ctx, cancel
}

func (h *reaching) name() string { return fmt.Sprintf("v%d", h.n) }

// setter is the party that sets an agent whose URL by chose.
func setter(by outbound.URLChooser) vacants.Asker {
	return map[outbound.URLChooser]vacants.Asker{outbound.Operator: vacants.OperatorAsker(), outbound.Tenant: vacants.TenantAsker("acme")}[by]
}

// agent checks an agent of a tenant's vacant that by set.
func agent(form string) func(*reaching, outbound.URLChooser, string) {
	return func(h *reaching, by outbound.URLChooser, url string) {
		r, err := h.Vacants.Create(h.Context(), vacants.CreateSpec{Name: h.name(), Capability: "answers", Substrate: fmt.Sprintf(form, url), Tenant: "acme", Asker: setter(by)})
		h.Must(err)
		if err := h.Answers.CheckAgent(h.Context(), r.ID); err == nil {
			h.Error("an agent answers, and there is no network")
		}
	}
}

func servers(h *reaching, by outbound.URLChooser, url string) {
	a := &definition.Agent{Provider: substrate.KindOpenAI, BaseURL: url + "/v1", Model: "m", MCPServers: []definition.Server{{Name: "notes", URL: url + "/mcp", Required: true}}}
	r, err := h.Vacants.Create(h.Context(), vacants.CreateSpec{Name: h.name(), Capability: "answers", Agent: a, Tenant: "acme", Asker: setter(by)})
	h.Must(err)
	if _, err := h.Answers.ThinkService().ListMCPTools(h.Context(), think.AgentVersion{Vacant: r.ID, Version: r.AgentVersion}); err == nil {
		h.Error("a server answers, and there is no network")
	}
	if _, err := h.Answers.Offer(h.Context(), r.ID); err == nil {
		h.Error("a server lists its tools, and there is no network")
	}
}

// queue keeps the messages that are sent to it.
type queue struct{ messages []string }

func (q *queue) Send(_ context.Context, m string, _ task.Sender) (func(context.Context, bool), error) {
	q.messages = append(q.messages, m)
	return func(context.Context, bool) {}, nil
}

func (q *queue) SendAfter(_ context.Context, notice string, _ task.Sender, after time.Duration) error {
	if after == 0 {
		q.messages = append(q.messages, notice)
	}
	return nil
}

func pushes(h *reaching, _ outbound.URLChooser, url string) {
	_, err := h.Vacants.Create(h.Context(), vacants.CreateSpec{Name: h.name(), Capability: "echoes", Substrate: "echo"})
	h.Must(err)
	notices := &queue{}
	a := h.OpenQueuedA2A(serve.Queues{Tasks: &queue{}, Notices: notices})
	r := httptest.NewRequest(http.MethodPost, ownURL+"/v/"+h.name()+"/message:send", strings.NewReader(fmt.Sprintf(
		`{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hi"}]},"configuration":{"taskPushNotificationConfig":{"url":%q}}}`, url)))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("A2A-Version", "1.0")
	w := httptest.NewRecorder()
	serve.Handlers{Message: h.MessageHandler(), Plain: a.Plain, Protocols: handlers.NewProtocols(a)}.Public().ServeHTTP(w, r)
	if w.Code != http.StatusOK || len(notices.messages) == 0 {
		h.Fatalf("a message = %d %s, with %d notices", w.Code, w.Body, len(notices.messages))
	}
	for _, m := range notices.messages {
		h.Must(a.Push.Handle(h.Context(), m))
	}
}

// elsewhere publishes a vacant of another host at a URL.
func elsewhere(h *reaching, url string, with func(*registry.Publication)) registry.Receipt {
	receipt, err := h.Registry.Publish(h.Context(), registrytest.NewPublication(h, registrytest.Key(h.n), registrytest.Draft{Endpoint: url + "/a2a/message/send", SignedAt: time.Now(), BeforeSign: with}))
	h.Must(err)
	return receipt
}

func probes(h *reaching, _ outbound.URLChooser, url string) {
	elsewhere(h, url, nil)
	got, err := h.Registry.ProbeEndpoints(h.Context(), registry.NewProbe(h.Outbound))
	if err != nil || got.Listed > 0 || got.Unanswered != 1 {
		h.Errorf("ProbeEndpoints() = %+v, %v, want one that does not answer", got, err)
	}
}

func books(h *reaching, _ outbound.URLChooser, url string) {
	ctx, cancel := h.untilDialled()
	defer cancel()
	key := registrytest.Key(h.n)
	elsewhere(h, url, func(p *registry.Publication) {
		l := registrytest.NewListing(h, key, 1, func(l *listing.Listing) { v := listing.DefaultVenue(); l.Venue = &v })
		p.Listing = &l
	})
	registrytest.ProbeEndpoints(h, h.Registry) // it was at another address then
	messages := &queue{}
	bookings := h.OpenBookings(messages, nil)
	a, err := h.Billing.OpenAccount(h.Context(), h.name(), 0)
	h.Must(err)
	_, _, err = h.Billing.Credit(h.Context(), a.ID, money.Dollar, "first", "")
	h.Must(err)
	k, _, err := h.Billing.MakeKey(h.Context(), a.ID, billing.KeyOptions{Tier: billing.Pro})
	h.Must(err)
	_, err = bookings.Confirm(h.Context(), &k, booking.Request{From: "guest", Agent: "guest", Venue: key.ID().String(), PartySize: 1})
	h.Must(err)
	for _, m := range messages.messages {
		_ = bookings.HandleMessage(ctx, m)
	}
}

func issues(h *reaching, _ outbound.URLChooser, url string) {
	a, err := h.Billing.OpenAccount(h.Context(), h.name(), 0)
	h.Must(err)
	i, err := h.Billing.AddIssuer(h.Context(), a.ID, url, billing.IssuerOptions{SubjectDailyCap: 1, TotalDailyCap: 1, AllowAll: true})
	h.Must(err)
	token, err := tokenstest.Sign("ES256", "ES256", map[string]any{"iss": i.URL, "sub": "ann", "aud": ownURL, "exp": time.Now().Add(time.Hour).Unix()}, nil)
	h.Must(err)
	r := httptest.NewRequest(http.MethodGet, ownURL+"/v1/account", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	if _, err := h.Billing.AuthenticateRequest(h.Context(), r, billing.KeyRequirement{}); !problem.Is(err, problem.Unavailable) {
		h.Errorf("AuthenticateRequest() = %v: an issuer answers, and there is no network", err)
	}
}

func calls(h *reaching, _ outbound.URLChooser, url string) {
	r, err := h.Vacants.Create(h.Context(), vacants.CreateSpec{Name: h.name(), Capability: "calls", Substrate: "echo"})
	h.Must(err)
	key := registrytest.Key(h.n)
	c, err := card.New(key.ID(), "is elsewhere", []string{"echo"}, url+"/a2a/message/send")
	h.Must(err)
	h.Must(c.Sign(h.Context(), key))
	to, err := discovery.HostRoute(h.Outbound, r.ID)(ownURL, &c)
	h.Must(err)
	if _, _, err := to.Post(h.Context(), c.Endpoint, nil); err == nil {
		h.Error("a vacant elsewhere answers, and there is no network")
	}
}

func pays(h *reaching, _ outbound.URLChooser, url string) {
	keys := paykeys.New(h.config.Store, h.config.Vault, time.Now, rand.Reader)
	for name, value := range map[string]string{paykeys.StripeAPIKey: stripemock.Key, paykeys.StripeWebhookKey: stripemock.Signing} {
		_, err := keys.Set(h.Context(), "", name, []string{strings.TrimPrefix(url, "https://")}, []byte(value))
		h.Must(err)
	}
	payments := stripe.New(paykeys.Config{
		Keys: keys, Client: h.Outbound, HostID: h.Vacants.HostID, Now: time.Now,
		BaseURL: func(context.Context) (string, error) { return ownURL, nil },
	})
	if _, err := payments.CreateCheckout(h.Context(), "acme", 25*money.Dollar, ""); err == nil {
		h.Error("a provider answers, and there is no network")
	}
}
