package registry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/registry/registrytest"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/event"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/listing"
)

// kept returns a store with a registration that has every member, its revoked twin, and a manifest.
func kept(t testing.TB) (inner *memory.Store, id identity.ID) {
	t.Helper()
	inner, k := memory.New(), key(1)
	r := open(inner, newClock())
	l := signedListing(t, k, 7, func(l *listing.Listing) { l.Summary = "a & b <c> \u2028" })
	mustPublish(t, r, k, draft{Text: "translate & <b>\u2028ä\"\\</b>", Key: "k\x1f\x00ü", BeforeSign: func(p *registry.Publication) {
		p.DeclaredCapabilities, p.Listing, p.Family = []string{"<x>"}, &l, text("f&f")
	}})
	must(t, registrytest.AddManifest(t.Context(), r, manifest(t, key(2), k, true)))
	must(t, errorOf(registrytest.Revoke(t.Context(), r, revocationPut(t, key(3), 1, "<gone>", event.RevokePayload))))
	return inner, k.ID()
}

func doc(t testing.TB, inner store.Store, k store.Key) store.Doc {
	t.Helper()
	d, err := inner.Doc(context.Background(), k)
	if err != nil || d.Version == 0 {
		t.Fatalf("Doc(%s) = version %d, %v", k, d.Version, err)
	}
	return d
}

func TestSignedBytesAreStoredUnchanged(t *testing.T) {
	inner, id := kept(t)
	g, err := registry.RegistrationDocs.Parse(doc(t, inner, registry.RegistrationKey(id)))
	must(t, err)
	c, err := card.Parse(g.Card)
	if err != nil || !c.Verify() || c.Hash() != g.CardHash || !bytes.Equal(c.Blob(), g.Card) {
		t.Errorf("the card is %s, %v", g.Card, err)
	}
	if !g.Listing.Verify() || g.Listing.Summary != "a & b <c> \u2028" {
		t.Errorf("the listing is %+v", g.Listing)
	}
	if diff := cmp.Diff([]any{[]string{"<x>"}, "f&f"}, []any{g.DeclaredCapabilities, g.Family}); diff != "" {
		t.Errorf("claims (-want +got):\n%s", diff)
	}
	m, err := registry.ManifestDocs.Parse(doc(t, inner, registry.ManifestKey(id)))
	if err != nil || m.Manifest.Verify() != nil || m.Graduated {
		t.Errorf("Parse() = %+v, %v", m, err)
	}
	gone, err := registry.RevokedDocs.Parse(doc(t, inner, registry.RevokedKey(key(3).ID())))
	if err != nil || gone.ID != key(3).ID() || gone.Reason != "<gone>" {
		t.Errorf("Parse() = %+v, %v", gone, err)
	}
	wantWhole(t, inner)
}

