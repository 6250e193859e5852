package registryapi_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/registry/registrytest"
	"github.com/vacancy-host/vacancy/shared/host/registry/search"
	"github.com/vacancy-host/vacancy/shared/trust/reputation"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/event"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// session is a recorded session of the reference's registry.
type session struct {
	Name  string
	Input struct {
		Scores map[string]float64
		Seeds  map[string]string
	}
	Expect struct{ Steps []step }
}

type step struct {
	Kind, Method, Path string
	Query              map[string]any
	JSON               map[string]any
	Status             int
	Body               any
}

// The answers of the following steps differ from the reference on purpose. All other steps have the
// reference's status, and its body if the body was recorded.
//
//   - republish: two cards with one version are an equivocation. If the key names the previous card,
//     the publication succeeds, and later steps find it.
//   - idempotency conflict: in the reference, the key belonged to another actor. In this registry,
//     each actor has its own keys, and the step is refused because of its other card.
//   - card not hex: the text quotes Python's error.
//   - card: the reference's score is always 0, whereas this registry returns the score of searches.
//   - The caller in the query is ignored, so the driver signs as that caller.
//   - Parents are claims until both have signed, so the driver posts manifests.
//   - Hidden vacants are omitted from lineages and have no event log for other readers. The driver
//     reads these as the vacants themselves, and omits the hidden vacants.
//   - states: searches find only vacants that accept calls.
//   - Searches match text instead of a pattern in JSON: the queries in strayed.
var strayed = map[string]string{
	`%`:      "a wildcard matched everything",
	`_`:      "a wildcard matched everything",
	`e%e`:    "a wildcard matched anything between",
	`"`:      "the punctuation of JSON matched everything",
	`[`:      "the punctuation of JSON matched everything",
	`法律`:     "text outside ASCII was not found",
	`résumé`: "text outside ASCII was not found",
	`straße`: "text outside ASCII was not found, nor what folds to it",
	`u6cd5`:  "the escapes of JSON were found",
}

func loadSessions(t *testing.T) []session {
	t.Helper()
	b, err := os.ReadFile("testdata/registry_http.json")
	must(t, err)
	var file struct{ Cases []session }
	if err := json.Unmarshal(b, &file); err != nil || len(file.Cases) != 4 {
		t.Fatalf("registry_http.json: %v, %d cases, want 4", err, len(file.Cases))
	}
	return file.Cases
}

// replay replays one session.
type replay struct {
	*api
	session
	published []step // as they were accepted, in order
	manifests bool
}

func TestASessionOfTheReferenceIsAnsweredAsThere(t *testing.T) {
	for _, s := range loadSessions(t) {
		t.Run(s.Name, func(t *testing.T) {
			r := &replay{api: newTestServer(t), session: s}
			for i, st := range s.Expect.Steps {
				if st.Kind != "publish" && !r.manifests {
					r.prove()
					r.judge()
				}
				r.step(i, st)
			}
		})
	}
}

func (r *replay) step(i int, st step) {
	name := fmt.Sprintf("step %d, %s", i, st.Kind)
	target, as := r.target(st)
	if st.Kind == "search" && st.Status == 200 {
		status, body := reply(r.t, r.send(st.Method, target, nil, nil))
		r.compare(name, st, status, body, r.searched(name, st))
		return
	}
	var sent any
	if st.JSON != nil {
		sent = st.JSON
	}
	status, body := reply(r.t, r.send(st.Method, target, sent, as))
	want := st.Body
	switch st.Kind {
	case "publish":
		r.published = append(r.published, st)
	case "republish":
		refused(r.t, r.send(st.Method, target, sent, nil), 409, "equivocation", "this halo_version already has the card")
		st.JSON = r.replacing(st)
		status, body = reply(r.t, r.send(st.Method, target, st.JSON, nil))
		r.published = append(r.published, st)
	case "idempotency conflict":
		want = map[string]any{"code": "equivocation"}
	case "card", "card as owner", "card as stranger":
		if m, ok := want.(map[string]any); ok {
			delete(m, "score")
		}
	case "card not hex":
		want = map[string]any{"code": "malformed"}
	case "events":
		want = r.events(want)
	case "lineage down", "lineage up":
		want = r.lineage(want)
	}
	r.compare(name, st, status, body, want)
}

// target returns the address of the request without the caller, and the caller.
func (r *replay) target(st step) (string, identity.Signer) {
	q, as := url.Values{}, identity.Signer(nil)
	for name, v := range st.Query {
		if name == "caller" {
			if key := r.key(v.(string)); key != nil {
				as = key
			}
			continue
		}
		q.Set(name, fmt.Sprint(v))
	}
	if st.Kind == "events" || strings.HasPrefix(st.Kind, "lineage") {
		if key := r.key(st.Path[strings.LastIndex(st.Path, "/")+1:]); key != nil {
			as = key
		}
	}
	if len(q) == 0 {
		return st.Path, as
	}
	return st.Path + "?" + q.Encode(), as
}

