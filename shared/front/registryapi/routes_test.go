package registryapi_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/registryapi"
	"github.com/vacancy-host/vacancy/shared/host/client/registryclient"
	"github.com/vacancy-host/vacancy/shared/host/registry/search"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/event"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/shared/vacant/listing"
	"github.com/vacancy-host/vacancy/shared/vacant/readproof"
)

// halo signs the next publication of key.
func (d *api) halo(key *identity.Key, text string, change ...func(*registryclient.Draft)) registryclient.Publication {
	d.t.Helper()
	draft := d.draft(key, text, change...)
	at, err := d.client(key).KeyState(d.t.Context(), key.ID())
	must(d.t, err)
	idem := fmt.Sprintf("k-%d", at.NextSeq)
	if !at.CardHash.IsZero() && at.CardHash != draft.Card.Hash() {
		idem = event.ReplacesKey(at.CardHash)
	}
	h, err := draft.Sign(d.t.Context(), key, at.NextSeq, idem, d.clock())
	must(d.t, err)
	return h
}

func hidden(d *registryclient.Draft) { d.Visibility = lifecycle.Hidden }

func ptr[T any](v T) *T { return &v }

func (d *api) body(method, target string) string {
	var b bytes.Buffer
	_, _ = b.ReadFrom(d.send(method, target, nil, nil).Body)
	return b.String()
}

func TestTwoCardsOfOneVersionAreToldByBothHashes(t *testing.T) {
	d, key := newTestServer(t), newKey(t)
	known := d.acceptPublication(key, "one").CardHash
	draft := d.draft(key, "another")
	h, err := draft.Sign(t.Context(), key, 2, "plain", d.clock())
	must(t, err)
	got := refused(t, d.send("POST", "/v1/halo", h, nil), 409, "equivocation", "halo_version")
	if got["card_hash_known"] != known.String() || got["card_hash_sent"] != draft.Card.Hash().String() {
		t.Errorf("the answer names %v and %v, want %s and %s", got["card_hash_known"], got["card_hash_sent"], known, draft.Card.Hash())
	}
	_, err = d.client(nil).Publish(t.Context(), h)
	var status *registryclient.StatusError
	if !errors.As(err, &status) || !problem.Is(err, problem.Equivocation) || status.KnownCardHash != known || status.RefusedCardHash != draft.Card.Hash() {
		t.Errorf("Publish() = %v, want an equivocation with both hashes", err)
	}
}

func TestReaderIsTheSigner(t *testing.T) {
	d, key, stranger := newTestServer(t), newKey(t), newKey(t)
	d.acceptPublication(key, "secret work", hidden)
	path := "/v1/capability_card/" + key.ID().String()

	refused(t, d.send("GET", path+"?caller="+key.ID().String(), nil, nil), 403, "forbidden", "caller required")
	refused(t, d.send("GET", path, nil, stranger), 403, "forbidden", "caller is not owner/parent")
	r := d.send("GET", path, nil, key)
	if r.StatusCode != 200 || r.Header.Get("Cache-Control") != "no-store" || r.Header.Get("Vary") != readproof.Header {
		t.Errorf("GET as itself = %d, %v, want 200 for nobody else's cache", r.StatusCode, r.Header)
	}
	refused(t, d.send("GET", "/v1/lineage/"+key.ID().String(), nil, nil), 403, "forbidden", "NONE-visibility")
}

func TestAProofThatDoesNotHoldIsRefused(t *testing.T) {
	d, key := newTestServer(t), newKey(t)
	d.acceptPublication(key, "open")
	target := "/v1/capability_card/" + key.ID().String()
	request := func(header ...string) *http.Request {
		r := httptest.NewRequest("GET", "http://"+authority+target, nil)
		r.Header[readproof.Header] = header
		return r
	}
	good := d.proof(key, authority, request())
	refused(t, d.do(request("nonsense")), 400, "malformed", readproof.Header)
	refused(t, d.do(request(good, good)), 400, "malformed", "several")
	refused(t, d.do(request(d.proof(key, "other.example", request()))), 401, "bad_signature", "did not verify")
	if r := d.do(request(good)); r.StatusCode != 200 {
		t.Errorf("a good proof = %d, want 200", r.StatusCode)
	}
	d.later(readproof.MaxSkew + time.Minute)
	refused(t, d.do(request(good)), 400, "clock", "within 300 s")
}

