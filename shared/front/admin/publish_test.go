package admin_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// client is a client of the handler, in process.
func client(t testing.TB, h *testServer) *admin.Client {
	t.Helper()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Host = admin.SocketHost
		h.handler.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	return &admin.Client{HTTP: web.Client(), URL: web.URL}
}

func pointer[T any](v T) *T { return &v }

func TestAVacantIsPublishedChangedHiddenAndRevoked(t *testing.T) {
	h := newTestServer(t)
	made := create(t, h, "demo")
	c := client(t, h)
	type step struct {
		what string
		do   func() (admin.Published, error)
		want admin.Receipt
		in   lifecycle.State
	}
	hash := func(p admin.Published) identity.Hash {
		parsed, err := card.Parse(p.Vacant.Card)
		must(t, err)
		return parsed.Hash()
	}
	publish := func(p admin.Publication) func() (admin.Published, error) {
		return func() (admin.Published, error) {
			return admin.PublishVacant.Call(t.Context(), c, admin.NewVacantRequest("demo", p))
		}
	}
	listing := &admin.Listing{Tags: []string{"translation"}, Skills: []string{"German"}, Summary: "s", Family: "claude", Owner: "o"}
	for _, s := range []step{
		{"publish", publish(admin.Publication{}), admin.Receipt{Seq: 1, Visibility: lifecycle.Public}, lifecycle.Active},
		{"publish again", publish(admin.Publication{}), admin.Receipt{Seq: 1, Visibility: lifecycle.Public, Unchanged: true}, lifecycle.Active},
		{"another capability", publish(admin.Publication{Capability: pointer("sings")}), admin.Receipt{Seq: 2, Visibility: lifecycle.Public}, lifecycle.Active},
		{"restricted, with a listing", publish(admin.Publication{Visibility: pointer(lifecycle.Restricted), Listing: listing}),
			admin.Receipt{Seq: 3, Visibility: lifecycle.Restricted}, lifecycle.Active},
		{"unpublish", func() (admin.Published, error) {
			return admin.UnpublishVacant.Call(t.Context(), c, admin.VacantRef{Vacant: made.ID.String()[:8]})
		},
			admin.Receipt{Seq: 4, Visibility: lifecycle.Hidden}, lifecycle.Active},
		{"revoke", func() (admin.Published, error) {
			return admin.RevokeVacant.Call(t.Context(), c, admin.NewVacantRequest("demo", admin.Revocation{Reason: "被盗"}))
		},
			admin.Receipt{Seq: 5, Visibility: lifecycle.Hidden}, lifecycle.Sunk},
		{"revoke again", func() (admin.Published, error) {
			return admin.RevokeVacant.Call(t.Context(), c, admin.NewVacantRequest("demo", admin.Revocation{Reason: "again"}))
		},
			admin.Receipt{Seq: 5, Visibility: lifecycle.Hidden, Unchanged: true}, lifecycle.Sunk},
	} {
		got, err := s.do()
		if err != nil {
			t.Fatalf("%s: %v", s.what, err)
		}
		s.want.CardHash = hash(got)
		if diff := cmp.Diff(s.want, got.Receipt); diff != "" || got.Vacant.State != s.in || got.Vacant.ID != made.ID {
			t.Errorf("%s: %s in %s, want %s (-want +got):\n%s", s.what, got.Vacant.Name, got.Vacant.State, s.in, diff)
		}
	}
	_, err := admin.PublishVacant.Call(t.Context(), c, admin.NewVacantRequest("demo", admin.Publication{}))
	if !problem.Is(err, problem.Conflict) {
		t.Errorf("Publish() of one that is closed = %v, want conflict", err)
	}
	_, err = admin.RevokeVacant.Call(t.Context(), c, admin.NewVacantRequest("demo", admin.Revocation{Reason: " "}))
	if !problem.Is(err, problem.Malformed) {
		t.Errorf("Revoke() without a reason = %v, want malformed", err)
	}
}

func TestTheOperatorListsAnyRegistration(t *testing.T) {
	h := newTestServer(t)
	made, c := create(t, h, "demo"), client(t, h)
	l := admin.Listing{Tags: []string{"curated"}, Summary: "of the host"}
	set := func(l admin.Listing) *httptest.ResponseRecorder {
		body, err := json.Marshal(l)
		must(t, err)
		return h.ask("PUT", "/v1/admin/listings/"+made.ID.String(), string(body))
	}
	wantRefusal(t, set(l), problem.NotFound, "")
	if _, err := admin.PublishVacant.Call(t.Context(), c, admin.NewVacantRequest("demo", admin.Publication{Listing: &admin.Listing{Tags: []string{"own"}}})); err != nil {
		t.Fatal(err)
	}
	var got admin.Listed
	answer := set(l)
	err := json.Unmarshal(answer.Body.Bytes(), &got)
	if diff := cmp.Diff(admin.Listed{ID: made.ID, Source: "operator", Listing: l}, got); err != nil || diff != "" || answer.Code != http.StatusOK {
		t.Errorf("PUT of a listing = %d, %v (-want +got):\n%s", answer.Code, err, diff)
	}
	l.Price = 1
	if answer := set(l); answer.Code != http.StatusBadRequest || !strings.Contains(answer.Body.String(), "listing.price") {
		t.Errorf("PUT of a price = %d %s, want the price of the vacant", answer.Code, answer.Body)
	}
	wantRefusal(t, h.ask("PUT", "/v1/admin/listings/demo", "{}"), problem.Malformed, "vacant")
	wantRefusal(t, h.ask("PUT", "/v1/admin/listings/"+made.ID.String(), "[]"), problem.NotJSON, "")
	wantRefusal(t, h.ask("PUT", "/v1/admin/listings/"+made.ID.String(), "{}{}"), problem.NotJSON, "")
}

