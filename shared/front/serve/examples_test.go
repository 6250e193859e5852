package serve_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/export"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/front/openapi"
	"github.com/vacancy-host/vacancy/shared/host/billing/tokens"
	"github.com/vacancy-host/vacancy/shared/host/client/registryclient"
	"github.com/vacancy-host/vacancy/shared/host/registry/translog"
	"github.com/vacancy-host/vacancy/shared/vacant/claim"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/listing"
	"github.com/vacancy-host/vacancy/shared/vacant/readproof"
)

// exchange is a request, and the answer to it.
type exchange struct {
	method, path string
	body, answer []byte
	status       int
}

// recorded returns a handler whose requests and answers h keeps.
func (h *documented) recorded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // a test's, in memory
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
		if is, ok := w.(*httptest.ResponseRecorder); ok {
			h.exchanges = append(h.exchanges, exchange{r.Method, r.URL.Path, body, bytes.Clone(is.Body.Bytes()), is.Code})
		}
	})
}

// finder returns a function that finds the operation of a request, or nil if there is none.
func finder(specs []op.Spec) func(method, path string) *op.Spec {
	variables := func(s op.Spec) int { return strings.Count(s.Path, "{") }
	specs = slices.Clone(specs)
	slices.SortStableFunc(specs, func(a, b op.Spec) int { return variables(a) - variables(b) })
	variable := regexp.MustCompile(`\\\{\w+\\\}`)
	several := regexp.MustCompile(`\\\{\w+\\\.\\\.\\\.\\\}`)
	paths := make([]*regexp.Regexp, len(specs))
	for i := range specs {
		pattern := regexp.QuoteMeta(strings.TrimSuffix(specs[i].Path, "{$}"))
		paths[i] = regexp.MustCompile("^" + several.ReplaceAllString(variable.ReplaceAllString(pattern, "[^/:]+"), ".+") + "$")
	}
	return func(method, path string) *op.Spec {
		for i := range specs {
			if specs[i].Method == method && paths[i].MatchString(path) {
				return &specs[i]
			}
		}
		return nil
	}
}

// examples returns for each operation the first exchange that succeeded.
func (h *documented) examples(specs []op.Spec) map[string]openapi.Example {
	find := finder(specs)
	all := map[string]openapi.Example{}
	for _, e := range h.exchanges {
		s := find(e.method, e.path)
		if s == nil || e.status/100 != 2 {
			continue
		}
		key := openapi.OperationKey(s)
		if _, known := all[key]; known {
			continue
		}
		var one openapi.Example
		if json.Valid(e.body) {
			one.Body = e.body
		}
		if json.Valid(e.answer) {
			one.Answer = e.answer
		}
		all[key] = one
	}
	return all
}

// withoutExample are operations that are not asked here, and why.
var withoutExample = map[string]string{
	"GET /v1/openapi.json":       "its answer is this document",
	"GET /v1/admin/status":       "only package standalone has it",
	"POST /v1/admin/reindex":     "only package standalone has it",
	"POST /v1/account/checkout":  "it needs Stripe",
	"POST /v1/admin/export/open": "it opens a sealed key",

	"GET /v/{vacant}/tasks/{id}:subscribe":  "it is a stream",
	"POST /v/{vacant}/tasks/{id}:subscribe": "it is a stream",
}

// ask uses the host that drive left for all that drive does not.
func (h *documented) ask(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	const pro, version = "Authorization: Bearer {buyer-pro}", "A2A-Version: 1.0"
	do := func(to site, method, path, body string, headers ...string) string {
		t.Helper()
		h.do(t, to, method, path, body, "", headers...)
		return string(h.exchanges[len(h.exchanges)-1].answer)
	}
	member := func(answer, name string) string {
		t.Helper()
		var of map[string]json.RawMessage
		if err := json.Unmarshal([]byte(answer), &of); err != nil {
			t.Fatalf("%s: %v", answer, err)
		}
		return strings.Trim(string(of[name]), `"`)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%v\n%s", err, h.said)
		}
	}
	demo, err := identity.ParseID(h.names["demo"])
	must(err)

	// Vacants and their families.
	const vacants = "/v1/admin/vacants"
	do(h.admin, "GET", vacants+"?limit=1", "")
	for _, path := range []string{"/free", "/warung/price", "/sage/agent", "/sage/tools", "/sage/tool-texts?caller={demo}", "/demo/plan", "/demo/logbook?limit=1", "/demo/children?limit=1", "/{pupil}/graduation"} {
		do(h.admin, "GET", vacants+path, "")
	}
	do(h.admin, "POST", vacants+"/{kid}/manifest", member(do(h.admin, "GET", vacants+"/{kid}/manifest", ""), "manifest"))
	do(h.admin, "PATCH", vacants+"/imported", `{"capability":"comes and goes"}`)
	for _, verb := range []string{"check", "pause", "resume", "export"} {
		do(h.admin, "POST", vacants+"/imported/"+verb, "")
	}
	do(h.admin, "POST", vacants+"/demo/graduation-signature", `{"parent_id":"{demo}","child_id":"{kid}","capability_text":"helps"}`)

	// The host.
	for _, path := range []string{"host", "root", "gate", "secrets", "payments", "models", "budgets?tenant=acme", "usage?from=2026-05-06&until=2026-05-07", "metrics"} {
		do(h.admin, "GET", "/v1/admin/"+path, "")
	}
	do(h.admin, "PUT", "/v1/admin/listings/{free}", `{"tags":["writing"],"skills":["letters"],"summary":"writes letters","family":"clerks","owner":"acme"}`)
	do(h.admin, "DELETE", "/v1/admin/secrets/openai", "")
	do(h.admin, "DELETE", "/v1/admin/payments/stripe", "")
	for _, path := range []string{"usage/recount", "log/seal", "restored"} {
		do(h.admin, "POST", "/v1/admin/"+path, "")
	}

	// The export of a host in the cloud.
	pages := site{admin.SocketHost, h.recorded(export.PagesHandler(export.Config{Source: h.store, Vault: h.vault, Now: h.clock.now}))}
	const exported = "/v1/admin/export"
	do(pages, "GET", exported, "")
	var streams export.StreamsPage
	must(json.Unmarshal([]byte(do(pages, "GET", exported+"/streams?limit=1", "")), &streams))
	do(pages, "GET", exported+"/rows?limit=1&stream="+base64.RawURLEncoding.EncodeToString(streams.Streams[0]), "")
	do(pages, "GET", exported+"/doc?partition=name&sort=demo", "")
	do(pages, "GET", exported+"/docs?partition=name&limit=1", "")

	// Accounts: by the operator, and by their keys.
	const accounts = "/v1/admin/accounts"
	do(h.admin, "GET", accounts+"?limit=1", "")
	for _, path := range []string{"", "/changes?limit=2", "/usage?from=2026-05-06&until=2026-05-07", "/statement?month=2026-05", "/keys"} {
		do(h.admin, "GET", accounts+"/acme"+path, "")
	}
	h.names["spare"] = member(do(h.admin, "POST", accounts+"/acme/keys", `{"tier":"pro","scopes":["call"]}`), "id")
	do(h.admin, "DELETE", accounts+"/acme/keys/{spare}", "")
	do(h.admin, "POST", accounts+"/acme/adjustment", `{"amount":-1000000,"note":"a refund"}`, "Idempotency-Key: refund")
	do(h.admin, "PUT", accounts+"/acme/cap", `{"amount":20000000}`)
	do(h.admin, "PUT", accounts+"/acme/task-lifetime", `{"seconds":43200}`)
	do(h.admin, "POST", accounts+"/acme/suspend", `{"note":"unpaid"}`)
	do(h.admin, "POST", accounts+"/acme/resume", `{"note":"paid"}`)
	self, err := h.server.Vacants.HostID(ctx)
	must(err)
	for n, account := range []string{"acme", "buyer"} {
		c := claim.PaymentClaim{Host: self, Account: h.names[account], DailyCap: 40_000_000}
		must(c.Sign(ctx, seeded(t, byte(60+n)), h.clock.now()))
		h.names["linked"] = seeded(t, byte(60+n)).ID().String()
		if account == "acme" {
			do(h.admin, "POST", accounts+"/acme/links", `{"claim":"`+c.String()+`"}`)
			do(h.admin, "DELETE", accounts+"/acme/links/{linked}", "")
			continue
		}
		do(h.public, "POST", "/v1/account/links", `{"claim":"`+c.String()+`"}`, pro)
		do(h.public, "DELETE", "/v1/account/links/{linked}", "", pro)
	}
	for _, path := range []string{"account", "account/changes?limit=2", "account/statement?month=2026-05", "account/host", "usage?from=2026-05-06&until=2026-05-07&by=vacant", "keys"} {
		do(h.public, "GET", "/v1/"+path, "", pro)
	}
	h.names["spare"] = member(do(h.public, "POST", "/v1/keys", `{"tier":"free","scopes":["call"]}`, pro), "id")
	do(h.public, "DELETE", "/v1/keys/{spare}", "", pro)
	do(h.admin, "GET", "/v1/admin/receipts/{payer}/{sage}/last", "")
	last := h.fill("/v1/account/receipts/{payer}/{sage}/last")
	proof, err := readproof.Sign(ctx, seeded(t, 21), readproof.Request{Authority: documentsHost, Method: "GET", Target: last}, h.clock.now())
	must(err)
	do(h.public, "GET", last, "", readproof.Header+": "+proof)

	// AGP and bookings.
	do(h.public, "GET", "/a2a/v1/status", "")
	do(h.public, "GET", "/metrics", "")
	do(h.public, "GET", "/v1/bookings", "", pro)
	do(h.public, "GET", "/v1/bookings/{booking}", "", pro)
	do(h.admin, "GET", "/v1/admin/bookings?venue={warung}", "")
	do(h.admin, "GET", "/v1/admin/bookings/{booking}", "")
	do(h.public, "POST", "/v1/bookings/{booking}/transition", `{"to":"completed","reason":"they came","event_id":"e1"}`, "Authorization: Bearer {acme-pro}")
	do(h.admin, "POST", "/v1/admin/bookings/{failed}/transition", `{"to":"dispatched","reason":"told by telephone","event_id":"e2"}`)
	h.names["another"] = member(do(h.public, "POST", "/a2a/v1/", `{"from":"nemo","intent":"booking.confirm","payload":{"venue_slug":"warung","starts_at":"2026-05-07T18:00:00Z","party_size":2,"guest":{"name":"Bo"}}}`, pro, "Prefer: respond-async"), "booking_id")
	do(h.public, "POST", "/v1/bookings/{another}/cancel", "", pro)

	// The registry and its log.
	for _, path := range []string{
		"capability_card/{free}", "event_log/{free}?limit=1", "event/1", "lineage/{demo}?direction=descendants", "revocation_list", "search?q=free&limit=1", "search_capability?q=free&limit=1",
		"checkpoint", "proof/inclusion?seq=1", "proof/consistency?from=1", "log/leaves?limit=2", "epoch/1", "epoch_root/latest",
	} {
		do(h.public, "GET", "/v1/"+path, "")
	}
	do(h.public, "POST", "/v1/query_capability?capability=free&limit=1", "")
	do(h.public, "POST", "/v1/manifests", member(do(h.admin, "GET", vacants+"/{clerk}/manifest", ""), "manifest"))
	attempt := h.fill("/v1/graduations/" + member(do(h.admin, "GET", vacants+"/{pupil}/graduation", ""), "id"))
	must(h.server.Vacants.WithSigner(ctx, demo, func(s identity.Signer) error {
		proof, err := readproof.Sign(ctx, s, readproof.Request{Authority: documentsHost, Method: "GET", Target: attempt}, h.clock.now())
		do(h.public, "GET", attempt, "", readproof.Header+": "+proof)
		return err
	}))
	must(h.server.Vacants.WithSigner(ctx, demo, func(s identity.Signer) error {
		published, err := h.log.LoadLatestCheckpoint(ctx)
		if err != nil {
			return err
		}
		note, err := translog.Cosign(ctx, published.Checkpoint, s, h.clock.now())
		do(h.public, "POST", "/v1/witness", string(op.EncodeRaw(translog.WitnessShape{Note: string(note)})))
		return err
	}))
	elsewhere := seeded(t, 30)
	of := listing.New(elsewhere.ID(), 1)
	of.Tags, of.Summary = []string{"mock"}, "lives elsewhere"
	must(of.Sign(ctx, elsewhere))
	do(h.public, "PUT", "/v1/listing/"+elsewhere.ID().String(), string(of.Blob()))
	client := &registryclient.Client{Transport: handled{h.public}, URL: "https://" + documentsHost, Reader: elsewhere, Now: h.clock.now}
	_, err = client.RevokeAs(ctx, elsewhere, "lost", h.rand)
	must(err)
	do(h.admin, "POST", vacants+"/free/unpublish", "")

	// A2A.
	const message = `{"message":{"messageId":"m9","role":"ROLE_USER","parts":[{"text":"hi"}]}}`
	at := func(task string) string { return "/v/free/tasks/{" + task + "}" }
	do(h.public, "POST", "/v/free/message:send", message, version, pro)
	do(h.public, "POST", "/v/free/message:stream", message, version, pro)
	for _, path := range []string{"/v/sage/extendedAgentCard", "/v/free/tasks?pageSize=1", at("task"), "/v/free/.well-known/agent-card.json", "/v/free/.well-known/jwks.json"} {
		do(h.public, "GET", path, "", version, pro)
	}
	h.names["config"] = member(do(h.public, "POST", at("queued-task")+"/pushNotificationConfigs", `{"url":"http://127.0.0.1:1/hook","token":"tok"}`, version, pro), "id")
	do(h.public, "GET", at("queued-task")+"/pushNotificationConfigs", "", version, pro)
	do(h.public, "GET", at("queued-task")+"/pushNotificationConfigs/{config}", "", version, pro)
	do(h.public, "DELETE", at("queued-task")+"/pushNotificationConfigs/{config}", "", version, pro)
	do(h.public, "POST", at("queued-task")+":cancel", "", version, pro)

	// MCP.
	for _, path := range []string{"/v/free/mcp", "/mcp"} {
		do(h.public, "POST", path, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Accept: */*")
		do(h.public, "GET", path+"/server-card", "")
	}
	// OpenAI's API.
	const messages = `"messages":[{"role":"user","content":"hi"}]}`
	do(h.public, "POST", "/v1/chat/completions", `{"model":"free",`+messages, pro)
	do(h.public, "POST", "/v/free/v1/chat/completions", `{"model":"free",`+messages, pro)
	do(h.public, "POST", "/v1/responses", `{"model":"free","input":"hi"}`, pro)
	do(h.public, "POST", "/v/free/v1/responses", `{"model":"free","input":[{"role":"user","content":"hi"}]}`, pro)
	for _, path := range []string{"/v1/models", "/v1/models/free", "/v/free/v1/models"} {
		do(h.public, "GET", path, "")
	}

	// Teams of agents. The agent asks a question.
	h.names["painter"] = member(do(h.admin, "POST", vacants, `{"name":"painter","capability":"paints","tenant":"acme","agent":{"provider":"mock","ask":true,"system":"`+"```mock\\ncall: ask_user {\\\"question\\\": \\\"Which color?\\\"}\\n```"+`"}}`), "vacant_id")
	do(h.admin, "POST", vacants+"/painter/publish", `{"visibility":"PUBLIC"}`)
	for _, by := range []struct {
		to                site
		at, agent, header string
	}{{h.admin, "/v1/admin", "free", "Accept: */*"}, {h.public, "/v1", "sage", "Authorization: Bearer {acme-team}"}} {
		do(by.to, "GET", by.at+"/agents", "", by.header)
		do(by.to, "GET", by.at+"/agents/"+by.agent, "", by.header)
		id := member(do(by.to, "POST", by.at+"/tasks", `{"agent":"{painter}","task":"Paint the fence."}`, by.header), "taskId")
		for _, message := range h.queued(t) {
			if strings.HasSuffix(message, id) {
				must(h.agents.HandleMessage(ctx, message))
			}
		}
		for _, path := range []string{"?limit=1", "/" + id} {
			do(by.to, "GET", by.at+"/tasks"+path, "", by.header)
		}
		do(by.to, "GET", by.at+"/tasks/"+id+"/log", "", by.header)
		do(by.to, "PUT", by.at+"/tasks/locks", `{"workspace":"main","policy":"queue"}`, by.header)
		do(by.to, "GET", by.at+"/tasks/locks", "", by.header)
		do(by.to, "POST", by.at+"/tasks/"+id+"/answer", `{"text":"Red."}`, by.header)
		do(by.to, "POST", by.at+"/tasks/"+id+"/cancel", "", by.header)
	}

	// Workers.
	for _, by := range []struct {
		to                 site
		at, tenant, header string
	}{{h.admin, "/v1/admin", "", "Accept: */*"}, {h.public, "/v1", "acme", "Authorization: Bearer {acme-worker}"}} {
		body := `{"name":"mole` + by.tenant + `","capability":"digs","substrate":"worker"}`
		if by.tenant != "" {
			body = strings.Replace(body, "{", `{"tenant":"`+by.tenant+`",`, 1)
		}
		id := member(do(h.admin, "POST", vacants, body), "vacant_id")
		ended := h.offer(t, h.server.Workers, by.tenant, id)
		turn := member(do(by.to, "POST", by.at+"/work/lease", `{"vacant":"mole`+by.tenant+`","wait":20}`, by.header), "turn")
		lease := by.at + "/work/" + member(turn, "lease")
		do(by.to, "POST", lease+"/heartbeat", "", by.header)
		do(by.to, "POST", lease+"/events", `{"batch":1,"events":[{"type":"started"},{"type":"text","text":"Deep"}]}`, by.header)
		do(by.to, "POST", lease+"/result", `{"text":"er.","usage":{"input_tokens":3,"output_tokens":2}}`, by.header)
		must(<-ended)
	}

	// Issuers of tokens.
	for _, path := range []string{"", "/{issuer}"} {
		do(h.admin, "GET", "/v1/admin/issuers"+path, "")
	}
	for _, path := range []string{"", "/mcp", "/v1", "/v/warung", "/v/warung/mcp", "/v/warung/v1"} {
		do(h.public, "GET", "/.well-known/oauth-protected-resource"+path, "")
	}
	h.names["subject"] = tokens.SubjectID(loginURL, "ann")
	do(h.admin, "DELETE", accounts+"/acme/subjects/{subject}", "")
	do(h.admin, "DELETE", "/v1/admin/issuers/{issuer}", "")

	// Reserved names. The cursor leads behind the vacants of acme.
	do(h.admin, "GET", "/v1/admin/names?tenant=acme&cursor="+member(do(h.admin, "GET", "/v1/admin/names?tenant=acme", ""), "next"), "")
	do(h.admin, "DELETE", "/v1/admin/names/closed", "")

	// Files of workspaces.
	for _, by := range []struct {
		to         site
		at, header string
	}{{h.admin, "/v1/admin", "Accept: */*"}, {h.public, "/v1", "Authorization: Bearer {acme-team}"}} {
		file := by.at + "/workspaces/drafts/files/report.md"
		do(by.to, "PUT", file, "# Report", by.header)
		for _, path := range []string{"", "/drafts/files?limit=1", "/drafts/files/report.md"} {
			do(by.to, "GET", by.at+"/workspaces"+path, "", by.header)
		}
		do(by.to, "DELETE", file, "", by.header)
		do(by.to, "DELETE", by.at+"/workspaces/drafts", "", by.header)
	}

	// Reviews.
	do(h.public, "GET", "/v1/reputation/{free}", "")
	do(h.public, "GET", "/v1/reputation_history/{free}?limit=1", "")
	do(h.public, "POST", "/v1/submit_review", "{next-review}")
	do(h.public, "POST", "/v/free/reviews/ingest", "{review}")
	do(h.public, "POST", "/v/free/reviews/blinded_ingest", "{blinded-review}")
	erased := h.fill("/v1/reputation_history/{free}/1/claim")
	proof, err = readproof.Sign(ctx, seeded(t, 50), readproof.Request{Authority: documentsHost, Method: "DELETE", Target: erased}, h.clock.now())
	must(err)
	do(h.public, "DELETE", erased, "", readproof.Header+": "+proof)
	do(h.admin, "DELETE", vacants+"/free/reviews/1/claim", "")
}
