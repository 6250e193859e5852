package fsck_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/vacancy-host/vacancy/shared/host/answer/hosttest"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/family/graduation"
	"github.com/vacancy-host/vacancy/shared/host/fsck"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/echo"
	"github.com/vacancy-host/vacancy/shared/host/substrate/models"
	"github.com/vacancy-host/vacancy/shared/host/substrate/plan"
	"github.com/vacancy-host/vacancy/shared/host/substrate/resources"
	"github.com/vacancy-host/vacancy/shared/host/substrate/spend"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/bolt"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

// firm is a host with a composite and its children. Two of them were closed: the clerk has
// graduated, and the junior was refused and tries again. The apprentice is a child of the clerk.
// The partner is another child of demo.
type firm struct {
	*caller
	gate                                       *graduation.Service
	parent, clerk, junior, apprentice, partner identity.ID
}

// blind is a Collector that returns empty evidence.
type blind struct{}

func (blind) Collect(_ context.Context, child, parent identity.ID) (gate.Evidence, error) {
	return gate.Evidence{Child: child, Parent: parent, Pairs: []gate.Pair{{
		OtherID: parent, Role: gate.RoleParent, Child: gate.Observation{ID: child, Closed: true}, Other: gate.Observation{ID: parent},
	}}}, nil
}

func newFirm(t testing.TB, st hosttest.Store) *firm {
	t.Helper()
	f := &firm{caller: &caller{hosttest.New(t, st).Caller()}}
	noWait := func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
	v := hosttest.NewVacants(f, st, f.Now, "http://127.0.0.1:8080", vacants.Config{
		Vault:     f.Vault,
		Resources: &resources.Resources{Substrates: substrate.Kinds{echo.Kind: echo.New}}, Wait: noWait,
	})
	reg := v.Registry
	f.Vacants = v
	f.gate = graduation.New(graduation.Config{Store: st, Vacants: v, Registry: reg, Evidence: blind{}, Now: f.Now, Rand: rand.Reader, Wait: noWait})

	made, err := v.Create(f.Ctx, vacants.CreateSpec{Name: "firm", Capability: "answers", Substrate: "echo", Tenant: "law"})
	f.Must(err)
	f.parent = made.ID
	f.clerk = f.spawn(vacants.SpawnSpec{Parent: f.parent, Path: "D2", Name: "clerk"})
	f.junior = f.spawn(vacants.SpawnSpec{Parent: f.parent, Path: "D2", Name: "junior"})
	f.apprentice = f.spawn(vacants.SpawnSpec{Parent: f.clerk, Path: "D2", Name: "apprentice"})
	f.partner = f.spawn(vacants.SpawnSpec{Parent: f.parent, Path: "D4", Name: "partner", SecondParent: &f.Demo.ID})
	_, _, err = v.SetPlan(f.Ctx, vacants.OperatorAsker(), f.parent, plan.Plan{
		Delegations: []plan.Delegation{{Child: "clerk", Task: "{input}"}, {Child: "junior", Kind: "review", Task: "{input}"}},
		OnFailure:   plan.Abort, Aggregate: plan.Aggregate{Method: plan.List},
	})
	f.Must(err)
	for _, system := range []string{"one", "two"} {
		_, err = v.Update(f.Ctx, f.partner, vacants.Changes{Agent: &definition.Agent{Provider: "echo", System: system}})
		f.Must(err)
	}
	for i, child := range []identity.ID{f.clerk, f.junior, f.junior} {
		f.delegate(child, fmt.Sprintf("task %d", i))
	}
	p := gate.DefaultPolicy()
	p.DailyLimit = 2
	f.Must(f.gate.SetPolicy(f.Ctx, "", p))
	p.DailyLimit = 1
	f.Must(f.gate.SetPolicy(f.Ctx, "law", p))
	f.graduate(f.clerk, graduation.Accepted)
	f.Time = f.Time.Add(time.Minute)
	f.graduate(f.junior, graduation.Refused)
	_, err = f.gate.Begin(f.Ctx, f.asked(f.junior))
	f.Must(err)
	return f
}

func (f *firm) spawn(s vacants.SpawnSpec) identity.ID {
	f.Helper()
	r, _, err := f.Vacants.Spawn(f.Ctx, s)
	f.Must(err)
	return r.ID
}

