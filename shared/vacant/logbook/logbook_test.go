package logbook

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

type vector struct {
	Name  string
	Input struct {
		Seed    string
		Entries []struct {
			Kind, TS    string
			PayloadJSON string `json:"payload_json"`
		}
		PublicKey string `json:"public_key"`
		Lines     []string
	}
	Expect struct {
		Entries []expected
		Tip     string
		Valid   bool
		Message string
	}
}

type expected struct {
	Kind, TS       string
	PrevHash       string `json:"prev_hash"`
	SigningPayload string `json:"signing_payload"`
	Hash           string
	Signature      string
	Line           string
}

func vectors(t testing.TB) []vector {
	t.Helper()
	b, err := os.ReadFile("testdata/logbook.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []vector }
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) != 18 {
		t.Fatalf("logbook.json has %d cases, want 18", len(file.Cases))
	}
	return file.Cases
}

func keyOf(t testing.TB, seed string) *identity.Key {
	t.Helper()
	b, err := hex.DecodeString(seed)
	if err != nil {
		t.Fatal(err)
	}
	k, err := identity.KeyFromSeed(b)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func canonical(t testing.TB, text string) []byte {
	t.Helper()
	v, err := canon.Parse([]byte(text), canon.DefaultLimits())
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v.AppendCJ(nil)
}

func instant(t testing.TB, s string) time.Time {
	t.Helper()
	at, err := canon.ParseTime(s)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestEntriesSignHashAndPrintAsTheReferencesDo(t *testing.T) {
	for _, c := range vectors(t) {
		if c.Input.Seed == "" {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			key := keyOf(t, c.Input.Seed)
			var entries []Entry
			var prev *Entry
			for i, in := range c.Input.Entries {
				e := Next(prev, in.Kind, instant(t, in.TS), canonical(t, in.PayloadJSON))
				b := e.AppendSignedBytes(nil)
				// Some kinds of the vectors contain control characters, which Sign refuses.
				e.Signature, _ = key.Sign(t.Context(), b)
				got := expected{
					Kind: e.Kind, TS: canon.FormatTime(e.Time), PrevHash: e.Prev.String(), SigningPayload: hex.EncodeToString(b),
					Hash: e.Hash().String(), Signature: hex.EncodeToString(e.Signature), Line: string(e.AppendLine(nil)),
				}
				if diff := cmp.Diff(c.Expect.Entries[i], got); diff != "" {
					t.Fatalf("entry %d (-want +got):\n%s", i, diff)
				}
				readsBack(t, e)
				entries = append(entries, e)
				prev = &entries[i]
			}
			if err := VerifyChain(key.ID(), entries); err != nil {
				t.Errorf("VerifyChain() = %v, want nil", err)
			}
			if got := prev.Hash().String(); got != c.Expect.Tip {
				t.Errorf("tip = %s, want %s", got, c.Expect.Tip)
			}
		})
	}
}

func readsBack(t *testing.T, e Entry) {
	t.Helper()
	if got, err := ParseLine(e.AppendLine(nil)); err != nil || !cmp.Equal(got, e) {
		t.Errorf("ParseLine(AppendLine()) = %+v, %v, want %+v", got, err, e)
	}
	row, err := e.MarshalBinary()
	var got Entry
	if err := errors.Join(err, got.UnmarshalBinary(row)); err != nil || !cmp.Equal(got, e) {
		t.Errorf("UnmarshalBinary(MarshalBinary()) = %+v, %v, want %+v", got, err, e)
	}
}

func TestDamagedLogbooksFailWhereAndAsTheReferenceSays(t *testing.T) {
	for _, c := range vectors(t) {
		if c.Input.Seed != "" {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			owner, err := identity.ParseID(c.Input.PublicKey)
			if err != nil {
				t.Fatal(err)
			}
			var entries []Entry
			for _, line := range c.Input.Lines {
				e, err := ParseLine([]byte(line))
				if err != nil {
					t.Fatalf("ParseLine(%s) = %v", line, err)
				}
				if got := string(e.AppendLine(nil)); got != line {
					t.Errorf("AppendLine() = %s, want %s", got, line)
				}
				entries = append(entries, e)
			}
			err = VerifyChain(owner, entries)
			if c.Expect.Valid {
				if err != nil {
					t.Errorf("VerifyChain() = %v, want nil", err)
				}
				return
			}
			var broken *ChainError
			if !errors.As(err, &broken) || !problem.Is(err, problem.Untrusted) || problem.AsError(err).Text() != c.Expect.Message || err.Error() != c.Expect.Message {
				t.Errorf("VerifyChain() = %v, want %s", err, c.Expect.Message)
			}
			if broken.IsLinkWrong() != strings.Contains(c.Expect.Message, "prev_hash") {
				t.Errorf("IsLinkWrong() = %t for %s", broken.IsLinkWrong(), c.Expect.Message)
			}
		})
	}
}

