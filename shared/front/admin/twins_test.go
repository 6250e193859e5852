package admin_test

import (
	"encoding/json"
	"fmt"
	mathrand "math/rand/v2"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/host/family/graduation"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/mock"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store"
)

// dice are random bytes that begin again, so that two hosts make the same keys.
type dice struct {
	mu sync.Mutex
	r  *mathrand.ChaCha8
}

func (d *dice) Read(b []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.r.Read(b)
}

func (d *dice) begin(seed uint16) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.r = mathrand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
}

// twin is a host with the vacants of acme: mine, and firm with its closed child kid.
type twin struct {
	*tenants
	dice      *dice
	firm, kid admin.Vacant
	bound     string // the manifest of firm and kid
}

func newTwin(t *testing.T) *twin {
	w := &twin{dice: &dice{}}
	w.dice.begin(1)
	w.tenants = newTenantsOf(t, func(c *admin.Config) {
		c.Vacants.Rand = w.dice
		c.Vacants.Resources.Substrates[substrate.KindMock] = mock.Kinds()[substrate.KindMock]
		c.Gate = &oneAttempt{attempt: graduation.Status{}}
		report(c)
	})
	w.key = w.keyOf("acme", vacantsKey)
	w.own = w.make("mine", "acme")
	w.firm = w.make("firm", "acme")
	kid := w.spawn("firm", "kid")
	w.kid, w.bound = kid.Vacant, string(kid.Manifest.Manifest)
	return w
}

func (w *twin) must(method, path, body string) []byte {
	w.Helper()
	answer := w.ask(method, path, body)
	if answer.Code/100 != 2 {
		w.Fatalf("%s %s = %d %s", method, path, answer.Code, answer.Body)
	}
	return answer.Body.Bytes()
}

func (w *twin) make(name, tenant string) (v admin.Vacant) {
	w.Helper()
	if err := json.Unmarshal(w.must("POST", "/v1/admin/vacants", fmt.Sprintf(`{"name":%q,"capability":"answers","tenant":%q}`, name, tenant)), &v); err != nil {
		w.Fatal(err)
	}
	return v
}

func (w *twin) spawn(parent, name string) (s admin.Spawned) {
	w.Helper()
	if err := json.Unmarshal(w.must("POST", "/v1/admin/vacants/"+parent+"/children", fmt.Sprintf(`{"path":"D2","name":%q}`, name)), &s); err != nil {
		w.Fatal(err)
	}
	return s
}

// addOthers adds the vacants of another tenant, and one of the operator.
func (w *twin) addOthers() (others []admin.Vacant) {
	publish := func(name string) {
		w.must("POST", "/v1/admin/vacants/"+name+"/publish", fmt.Sprintf(`{"venue":{"slug":%q}}`, name))
	}
	for _, name := range []string{"public", "paused", "unpublished", "unlisted", "gone"} {
		others = append(others, w.make(name, "other"))
	}
	for _, name := range []string{"public", "paused", "unpublished"} {
		publish(name)
	}
	w.must("POST", "/v1/admin/vacants/paused/pause", "")
	w.must("POST", "/v1/admin/vacants/unpublished/unpublish", "")
	for _, step := range []string{"sink", "archive"} {
		w.must("POST", "/v1/admin/vacants/gone/"+step, "")
	}
	w.must("DELETE", "/v1/admin/vacants/gone", "")
	others = append(others, w.spawn("public", "closed").Vacant, w.make("zzz-operators", ""))
	// As acme's vacants of these names would be, but for their tenant.
	others = append(others, w.make("aaa", "other"))
	return others
}

// logged is the place of an event in the host's log of events, which is public.
var logged = regexp.MustCompile(`"event_seq":[0-9]+`)

// send sends a request of acme, and returns status, headers and body.
func (w *twin) send(seed uint16, method, path, body string) string {
	w.dice.begin(seed)
	answer := w.by(w.key, method, path, body)
	answer.Header().Del("Content-Length") // the body's
	return fmt.Sprintf("%d %v %s", answer.Code, answer.Header(), logged.ReplaceAll(answer.Body.Bytes(), nil))
}

// A request names a vacant as NAME, by its id as ID, and in a cursor as CURSOR.
type request struct {
	path, body string
	// taken is a request for a name or slug: it is taken for everybody, whoever has it.
	taken bool
	// tool is a request to ask the vacant, which everybody may if it is public.
	tool bool
}

