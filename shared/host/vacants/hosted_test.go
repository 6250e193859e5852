package vacants_test

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

	"github.com/vacancy-host/vacancy/shared/host/answer"
	"github.com/vacancy-host/vacancy/shared/host/answer/hosttest"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/local"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/echo"
	"github.com/vacancy-host/vacancy/shared/host/substrate/resources"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

const hostURL = "http://127.0.0.1:8080"

// clock is a time that tests move.
type clock struct{ t time.Time }

func (c *clock) now() time.Time { return c.t }

func newClock() *clock { return &clock{time.Date(2026, 5, 6, 0, 0, 0, 0, time.UTC)} }

func vault(t testing.TB) custody.Vault {
	t.Helper()
	v, err := local.Open(filepath.Join(t.TempDir(), "seal.key"), rand.Reader)
	must(t, err)
	return v
}

// host makes the Directory of a host over s, at a URL, with a registry.
func host(t testing.TB, s store.Store, vault custody.Vault, now func() time.Time, url string) *vacants.Directory {
	t.Helper()
	v := hosttest.NewVacants(t, s, now, url, vacants.Config{
		Vault: vault, Resources: &resources.Resources{Substrates: substrate.Kinds{echo.Kind: echo.New}},
		Wait: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
	})
	return v
}

func fresh(t testing.TB) *vacants.Directory {
	return host(t, memory.New(), vault(t), newClock().now, hostURL)
}

// answering answers calls to the vacants of v.
func answering(v *vacants.Directory) *answer.Answerer {
	return answer.New(answer.Config{Vacants: v})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// errorOf returns the error of a call that returns a value, too.
func errorOf[T any](_ T, err error) error { return err }

// errorOf2 returns the error of a call that returns two values, too.
func errorOf2[T, U any](_ T, _ U, err error) error { return err }

// do runs commands on a vacant.
func do(t testing.TB, v *vacants.Directory, id identity.ID, commands ...string) {
	t.Helper()
	for _, command := range commands {
		must(t, errorOf(run(v, command)(t.Context(), id)))
	}
}

// get returns a record.
func get(t testing.TB, v *vacants.Directory, id identity.ID) vacants.Record {
	t.Helper()
	r, err := v.Get(t.Context(), vacants.OperatorAsker(), id)
	must(t, err)
	return r
}

// namedVacant returns the record of a name.
func namedVacant(t testing.TB, v *vacants.Directory, name string) vacants.Record {
	t.Helper()
	r, err := v.GetByName(t.Context(), vacants.OperatorAsker(), name)
	must(t, err)
	return r
}

func create(t testing.TB, v *vacants.Directory, name string) vacants.Record {
	t.Helper()
	r, err := v.Create(t.Context(), vacants.CreateSpec{Name: name, Capability: "says what it hears", Substrate: "echo"})
	must(t, err)
	return r
}

// log returns id's logbook after checking its chain.
func log(t testing.TB, v *vacants.Directory, id identity.ID) []logbook.Entry {
	t.Helper()
	var entries []logbook.Entry
	for {
		placed, err := v.Logbook(t.Context(), id, uint64(len(entries))+1, vacants.MaxPage)
		must(t, err)
		if len(placed) == 0 {
			break
		}
		for _, p := range placed {
			entries = append(entries, p.Entry)
		}
	}
	if err := logbook.VerifyChain(id, entries); err != nil {
		t.Errorf("logbook of %s: %v", id.Short(), err)
	}
	return entries
}

// story is a logbook as kinds and payloads.
func story(t testing.TB, v *vacants.Directory, id identity.ID) []string {
	t.Helper()
	lines := []string{}
	for _, e := range log(t, v, id) {
		lines = append(lines, e.Kind+" "+string(e.Payload))
	}
	return lines
}

func wantKind(t testing.TB, what string, err error, want problem.Kind) {
	t.Helper()
	if got := problem.AsError(err); got == nil || got.Kind != want {
		t.Errorf("%s = %v, want kind %v", what, err, want)
	}
}

func TestCreateMakesARecordANameACardAndAGenesis(t *testing.T) {
	v := fresh(t)
	made := create(t, v, "demo")
	for what, get := range map[string]func() (vacants.Record, error){
		"Get":    func() (vacants.Record, error) { return v.Get(t.Context(), vacants.OperatorAsker(), made.ID) },
		"ByName": func() (vacants.Record, error) { return v.GetByName(t.Context(), vacants.OperatorAsker(), "demo") },
		"Find":   func() (vacants.Record, error) { return v.Find(t.Context(), vacants.OperatorAsker(), made.ID.String()) },
	} {
		r, err := get()
		if err != nil {
			t.Fatalf("%s() = %v", what, err)
		}
		got := []string{r.ID.String(), r.Name, string(r.State), r.Capability, r.Substrate, string(r.Card), r.CreatedAt.String(), r.ChangedAt.String()}
		at := newClock().t.String()
		want := []string{made.ID.String(), "demo", "LOCAL", "says what it hears", "echo", string(made.Card), at, at}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s() (-want +got):\n%s", what, diff)
		}
	}
	c, err := card.Parse(made.Card)
	if err != nil || !c.Verify() {
		t.Fatalf("card %s: %v, verifies: %t", made.Card, err, c.Verify())
	}
	if want := hostURL + "/v/" + made.ID.String() + "/a2a/message/send"; c.Endpoint != want || c.CapabilityText != "says what it hears" {
		t.Errorf("card = %+v, want endpoint %s", c, want)
	}
	if diff := cmp.Diff([]string{`GENESIS {"name":"demo","vacant_id":"` + made.ID.String() + `"}`}, story(t, v, made.ID)); diff != "" {
		t.Errorf("logbook (-want +got):\n%s", diff)
	}
}

