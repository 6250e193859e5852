package vacants_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/plan"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/store/storetest"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/event"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

// faultCase is a command that fails at each of its store calls, and is then
// repeated.
type faultCase struct {
	name    string   // of the vacant in the end; "" means demo
	prepare []string // commands run before, on a vacant named demo
	url     string   // of the host that runs the command, if another
	run     func(context.Context, *vacants.Directory) error
	// lost: repeated after it was applied, the command may return Conflict.
	lost  bool
	story []string // kinds of the logbook's entries in the end
	state lifecycle.State
	gone  bool // in the end only a tombstone is left
	// repeats is the kind of entry that each repetition may add.
	repeats string
}

func (c *faultCase) called() string {
	if c.name != "" {
		return c.name
	}
	return "demo"
}

func faultCases(key *identity.Key, elsewhere []logbook.Entry) map[string]faultCase {
	onDemo := func(command string) func(context.Context, *vacants.Directory) error {
		return func(ctx context.Context, v *vacants.Directory) error {
			r, err := v.GetByName(ctx, vacants.OperatorAsker(), "demo")
			if err != nil {
				return err
			}
			_, err = run(v, command)(ctx, r.ID)
			return err
		}
	}
	update := func(c vacants.Changes) func(context.Context, *vacants.Directory) error {
		return func(ctx context.Context, v *vacants.Directory) error {
			r, err := v.GetByName(ctx, vacants.OperatorAsker(), "demo")
			if problem.Is(err, problem.NotFound) {
				r, err = v.GetByName(ctx, vacants.OperatorAsker(), "scribe")
			}
			if err != nil {
				return err
			}
			_, err = v.Update(ctx, r.ID, c)
			return err
		}
	}
	const genesis, moved, signed = logbook.KindGenesis, logbook.KindStateChanged, logbook.KindCardSigned
	const listed = logbook.KindPublished
	const spawn, graduated = logbook.KindSpawn, logbook.KindGraduated
	return map[string]faultCase{
		"create": {run: func(ctx context.Context, v *vacants.Directory) error {
			_, err := v.Create(ctx, vacants.CreateSpec{Name: "demo", Capability: "c", Substrate: "echo"})
			return err
		}, lost: true, story: []string{genesis}, state: lifecycle.Local},
		"import": {run: func(ctx context.Context, v *vacants.Directory) error {
			_, err := v.Create(ctx, vacants.CreateSpec{Name: "demo", Capability: "c", Substrate: "echo", Key: key, Logbook: elsewhere,
				Chains: map[identity.ID][]byte{{1}: []byte("one"), {2}: []byte("two")}})
			return err
		}, story: []string{genesis, moved, signed}, state: lifecycle.Active},
		"pause":   {prepare: []string{"create"}, run: onDemo("pause"), story: []string{genesis, moved}, state: lifecycle.Hibernating},
		"resume":  {prepare: []string{"create", "pause"}, run: onDemo("resume"), story: []string{genesis, moved, moved}, state: lifecycle.Active},
		"sink":    {prepare: []string{"create"}, run: onDemo("sink"), story: []string{genesis, moved}, state: lifecycle.Sunk},
		"archive": {prepare: []string{"create", "sink"}, run: onDemo("archive"), story: []string{genesis, moved, moved}, state: lifecycle.Archived},
		"delete": {prepare: []string{"import", "sink", "archive"}, run: onDemo("delete"),
			story: []string{genesis, moved, signed, moved, moved, logbook.KindDeleted}, state: lifecycle.Archived, gone: true},
		"export": {prepare: []string{"import"}, run: func(ctx context.Context, v *vacants.Directory) error {
			r, err := v.GetByName(ctx, vacants.OperatorAsker(), "demo")
			if err != nil {
				return err
			}
			_, _, err = v.Export(ctx, r.ID)
			return err
		}, story: []string{genesis, moved, signed, logbook.KindKeyExported}, state: lifecycle.Active, repeats: logbook.KindKeyExported},
		"set the URL": {prepare: []string{"set the URL", "create"}, url: "none", run: func(ctx context.Context, v *vacants.Directory) error {
			_, err := v.SetURL(ctx, "https://vacancy.example")
			return err
		}, story: []string{genesis, signed}, state: lifecycle.Local},
		"rebase": {prepare: []string{"create"}, url: "https://vacancy.example", run: func(ctx context.Context, v *vacants.Directory) error {
			_, err := v.UpdateCardURLs(ctx)
			return err
		}, story: []string{genesis, signed}, state: lifecycle.Local},
		"publish": {prepare: []string{"create"}, run: onDemo("publish"), story: []string{genesis, listed}, state: lifecycle.Active},
		"publish another card": {prepare: []string{"create", "publish"}, run: onDemo("change"),
			story: []string{genesis, listed, listed}, state: lifecycle.Active},
		"unpublish": {prepare: []string{"create", "publish"}, run: onDemo("unpublish"), story: []string{genesis, listed, listed}, state: lifecycle.Active},
		"revoke":    {prepare: []string{"create", "publish"}, run: onDemo("revoke"), story: []string{genesis, listed, moved}, state: lifecycle.Sunk},
		"revoke what was never published": {prepare: []string{"create"}, run: onDemo("revoke"),
			story: []string{genesis, moved}, state: lifecycle.Sunk},
		"pause what is published": {prepare: []string{"create", "publish"}, run: onDemo("pause"),
			story: []string{genesis, listed, moved}, state: lifecycle.Hibernating},
		"set the URL of what is published": {prepare: []string{"set the URL", "create", "publish"}, url: "none", run: func(ctx context.Context, v *vacants.Directory) error {
			_, err := v.SetURL(ctx, "https://vacancy.example")
			return err
		}, story: []string{genesis, listed, listed}, state: lifecycle.Active},
		"rebase what is published": {prepare: []string{"create", "publish"}, url: "https://vacancy.example", run: func(ctx context.Context, v *vacants.Directory) error {
			_, err := v.UpdateCardURLs(ctx)
			return err
		}, story: []string{genesis, listed, listed}, state: lifecycle.Active},
		"spawn":    {prepare: []string{"create"}, run: onDemo("spawn"), story: []string{genesis, spawn}, state: lifecycle.Local},
		"graduate": {prepare: []string{"create", "spawn"}, run: onDemo("graduate"), story: []string{genesis, spawn, graduated}, state: lifecycle.Local},
		"delegate": {prepare: []string{"create", "spawn"}, run: onDemo("delegate"),
			story: []string{genesis, spawn, logbook.KindDelegate}, state: lifecycle.Local, repeats: logbook.KindDelegate},
		"take a manifest": {prepare: []string{"import"}, run: onDemo("take a manifest"),
			story: []string{genesis, moved, signed, logbook.KindManifestTaken}, state: lifecycle.Active},
		"rename": {name: "scribe", prepare: []string{"create"}, run: update(vacants.Changes{Name: pointer("scribe")}),
			story: []string{genesis, logbook.KindUpdated}, state: lifecycle.Local},
		"create under a name that is free again": {prepare: []string{"import", "sink", "archive", "delete"}, run: func(ctx context.Context, v *vacants.Directory) error {
			_, err := v.Create(ctx, vacants.CreateSpec{Name: "demo", Capability: "c", Substrate: "echo"})
			return err
		}, lost: true, story: []string{genesis}, state: lifecycle.Local},
		"update": {name: "scribe", prepare: []string{"create"}, run: update(vacants.Changes{Capability: pointer("sings"), Name: pointer("scribe")}),
			story: []string{genesis, signed}, state: lifecycle.Local},
		"update what is published": {name: "scribe", prepare: []string{"create", "publish"}, run: update(vacants.Changes{Capability: pointer("sings"), Name: pointer("scribe")}),
			story: []string{genesis, listed, listed}, state: lifecycle.Active},
		"rename what is published": {name: "scribe", prepare: []string{"create", "publish"}, run: update(vacants.Changes{Name: pointer("scribe")}),
			story: []string{genesis, listed, logbook.KindUpdated}, state: lifecycle.Active},
		"create an agent": {run: func(ctx context.Context, v *vacants.Directory) error {
			_, err := v.Create(ctx, vacants.CreateSpec{Name: "demo", Capability: "c", Agent: &definition.Agent{Provider: "echo", System: "one"}})
			return err
		}, lost: true, story: []string{genesis}, state: lifecycle.Local},
		"set an agent": {prepare: []string{"create"}, run: update(vacants.Changes{Agent: &definition.Agent{Provider: "echo", System: "two"}, IfAgentVersion: pointer(0)}),
			story: []string{genesis, logbook.KindUpdated}, state: lifecycle.Local},
		"set another agent": {prepare: []string{"create an agent", "publish"}, run: update(vacants.Changes{Agent: &definition.Agent{Provider: "echo", System: "two"}, IfAgentVersion: pointer(1)}),
			story: []string{genesis, listed, logbook.KindUpdated}, state: lifecycle.Active},
		"delete what has agents": {prepare: []string{"create", "set an agent", "forget", "sink", "archive"}, run: onDemo("delete"),
			story: []string{genesis, logbook.KindUpdated, moved, moved, logbook.KindDeleted}, state: lifecycle.Archived, gone: true},
		"forget": {prepare: []string{"create"}, run: func(ctx context.Context, v *vacants.Directory) error {
			r, err := v.GetByName(ctx, vacants.OperatorAsker(), "demo")
			if err != nil {
				return err
			}
			_, err = v.ForgetAnswers(ctx, r.ID, nil, nil)
			return err
		}, story: []string{genesis}, state: lifecycle.Local},
		"set a plan": {prepare: []string{"create", "spawn"}, run: func(ctx context.Context, v *vacants.Directory) error {
			r, err := v.GetByName(ctx, vacants.OperatorAsker(), "demo")
			if err != nil {
				return err
			}
			return errorOf2(v.SetPlan(ctx, vacants.OperatorAsker(), r.ID, asking("kid")))
		}, story: []string{genesis, spawn, logbook.KindPlanChanged}, state: lifecycle.Local},
		"self": {prepare: []string{"create"}, run: func(ctx context.Context, v *vacants.Directory) error {
			_, err := v.HostSigner(ctx)
			return err
		}, story: []string{genesis}, state: lifecycle.Local},
	}
}