func (r *replay) key(id string) *identity.Key {
	seed, ok := r.Input.Seeds[id]
	if !ok {
		return nil
	}
	b, err := hex.DecodeString(seed)
	must(r.t, err)
	key, err := identity.KeyFromSeed(b)
	must(r.t, err)
	return key
}

// prove posts the manifest of each claimed parent.
func (r *replay) prove() {
	r.manifests = true
	for _, st := range r.published {
		parent, ok := st.JSON["parent_id"].(string)
		if !ok {
			continue
		}
		above, child := r.key(parent), r.key(st.Body.(map[string]any)["vacant_id"].(string))
		m := composite.Manifest{ParentID: above.ID(), ChildID: child.ID(), BirthPath: "D1", SchemaVersion: composite.SchemaV2,
			Reachability: composite.PublicA2A, OutboundPolicy: composite.Unrestricted}
		must(r.t, m.SignParent(r.t.Context(), above))
		must(r.t, m.SignChild(r.t.Context(), child))
		if status, body := reply(r.t, r.send("POST", "/v1/manifests", m.Blob(), nil)); status != 200 {
			r.t.Fatalf("POST /v1/manifests = %d %v", status, body)
		}
	}
}

// judge gives each vacant the score of the session.
func (r *replay) judge() {
	for _, st := range r.published {
		id, _ := identity.ParseID(st.Body.(map[string]any)["vacant_id"].(string))
		score := r.Input.Scores[id.String()]
		if score == 0 {
			continue
		}
		s := reputation.NewState(time.Unix(1_700_000_000, 0))
		for _, p := range []*reputation.Posterior{&s.Factual, &s.Logical, &s.Relevance} {
			const n = 1000
			p.Alpha, p.Beta, p.Evidence = n*score, n*(1-score), n-2
		}
		must(r.t, registrytest.SetReputation(r.t.Context(), r.registry, id, s))
	}
}

// replacing signs a publication again, with the key that names the previous card.
func (r *replay) replacing(st step) map[string]any {
	blob, _ := hex.DecodeString(st.JSON["capability_card_blob_hex"].(string))
	c, err := card.Parse(blob)
	must(r.t, err)
	var known identity.Hash
	for _, old := range r.published {
		if old.Body.(map[string]any)["vacant_id"] == c.VacantID.String() {
			known, _ = identity.ParseHash(old.Body.(map[string]any)["capability_card_hash_hex"].(string))
		}
	}
	e := event.Event{
		Type: event.Register, Actor: c.VacantID, IdempotencyKey: event.ReplacesKey(known),
		Time: int64(st.JSON["event_ts_ms"].(float64)), ActorSeq: int64(st.JSON["event_actor_seq"].(float64)),
		Payload: event.RegisterPayload(c.Hash(), 1, c.VacantID, lifecycle.Visibility(st.JSON["visibility"].(string))),
	}
	must(r.t, e.Sign(r.t.Context(), r.key(c.VacantID.String())))
	again := map[string]any{}
	for k, v := range st.JSON {
		again[k] = v
	}
	again["event_idempotency_key"], again["event_signature_hex"] = e.IdempotencyKey, hex.EncodeToString(e.Signature)
	return again
}

// events removes the hash of the event that was signed again from a log.
func (r *replay) events(want any) any {
	for _, e := range want.([]any) {
		if e := e.(map[string]any); e["seq"].(float64) > 14 {
			delete(e, "event_hash_hex")
		}
	}
	return want
}

// lineage removes hidden vacants.
func (r *replay) lineage(want any) any {
	m := want.(map[string]any)
	chain, ok := m["chain"].([]any)
	if !ok {
		return want
	}
	m["chain"] = slices.DeleteFunc(slices.Clone(chain), func(id any) bool { return r.visibility(id.(string)) == "NONE" })
	return m
}

func (r *replay) visibility(id string) string {
	last := ""
	for _, st := range r.published {
		if body := st.Body.(map[string]any); body["vacant_id"] == id {
			last = body["visibility"].(string)
		}
	}
	return last
}