func TestEachCommandMovesTheStatesItMayAndNoOthers(t *testing.T) {
	const (
		done = -1 // succeeds, writes nothing
		no   = problem.Conflict
	)
	type row struct{ pause, resume, sink, archive, delete any }
	h, a, s, x := lifecycle.Hibernating, lifecycle.Active, lifecycle.Sunk, lifecycle.Archived
	for state, want := range map[lifecycle.State]row{
		lifecycle.Local:       {h, no, s, no, no},
		lifecycle.Active:      {h, done, s, no, no},
		lifecycle.Hibernating: {done, a, s, no, no},
		lifecycle.Stale:       {no, a, s, no, no},
		lifecycle.Sunk:        {no, no, done, x, no},
		lifecycle.Archived:    {no, no, no, done, nil},
	} {
		for command, want := range map[string]any{"pause": want.pause, "resume": want.resume, "sink": want.sink, "archive": want.archive, "delete": want.delete} {
			if want == nil {
				continue
			}
			t.Run(fmt.Sprintf("%s a vacant that is %s", command, state), func(t *testing.T) {
				v, id := inState(t, state)
				before := len(log(t, v, id))
				r, err := run(v, command)(t.Context(), id)
				entries := log(t, v, id)
				switch want {
				case no:
					wantKind(t, command, err, problem.Conflict)
					says := map[string]string{"delete": "only a vacant that is ARCHIVED can be deleted", "pause": "it cannot be paused", "resume": "it cannot be resumed", "sink": "it cannot be sunk", "archive": "it cannot be archived"}[command]
					if text := problem.AsError(err).Text(); text != "vacant demo is "+string(state)+"; "+says {
						t.Errorf("refusal = %q, want the vacant, its state and the command", text)
					}
					want = state
				case done:
					want = state
				default:
					if got := entries[len(entries)-1]; string(got.Payload) != fmt.Sprintf(`{"from":"%s","to":"%s"}`, state, want) {
						t.Errorf("entry = %s, want %s to %s", got.Payload, state, want)
					}
					before++
				}
				if err == nil && r.State != want || len(entries) != before {
					t.Errorf("%s() = %s, %d entries, want %s, %d", command, r.State, len(entries), want, before)
				}
				if kept, err := v.Get(t.Context(), vacants.OperatorAsker(), id); err != nil || kept.State != want || kept.IsDeleted() {
					t.Errorf("state kept = %s, %v, want %s", kept.State, err, want)
				}
			})
		}
	}
}

func run(v *vacants.Directory, command string) func(context.Context, identity.ID) (vacants.Record, error) {
	only := func(r vacants.Record, _ registry.Receipt, err error) (vacants.Record, error) { return r, err }
	return map[string]func(context.Context, identity.ID) (vacants.Record, error){
		"pause": v.Pause, "resume": v.Resume, "sink": v.Sink, "archive": v.Archive, "delete": v.Delete,
		"unpublish": func(ctx context.Context, id identity.ID) (vacants.Record, error) { return only(v.Unpublish(ctx, id)) },
		"revoke": func(ctx context.Context, id identity.ID) (vacants.Record, error) {
			return only(v.Revoke(ctx, id, "lost"))
		},
		"publish": func(ctx context.Context, id identity.ID) (vacants.Record, error) {
			return only(v.Publish(ctx, id, vacants.PublishOptions{Listing: &vacants.ListingOptions{Tags: []string{"a"}}}))
		},
		"change": func(ctx context.Context, id identity.ID) (vacants.Record, error) {
			other := "says something else"
			return only(v.Publish(ctx, id, vacants.PublishOptions{Capability: &other}))
		},
		"spawn": func(ctx context.Context, id identity.ID) (vacants.Record, error) {
			r, _, err := v.Spawn(ctx, vacants.SpawnSpec{Parent: id, Path: "D2", Name: "kid"})
			return r, err
		},
		"graduate":        func(ctx context.Context, id identity.ID) (vacants.Record, error) { return graduateKid(ctx, v, id) },
		"delegate":        func(ctx context.Context, id identity.ID) (vacants.Record, error) { return delegateToKid(ctx, v, id) },
		"take a manifest": func(ctx context.Context, id identity.ID) (vacants.Record, error) { return importVacant(ctx, v, id) },
	}[command]
}

