package event_test

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/event"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

func seeded(t testing.TB, n byte) *identity.Key {
	t.Helper()
	key, err := identity.KeyFromSeed([]byte(strings.Repeat(string(rune(n)), identity.Size)))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestRegisterEventsAreTheReferencesByteForByte(t *testing.T) {
	var file struct {
		Cases []struct {
			Name  string
			Input struct {
				Seed           string
				CardHash       identity.Hash `json:"card_hash"`
				HaloVersion    int64         `json:"halo_version"`
				Visibility     lifecycle.Visibility
				TS             int64         `json:"ts_ms"`
				ActorSeq       int64         `json:"actor_seq"`
				IdempotencyKey string        `json:"idempotency_key"`
				Prev           identity.Hash `json:"prev_event_hash"`
			}
			Expect struct{ Canonical, Signature, Event_hash string }
		}
	}
	data, err := os.ReadFile("testdata/registry_events.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, c := range file.Cases {
		if !strings.HasPrefix(c.Name, "register") {
			continue // the transparency log has the tests for Merkle trees
		}
		ran++
		t.Run(c.Name, func(t *testing.T) {
			seed, err := hex.DecodeString(c.Input.Seed)
			if err != nil {
				t.Fatal(err)
			}
			key, err := identity.KeyFromSeed(seed)
			if err != nil {
				t.Fatal(err)
			}
			in := c.Input
			e := event.Event{Type: event.Register, Actor: key.ID(), IdempotencyKey: in.IdempotencyKey, Time: in.TS, ActorSeq: in.ActorSeq,
				Payload: event.RegisterPayload(in.CardHash, in.HaloVersion, key.ID(), in.Visibility)}
			// Event.Sign would refuse the control characters in the keys of the vectors.
			if e.Signature, err = key.Sign(t.Context(), e.AppendSignedBytes(nil)); err != nil {
				t.Fatal(err)
			}
			got := []string{hex.EncodeToString(e.AppendSignedBytes(nil)), hex.EncodeToString(e.Signature), e.Hash(in.Prev).String()}
			if diff := cmp.Diff([]string{c.Expect.Canonical, c.Expect.Signature, c.Expect.Event_hash}, got); diff != "" {
				t.Errorf("canonical, signature, hash (-want +got):\n%s", diff)
			}
			if err := e.Check(); err != nil {
				t.Errorf("Check() = %v, want nil", err)
			}
			if !e.Verify() {
				t.Error("Verify() = false, want true")
			}
			want := event.RegisterContent{CardHash: in.CardHash, HaloVersion: in.HaloVersion, ID: key.ID(), Visibility: in.Visibility}
			said, err := e.ParseRegister()
			if diff := cmp.Diff(want, said); err != nil || diff != "" {
				t.Errorf("Registered() = %v (-want +got):\n%s", err, diff)
			}
		})
	}
	if ran != 20 {
		t.Errorf("ran %d register vectors, want 20", ran)
	}
}

func TestAnEventThatIsChangedDoesNotVerify(t *testing.T) {
	key, other := seeded(t, 1), seeded(t, 2)
	for name, change := range map[string]func(*event.Event){
		"type":      func(e *event.Event) { e.Type = event.Revoke },
		"actor":     func(e *event.Event) { e.Actor = other.ID() },
		"payload":   func(e *event.Event) { e.Payload = append(e.Payload, ' ') },
		"key":       func(e *event.Event) { e.IdempotencyKey += "x" },
		"time":      func(e *event.Event) { e.Time++ },
		"actor seq": func(e *event.Event) { e.ActorSeq++ },
		"signature": func(e *event.Event) { e.Signature[40] ^= 1 },
		"unsigned":  func(e *event.Event) { e.Signature = nil },
	} {
		t.Run(name, func(t *testing.T) {
			e := signed(t, key)
			before := e.Hash(identity.Hash{})
			change(&e)
			if e.Verify() {
				t.Error("Verify() = true, want false")
			}
			if e.Hash(identity.Hash{}) == before {
				t.Error("Hash() is as before the change")
			}
		})
	}
}

func signed(t testing.TB, key *identity.Key) event.Event {
	t.Helper()
	e := event.Event{Type: event.Register, Actor: key.ID(), IdempotencyKey: "k", Time: 1_700_000_000_000, ActorSeq: 1,
		Payload: event.RegisterPayload(identity.Hash{1}, 1, key.ID(), lifecycle.Public)}
	if err := e.Sign(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	return e
}

func TestSignRefusesInvalidEvents(t *testing.T) {
	key := seeded(t, 1)
	for name, c := range map[string]struct {
		change func(*event.Event)
		field  string
	}{
		"another type":          {func(e *event.Event) { e.Type = "review" }, "event type"},
		"a key of small order":  {func(e *event.Event) { e.Actor = identity.ID{1} }, "small order"},
		"a long key":            {func(e *event.Event) { e.IdempotencyKey = strings.Repeat("k", event.MaxIdempotencyKeyBytes+1) }, "event_idempotency_key"},
		"a key of other bytes":  {func(e *event.Event) { e.IdempotencyKey = "\xff" }, "event_idempotency_key"},
		"a separator in a key":  {func(e *event.Event) { e.IdempotencyKey = "a\x1fb" }, "event_idempotency_key"},
		"a time before 1970":    {func(e *event.Event) { e.Time = -1 }, "event_ts_ms"},
		"count 0":               {func(e *event.Event) { e.ActorSeq = 0 }, "event_actor_seq"},
		"a count above 2^53-1":  {func(e *event.Event) { e.ActorSeq = 1 << 53 }, "event_actor_seq"},
		"a payload that is big": {func(e *event.Event) { e.Payload = make([]byte, event.MaxPayloadBytes+1) }, "event payload"},
		"a payload of no JSON":  {func(e *event.Event) { e.Payload = []byte("{") }, "event payload"},
		"a list for a payload":  {func(e *event.Event) { e.Payload = []byte("[]") }, "event payload"},
		"a stranger's key":      {func(e *event.Event) { e.Actor = seeded(t, 2).ID() }, "cannot be signed by"},
	} {
		t.Run(name, func(t *testing.T) {
			e := signed(t, key)
			e.Signature = nil
			c.change(&e)
			err := e.Sign(t.Context(), key)
			if err == nil || !strings.Contains(problem.AsError(err).Text(), c.field) {
				t.Errorf("Sign() = %v, want a refusal of %s", err, c.field)
			}
			if e.Signature != nil {
				t.Error("Sign() signed all the same")
			}
		})
	}
}

func TestARegisterPayloadOfAnythingElseIsNotRead(t *testing.T) {
	key := seeded(t, 1)
	for name, payload := range map[string]string{
		"of another actor":     string(event.RegisterPayload(identity.Hash{1}, 1, seeded(t, 2).ID(), lifecycle.Public)),
		"of no visibility":     string(event.RegisterPayload(identity.Hash{1}, 1, key.ID(), "SOME")),
		"with more in it":      strings.Replace(string(event.RegisterPayload(identity.Hash{1}, 1, key.ID(), lifecycle.Public)), `{`, `{"a":1,`, 1),
		"without its card":     `{"halo_version":1,"vacant_id":"` + key.ID().String() + `","visibility":"PUBLIC"}`,
		"with another spacing": strings.Replace(string(event.RegisterPayload(identity.Hash{1}, 1, key.ID(), lifecycle.Public)), `:`, `: `, 1),
	} {
		e := event.Event{Type: event.Register, Actor: key.ID(), Payload: []byte(payload)}
		if got, err := e.ParseRegister(); err == nil {
			t.Errorf("%s: Registered() = %+v, want a refusal", name, got)
		}
	}
	e := event.Event{Type: event.Revoke, Actor: key.ID(), Payload: event.RevokePayload(key.ID(), "lost")}
	if _, err := e.ParseRegister(); err == nil {
		t.Error("Registered() of a revocation = nil error, want a refusal")
	}
}

func TestARevocationIsReadInBothItsForms(t *testing.T) {
	key := seeded(t, 1)
	for _, reason := range []string{"key lost", "密钥泄露", "perdu à l'été 😀"} {
		for form, payload := range map[string][]byte{"UTF-8": event.RevokePayload(key.ID(), reason), "ASCII": event.RevokePayloadASCII(key.ID(), reason)} {
			e := event.Event{Type: event.Revoke, Actor: key.ID(), Payload: payload, IdempotencyKey: "r", ActorSeq: 1}
			if err := e.Sign(t.Context(), key); err != nil {
				t.Fatal(err)
			}
			if got, err := e.ParseRevoke(); err != nil || got != reason {
				t.Errorf("Revoked() of %s = %q, %v, want %q", form, got, err, reason)
			}
		}
	}
	other := event.Event{Type: event.Revoke, Actor: key.ID(), Payload: event.RevokePayload(seeded(t, 2).ID(), "lost")}
	if got, err := other.ParseRevoke(); err == nil {
		t.Errorf("Revoked() of another's key = %q, want a refusal", got)
	}
}

func TestAReasonIsATextOfSomeLength(t *testing.T) {
	for reason, ok := range map[string]bool{
		"key lost": true, strings.Repeat("r", event.MaxReasonBytes): true,
		"": false, " \t": false, "a\x1fb": false, "\xff": false, strings.Repeat("r", event.MaxReasonBytes+1): false,
	} {
		if err := event.CheckReason(reason); (err == nil) != ok {
			t.Errorf("CheckReason(%.20q) = %v, want accepted: %v", reason, err, ok)
		}
	}
	worst := event.RevokePayloadASCII(seeded(t, 1).ID(), strings.Repeat("\x00", event.MaxReasonBytes))
	if len(worst) > event.MaxPayloadBytes {
		t.Errorf("the longest revocation has %d bytes, above MaxPayload", len(worst))
	}
}

func TestAKeyThatReplacesACardNamesIt(t *testing.T) {
	card := identity.Sum([]byte("a card"))
	if got, ok := event.ParseReplacesKey(event.ReplacesKey(card)); !ok || got != card {
		t.Errorf("Replaces(ReplacesKey()) = %v, %v, want the card", got, ok)
	}
	if got, ok := event.ParseReplacesKey(event.ReplacesKeyAt(card, 7)); !ok || got != card {
		t.Errorf("Replaces(ReplacesKeyAt()) = %v, %v, want the card", got, ok)
	}
	for _, key := range []string{"", "replaces:", "replaces:" + strings.ToUpper(card.String()), "replaces: " + card.String(),
		event.ReplacesKey(card) + "0", "Replaces:" + card.String(), card.String()} {
		if got, ok := event.ParseReplacesKey(key); ok {
			t.Errorf("Replaces(%q) = %v, want none", key, got)
		}
	}
}

func FuzzPayloadsThatAreReadAreWrittenAgain(f *testing.F) {
	key := seeded(f, 1)
	f.Add(event.RegisterPayload(identity.Hash{1}, 1, key.ID(), lifecycle.Public))
	f.Add(event.RevokePayload(key.ID(), "é"))
	f.Add(event.RevokePayloadASCII(key.ID(), "é"))
	f.Fuzz(func(t *testing.T, payload []byte) {
		e := event.Event{Type: event.Register, Actor: key.ID(), Payload: payload}
		if r, err := e.ParseRegister(); err == nil {
			if again := event.RegisterPayload(r.CardHash, r.HaloVersion, r.ID, r.Visibility); string(again) != string(payload) {
				t.Errorf("RegisterPayload() = %s, want %s", again, payload)
			}
		}
		e.Type = event.Revoke
		if reason, err := e.ParseRevoke(); err == nil {
			utf8, ascii := event.RevokePayload(key.ID(), reason), event.RevokePayloadASCII(key.ID(), reason)
			if string(utf8) != string(payload) && string(ascii) != string(payload) {
				t.Errorf("RevokePayload() = %s, want %s", utf8, payload)
			}
		}
		if card, ok := event.ParseReplacesKey(string(payload)); ok && !strings.HasPrefix(string(payload), event.ReplacesKey(card)) {
			t.Errorf("Replaces(%q) took another spelling", payload)
		}
	})
}
