package blackbox

import (
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/account"
	"github.com/vacancy-host/vacancy/shared/front/message"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/front/registryapi"
	"github.com/vacancy-host/vacancy/shared/host/a2a/a2awire"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/event"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/readproof"
	"github.com/vacancy-host/vacancy/shared/vacant/review"
)

// unrelated callers are keys that are nobody's parent, child or sibling here.
type outsiders struct {
	t                *testing.T
	stranger, second *identity.Key
	firm             identity.ID // whose vacants they pretend to be
	now              time.Time
}

// as signs a read by a stranger, or, forged, in another's name.
func (o *outsiders) as(target string, in identity.ID) http.Header {
	o.t.Helper()
	value, err := readproof.Sign(o.t.Context(), o.stranger, readproof.Request{Authority: authority, Method: "GET", Target: target}, o.now)
	if err != nil {
		o.t.Fatal(err)
	}
	if !in.IsZero() {
		value = in.String() + value[len(in.String()):]
	}
	return http.Header{readproof.Header: {value}}
}

// reads are all GET routes for one id, by every kind of caller.
func (o *outsiders) reads(id identity.ID) (requests []request) {
	name := id.String()
	for _, target := range []string{
		"/v/" + name + "/card", "/v/" + name + "/health", "/v/" + name + "/.well-known/agent-card.json", "/v/" + name, "/v/" + name + "/",
		"/card?vacant=" + name, "/health?vacant=" + name, "/card?vacant=" + name[:12], "/v/" + strings.ToUpper(name) + "/card", "/v/" + name[:12] + "/card",
		"/vacants/" + name, "/search?q=" + name, "/web/vacants/" + name, "/web/vacants/" + name[:12], "/web/search?q=" + name,
		"/v1/capability_card/" + name, "/v1/capability_card/" + name + "?caller=" + o.firm.String(),
		"/v1/event_log/" + name, "/v1/event_log/" + name + "?from_seq=1&limit=1",
		"/v1/lineage/" + name, "/v1/lineage/" + name + "?direction=ancestors", "/v1/lineage/" + name + "?direction=descendants&depth=32",
		"/v1/reputation/" + name, "/v1/reputation_history/" + name, "/v1/reputation_history/" + name + "?cursor=1&limit=1",
		"/v1/search?q=" + name, "/v1/search_capability?q=" + name[:16],
		"/v1/graduations/" + name + "-1", "/v1/graduations/" + name,
		"/v1/admin/vacants/" + name, "/v1/admin/vacants/" + name + "/children", "/v1/admin/vacants/" + name + "/manifest", "/v1/admin/vacants/" + name + "/plan",
		"/v1/admin/vacants/" + name + "/logbook",
		"/v1/bookings?venue=" + name, "/v1/bookings/" + name, "/v1/admin/bookings?venue=" + name, "/v1/account/receipts/" + name + "/" + name + "/1",
	} {
		requests = append(requests, request{method: "GET", target: target})
		if strings.HasPrefix(target, "/v1/") {
			for _, in := range []identity.ID{{}, o.firm, id} {
				requests = append(requests, request{method: "GET", target: target, header: o.as(target, in)})
			}
		}
	}
	for _, target := range []string{"/v/" + name, "/v/" + name + "/"} { // which lead browsers to a page
		requests = append(requests, request{method: "GET", target: target, header: http.Header{"Accept": {"text/html"}}})
	}
	return requests
}