func TestADamagedDocumentIsRefusedWhole(t *testing.T) {
	inner, id := kept(t)
	other := key(9).ID()
	registration := doc(t, inner, registry.RegistrationKey(id))
	edit := func(members map[string]any) func(*store.Doc) {
		return func(d *store.Doc) {
			var all map[string]any
			must(t, json.Unmarshal(d.Data, &all))
			for name, value := range members {
				if all[name] = value; value == nil {
					delete(all, name)
				}
			}
			var err error
			d.Data, err = json.Marshal(all)
			must(t, err)
		}
	}
	for name, change := range map[string]func(*store.Doc){
		"no JSON":                   func(d *store.Doc) { d.Data = d.Data[1:] },
		"a later format":            edit(map[string]any{"format": 2}),
		"no format":                 edit(map[string]any{"format": nil}),
		"no card":                   edit(map[string]any{"card": nil}),
		"no state":                  edit(map[string]any{"state": nil}),
		"a state that is none":      edit(map[string]any{"state": "AWAKE"}),
		"a visibility that is none": edit(map[string]any{"visibility": "LISTED"}),
		"no parent":                 edit(map[string]any{"parent": nil}),
		"closed without proof":      edit(map[string]any{"proven": nil}),
		"no count":                  edit(map[string]any{"actor_seq": 0}),
		"last before first":         edit(map[string]any{"joined": 3, "last": 2}),
		"a listing that is none":    edit(map[string]any{"listing": map[string]any{}}),
		"another's listing": func(d *store.Doc) {
			d.Data = bytes.Replace(d.Data, []byte(`"vacant_id":"`+id.String()+`","version"`), []byte(`"vacant_id":"`+other.String()+`","version"`), 1)
		},
		"a reputation that is none": edit(map[string]any{"reputation": map[string]any{"factual": map[string]any{"alpha": -1}}}),
	} {
		d := registration
		change(&d)
		if _, err := registry.RegistrationDocs.Parse(d); !problem.Is(err, problem.Damaged) {
			t.Errorf("%s: Parse() = %v, want damaged", name, err)
		}
	}
	registration.Key = registry.RegistrationKey(other)
	if _, err := registry.RegistrationDocs.Parse(registration); !problem.Is(err, problem.Damaged) {
		t.Errorf("another's: Parse() = %v, want damaged", err)
	}
	m := doc(t, inner, registry.ManifestKey(id))
	if _, err := registry.ManifestDocs.Parse(store.Doc{Key: registry.ManifestKey(other), Data: m.Data}); !problem.Is(err, problem.Damaged) {
		t.Errorf("another's: Parse() = %v, want damaged", err)
	}
	for name, data := range map[string]string{
		"nothing": "", "a later format": strings.Replace(string(m.Data), `"format":1`, `"format":2`, 1),
		"an open one": strings.Replace(string(m.Data), `"closed_by_default":true`, `"closed_by_default":false`, 1),
	} {
		if _, err := registry.ManifestDocs.Parse(store.Doc{Key: m.Key, Data: []byte(data)}); !problem.Is(err, problem.Damaged) {
			t.Errorf("%s: Parse() = %v, want damaged", name, err)
		}
	}
	closed, opened := manifest(t, key(2), key(1), true), manifest(t, key(4), key(1), false)
	another, forged, opener := manifest(t, key(4), key(3), false), opened, manifest(t, key(5), key(1), false)
	forged.BirthPath = "D2"
	for name, m := range map[string]registry.ManifestDocument{
		"a closed one replaced": {Manifest: closed, PreviousManifest: &closed},
		"another's replaced":    {Manifest: closed, PreviousManifest: &another},
		"a forged one replaced": {Manifest: closed, PreviousManifest: &forged},
		"replaced by an open":   {Manifest: opener, PreviousManifest: &opened},
		"graduated and closed":  {Manifest: closed, Graduated: true, PreviousManifest: &closed},
		"before without it":     {Manifest: opener, Graduated: true, ManifestBeforePrevious: &opened},
		"before an open one":    {Manifest: closed, PreviousManifest: &opened, ManifestBeforePrevious: &opener},
		"before, but closed":    {Manifest: opener, Graduated: true, PreviousManifest: &closed, ManifestBeforePrevious: &closed},
		"a forged one before":   {Manifest: opener, Graduated: true, PreviousManifest: &closed, ManifestBeforePrevious: &forged},
	} {
		data, err := registry.ManifestDocs.Encode(m)
		must(t, err)
		if _, err := registry.ManifestDocs.Parse(store.Doc{Key: registry.ManifestKey(id), Data: data}); !problem.Is(err, problem.Damaged) {
			t.Errorf("%s: Parse() = %v, want damaged", name, err)
		}
	}
	whole := registry.ManifestDocument{Manifest: opener, Graduated: true, PreviousManifest: &closed, ManifestBeforePrevious: &opened}
	data, err := registry.ManifestDocs.Encode(whole)
	must(t, err)
	back, err := registry.ManifestDocs.Parse(store.Doc{Key: registry.ManifestKey(id), Data: data})
	if diff := cmp.Diff(whole, back, cmpopts.EquateEmpty()); diff != "" || err != nil {
		t.Errorf("Parse(Encode()) = %v (-want +got):\n%s", err, diff)
	}
	if diff := cmp.Diff([]identity.ID{key(5).ID(), key(2).ID(), key(4).ID()}, back.Parents()); diff != "" || back.IsClosed() || back.BirthManifest() != back.PreviousManifest {
		t.Errorf("of a child that has graduated, closed %t, Parents() (-want +got):\n%s", back.IsClosed(), diff)
	}
	for name, d := range map[string]store.Doc{
		"of nobody":   {Key: store.Key{Partition: "revoked", Sort: "x"}, Data: []byte(`{"format":1}`)},
		"no JSON":     {Key: registry.RevokedKey(id), Data: []byte("x")},
		"of a future": {Key: registry.RevokedKey(id), Data: []byte(`{"format":2}`)},
	} {
		if _, err := registry.RevokedDocs.Parse(d); !problem.Is(err, problem.Damaged) {
			t.Errorf("%s: Parse() = %v, want damaged", name, err)
		}
	}
}