// twinRows has a row for every route that a tenant's key opens: what it can say about
// vacants.
func twinRows(w *twin) map[string][]request {
	const v, about, parent = "/v1/admin/vacants", "/v1/admin/vacants/NAME", "/v1/admin/vacants/firm"
	own := v + "/" + w.own.ID.String() // it is renamed
	tools := `{"provider":"mock","vacants":["NAME"]}`
	return map[string][]request{
		"GET /v1/admin/vacants": {{path: v}, {path: v + "?limit=1"}, {path: v + "?all=true&limit=1"}, {path: v + "?all=true&limit=2"},
			{path: v + "?limit=1&cursor=CURSOR"}, {path: v + "?all=true&cursor=CURSOR"}},
		"POST /v1/admin/vacants": {{path: v, body: `{"name":"NAME","capability":"mine"}`, taken: true}, {path: v, body: `{"name":"fresh","capability":"c","tenant":"other"}`},
			{path: v, body: `{"name":"fresh","capability":"c","agent":` + tools + `}`, tool: true},
			{path: v, body: `{"name":"moved","capability":"c","import":{"seed_hex":"` + strings.Repeat("07", 32) + `","chains":{"ID":{}},"agent":` + tools + `}}`, tool: true},
			{path: v, body: `{"name":"moved","capability":"c","import":{"seed_hex":"` + strings.Repeat("07", 32) + `","chains":{"ID":{}}}}`}},
		"GET /v1/admin/vacants/{vacant}":            {{path: about}},
		"PATCH /v1/admin/vacants/{vacant}":          {{path: about, body: `{"capability":"mine"}`}, {path: own, body: `{"name":"NAME"}`, taken: true}},
		"DELETE /v1/admin/vacants/{vacant}":         {{path: about}},
		"POST /v1/admin/vacants/{vacant}/publish":   {{path: about + "/publish", body: `{}`}, {path: own + "/publish", body: `{"venue":{"slug":"NAME"}}`, taken: true}},
		"POST /v1/admin/vacants/{vacant}/unpublish": {{path: about + "/unpublish"}},
		"POST /v1/admin/vacants/{vacant}/revoke":    {{path: about + "/revoke", body: `{"reason":"compromise"}`}},
		"POST /v1/admin/vacants/{vacant}/check":     {{path: about + "/check"}},
		"GET /v1/admin/vacants/{vacant}/tool-texts": {{path: about + "/tool-texts?caller=" + strings.Repeat("07", 32)}, {path: own + "/tool-texts?caller=ID"}},
		"GET /v1/admin/vacants/{vacant}/tools":      {{path: about + "/tools"}},
		"GET /v1/admin/vacants/{vacant}/price":      {{path: about + "/price"}, {path: about + "/price?version=1"}},
		"PUT /v1/admin/vacants/{vacant}/price":      {{path: about + "/price", body: `{"flat":1}`}},
		"POST /v1/admin/vacants/{vacant}/pause":     {{path: about + "/pause"}},
		"POST /v1/admin/vacants/{vacant}/resume":    {{path: about + "/resume"}},
		"POST /v1/admin/vacants/{vacant}/sink":      {{path: about + "/sink"}},
		"POST /v1/admin/vacants/{vacant}/archive":   {{path: about + "/archive"}},
		"POST /v1/admin/vacants/{vacant}/forget":    {{path: about + "/forget", body: `{}`}, {path: own + "/forget", body: `{"caller":"ID"}`}},
		"GET /v1/admin/vacants/{vacant}/logbook":    {{path: about + "/logbook"}},
		"GET /v1/admin/vacants/{vacant}/children":   {{path: about + "/children"}, {path: parent + "/children?limit=1"}, {path: parent + "/children?limit=1&cursor=CURSOR"}},
		"GET /v1/admin/vacants/{vacant}/manifest":   {{path: about + "/manifest"}},
		"POST /v1/admin/vacants/{vacant}/manifest":  {{path: about + "/manifest", body: w.bound}, {path: parent + "/manifest", body: w.bound}, {path: "/v1/admin/vacants/kid/manifest", body: strings.ReplaceAll(w.bound, w.firm.ID.String(), "ID")}},
		"GET /v1/admin/vacants/{vacant}/plan":       {{path: about + "/plan"}},
		"PUT /v1/admin/vacants/{vacant}/plan":       {{path: about + "/plan", body: `{"version":1,"delegate":[{"child":"kid"}],"aggregate":{"how":"first"}}`}, {path: parent + "/plan", body: `{"version":1,"delegate":[{"child":"kid"},{"child":"NAME"}],"aggregate":{"how":"first"}}`}},
		"GET /v1/admin/vacants/{vacant}/agent":      {{path: about + "/agent"}, {path: about + "/agent?version=1"}},
		"PUT /v1/admin/vacants/{vacant}/agent":      {{path: about + "/agent", body: `{"provider":"echo"}`}, {path: own + "/agent", body: tools, tool: true}},
		"GET /v1/admin/vacants/{vacant}/graduation": {{path: about + "/graduation"}, {path: about + "/graduation?position=1"}},
		"POST /v1/admin/vacants/{vacant}/children": {{path: about + "/children", body: `{"path":"D2","name":"kid"}`}, {path: parent + "/children", body: `{"path":"D2","name":"NAME"}`, taken: true},
			{path: parent + "/children", body: `{"path":"D4","name":"two","with":"NAME"}`}, {path: parent + "/children", body: `{"path":"D2","name":"three","agent":` + tools + `}`, tool: true}},
		"POST /v1/admin/vacants/{vacant}/graduation-signature": {
			{path: about + "/graduation-signature", body: `{"parent_id":"` + w.firm.ID.String() + `","child_id":"` + w.kid.ID.String() + `","capability_text":"c"}`},
			{path: parent + "/graduation-signature", body: `{"parent_id":"` + w.firm.ID.String() + `","child_id":"ID","capability_text":"c"}`},
			{path: "/v1/admin/vacants/kid/graduation-signature", body: `{"parent_id":"ID","child_id":"` + w.kid.ID.String() + `","capability_text":"c"}`}},
	}
}

