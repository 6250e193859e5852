package admin_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

// client is a client of a server's handler.
func (h *testServer) client(t *testing.T) *admin.Client {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Host = admin.SocketHost
		h.handler.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	return &admin.Client{HTTP: srv.Client(), URL: srv.URL}
}

func TestAHostSaysWhoItIsAndProvesIt(t *testing.T) {
	h := newTestServer(t, func(c *admin.Config) { c.Stage, c.Version = "test", "v1.2.3" })
	got, err := admin.GetHost.Call(t.Context(), h.client(t), admin.HostRequest{Challenge: []string{"n0nce-of_43="}})
	must(t, err)
	want := admin.Host{ID: got.ID, KeyStorage: "software", URL: "http://127.0.0.1:8080", Version: "v1.2.3", Stage: "test", Signature: got.Signature}
	if diff := cmp.Diff(want, got); diff != "" || got.ID.IsZero() {
		t.Errorf("host (-want +got):\n%s", diff)
	}
	if !got.HasValidProof("n0nce-of_43=") {
		t.Error("the proof does not verify")
	}
	for what, forged := range map[string]admin.Host{
		"another host": {ID: identity.ID{1}, URL: got.URL, Signature: got.Signature},
		"another URL":  {ID: got.ID, URL: "http://127.0.0.1:9090", Signature: got.Signature},
		"no signature": {ID: got.ID, URL: got.URL},
	} {
		if forged.HasValidProof("n0nce-of_43=") {
			t.Errorf("the proof does for %s", what)
		}
	}
	if got.HasValidProof("another") {
		t.Error("the proof does for another challenge")
	}
	if plain, err := admin.GetHost.Call(t.Context(), h.client(t), admin.HostRequest{}); err != nil || plain.Signature != "" || plain.ID != got.ID {
		t.Errorf("without a challenge = %+v, %v, want no signature", plain, err)
	}
}

// What a host signs for a stranger must differ from everything that our keys
// sign elsewhere.
func TestAProofIsNoOtherSignedThing(t *testing.T) {
	host := admin.Host{ID: identity.ID{1}, URL: "https://x"}
	got := string(host.ProofBytes("abc"))
	if want := "vacancy-host-proof/1\x1f" + host.ID.String() + "\x1fhttps://x\x1fabc"; got != want {
		t.Errorf("ProofBytes() = %q, want %q", got, want)
	}
	entry := logbook.Entry{Kind: "vacancy-host-proof/1", Time: at, Payload: []byte(`{}`)}
	if strings.HasPrefix(string(entry.AppendSignedBytes(nil)), "vacancy-host-proof/1\x1f"+host.ID.String()) {
		t.Error("a logbook entry can begin like a proof")
	}
}

func TestAChallengeIsShortAndPlain(t *testing.T) {
	h := newTestServer(t)
	for _, query := range []string{"?challenge=", "?challenge=" + strings.Repeat("a", 129), "?challenge=a%1fb", "?challenge=a%20b", "?challenge=%C3%A9", "?challenge=a&challenge=b"} {
		wantRefusal(t, h.ask("GET", "/v1/admin/host"+query, ""), problem.Malformed, "challenge")
	}
	if w := h.ask("GET", "/v1/admin/host?challenge="+strings.Repeat("a", 128), ""); w.Code != http.StatusOK {
		t.Errorf("128 letters = %d %s", w.Code, w.Body)
	}
}

func TestAKeyServicesHostSaysSo(t *testing.T) {
	h := newTestServer(t, func(c *admin.Config) { c.HasKeyService = true })
	if got := decode[admin.Host](t, h.ask("GET", "/v1/admin/host", "")); got.KeyStorage != "kms" {
		t.Errorf("key = %q, want kms", got.KeyStorage)
	}
}

func TestTheURLThatAHomeFixesIsTakenAndNoOther(t *testing.T) {
	h := newTestServer(t)
	create(t, h, "demo")
	c := h.client(t)
	got, err := admin.SetHost.Call(t.Context(), c, op.NewBody(admin.HostURL{URL: "http://127.0.0.1:8080/"}))
	if err != nil || got.SignedCards == nil || *got.SignedCards != 0 || got.URL != "http://127.0.0.1:8080" {
		t.Errorf("SetHost(its own) = %+v, %v", got, err)
	}
	if _, err := admin.SetHost.Call(t.Context(), c, op.NewBody(admin.HostURL{URL: "https://x.example"})); !problem.Is(err, problem.Conflict) {
		t.Errorf("SetHost(another) = %v, want a conflict", err)
	}
	for body, field := range map[string]string{
		`{"url":7}`:         "url",
		`{"uri":"http://"}`: "uri",
		`[]`:                "",
		`{"url":""}`:        "host URL",
		`{}`:                "host URL",
	} {
		w := h.ask("PUT", "/v1/admin/host", body)
		if r := decode[httpapi.Refusal](t, w); w.Code < 400 || w.Code >= 500 || r.Field != field {
			t.Errorf("PUT %s = %d %s, want a refusal of field %q", body, w.Code, w.Body, field)
		}
	}
	wantRefusal(t, h.ask("PUT", "/v1/admin/host", `{"url":"http://x"}`, header("Content-Type", "text/plain")), problem.UnsupportedMedia, "")
}