// searched returns the result of a search by this registry's rules. Unless the query is in strayed,
// the result must agree with the reference's.
func (r *replay) searched(name string, st step) any {
	var found []map[string]any
	text, _ := st.Query["capability"].(string)
	family, _ := st.Query["family"].(string)
	for _, id := range r.ids() {
		last := r.last(id)
		blob, _ := hex.DecodeString(last.JSON["capability_card_blob_hex"].(string))
		c, _ := card.Parse(blob)
		declared := []any{c.CapabilityText}
		if list, ok := last.JSON["declared_capabilities"].([]any); ok {
			declared = list
		}
		fits := slices.ContainsFunc(declared, func(s any) bool {
			return strings.Contains(search.Normalise(s.(string)), search.Normalise(text))
		})
		claimed := "unknown"
		for _, p := range r.published {
			if f, ok := p.JSON["base_model_family"].(string); ok && p.Body.(map[string]any)["vacant_id"] == id {
				claimed = f
			}
		}
		if last.JSON["runtime_state"] == "ACTIVE" && last.Body.(map[string]any)["visibility"] == "PUBLIC" && fits && (family == "" || family == claimed) {
			found = append(found, map[string]any{"vacant_id": id, "score": r.Input.Scores[id], "base_model_family": claimed, "visibility": "PUBLIC"})
		}
	}
	slices.SortStableFunc(found, func(a, b map[string]any) int {
		if a["score"].(float64) > b["score"].(float64) {
			return -1
		} else if a["score"].(float64) < b["score"].(float64) {
			return 1
		}
		return 0
	})
	limit := 20
	if n, ok := st.Query["limit"].(float64); ok {
		limit = int(n)
	}
	matches := []any{}
	for _, m := range found[:min(limit, len(found))] {
		matches = append(matches, m)
	}
	// The reference limits the results before it ranks them. Below the limit, both agree.
	if _, differs := strayed[text]; !differs && len(found) <= limit {
		r.agrees(name, st, matches)
	}
	return map[string]any{"matches": matches, "not_implemented_in_p4": []any{}}
}

// agrees compares a result with the reference's answer, without vacants that do not accept calls.
func (r *replay) agrees(name string, st step, want []any) {
	var there, here []string
	for _, m := range st.Body.(map[string]any)["matches"].([]any) {
		if id := m.(map[string]any)["vacant_id"].(string); r.last(id).JSON["runtime_state"] == "ACTIVE" {
			there = append(there, id)
		}
	}
	for _, m := range want {
		here = append(here, m.(map[string]any)["vacant_id"].(string))
	}
	if diff := cmp.Diff(there, here); diff != "" {
		r.t.Errorf("%s %v: differs from the reference's answer without a reason:\n%s", name, st.Query, diff)
	}
}

// ids lists the vacants in the order of joining.
func (r *replay) ids() (ids []string) {
	for _, st := range r.published {
		if id := st.Body.(map[string]any)["vacant_id"].(string); !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

func (r *replay) last(id string) (last step) {
	for _, st := range r.published {
		if st.Body.(map[string]any)["vacant_id"] == id {
			last = st
		}
	}
	return last
}

func (r *replay) compare(name string, st step, status int, body, want any) {
	if status != st.Status {
		r.t.Errorf("%s: %s %s %v = %d %v, want %d", name, st.Method, st.Path, st.Query, status, body, st.Status)
		return
	}
	if want == nil {
		return
	}
	if strings.HasPrefix(st.Kind, "lineage") {
		want, body = sorted(want), sorted(body) // the order within a level is not specified
	}
	if diff := cmp.Diff(want, only(want, body), cmp.Comparer(near)); diff != "" {
		r.t.Errorf("%s: %s %s %v (-reference +ours):\n%s", name, st.Method, st.Path, st.Query, diff)
	}
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9 }

func sorted(v any) any {
	if m, ok := v.(map[string]any); ok {
		if chain, ok := m["chain"].([]any); ok {
			slices.SortFunc(chain, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
		}
	}
	return v
}

// only reduces got to the members of want, because this registry returns additional members.
func only(want, got any) any {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return got
		}
		out := map[string]any{}
		for k, v := range w {
			if there, ok := g[k]; ok {
				out[k] = only(v, there)
			}
		}
		return out
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return got
		}
		out := make([]any, len(g))
		for i := range g {
			out[i] = only(w[i], g[i])
		}
		return out
	}
	return got
}

// The event contains data that the reference's route omits, so that anyone can verify it.
func TestTheEventOfASessionVerifies(t *testing.T) {
	s := loadSessions(t)[0]
	r := &replay{api: newTestServer(t), session: s}
	for i, st := range s.Expect.Steps {
		if st.Kind == "publish" {
			r.step(i, st)
		}
	}
	var prev identity.Hash
	for seq := uint64(1); seq <= 14; seq++ {
		e, err := r.client(nil).Event(t.Context(), seq)
		must(t, err)
		sig, _ := hex.DecodeString(e.Signature)
		signed := event.Event{Type: event.Type(e.Type), Actor: e.Actor, Payload: []byte(e.Payload), IdempotencyKey: e.IdempotencyKey, Time: e.Time, ActorSeq: e.ActorSeq, Signature: sig}
		if !signed.Verify() || e.Prev != prev.String() || e.Hash != signed.Hash(prev).String() || e.PublicKey != e.Actor.String() {
			t.Errorf("event %d does not verify: %+v", seq, e)
		}
		prev = signed.Hash(prev)
	}
	if bytes.Equal(prev[:], make([]byte, 32)) {
		t.Error("there were no events")
	}
}
