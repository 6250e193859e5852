package serve_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/front/handlers"
	"github.com/vacancy-host/vacancy/shared/front/openapi"
	"github.com/vacancy-host/vacancy/shared/front/operations"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/a2a/a2awire"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/billing/paykeys"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/conformance"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/vacant/claim"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/listing"
	"github.com/vacancy-host/vacancy/tests/memhost"
)

// The live keys and the test keys of an account are two owners. Each operation that a test key
// may use is asked by a live key and by a test key for what the other has made. The answer must
// be the one for what nobody has made.
//
// A new operation needs a row in ownedRows. An operation that no test key may use needs none:
// TestOperationsOfLiveKeysRefuseTestKeys asks it.

// request is a request in a row. Its line is "METHOD PATH". The words in braces are filled in
// from a thing.
type request struct{ line, body string }

// ownedRow holds the requests of an operation.
type ownedRow struct {
	requests []request
	// isLiveOnly means that test keys make no such thing.
	isLiveOnly bool
	// why says why there are no requests.
	why string
}

// thing has the values for the words in braces: ids and texts that a key of one mode has made.
type thing map[string]string

// say returns a message of A2A 1.0 with members. A repeated message id has another text here.
func say(members string) string {
	return `{"message":{"role":"ROLE_USER","parts":[{"text":"again"}],` + members + `}}`
}

func say03(members string) string {
	return `{"message":{"kind":"message","role":"user","parts":[{"kind":"text","text":"again"}],` + members + `}}`
}

// sendings are the members of messages by which a sender reaches what was made before.
var sendings = []struct{ vacant, members string }{
	{"mind", `"messageId":"{fresh}","contextId":"{context}"`}, // the agent's memory
	{"mind", `"messageId":"{message}","contextId":"{other-context}"`},
	{"tasks", `"messageId":"{fresh}","taskId":"{task}"`},
}

// operationsOfA2A are the requests of an operation of A2A in each binding: a line and a body of
// HTTP+JSON, and parameters of JSON-RPC 1.0 and 0.3. Each is of the vacant before it.
var operationsOfA2A = map[a2awire.Operation][]struct{ vacant, line, body, params1, params03 string }{
	a2awire.GetTask:    {{"tasks", "GET /tasks/{task}", "", `{"id":"{task}"}`, `{"id":"{task}"}`}},
	a2awire.CancelTask: {{"tasks", "POST /tasks/{task}:cancel", `{}`, `{"id":"{task}"}`, `{"id":"{task}"}`}},
	a2awire.ListTasks: {
		{"tasks", "GET /tasks?contextId={room}", "", `{"contextId":"{room}"}`, `{"contextId":"{room}"}`},
		{"tasks", "GET /tasks", "", `{}`, `{}`},
	},
	a2awire.Subscribe: {{"mind", "GET /tasks/{ended}:subscribe", "", `{"id":"{ended}"}`, `{"id":"{ended}"}`}},
	a2awire.CreatePushConfig: {{
		"tasks", "POST /tasks/{task}/pushNotificationConfigs", `{"id":"{fresh}","url":"http://127.0.0.1:1/"}`,
		`{"taskId":"{task}","id":"{fresh}","url":"http://127.0.0.1:1/"}`, `{"taskId":"{task}","pushNotificationConfig":{"id":"{fresh}","url":"http://127.0.0.1:1/"}}`,
	}},
	a2awire.GetPushConfig: {{
		"tasks", "GET /tasks/{task}/pushNotificationConfigs/{config}", "", `{"taskId":"{task}","id":"{config}"}`, `{"id":"{task}","pushNotificationConfigId":"{config}"}`,
	}},
	a2awire.ListPushConfigs: {{"tasks", "GET /tasks/{task}/pushNotificationConfigs", "", `{"taskId":"{task}"}`, `{"id":"{task}"}`}},
	a2awire.DeletePushConfig: {{
		"tasks", "DELETE /tasks/{task}/pushNotificationConfigs/{config}", "", `{"taskId":"{task}","id":"{config}"}`, `{"id":"{task}","pushNotificationConfigId":"{config}"}`,
	}},
}