func TestAProofForTheHostsOwnURLHoldsBehindAnEdge(t *testing.T) {
	d, key := newTestServer(t), newKey(t)
	d.acceptPublication(key, "secret", hidden)
	d.public = "https://public.example/base"
	r := httptest.NewRequest("GET", "http://internal.lambda-url.example/v1/capability_card/"+key.ID().String(), nil)
	r.Header.Set(readproof.Header, d.proof(key, "public.example", r))
	if got := d.do(r); got.StatusCode != 200 {
		t.Errorf("GET with a proof for the host's URL = %d, want 200", got.StatusCode)
	}
	r.Header.Set(readproof.Header, d.proof(key, "evil.example", r))
	refused(t, d.do(r), 401, "bad_signature", "did not verify")
}

func TestABodyOfAPublishIsStrict(t *testing.T) {
	d, key := newTestServer(t), newKey(t)
	raw, err := json.Marshal(d.halo(key, "text"))
	must(t, err)
	good := string(raw)
	with := func(member string) string { return strings.TrimSuffix(good, "}") + "," + member + "}" }
	replace := func(old, new string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("%s has no %s", good, old)
		}
		return strings.Replace(good, old, new, 1)
	}
	for name, tt := range map[string]struct{ body, field string }{
		"an unknown member":       {with(`"zzz":1`), `zzz`},
		"a member twice":          {with(`"runtime_state":"ACTIVE"`), ""},
		"a member twice, escaped": {with(`"runtime\u005fstate":"ACTIVE"`), ""},
		"seq 0":                   {replace(`"event_actor_seq":1`, `"event_actor_seq":0`), "event_actor_seq"},
		"a float":                 {replace(`"event_actor_seq":1`, `"event_actor_seq":1.0`), "event_actor_seq"},
		"a number as text":        {replace(`"event_actor_seq":1`, `"event_actor_seq":"1"`), "event_actor_seq"},
		"before all time":         {replace(`"event_ts_ms":`, `"event_ts_ms":-`), "event_ts_ms"},
		"an unknown state":        {replace(`"ACTIVE"`, `"AWAKE"`), "runtime_state"},
		"an unknown visibility":   {replace(`"PUBLIC"`, `"public"`), "visibility"},
		"no visibility at all":    {replace(`"PUBLIC"`, `null`), "visibility"},
		"a missing member":        {replace(`"event_idempotency_key"`, `"owner_org"`), "event_idempotency_key"},
		"declared as text":        {with(`"declared_capabilities":"a"`), "declared_capabilities"},
		"declared with a number":  {with(`"declared_capabilities":["a",1]`), "declared_capabilities[1]"},
		"a parent that is none":   {with(`"parent_id":"abc"`), "parent_id"},
		"a list":                  {`[]`, ""},
		"nothing":                 {``, ""},
		"no JSON":                 {`{`, ""},
		"NaN":                     {replace(`"event_actor_seq":1`, `"event_actor_seq":NaN`), ""},
		"a lone surrogate":        {with(`"owner_org":"\ud800"`), ""},
		"a price in the listing":  {with(`"listing":{"vacant_id":"` + key.ID().String() + `","version":1,"price":"free"}`), "listing"},
	} {
		t.Run(name, func(t *testing.T) {
			got := refused(t, d.send("POST", "/v1/halo", tt.body, nil), 422, "schema", "")
			if field, _ := got["field"].(string); !strings.HasPrefix(field, tt.field) {
				t.Errorf("field = %q, want %q", field, tt.field)
			}
		})
	}
	if status, body := reply(t, d.send("POST", "/v1/halo", good, nil)); status != 200 {
		t.Errorf("the good body = %d %v, want 200: nothing of the others may have counted", status, body)
	}
}