func TestAVacantIsDeletedOnceItIsArchived(t *testing.T) {
	h := newTestServer(t)
	v := create(t, h, "demo")
	c := h.client(t)
	if _, err := admin.DeleteVacant.Call(t.Context(), c, admin.VacantRef{Vacant: "demo"}); !problem.Is(err, problem.Conflict) {
		t.Errorf("Delete() of one that is LOCAL = %v, want a conflict", err)
	}
	wantRefusal(t, h.ask("DELETE", "/v1/admin/vacants/demo", `{}`), problem.Malformed, "body")
	wantRefusal(t, h.ask("DELETE", "/v1/admin/vacants/nobody", ""), problem.NotFound, "")
	wantRefusal(t, h.ask("DELETE", "/v1/admin/vacants", ""), problem.MethodNotAllowed, "")
	for _, change := range []op.Op[admin.VacantRef, admin.Vacant]{admin.SinkVacant, admin.ArchiveVacant} {
		if _, err := change.Call(t.Context(), c, admin.VacantRef{Vacant: "demo"}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the second time it is done already
		got, err := admin.DeleteVacant.Call(t.Context(), c, admin.VacantRef{Vacant: "demo"})
		want := admin.Vacant{
			ID: v.ID, Name: "demo", State: lifecycle.Archived, Card: json.RawMessage("null"),
			CreatedAt: v.CreatedAt, ChangedAt: "2026-05-06T00:00:00+00:00", DeletedAt: "2026-05-06T00:00:00+00:00",
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("Delete() = %v (-want +got):\n%s", err, diff)
		}
	}
	if _, err := c.Export(t.Context(), "demo"); !problem.Is(err, problem.Gone) {
		t.Errorf("Export() of a deleted vacant = %v, want gone", err)
	}
	if page, err := admin.ListVacants.Call(t.Context(), c, admin.ListVacantsRequest{Cursor: "", All: true}); err != nil || len(page.Vacants) != 1 || page.Vacants[0].DeletedAt == "" {
		t.Errorf("List() = %+v, %v, want the tombstone", page, err)
	}
}

// Another host imports what a handler exports, and nothing between them caches
// the answer.
func TestAnExportIsTakenInByAnotherHost(t *testing.T) {
	one, two := newTestServer(t), newTestServer(t)
	v := create(t, one, "demo")
	w := one.ask("POST", "/v1/admin/vacants/demo/export", "")
	if w.Code != http.StatusOK || w.Header().Get("Cache-Control") != "no-store" || w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("export = %d, headers %v", w.Code, w.Header())
	}
	b, err := one.client(t).Export(t.Context(), "demo")
	must(t, err)
	made, err := admin.CreateVacant.Call(context.Background(), two.client(t), op.NewBody(admin.Creation{Name: "moved", Capability: "as before", Import: b}))
	if err != nil || made.ID != v.ID {
		t.Fatalf("Create() from the export = %v, %v, want vacant %s", made.ID, err, v.ID.Short())
	}
	l, err := admin.GetLogbook.Call(t.Context(), two.client(t), admin.LogbookRequest{VacantRef: admin.VacantRef{Vacant: "moved"}, From: 1})
	kinds := []string{}
	for _, e := range l.Entries {
		kinds = append(kinds, e.Kind)
	}
	if diff := cmp.Diff([]string{"GENESIS", "KEY_EXPORTED", "KEY_EXPORTED", "CARD_SIGNED"}, kinds); diff != "" || err != nil {
		t.Errorf("logbook, %v (-want +got):\n%s", err, diff)
	}
	var file struct {
		Seed string `json:"seed_hex"`
	}
	if err := json.Unmarshal(b, &file); err != nil || len(file.Seed) != 64 || strings.Contains(one.log.String(), file.Seed) || strings.Contains(two.log.String(), file.Seed) {
		t.Errorf("seed of %d digits, %v; it is in a log: %t", len(file.Seed), err, strings.Contains(one.log.String()+two.log.String(), file.Seed))
	}
	wantRefusal(t, one.ask("POST", "/v1/admin/vacants/demo/export", `{}`), problem.Malformed, "body")
	wantRefusal(t, one.ask("GET", "/v1/admin/vacants/demo/export", ""), problem.MethodNotAllowed, "")
}

func TestAnExportThatWasCutOffIsNone(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"format":"vacancy-export/1","seed_hex":"00`))
	}))
	defer srv.Close()
	c := admin.Client{HTTP: srv.Client(), URL: srv.URL}
	if b, err := c.Export(t.Context(), "demo"); !problem.Is(err, problem.Unavailable) || b != nil {
		t.Errorf("Export() = %d bytes, %v, want unavailable", len(b), err)
	}
}

// The URL stays the host's own, whatever the body is.
func FuzzSetHost(f *testing.F) {
	f.Add(`{"url":"http://127.0.0.1:8080"}`)
	f.Add(`{"url":"https://x","url":""}`)
	h := newTestServer(f)
	f.Fuzz(func(t *testing.T, body string) {
		h.log.Reset()
		w := h.ask("PUT", "/v1/admin/host", body, header("Content-Type", "application/json"))
		if w.Code >= http.StatusInternalServerError {
			t.Errorf("PUT %q = %d %s", body, w.Code, w.Body)
		}
		if got := decode[admin.Host](t, h.ask("GET", "/v1/admin/host", "")); got.URL != "http://127.0.0.1:8080" {
			t.Errorf("PUT %q made the URL %q", body, got.URL)
		}
	})
}