func (f *firm) delegate(child identity.ID, task string) {
	f.Helper()
	d := logbook.Delegation{Parent: f.parent, Child: child, SubtaskKind: "str", TaskHash: identity.Sum([]byte(task))}
	f.Must(f.Vacants.AppendEntries(f.Ctx, vacants.LogEntry{ID: f.parent, Kind: logbook.KindDelegate, Payload: d.DelegatePayload()},
		vacants.LogEntry{ID: child, Kind: logbook.KindExecute, Payload: d.ExecutePayload()}))
}

// asked returns a submission that parent and child have signed.
func (f *firm) asked(child identity.ID) graduation.Submission {
	f.Helper()
	r := composite.GraduationRequest{ParentID: f.parent, ChildID: child, CapabilityText: "works alone"}
	f.Must(f.Vacants.WithSigner(f.Ctx, f.parent, func(s identity.Signer) error { return r.SignParent(f.Ctx, s) }))
	f.Must(f.Vacants.WithSigner(f.Ctx, child, func(s identity.Signer) error { return r.SignChild(f.Ctx, s) }))
	return graduation.Submission{Request: r}
}

func (f *firm) graduate(child identity.ID, want graduation.Phase) {
	f.Helper()
	st, err := f.gate.Submit(f.Ctx, f.asked(child))
	if err != nil || st.Phase != want {
		f.Fatalf("Submit() = %s %+v, %v, want %s", st.Phase, st.Refusal, err, want)
	}
}

// manifest returns the document of a new manifest that both have signed.
func (f *firm) manifest(child identity.ID, change func(*composite.Manifest)) func(store.Doc) store.Doc {
	f.Helper()
	known, ok, err := f.Vacants.Manifest(f.Ctx, child)
	if err != nil || !ok {
		f.Fatal(ok, err)
	}
	m := *known.BirthManifest()
	change(&m)
	f.Must(f.Vacants.WithSigner(f.Ctx, f.parent, func(s identity.Signer) error { return m.SignParent(f.Ctx, s) }))
	f.Must(f.Vacants.WithSigner(f.Ctx, child, func(s identity.Signer) error { return m.SignChild(f.Ctx, s) }))
	data, err := registry.ManifestDocs.Encode(registry.ManifestDocument{Manifest: m})
	f.Must(err)
	return func(d store.Doc) store.Doc { d.Data = data; return d }
}

func TestAHomeWithKinIsWhole(t *testing.T) {
	for name, open := range map[string]func() hosttest.Store{
		"memory": func() hosttest.Store { return memory.New() },
		"bolt": func() hosttest.Store {
			s, err := bolt.Open(filepath.Join(t.TempDir(), "vacancy.db"), bolt.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFirm(t, open())
			defer f.Store.Close()
			res, found := f.check(f.Store)
			if len(found) > 0 {
				t.Errorf("Run() finds %v in a whole host", found)
			}
			// There are six logbooks, two children with attempts, and the clerk's events.
			if res.Streams != 10 || res.Vacants != 6 || res.Events != 1 {
				t.Errorf("Run() = %+v, want 10 streams, 6 vacants, 1 event", res)
			}
			if _, found := f.checkWith(f.Store, narrow); len(found) > 0 {
				t.Errorf("Run() in small pages finds %v in a whole host", found)
			}
			// This is the same host after the window has moved on and the junior has graduated.
			f.Time = f.Time.Add(24 * time.Hour)
			f.graduate(f.junior, graduation.Accepted)
			if _, found := f.check(f.Store); len(found) > 0 {
				t.Errorf("Run() finds %v a day later", found)
			}
		})
	}
}

func replaced(old, by string) func([]byte) []byte {
	return func(b []byte) []byte {
		if !bytes.Contains(b, []byte(old)) {
			panic("no " + old + " in " + string(b))
		}
		return bytes.Replace(b, []byte(old), []byte(by), 1)
	}
}

func data(change func([]byte) []byte) func(store.Doc) store.Doc {
	return func(d store.Doc) store.Doc { d.Data = change(d.Data); return d }
}