// ownedRows returns the rows by operation: "METHOD PATH" of its description, "JSON-RPC METHOD",
// "AGP INTENT", and "MCP TOOL" at a vacant or "MCP host TOOL".
func ownedRows() map[string]ownedRow {
	rows := map[string]ownedRow{
		"GET /v/{vacant}/extendedAgentCard": {why: "the card is public"},
		"POST /v/{vacant}/text":             {requests: []request{{"POST /v/mind/text?context={context}", "again"}}},

		"POST /v/{vacant}/v1/chat/completions": {requests: completions("/v/mind")},
		"POST /v1/chat/completions":            {requests: completions("")},
		"POST /v/{vacant}/v1/responses":        {requests: responses("/v/mind")},
		"POST /v1/responses":                   {requests: responses("")},

		"POST /v/{vacant}/mcp":    {why: "the rows of its tools"},
		"POST /mcp":               {why: "the rows of its tools"},
		"MCP vacant_describe":     {why: "the card is public"},
		"MCP vacant_call":         {why: "the signer owns the call"},
		"MCP host search_agents":  {why: "what is published is public"},
		"MCP host describe_agent": {why: "what is published is public"},
		"MCP resource": {isLiveOnly: true, requests: []request{
			rpc("/v/mind/mcp", "resources/read", `{"uri":"vacancy://{mind-id}/receipts/{caller}/1"}`),
		}},

		"MCP vacant_delegate":           {why: "test keys do not have it"},
		"MCP vacant_delegate_a2a":       {why: "test keys do not have it"},
		"MCP host agnt.ping":            {why: "the rows of the intents of AGP"},
		"MCP host agnt.search_venues":   {why: "the rows of the intents of AGP"},
		"MCP host agnt.list_venues":     {why: "the rows of the intents of AGP"},
		"MCP host agnt.confirm_booking": {why: "the rows of the intents of AGP"},

		"GET /v1/agents":         {why: "agents belong to a tenant"},
		"GET /v1/agents/{agent}": {why: "agents belong to a tenant"},
		"GET /v1/tasks":          {requests: []request{{"GET /v1/tasks", ""}}},
		"GET /v1/tasks/{id}":     {requests: []request{{"GET /v1/tasks/{dispatched}", ""}}},
		"POST /v1/tasks": {requests: []request{
			{"POST /v1/tasks Idempotency-Key: {once}", `{"agent":"tasks","task":"again"}`},
		}},
		"POST /v1/tasks/{id}/cancel": {requests: []request{{"POST /v1/tasks/{dispatched}/cancel", ""}}},
		"POST /v1/tasks/{id}/answer": {requests: []request{{"POST /v1/tasks/{dispatched}/answer", `{"text":"again"}`}}},
		"MCP host list_agents":       {why: "agents belong to a tenant"},
		"GET /v1/tasks/locks":        {why: "the locks in a workspace are of its account"},
		"PUT /v1/tasks/locks":        {why: "the policy of a workspace is of its account"},
		"GET /v1/tasks/{id}/log":     {requests: []request{{"GET /v1/tasks/{dispatched}/log", ""}}},
		"MCP host get_locks":         {why: "the locks in a workspace are of its account"},
		"MCP host dispatch_agent": {requests: []request{
			rpc("/mcp", "tools/call", `{"name":"dispatch_agent","arguments":{"agent":"tasks","task":"again"},"_meta":{"io.github.vacancy-host/idempotency-key":"{once}"}}`),
		}},

		"GET /v1/workspaces":                                {why: "test keys have only the workspace test, which live keys do not have (package workspaceapi)"},
		"DELETE /v1/workspaces/{workspace}":                 {why: "test keys have only the workspace test, which live keys do not have (package workspaceapi)"},
		"GET /v1/workspaces/{workspace}/files":              {why: "test keys have only the workspace test, which live keys do not have (package workspaceapi)"},
		"GET /v1/workspaces/{workspace}/files/{path...}":    {why: "test keys have only the workspace test, which live keys do not have (package workspaceapi)"},
		"PUT /v1/workspaces/{workspace}/files/{path...}":    {why: "test keys have only the workspace test, which live keys do not have (package workspaceapi)"},
		"DELETE /v1/workspaces/{workspace}/files/{path...}": {why: "test keys have only the workspace test, which live keys do not have (package workspaceapi)"},
		"POST /v1/work/lease":                               {why: "turns belong to a tenant; front/workapi tests the modes"},
		"POST /v1/work/{lease}/heartbeat":                   {why: "a lease belongs to a key"},
		"POST /v1/work/{lease}/events":                      {why: "a lease belongs to a key"},
		"POST /v1/work/{lease}/result":                      {why: "a lease belongs to a key"},

		"POST /a2a/v1":       {why: "the rows of its intents"},
		"POST /a2a/v1/{$}":   {why: "the rows of its intents"},
		"AGP network.ping":   {why: "it reads no bookings"},
		"AGP booking.search": {why: "it reads no bookings"},
		"AGP venue.list":     {why: "it reads no bookings"},
		"AGP booking.confirm": {requests: []request{
			{"POST /a2a/v1", `{"from":"a","intent":"booking.confirm","payload":{"venue_slug":"{venue}","notes":"again","idempotency_key":"{once}"}}`},
		}},
		"GET /v1/bookings":              {isLiveOnly: true, requests: []request{{"GET /v1/bookings", ""}}}, // it lists what was paid for
		"GET /v1/bookings/{id}":         {requests: []request{{"GET /v1/bookings/{booking}", ""}}},
		"POST /v1/bookings/{id}/cancel": {requests: []request{{"POST /v1/bookings/{booking}/cancel", ""}}},
		"POST /v1/bookings/{id}/transition": {isLiveOnly: true, requests: []request{
			{"GET /v1/bookings?venue=inn", ""}, {"GET /v1/bookings/{sold}", ""}, // of its vacant
			{"POST /v1/bookings/{sold}/transition", `{"to":"rejected","reason":"full","event_id":"e"}`},
		}},

		"GET /v1/keys":          {requests: []request{{"GET /v1/keys", ""}}},
		"POST /v1/keys":         {why: "package billing tests which keys a key makes"},
		"DELETE /v1/keys/{key}": {why: "a live key manages the test keys of its account; package account tests which keys a key revokes"},
	}
	for name, at := range map[string]string{"MCP ": "/v/tasks/mcp", "MCP host ": "/mcp"} {
		agent := map[string]string{"MCP ": "", "MCP host ": `"agent":"tasks",`}[name]
		tool := func(of, arguments string) ownedRow {
			return ownedRow{requests: []request{rpc(at, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":{%s%s}}`, of, agent, arguments))}}
		}
		rows[name+"get_task"] = tool("get_task", `"task":"{task}","wait":0`)
		rows[name+"stop_task"] = tool("stop_task", `"task":"{task}"`)
	}
	for tool, more := range map[string]string{"get_task_status": "", "cancel_task": "", "answer_task": `,"text":"again"`} {
		rows["MCP host "+tool] = ownedRow{requests: []request{rpc("/mcp", "tools/call", fmt.Sprintf(`{"name":%q,"arguments":{"task_id":"{dispatched}"%s}}`, tool, more))}}
	}
	rows["MCP ask"] = ownedRow{requests: []request{rpc("/v/mind/mcp", "tools/call", `{"name":"ask","arguments":{"message":"again","context":"{context}"}}`)}}
	rows["MCP host ask_agent"] = ownedRow{requests: []request{rpc("/mcp", "tools/call", `{"name":"ask_agent","arguments":{"agent":"mind","message":"again","context":"{context}"}}`)}}
	add := func(name string, r request) { rows[name] = ownedRow{requests: append(rows[name].requests, r)} }
	method := func(d a2awire.Dialect, o a2awire.Operation) string { return "JSON-RPC " + a2awire.MethodName(d, o) }
	for _, s := range sendings {
		for o, verb := range map[a2awire.Operation]string{a2awire.Send: "message:send", a2awire.Stream: "message:stream"} {
			add("POST /v/{vacant}/"+verb, request{"POST /v/" + s.vacant + "/" + verb, say(s.members)})
			add(method(a2awire.V1, o), rpc("/v/"+s.vacant, a2awire.MethodName(a2awire.V1, o), say(s.members)))
			add(method(a2awire.V03, o), rpc("/v/"+s.vacant, a2awire.MethodName(a2awire.V03, o), say03(s.members)))
		}
	}
	variable := strings.NewReplacer("{task}", "{id}", "{ended}", "{id}")
	for o, all := range operationsOfA2A {
		for _, q := range all {
			verb, path, _ := strings.Cut(q.line, " ")
			described, _, _ := strings.Cut("/v/{vacant}"+variable.Replace(path), "?")
			verbs := []string{verb}
			if o == a2awire.Subscribe {
				verbs = append(verbs, "POST")
			}
			for _, verb := range verbs {
				add(verb+" "+described, request{verb + " /v/" + q.vacant + path, q.body})
			}
			add(method(a2awire.V1, o), rpc("/v/"+q.vacant, a2awire.MethodName(a2awire.V1, o), q.params1))
			add(method(a2awire.V03, o), rpc("/v/"+q.vacant, a2awire.MethodName(a2awire.V03, o), q.params03))
		}
	}
	for _, d := range []a2awire.Dialect{a2awire.V1, a2awire.V03} {
		rows[method(d, a2awire.ExtendedCard)] = ownedRow{why: "the card is public"}
	}
	return rows
}

// completions are the requests of OpenAI's clients that find an answer of before: by the key of
// the request, which has another body here, and by the number of tries of the same body.
func completions(at string) []request {
	return []request{
		{"POST " + at + "/v1/chat/completions Idempotency-Key: {once}", completion("again")},
		{"POST " + at + "/v1/chat/completions Idempotency-Key: {once}", completion("{mark}")},
		{"POST " + at + "/v1/chat/completions X-Stainless-Retry-Count: 1", completion("{retried}")},
	}
}

// responses are the same of Responses.
func responses(at string) []request {
	return []request{
		{"POST " + at + "/v1/responses Idempotency-Key: {once}", `{"model":"mind","input":"again"}`},
	}
}

func completion(text string) string {
	return `{"model":"mind","messages":[{"role":"user","content":"` + text + `"}]}`
}

func rpc(at, method, params string) request {
	return request{"POST " + at, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)}
}

// mode is a key for tests or a live key, which may do all that any key may.
type mode struct {
	name, secret string
	isTest       bool
}

// modes is a host with an account that has a key of each mode.
type modes struct {
	*memhost.Host
	web        http.Handler
	account    billing.Account
	live, test *mode
	stranger   string // a live key of another account
	mind       string // id of the vacant that remembers
	made       int
}

// remembering is a model that answers with all that it was told.
type remembering struct{}

func (remembering) Infer(_ context.Context, r substrate.Request) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		var heard []string
		for _, t := range r.Turns {
			if t.Role == substrate.RoleCaller {
				heard = append(heard, t.Text)
			}
		}
		if yield(substrate.Text(strings.Join(heard, "+")), nil) {
			yield(substrate.FinishStop, nil)
		}
	}
}