// inState makes a vacant in a state, by commands where they lead there, and
// otherwise by an imported logbook.
func inState(t testing.TB, s lifecycle.State) (*vacants.Directory, identity.ID) {
	t.Helper()
	v := fresh(t)
	if s == lifecycle.Stale {
		key := newKey(t)
		r, err := v.Create(t.Context(), vacants.CreateSpec{Name: "demo", Capability: "x", Substrate: "echo", Key: key, Logbook: book(t, key, lifecycle.Stale)})
		must(t, err)
		return v, r.ID
	}
	id := create(t, v, "demo").ID
	do(t, v, id, map[lifecycle.State][]string{
		lifecycle.Active: {"pause", "resume"}, lifecycle.Hibernating: {"pause"}, lifecycle.Sunk: {"sink"}, lifecycle.Archived: {"sink", "archive"},
	}[s]...)
	return v, id
}

func newKey(t testing.TB) *identity.Key {
	t.Helper()
	k, err := identity.NewKey(rand.Reader)
	must(t, err)
	return k
}

// book is a logbook from elsewhere that ends in a state.
func book(t testing.TB, key *identity.Key, s lifecycle.State) []logbook.Entry {
	t.Helper()
	at := newClock().t
	first := logbook.Next(nil, logbook.KindGenesis, at, logbook.GenesisPayload("elsewhere", key.ID()))
	must(t, errorOf(first.Sign(t.Context(), key)))
	second := logbook.Next(&first, logbook.KindStateChanged, at, logbook.StateChangedPayload(lifecycle.Local, s))
	must(t, errorOf(second.Sign(t.Context(), key)))
	return []logbook.Entry{first, second}
}

func TestCreateRefusals(t *testing.T) {
	v := fresh(t)
	create(t, v, "taken")
	good := vacants.CreateSpec{Name: "x", Capability: "c", Substrate: "echo"}
	key := newKey(t)
	for name, c := range map[string]struct {
		change func(*vacants.CreateSpec)
		kind   problem.Kind
		field  string
	}{
		"no name":                {func(s *vacants.CreateSpec) { s.Name = "" }, problem.Malformed, "name"},
		"a long name":            {func(s *vacants.CreateSpec) { s.Name = strings.Repeat("a", 65) }, problem.Malformed, "name"},
		"a name with a slash":    {func(s *vacants.CreateSpec) { s.Name = "../x" }, problem.Malformed, "name"},
		"a name with a space":    {func(s *vacants.CreateSpec) { s.Name = "a b" }, problem.Malformed, "name"},
		"a name not ASCII":       {func(s *vacants.CreateSpec) { s.Name = "démo" }, problem.Malformed, "name"},
		"dots":                   {func(s *vacants.CreateSpec) { s.Name = ".." }, problem.Malformed, "name"},
		"an id as a name":        {func(s *vacants.CreateSpec) { s.Name = strings.Repeat("aB", 32) }, problem.Malformed, "name"},
		"a name that is taken":   {func(s *vacants.CreateSpec) { s.Name = "taken" }, problem.Conflict, "name"},
		"no capability":          {func(s *vacants.CreateSpec) { s.Capability = " \t" }, problem.Malformed, "capability"},
		"a long capability":      {func(s *vacants.CreateSpec) { s.Capability = strings.Repeat("x", 16<<10+1) }, problem.Malformed, "capability"},
		"a capability with 0x1f": {func(s *vacants.CreateSpec) { s.Capability = "a\x1fb" }, problem.Malformed, "capability_text"},
		"a capability not UTF-8": {func(s *vacants.CreateSpec) { s.Capability = "a\xff" }, problem.Malformed, "capability_text"},
		"an unknown substrate":   {func(s *vacants.CreateSpec) { s.Substrate = "oracle" }, problem.Malformed, "substrate"},
		"no substrate":           {func(s *vacants.CreateSpec) { s.Substrate = "" }, problem.Malformed, "substrate"},
		"an argument for echo":   {func(s *vacants.CreateSpec) { s.Substrate = "echo:loud" }, problem.Malformed, "substrate"},
		"a logbook without key":  {func(s *vacants.CreateSpec) { s.Logbook = book(t, key, lifecycle.Active) }, problem.Malformed, "key"},
		"chains without key":     {func(s *vacants.CreateSpec) { s.Chains = map[identity.ID][]byte{{1}: {1}} }, problem.Malformed, "key"},
		"another's logbook":      {func(s *vacants.CreateSpec) { s.Key, s.Logbook = newKey(t), book(t, key, lifecycle.Active) }, problem.Untrusted, ""},
		"a closed vacant":        {func(s *vacants.CreateSpec) { s.Key, s.Logbook = key, book(t, key, lifecycle.Sunk) }, problem.Gone, ""},
		"a large chain": {func(s *vacants.CreateSpec) {
			s.Key, s.Chains = newKey(t), map[identity.ID][]byte{{1}: make([]byte, vacants.MaxChainBytes+1)}
		}, problem.Malformed, "chain with 010000000000"},
	} {
		t.Run(name, func(t *testing.T) {
			s := good
			c.change(&s)
			_, err := v.Create(t.Context(), s)
			wantKind(t, "Create()", err, c.kind)
			if p := problem.AsError(err); p != nil && p.Field != c.field {
				t.Errorf("Create() names field %q, want %q", p.Field, c.field)
			}
		})
	}
	if list, _, err := v.List(t.Context(), vacants.OperatorAsker(), "", 100); err != nil || len(list) != 1 {
		t.Errorf("List() = %v, %v, want the first vacant alone", list, err)
	}
	if _, err := v.Create(t.Context(), good); err != nil {
		t.Errorf("Create() of what is good = %v", err)
	}
}