// Each store call of each command fails in each way: once, or for good as in a
// crash. There is never half a vacant, and the repeated command succeeds.
func TestACommandBrokenOffAnywhereLeavesNoHalfVacantAndCanBeGivenAgain(t *testing.T) {
	va := vault(t)
	key := newKey(t)
	for name, c := range faultCases(key, book(t, key, lifecycle.Active)) {
		t.Run(name, func(t *testing.T) {
			ops := breakOff(t, c, va, key, -1, storetest.NoFault, false)
			if len(ops) < 2 {
				t.Fatalf("the command makes %d store calls, want some to fail", len(ops))
			}
			n := 0
			for at, op := range ops {
				for _, fate := range storetest.FaultsOf(op) {
					for _, crash := range []bool{false, true} {
						if n++; !storetest.InSample(n) {
							continue
						}
						t.Run(fmt.Sprintf("call %d %s, crash %t", at, fate, crash), func(t *testing.T) {
							breakOff(t, c, va, key, at, fate, crash)
						})
					}
				}
			}
		})
	}
}

// breakOff runs a command whose store call number at fails; in a crash all
// later calls fail too. It returns the store calls.
func breakOff(t *testing.T, c faultCase, va custody.Vault, imported *identity.Key, at int, fate storetest.Fault, crash bool) (ops []string) {
	t.Helper()
	inner := memory.New()
	url := hostURL
	switch c.url {
	case "":
	case "none":
		url = ""
	default:
		url = c.url
	}
	clean := host(t, inner, va, newClock().now, hostURL)
	if url == "" {
		clean = host(t, inner, va, newClock().now, "")
	}
	for _, command := range c.prepare {
		if err := prepare(t, clean, command, imported); err != nil {
			t.Fatalf("%s = %v", command, err)
		}
	}
	commit := false
	var mu sync.Mutex // a command may read several at once
	lossy := &storetest.Lossy{Store: inner, ChooseFault: func(op string, _ []store.Write) storetest.Fault {
		mu.Lock()
		defer mu.Unlock()
		ops = append(ops, op)
		switch n := len(ops) - 1; {
		case n == at:
			commit = op == "Commit"
			return fate
		case n > at && at >= 0 && crash:
			return storetest.Lost
		}
		return storetest.NoFault
	}}
	err := c.run(t.Context(), host(t, lossy, va, newClock().now, url))
	if err != nil && !problem.Is(err, problem.Unavailable) {
		t.Errorf("the command says %v, want nothing or unavailable", err)
	}
	if err != nil && commit && !crash {
		t.Errorf("one commit that failed once made the command fail: %v", err)
	}
	wantWhole(t, inner, clean, imported.ID())
	acknowledged := err == nil
	lossy.ApplyPending(t.Context())
	wantWhole(t, inner, clean, imported.ID())

	again := host(t, inner, va, newClock().now, url)
	err = c.run(t.Context(), again)
	if err != nil && !(c.lost && problem.Is(err, problem.Conflict)) {
		t.Errorf("given again, the command says %v", err)
	}
	if acknowledged && c.lost && err == nil {
		t.Error("created twice under one name")
	}
	wantWhole(t, inner, clean, imported.ID())
	r := namedVacant(t, again, c.called())
	kinds := []string{}
	for _, e := range log(t, again, r.ID) {
		if n := len(kinds); n > 0 && e.Kind == c.repeats && kinds[n-1] == e.Kind {
			continue
		}
		kinds = append(kinds, e.Kind)
	}
	if c.gone {
		wantTombstone(t, inner, r)
	}
	if diff := cmp.Diff(c.story, kinds); diff != "" || r.State != c.state {
		t.Errorf("in the end the vacant is %s, want %s; logbook (-want +got):\n%s", r.State, c.state, diff)
	}
	return ops
}