func TestEachDamageOfKinIsFoundAndNamed(t *testing.T) {
	f := newFirm(t, memory.New())
	record := vacants.RecordKey
	proof := registry.ManifestKey
	books := func(id identity.ID) store.Stream { return store.StreamOf(store.KindLogbook, id) }
	attemptWindow := graduation.Stream(f.junior)
	first, second, third := graduation.StatusKey(f.junior, 1), graduation.StatusKey(f.junior, 2), graduation.StatusKey(f.junior, 3)
	through, window, attemptsByParent := graduation.StatusKey(f.clerk, 1), graduation.WindowKey(f.parent), graduation.AttemptWindowKey(f.parent)
	open, err := f.Store.Doc(f.Ctx, second)
	f.Must(err)
	as := func(other store.Doc) func(store.Doc) store.Doc {
		return func(d store.Doc) store.Doc { d.Version, d.Data = 1, other.Data; return d }
	}
	name := map[string]string{graduation.PolicyKey("").String(): "policy", graduation.PolicyKey("law").String(): "policy of law"}
	for _, who := range []struct {
		name string
		id   identity.ID
	}{{"firm", f.parent}, {"clerk", f.clerk}, {"junior", f.junior}, {"apprentice", f.apprentice}, {"partner", f.partner}} {
		for k, what := range map[string]string{
			record(who.id).String(): "record", proof(who.id).String(): "manifest", registry.RegistrationKey(who.id).String(): "registration",
			books(who.id).String(): "log", vacants.PlanKey(who.id).String(): "plan", graduation.Stream(who.id).String(): "attempts",
			registry.ChildEdgeKey(f.parent, who.id).String(): "edge", registry.ChildEdgeKey(f.clerk, who.id).String(): "own",
			graduation.StatusKey(who.id, 1).String(): "outcome 1", graduation.StatusKey(who.id, 2).String(): "outcome 2",
			graduation.StatusKey(who.id, 3).String(): "outcome 3", graduation.WindowKey(who.id).String(): "window",
			graduation.AttemptWindowKey(who.id).String(): "tries", registry.OpeningKey(who.id).String(): "opening",
			vacants.AgentKey(who.id, 1).String(): "agent 1", vacants.AgentKey(who.id, 2).String(): "agent 2", vacants.AgentKey(who.id, 3).String(): "agent 3",
		} {
			name[k] = what + " of " + who.name
		}
	}
	last := func(r []store.Row) []store.Row { return r[:len(r)-1] }
	none := func([]store.Row) []store.Row { return nil }
	type docs = map[store.Key]func(store.Doc) store.Doc
	type rows = map[store.Stream]func([]store.Row) []store.Row
	closed := f.manifest(f.clerk, func(*composite.Manifest) {})
	for _, tc := range []struct {
		damage string
		home   altered
		want   []string
	}{
		{"an open record of a closed child", altered{docs: docs{record(f.junior): member("closed", to(false))}}, []string{"record of junior: kin"}},
		{"a record of another's child", altered{docs: docs{record(f.junior): member("parent", to(f.clerk.String()))}}, []string{"record of junior: kin"}},
		{"a record of nobody's child", altered{docs: docs{record(f.partner): unsaid("parent")}}, []string{"record of partner: kin"}},
		{"a record that is reached by more", altered{docs: docs{record(f.junior): member("reach", to("public_a2a"))}}, []string{"record of junior: kin"}},
		{"a record that reaches more", altered{docs: docs{record(f.junior): member("outbound", to("unrestricted"))}}, []string{"record of junior: kin"}},
		{"a parent that is none", altered{docs: docs{record(f.parent): unsaid("kin")}}, []string{"record of firm: kin"}},
		{"no manifest", altered{docs: docs{proof(f.junior): gone}}, []string{"record of junior: kin", "registration of junior: manifest", "edge of junior: manifest"}},
		{"no manifest of one who has none in its record", altered{docs: docs{proof(f.junior): gone, record(f.junior): func(d store.Doc) store.Doc {
			return unsaid("parent")(unsaid("closed")(d))
		}}}, []string{"manifest of junior: kin", "registration of junior: manifest", "edge of junior: manifest"}},
		{"a manifest that nobody signed", altered{docs: docs{proof(f.junior): data(replaced("parent-only", "public_a2a"))}}, []string{"manifest of junior: manifest"}},
		{"a manifest of another path", altered{docs: docs{proof(f.junior): f.manifest(f.junior, func(m *composite.Manifest) { m.BirthPath = "D1" })}}, []string{"manifest of junior: kin"}},
		{"no edge", altered{docs: docs{registry.ChildEdgeKey(f.parent, f.junior): gone}}, []string{"edge of junior: manifest"}},
		{"no registration", altered{docs: docs{registry.RegistrationKey(f.junior): gone}}, []string{"registration of junior: manifest"}},
		{"a manifest before graduation", altered{docs: docs{proof(f.clerk): closed}},
			[]string{"record of clerk: kin", "registration of clerk: manifest", "manifest of clerk: graduation"}},
		{"all but the logbooks before graduation", altered{docs: docs{proof(f.clerk): closed, record(f.clerk): func(d store.Doc) store.Doc {
			return member("closed", to(true))(member("reach", to("parent-only"))(d))
		}}}, []string{"manifest of clerk: kin", "registration of clerk: manifest", "manifest of clerk: graduation"}},

		{"an EXECUTE missing", altered{rows: rows{books(f.junior): last}}, []string{"log of junior: kin"}},
		{"no logbook", altered{rows: rows{books(f.clerk): none}}, []string{"record of clerk: state", "record of clerk: state", "manifest of clerk: kin"}},
		{"logbooks with nothing behind the birth", altered{rows: rows{books(f.apprentice): func(r []store.Row) []store.Row { return r[:1] }}}, nil},

		{"no plan", altered{docs: docs{vacants.PlanKey(f.parent): gone}}, []string{"plan of firm: plan"}},
		{"another plan", altered{docs: docs{vacants.PlanKey(f.parent): data(replaced(`"kind":"review"`, `"kind":"answer"`))}}, []string{"plan of firm: plan"}},
		{"a plan over names", altered{docs: docs{vacants.PlanKey(f.parent): data(replaced(f.clerk.String(), "clerk"))}}, []string{"plan of firm: plan"}},
		{"a plan that nobody set", altered{docs: docs{vacants.PlanKey(f.clerk): func(d store.Doc) store.Doc {
			known, err := f.Store.Doc(f.Ctx, vacants.PlanKey(f.parent))
			f.Must(err)
			return as(known)(d)
		}}}, []string{"plan of clerk: plan"}},

		{"no version of an agent", altered{docs: docs{vacants.AgentKey(f.partner, 1): gone}}, []string{"agent 1 of partner: agent"}},
		{"another form of one", altered{docs: docs{vacants.AgentKey(f.partner, 1): data(replaced(`"system"`, ` "system"`))}}, []string{"agent 1 of partner: agent"}},
		{"an agent that no host takes", altered{docs: docs{vacants.AgentKey(f.partner, 2): data(replaced(`"system"`, `"sistem"`))}}, []string{"agent 2 of partner: agent"}},
		{"an agent of another substrate", altered{docs: docs{vacants.AgentKey(f.partner, 2): data(replaced(`"provider":"echo"`, `"provider":"mock"`))}}, []string{"agent 2 of partner: agent"}},
		{"a record of one version more", altered{docs: docs{record(f.partner): member("agent", to(3))}}, []string{"agent 3 of partner: agent"}},

		{"no outcome", altered{docs: docs{second: gone}}, []string{"outcome 2 of junior: graduation"}},
		{"an outcome that does not read", altered{docs: docs{second: data(func([]byte) []byte { return []byte("{") })}}, []string{"outcome 2 of junior: document"}},
		{"an outcome without an attempt", altered{docs: docs{third: as(open)}}, []string{"outcome 3 of junior: graduation"}},
		{"an attempt left open", altered{docs: docs{first: as(open)}}, []string{"outcome 1 of junior: graduation"}},
		{"a refusal that no step makes", altered{docs: docs{first: data(replaced(`"GraduationRateLimitError"`, `"Damaged"`))}}, []string{"outcome 1 of junior: graduation"}},
		{"an attempt that does not read", altered{rows: rows{attemptWindow: edit(1, replaced(`"format":1`, `"format":9`))}}, []string{"attempts of junior 1: row", "tries of firm: graduation"}},
		{"an attempt that nobody signed", altered{rows: rows{attemptWindow: edit(1, replaced("works alone", "works apart"))}}, []string{"attempts of junior 1: signature"}},
		{"an attempt missing", altered{rows: rows{attemptWindow: drop(1)}}, []string{"attempts of junior 1: position", "tries of firm: graduation"}},
		{"an outcome that opened something else", altered{docs: docs{through: data(replaced(`"D2"`, `"D1"`))}}, []string{"outcome 1 of clerk: graduation", "manifest of clerk: graduation"}},
		{"nothing that opened a graduated child", altered{docs: docs{registry.OpeningKey(f.clerk): gone}}, []string{"opening of clerk: graduation"}},
		{"a child opened by another manifest", altered{docs: docs{registry.OpeningKey(f.clerk): member("manifest", to(strings.Repeat("0", 64)))}}, []string{"opening of clerk: graduation"}},
		{"no slot", altered{docs: docs{window: gone}}, []string{"window of firm: graduation"}},
		{"a slot of nobody", altered{docs: docs{window: member("taken", func(v any) any { return append(v.([]any), json.Number("1")) })}}, []string{"window of firm: graduation"}},
		{"a slot twice", altered{docs: docs{window: member("taken", func(v any) any { return append(v.([]any), v.([]any)[0]) })}}, []string{"window of firm: graduation"}},
		{"a window that does not read", altered{docs: docs{window: data(func([]byte) []byte { return []byte("{") })}}, []string{"window of firm: document"}},
		{"no tries", altered{docs: docs{attemptsByParent: gone}}, []string{"tries of firm: graduation"}},
		{"a try of nobody", altered{docs: docs{attemptsByParent: member("began", func(v any) any { return append(v.([]any), json.Number("1")) })}}, []string{"tries of firm: graduation"}},
		{"a try fewer", altered{docs: docs{attemptsByParent: member("began", func(v any) any { return v.([]any)[1:] })}}, []string{"tries of firm: graduation"}},
		{"a last try long after all others", altered{docs: docs{attemptsByParent: member("began", to([]any{json.Number("9000000000000000")}))}}, []string{"tries of firm: graduation"}},
		{"tries that do not read", altered{docs: docs{attemptsByParent: data(func([]byte) []byte { return []byte("{") })}}, []string{"tries of firm: document"}},
		{"a policy that does not read", altered{docs: docs{graduation.PolicyKey(""): data(replaced(`"limit":2`, `"limit":0`))}}, []string{"policy: document"}},
		{"a tenant's policy that does not read", altered{docs: docs{graduation.PolicyKey("law"): data(replaced(`"limit":1`, `"limit":0`))}}, []string{"policy of law: document"}},
		{"no attempts of one who has graduated", altered{rows: rows{graduation.Stream(f.clerk): none}},
			[]string{"outcome 1 of clerk: graduation", "tries of firm: graduation", "window of firm: graduation", "manifest of clerk: graduation"}},
	} {
		t.Run(tc.damage, func(t *testing.T) {
			tc.home.Store = f.Store
			_, found := f.check(&tc.home)
			var got []string
			for _, at := range found {
				where := name[at.Location]
				if at.Position > 0 {
					where += fmt.Sprintf(" %d", at.Position)
				}
				got = append(got, where+": "+string(at.Check))
			}
			if diff := cmp.Diff(tc.want, got, cmpopts.SortSlices(strings.Compare), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("Run() (-want +got):\n%s\n%v", diff, found)
			}
		})
	}
}

