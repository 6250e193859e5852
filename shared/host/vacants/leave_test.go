package vacants_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/answer/hosttest"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

func TestAnExportHoldsAllThatAVacantIsAndSaysThatItsKeyLeft(t *testing.T) {
	v, key := fresh(t), newKey(t)
	must(t, prepare(t, v, "import", key))
	b, r, err := v.Export(t.Context(), key.ID())
	if err != nil || r.State != lifecycle.Active {
		t.Fatalf("Export() = %s, %v", r.State, err)
	}
	var file struct {
		Format, Name, ID string
		Seed             string `json:"seed_hex"`
		Card             json.RawMessage
		Logbook          []json.RawMessage
		Chains           map[string]json.RawMessage
	}
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	seed, err := identity.ParseHex(file.Seed)
	must(t, err)
	if k, err := identity.KeyFromSeed(seed); err != nil || k.ID() != key.ID() || file.ID != key.ID().String() {
		t.Errorf("the export's key is %v, %v, its id %s, want %s", k, err, file.ID, key.ID())
	}
	if diff := cmp.Diff([]string{"vacancy-export/1", "demo", string(r.Card)}, []string{file.Format, file.Name, string(file.Card)}); diff != "" {
		t.Errorf("format, name and card (-want +got):\n%s", diff)
	}
	if got, want := string(file.Chains[identity.ID{1}.String()]), `{"one":1}`; got != want || len(file.Chains) != 2 {
		t.Errorf("chains = %s, want two, the first %s", got, want)
	}
	entries := make([]logbook.Entry, len(file.Logbook))
	for i, line := range file.Logbook {
		entries[i], err = logbook.ParseLine(line)
		must(t, err)
	}
	if err := logbook.VerifyChain(key.ID(), entries); err != nil {
		t.Errorf("logbook: %v", err)
	}
	last := entries[len(entries)-1]
	if got, want := last.Kind+" "+string(last.Payload), `KEY_EXPORTED {"host":"`+hostURL+`"}`; got != want {
		t.Errorf("last entry = %s, want %s", got, want)
	}
	if diff := cmp.Diff(log(t, v, key.ID()), entries); diff != "" {
		t.Errorf("logbook here and there (-here +there):\n%s", diff)
	}
}

// opening is a vault that counts opened seeds, and can be unreachable.
type opening struct {
	custody.Vault
	seeds int
	away  bool
}

func (o *opening) Open(ctx context.Context, bound string, box []byte) ([]byte, error) {
	if strings.HasPrefix(bound, "vacant:") {
		o.seeds++
		if o.away {
			return nil, problem.New(problem.Unavailable, "the vault is away")
		}
	}
	return o.Vault.Open(ctx, bound, box)
}

func TestAnExportWhoseKeyCannotBeOpenedLeavesNoEntry(t *testing.T) {
	va := &opening{Vault: vault(t)}
	v := host(t, memory.New(), va, newClock().now, hostURL)
	id := create(t, v, "demo").ID
	v.Close()
	va.away = true
	b, _, err := v.Export(t.Context(), id)
	wantKind(t, "Export()", err, problem.Unavailable)
	if n := len(log(t, v, id)); n != 1 || b != nil {
		t.Errorf("it left %d entries and %d bytes, want 1 and none", n, len(b))
	}
}

func TestAForgedEnvelopeOpensNoSeed(t *testing.T) {
	s, va := memory.New(), &opening{Vault: vault(t)}
	id := create(t, host(t, s, va, newClock().now, hostURL), "demo").ID
	h := pipeline(s, va, host(t, s, va, newClock().now, hostURL)) // an instance with empty caches
	va.seeds = 0
	caller := newKey(t)
	forged := signed(t, caller, id, "hi", newClock().t)
	forged.Payload.Parts = []string{"ho"}
	for range 3 {
		if o := h.Send(t.Context(), id, forged); !problem.Is(o.Problem, problem.BadSignature) {
			t.Errorf("Send(forged) = %v, want a bad signature", o.Problem)
		}
	}
	if va.seeds != 0 {
		t.Errorf("forged envelopes opened %d seeds, want none", va.seeds)
	}
	if o := h.Send(t.Context(), id, signed(t, caller, id, "hi", newClock().t)); o.Problem != nil || va.seeds != 1 {
		t.Errorf("Send() = %v after %d openings, want an answer after 1", o.Problem, va.seeds)
	}
}