func TestPublishRequiresStrictJSON(t *testing.T) {
	h := newTestServer(t)
	create(t, h, "demo")
	for name, c := range map[string]struct {
		command, body string
		kind          problem.Kind
		field         string
	}{
		"an array":                 {"publish", `[]`, problem.NotJSON, ""},
		"an unknown member":        {"publish", `{"state":"ACTIVE"}`, problem.Malformed, "state"},
		"a capability of nothing":  {"publish", `{"capability":""}`, problem.Malformed, "capability"},
		"a capability that is one": {"publish", `{"capability":1}`, problem.Malformed, "capability"},
		"a small visibility":       {"publish", `{"visibility":"public"}`, problem.Malformed, "visibility"},
		"a listing of words":       {"publish", `{"listing":"a"}`, problem.Malformed, "listing"},
		"a tag for tags":           {"publish", `{"listing":{"tags":"a"}}`, problem.Malformed, "listing.tags"},
		"a number for a tag":       {"publish", `{"listing":{"tags":[1]}}`, problem.Malformed, "listing.tags[0]"},
		"half a micro-dollar":      {"publish", `{"listing":{"price":0.5}}`, problem.Malformed, "listing.price"},
		"a listing of more":        {"publish", `{"listing":{"rank":1}}`, problem.Malformed, "listing.rank"},
		"a member twice":           {"publish", `{"capability":"a","capability":"b"}`, problem.Malformed, "capability"},
		"a reason for a publish":   {"publish", `{"reason":"x"}`, problem.Malformed, "reason"},
		"a body for an unpublish":  {"unpublish", `{}`, problem.Malformed, "body"},
		"no reason":                {"revoke", `{}`, problem.Malformed, "reason"},
		"a reason that is none":    {"revoke", `{"reason":null}`, problem.Malformed, "reason"},
		"more than a reason":       {"revoke", `{"reason":"x","by":"me"}`, problem.Malformed, "by"},
	} {
		t.Run(name, func(t *testing.T) {
			wantRefusal(t, h.ask("POST", "/v1/admin/vacants/demo/"+c.command, c.body), c.kind, c.field)
		})
	}
	wantRefusal(t, h.ask("POST", "/v1/admin/vacants/nobody/publish", "{}"), problem.NotFound, "")
	wantRefusal(t, h.ask("POST", "/v1/admin/vacants/demo/unpublish", ""), problem.Conflict, "")
	wantRefusal(t, h.ask("GET", "/v1/admin/vacants/demo/publish", ""), problem.MethodNotAllowed, "")
	wantRefusal(t, h.ask("POST", "/v1/admin/log/seal", ""), problem.NotFound, "")
	if l := decode[admin.Logbook](t, h.ask("GET", "/v1/admin/vacants/demo/logbook", "")); len(l.Entries) != 1 {
		t.Errorf("what was refused left %d entries, want the first alone", len(l.Entries))
	}
}

// Every body is accepted or refused with a kind.
func FuzzPublishOptions(f *testing.F) {
	f.Add(`{"capability":"a","visibility":"PUBLIC","listing":{"tags":["a"],"skills":[],"summary":"","family":"","owner":"","price":0}}`)
	f.Add(`{"listing":{"price":1e3}}`)
	f.Fuzz(func(t *testing.T, body string) {
		h := newTestServer(t)
		create(t, h, "demo")
		if body == "" {
			return // an empty body has no media type
		}
		if w := h.ask("POST", "/v1/admin/vacants/demo/publish", body); w.Code >= 500 {
			t.Errorf("publish(%q) = %d %s", body, w.Code, w.Body)
		}
	})
}

func TestAChangeOfAVenuesAreasIsStored(t *testing.T) {
	h := newTestServer(t)
	create(t, h, "demo")
	c := client(t, h)
	for _, area := range []string{"bali", "java", "ubud"} {
		p, err := admin.PublishVacant.Call(t.Context(), c, admin.NewVacantRequest("demo", admin.Publication{Venue: &admin.VenueChange{Areas: &[]string{area}}}))
		if err != nil || p.Receipt.Unchanged {
			t.Errorf("Publish() with %s = %+v, %v; want a change", area, p.Receipt, err)
		}
	}
}