func TestADamagedRowIsRefused(t *testing.T) {
	inner, id := kept(t)
	own, err := inner.Rows(t.Context(), registry.ActorStream(id), 1, 1, store.Ascending)
	must(t, err)
	all, err := inner.Rows(t.Context(), registry.EventStream(), 1, 1, store.Ascending)
	must(t, err)
	for cut := range own[0].Data {
		row := store.Row{Position: 1, Data: own[0].Data[:cut]}
		if l, err := registry.DecodeActorRow(id, row); err == nil {
			t.Errorf("DecodeActorRow() of %d bytes = %+v, want damaged", cut, l)
		}
	}
	for cut := range all[0].Data {
		if _, err := registry.DecodeEventRow(store.Row{Position: 1, Data: all[0].Data[:cut]}); !problem.Is(err, problem.Damaged) {
			t.Errorf("DecodeEventRow() of %d bytes = %v, want damaged", cut, err)
		}
	}
	none := bytes.Clone(all[0].Data)
	clear(none[len(none)-8:])
	if _, err := registry.DecodeEventRow(store.Row{Position: 1, Data: none}); !problem.Is(err, problem.Damaged) {
		t.Errorf("DecodeEventRow() of count 0 = %v, want damaged", err)
	}
}

// The chain of all events and the actors' chains contain the same events. An event that differs
// between them is not returned.
func TestAnEventThatItsActorTellsOtherwiseIsDamage(t *testing.T) {
	inner, other := memory.New(), memory.New()
	r, q := open(inner, newClock()), open(other, newClock())
	mustPublish(t, r, key(1), draft{})
	mustPublish(t, q, key(1), draft{Key: "another"})
	rows, err := other.Rows(t.Context(), registry.EventStream(), 1, 1, store.Ascending)
	must(t, err)
	mixed := memory.New()
	own, err := inner.Rows(t.Context(), registry.ActorStream(key(1).ID()), 1, 1, store.Ascending)
	must(t, err)
	err = mixed.Commit(t.Context(),
		store.Append{Stream: registry.EventStream(), Position: 1, WriteID: store.WriteID{1}, Data: rows[0].Data},
		store.Append{Stream: registry.ActorStream(key(1).ID()), Position: 1, WriteID: store.WriteID{1}, Data: own[0].Data})
	must(t, err)
	itself := key(1).ID() // it is not registered, so only itself sees its events
	if _, err := open(mixed, newClock()).Event(t.Context(), 1, &itself); !problem.Is(err, problem.Damaged) {
		t.Errorf("Event() = %v, want damaged", err)
	}
	must(t, mixed.Commit(t.Context(), store.Append{Stream: registry.EventStream(), Position: 2, WriteID: store.WriteID{2}, Data: []byte("x")}))
	m := open(mixed, newClock())
	if _, err := m.Event(t.Context(), 2, nil); !problem.Is(err, problem.Damaged) {
		t.Errorf("Event() of a row that is none = %v, want damaged", err)
	}
	if _, err := m.Publish(t.Context(), publication(t, key(5), draft{})); !problem.Is(err, problem.Damaged) {
		t.Errorf("Publish() after a row that is none = %v, want damaged", err)
	}
}

