package registryapi_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/front/registryapi"
	"github.com/vacancy-host/vacancy/shared/vacant/listing"
	"github.com/vacancy-host/vacancy/shared/vacant/readproof"
)

// The recipient of a signed request can forward it with the Host for which it was signed. A host
// that trusted the sender's Host header would accept it.
func TestAProofMadeForAnotherHostIsNotSentOn(t *testing.T) {
	d, key := newTestServer(t), newKey(t)
	d.acceptPublication(key, "secret", hidden)
	for _, public := range []string{"", "http://127.0.0.1:8080", "https://public.example"} {
		open := registryapi.NewRegistryHandler(registryapi.Config{
			Registry: d.registry, Now: d.clock, Logger: slog.New(slog.DiscardHandler),
			URL: func(context.Context) (string, error) { return public, nil },
		})
		for host, want := range map[string]int{
			"evil.example": 401, "evil.example:8080": 401, "127.0.0.1.evil.example": 401, "localhost.evil.example": 401, "10.0.0.1": 401,
			"[::1].evil.example": 401, "127.0.0.1:8080": 200, "LOCALHOST:8080": 200, "[::1]:8080": 200, "localhost": 200,
		} {
			r := httptest.NewRequest("GET", "/v1/capability_card/"+key.ID().String(), nil)
			r.Host = host
			r.Header.Set(readproof.Header, d.proof(key, host, r))
			w := httptest.NewRecorder()
			open.ServeHTTP(w, r)
			if w.Code != want {
				t.Errorf("URL %q: GET with a proof for its Host %s = %d, want %d", public, host, w.Code, want)
			}
		}
	}
}

func TestARevokedKeyProvesNoReading(t *testing.T) {
	d, key := newTestServer(t), newKey(t)
	d.acceptPublication(key, "secret", hidden)
	path := "/v1/capability_card/" + key.ID().String()
	if got := d.send("GET", path, nil, key); got.StatusCode != http.StatusOK {
		t.Fatalf("GET before = %d, want 200", got.StatusCode)
	}
	_, err := d.client(key).RevokeAs(t.Context(), key, "stolen", rand.Reader)
	must(t, err)
	for _, path := range []string{path, "/v1/event_log/" + key.ID().String(), "/v1/event/1", "/v1/lineage/" + key.ID().String()} {
		refused(t, d.send("GET", path, nil, key), 403, "revoked", "was revoked")
	}
	refused(t, d.send("GET", path, nil, nil), 403, "forbidden", "caller required")
}

// A listing is public together with its signature, so anyone can post it again. That must not
// reveal a card that was withdrawn.
func TestAListingSentAgainShowsNoCardThatHides(t *testing.T) {
	d, key := newTestServer(t), newKey(t)
	d.acceptPublication(key, "secret work")
	l := listing.New(key.ID(), 1)
	l.Summary = "works in secret"
	must(t, l.Sign(t.Context(), key))
	path := "/v1/listing/" + key.ID().String()
	refused(t, d.send("PUT", "/v1/listing/"+newKey(t).ID().String(), l.Blob(), nil), 422, "schema", "the id of the path")
	if got := d.send("PUT", path, l.Blob(), nil); got.StatusCode != http.StatusOK {
		t.Fatalf("PUT listing = %d, want 200", got.StatusCode)
	}
	d.acceptPublication(key, "secret work", hidden)
	r := d.send("PUT", path, l.Blob(), nil)
	body, err := io.ReadAll(r.Body)
	must(t, err)
	for _, secret := range []string{hex.EncodeToString([]byte("secret work")), "secret work", `"declared_capabilities_json":"[`} {
		if strings.Contains(string(body), secret) {
			t.Errorf("PUT of a recorded listing = %d %s, which shows %q of who hides", r.StatusCode, body, secret)
		}
	}
}

func TestAPublishSentAgainAfterARevocationCallsNothingActive(t *testing.T) {
	d, key := newTestServer(t), newKey(t)
	h := d.halo(key, "work")
	if got := d.send("POST", "/v1/halo", h, nil); got.StatusCode != http.StatusOK {
		t.Fatalf("POST = %d, want 200", got.StatusCode)
	}
	_, err := d.client(nil).RevokeAs(t.Context(), key, "stolen", rand.Reader)
	must(t, err)
	status, body := reply(t, d.send("POST", "/v1/halo", h, nil))
	if status != 200 || body.(map[string]any)["status"] == "active" || body.(map[string]any)["replayed"] != true {
		t.Errorf("POST of a recorded publish = %d %v, want the receipt of then, which says nothing of now", status, body)
	}
	if status, body := reply(t, d.send("GET", "/v1/capability_card/"+key.ID().String(), nil, nil)); status != 200 || body.(map[string]any)["status"] != "revoked" {
		t.Errorf("GET = %d %v, want it revoked", status, body)
	}
}