// prepare runs a command on a vacant named demo, or makes it: new, or from an
// imported key with a chain.
func prepare(t *testing.T, v *vacants.Directory, command string, key *identity.Key) error {
	switch command {
	case "create":
		create(t, v, "demo")
		return nil
	case "import":
		_, err := v.Create(t.Context(), vacants.CreateSpec{Name: "demo", Capability: "c", Substrate: "echo", Key: key,
			Logbook: book(t, key, lifecycle.Active), Chains: map[identity.ID][]byte{{1}: []byte(`{"one":1}`), {2}: []byte(`{"two":2}`)}})
		return err
	case "set the URL":
		_, err := v.SetURL(t.Context(), hostURL)
		return err
	case "create an agent":
		_, err := v.Create(t.Context(), vacants.CreateSpec{Name: "demo", Capability: "c", Agent: &definition.Agent{Provider: "echo", System: "one"}})
		return err
	}
	r, err := v.GetByName(t.Context(), vacants.OperatorAsker(), "demo")
	switch {
	case err != nil:
	case command == "set an agent":
		_, err = v.Update(t.Context(), r.ID, vacants.Changes{Agent: &definition.Agent{Provider: "echo", System: "two"}})
		return err
	case command == "forget":
		_, err = v.ForgetAnswers(t.Context(), r.ID, nil, nil)
		return err
	}
	if err == nil {
		_, err = run(v, command)(t.Context(), r.ID)
	}
	return err
}

