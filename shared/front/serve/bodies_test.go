package serve_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"

	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/openapi/openapitest"
	"github.com/vacancy-host/vacancy/shared/front/operations"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/local"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/mock"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

var update = flag.Bool("update", false, "write the golden files again")

// bodies are a good body of each operation that reads one. {demo}, {kid} and {account} stand
// for ids.
var bodies = []struct{ method, path, body string }{
	{"POST", "/v1/admin/vacants", `{"name":"other","capability":"does","substrate":"echo","agent":null,"tenant":"","import":null}`},
	{"POST", "/v1/admin/vacants", `{"name":"other","capability":"does","import":{"format":"vacant-1","exported":"","name":"x","card":{},"id":"{seed}","seed_hex":"5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a","logbook":[],"chains":{"{demo}":{"x":1}},"manifest":null,"agent":{"provider":"mock"}}}`},
	{"PATCH", "/v1/admin/vacants/demo", `{"name":"demo2","capability":"does","substrate":"echo","plain":"open","work":"5m","seen":"2026-05-06T00:00:00.000000+00:00"}`},
	{"POST", "/v1/admin/vacants/demo/forget", `{"caller":"{demo}","context_id":"c"}`},
	{"POST", "/v1/admin/vacants/demo/publish", `{"capability":"does","visibility":"PUBLIC","listing":{"tags":["a"],"skills":["b"],"summary":"s","family":"f","owner":"o","price":0,"venue":{"slug":"at-home","name":"n","category":"cafe","location":"Berlin","hours":"9-17","areas":["a"],"bookable":true,"capacity":2,"referral_fee":3}}}`},
	{"POST", "/v1/admin/vacants/demo/publish", `{"capability":"does","visibility":"PUBLIC","venue":{"slug":"at-home","name":"n","category":"cafe","location":"Berlin","hours":"9-17","areas":["a"],"bookable":true,"capacity":2,"referral_fee":3}}`},
	{"POST", "/v1/admin/vacants/demo/revoke", `{"reason":"lost"}`},
	{"PUT", "/v1/admin/listings/{demo}", `{"tags":["a"],"skills":["b"],"summary":"s","family":"f","owner":"o","price":0}`},
	{"PUT", "/v1/admin/vacants/demo/price", `{"flat":5,"in":0,"out":0,"most":0,"free":2,"free_address":1,"free_all":9}`},
	{"POST", "/v1/admin/vacants/demo/children", `{"path":"D2","name":"kid2","capability":"helps","substrate":"echo","agent":null,"tools":["t"],"rule":"","with":"","reach":"parent-only","outbound":"no-external"}`},
	{"PUT", "/v1/admin/vacants/demo/plan", `{"version":1,"delegate":[{"child":"kid","task":"read {input}","kind":"k"}],"on_failure":"abort","aggregate":{"how":"join","separator":" "}}`},
	{"PUT", "/v1/admin/vacants/demo/agent", `{"provider":"mock","model":"one","system":"s","max_tokens":7,"memory":true,"vacants":["kid"]}`},
	{"PUT", "/v1/admin/vacants/demo/agent", `{"description":"d","provider":"mock","model":"one","budget":5,"daily_budget":6,"price":{"input":1,"output":2,"cached":1},"max_turns":3,"timeout":9,"effort":"low","output_format":"json","mode":"read-only","tool_log":"texts","allowed_tools":["a"],"disallowed_tools":["b"],"mcp_servers":[{"name":"s","url":"https://s.example/mcp","required":true}],"allow":["mock"],"warnings":["w"],"secret":"x","fallback_model":"two","tier":"LOW","base_url":"https://b.example"}`},
	{"POST", "/v1/admin/vacants/demo/graduation-signature", `{"parent_id":"{demo}","child_id":"{kid}","capability_text":"helps"}`},
	{"PUT", "/v1/admin/gate", `{"version":"1"}`},
	{"PUT", "/v1/admin/secrets/openai", `{"value":"top","hosts":["api.openai.com"]}`},
	{"PUT", "/v1/admin/models", `{"version":3,"models":[{"provider":"openai","model":"m","tier":"LOW","input":5,"output":7,"cached":1}]}`},
	{"PUT", "/v1/admin/budgets?tenant=acme", `{"daily":5}`},
	{"PUT", "/v1/admin/host", `{"url":"https://other.example"}`},
	{"PUT", "/v1/admin/root", `{"vacant":"demo"}`},
	{"POST", "/v1/admin/accounts", `{"tenant":"acme","shards":4}`},
	{"POST", "/v1/admin/accounts/{account}/credit", `{"amount":5,"note":"n"}`},
	{"PUT", "/v1/admin/accounts/{account}/line", `{"amount":5,"note":"n"}`},
	{"PUT", "/v1/admin/accounts/{account}/cap", `{"amount":5}`},
	{"PUT", "/v1/admin/accounts/{account}/task-lifetime", `{"seconds":60}`},
	{"POST", "/v1/admin/accounts/{account}/suspend", `{"note":"n"}`},
	{"POST", "/v1/admin/accounts/{account}/keys", `{"test":true,"scopes":["call"],"cap":5,"tier":"pro","quota":5,"agent_ids":["{demo}"],"expires":"2030-01-01T00:00:00Z"}`},
	{"POST", "/v1/admin/accounts/{account}/links", `{"claim":"x"}`},
}

// variant is a form of a body. The name says how it differs.
type variant struct{ name, body string }

