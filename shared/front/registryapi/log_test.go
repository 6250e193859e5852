package registryapi_test

import (
	"crypto/rand"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/front/registryapi"
	"github.com/vacancy-host/vacancy/shared/host/client/witness"
	"github.com/vacancy-host/vacancy/shared/host/registry/translog"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func (d *api) seal() translog.SealResult {
	d.t.Helper()
	s, err := d.log.Seal(d.t.Context())
	must(d.t, err)
	return s
}

// This project's root and signature are additional members.
func TestEpochsHaveTheReferencesShape(t *testing.T) {
	d := newTestServer(t)
	refused(t, d.send("GET", "/v1/epoch_root/latest", nil, nil), 404, "not_found", "no sealed epoch yet")
	d.acceptPublication(newKey(t), "one")
	d.acceptPublication(newKey(t), "two")
	d.seal()
	d.acceptPublication(newKey(t), "three")
	d.seal()
	var tree translog.EpochTree
	for seq := range 2 {
		leaf, _, err := d.log.Leaves(t.Context(), uint64(seq+1), 1)
		must(t, err)
		tree.Add(leaf[0])
	}
	_, v := reply(t, d.send("GET", "/v1/epoch/1", nil, nil))
	got := v.(map[string]any)
	id, err := identity.ParseID(got["registry_pubkey_hex"].(string))
	must(t, err)
	sig, err := hex.DecodeString(got["registry_signature_hex"].(string))
	if err != nil || !identity.Verify(id, translog.EpochBytes(tree.Root()), sig) {
		t.Errorf("the signature of the epoch does not verify")
	}
	at, err := d.log.LoadCheckpoint(t.Context(), 2)
	must(t, err)
	want := map[string]any{
		"epoch_id": 1.0, "first_seq": 1.0, "last_seq": 2.0, "tree_size": 2.0, "root_hash_hex": tree.Root().String(),
		"sealed_at": got["sealed_at"], "registry_signature_hex": hex.EncodeToString(sig), "registry_pubkey_hex": id.String(),
		"checkpoint_size": 2.0, "checkpoint_root_hex": identity.Hash(at.Root).String(),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("GET /v1/epoch/1 (-want +got):\n%s", diff)
	}
	if _, v := reply(t, d.send("GET", "/v1/epoch_root/latest", nil, nil)); v.(map[string]any)["epoch_id"] != 2.0 || v.(map[string]any)["first_seq"] != 3.0 {
		t.Errorf("GET /v1/epoch_root/latest = %v, want epoch 2 from event 3", v)
	}
	for _, n := range []string{"0", "3", "99999"} {
		refused(t, d.send("GET", "/v1/epoch/"+n, nil, nil), 404, "not_found", "no epoch "+n)
	}
	for _, n := range []string{"x", "-1", "1.5", "99999999999999999999"} {
		refused(t, d.send("GET", "/v1/epoch/"+n, nil, nil), 422, "schema", "a number")
	}
}

func TestLogRoutesRefuseInvalidRequests(t *testing.T) {
	d := newTestServer(t)
	refused(t, d.send("GET", "/v1/checkpoint", nil, nil), 404, "not_found", "the log is not sealed yet")
	d.acceptPublication(newKey(t), "one")
	d.seal()
	for target, want := range map[string]struct {
		status int
		code   string
		detail string
	}{
		"/v1/checkpoint?size=x":                {422, "schema", "size"},
		"/v1/checkpoint?size=-1":               {422, "schema", "size"},
		"/v1/checkpoint?size=7":                {404, "not_found", "no checkpoint of 7 events"},
		"/v1/proof/inclusion":                  {422, "schema", "seq"},
		"/v1/proof/inclusion?seq=0":            {422, "schema", "seq"},
		"/v1/proof/inclusion?seq=2":            {400, "malformed", "at most 1"},
		"/v1/proof/inclusion?seq=1&size=2":     {400, "malformed", "at most 1"},
		"/v1/proof/inclusion?seq=1&size=0":     {422, "schema", "size"},
		"/v1/proof/consistency":                {422, "schema", "from"},
		"/v1/proof/consistency?from=2":         {400, "malformed", "at most 1"},
		"/v1/proof/consistency?from=0&to=2":    {400, "malformed", "at most 1"},
		"/v1/proof/consistency?from=-1":        {422, "schema", "from"},
		"/v1/log/leaves?from=0":                {422, "schema", "from"},
		"/v1/log/leaves?limit=0":               {422, "schema", "limit"},
		"/v1/log/leaves?limit=1001":            {422, "schema", "limit"},
		"/v1/log/leaves?from=9007199254740992": {422, "schema", "from"},
		"/v1/log":                              {404, "not_found", "no such path"},
		"/v1/admin/log/seal":                   {404, "not_found", "no such path"},
	} {
		t.Run(target, func(t *testing.T) {
			refused(t, d.send("GET", target, nil, nil), want.status, want.code, want.detail)
		})
	}
	refused(t, d.send("POST", "/v1/checkpoint", "{}", nil), 405, "method_not_allowed", "use GET")
	refused(t, d.send("GET", "/v1/witness", nil, nil), 405, "method_not_allowed", "use POST")
	for body, status := range map[string]int{
		"": 422, "[]": 422, "{}": 422, `{"note":1}`: 422, `{"note":"x","more":1}`: 422, `{"note":"x","note":"x"}`: 422,
		`{"note":"x"}`: 400, `{"note":"` + strings.Repeat("x", translog.MaxNoteBytes+1) + `"}`: 400,
		`{"note":"` + strings.Repeat("x", 256<<10) + `"}`: 413,
	} {
		if r := d.send("POST", "/v1/witness", body, nil); r.StatusCode != status {
			b, _ := io.ReadAll(r.Body)
			t.Errorf("POST /v1/witness %.40q = %d %s, want %d", body, r.StatusCode, b, status)
		}
	}
	r := httptest.NewRequest("POST", "http://"+authority+"/v1/witness", strings.NewReader(`{"note":"x"}`))
	r.Header.Set("Content-Type", "text/plain")
	refused(t, d.do(r), 415, "unsupported_media_type", "application/json")
}

func TestSealedPagesAreCacheableForEver(t *testing.T) {
	d := newTestServer(t)
	for range 3 {
		d.acceptPublication(newKey(t), "one")
	}
	d.seal()
	const forGood, asked = "public, max-age=31536000, s-maxage=86400, immutable", "public, no-cache"
	for target, want := range map[string]string{
		"/v1/checkpoint":                    asked,
		"/v1/checkpoint?size=3":             asked, // cosignatures come later
		"/v1/proof/inclusion?seq=1":         asked,
		"/v1/proof/inclusion?seq=1&size=3":  forGood,
		"/v1/proof/consistency?from=1":      asked,
		"/v1/proof/consistency?from=1&to=3": forGood,
		"/v1/log/leaves":                    asked,
		"/v1/log/leaves?from=2&limit=2":     forGood,
		"/v1/log/leaves?from=2&limit=3":     asked,
		"/v1/epoch/1":                       forGood,
		"/v1/epoch_root/latest":             asked,
	} {
		r := d.send("GET", target, nil, nil)
		if got := r.Header.Get("Cache-Control"); r.StatusCode != 200 || got != want {
			t.Errorf("GET %s = %d, Cache-Control %q, want %q", target, r.StatusCode, got, want)
		}
		etag := r.Header.Get("ETag")
		if want == forGood {
			continue
		}
		again := httptest.NewRequest("GET", "http://"+authority+target, nil)
		again.Header.Set("If-None-Match", etag)
		if r := d.do(again); etag == "" || r.StatusCode != http.StatusNotModified {
			t.Errorf("GET %s with its ETag %s = %d, want 304", target, etag, r.StatusCode)
		}
	}
	r := d.send("GET", "/v1/checkpoint", nil, nil)
	if ct := r.Header.Get("Content-Type"); ct != "text/plain; charset=utf-8" {
		t.Errorf("GET /v1/checkpoint has Content-Type %q", ct)
	}
}

func TestAHandlerWithoutALogHasNoneOfItsRoutes(t *testing.T) {
	d := newTestServer(t)
	bare := registryapi.NewRegistryHandler(registryapi.Config{Registry: d.registry, Now: d.clock, Logger: slog.New(slog.DiscardHandler)})
	for _, path := range []string{"/v1/checkpoint", "/v1/epoch/1", "/v1/witness"} {
		w := httptest.NewRecorder()
		bare.ServeHTTP(w, httptest.NewRequest("GET", "http://"+authority+path, nil))
		refused(t, w.Result(), 404, "not_found", "no such path")
	}
}

// The log contains only the hash of a hidden vacant's event, and a revoked key may not cosign it.
func TestTheLogIsVerifiedOverHTTP(t *testing.T) {
	d, revoked, good := newTestServer(t), newKey(t), newKey(t)
	d.acceptPublication(revoked, "translates")
	d.acceptPublication(newKey(t), "hides", hidden)
	d.acceptPublication(good, "watches")
	_, err := d.client(nil).RevokeAs(t.Context(), revoked, "stolen", rand.Reader)
	must(t, err)
	d.seal()
	f := witness.Follower{Log: witness.HTTP{Client: d.client(nil)}}
	r, err := f.Verify(t.Context(), nil, false)
	if err != nil || r.Size != 4 || r.VerifiedCount != 3 || r.HiddenCount != 1 {
		t.Fatalf("Verify() = %+v, %v, want 4 events, one of them hidden", r, err)
	}
	if _, err := f.Cosign(t.Context(), r, revoked, d.clock()); !problem.Is(err, problem.Forbidden) {
		t.Errorf("Cosign() by a revoked key = %v, want forbidden", err)
	}
	if n, err := f.Cosign(t.Context(), r, good, d.clock()); err != nil || n != 1 {
		t.Errorf("Cosign() = %d, %v, want 1", n, err)
	}
}