// wantTombstone checks that the documents contain nothing of r but what a
// tombstone has.
func wantTombstone(t *testing.T, inner *memory.Store, r vacants.Record) {
	t.Helper()
	docs, _, err := inner.Docs(t.Context(), store.Range{Partition: vacants.RecordKey(r.ID).Partition}, 100, "")
	if err != nil || len(docs) != 1 {
		t.Fatalf("documents of %v = %d, %v, want the tombstone alone", r, len(docs), err)
	}
	var members map[string]any
	must(t, json.Unmarshal(docs[0].Data, &members))
	for _, name := range []string{"seed", "card"} {
		if members[name] != nil {
			t.Errorf("the tombstone has a %s: %v", name, members[name])
		}
	}
	if !r.IsDeleted() || r.Capability != "" || r.Substrate != "" || r.Card != nil {
		t.Errorf("record = %+v, want a tombstone", r)
	}
}

// wantWhole checks the package's invariant over the whole store: every logbook,
// except an unfinished import's, belongs to a record with a name, the record's
// card is signed, and its state is the logbook's.
func wantWhole(t *testing.T, inner *memory.Store, v *vacants.Directory, imported identity.ID) {
	t.Helper()
	named := map[identity.ID]vacants.Record{}
	list, err := everyRecord(t, v)
	if err != nil {
		t.Fatalf("List() = %v", err)
	}
	for _, r := range list {
		named[r.ID] = r
		if c, err := card.Parse(r.Card); !r.IsDeleted() && (err != nil || !c.Verify() || c.VacantID != r.ID) {
			t.Errorf("card of %v: %v", r, err)
		}
		entries := log(t, v, r.ID)
		if last := entries[len(entries)-1]; r.IsDeleted() != (last.Kind == logbook.KindDeleted) {
			t.Errorf("%v is deleted: %t, its logbook ends in %s", r, r.IsDeleted(), last.Kind)
		}
		if r.IsDeleted() {
			wantTombstone(t, inner, r)
		}
		if state := stateInLogbook(t, r.ID, entries); state != r.State {
			t.Errorf("%v is %s, its logbook tells %s", r, r.State, state)
		}
		wantKin(t, v, &r, entries)
		wantPlan(t, v, &r, entries)
		wantListed(t, v, &r)
		if a, err := v.Agent(t.Context(), &r, r.AgentVersion); r.AgentVersion > 0 && r.State != lifecycle.Archived && (err != nil || a.Provider != r.Substrate) {
			t.Errorf("version %d of the agent of %v is %+v, %v", r.AgentVersion, r, a, err)
		}
	}
	err = inner.Walk(t.Context(), func(view store.View) error {
		streams, _, err := view.Streams(t.Context(), "", 100, "")
		for _, s := range streams {
			id := s.IDs()[0]
			if _, ok := named[id]; !ok && id != imported && s.Kind() == store.KindLogbook {
				t.Errorf("logbook of %s without a record", id.Short())
			}
		}
		return err
	})
	must(t, err)
	if _, err := v.Get(t.Context(), vacants.OperatorAsker(), imported); err == nil && named[imported].ID != imported {
		t.Error("record of the import without a name")
	}
}