// Entries about parent and child are either in both logbooks or in neither.
func TestEntryInOneLogbookOnlyIsReported(t *testing.T) {
	alone := func(f *firm, e vacants.LogEntry) { f.Must(f.Vacants.AppendEntries(f.Ctx, e, vacants.LogEntry{})) }
	task := func(f *firm, text string) logbook.Delegation {
		return logbook.Delegation{Parent: f.parent, Child: f.junior, SubtaskKind: "str", TaskHash: identity.Sum([]byte(text))}
	}
	for name, tc := range map[string]struct {
		happens func(*firm)
		want    string // "" if nothing is reported
	}{
		"a task that the child was not given": {func(f *firm) {
			alone(f, vacants.LogEntry{ID: f.parent, Kind: logbook.KindDelegate, Payload: task(f, "a").DelegatePayload()})
		}, "kin: expected 3 COMPOSITE_EXECUTE entries, as many as COMPOSITE_DELEGATE entries in the logbook of "},
		"a task that nobody gave": {func(f *firm) {
			alone(f, vacants.LogEntry{ID: f.junior, Kind: logbook.KindExecute, Payload: task(f, "a").ExecutePayload()})
		}, "kin: expected 2 COMPOSITE_EXECUTE entries, as many as COMPOSITE_DELEGATE entries in the logbook of "},
		"another task than was given": {func(f *firm) {
			alone(f, vacants.LogEntry{ID: f.parent, Kind: logbook.KindDelegate, Payload: task(f, "a").DelegatePayload()})
			alone(f, vacants.LogEntry{ID: f.junior, Kind: logbook.KindExecute, Payload: task(f, "b").ExecutePayload()})
		}, "kin: expected COMPOSITE_EXECUTE entries that match the COMPOSITE_DELEGATE entries in the logbook of "},
		"tasks in another order": {func(f *firm) {
			alone(f, vacants.LogEntry{ID: f.parent, Kind: logbook.KindDelegate, Payload: task(f, "a").DelegatePayload()})
			alone(f, vacants.LogEntry{ID: f.parent, Kind: logbook.KindDelegate, Payload: task(f, "b").DelegatePayload()})
			alone(f, vacants.LogEntry{ID: f.junior, Kind: logbook.KindExecute, Payload: task(f, "b").ExecutePayload()})
			alone(f, vacants.LogEntry{ID: f.junior, Kind: logbook.KindExecute, Payload: task(f, "a").ExecutePayload()})
		}, ""},
		"a child that its parent does not know": {func(f *firm) {
			alone(f, vacants.LogEntry{ID: f.Demo.ID, Kind: logbook.KindSpawn, Payload: logbook.Spawn{Child: f.junior, BirthPath: "D3"}.Payload()})
		}, "kin: expected kin, because its logbook records a child, got none"},
		"a second birth": {func(f *firm) {
			alone(f, vacants.LogEntry{ID: f.junior, Kind: logbook.KindBirth, Payload: logbook.Birth{Parent: f.parent, BirthPath: "D2"}.Payload()})
		}, "state: expected no birth after the first entry, got BIRTH"},
		"a birth that says nothing": {func(f *firm) {
			alone(f, vacants.LogEntry{ID: f.junior, Kind: logbook.KindBirth, Payload: []byte(`{}`)})
		}, "row: expected an entry with the payload of its kind"},
		"a task of a stranger": {func(f *firm) {
			d := logbook.Delegation{Parent: f.parent, Child: f.Key.ID(), SubtaskKind: "str"}
			alone(f, vacants.LogEntry{ID: f.parent, Kind: logbook.KindDelegate, Payload: d.DelegatePayload()})
		}, ""},
		"a task of one whose key was taken elsewhere": {func(f *firm) {
			alone(f, vacants.LogEntry{ID: f.junior, Kind: logbook.KindKeyExported, Payload: logbook.KeyExportedPayload("https://b.example")})
			alone(f, vacants.LogEntry{ID: f.parent, Kind: logbook.KindDelegate, Payload: task(f, "a").DelegatePayload()})
		}, ""},
		"a deleted child": {func(f *firm) {
			_, err := f.Vacants.Sink(f.Ctx, f.apprentice)
			f.Must(err)
			_, err = f.Vacants.Archive(f.Ctx, f.apprentice)
			f.Must(err)
			_, err = f.Vacants.Delete(f.Ctx, f.apprentice)
			f.Must(err)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFirm(t, memory.New())
			tc.happens(f)
			_, found := f.check(f.Store)
			switch {
			case tc.want == "" && len(found) > 0:
				t.Errorf("Run() finds %v, want nothing", found)
			case tc.want != "" && (len(found) == 0 || !strings.Contains(found[0].String(), tc.want)):
				t.Errorf("Run() finds %v, want %s", found, tc.want)
			}
		})
	}
}