// noPayments is a provider of payments that no request reaches.
type noPayments struct{ billing.Payments }

func openModes(t *testing.T) *modes {
	h := &modes{Host: memhost.Open(t, func(c *serve.Config) {
		c.URL, c.AllowLoopback, c.OwnMachine = "http://127.0.0.1:8080", true, true
		c.Substrates = substrate.Kinds{conformance.Kind: conformance.New, substrate.KindMock: func(string) (substrate.Substrate, error) { return remembering{}, nil }}
	})}
	ctx := t.Context()
	h.Must(h.SigningKeys.RenewIfDue(ctx))
	h.Serve()
	t.Cleanup(h.Agents.Tasks.Wait)
	accounts := h.AccountHandler(func(paykeys.Config) billing.Payments { return noPayments{} })
	h.Agents.ReceiptsHandler = accounts
	h.web = serve.Handlers{
		Plain: h.Agents.Plain, Protocols: handlers.NewProtocols(h.Agents), AGP: h.OpenAGP(h.Agents, h.Agents.Find, false), Message: h.MessageHandler(), Account: accounts, Tenants: h.TenantsHandler(), Team: h.Agents.TeamHandler(), Work: h.Agents.WorkHandler(),
	}.Public()
	key := func(a billing.Account, tests bool) string {
		return h.Key(a, billing.KeyOptions{Test: tests, Tier: billing.Pro, Scopes: billing.Scopes()})
	}
	h.account = h.Account("acme", 1000*money.Dollar)
	h.live, h.test = &mode{name: "live", secret: key(h.account, false)}, &mode{name: "test", secret: key(h.account, true), isTest: true}
	h.stranger = key(h.Account("other", 1000*money.Dollar), false)
	make := func(spec vacants.CreateSpec, venue string) vacants.Record {
		spec.Capability = "answers"
		r := h.Create(spec)
		o := vacants.PublishOptions{Listing: &vacants.ListingOptions{}}
		if venue != "" {
			o.EditVenue = func(v *listing.Venue) error { v.Slug, v.Name = venue, venue; return nil }
		}
		_, _, err := h.Vacants.Publish(ctx, r.ID, o)
		h.Must(err)
		return r
	}
	make(vacants.CreateSpec{Name: "tasks", Tenant: "acme", Substrate: conformance.Kind}, "")
	mind := make(vacants.CreateSpec{Name: "mind", Tenant: "acme", Agent: &definition.Agent{Provider: substrate.KindMock, Memory: true}}, "")
	h.mind = mind.ID.String()
	_, err := h.Vacants.SetPrice(ctx, mind.ID, price.Price{Flat: 1000})
	h.Must(err)
	make(vacants.CreateSpec{Name: "inn", Tenant: "acme", Substrate: "echo"}, "inn")
	make(vacants.CreateSpec{Name: "cafe", Tenant: "other", Substrate: "echo"}, "cafe")
	h.Clock.Advance(time.Minute) // caches forget
	return h
}