func TestAVacantFromElsewhereContinuesItsHistory(t *testing.T) {
	s, va := memory.New(), vault(t)
	v := host(t, s, va, newClock().now, hostURL)
	key := newKey(t)
	spec := vacants.CreateSpec{
		Name: "moved", Capability: "c", Substrate: "echo", Key: key, Logbook: book(t, key, lifecycle.Hibernating),
		Chains: map[identity.ID][]byte{{1}: []byte(`{"seq":1}`), {2}: []byte(`{"seq":2}`)},
	}
	r, err := v.Create(t.Context(), spec)
	must(t, err)
	if r.ID != key.ID() || r.State != lifecycle.Hibernating {
		t.Errorf("Create() = %v in %s, want the key's id, HIBERNATING", r, r.State)
	}
	c, _ := card.Parse(r.Card)
	want := []string{
		`GENESIS {"name":"elsewhere","vacant_id":"` + r.ID.String() + `"}`,
		`STATE_CHANGED {"from":"LOCAL","to":"HIBERNATING"}`,
		`CARD_SIGNED {"card_hash":"` + c.Hash().String() + `","endpoint":"` + c.Endpoint + `"}`,
	}
	if diff := cmp.Diff(want, story(t, v, r.ID)); diff != "" {
		t.Errorf("logbook (-want +got):\n%s", diff)
	}
	for target, data := range spec.Chains {
		if d, err := s.Doc(t.Context(), vacants.ChainDocs.Key(r.ID.String(), target.String())); err != nil || string(d.Data) != string(data) {
			t.Errorf("chain with %s = %q, %v, want %q", target.Short(), d.Data, err, data)
		}
	}
	again, err := v.Create(t.Context(), spec)
	if err != nil || again.ID != r.ID || len(log(t, v, r.ID)) != 3 {
		t.Errorf("Create() again = %v, %v, want the same vacant and nothing written", again, err)
	}
	spec.Name = "other"
	_, err = v.Create(t.Context(), spec)
	wantKind(t, "Create() under another name", err, problem.Conflict)
}

func TestTwoHistoriesUnderOneKeyAreRefused(t *testing.T) {
	s, va := memory.New(), vault(t)
	key := newKey(t)
	entries := book(t, key, lifecycle.Active)
	data, err := entries[0].MarshalBinary()
	must(t, err)
	// What an interrupted import has left.
	must(t, s.Commit(t.Context(), store.Append{Stream: store.StreamOf(store.KindLogbook, key.ID()), Position: 1, WriteID: store.WriteID{1}, Data: data}))
	other := logbook.Next(nil, logbook.KindGenesis, newClock().t, logbook.GenesisPayload("forked", key.ID()))
	must(t, errorOf(other.Sign(t.Context(), key)))
	v := host(t, s, va, newClock().now, hostURL)
	spec := vacants.CreateSpec{Name: "x", Capability: "c", Substrate: "echo", Key: key, Logbook: []logbook.Entry{other}}
	_, err = v.Create(t.Context(), spec)
	wantKind(t, "Create()", err, problem.Conflict)
	spec.Logbook = entries
	if r, err := v.Create(t.Context(), spec); err != nil || r.State != lifecycle.Active {
		t.Errorf("Create() with the history that was begun = %v, %v, want ACTIVE", r.State, err)
	}
}