// TestDamagedFamilyNeverEndsACheck damages logbooks, attempts and related documents.
func TestDamagedFamilyNeverEndsACheck(t *testing.T) {
	f := newFirm(t, memory.New())
	streams := []store.Stream{graduation.Stream(f.junior), graduation.Stream(f.clerk)}
	for _, id := range []identity.ID{f.parent, f.clerk, f.junior, f.partner} {
		streams = append(streams, store.StreamOf(store.KindLogbook, id))
	}
	keys := []store.Key{
		vacants.RecordKey(f.clerk), vacants.RecordKey(f.junior), registry.ManifestKey(f.clerk), registry.ManifestKey(f.junior), registry.OpeningKey(f.clerk), vacants.PlanKey(f.parent), vacants.AgentKey(f.partner, 2),
		graduation.StatusKey(f.clerk, 1), graduation.StatusKey(f.junior, 1), graduation.StatusKey(f.junior, 2), graduation.WindowKey(f.parent), graduation.AttemptWindowKey(f.parent),
	}
	rapid.Check(t, func(t *rapid.T) {
		damaged := f.damagedBy(t, []int{0, 1, 2, 3, 4, 5, 6}, streams...)
		damaged.docs = map[store.Key]func(store.Doc) store.Doc{}
		for _, k := range keys {
			at, to := rapid.IntRange(0, 2000).Draw(t, "byte"), rapid.Byte().Draw(t, "to")
			damaged.docs[k] = func(d store.Doc) store.Doc {
				switch {
				case at%5 == 0:
					return store.Doc{Key: d.Key}
				case at%5 == 1 && len(d.Data) > 0:
					d.Data = bytes.Clone(d.Data)
					d.Data[at%len(d.Data)] = to
				}
				return d
			}
		}
		for _, run := range []runner{fsck.Run, narrow} {
			_, err := run(f.Ctx, fsck.Config{
				Source: damaged, Vault: f.Vault, Now: f.Now, Retention: hosttest.Retention,
				ReportFinding: func(f fsck.Finding) error { _ = f.String(); return nil },
			})
			if err != nil {
				t.Fatalf("Run() = %v", err)
			}
		}
	})
}