// The seeds of PROTOCOL §24.
const (
	seedA = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
	seedB = "202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f"
)

var day = time.Date(2026, 5, 6, 0, 0, 0, 0, time.UTC)

// book returns the logbook of PROTOCOL §24 and its owner's key.
func book(t testing.TB) (*identity.Key, []Entry) {
	t.Helper()
	a, b := keyOf(t, seedA), keyOf(t, seedB)
	first := Next(nil, KindGenesis, day, GenesisPayload("alice", a.ID()))
	_, err := first.Sign(t.Context(), a)
	second := Next(&first, "COMPOSITE_DELEGATE", day.Add(time.Second+time.Microsecond),
		[]byte(`{ "subtask_kind": "dict", "child_id": "`+b.ID().String()+`" }`)) // Sign converts it to its canonical form
	_, err2 := second.Sign(t.Context(), a)
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	return a, []Entry{first, second}
}

func TestTheLogOfTheWireSpecification(t *testing.T) {
	a, entries := book(t)
	var got []string
	for _, e := range entries {
		got = append(got, e.Hash().String(), hex.EncodeToString(e.Signature))
		readsBack(t, e)
	}
	want := []string{
		"089ab852db8cad64703a6a842b4c10d328f6aa83f2406dd3ff9b47d42d9a9eae",
		"74b7aaba9d8bd76bbc167fbd0dccedf267a7629ae3953f9e1460932413115a3973566ba54c5c8c8c2d907ad4ee290d9954533ba50819f789a49cfc78f0f93800",
		"509188bc3a0f707a9d62e3503f924bba22f44f55c71548c17807e9ada288f63e",
		"7083965d760f12b8c9b6632d2d63e9428981e29f653521e1b8087f16c034fb1a188ef76c172c444121b0b433a169f05211be9413603f5caa4978e8213becce08",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
	if err := VerifyChain(a.ID(), entries); err != nil {
		t.Errorf("VerifyChain() = %v", err)
	}
}

func TestPayloadsThatAHostWrites(t *testing.T) {
	a := keyOf(t, seedA)
	got := []string{
		string(GenesisPayload(`al"ice`, a.ID())), string(StateChangedPayload(lifecycle.Active, lifecycle.Hibernating)),
		string(CardSignedPayload(identity.Hash{1}, "http://x/é")), string(KeyExportedPayload("https://x")), string(DeletedPayload("bob", a.ID())),
	}
	want := []string{
		`{"name":"al\"ice","vacant_id":"03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8"}`,
		`{"from":"ACTIVE","to":"HIBERNATING"}`,
		`{"card_hash":"0100000000000000000000000000000000000000000000000000000000000000","endpoint":"http://x/é"}`,
		`{"host":"https://x"}`,
		`{"name":"bob","vacant_id":"03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8"}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("payloads (-want +got):\n%s", diff)
	}
}

func TestAVerifierGoesOnAfterDamage(t *testing.T) {
	a, _ := book(t)
	var entries []Entry
	var prev *Entry
	for i := range 6 {
		e := Next(prev, "TICK", day.Add(time.Duration(i)*time.Second), []byte(`{}`))
		if _, err := e.Sign(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		entries = append(entries, e)
		prev = &entries[i]
	}
	entries[1].Signature = entries[0].Signature
	entries = append(entries[:3], entries[4:]...) // without entry 3
	v := Verifier{Owner: a.ID()}
	var got []string
	for i := range entries {
		if err := v.Verify(&entries[i]); err != nil {
			got = append(got, err.Error()[:30])
		}
	}
	want := []string{"Logbook entry 1 signature inva", "Logbook entry 3 prev_hash mism"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("damage found (-want +got):\n%s", diff)
	}
}

func TestTimesAreSignedInUTCAndWholeMicroseconds(t *testing.T) {
	a := keyOf(t, seedA)
	e := Next(nil, "K", day.Add(1999*time.Nanosecond).In(time.FixedZone("", 5*3600)), []byte(`{}`))
	if _, err := e.Sign(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if want := day.Add(time.Microsecond); e.Time != want {
		t.Errorf("time = %v, want %v", e.Time, want)
	}
	readsBack(t, e)
	line := strings.Replace(string(e.AppendLine(nil)), "+00:00", "", 1)
	if naive, err := ParseLine([]byte(line)); err != nil || !naive.Verify(a.ID()) {
		t.Errorf("ParseLine(a time without offset) = %v, %v, want it as UTC", naive.Time, err)
	}
	offset := strings.Replace(string(e.AppendLine(nil)), "T00:00:00.000001+00:00", "T07:00:00.000001+07:00", 1)
	if other, err := ParseLine([]byte(offset)); err != nil || !other.Verify(a.ID()) {
		t.Errorf("ParseLine(another offset) = %v, %v, want it in UTC", other.Time, err)
	}
}

func TestSignRefusalLeavesTheEntryUnchanged(t *testing.T) {
	a := keyOf(t, seedA)
	tests := map[string]struct {
		kind, payload string
		at            time.Time
		want          string
	}{
		"0x1f in the kind":   {"A\x1fB", `{}`, day, "kind: expected no control characters, got U+001F at byte 1"},
		"a tab in the kind":  {"A\tB", `{}`, day, "kind: expected no control characters, got U+0009 at byte 1"},
		"no UTF-8":           {"A\xff", `{}`, day, "kind: expected UTF-8, got other bytes"},
		"a blank kind":       {" ", `{}`, day, "kind: expected a name, got a blank string"},
		"no kind":            {"", `{}`, day, "kind: expected a name, got a blank string"},
		"a payload of text":  {"K", `"x"`, day, "payload: expected an object, got a string"},
		"no payload":         {"K", ``, day, "payload: "},
		"a lone surrogate":   {"K", `{"a":"\ud800"}`, day, "payload: "},
		"a duplicate key":    {"K", `{"a":1,"\u0061":2}`, day, "payload: "},
		"NaN":                {"K", `{"a":NaN}`, day, "payload: "},
		"nesting":            {"K", strings.Repeat(`{"a":`, 31) + `{}` + strings.Repeat(`}`, 31), day, "payload: "},
		"the year 0":         {"K", `{}`, time.Date(0, 12, 31, 0, 0, 0, 0, time.UTC), "ts: expected a time in the years 1 to 9999, got another year"},
		"the year 10000":     {"K", `{}`, time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("", -3600)), "ts: expected a time in the years 1 to 9999, got another year"},
		"a payload too long": {"K", `{"a":"` + strings.Repeat("x", MaxPayloadBytes) + `"}`, day, "payload: expected at most 32768 bytes, got 32776"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			e := Next(nil, tt.kind, tt.at, []byte(tt.payload))
			before := e
			_, err := e.Sign(t.Context(), a)
			if k := problem.AsError(err); err == nil || k.Kind != problem.Malformed && k.Kind != problem.TooLarge || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("Sign() = %v, want %s", err, tt.want)
			}
			if diff := cmp.Diff(before, e); diff != "" {
				t.Errorf("Sign() changed the entry:\n%s", diff)
			}
		})
	}
}

type broken struct{ identity.Signer }

func (broken) Sign(context.Context, []byte) ([]byte, error) {
	return nil, problem.New(problem.Unavailable, "vault away")
}

func TestAnEntryThatCouldNotBeSignedStaysUnsigned(t *testing.T) {
	e := Next(nil, "K", day, []byte(`{}`))
	if h, err := e.Sign(t.Context(), broken{keyOf(t, seedA)}); !problem.Is(err, problem.Unavailable) || e.Signature != nil || !h.IsZero() {
		t.Errorf("Sign() = %s, %v, want unavailable", h, err)
	}
}

func TestAPayloadThatSignTakesHasALineThatIsRead(t *testing.T) {
	// 0x7f has one byte in the payload and six in a line. No other character grows more.
	fill := strings.Repeat("\x7f", MaxPayloadBytes-len(`{"a":""}`))
	e := Next(nil, strings.Repeat("k", 1000), day, []byte(`{"a":"`+fill+`"}`))
	if _, err := e.Sign(t.Context(), keyOf(t, seedA)); err != nil {
		t.Fatal(err)
	}
	readsBack(t, e)
}

func TestLinesThatAreNoEntryAreRefusedByField(t *testing.T) {
	_, entries := book(t)
	good := string(entries[0].AppendLine(nil))
	if _, err := ParseLine([]byte(good + "\n")); err != nil {
		t.Fatalf("ParseLine(with a newline) = %v", err)
	}
	if e, err := ParseLine([]byte(strings.Replace(good, "{", `{"extra": [1], `, 1))); err != nil || !cmp.Equal(e, entries[0]) {
		t.Errorf("ParseLine(with an unknown key) = %+v, %v, want it ignored", e, err)
	}
	tests := []struct{ name, old, new, want string }{
		{"not JSON", good, `{`, "log entry: "},
		{"empty", good, ``, "log entry: "},
		{"an array", good, `[]`, "log entry: expected an object, got an array"},
		{"two on a line", good, good + good, "log entry: "},
		{"no kind", `"kind"`, `"kinds"`, "kind: expected a string, got nothing"},
		{"kind of another type", `"GENESIS"`, `7`, "kind: expected a string, got an integer"},
		{"a blank kind", `GENESIS`, "\u2003", "kind: expected a name, got a blank string"},
		{"kind twice", `{"kind"`, `{"kind": "X", "kind"`, "log entry: kind: expected the key once, got it twice"},
		{"no payload", `"payload"`, `"Payload"`, "payload: expected an object, got nothing"},
		{"payload is null", `"payload": {`, `"payload": null, "y": {`, "payload: expected an object, got null"},
		{"prev too short", strings.Repeat("0", 64), "00", "prev_hash: expected 32 bytes of hex, got 1"},
		{"prev is null", `"prev_hash": "`, `"prev_hash": null, "y": "`, "prev_hash: expected a string, got null"},
		{"signature not hex", `"signature": "7`, `"signature": "g`, "signature: expected hexadecimal digits"},
		{"no time", `"ts"`, `"time"`, "ts: expected a string, got nothing"},
		{"time not a time", "2026-05-06", "2026-05-36", "ts: "},
		{"time as a number", `"2026-05-06T00:00:00+00:00"`, `1.5`, "ts: expected a string, got a number"},
		{"invalid UTF-8", "alice", "al\xffice", "log entry: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			line := strings.Replace(good, tt.old, tt.new, 1)
			if line == good {
				t.Fatalf("%q is not in the line", tt.old)
			}
			e, err := ParseLine([]byte(line))
			if !problem.Is(err, problem.Malformed) || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("ParseLine(%s) = %v, want %s", line, err, tt.want)
			}
			if diff := cmp.Diff(Entry{}, e, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("ParseLine() left an entry: %s", diff)
			}
		})
	}
}