func TestCardsFollowTheHostsURL(t *testing.T) {
	s, va, at := memory.New(), vault(t), newClock()
	v := host(t, s, va, at.now, hostURL)
	open, closed := create(t, v, "open"), create(t, v, "closed")
	do(t, v, closed.ID, "sink")
	if n, err := v.UpdateCardURLs(t.Context()); n != 0 || err != nil {
		t.Errorf("UpdateCardURLs() at the same URL = %d, %v, want 0", n, err)
	}
	at.t = at.t.Add(time.Hour)
	moved := host(t, s, va, at.now, "https://vacancy.example/base/")
	for _, want := range []int{1, 0} {
		if n, err := moved.UpdateCardURLs(t.Context()); n != want || err != nil {
			t.Errorf("UpdateCardURLs() = %d, %v, want %d", n, err, want)
		}
	}
	r := get(t, moved, open.ID)
	c, err := card.Parse(r.Card)
	if want := "https://vacancy.example/base/v/" + open.ID.String() + "/a2a/message/send"; err != nil || !c.Verify() || c.Endpoint != want {
		t.Errorf("card = %+v, %v, want a signed one with %s", c, err, want)
	}
	entries := story(t, moved, open.ID)
	if want := `CARD_SIGNED {"card_hash":"` + c.Hash().String() + `","endpoint":"` + c.Endpoint + `"}`; len(entries) != 2 || entries[1] != want {
		t.Errorf("logbook = %q, want it to end with %s", entries, want)
	}
	if r, _ := moved.Get(t.Context(), vacants.OperatorAsker(), closed.ID); string(r.Card) != string(closed.Card) && len(log(t, moved, closed.ID)) != 2 {
		t.Errorf("a closed vacant's card was signed again")
	}
}

// A writer to the store without a key must not get text signed by waiting for
// the host to move.
func TestAForgedCapabilityIsNotSignedWhenTheHostMoves(t *testing.T) {
	s, va, at := memory.New(), vault(t), newClock()
	r := create(t, host(t, s, va, at.now, hostURL), "a")
	d, err := s.Doc(t.Context(), vacants.RecordKey(r.ID))
	must(t, err)
	forged := bytes.Replace(d.Data, []byte(`"says what it hears"`), []byte(`"will pay your bills"`), 1)
	if bytes.Equal(forged, d.Data) {
		t.Fatal("the record does not hold the capability")
	}
	must(t, s.Commit(t.Context(), store.Put{Key: d.Key, IfVersion: d.Version, WriteID: store.WriteID{1}, Data: forged}))
	n, err := host(t, s, va, at.now, "https://vacancy.example").UpdateCardURLs(t.Context())
	wantKind(t, "UpdateCardURLs()", err, problem.Damaged)
	if n != 0 {
		t.Errorf("UpdateCardURLs() = %d, want nothing signed", n)
	}
}

func TestFailedVacantDoesNotBlockOtherCards(t *testing.T) {
	s, va, at := memory.New(), vault(t), newClock()
	v := host(t, s, va, at.now, hostURL)
	a, _ := create(t, v, "a"), create(t, v, "b")
	d, _ := s.Doc(t.Context(), vacants.RecordKey(a.ID))
	must(t, s.Commit(t.Context(), store.Put{Key: d.Key, IfVersion: d.Version, WriteID: store.WriteID{1}, Data: []byte("damaged")}))
	n, err := host(t, s, va, at.now, "https://vacancy.example").UpdateCardURLs(t.Context())
	wantKind(t, "UpdateCardURLs()", err, problem.Damaged)
	if n != 1 {
		t.Errorf("UpdateCardURLs() = %d, want the other vacant's card signed", n)
	}
}

func TestFindTakesNamesIDsAndBeginnings(t *testing.T) {
	v := fresh(t)
	var all []vacants.Record
	for i := range 3 {
		all = append(all, create(t, v, fmt.Sprintf("v%d", i)))
	}
	hex := all[0].ID.String()
	for _, what := range []string{"v0", hex, strings.ToUpper(hex), hex[:12], hex[:63]} {
		if r, err := v.Find(t.Context(), vacants.OperatorAsker(), what); err != nil || r.ID != all[0].ID {
			t.Errorf("Find(%s) = %v, %v, want v0", what, r, err)
		}
	}
	short := create(t, v, hex[:8]) // a name has priority over the prefix of an id
	if r, err := v.Find(t.Context(), vacants.OperatorAsker(), hex[:8]); err != nil || r.ID != short.ID {
		t.Errorf("Find(%s) = %v, %v, want the vacant of that name", hex[:8], r, err)
	}
	for _, what := range []string{"v9", "00ff00ff00ff", hex[:3], strings.Repeat("0", 63) + "1"} {
		_, err := v.Find(t.Context(), vacants.OperatorAsker(), what)
		wantKind(t, "Find("+what+")", err, problem.NotFound)
	}
	_, err := v.Find(t.Context(), vacants.OperatorAsker(), "no name")
	wantKind(t, "Find(no name)", err, problem.Malformed)
}