func TestInvalidRequestsAreRefused(t *testing.T) {
	d := newTestServer(t)
	refused(t, d.send("POST", "/v1/halo", []byte(strings.Repeat(" ", 300<<10)), nil), 413, "too_large", "262144")
	refused(t, d.send("GET", "/v1/halo", nil, nil), 405, "method_not_allowed", "use POST")
	refused(t, d.send("DELETE", "/v1/capability_card/ab", nil, nil), 405, "method_not_allowed", "use GET")
	refused(t, d.send("POST", "/v1/search", nil, nil), 405, "method_not_allowed", "use GET")
	refused(t, d.send("GET", "/v1/capability_card/nobody", nil, nil), 404, "not_found", "nobody")
	refused(t, d.send("GET", "/v1/event/x", nil, nil), 422, "schema", "seq")
	refused(t, d.send("POST", "/v1/manifests", `{"parent_id":"x"}`, nil), 422, "schema", "")
	for _, path := range []string{"/v1/search", "/v1/search_capability"} {
		refused(t, d.send("GET", path+"?q="+strings.Repeat("a", 1_000_000), nil, nil), 400, "malformed", "at most 256 bytes")
	}
	refused(t, d.send("GET", "/v1/search?min_reputation=NaN", nil, nil), 422, "schema", "min_reputation")
	refused(t, d.send("GET", "/v1/search_capability?include_local=perhaps", nil, nil), 422, "schema", "include_local")
	refused(t, d.send("GET", "/v1/search?cursor=AAAA", nil, nil), 400, "malformed", "cursor")
	r := httptest.NewRequest("POST", "http://"+authority+"/v1/halo", strings.NewReader("{}"))
	r.Header.Set("Content-Type", "text/plain")
	refused(t, d.do(r), 415, "unsupported_media_type", "application/json")
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Content-Encoding", "gzip")
	refused(t, d.do(r), 415, "unsupported_media_type", "gzip")
}

// The reference answers 200 without storing the publication.
func TestAPlaceholderOfTheReferenceIsNotFound(t *testing.T) {
	d := newTestServer(t)
	for _, name := range []string{"submit_event", "submit_peer_review", "spawn", "submit_composition_link",
		"submit_finalization", "submit_attestation", "sink", "report_anomaly", "seal_epoch"} {
		refused(t, d.send("POST", "/v1/"+name, "{}", nil), 404, "not_found", "no such path")
	}
	for _, name := range []string{"composition_links", "sink_record", "freeze_status"} {
		refused(t, d.send("GET", "/v1/"+name+"/ab", nil, nil), 404, "not_found", "no such path")
	}
}

func TestPublicPagesAreCacheable(t *testing.T) {
	d, key := newTestServer(t), newKey(t)
	d.acceptPublication(key, "open work")
	id := key.ID().String()
	for _, path := range []string{"/v1/capability_card/" + id, "/v1/event_log/" + id, "/v1/event/1", "/v1/lineage/" + id,
		"/v1/revocation_list", "/v1/search?q=open", "/v1/search_capability?q=open", "/v1/openapi.json"} {
		r := d.send("GET", path, nil, nil)
		etag := r.Header.Get("ETag")
		if r.StatusCode != 200 || etag == "" || r.Header.Get("Cache-Control") != "public, no-cache" {
			t.Errorf("GET %s = %d, %v, want an ETag", path, r.StatusCode, r.Header)
		}
		in := httptest.NewRequest("GET", "http://"+authority+path, nil)
		in.Header.Set("If-None-Match", `"x", W/`+etag)
		if again := d.do(in); again.StatusCode != 304 {
			t.Errorf("GET %s again = %d, want 304", path, again.StatusCode)
		}
	}
	path := "/v1/capability_card/" + id
	before := d.send("GET", path, nil, nil).Header.Get("ETag")
	d.acceptPublication(key, "other work")
	if after := d.send("GET", path, nil, nil).Header.Get("ETag"); after == before {
		t.Error("the ETag of another card is the same")
	}
	r := d.send("POST", "/v1/query_capability?capability=work", nil, nil)
	if r.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("a POST's answer says %v, want no-store", r.Header)
	}
}

func TestAKeyThatWasNeverRegisteredIsRevokedInOneShape(t *testing.T) {
	d, key := newTestServer(t), newKey(t)
	r, err := d.client(nil).RevokeAs(t.Context(), key, "lost", rand.Reader)
	if err != nil || r.ID != key.ID() || r.Visibility != lifecycle.Hidden || r.Status != "revoked" {
		t.Errorf("RevokeAs() = %+v, %v, want it revoked and NONE", r, err)
	}
}