// In a view that is not a snapshot, a child's logbook may be older than its parent's, and attempts
// may be older than a window.
func TestWritesDuringACheckAreNoDamage(t *testing.T) {
	f := newFirm(t, memory.New())
	late := false
	before := func(r []store.Row) []store.Row {
		if late {
			return r
		}
		return r[:len(r)-1]
	}
	reads := 0
	// A record is read through its name, after its logbook, and when it is compared with its
	// parent's record.
	for _, at := range []int{2, 3} {
		late, reads = false, 0
		_, found := f.checkWith(&altered{Store: f.Store,
			rows: map[store.Stream]func([]store.Row) []store.Row{store.StreamOf(store.KindLogbook, f.junior): before},
			docs: map[store.Key]func(store.Doc) store.Doc{vacants.RecordKey(f.junior): func(d store.Doc) store.Doc {
				reads++
				late = reads >= at
				return d
			}},
		}, fsck.Run)
		if len(found) > 0 || !late {
			t.Errorf("Run() finds %v, want nothing", found)
		}
	}

	// A plan is set, and a child graduates.
	for _, id := range []identity.ID{f.parent, f.clerk} {
		late, reads = false, 0
		_, found := f.checkWith(&altered{Store: f.Store,
			rows: map[store.Stream]func([]store.Row) []store.Row{store.StreamOf(store.KindLogbook, id): before},
			docs: map[store.Key]func(store.Doc) store.Doc{vacants.RecordKey(id): func(d store.Doc) store.Doc {
				reads++
				late = reads >= 2
				return d
			}},
		}, fsck.Run)
		if len(found) > 0 || !late {
			t.Errorf("Run() finds %v, want nothing", found)
		}
	}

	late = false
	open := func(d store.Doc) store.Doc {
		if late {
			return d
		}
		d.Data = []byte(`{"format":1,"state":"open"}`)
		return d
	}
	seen := func(d store.Doc) store.Doc { late = true; return d }
	_, found := f.checkWith(&altered{Store: f.Store, docs: map[store.Key]func(store.Doc) store.Doc{
		graduation.StatusKey(f.clerk, 1): open, graduation.WindowKey(f.parent): seen,
	}}, fsck.Run)
	if len(found) > 0 || !late {
		t.Errorf("Run() finds %v, want nothing", found)
	}

	reads = 0
	_, found = f.checkWith(&altered{Store: f.Store, docs: map[store.Key]func(store.Doc) store.Doc{
		vacants.RecordKey(f.junior): func(d store.Doc) store.Doc {
			if reads++; reads <= 2 { // where its name leads, and with its logbook
				d = member("outbound", to("unrestricted"))(d)
				d.Version += 100
			}
			return d
		},
	}}, fsck.Run)
	if len(found) > 0 || reads < 3 {
		t.Errorf("Run() finds %v, want nothing", found)
	}
}