// ask sends a request with a key, a little later than the request before.
func (h *modes) ask(secret, line, body string) (status int, answer string) {
	h.Helper()
	h.Clock.Advance(100 * time.Millisecond)
	method, rest, _ := strings.Cut(line, " ")
	path, header, hasHeader := strings.Cut(rest, " ")
	r := httptest.NewRequestWithContext(h.Context(), method, path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", map[bool]string{true: "application/json", false: "text/plain"}[body[0] == '{'])
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Prefer", "respond-async") // no worker dispatches the bookings
	if strings.HasSuffix(path, "/text") || strings.Contains(path, "/text?") {
		r.Header.Set("Accept", "text/plain")
	}
	if !strings.Contains(body, `"jsonrpc"`) {
		r.Header.Set("A2A-Version", "1.0")
	}
	if strings.HasSuffix(path, "/mcp") {
		r.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	}
	if hasHeader {
		name, value, _ := strings.Cut(header, ": ")
		r.Header.Set(name, value)
	}
	r.Header.Set("Authorization", "Bearer "+secret)
	w := httptest.NewRecorder()
	h.web.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// do sends a request that succeeds, and returns a member of its answer.
func (h *modes) do(secret, line, body string, member ...any) string {
	h.Helper()
	status, answer := h.ask(secret, line, body)
	var v any
	if status >= 300 || json.Unmarshal([]byte(answer), &v) != nil {
		h.Fatalf("%s = %d %s", line, status, answer)
	}
	for _, m := range member {
		switch m := m.(type) {
		case string:
			of, _ := v.(map[string]any)
			v = of[m]
		case int:
			all, _ := v.([]any)
			v = all[m]
		}
	}
	s, ok := v.(string)
	if !ok {
		h.Fatalf("%s = %s, which has no %v", line, answer, member)
	}
	return s
}

// unmade returns a thing that nobody has made.
func (h *modes) unmade() thing {
	h.made++
	n := h.made
	id := func(what string) string { return identity.Sum(fmt.Appendf(nil, "%s %d", what, n)).String() }
	named := func(what string) string { return fmt.Sprintf("%s-of-%d", what, n) }
	return thing{
		"mark": named("mark"), "retried": named("retried"), "fresh": named("fresh"), "other-context": named("other"),
		"context": named("context"), "message": named("message"), "ended": id("ended")[:32], "task": id("task")[:32], "dispatched": id("dispatched")[:32], "room": named("room"), "config": named("config"),
		"once": named("once"), "first": id("first")[:32], "second": id("second")[:32],
		"booking": id("booking"), "sold": id("sold"), "key": fmt.Sprintf("Key%09d", n), "venue": "test",
		"mind-id": h.mind, "caller": id("caller"),
	}
}

// makes has a mode make all kinds of things.
func (h *modes) makes(m *mode) thing {
	h.Helper()
	t := h.unmade()
	do := func(word, line, body string, member ...any) {
		h.Helper()
		t[word] = strings.TrimPrefix(h.do(m.secret, t.fill(line), t.fill(body), member...), "chatcmpl-")
	}
	message := func(members string) string {
		return `{"message":{"role":"ROLE_USER","parts":[{"text":"{mark}"}],` + members + `}}`
	}
	const book = `{"from":"a","intent":"booking.confirm","payload":{"venue_slug":"{venue}","notes":"{mark}","idempotency_key":"{once}"}}`
	do("ended", "POST /v/mind/message:send", message(`"messageId":"{message}","contextId":"{context}"`), "task", "id")
	do("task", "POST /v/tasks/message:send", message(`"messageId":"tck-input-required-{fresh}","contextId":"{room}"`), "task", "id")
	do("dispatched", "POST /v1/tasks Idempotency-Key: {once}", `{"agent":"tasks","task":"{mark}"}`, "taskId")
	do("config", "POST /v/tasks/tasks/{task}/pushNotificationConfigs", `{"url":"http://127.0.0.1:1/{mark}"}`, "id")
	do("first", "POST /v1/chat/completions Idempotency-Key: {once}", completion("{mark}"), "id")
	do("second", "POST /v1/chat/completions", completion("{retried}"), "id")
	t["key"] = h.do(h.live.secret, "POST /v1/keys", fmt.Sprintf(`{"test":%t,"scopes":["read"]}`, m.isTest), "id")
	if !m.isTest {
		do("caller", "GET /v/mind/tasks/{ended}", "", "status", "message", "metadata", "urn:vacant:receipt:v1")
		t["caller"] = strings.Split(t["caller"], "/")[4]
		t["venue"] = "inn"
		t["sold"] = h.do(h.stranger, "POST /a2a/v1", t.fill(book), "booking_id")
		t["venue"] = "cafe"
	}
	do("booking", "POST /a2a/v1", book, "booking_id")
	return t
}

// fill replaces the words of a request.
func (t thing) fill(s string) string {
	for word, value := range t {
		s = strings.ReplaceAll(s, "{"+word+"}", value)
	}
	return s
}

var randomText = regexp.MustCompile(`[0-9a-f]{16,}|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+(Z|\+00:00)|"(created|created_at|ms)": ?[0-9]+|[0-9a-zA-Z+/=_-]{60,}`)

// plain returns an answer without what differs between two answers to the same request. What a
// thing has is replaced by its words.
func (t thing) plain(answer string) string {
	for _, word := range slices.Sorted(maps.Keys(t)) {
		if word != "venue" {
			answer = strings.ReplaceAll(answer, t[word], "{"+word+"}")
		}
	}
	return randomText.ReplaceAllString(answer, "…")
}

// asked returns the answer of a mode's request for a thing, as plain does.
func (h *modes) asked(by *mode, q request, of thing) string {
	h.Helper()
	asked := maps.Clone(of)
	h.made++
	asked["fresh"] = fmt.Sprint("asked-", h.made)
	if by.isTest {
		asked["venue"] = "test" // the only venue that test keys book
	} else {
		asked["venue"] = "cafe"
	}
	status, answer := h.ask(by.secret, asked.fill(q.line), asked.fill(q.body))
	if status >= 500 {
		h.Errorf("%s by a %s key = %d %s", asked.fill(q.line), by.name, status, answer)
	}
	return fmt.Sprint(status, " ", asked.plain(answer))
}

func TestLiveAndTestKeysAreTwoOwners(t *testing.T) {
	for name, row := range ownedRows() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := openModes(t)
			for _, q := range row.requests {
				h.testOwners(name, row, q, h.live, h.test)
				h.testOwners(name, row, q, h.test, h.live)
			}
		})
	}
}