func TestABeginningThatFitsSeveralIsRefusedAndTheyAreNamed(t *testing.T) {
	v := fresh(t)
	seen := map[string]string{}
	for i := 0; ; i++ {
		name := fmt.Sprintf("n%d", i)
		prefix := create(t, v, name).ID.String()[:4]
		if other, ok := seen[prefix]; ok {
			_, err := v.Find(t.Context(), vacants.OperatorAsker(), prefix)
			wantKind(t, "Find()", err, problem.Malformed)
			if text := problem.AsError(err).Text(); !strings.Contains(text, name+" (") || !strings.Contains(text, other+" (") {
				t.Errorf("Find() = %q, want %s and %s named", text, name, other)
			}
			return
		}
		seen[prefix] = name
	}
}

func TestListGoesThroughAllByName(t *testing.T) {
	v := fresh(t)
	want := []string{}
	for i := range 7 {
		name := fmt.Sprintf("v%d", i)
		create(t, v, name)
		want = append(want, name)
	}
	got := []string{}
	for cursor, pages := "", 0; pages == 0 || cursor != ""; pages++ {
		page, next, err := v.List(t.Context(), vacants.OperatorAsker(), cursor, 3)
		must(t, err)
		for _, r := range page {
			got = append(got, r.Name)
		}
		cursor = next
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("List() (-want +got):\n%s", diff)
	}
	for _, n := range []int{0, -1, vacants.MaxPage + 1} {
		_, _, err := v.List(t.Context(), vacants.OperatorAsker(), "", n)
		wantKind(t, fmt.Sprintf("List(%d)", n), err, problem.Malformed)
	}
	_, _, err := v.List(t.Context(), vacants.OperatorAsker(), "nonsense", 1)
	wantKind(t, "List() at no cursor", err, problem.Malformed)
}

func TestTheHostHasOneIdentityForEver(t *testing.T) {
	s, va := memory.New(), vault(t)
	ids := map[identity.ID]bool{}
	results := make(chan identity.ID)
	for range 8 {
		v := host(t, s, va, newClock().now, hostURL)
		go func() {
			self, err := v.HostSigner(context.Background())
			if err != nil {
				t.Error(err)
				results <- identity.ID{}
				return
			}
			if sig, err := self.Sign(context.Background(), []byte("x")); err != nil || !identity.Verify(self.ID(), []byte("x"), sig) {
				t.Errorf("the host's signature does not verify: %v", err)
			}
			if id, err := v.HostID(context.Background()); id != self.ID() || err != nil {
				t.Errorf("HostID() = %s, %v, want %s", id, err, self.ID())
			}
			results <- self.ID()
		}()
	}
	for range 8 {
		ids[<-results] = true
	}
	if len(ids) != 1 {
		t.Errorf("8 instances have %d identities, want 1", len(ids))
	}
}

func TestRecordsOfALaterFormatAreRefused(t *testing.T) {
	s, va := memory.New(), vault(t)
	v := host(t, s, va, newClock().now, hostURL)
	id := create(t, v, "demo").ID
	d, err := s.Doc(t.Context(), vacants.RecordKey(id))
	must(t, err)
	for name, data := range map[string]string{
		"later":     strings.Replace(string(d.Data), `"format":5`, `"format":6`, 1),
		"earlier":   strings.Replace(string(d.Data), `"format":5`, `"format":4`, 1),
		"none":      strings.Replace(string(d.Data), `"format":5,`, ``, 1),
		"not JSON":  "x",
		"state":     strings.Replace(string(d.Data), `"LOCAL"`, `"AWAKE"`, 1),
		"other id":  strings.Replace(string(d.Data), id.String(), identity.ID{1}.String(), 1),
		"short id":  strings.Replace(string(d.Data), id.String(), "00", 1),
		"wrong key": strings.Replace(string(d.Data), `"state":`, `"state":1,"x":`, 1),
	} {
		_, err := vacants.RecordDocs.Parse(store.Doc{Key: d.Key, Data: []byte(data)})
		wantKind(t, "a record ("+name+")", err, problem.Damaged)
	}
}

func TestARecordIsPrintedWithoutItsSealedSeed(t *testing.T) {
	r := create(t, fresh(t), "demo")
	want := "vacant demo (" + r.ID.Short() + ")"
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d", "%x"} {
		if got := fmt.Sprintf(verb, r); got != want {
			t.Errorf("%s of a record = %s, want %s", verb, got, want)
		}
	}
}