// everywhere are the GET routes without an id.
func (o *outsiders) everywhere() (requests []request) {
	for _, target := range []string{
		"/", "/card", "/health", "/.well-known/agent-card.json", "/search?q=clauses",
		"/web/", "/web/log", "/web/log/1", "/web/log/4", "/web/search?q=clauses", "/web/keys", "/web/chains",
		"/v1/revocation_list", "/v1/revocation_list?limit=1", "/v1/event/1", "/v1/event/2", "/v1/event/3", "/v1/event/4", "/v1/event/99",
		"/v1/search?q=clauses", "/v1/search?q=contracts", "/v1/search", "/v1/search_capability?q=clauses", "/v1/search_capability?q=advises",
		"/v1/checkpoint", "/v1/checkpoint?size=1", "/v1/proof/inclusion?seq=1", "/v1/proof/inclusion?seq=2", "/v1/proof/consistency?from=1",
		"/v1/log/leaves", "/v1/epoch/1", "/v1/epoch_root/latest", "/v1/admin/vacants", "/v1/admin/host", "/v1/admin/root", "/v1/admin/gate", "/v1/admin/secrets", "/v1/admin/models", "/v1/admin/budgets", "/v1/graduations",
		"/v1/openapi.json", "/v1/account", "/v1/account/host", "/v1/account/checkout", "/v1/account/stripe", "/v1/admin/payments", "/v1/account/changes", "/v1/account/statement", "/v1/keys", "/v1/usage", "/v1/admin/accounts", "/v1/admin/usage",
		"/a2a/v1", "/a2a/v1/status", "/v1/bookings", "/v1/admin/bookings", "/v1/admin/metrics",
	} {
		requests = append(requests, request{method: "GET", target: target}, request{method: "HEAD", target: target},
			request{method: "GET", target: target, header: o.as(target, identity.ID{})})
	}
	for _, query := range []url.Values{{"capability": {"clauses"}}, {"capability": {"contracts"}}, {"capability": {"firm"}, "limit": {"100"}}} {
		requests = append(requests, request{method: "POST", target: "/v1/query_capability?" + query.Encode()})
	}
	return requests
}

// envelopes are signed and forged calls, resets and asks to an id, by every
// route.
func (o *outsiders) envelopes(to identity.ID) (requests []request) {
	for _, path := range []string{message.SendPath, message.ResetPath, message.AskPath} {
		for _, text := range []string{"hi", envelope.ResetText} {
			for _, from := range []identity.ID{o.stranger.ID(), o.firm, to, o.second.ID()} {
				for _, seq := range []int64{1, 7} {
					e := o.sign(from, to, seq, text, o.now)
					for _, prefix := range []string{"", "/v/" + to.String(), "/v/" + o.firm.String(), "/any/where"} {
						if seq == 1 && path != message.AskPath { // what a call costs tells nobody of a child either
							requests = append(requests, request{method: "POST", target: prefix + path + "?max_price=0", body: envelope.AppendRequest(nil, nil, e)})
						}
						requests = append(requests, request{method: "POST", target: prefix + path, body: envelope.AppendRequest(nil, nil, e)})
					}
				}
			}
			tomorrow := o.sign(o.stranger.ID(), to, 1, text, o.now.Add(24*time.Hour))
			requests = append(requests, request{method: "POST", target: path, body: envelope.AppendRequest(nil, nil, tomorrow)})
		}
		for _, body := range []string{`{}`, `[]`, `{"to_vacant_id":"` + to.String() + `"}`} {
			requests = append(requests, request{method: "POST", target: "/v/" + to.String() + path, body: []byte(body)},
				request{method: "GET", target: "/v/" + to.String() + path})
		}
	}
	for _, target := range []string{"/v/" + to.String(), "/v/" + to.String() + "/mcp", "/mcp", "/a2a/v1", "/v/" + to.String() + "/message:send", "/v/" + to.String() + "/card"} {
		requests = append(requests, request{method: "POST", target: target, body: []byte(`{"jsonrpc":"2.0","id":1,"method":"message/send"}`)})
	}
	return requests
}