// Two hosts differ only in the vacants of others. They answer every request of a tenant,
// on every route, with the same bytes, even if the request names those vacants.
func TestATenantCannotTellAHostWithTheVacantsOfOthersFromOneWithout(t *testing.T) {
	rows := twinRows(newTwin(t))
	for path, methods := range admin.TenantRoutes(newTwin(t).config) {
		for method := range methods {
			if route := method + " " + path; rows[route] == nil {
				t.Errorf("%s has no row: what can a tenant say there about the vacants of others?", route)
			}
		}
	}
	for route, requests := range rows {
		t.Run(strings.ReplaceAll(route, "/", "_"), func(t *testing.T) {
			method, path, _ := strings.Cut(route, " ")
			with, without := newTwin(t), newTwin(t)
			if methods := admin.TenantRoutes(with.config)[path]; methods[method] == nil {
				t.Fatal("the row is of no route")
			}
			others := with.addOthers()
			found, seed := 0, uint16(1)
			for _, r := range requests {
				for _, other := range others {
					id := other.ID.String()
					for _, name := range []string{other.Name, id, other.ID.Short(), id[:4]} {
						seed++
						fill := strings.NewReplacer("NAME", name, "ID", id, "CURSOR", url.QueryEscape(cursorOf(other)))
						path, body := fill.Replace(r.path), fill.Replace(r.body)
						switch public := other.Name == "public" && (name == other.Name || name == id); {
						case r.tool && public, r.taken && name == other.Name:
							continue // below
						}
						for path != "" {
							a, b := with.send(seed, method, path, body), without.send(seed, method, path, body)
							if diff := cmp.Diff(b, a); diff != "" {
								t.Errorf("%s %s %s of %s (-without +with it):\n%s", method, path, body, other.Name, diff)
							}
							if strings.HasPrefix(a, "404") {
								found++
							}
							path = nextPage(t, path, a)
						}
					}
				}
				if r.taken {
					with.wantTaken(method, r, others)
				}
			}
			if strings.Contains(path, "{vacant}") && found < len(others) {
				t.Errorf("%d requests came to a vacant that is not there: give them a body", found)
			}
		})
	}
}

// wantTaken checks that a name or slug is refused in the same words for each of others, and
// for a name as for a reserved word.
func (w *twin) wantTaken(method string, r request, others []admin.Vacant) {
	w.Helper()
	answers := map[string]bool{}
	for _, other := range others {
		if strings.Contains(r.body, "slug") && !slices.Contains([]string{"public", "paused", "unpublished"}, other.Name) {
			continue
		}
		answers[strings.ReplaceAll(w.send(1<<12, method, r.path, strings.ReplaceAll(r.body, "NAME", other.Name)), other.Name, "NAME")] = true
	}
	if !strings.Contains(r.body, "slug") {
		answers[strings.ReplaceAll(w.send(1<<12, method, r.path, strings.ReplaceAll(r.body, "NAME", "health")), "health", "NAME")] = true
	}
	if len(answers) != 1 {
		w.Errorf("%s %s answers differently: %v", method, r.body, answers)
	}
	for a := range answers {
		if !strings.HasPrefix(a, "409") {
			w.Errorf("%s %s = %s, want a conflict", method, r.body, a)
		}
	}
}

// cursorOf is a cursor at another's vacant, as the operator is given it.
func cursorOf(v admin.Vacant) string {
	return store.Cursor{IndexSort: v.Name, Key: vacants.NameKey(v.Name)}.String()
}

// nextPage is path at the next page of an answer; "" after the last.
func nextPage(t *testing.T, path, answer string) string {
	t.Helper()
	var page struct{ Next any }
	_, body, _ := strings.Cut(answer, "{")
	if json.Unmarshal([]byte("{"+body), &page) != nil {
		return ""
	}
	next, _ := page.Next.(string)
	if next == "" {
		return ""
	}
	to, err := url.Parse(path)
	must(t, err)
	q := to.Query()
	q.Set("cursor", next)
	to.RawQuery = q.Encode()
	return to.String()
}