// variants are good and bad forms of a body: as it is, cut, of another kind, and with each
// member, down to the third level, missing, of each other kind, and unknown.
func variants(t *testing.T, body string) []variant {
	all := []variant{{"good", body}, {"nothing", ""}, {"{}", "{}"}, {"[]", "[]"}, {"null", "null"}, {"cut", body[:len(body)-1]}, {"more", body + "x"}, {"zz=1", strings.Replace(body, "{", `{"zz":1,`, 1)}}
	kinds := []string{`null`, `7`, `-1`, `1.5`, `99999999999999999999`, `"x"`, `true`, `[]`, `[7]`, `{"zz":1}`}
	encode := func(v any) string {
		text, err := json.Marshal(v)
		must(t, err)
		return string(text)
	}
	var walk func(name string, doc any, depth int, put func(any) any)
	walk = func(name string, doc any, depth int, put func(any) any) {
		switch doc := doc.(type) {
		case map[string]any:
			for _, k := range slices.Sorted(maps.Keys(doc)) {
				at := strings.TrimPrefix(name+"."+k, ".")
				with := func(v any) any {
					other := maps.Clone(doc)
					other[k] = v
					return put(other)
				}
				without := maps.Clone(doc)
				delete(without, k)
				all = append(all, variant{"no " + at, encode(put(without))})
				for _, kind := range kinds {
					all = append(all, variant{at + "=" + kind, encode(with(json.RawMessage(kind)))})
				}
				walk(at, doc[k], depth+1, with)
			}
		case []any:
			if len(doc) > 0 && depth < 3 {
				walk(name+"[0]", doc[0], depth+1, func(v any) any { return put([]any{v}) })
			}
		}
	}
	d := json.NewDecoder(strings.NewReader(body))
	d.UseNumber()
	var doc any
	if err := d.Decode(&doc); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	walk("", doc, 1, func(v any) any { return v })
	return all
}

var random = regexp.MustCompile(`[0-9a-f]{64}|\b[0-9a-f]{12}\b|acct_\w+`)

// The golden file has what each operation answers to good and bad bodies: the status, and of
// a refusal its field and text. What is accepted is as its schema says.
func TestBodiesAreAnsweredAsBefore(t *testing.T) {
	const golden = "testdata/bodies.golden"
	vault, err := local.FromHex(strings.Repeat("5a", 32), zeros{})
	must(t, err)
	at := time.Date(2026, 5, 6, 0, 0, 0, 0, time.UTC)
	seed, err := identity.KeyFromSeed(bytes.Repeat([]byte{0x5a}, 32))
	must(t, err)
	document, err := openapitest.Load()
	must(t, err)
	find := finder(operations.All())
	var got bytes.Buffer
	for _, op := range bodies {
		path, _, _ := strings.Cut(op.path, "?")
		described := document.Paths[find(op.method, path).Path][strings.ToLower(op.method)]
		schema, err := document.Validator(described.RequestBody.Content["application/json"])
		must(t, err)
		fmt.Fprintf(&got, "\n%s %s\n", op.method, op.path)
		for _, v := range variants(t, op.body) {
			s, err := serve.Config{
				Store: memory.New(), Vault: vault, URL: "http://127.0.0.1:8080", Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return at }, Rand: &counter{}, HasAccounts: true,
				Models: func(*outbound.Client) substrate.Kinds { return mock.Kinds() },
			}.Open()
			must(t, err)
			demo, err := s.Vacants.Create(t.Context(), vacants.CreateSpec{Name: "demo", Capability: "leads", Substrate: "echo"})
			must(t, err)
			kid, _, err := s.Vacants.Spawn(t.Context(), vacants.SpawnSpec{Parent: demo.ID, Path: "D2", Name: "kid", Capability: "helps"})
			must(t, err)
			var account billing.Account
			account, err = s.Billing.OpenAccount(t.Context(), "tenant", 1)
			must(t, err)
			ids := strings.NewReplacer("{demo}", demo.ID.String(), "{kid}", kid.ID.String(), "{account}", account.ID, "{seed}", seed.ID().String())
			r := httptest.NewRequest(op.method, "http://"+admin.SocketHost+ids.Replace(op.path), strings.NewReader(ids.Replace(v.body)))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Idempotency-Key", "once")
			w := httptest.NewRecorder()
			s.Admin().ServeHTTP(w, r)
			s.Vacants.Close()
			fmt.Fprintf(&got, "%s: %d", v.name, w.Code)
			if w.Code >= http.StatusBadRequest {
				var refusal struct{ Field, Detail string }
				if err := json.Unmarshal(w.Body.Bytes(), &refusal); err != nil {
					t.Fatalf("%s: %v", w.Body, err)
				}
				fmt.Fprintf(&got, " %s: %s", refusal.Field, random.ReplaceAllString(refusal.Detail, "ID"))
			}
			got.WriteByte('\n')
			var body any
			if w.Code < http.StatusBadRequest {
				must(t, json.Unmarshal([]byte(ids.Replace(v.body)), &body))
				if err := schema.Validate(body); err != nil {
					t.Errorf("%s %s accepts %s, which its schema does not: %v", op.method, op.path, v.name, err)
				}
			}
		}
	}
	if *update {
		must(t, os.WriteFile(golden, got.Bytes(), 0o644))
	}
	want, err := os.ReadFile(golden)
	must(t, err)
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
}

// counter is randomness that is the same in each run.
type counter struct{ n byte }

func (c *counter) Read(b []byte) (int, error) {
	for i := range b {
		c.n++
		b[i] = c.n
	}
	return len(b), nil
}

// zeros is randomness of which nothing depends.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }
