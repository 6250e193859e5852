package identity_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// idCase is a test case of testdata/identity.json.
type idCase struct {
	Name  string
	Input struct {
		Seed, Hex string
		ID        *string
	}
	Expect struct {
		PublicKey string `json:"public_key"`
		ID        string
		Short     string
		String    string
		DIDKey    string `json:"did_key"`
		Error     string
		Message   string
	}
}

// signatureCase is a test case of testdata/ed25519.json.
type signatureCase struct {
	Name  string
	Input struct {
		PublicKey          string `json:"public_key"`
		Message, Signature string
	}
	Expect struct{ Valid bool }
}

// hashCase is a test case of testdata/blake2b.json.
type hashCase struct {
	Name   string
	Input  struct{ Message string }
	Expect struct{ Digest string }
}

func vectors[C any](t testing.TB, path string) []C {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []C }
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) == 0 {
		t.Fatalf("%s: no cases", path)
	}
	return file.Cases
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestIdentitiesOfTheReference(t *testing.T) {
	for _, c := range vectors[idCase](t, "testdata/identity.json") {
		t.Run(c.Name, func(t *testing.T) {
			text := c.Input.Hex
			switch {
			case c.Input.Seed != "":
				checkSeed(t, c)
				return
			case c.Input.ID != nil:
				text = *c.Input.ID
			}
			id, err := identity.ParseID(text)
			if c.Expect.Error == "" {
				if err != nil || id.String() != c.Expect.ID {
					t.Errorf("ParseID(%q) = %s, %v, want %s", text, id, err, c.Expect.ID)
				}
				return
			}
			if !problem.Is(err, problem.Malformed) || !id.IsZero() {
				t.Errorf("ParseID(%q) = %s, %v, want a refusal", text, id, err)
			}
			if _, at, ok := strings.Cut(c.Expect.Message, " at position "); ok && !strings.HasSuffix(err.Error(), " at position "+at) {
				t.Errorf("ParseID(%q) = %v, want position %s named", text, err, at)
			}
		})
	}
}

func checkSeed(t *testing.T, c idCase) {
	t.Helper()
	k, err := identity.KeyFromSeed(unhex(t, c.Input.Seed))
	if err != nil {
		t.Fatal(err)
	}
	id := k.ID()
	want := []string{c.Expect.PublicKey, c.Expect.ID, c.Expect.Short, c.Expect.String, c.Expect.DIDKey}
	got := []string{hex.EncodeToString(id[:]), id.String(), id.Short(), "vacant:" + id.Short(), id.DIDKey()}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("KeyFromSeed() mismatch (-want +got):\n%s", diff)
	}
	if got := hex.EncodeToString(k.Seed()); got != c.Input.Seed {
		t.Errorf("Seed() = %s, want %s", got, c.Input.Seed)
	}
}

func TestVerifyAsLibsodiumDoes(t *testing.T) {
	for _, c := range vectors[signatureCase](t, "testdata/ed25519.json") {
		t.Run(c.Name, func(t *testing.T) {
			id := identity.ID(unhex(t, c.Input.PublicKey))
			if got := identity.Verify(id, unhex(t, c.Input.Message), unhex(t, c.Input.Signature)); got != c.Expect.Valid {
				t.Errorf("Verify() = %t, want %t", got, c.Expect.Valid)
			}
		})
	}
}

func TestSumIsBLAKE2bWithDigestLength32(t *testing.T) {
	for _, c := range vectors[hashCase](t, "testdata/blake2b.json") {
		t.Run(c.Name, func(t *testing.T) {
			if got := identity.Sum(unhex(t, c.Input.Message)).String(); got != c.Expect.Digest {
				t.Errorf("Sum() = %s, want %s", got, c.Expect.Digest)
			}
		})
	}
}

func TestKeysOfTheWireSpecification(t *testing.T) {
	var a, b [identity.Size]byte
	for i := range a {
		a[i], b[i] = byte(i), byte(0x20+i)
	}
	for seed, want := range map[[identity.Size]byte]string{
		a: "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8",
		b: "29acbae141bccaf0b22e1a94d34d0bc7361e526d0bfe12c89794bc9322966dd7",
	} {
		k, err := identity.KeyFromSeed(seed[:])
		if err != nil || k.ID().String() != want {
			t.Errorf("KeyFromSeed(%x) = %v, %v, want %s", seed, k, err, want)
		}
	}
	for text, want := range map[string]string{
		"":    "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8",
		"abc": "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319",
	} {
		if got := identity.Sum([]byte(text)).String(); got != want {
			t.Errorf("Sum(%q) = %s, want %s", text, got, want)
		}
	}
}

func Example() {
	k, _ := identity.KeyFromSeed(make([]byte, 32))
	fmt.Println(k.ID().Short())
	fmt.Println(k)
	// Output:
	// 3b6a27bcceb6
	// key of 3b6a27bcceb6
}