// wantListed checks that the registry agrees with r, and has an event for it.
func wantListed(t *testing.T, v *vacants.Directory, r *vacants.Record) {
	t.Helper()
	g, ok, err := v.Registry.Get(t.Context(), r.ID)
	must(t, err)
	if gone, err := v.Registry.IsRevoked(t.Context(), r.ID); err != nil || ok && gone != (g.Status == registry.StatusRevoked) || gone && !r.State.IsRetired() {
		t.Errorf("%v is %s, revoked %t, registered as %s: %v", r, r.State, gone, g.Status, err)
	}
	if !ok {
		return
	}
	if !r.IsDeleted() && g.Name != r.Name {
		t.Errorf("%v is registered as %q", r, g.Name)
	}
	if g.State != r.State || !g.Hosted || !r.IsDeleted() && g.Status == registry.StatusActive && string(g.Card) != string(r.Card) {
		t.Errorf("registered is %s, hosted %t, with %s; the record is %s with %s", g.State, g.Hosted, g.Card, r.State, r.Card)
	}
	last, err := v.Registry.Events(t.Context(), r.ID, &r.ID, g.LastSeq-1, 1)
	if err != nil || len(last) != 1 || !last[0].Verify() || last[0].ActorSeq != g.ActorSeq {
		t.Fatalf("last event of %v = %v, %v, want number %d", r, last, err, g.ActorSeq)
	}
	if said, err := last[0].ParseRegister(); last[0].Type == event.Register && (err != nil || said.CardHash != g.CardHash || said.Visibility != g.SignedVisibility) {
		t.Errorf("last event of %v says %+v, %v, want card %s, %s", r, said, err, g.CardHash, g.SignedVisibility)
	}
}