// a2a are the requests of A2A clients to an id: every route and method of both versions.
// Messages go only to closed children and to unknown ids, because an answer of the firm
// has ids of its own.
func (o *outsiders) a2a(id identity.ID) (requests []request) {
	base := "/v/" + id.String()
	key := http.Header{"Authorization": {anyKey}, "Prefer": {"respond-async"}}
	for _, body := range []string{
		`{"from":"a","intent":"network.ping","to":"` + id.String() + `"}`,
		`{"from":"a","intent":"booking.search","payload":{"query":"clauses"}}`,
		`{"from":"a","intent":"venue.list"}`,
	} {
		requests = append(requests, request{method: "POST", target: "/a2a/v1", body: []byte(body), header: key}, request{method: "POST", target: "/a2a/v1", body: []byte(body)})
	}
	requests = append(requests, request{method: "GET", target: "/v1/bookings?venue=" + id.String(), header: key})
	// A tenant's key opens the admin routes of its own vacants, of which this is none.
	requests = append(requests, request{method: "GET", target: "/v1/admin/vacants?all=true", header: key})
	for _, part := range []string{"", "/manifest", "/graduation", "/children", "/plan", "/agent", "/logbook", "/export"} {
		requests = append(requests, request{method: "GET", target: "/v1/admin/vacants/" + id.String() + part, header: key}, request{method: "GET", target: "/v1/admin/vacants/" + id.String()[:12] + part, header: key},
			request{method: "POST", target: "/v1/admin/vacants/" + id.String() + part, body: []byte(`{"path":"D2","name":"kid","capability":"helps"}`), header: key})
	}
	for _, target := range []string{
		base + "/.well-known/agent.json", base + "/.well-known/jwks.json", base + "/jwks.json", base + "/extendedAgentCard", base + "/tasks", base + "/tasks/x", base + "/tenant/tasks/x",
		base + "/tasks/x:subscribe", base + "/tasks/x/pushNotificationConfigs", base + "/tasks/x/pushNotificationConfigs/y", base + "/text", base + "/mcp", base + "/mcp/server-card", "/mcp", "/mcp/server-card",
		"/.well-known/oauth-protected-resource" + base, "/.well-known/oauth-protected-resource" + base + "/mcp", "/.well-known/oauth-protected-resource" + base + "/mcp/", "/.well-known/oauth-protected-resource" + base + "/v1",
		base + "/v1/models", base + "/v1/models/" + id.String(), base + "/v1/chat/completions", base + "/v1/responses", "/v1/models/" + id.String(),
	} {
		requests = append(requests, request{method: "GET", target: target}, request{method: "HEAD", target: target}, request{method: "GET", target: target, header: o.as(target, identity.ID{})})
	}
	post := func(target, body string) {
		requests = append(requests, request{method: "POST", target: target, body: []byte(body)})
	}
	for _, target := range []string{base + "/tasks/x:cancel", base + "/tasks/x:subscribe", base + "/tasks/x/pushNotificationConfigs"} {
		post(target, `{"url":"https://agents.example/"}`)
	}
	requests = append(requests, request{method: "DELETE", target: base + "/tasks/x/pushNotificationConfigs/y"})
	for _, target := range []string{base + "/mcp", "/v/" + id.Short() + "/mcp", "/mcp"} {
		for _, call := range []string{
			`"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}`, `"tools/list"`, `"tea"`,
			`"resources/list"`, `"resources/read","params":{"uri":"vacancy://` + id.String() + `/halo"}`, `"tools/call","params":{"name":"vacant_describe"}`,
			`"tools/call","params":{"name":"get_task","arguments":{"agent":"` + id.String() + `","task":"x"}}`,
			`"tools/call","params":{"name":"describe_agent","arguments":{"agent":"` + id.String() + `"}}`,
			`"tools/call","params":{"name":"search_agents","arguments":{"query":"clauses"}}`,
		} {
			body := []byte(`{"jsonrpc":"2.0","id":1,"method":` + call + `}`)
			for _, header := range []http.Header{{"Accept": {"*/*"}}, {"Accept": {"*/*"}, "Authorization": {anyKey}}, nil} {
				requests = append(requests, request{method: "POST", target: target, body: body, header: header})
			}
		}
	}
	old := map[string]bool{}
	for op := a2awire.Send; op <= a2awire.ExtendedCard; op++ {
		for _, d := range []a2awire.Dialect{a2awire.V1, a2awire.V03} {
			name := a2awire.MethodName(d, op)
			if op > a2awire.Stream && !old[name] {
				post(base, `{"jsonrpc":"2.0","id":1,"method":"`+name+`","params":{"id":"x","taskId":"x","url":"https://agents.example/"}}`)
			}
			old[name] = true
		}
	}
	if id == o.firm {
		return requests
	}
	for _, body := range []string{
		`{"from":"a","intent":"booking.confirm","to":"venue:v-` + id.Short() + `"}`,
		`{"from":"a","intent":"booking.confirm","payload":{"venue_id":"` + id.String() + `"}}`,
	} {
		requests = append(requests, request{method: "POST", target: "/a2a/v1", body: []byte(body), header: key})
	}
	for _, header := range []http.Header{nil, key, {"Accept": {"text/event-stream"}}, {"Origin": {"https://evil.example"}}, {"Vacancy-Max-Price": {"0"}}} {
		for _, target := range []string{base + "/text", base + "//text", base + "/text?context=x", base + "/text?nothing=x"} {
			requests = append(requests, request{method: "POST", target: target, body: []byte("hi"), header: header}, request{method: "POST", target: target, body: []byte{0xff}, header: header})
		}
	}
	for _, call := range []string{
		`{"name":"ask","arguments":{"message":"hi"}}`, `{"name":"ask","arguments":{"message":"hi"},"_meta":{"progressToken":1}}`,
		`{"name":"ask_agent","arguments":{"agent":"` + id.String() + `","message":"hi"}}`, `{"name":"vacant_call","arguments":{"envelope":{}}}`,
	} {
		for _, target := range []string{base + "/mcp", "/mcp"} {
			requests = append(requests, request{method: "POST", target: target, body: []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + call + `}`), header: http.Header{"Accept": {"*/*"}}})
		}
	}
	const completion = `"messages":[{"role":"user","content":"hi"}]}`
	for _, header := range []http.Header{nil, key, {"Origin": {"https://evil.example"}}, {"Idempotency-Key": {"x"}}, {"X-Stainless-Retry-Count": {"1"}}, {"Vacancy-Max-Price": {"0"}}} {
		for _, body := range []string{`{` + completion, `{"stream":true,` + completion, `{"model":"` + id.String() + `",` + completion, `{"n":2}`, `[]`} {
			for _, target := range []string{base + "/v1/chat/completions", base + "//v1/chat/completions", "/v1/chat/completions", base + "/v1/responses"} {
				requests = append(requests, request{method: "POST", target: target, body: []byte(body), header: header})
			}
		}
	}
	const plain = `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hi"}]}}`
	e := o.sign(o.stranger.ID(), id, 1, "hi", o.now)
	signed := `{"message":{"role":"ROLE_USER","parts":[{"text":"hi"}],"metadata":` + string(envelope.AppendMetadata(nil, e)) + `}}`
	const background = `,"configuration":{"returnImmediately":true,"taskPushNotificationConfig":{"url":"https://agents.example/"}}}`
	for _, params := range []string{plain, signed, strings.TrimSuffix(plain, "}") + background, strings.TrimSuffix(signed, "}") + background} {
		post(base+"/message:send", params)
		post(base+"/message:stream", params)
		for _, method := range []string{"SendMessage", "SendStreamingMessage"} {
			post(base, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`)
		}
	}
	const plain03 = `{"message":{"kind":"message","messageId":"m","role":"user","parts":[{"kind":"text","text":"hi"}]}}`
	for _, method := range []string{"message/send", "message/stream"} {
		post(base, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+plain03+`}`)
	}
	return requests
}

// sign makes a stranger's envelope. With another sender it is a forgery.
func (o *outsiders) sign(from, to identity.ID, seq int64, text string, at time.Time) *envelope.Envelope {
	o.t.Helper()
	e := &envelope.Envelope{From: o.stranger.ID(), To: to, Seq: seq, Time: at, Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{text}}}
	if from == o.second.ID() {
		e.From = from
		if _, err := e.Sign(o.t.Context(), o.second); err != nil {
			o.t.Fatal(err)
		}
		return e
	}
	if _, err := e.Sign(o.t.Context(), o.stranger); err != nil {
		o.t.Fatal(err)
	}
	e.From = from
	return e
}

// writes are all writes about an id that a stranger can try.
func (o *outsiders) writes(id identity.ID) (requests []request) {
	o.t.Helper()
	post := func(method, target string, body any) {
		b, err := json.Marshal(body)
		if err != nil {
			o.t.Fatal(err)
		}
		requests = append(requests, request{method: method, target: target, body: b})
	}
	revoke := event.Event{Type: event.Revoke, Actor: o.stranger.ID(), IdempotencyKey: "k", Time: o.now.UnixMilli(), ActorSeq: 1, Payload: event.RevokePayload(id, "stolen")}
	if err := revoke.Sign(o.t.Context(), o.stranger); err != nil {
		o.t.Fatal(err)
	}
	post("POST", "/v1/revoke_halo", map[string]any{"vacant_id": id, "reason": "stolen", "event_ts_ms": revoke.Time, "event_actor_seq": 1,
		"event_idempotency_key": "k", "event_signature_hex": hex.EncodeToString(revoke.Signature)})
	post("PUT", "/v1/listing/"+id.String(), map[string]any{"vacant_id": id})
	post("POST", "/v1/halo", map[string]any{"capability_card_blob_hex": hex.EncodeToString([]byte(id.String())), "runtime_state": "ACTIVE"})
	rated := review.Record{Members: review.Members{Target: id, Ratings: review.Ratings{"factual": 1, "logical": 1, "relevance": 1}, CallHash: identity.Sum(id[:]), IssuedAt: canon.FormatTime(o.now)}}
	if err := rated.Sign(o.t.Context(), o.stranger); err != nil {
		o.t.Fatal(err)
	}
	post("POST", "/v1/submit_review", rated)
	post("POST", "/v/"+id.String()+"/reviews/ingest", rated)
	post("POST", "/v/"+id.String()+"/reviews/blinded_ingest", map[string]any{"record": rated, "reveal": map[string]any{}})
	post("DELETE", "/v1/reputation_history/"+id.String()+"/1/claim", map[string]any{})
	post("POST", "/v1/witness", map[string]any{"note": id.String()})
	for _, parent := range []identity.ID{o.stranger.ID(), o.firm} {
		m := composite.Manifest{ParentID: parent, ChildID: id, BirthPath: "D1", ClosedByDefault: false, Reachability: composite.PublicA2A,
			OutboundPolicy: composite.Unrestricted, SchemaVersion: composite.SchemaV2, SignatureParent: make([]byte, 64), SignatureChild: make([]byte, 64)}
		if parent != id {
			requests = append(requests, request{method: "POST", target: "/v1/manifests", body: m.Blob()})
		}
		forged := composite.GraduationRequest{ParentID: parent, ChildID: id, CapabilityText: "x", SignatureParent: make([]byte, 64), SignatureChild: make([]byte, 64)}
		if parent == o.stranger.ID() {
			if err := forged.SignParent(o.t.Context(), o.stranger); err != nil {
				o.t.Fatal(err)
			}
		}
		post("POST", "/v1/graduations", map[string]any{"request": json.RawMessage(forged.Blob())})
	}
	requests = append(requests, o.graduation(o.stranger, o.second), o.child(id), o.child(o.stranger.ID()))
	for _, target := range []string{"/v1/admin/vacants/" + id.String() + "/publish", "/v1/admin/vacants/" + id.String() + "/pause"} {
		post("POST", target, map[string]any{})
	}
	return requests
}

// graduation requests the graduation of something that is not a child.
func (o *outsiders) graduation(parent, child *identity.Key) request {
	o.t.Helper()
	r := composite.GraduationRequest{ParentID: parent.ID(), ChildID: child.ID(), CapabilityText: "advises"}
	if err := r.SignParent(o.t.Context(), parent); err != nil {
		o.t.Fatal(err)
	}
	if err := r.SignChild(o.t.Context(), child); err != nil {
		o.t.Fatal(err)
	}
	return request{method: "POST", target: "/v1/graduations", body: []byte(`{"request":` + string(r.Blob()) + `}`)}
}

// child requests a child of a parent, signed by the stranger.
func (o *outsiders) child(parent identity.ID) request {
	o.t.Helper()
	r := composite.SpawnRequest{ParentID: o.stranger.ID(), BirthPath: "D2", Name: "mine", Nonce: strings.Repeat("0", 2*composite.NonceSize), Time: o.now}
	if err := r.Sign(o.t.Context(), o.stranger); err != nil {
		o.t.Fatal(err)
	}
	r.ParentID = parent
	return request{method: "POST", target: "/v1/admin/vacants/" + parent.String() + "/children", body: r.Blob()}
}

// battery is every request that anybody may make to a host, about each id.
func (o *outsiders) battery(ids ...identity.ID) (requests []request) {
	requests = o.everywhere()
	for _, id := range ids {
		requests = append(requests, o.reads(id)...)
		requests = append(requests, o.envelopes(id)...)
		requests = append(requests, o.writes(id)...)
		requests = append(requests, o.a2a(id)...)
	}
	return append(requests, o.everywhere()...)
}

// Every route of the registry's handlers, and each of accounts that reads, is in the battery: a new
// one is compared, or fails here.
func TestTheBatteryAsksEveryPublicRoute(t *testing.T) {
	o := newOutsiders(t, newKey(t))
	asked := map[string][]string{}
	for _, r := range o.battery(o.firm) {
		path, _, _ := strings.Cut(r.target, "?")
		asked[r.method] = append(asked[r.method], path)
	}
	own := slices.DeleteFunc(account.Operations(), func(o op.Spec) bool { return o.Method != "GET" || strings.HasPrefix(o.Path, "/v1/admin/") })
	for _, s := range slices.Concat(registryapi.Operations(), own) {
		pattern := regexp.MustCompile("^" + regexp.MustCompile(`\{\w+\}`).ReplaceAllString(s.Path, `[^/]+`) + "$")
		if !slices.ContainsFunc(asked[s.Method], pattern.MatchString) {
			t.Errorf("%s %s is in no battery; what it answers is compared nowhere", s.Method, s.Path)
		}
	}
}