func TestWhileAVaultIsAwayCallsAreRefusedAndNothingIsWritten(t *testing.T) {
	s, va := memory.New(), &opening{Vault: vault(t)}
	id := create(t, host(t, s, va, newClock().now, hostURL), "demo").ID
	h := pipeline(s, va, host(t, s, va, newClock().now, hostURL))
	caller := newKey(t)
	e := signed(t, caller, id, "hi", newClock().t)
	va.away = true
	if o := h.Send(t.Context(), id, e); !problem.Is(o.Problem, problem.Unavailable) {
		t.Errorf("Send() = %v, want unavailable", o.Problem)
	}
	pair := call.Pair{Caller: caller.ID(), Vacant: id}
	for _, stream := range []store.Stream{pair.Requests(), pair.Responses()} {
		if tip, err := s.Tip(t.Context(), stream); err != nil || tip.Position != 0 {
			t.Errorf("%s has %d rows, %v, want none", stream, tip.Position, err)
		}
	}
	va.away = false
	if o := h.Send(t.Context(), id, e); o.Problem != nil {
		t.Errorf("the same bytes again = %v, want the answer", o.Problem)
	}
}

func TestAHostWithoutAURLTakesVacantsOnceItIsSet(t *testing.T) {
	s, va := memory.New(), vault(t)
	v := host(t, s, va, newClock().now, "")
	_, err := v.Create(t.Context(), vacants.CreateSpec{Name: "demo", Capability: "c", Substrate: "echo"})
	wantKind(t, "Create() before the URL is set", err, problem.Conflict)
	for _, bad := range []string{"", "vacancy.example", "ftp://x", "https://u:p@x"} {
		_, err := v.SetURL(t.Context(), bad)
		wantKind(t, "SetURL("+bad+")", err, problem.Usage)
	}
	if n, err := v.SetURL(t.Context(), "https://one.example/"); n != 0 || err != nil {
		t.Fatalf("SetURL() = %d, %v", n, err)
	}
	r := create(t, v, "demo")
	other := host(t, s, va, newClock().now, "")
	if n, err := other.SetURL(t.Context(), "https://two.example"); n != 1 || err != nil {
		t.Fatalf("SetURL(another) = %d, %v, want one card signed again", n, err)
	}
	if n, err := v.SetURL(t.Context(), "https://two.example/"); n != 0 || err != nil {
		t.Errorf("SetURL(the same) = %d, %v, want nothing to do", n, err)
	}
	lines := story(t, v, r.ID)
	if want := `"endpoint":"https://two.example/v/` + r.ID.String() + `/a2a/message/send"}`; len(lines) != 2 || !strings.HasSuffix(lines[1], want) {
		t.Errorf("logbook = %v, want it to end in %s", lines, want)
	}
	fixed := host(t, s, va, newClock().now, hostURL)
	_, err = fixed.SetURL(t.Context(), "https://two.example")
	wantKind(t, "SetURL() where the host fixes it", err, problem.Conflict)
	if n, err := fixed.SetURL(t.Context(), hostURL); n != 1 || err != nil {
		t.Errorf("SetURL(its own) = %d, %v, want one card signed again", n, err)
	}
}

// A URL that is set between a card's signature and its commit is in the card.
func TestACardSignedUnderAnOldURLIsSignedFresh(t *testing.T) {
	s, va := memory.New(), vault(t)
	setter := host(t, s, va, newClock().now, "")
	must(t, errorOf(setter.SetURL(t.Context(), "https://one.example")))
	moved := false
	racing := &hooked{Store: s, before: func(writes []store.Write) {
		if _, ok := writes[0].(store.Append); ok && !moved {
			moved = true
			if n, err := setter.SetURL(t.Context(), "https://two.example"); n != 0 || err != nil {
				t.Errorf("SetURL() = %d, %v, want no card there yet", n, err)
			}
		}
	}}
	r := create(t, host(t, racing, va, newClock().now, ""), "demo")
	if !moved || !strings.Contains(string(r.Card), "https://two.example/v/") {
		t.Errorf("card = %s, want the URL set meanwhile", r.Card)
	}
}

// hooked is a store that calls a function before each commit.
type hooked struct {
	store.Store
	before func([]store.Write)
}

func (h *hooked) Commit(ctx context.Context, writes ...store.Write) error {
	h.before(writes)
	return h.Store.Commit(ctx, writes...)
}

func TestAHostWhoseIdentityLiesElsewhereMakesNone(t *testing.T) {
	s, key := memory.New(), newKey(t)
	away := problem.New(problem.Unavailable, "the key service is away")
	v := hosttest.NewVacants(t, s, newClock().now, hostURL, vacants.Config{
		Vault: vault(t),
		Identity: func(context.Context) (identity.Signer, error) {
			if away != nil {
				return nil, away
			}
			return key, nil
		},
	})
	_, err := v.HostID(t.Context())
	wantKind(t, "HostID() while it is away", err, problem.Unavailable)
	away = nil
	if id, err := v.HostID(t.Context()); err != nil || id != key.ID() {
		t.Errorf("HostID() = %s, %v, want %s", id, err, key.ID())
	}
	if self, err := v.HostSigner(t.Context()); err != nil || self.ID() != key.ID() {
		t.Errorf("HostSigner() = %v, %v, want %s", self, err, key.ID())
	}
	if d, err := s.Doc(t.Context(), vacants.HostIdentityKey()); err != nil || d.Version != 0 {
		t.Errorf("a software identity was made beside it: %d, %v", d.Version, err)
	}
}