// testOwners asks for a thing of a mode by a key of the other mode, and by a key of its own.
func (h *modes) testOwners(name string, row ownedRow, q request, of, other *mode) {
	h.Helper()
	one := h.makes(of)
	state := func() string {
		_, task := h.ask(of.secret, "GET /v/tasks/tasks/"+one["task"], "")
		_, configs := h.ask(of.secret, "GET /v/tasks/tasks/"+one["task"]+"/pushNotificationConfigs", "")
		_, dispatched := h.ask(of.secret, "GET /v1/tasks/"+one["dispatched"], "")
		_, booking := h.ask(of.secret, "GET /v1/bookings/"+one["booking"], "")
		return task + configs + dispatched + booking
	}
	before := state()
	seen, nothing := h.asked(other, q, one), h.asked(other, q, h.unmade())
	// A live key manages the test keys of its account.
	if isSeen, want := seen != nothing, name == "GET /v1/keys" && of.isTest; isSeen != want {
		h.Errorf("%s %s: a %s key finds a %s thing: %t, want %t (-nothing +thing):\n%s", q.line, q.body, other.name, of.name, isSeen, want, gocmp.Diff(nothing, seen))
	}
	if diff := gocmp.Diff(before, state()); diff != "" {
		h.Errorf("%s %s: a %s key changed a %s thing:\n%s", q.line, q.body, other.name, of.name, diff)
	}
	seen, nothing = h.asked(of, q, one), h.asked(of, q, h.unmade())
	if isSeen, want := seen != nothing, !of.isTest || !row.isLiveOnly; isSeen != want {
		h.Errorf("%s %s: a %s key finds its own thing: %t, want %t (-nothing +thing):\n%s", q.line, q.body, of.name, isSeen, want, gocmp.Diff(nothing, seen))
	}
}

