package card

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
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
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Cases) != want {
		t.Fatalf("%s has %d cases, want %d", file, len(v.Cases), want)
	}
	return v.Cases
}

type cardVector struct {
	Name  string
	Input struct {
		Seed              string
		CapabilityText    string   `json:"capability_text"`
		AllowedSubstrates []string `json:"allowed_substrates"`
		PolicyJSON        string   `json:"policy_json"`
		HaloVersion       int64    `json:"halo_version"`
		Endpoint          *string
	}
	Expect struct {
		Payload, Hash, Signature, Blob string
		Parses                         bool
	}
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

func object(t testing.TB, text string) canon.Value {
	t.Helper()
	v, err := canon.Parse([]byte(text), canon.DefaultLimits())
	if err != nil || v.Kind() != canon.Object {
		t.Fatalf("policy %q: %v", text, err)
	}
	return v
}

// same compares cards by the canonical JSON of their policies, not by the representation of a
// canon.Value.
var same = cmp.Options{
	cmpopts.EquateEmpty(),
	cmp.Transformer("CJ", func(v canon.Value) string {
		if v.Kind() == canon.Null {
			return "{}"
		}
		return string(v.AppendCJ(nil))
	}),
}

func TestCardsSignHashAndSerialiseAsTheReferencesDo(t *testing.T) {
	for _, c := range load[cardVector](t, "card.json", 40) {
		t.Run(c.Name, func(t *testing.T) {
			key := keyOf(t, c.Input.Seed)
			card := Card{
				VacantID: key.ID(), CapabilityText: c.Input.CapabilityText, AllowedSubstrates: c.Input.AllowedSubstrates,
				Policy: object(t, c.Input.PolicyJSON), HaloVersion: c.Input.HaloVersion,
			}
			if c.Input.Endpoint != nil {
				card.Endpoint = *c.Input.Endpoint
			}
			signing := card.AppendSignedBytes(nil)
			// The vectors contain control characters, which Sign refuses.
			card.Signature, _ = key.Sign(t.Context(), signing)
			want, got := c.Expect, c.Expect
			if card.Endpoint == "" { // Blob writes null (PROTOCOL §23 D3)
				want.Blob = strings.Replace(want.Blob, `"endpoint":""`, `"endpoint":null`, 1)
			}
			got.Payload, got.Hash = hex.EncodeToString(signing), card.Hash().String()
			got.Signature, got.Blob = hex.EncodeToString(card.Signature), string(card.Blob())
			parsed, err := Parse([]byte(c.Expect.Blob))
			got.Parses = err == nil
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("card (-want +got):\n%s", diff)
			}
			if !card.Verify() {
				t.Error("Verify() = false, want true")
			}
			if !c.Expect.Parses {
				if !errors.Is(err, ErrUnsupportedVersion) {
					t.Errorf("Parse() = %v, want an unsupported version", err)
				}
				return
			}
			if diff := cmp.Diff(card, parsed, same); diff != "" {
				t.Errorf("Parse(the reference's blob) (-want +got):\n%s", diff)
			}
		})
	}
}

type parseVector struct {
	Name  string
	Input struct {
		Blob    *string
		BlobHex string `json:"blob_hex"`
	}
	Expect struct {
		Verifies               bool
		Error, Message, Strict string
	}
}