// The costs of calls count against budgets. The totals may be higher, because calls can crash.
func TestWhatCallsCostIsCounted(t *testing.T) {
	h := hosttest.New(t, memory.New())
	c := &caller{h.Caller()}
	c.Vacants.Resources.Budgets, c.Vacants.Resources.Models = spend.New(store.Updater{Store: c.Store, Rand: rand.Reader}, h.Now, money.Dollar), models.NewTables(c.Store, h.Now, rand.Reader)
	price := models.Price{InputPrice: money.Dollar, OutputPrice: 10 * money.Dollar, CachedPrice: money.Dollar}
	agent := &definition.Agent{Provider: substrate.KindMock, Model: "m", Price: &price, System: "```mock\nusage: 5 3\ntext: hi {input}\n```"}
	_, err := c.Vacants.Update(c.Ctx, c.Demo.ID, vacants.Changes{Agent: agent})
	c.Must(err)
	for _, text := range []string{"one", "two"} {
		c.Call(text)
	}
	if _, found := c.check(c.Store); len(found) > 0 {
		t.Errorf("Run() finds %v, want nothing", found)
	}
	key := spend.VacantTotalKey(c.Demo.ID, h.Now().UTC().Format(time.DateOnly))
	d, err := c.Store.Doc(c.Ctx, key)
	c.Must(err)
	if d.Number != 70 {
		t.Errorf("%d is spent, want 2 x (5 + 30)", d.Number)
	}
	for i, tt := range []struct {
		data   string
		number int64
		want   int
	}{
		{string(d.Data), 71, 0}, {string(d.Data), 69, 1}, {string(d.Data), 0, 1}, {`{"format":1,"open":{"a":{"turn":1,"amount":80}}}`, 80, 0},
		{`{"format":1,"open":{"a":{"turn":1,"amount":81}}}`, 80, 1}, {`{"format":2}`, 80, 1}, {"spent", 80, 1},
	} {
		number, want := tt.number, tt.want
		put := store.Put{Key: key, IfVersion: d.Version + uint64(i), WriteID: store.WriteID{byte(i + 1)}, Data: []byte(tt.data), Number: number}
		c.Must(c.Store.Commit(c.Ctx, put))
		_, found := c.check(c.Store)
		if len(found) != want || want > 0 && found[0].Check != fsck.Spend {
			t.Errorf("with %d counted, Run() finds %v; want %d", number, found, want)
		}
	}
	last, err := c.Store.Doc(c.Ctx, key)
	c.Must(err)
	c.Must(c.Store.Commit(c.Ctx, store.Put{Key: key, IfVersion: last.Version, WriteID: store.WriteID{9}, Data: d.Data}))
	if _, found := c.checkWith(&between{Store: c.Store, work: func() { c.Call("three") }}, fsck.Run); len(found) != 1 || found[0].Check != fsck.Spend {
		t.Errorf("with a damaged total and a call between two readings, Run() finds %v", found)
	}
}