// stateInLogbook is the state by the logbook of id.
func stateInLogbook(t *testing.T, id identity.ID, entries []logbook.Entry) lifecycle.State {
	t.Helper()
	if len(entries) == 0 || entries[0].Kind != logbook.KindGenesis && entries[0].Kind != logbook.KindBirth {
		t.Errorf("a logbook begins neither with GENESIS nor with BIRTH")
	}
	state := lifecycle.Local
	for _, e := range entries {
		to, says, err := e.StateAfter(id)
		must(t, err)
		if !says {
			continue
		}
		v, err := canon.Parse(e.Payload, canon.DefaultLimits())
		must(t, err)
		if from, ok := v.Get("from"); ok && lifecycle.State(from.Text()) != state {
			t.Errorf("a logbook goes from %s, but it was %s", from.Text(), state)
		}
		state = to
	}
	return state
}

// wantPlan checks that r has the plan that its logbook names last.
func wantPlan(t *testing.T, v *vacants.Directory, r *vacants.Record, entries []logbook.Entry) {
	t.Helper()
	var want identity.Hash
	for _, e := range entries {
		if e.Kind == logbook.KindPlanChanged {
			var err error
			want, err = logbook.ParsePlanChanged(e.Payload)
			must(t, err)
		}
	}
	p, has, err := v.Plan(t.Context(), r.ID)
	if err != nil || !r.IsDeleted() && (has != (r.Substrate == plan.Kind) || has != (want != identity.Hash{}) || has && p.Hash() != want) {
		t.Errorf("%v has a plan: %t, %v; substrate %s; its logbook tells %v", r, has, err, r.Substrate, want)
	}
}

// wantKin checks that r is the child of its manifest's parent, also by that
// parent's logbook, and that without a manifest r is not a child.
func wantKin(t *testing.T, v *vacants.Directory, r *vacants.Record, entries []logbook.Entry) {
	t.Helper()
	m, ok, err := v.Manifest(t.Context(), r.ID)
	must(t, err)
	if ok != (r.Parent != nil) || ok && *r.Parent != m.Manifest.ParentID || r.Closed != (ok && m.IsClosed()) {
		t.Errorf("record of %v: a child of %v, closed %t; its manifest is there: %t, %+v", r, r.Parent, r.Closed, ok, m)
	}
	reach, outbound := m.Manifest.Reachability, m.Manifest.OutboundPolicy
	if m.Manifest.SchemaVersion == composite.SchemaV1 {
		reach, outbound = "", "" // nobody has signed them
	}
	if ok && (!r.HasKin || r.Reachability != reach || r.OutboundPolicy != outbound) {
		t.Errorf("record of %v: kin %t, %s, %s; its manifest %+v", r, r.HasKin, r.Reachability, r.OutboundPolicy, m.Manifest)
	}
	if entries[0].Kind != logbook.KindBirth {
		return
	}
	if above, ok, err := v.FindCached(t.Context(), *r.Parent); err != nil || !ok || !above.HasKin {
		t.Errorf("the parent of %v: hosted %t, kin %t, %v", r, ok, above.HasKin, err)
	}
	spawned := 0
	for _, e := range log(t, v, *r.Parent) {
		if e.Kind != logbook.KindSpawn {
			continue
		}
		says, err := logbook.ParseSpawn(e.Payload)
		must(t, err)
		if says.Child == r.ID && says.BirthPath == string(m.Manifest.BirthPath) {
			spawned++
		}
	}
	if spawned != 1 {
		t.Errorf("the parent of %v tells of its birth %d times, want once", r, spawned)
	}
}