func TestEachOperationSaysWhoseThingsItReads(t *testing.T) {
	h := openModes(t)
	want := map[string]bool{"MCP resource": true}
	for _, s := range operations.All() {
		if s.Access.Key.Scope != "" && s.Access.Key.AllowsTest {
			want[openapi.OperationKey(&s)] = true
		}
	}
	for o := a2awire.Operation(1); a2awire.MethodName(a2awire.V1, o) != ""; o++ {
		want["JSON-RPC "+a2awire.MethodName(a2awire.V1, o)], want["JSON-RPC "+a2awire.MethodName(a2awire.V03, o)] = true, true
	}
	for name, at := range map[string]string{"MCP ": "/v/mind/mcp", "MCP host ": "/mcp"} {
		q := rpc(at, "tools/list", `{}`)
		var got struct {
			Result struct{ Tools []struct{ Name string } }
		}
		_, answer := h.ask(h.live.secret, q.line, q.body)
		if err := json.Unmarshal([]byte(answer), &got); err != nil || len(got.Result.Tools) == 0 {
			t.Errorf("the tools at %s: %s", at, answer)
		}
		for _, tool := range got.Result.Tools {
			want[name+tool.Name] = true
		}
	}
	_, answer := h.ask(h.live.secret, "POST /a2a/v1", `{"from":"a","intent":"unknown","payload":{}}`)
	intents := regexp.MustCompile(`[a-z]+\.[a-z]+`).FindAllString(answer, -1)
	if len(intents) == 0 {
		t.Errorf("the intents: %s", answer)
	}
	for _, intent := range intents {
		want["AGP "+intent] = true
	}
	rows := ownedRows()
	if diff := gocmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(rows))); diff != "" {
		t.Errorf("operations that test keys may use (-operations +rows):\n%s", diff)
	}
	for name, row := range rows {
		if (row.why == "") == (len(row.requests) == 0) {
			t.Errorf("%s: a row has requests, or says why there are none", name)
		}
	}
}

