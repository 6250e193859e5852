package review

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func load[T any](t testing.TB, file string, want int) []T {
	t.Helper()
	b, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var v struct{ Cases []T }
	if err := json.Unmarshal(b, &v); err != nil || len(v.Cases) != want {
		t.Fatalf("%s has %d cases, %v, want %d", file, len(v.Cases), err, want)
	}
	return v.Cases
}

func value(t testing.TB, b []byte) canon.Value {
	t.Helper()
	v, err := canon.Parse(b, canon.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestTheBytesAndSignaturesAreTheReferences(t *testing.T) {
	// Records that the reference accepts or never checks, and that are not counted.
	strict := map[string]string{
		"booleans": "dimensions.factual", "honesty out of range": "dimensions.honesty", "unknown dimension": "dimensions.zzz", "extra field": "extra",
	}
	for _, c := range load[struct {
		Name   string
		Input  struct{ Record json.RawMessage }
		Expect struct {
			Status  int
			Payload string
			Hash    string `json:"payload_hash"`
		}
	}](t, "review_record.json", 41) {
		if c.Input.Record == nil {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			v := value(t, c.Input.Record)
			if got := string(Payload(v)); got != c.Expect.Payload || identity.Sum([]byte(got)).String() != c.Expect.Hash {
				t.Errorf("Payload() = %s, want %s", got, c.Expect.Payload)
			}
			if got := VerifySignatureOnly(v); c.Expect.Status == 200 && !got || c.Expect.Status == 401 && got {
				t.Errorf("VerifySignatureOnly() = %t, the reference answers %d", got, c.Expect.Status)
			}
			r, err := Parse(c.Input.Record)
			if field, bad := strict[c.Name]; bad || c.Expect.Status != 200 {
				if c.Name == "wrong target" || c.Name == "wrong signer" {
					return // is well formed
				}
				if err == nil || field != "" && problem.AsError(err).Field != field {
					t.Errorf("Parse() = %v, want a refusal of %s", err, field)
				}
				return
			}
			if err != nil || !r.Verify(r.Reviewer) {
				t.Fatalf("Parse() = %v, Verify() = %t", err, r.Verify(r.Reviewer))
			}
			b, err := json.Marshal(r)
			if again, err2 := Parse(b); err != nil || err2 != nil || again.Hash != r.Hash {
				t.Errorf("the record written again = %s, %v, %v", b, err, err2)
			}
		})
	}
}

func TestARevealIsTheReferences(t *testing.T) {
	for _, c := range load[struct {
		Name  string
		Input struct {
			Seed   string `json:"reviewer_seed"`
			Record json.RawMessage
			Reveal json.RawMessage
		}
		Expect struct {
			Valid    bool `json:"reveal_valid"`
			Unblinds bool
			Reviewer string
		}
	}](t, "blinded_review.json", 15) {
		t.Run(c.Name, func(t *testing.T) {
			var v Reveal
			if err := canon.Unmarshal(c.Input.Reveal, &v, canon.DefaultLimits()); err != nil {
				t.Fatal(err)
			}
			if v.Verify() != c.Expect.Valid {
				t.Errorf("Verify() = %t, want %t", v.Verify(), c.Expect.Valid)
			}
			r, err := Parse(c.Input.Record)
			unblinds := err == nil && v.ProvesReviewer(&r)
			if unblinds != c.Expect.Unblinds || unblinds && v.Reviewer.String() != c.Expect.Reviewer {
				t.Errorf("ProvesReviewer() = %t, %v, want %t", unblinds, err, c.Expect.Unblinds)
			}
		})
	}
}

var at = time.Date(2026, 11, 30, 12, 0, 0, 5000, time.UTC)

func key(t testing.TB, n byte) *identity.Key {
	t.Helper()
	k, err := identity.KeyFromSeed([]byte(strings.Repeat(string(rune('a'+n)), identity.Size)))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func signed(t testing.TB, claim string) Record {
	t.Helper()
	r := Record{Members: Members{
		Target: key(t, 1).ID(), Ratings: Ratings{"factual": 1, "logical": 0.5, "relevance": 0.25, "honesty": 0}, Substrate: "default", CallHash: identity.Sum([]byte("call")), Position: 7,
		Claim: claim, IssuedAt: canon.FormatTime(at),
	}}
	if err := r.Sign(t.Context(), key(t, 0)); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestBadMembersAreNamed(t *testing.T) {
	good := signed(t, "a claim <b> é")
	blob, err := json.Marshal(good)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := Parse(blob); err != nil || r.Position != 7 || r.Claim != good.Claim || r.IssuedAt != canon.FormatTime(at) {
		t.Fatalf("Parse() = %+v, %v", r, err)
	}
	for change, field := range map[[2]string]string{
		{`"factual":1`, `"factual":NaN`}:                                "", // not JSON
		{`"factual":1`, `"factual":1e400`}:                              "",
		{`"factual":1`, `"factual":true`}:                               "dimensions.factual",
		{`"factual":1`, `"factual":-0.1`}:                               "dimensions.factual",
		{`"factual":1`, `"factual":"1"`}:                                "dimensions.factual",
		{`"factual":1`, `"factualy":1`}:                                 "dimensions.factualy",
		{`"call_position":7`, `"call_position":0`}:                      "call_position",
		{`"call_position":7`, `"call_position":1.5`}:                    "call_position",
		{good.CallHash.String(), "zz" + good.CallHash.String()[2:]}:     "call_envelope_id_hex",
		{good.Reviewer.String(), strings.Repeat("0", 64)}:               "reviewer",
		{`"claim":"`, `"claim":"` + strings.Repeat("x", MaxClaimBytes)}: "claim",
		{`"claim":"`, `"claim2":"`}:                                     "claim2",
		{`2026-11-30`, `2026-11-31`}:                                    "issued_at",
		{`"logical":0.5`, `"logical":0.6`}:                              "payload_hash_hex",
		{`"signature_hex":"`, `"signature_hex":"zz`}:                    "signature_hex",
	} {
		_, err := Parse([]byte(strings.Replace(string(blob), change[0], change[1], 1)))
		if err == nil || field != "" && problem.AsError(err).Field != field {
			t.Errorf("Parse() with %.60s = %v, want a refusal of %q", change[1], err, field)
		}
	}
	zero := strings.Replace(string(blob), `"honesty":0`, `"honesty":-0.0`, 1)
	if got, err := decodeRecord(value(t, []byte(zero))); err != nil || math.Signbit(got.Ratings["honesty"]) {
		t.Errorf("-0.0 = %v, %v, want 0", got.Ratings, err)
	}
	bad := good
	bad.Ratings = Ratings{"factual": 1}
	if err := bad.Sign(t.Context(), key(t, 0)); err == nil {
		t.Error("a review without relevance was signed")
	}
}

func TestARowVerifiesWithAndWithoutItsClaim(t *testing.T) {
	claim, other := "a claim", "another"
	blinded, err := signed(t, claim).Blind(t.Context(), key(t, 0), strings.NewReader(strings.Repeat("n", 32)))
	if err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]Row{"open": NewRow(signed(t, claim), nil), "blinded": NewRow(blinded.Record, &blinded.Reveal)} {
		row.At, row.AnsweredAt, row.Class, row.ReviewNumber, row.Substrate, row.Weights = at, at, ClassQuarter, 1, "echo", Ratings{"factual": 0.045}
		b, err := json.Marshal(row)
		if err != nil || strings.Contains(string(b), claim) {
			t.Fatalf("%s: Marshal() = %s, %v, want no claim", name, b, err)
		}
		got, err := DecodeRow(b)
		if err != nil || got.Reviewer() != key(t, 0).ID() {
			t.Fatalf("%s: DecodeRow() = %v, %v", name, got.Reviewer(), err)
		}
		if err := got.Verify(key(t, 1).ID(), &claim); err != nil {
			t.Errorf("%s: Verify() = %v", name, err)
		}
		if err := got.Verify(key(t, 1).ID(), nil); err != nil {
			t.Errorf("%s: Verify() without its claim = %v", name, err)
		}
		if got.Verify(key(t, 1).ID(), &other) == nil || got.Verify(key(t, 2).ID(), &claim) == nil {
			t.Errorf("%s: another claim or another target verifies", name)
		}
	}
	silent := NewRow(signed(t, ""), nil)
	if err := silent.Verify(key(t, 1).ID(), nil); err != nil {
		t.Errorf("Verify() of a review without a claim = %v", err)
	}
	silent.Review = []byte(strings.Replace(string(silent.Review), `"logical":0.5`, `"logical":0.6`, 1))
	if silent.Verify(key(t, 1).ID(), nil) == nil {
		t.Error("a changed rating verifies")
	}
	for _, b := range []string{"", "{", `{"format":2}`, `{"format":1,"review":{}}`, `{"format":1,"review":[]}`} {
		if _, err := DecodeRow([]byte(b)); !problem.Is(err, problem.Damaged) {
			t.Errorf("DecodeRow(%s) = %v, want %v", b, err, problem.Damaged)
		}
	}
}

func FuzzARecordIsReadOrRefused(f *testing.F) {
	b, _ := json.Marshal(signed(f, "x"))
	f.Add(b)
	f.Add([]byte(`{"dimensions":[],"reviewer":1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Parse(b)
		if err != nil {
			return
		}
		again, err := json.Marshal(r)
		if back, err2 := Parse(again); err != nil || err2 != nil || back.Hash != r.Hash {
			t.Errorf("%s is written as %s, %v, and read as %v, %v", b, again, err, back, err2)
		}
	})
}