// Of concurrent commands that saw the same record, or want the same name, one succeeds.
func TestOfCommandsAtOnceOneSucceeds(t *testing.T) {
	ctx := context.Background()
	for what, command := range map[string]func(v *vacants.Directory, r vacants.Record, text string) error{
		"create": func(v *vacants.Directory, _ vacants.Record, _ string) error {
			_, err := v.Create(ctx, vacants.CreateSpec{Name: "new", Capability: "c", Substrate: "echo"})
			if p := problem.AsError(err); p != nil && p.Field != "name" {
				t.Errorf("Create() = %v, want a conflict of the name", err)
			}
			return err
		},
		"update": func(v *vacants.Directory, r vacants.Record, text string) error {
			return errorOf(v.Update(ctx, r.ID, vacants.Changes{Capability: &text, IfChanged: r.ChangedAt}))
		},
		"set an agent": func(v *vacants.Directory, r vacants.Record, text string) error {
			return errorOf(v.Update(ctx, r.ID, vacants.Changes{Agent: &definition.Agent{Provider: "echo", System: text}, IfAgentVersion: pointer(0)}))
		},
	} {
		s, va, clock := memory.New(), vault(t), newClock()
		r := create(t, host(t, s, va, clock.now, hostURL), "demo")
		clock.t = clock.t.Add(time.Second)
		var commands []func() error
		for i := range 16 {
			v := host(t, s, va, clock.now, hostURL)
			commands = append(commands, func() error { return command(v, r, fmt.Sprint(i)) })
		}
		won := 0
		for _, err := range together(commands...) {
			if err == nil {
				won++
			} else if !problem.Is(err, problem.Conflict) {
				t.Errorf("%s = %v, want nil or a conflict", what, err)
			}
		}
		if won != 1 {
			t.Errorf("%s: %d of 16 succeeded, want 1", what, won)
		}
		wantWhole(t, s, host(t, s, va, clock.now, hostURL), identity.ID{})
	}
}

func TestConcurrentCommandsLeaveOneHistory(t *testing.T) {
	inner, va := memory.New(), vault(t)
	id := create(t, host(t, inner, va, newClock().now, hostURL), "demo").ID
	var wg sync.WaitGroup
	for i := range 8 {
		v := host(t, inner, va, newClock().now, hostURL)
		command := []string{"pause", "resume"}[i%2]
		wg.Go(func() {
			for range 5 {
				if _, err := run(v, command)(context.Background(), id); err != nil && !problem.Is(err, problem.Conflict) {
					t.Errorf("%s = %v", command, err)
				}
			}
		})
	}
	wg.Wait()
	wantWhole(t, inner, host(t, inner, va, newClock().now, hostURL), identity.ID{})
}

// everyRecord lists all vacants, deleted ones too.
func everyRecord(t *testing.T, v *vacants.Directory) (all []vacants.Record, err error) {
	t.Helper()
	for cursor, more := "", true; more; more = cursor != "" {
		var page []vacants.Record
		if page, cursor, err = v.ListAll(t.Context(), vacants.OperatorAsker(), cursor, vacants.MaxPage); err != nil {
			return nil, err
		}
		all = append(all, page...)
	}
	return all, nil
}