func TestTheListOfRevocationsLeadsOn(t *testing.T) {
	d := newTestServer(t)
	for range 3 {
		key := newKey(t)
		d.acceptPublication(key, "x")
		_, err := d.client(key).RevokeAs(t.Context(), key, "over", rand.Reader)
		must(t, err)
	}
	seen := 0
	for path := "/v1/revocation_list?limit=2"; path != ""; {
		r := d.send("GET", path, nil, nil)
		link := r.Header.Get("Link")
		status, v := reply(t, r)
		if status != 200 {
			t.Fatalf("GET %s = %d %v", path, status, v)
		}
		seen += len(v.([]any))
		path, _, _ = strings.Cut(strings.TrimPrefix(link, "<"), ">")
	}
	if seen != 3 {
		t.Errorf("the list and where it leads have %d, want 3", seen)
	}
	// A malformed request must not become a fault of the store, which would be a 503.
	for _, cursor := range []string{"zzz", store.Cursor{Key: store.Key{Partition: "reg#1", Sort: "card"}}.String()} {
		refused(t, d.send("GET", "/v1/revocation_list?cursor="+cursor, nil, nil), 400, "malformed", "cursor")
	}
}

func TestAPageOfLargeCardsIsCutWhereItsCursorLeadsOn(t *testing.T) {
	d := newTestServer(t)
	const n = 40
	for range n {
		d.acceptPublication(newKey(t), "translate "+strings.Repeat("x", 28<<10))
	}
	seen, pages, cursor := 0, 0, ""
	for {
		path := "/v1/search?" + url.Values{"q": {"translate"}, "limit": {"40"}, "cursor": {cursor}}.Encode()
		body := d.body("GET", path)
		if len(body) > 3<<20/2 {
			t.Errorf("a page has %d bytes, want 1.5 MiB at most", len(body))
		}
		var p registryclient.Page
		must(t, json.Unmarshal([]byte(body), &p))
		seen, pages = seen+len(p.Matches), pages+1
		if cursor = p.Next; cursor == "" {
			break
		}
	}
	if seen != n || pages < 2 {
		t.Errorf("%d pages show %d vacants, want all %d on several", pages, seen, n)
	}
}

func TestNoQueryReachesTheLog(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	h := registryapi.NewSearchHandler(registryapi.SearchConfig{Finder: failing{}, Now: time.Now, Logger: log})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/v1/search?q=private+words", nil))
	if w.Code != 503 || w.Header().Get("Retry-After") == "" || !strings.Contains(out.String(), "verdict=unavailable") || strings.Contains(out.String(), "private") {
		t.Errorf("GET = %d, log %s, want the fault and not the query", w.Code, out.String())
	}
	if strings.Contains(w.Body.String(), "disk") {
		t.Errorf("the answer shows the cause: %s", w.Body)
	}
}

// failing is a search whose storage fails.
type failing struct{}

func (failing) Find(context.Context, search.Request) (search.Page, error) {
	return search.Page{}, problem.Wrap(problem.Unavailable, errors.New("disk on fire"), "")
}

func TestAPanicIsOneFailedRequest(t *testing.T) {
	h := registryapi.NewSearchHandler(registryapi.SearchConfig{Now: time.Now, Logger: slog.New(slog.DiscardHandler)})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/v1/search", nil))
	if w.Code != 500 || !strings.Contains(w.Body.String(), `"code":"internal"`) {
		t.Errorf("a panic = %d %s, want 500", w.Code, w.Body)
	}
}

func TestSearchFiltersByFamilyTagAndPrice(t *testing.T) {
	d, key := newTestServer(t), newKey(t)
	d.acceptPublication(key, "answers questions")
	l := listing.New(key.ID(), 1)
	l.ModelFamily, l.Tags, l.Price = "claude", []string{"legal"}, 5
	must(t, l.Sign(t.Context(), key))
	if got := d.send("PUT", "/v1/listing/"+key.ID().String(), l.Blob(), nil); got.StatusCode != http.StatusOK {
		t.Fatalf("PUT listing = %d, want 200", got.StatusCode)
	}
	for name, tt := range map[string]struct {
		query registryclient.Query
		found int
	}{
		"its family": {registryclient.Query{Family: "claude"}, 1}, "another family": {registryclient.Query{Family: "gpt"}, 0},
		"its tag": {registryclient.Query{Tag: "legal"}, 1}, "another tag": {registryclient.Query{Tag: "medical"}, 0},
		"its price": {registryclient.Query{MaxPrice: ptr(int64(5))}, 1}, "a lower price": {registryclient.Query{MaxPrice: ptr(int64(4))}, 0},
	} {
		if p, err := d.client(nil).Search(t.Context(), tt.query); err != nil || len(p.Matches) != tt.found {
			t.Errorf("Search() by %s = %v, %v, want %d", name, p.Matches, err, tt.found)
		}
	}
}