func TestNoSeedShowsAnywhere(t *testing.T) {
	s, va := memory.New(), vault(t)
	v := host(t, s, va, newClock().now, hostURL)
	key := newKey(t)
	r, err := v.Create(t.Context(), vacants.CreateSpec{Name: "demo", Capability: "c", Substrate: "echo", Key: key})
	must(t, err)
	d, err := s.Doc(t.Context(), vacants.RecordKey(r.ID))
	must(t, err)
	inJSON, err := json.Marshal(r)
	must(t, err)
	held, ok, err := answering(v).Vacant(t.Context(), r.ID, false)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	shown := map[string]string{
		"document": string(d.Data), "json": string(inJSON), "signer": fmt.Sprintf("%v %+v %#v", held.Signer, held.Signer, held.Signer),
		"record": fmt.Sprintf("%v %+v %#v %s %v", r, r, r, r, []vacants.Record{r}), "vacant": fmt.Sprintf("%+v %#v", held, held),
		"vacants": fmt.Sprintf("%v", v),
	}
	damaged := strings.Replace(string(d.Data), `"seed":"`, `"seed":"AAAA`, 1)
	must(t, s.Commit(t.Context(), store.Put{Key: d.Key, IfVersion: d.Version, WriteID: store.WriteID{1}, Data: []byte(damaged)}))
	other := host(t, s, va, newClock().now, hostURL)
	_, err = other.Pause(t.Context(), r.ID)
	wantKind(t, "Pause() with a damaged seed", err, problem.Damaged)
	shown["error"] = fmt.Sprintf("%v %+v", err, problem.AsError(err))
	seed := key.Seed()
	for what, text := range shown {
		for _, secret := range []string{string(seed), fmt.Sprintf("%x", seed), fmt.Sprintf("%v", seed), jsonOf(t, seed)} {
			if strings.Contains(text, secret) {
				t.Errorf("%s shows the seed: %s", what, text)
			}
		}
		if what != "document" && strings.Contains(text, sealedOf(t, d.Data)) {
			t.Errorf("%s shows the sealed seed: %s", what, text)
		}
	}
}

func jsonOf(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	must(t, err)
	return strings.Trim(string(b), `"`)
}

func sealedOf(t testing.TB, record []byte) string {
	t.Helper()
	var s struct{ Seed string }
	if err := json.Unmarshal(record, &s); err != nil || s.Seed == "" {
		t.Fatalf("record %s has no seed: %v", record, err)
	}
	return s.Seed
}

func TestTheDirectoryAnswersAndSigns(t *testing.T) {
	v := fresh(t)
	id := create(t, v, "demo").ID
	held, ok, err := answering(v).Vacant(t.Context(), id, true)
	if err != nil || !ok || held.ID != id || held.State != lifecycle.Local {
		t.Fatalf("Vacant() = %+v, %t, %v", held, ok, err)
	}
	m, err := held.Behaviour(t.Context(), nil, envelope.Envelope{To: id, Payload: envelope.Message{Parts: []string{"hi"}}})
	if err != nil || m.Text() != "echo from "+id.Short()+": hi" {
		t.Errorf("Behaviour() = %q, %v", m.Text(), err)
	}
	if sig, err := held.Signer.Sign(t.Context(), []byte("x")); err != nil || !identity.Verify(id, []byte("x"), sig) {
		t.Errorf("the vacant's signature does not verify: %v", err)
	}
	if _, ok, err := answering(v).Vacant(t.Context(), identity.ID{1}, true); ok || err != nil {
		t.Errorf("Vacant() of another = %t, %v, want not hosted", ok, err)
	}
}

func TestASubstrateThatIsGoneFailsCallsOnly(t *testing.T) {
	s, va := memory.New(), vault(t)
	id := create(t, host(t, s, va, newClock().now, hostURL), "demo").ID
	v := hosttest.NewVacants(t, s, newClock().now, hostURL, vacants.Config{Vault: va})
	held, ok, err := answering(v).Vacant(t.Context(), id, false)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	_, err = held.Behaviour(t.Context(), nil, envelope.Envelope{To: id})
	wantKind(t, "Behaviour()", err, problem.SubstrateMisconfigured)
	if _, err := v.Pause(t.Context(), id); err != nil {
		t.Errorf("Pause() = %v", err)
	}
}

func TestAMemoryIsAtMostASecondOld(t *testing.T) {
	s, va, at := memory.New(), vault(t), newClock()
	here, there := host(t, s, va, at.now, hostURL), host(t, s, va, at.now, hostURL)
	id := create(t, here, "demo").ID
	state := func(v *vacants.Directory, fresh bool) lifecycle.State {
		t.Helper()
		held, _, err := answering(v).Vacant(t.Context(), id, fresh)
		must(t, err)
		return held.State
	}
	state(here, false)
	state(there, false)
	do(t, here, id, "pause")
	if got := state(here, false); got != lifecycle.Hibernating {
		t.Errorf("after its own write an instance sees %s, want HIBERNATING", got)
	}
	if got := state(there, false); got != lifecycle.Local {
		t.Errorf("another instance sees %s within the second, want its memory", got)
	}
	at.t = at.t.Add(time.Second)
	if got := state(there, false); got != lifecycle.Hibernating {
		t.Errorf("another instance sees %s after a second, want HIBERNATING", got)
	}
	do(t, here, id, "resume")
	if got := state(there, true); got != lifecycle.Active {
		t.Errorf("a fresh look sees %s, want ACTIVE", got)
	}
	if got := state(there, false); got != lifecycle.Active {
		t.Errorf("after a fresh look memory has %s, want ACTIVE", got)
	}
}