func (c parseVector) blob(t testing.TB) []byte {
	t.Helper()
	if c.Input.Blob != nil {
		return []byte(*c.Input.Blob)
	}
	b, err := hex.DecodeString(c.Input.BlobHex)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Clients may parse these parts of the reference's messages. After a prefix, only a quoted key is
// such a part, because other text comes from Python itself.
var (
	prefixes  = []string{"capability card not valid JSON: ", "invalid capability card: "}
	quotedKey = regexp.MustCompile(`^'\w+'$`)
)

func interfaceOf(message string) string {
	for _, p := range prefixes {
		if rest, ok := strings.CutPrefix(message, p); ok && !quotedKey.MatchString(rest) {
			return p
		}
	}
	return message
}

func TestBlobsParseOrAreRefusedAsTheReferenceDoesOrStricter(t *testing.T) {
	for _, c := range load[parseVector](t, "card_parse.json", 48) {
		t.Run(c.Name, func(t *testing.T) {
			card, err := Parse(c.blob(t))
			if c.Expect.Strict == "" && c.Expect.Error == "" {
				if err != nil || card.Verify() != c.Expect.Verifies {
					t.Errorf("Parse() = %v, Verify() = %t, want %t", err, card.Verify(), c.Expect.Verifies)
				}
				return
			}
			if !problem.Is(err, problem.Malformed) || !cmp.Equal(card, Card{}, same) {
				t.Fatalf("Parse() = %+v, %v, want an error of kind malformed", card, err)
			}
			if c.Expect.Strict != "" {
				return // any error will do
			}
			if got := errors.Is(err, ErrUnsupportedVersion); got != (c.Expect.Error == "UnsupportedHaloVersionError") {
				t.Errorf("unsupported version = %t, want %s", got, c.Expect.Error)
			}
			text := problem.AsError(err).Text()
			if want := interfaceOf(c.Expect.Message); text != want && (want == c.Expect.Message || !strings.HasPrefix(text, want)) {
				t.Errorf("Parse() = %q, want %q", text, want)
			}
		})
	}
}

// The seeds and cards of PROTOCOL §24.
const (
	seedA = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
	seedB = "202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f"
)

func TestTheCardsOfTheWireSpecification(t *testing.T) {
	key := keyOf(t, seedB)
	c, err := New(key.ID(), "translate ZH↔EN", []string{"mock"}, "https://b.example/a2a/message/send")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Sign(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	const sig = "82f7885f5d41db73d4f1c69d14135bdfa98ed5601bb0f4d84ea92e5776b67681686e9b9e60f07923a1032fef9e85330215cdffb5e00da60445fac503d7d08c0e"
	got := []string{hex.EncodeToString(c.AppendSignedBytes(nil)), c.Hash().String(), string(c.Blob())}
	want := []string{
		"29acbae141bccaf0b22e1a94d34d0bc7361e526d0bfe12c89794bc9322966dd71f7472616e736c617465205a48e28694454e1f7b22616c6c6f7765645f73756273747261746573223a5b226d6f636b225d2c22706f6c696379223a7b7d7d1f00000000000000011f68747470733a2f2f622e6578616d706c652f6132612f6d6573736167652f73656e64",
		"719435ce15daa289fbd246799dba4b32794014de6b7c5bc95e98a50ef45a21dd",
		`{"capability_text":"translate ZH↔EN","endpoint":"https://b.example/a2a/message/send","halo_version":1,"signature":"` + sig +
			`","substrate_spec":{"allowed_substrates":["mock"],"policy":{}},"vacant_id":"29acbae141bccaf0b22e1a94d34d0bc7361e526d0bfe12c89794bc9322966dd7"}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("card (-want +got):\n%s", diff)
	}

	bare, err := New(key.ID(), "translate", []string{"mock"}, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := bare.Sign(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	const bareSig = "50d3a9d9b8c4587dcd9779becf14a525477e635a82f051d5a1a80bccca2bcc3840af85c17af1b542e1afd505a1f07b515ec79d97b53b3e34f6dfa29d2b2d6c0b"
	if got := hex.EncodeToString(bare.Signature); got != bareSig || !bytes.HasSuffix(bare.AppendSignedBytes(nil), []byte("}}\x1f\x00\x00\x00\x00\x00\x00\x00\x01\x1f")) {
		t.Errorf("card without endpoint: signature %s, payload %q", got, bare.AppendSignedBytes(nil))
	}
}

func TestAnEndpointThatIsEmptyIsNullAndSignsAlike(t *testing.T) {
	key := keyOf(t, seedB)
	c, _ := New(key.ID(), "x", nil, "")
	if err := c.Sign(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(c.Blob(), []byte(`"endpoint":null`)) {
		t.Errorf("Blob() = %s, want a null endpoint", c.Blob())
	}
	lax := bytes.Replace(c.Blob(), []byte(`"endpoint":null`), []byte(`"endpoint":""`), 1)
	old, err := Parse(lax)
	if err != nil || !old.Verify() || !bytes.Equal(old.Blob(), c.Blob()) {
		t.Errorf("Parse(empty endpoint) = %+v, %v, want the same card", old, err)
	}
}

func TestAmbiguousCardVerifiesButIsNotSigned(t *testing.T) {
	key := keyOf(t, seedB)
	tests := map[string]struct {
		change func(*Card)
		field  string
	}{
		"0x1f in the text":       {func(c *Card) { c.CapabilityText = "a\x1fb" }, "capability_text"},
		"a newline in the text":  {func(c *Card) { c.CapabilityText = "a\n" }, "capability_text"},
		"delete in the text":     {func(c *Card) { c.CapabilityText = "a\x7f" }, "capability_text"},
		"C1 in the text":         {func(c *Card) { c.CapabilityText = "a\u0085" }, "capability_text"},
		"0x1f in the endpoint":   {func(c *Card) { c.Endpoint = "http://x/\x1f" }, "endpoint"},
		"0x1f in a substrate":    {func(c *Card) { c.AllowedSubstrates = []string{"m", "\x1fx"} }, "substrate_spec.allowed_substrates[1]"},
		"no UTF-8 in the text":   {func(c *Card) { c.CapabilityText = "a\xff" }, "capability_text"},
		"no UTF-8 in a endpoint": {func(c *Card) { c.Endpoint = "\xed\xa0\x80" }, "endpoint"},
		"a blank substrate":      {func(c *Card) { c.AllowedSubstrates = []string{" \u2003"} }, "substrate_spec.allowed_substrates[0]"},
		"a policy that is text":  {func(c *Card) { c.Policy = canon.NewString("x") }, "substrate_spec.policy"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c, err := New(key.ID(), "x", []string{"mock"}, "http://x/")
			if err != nil {
				t.Fatal(err)
			}
			tt.change(&c)
			err = c.Sign(t.Context(), key)
			if !problem.Is(err, problem.Malformed) || problem.AsError(err).Field != tt.field || c.Signature != nil {
				t.Errorf("Sign() = %v, want a refusal of %s and no signature", err, tt.field)
			}
		})
	}
	c := Card{VacantID: key.ID(), CapabilityText: "a\x1fb", HaloVersion: 1}
	c.Signature, _ = key.Sign(t.Context(), c.AppendSignedBytes(nil))
	if old, err := Parse(c.Blob()); err != nil || !old.Verify() {
		t.Errorf("an old card with 0x1f: %v, Verify() = %t, want true", err, old.Verify())
	}
}

func TestOnlyItsOwnKeySignsACard(t *testing.T) {
	a, b := keyOf(t, seedA), keyOf(t, seedB)
	c, _ := New(b.ID(), "x", nil, "")
	if err := c.Sign(t.Context(), a); !problem.Is(err, problem.Untrusted) || c.Signature != nil {
		t.Errorf("Sign(by another) = %v, want untrusted", err)
	}
	if _, err := New(identity.ID{1}, "x", nil, ""); !problem.Is(err, problem.Malformed) {
		t.Errorf("New(the identity key) = %v, want malformed", err)
	}
}

// broken is a signer whose Sign fails.
type broken struct{ identity.Signer }

func (broken) Sign(context.Context, []byte) ([]byte, error) {
	return nil, problem.New(problem.Unavailable, "vault away")
}

func TestACardThatCouldNotBeSignedKeepsItsOldSignature(t *testing.T) {
	key := keyOf(t, seedB)
	c, _ := New(key.ID(), "x", nil, "")
	if err := c.Sign(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	old := bytes.Clone(c.Signature)
	if err := c.Sign(t.Context(), broken{key}); !problem.Is(err, problem.Unavailable) || !bytes.Equal(c.Signature, old) {
		t.Errorf("Sign() = %v, signature kept: %t", err, bytes.Equal(c.Signature, old))
	}
	for name, change := range map[string]func(*Card){
		"too large": func(c *Card) { c.CapabilityText = strings.Repeat("x", MaxBlob) },
		"too deep": func(c *Card) {
			c.Policy = object(t, strings.Repeat(`{"a":`, 31)+`{}`+strings.Repeat(`}`, 31))
		},
		"later": func(c *Card) { c.HaloVersion = 2 },
	} {
		c := c
		change(&c)
		if err := c.Sign(t.Context(), key); err == nil || !bytes.Equal(c.Signature, old) {
			t.Errorf("%s: Sign() = %v, want a refusal", name, err)
		}
	}
}

func TestTheLimitOfACardIsExact(t *testing.T) {
	key := keyOf(t, seedB)
	c, _ := New(key.ID(), "", nil, "")
	if err := c.Sign(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	c.CapabilityText = strings.Repeat("x", MaxBlob-len(c.Blob()))
	if err := c.Sign(t.Context(), key); err != nil || len(c.Blob()) != MaxBlob {
		t.Fatalf("Sign(%d bytes) = %v", len(c.Blob()), err)
	}
	c.CapabilityText += "x"
	err := c.Sign(t.Context(), key)
	if want := "capability card: expected at most 32768 bytes, got 32769"; !problem.Is(err, problem.TooLarge) || err.Error() != want {
		t.Errorf("Sign(one byte more) = %v, want %s", err, want)
	}
}

func TestAnUnknownVersionIsRefusedBeforeAllOtherFields(t *testing.T) {
	for _, blob := range []string{
		`{"halo_version":2}`,
		`{"vacant_id":5,"capability_text":null,"substrate_spec":[],"signature":{},"endpoint":1,"halo_version":2}`,
	} {
		if _, err := Parse([]byte(blob)); !errors.Is(err, ErrUnsupportedVersion) || problem.AsError(err).Text() != "halo_version 2 not in [1, 1]" {
			t.Errorf("Parse(%s) = %v, want an unsupported version", blob, err)
		}
	}
}

func TestJSONWithTwoReadingsIsNoCard(t *testing.T) {
	key := keyOf(t, seedB)
	c, _ := New(key.ID(), "x", []string{"mock"}, "http://x/")
	if err := c.Sign(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	good := string(c.Blob())
	for name, blob := range map[string]string{
		"duplicate key":          strings.Replace(good, `{`, `{"vacant_id":"00",`, 1),
		"duplicate by escape":    strings.Replace(good, `{`, `{"vacant\u005fid":"00",`, 1),
		"lone surrogate, unused": strings.Replace(good, `{`, `{"y":"\ud800",`, 1),
		"NaN, unused":            strings.Replace(good, `{`, `{"y":NaN,`, 1),
		"overflow, unused":       strings.Replace(good, `{`, `{"y":1e400,`, 1),
		"byte order mark":        "\ufeff" + good,
		"trailing data":          good + "{}",
		"UTF-16":                 "{\x00}\x00",
	} {
		_, err := Parse([]byte(blob))
		if !problem.Is(err, problem.Malformed) || !strings.HasPrefix(err.Error(), "capability card not valid JSON: ") {
			t.Errorf("%s: Parse() = %v, want malformed", name, err)
		}
	}
}

func TestARefusedVersionIsQuotedAsPythonDoes(t *testing.T) {
	for text, want := range map[string]string{
		`null`:                       `None`,
		`true`:                       `True`,
		`1.0`:                        `1.0`,
		`"it's"`:                     `"it's"`,
		`"it's \"so\""`:              `'it\'s "so"'`,
		`"\\ \n\r\t\u0000\u007f é"`:  `'\\ \n\r\t\x00\x7f é'`,
		`"\u2028\ue000\udbff\udfff"`: `'\u2028\ue000\U0010ffff'`,
		`[1, "a", [], {}]`:           `[1, 'a', [], {}]`,
		`{"b": false, "a": null}`:    `{'a': None, 'b': False}`,
	} {
		_, err := Parse([]byte(`{"halo_version":` + text + `}`))
		if got := problem.AsError(err).Text(); got != "capability card halo_version must be int; got "+want {
			t.Errorf("Parse(halo_version %s) = %q, want …%s", text, got, want)
		}
	}
	_, err := Parse([]byte(`{"halo_version":` + strings.Repeat("9", 4000) + `}`))
	if text := problem.AsError(err).Text(); len(text) > 200 || !errors.Is(err, ErrUnsupportedVersion) {
		t.Errorf("a long version makes a text of %d bytes, %v", len(text), err)
	}
}

// A parsed card must serialise to bytes that parse to the same card with the same signed bytes.
func FuzzParse(f *testing.F) {
	for _, c := range load[cardVector](f, "card.json", 40) {
		f.Add([]byte(c.Expect.Blob))
	}
	for _, c := range load[parseVector](f, "card_parse.json", 48) {
		f.Add(c.blob(f))
	}
	f.Fuzz(func(t *testing.T, blob []byte) {
		c, err := Parse(blob)
		if err != nil {
			if problem.AsError(err).Kind == problem.Internal {
				t.Fatalf("Parse() = %v, an error of no kind", err)
			}
			return
		}
		again, err := Parse(c.Blob())
		if len(c.Blob()) > MaxBlob {
			return // 1e15 is written as 1000000000000000.0
		}
		if err != nil || !cmp.Equal(c, again, same) {
			t.Fatalf("Parse(Blob()) = %+v, %v, want %+v", again, err, c)
		}
		if !bytes.Equal(c.Blob(), again.Blob()) || !bytes.Equal(c.AppendSignedBytes(nil), again.AppendSignedBytes(nil)) {
			t.Fatalf("a card has two forms: %s and %s", c.Blob(), again.Blob())
		}
	})
}

func BenchmarkParseAndVerify(b *testing.B) {
	key := keyOf(b, seedB)
	c, _ := New(key.ID(), "translate", []string{"mock"}, "http://x/")
	if err := c.Sign(b.Context(), key); err != nil {
		b.Fatal(err)
	}
	blob := c.Blob()
	b.ReportAllocs()
	for b.Loop() {
		if c, err := Parse(blob); err != nil || !c.Verify() {
			b.Fatal(err)
		}
	}
}