// Each answer of a model has an entry in the vacant's logbook. An entry without an answer is
// allowed.
func TestAnswersOfModelsAreInTheLogbook(t *testing.T) {
	c := &caller{hosttest.New(t, memory.New()).Caller()}
	_, err := c.Vacants.Update(c.Ctx, c.Demo.ID, vacants.Changes{Agent: &definition.Agent{Provider: substrate.KindMock, Model: "m", System: "```mock\nusage: 5 3\ntext: hi {input}\n```"}})
	c.Must(err)
	for _, text := range []string{"one", "two", "three"} {
		c.Call(text)
	}
	c.Crash("never stored")
	if _, found := c.check(c.Store); len(found) > 0 {
		t.Errorf("Run() finds %v, want nothing", found)
	}
	row, err := c.Store.Tip(c.Ctx, c.Pair().Responses())
	c.Must(err)
	rsp, err := call.DecodeResponse(row)
	c.Must(err)
	if diff := cmp.Diff(&call.Usage{InputTokens: 5, OutputTokens: 3, Turns: 1, AgentVersion: 1}, rsp.Usage); diff != "" {
		t.Errorf("the answer's usage (-want +got):\n%s", diff)
	}
	log := store.StreamOf(store.KindLogbook, c.Demo.ID)
	entries, err := c.Store.Rows(c.Ctx, log, 1, store.MaxPage, store.Ascending)
	c.Must(err)
	var last logbook.Entry
	c.Must(last.UnmarshalBinary(entries[len(entries)-1].Data))
	i, err := logbook.ParseInference(last.Payload)
	if err != nil || last.Kind != logbook.KindInference || i.RequestHash != c.Last().Hash() || i.Caller != c.Key.ID() || i.Model != "m" || i.AgentVersion != 1 ||
		i.PromptHash != identity.Sum([]byte("never stored")) || i.ResponseHash != identity.Sum([]byte("hi never stored")) {
		t.Errorf("the last entry is %s %s, %v", last.Kind, last.Payload, err)
	}
	// A version that does not exist is reported for each row.
	record := vacants.RecordKey(c.Demo.ID)
	_, found := c.check(&altered{Store: c.Store, docs: map[store.Key]func(store.Doc) store.Doc{record: func(d store.Doc) store.Doc {
		d.Data = bytes.Replace(bytes.Replace(d.Data, []byte(`"agent":1,`), nil, 1), []byte(`"format":2`), []byte(`"format":1`), 1)
		return d
	}}})
	if len(found) != 3 || found[0].Check != fsck.Agent || found[0].Got != "version 1" {
		t.Errorf("Run() finds %v, want each answer of a version that is not there", found)
	}
	// Without two of its four entries, the logbook ends before some of its answers.
	short := func(r []store.Row) []store.Row { return r[:len(r)-2] }
	_, found = c.check(&altered{Store: c.Store, rows: map[store.Stream]func([]store.Row) []store.Row{log: short}})
	if len(found) != 1 || found[0].Check != fsck.Agent {
		t.Errorf("Run() finds %v, want answers without entries", found)
	}
}