// overtaken runs a function between a read and its return.
type overtaken struct {
	store.Store
	meanwhile func()
}

func (o *overtaken) Doc(ctx context.Context, k store.Key) (store.Doc, error) {
	d, err := o.Store.Doc(ctx, k)
	if f := o.meanwhile; f != nil {
		o.meanwhile = nil
		f()
	}
	return d, err
}

func TestAReadThatAWriteOvertookIsNotRemembered(t *testing.T) {
	s := &overtaken{Store: memory.New()}
	v := host(t, s, vault(t), newClock().now, hostURL)
	id := create(t, v, "demo").ID
	s.meanwhile = func() {
		if _, err := v.Pause(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
	must(t, errorOf2(answering(v).Vacant(t.Context(), id, true)))
	held, _, err := answering(v).Vacant(t.Context(), id, false)
	if err != nil || held.State != lifecycle.Hibernating {
		t.Errorf("after Pause() returned a call sees %s, %v, want HIBERNATING", held.State, err)
	}
}

func TestTheMemoryIsBounded(t *testing.T) {
	v := fresh(t)
	for i := range 5000 {
		must(t, errorOf2(answering(v).Vacant(t.Context(), identity.ID{byte(i), byte(i >> 8), 1}, false)))
	}
	if n := vacants.Remembered(v); n > 1024 {
		t.Errorf("5,000 ids of strangers leave %d remembered, want at most 1,024", n)
	}
}

func TestOpenNamesTheVacantsThatAreNotClosed(t *testing.T) {
	s, va := memory.New(), vault(t)
	v := host(t, s, va, newClock().now, hostURL)
	if got, err := v.ListOpen(t.Context(), 10); err != nil || len(got) != 0 {
		t.Errorf("Open() of an empty host = %v, %v", got, err)
	}
	a, b, c := create(t, v, "a"), create(t, v, "b"), create(t, v, "c")
	do(t, v, a.ID, "sink")
	do(t, v, b.ID, "pause")
	for n, want := range map[int][]identity.ID{1: {b.ID}, 2: {b.ID, c.ID}, 9: {b.ID, c.ID}} {
		for _, v := range []*vacants.Directory{v, host(t, s, va, newClock().now, hostURL)} {
			got, err := v.ListOpen(t.Context(), n)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("Open(%d) = %v (-want +got):\n%s", n, err, diff)
			}
		}
	}
}

// listings counts how often documents are listed by the index.
type listings struct {
	store.Store
	n int
}

func (l *listings) Docs(ctx context.Context, r store.Range, n int, cursor string) ([]store.Doc, string, error) {
	if r.Index {
		l.n++
	}
	return l.Store.Docs(ctx, r, n, cursor)
}

func TestStrangersDoNotMakeAHostListItsVacants(t *testing.T) {
	s, at := &listings{Store: memory.New()}, newClock()
	v := host(t, s, vault(t), at.now, hostURL)
	a := create(t, v, "a").ID
	ask := func(want ...identity.ID) {
		t.Helper()
		got, err := v.ListOpen(t.Context(), 2)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("Open(2) = %v (-want +got):\n%s", err, diff)
		}
	}
	for range 100 {
		ask(a)
	}
	if s.n != 1 {
		t.Errorf("asked a hundred times in a second, the host listed its vacants %d times, want 1", s.n)
	}
	b := create(t, v, "b").ID
	ask(a, b) // its own writes are visible at once
	at.t = at.t.Add(time.Second)
	if ask(a, b); s.n != 3 {
		t.Errorf("after a write and a second the host has listed %d times, want 3", s.n)
	}
}

func TestAHostURLThatCallersCannotUseIsRefused(t *testing.T) {
	for _, u := range []string{"127.0.0.1:8080", "ftp://x", "http://", "http://x?y", "http://x#y", "http://u:p@x"} {
		_, err := vacants.NewRecords(memory.New(), time.Now, u)
		wantKind(t, "NewRecords("+u+")", err, problem.Usage)
	}
}

func FuzzRecord(f *testing.F) {
	v := host(f, memory.New(), vault(f), newClock().now, hostURL)
	id := create(f, v, "demo").ID
	d, err := v.Store.Doc(context.Background(), vacants.RecordKey(id))
	must(f, err)
	f.Add(d.Data)
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := vacants.RecordDocs.Parse(store.Doc{Key: vacants.RecordKey(id), Data: data})
		if err != nil && !problem.Is(err, problem.Damaged) {
			t.Errorf("RecordDocs.Parse() = %v, want damage", err)
		}
		if err == nil && r.ID != id {
			t.Errorf("RecordDocs.Parse() = a record of %v, want %v", r.ID, id)
		}
	})
}