// The key has all scopes, and asks for what exists.
func TestOperationsOfLiveKeysRefuseTestKeys(t *testing.T) {
	h := openModes(t)
	one := h.makes(h.live)
	self, err := h.Vacants.HostID(t.Context())
	h.Must(err)
	caller, err := identity.NewKey(rand.Reader)
	h.Must(err)
	c := claim.PaymentClaim{Host: self, Account: h.account.ID}
	h.Must(c.Sign(t.Context(), caller, h.Clock.NowFunc(0)()))
	bodies := map[string]string{"POST /v1/account/links": `{"claim":"` + c.String() + `"}`}
	paths := strings.NewReplacer(
		"/account/links/{caller}", "/account/links/"+caller.ID().String(), "{caller}", one["caller"], "{vacant}/{position}", h.mind+"/1", "{vacant}", "tasks")
	n := 0
	for _, s := range operations.All() {
		if s.Access.Key.Scope == "" || s.Access.Key.AllowsTest {
			continue
		}
		n++
		name := openapi.OperationKey(&s)
		line, body := s.Method+" "+paths.Replace(s.Path), bodies[name]
		if body == "" && s.Method != "GET" {
			body = `{}`
		}
		if status, answer := h.ask(h.test.secret, line, body); status != http.StatusForbidden || !strings.Contains(answer, "this needs a live key") {
			t.Errorf("%s by a test key = %d %s", name, status, answer)
		}
		if status, answer := h.ask(h.live.secret, line, body); strings.Contains(answer, "this needs a live key") {
			t.Errorf("%s by a live key = %d %s", name, status, answer)
		}
	}
	if n < 30 {
		t.Errorf("only %d operations are asked", n)
	}
}