func TestAProberTakesEveryAnswerBelow500(t *testing.T) {
	status := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.ContentLength > 0 {
			t.Errorf("the probe is a %s with %d bytes, want an empty GET", r.Method, r.ContentLength)
		}
		w.WriteHeader(status)
		_, _ = w.Write(make([]byte, 100<<10))
	}))
	defer server.Close()
	probe := registry.NewProbe(outbound.New(outbound.Options{AllowLoopback: true}))
	for _, tt := range []struct {
		status int
		there  bool
	}{{200, true}, {302, true}, {404, true}, {405, true}, {421, true}} {
		status = tt.status
		if err := probe(t.Context(), server.URL); (err == nil) != tt.there {
			t.Errorf("Probe() of status %d = %v, want there: %t", tt.status, err, tt.there)
		}
	}
	// A host that dials only public addresses does not dial this endpoint.
	inside := registry.NewProbe(outbound.New(outbound.Options{}))
	if err := inside(t.Context(), server.URL); !problem.Is(err, problem.Forbidden) {
		t.Errorf("Probe() of loopback = %v, want forbidden", err)
	}
	server.Close()
	if err := probe(t.Context(), server.URL); !problem.Is(err, problem.Unavailable) {
		t.Errorf("Probe() of nobody = %v, want unavailable", err)
	}
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }))
	defer broken.Close()
	if err := probe(t.Context(), broken.URL); !problem.Is(err, problem.Unavailable) {
		t.Errorf("Probe() of status 502 = %v, want unavailable", err)
	}
}

func FuzzRowsThatAreReadAreWrittenAgain(f *testing.F) {
	inner, id := kept(f)
	for _, s := range []store.Stream{registry.ActorStream(id), registry.ActorStream(key(3).ID()), registry.EventStream()} {
		rows, err := inner.Rows(context.Background(), s, 1, 1, store.Ascending)
		if err != nil || len(rows) != 1 {
			f.Fatal(err)
		}
		f.Add(rows[0].Data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		row := store.Row{Position: 1, Data: data}
		if l, err := registry.DecodeActorRow(id, row); err == nil {
			if l.Check() != nil || l.Hash != l.Event.Hash(l.Prev) || l.ActorSeq != 1 || l.Actor != id {
				t.Errorf("DecodeActorRow() = %+v", l)
			}
		} else if !problem.Is(err, problem.Damaged) {
			t.Errorf("DecodeActorRow() = %v, want damaged", err)
		}
		if _, err := registry.DecodeEventRow(row); err != nil && !problem.Is(err, problem.Damaged) {
			t.Errorf("DecodeEventRow() = %v, want damaged", err)
		}
	})
}

func FuzzDocumentsAreReadOrDamaged(f *testing.F) {
	inner, id := kept(f)
	for _, k := range []store.Key{registry.RegistrationKey(id), registry.ManifestKey(id), registry.RevokedKey(key(3).ID())} {
		f.Add(doc(f, inner, k).Data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		_, g := registry.RegistrationDocs.Parse(store.Doc{Key: registry.RegistrationKey(id), Version: 1, Data: data})
		_, m := registry.ManifestDocs.Parse(store.Doc{Key: registry.ManifestKey(id), Version: 1, Data: data})
		_, v := registry.RevokedDocs.Parse(store.Doc{Key: registry.RevokedKey(id), Version: 1, Data: data})
		for _, err := range []error{g, m, v} {
			if err != nil && !problem.Is(err, problem.Damaged) {
				t.Errorf("decoding = %v, want damaged", err)
			}
		}
	})
}
