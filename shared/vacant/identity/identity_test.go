package identity_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"pgregory.net/rapid"
)

// crypto/ed25519 accepts the identity key, under which R = S·B fits every message.
func TestNoKeyThatSignsForAnybody(t *testing.T) {
	weak := identity.ID{1}
	anybody := append([]byte{1}, make([]byte, 63)...) // R is the neutral point and S is 0
	if !ed25519.Verify(weak[:], []byte("pay me"), anybody) {
		t.Fatal("the crafted signature does not even pass crypto/ed25519; this test proves nothing")
	}
	if identity.Verify(weak, []byte("pay me"), anybody) {
		t.Error("Verify() = true under the identity key, want false")
	}
}

// The holder of a key can choose the neutral point as R and k times the secret scalar as S.
// crypto/ed25519 accepts such a signature, but the reference refuses it. The signature in this test
// was made with the seed 00 … 1f.
func TestAnRThatLibsodiumRefuses(t *testing.T) {
	id, err := identity.ParseID("03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8")
	if err != nil {
		t.Fatal(err)
	}
	sig, err := identity.ParseHex("01" + strings.Repeat("00", 31) + "886ae494f275b058711e7af9a674b98a115a93ee84abcc8d0bf3e79ab2cdec02")
	if err != nil {
		t.Fatal(err)
	}
	if !ed25519.Verify(id[:], []byte("hello"), sig) {
		t.Fatal("the crafted signature does not even pass crypto/ed25519; this test proves nothing")
	}
	if identity.Verify(id, []byte("hello"), sig) {
		t.Error("Verify() = true for an R of small order, want false")
	}
}

// If R is the base point and S = 1, a signature fits under a key of small order whenever the hash of
// the message cancels the key's term. Only the check for small order refuses these signatures.
func TestNoKeyOfSmallOrderVerifies(t *testing.T) {
	sig := append(append([]byte{0x58}, bytes.Repeat([]byte{0x66}, 31)...), append([]byte{1}, make([]byte, 31)...)...)
	fit := 0
	for _, y := range []string{
		"0000000000000000000000000000000000000000000000000000000000000000", // order 4
		"0100000000000000000000000000000000000000000000000000000000000000", // the neutral point
		"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f", // order 2
		"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05", // order 8
		"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a", // order 8
		"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f", // y = p, which equals 0
		"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f", // y = p + 1, which equals 1
	} {
		id, err := identity.ParseID(y)
		if err != nil {
			t.Fatal(err)
		}
		for _, sign := range []byte{0, 0x80} {
			id[31] |= sign
			for m := range byte(100) {
				if ed25519.Verify(id[:], []byte{m}, sig) {
					fit++
				}
				if identity.Verify(id, []byte{m}, sig) {
					t.Fatalf("Verify() = true under %s, want false", id)
				}
			}
		}
	}
	if fit < 100 {
		t.Errorf("%d of the crafted signatures pass crypto/ed25519, want more: this test proves little", fit)
	}
}

func TestCheckRefusesWhatIsNoVacantsID(t *testing.T) {
	high := func(first, last byte) identity.ID {
		var id identity.ID
		for i := range id {
			id[i] = 0xff
		}
		id[0], id[31] = first, last
		return id
	}
	tests := []struct {
		name string
		id   identity.ID
		ok   bool
	}{
		{"a key", identity.ID{5}, true},
		{"y = p - 2", high(0xeb, 0x7f), true},
		{"y = 0", identity.ID{}, false},
		{"y = 0, sign set", identity.ID{31: 0x80}, false},
		{"y = 1", identity.ID{1}, false},
		{"y = 1, sign set", identity.ID{0: 1, 31: 0x80}, false},
		{"y = p - 1", high(0xec, 0x7f), false},
		{"y = p - 1, sign set", high(0xec, 0xff), false},
		{"y = p", high(0xed, 0x7f), false},
		{"y = p, sign set", high(0xed, 0xff), false},
		{"y = p + 1", high(0xee, 0x7f), false},
		{"y = 2^255 - 1", high(0xff, 0x7f), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.id.Check(); (err == nil) != tt.ok || err != nil && !problem.Is(err, problem.Malformed) {
				t.Errorf("Check() = %v, want ok = %t", err, tt.ok)
			}
		})
	}
}

func TestVerifyRefusesOtherLengths(t *testing.T) {
	k := newKey(t)
	sig, err := k.Sign(t.Context(), []byte("m"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range [][]byte{nil, {}, sig[:63], append(bytes.Clone(sig), 0)} {
		if identity.Verify(k.ID(), []byte("m"), s) {
			t.Errorf("Verify() of a signature of %d bytes = true, want false", len(s))
		}
	}
	if !identity.Verify(k.ID(), []byte("m"), sig) {
		t.Error("Verify() = false for the key's own signature")
	}
	if identity.Verify(k.ID(), []byte("n"), sig) {
		t.Error("Verify() = true for another message")
	}
}

func newKey(t *testing.T) *identity.Key {
	t.Helper()
	k, err := identity.NewKey(strings.NewReader(strings.Repeat("k", identity.Size)))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestAKeyNeedsAllItsBytes(t *testing.T) {
	if _, err := identity.NewKey(strings.NewReader("short")); !problem.Is(err, problem.Unavailable) {
		t.Errorf("NewKey(short reader) = %v, want Unavailable", err)
	}
	for _, n := range []int{0, 31, 33, 64} {
		if _, err := identity.KeyFromSeed(make([]byte, n)); !problem.Is(err, problem.Malformed) {
			t.Errorf("KeyFromSeed(%d bytes) = %v, want Malformed", n, err)
		}
	}
}

func TestAWipedKeySignsNothing(t *testing.T) {
	k := newKey(t)
	k.Wipe()
	sig, err := k.Sign(t.Context(), []byte("m"))
	if err == nil && identity.Verify(k.ID(), []byte("m"), sig) {
		t.Error("Sign() after Wipe() verifies, want not")
	}
	if !bytes.Equal(k.Seed(), make([]byte, identity.Size)) {
		t.Error("Seed() after Wipe() still holds the seed")
	}
}

func TestAKeyInALogLineSaysNothingSecret(t *testing.T) {
	k := newKey(t)
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%d", "%x", "%q"} {
		got := strings.ToLower(fmt.Sprintf(format+format, k, *k))
		for _, secret := range []string{"kkkkkkkk", strings.Repeat("6b", 8), strings.Repeat("107 ", 8), "0x6b, 0x6b"} {
			if strings.Contains(got, secret) {
				t.Errorf("Sprintf(%q) = %s shows the seed", format, got)
			}
		}
	}
}

func TestSeedIsACopy(t *testing.T) {
	k := newKey(t)
	clear(k.Seed())
	if bytes.Equal(k.Seed(), make([]byte, identity.Size)) {
		t.Error("Seed() handed out the key's own bytes")
	}
}

func TestTextForms(t *testing.T) {
	k := newKey(t)
	type doc struct {
		ID   identity.ID
		Hash identity.Hash
	}
	want := doc{k.ID(), identity.Sum([]byte("x"))}
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got doc
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Unmarshal(Marshal()) mismatch (-want +got):\n%s", diff)
	}
	var e *problem.Error
	if err := json.Unmarshal([]byte(`{"Hash":"xx"}`), &got); !errors.As(err, &e) {
		t.Errorf("Unmarshal(bad hash) = %v, want a problem", err)
	}
	if got := string(want.ID.AppendHex([]byte("id "))); got != "id "+want.ID.String() {
		t.Errorf("AppendHex() = %s", got)
	}
}

func TestParseHexTakesWhatTheReferenceTakes(t *testing.T) {
	tests := []struct {
		in   string
		want []byte
		ok   bool
	}{
		{"", []byte{}, true},
		{" \t\r\n\v\f", []byte{}, true},
		{"00fFAa", []byte{0, 0xff, 0xaa}, true},
		{" 00 ff\n", []byte{0, 0xff}, true},
		{"0 0", nil, false},
		{"0", nil, false},
		{"000", nil, false},
		{"0x00", nil, false},
		{"é0", nil, false},
		{"００", nil, false},
		{"00\u00a0", nil, false},
		{"00\x1c", nil, false},
	}
	for _, tt := range tests {
		got, err := identity.ParseHex(tt.in)
		if (err == nil) != tt.ok || tt.ok && !bytes.Equal(got, tt.want) {
			t.Errorf("ParseHex(%q) = %x, %v, want %x, ok = %t", tt.in, got, err, tt.want, tt.ok)
		}
	}
}

func TestAnIDReadsBackFromItsText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := identity.ID(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "id"))
		for _, text := range []string{id.String(), strings.ToUpper(id.String()), " " + id.String()[:2] + "\n" + id.String()[2:] + " "} {
			if got, err := identity.ParseID(text); err != nil || got != id {
				t.Fatalf("ParseID(%q) = %s, %v, want %s", text, got, err, id)
			}
		}
	})
}

func TestSignatureVerifiesOnlyTheSignedBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k, err := identity.KeyFromSeed(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "seed"))
		if err != nil {
			t.Fatal(err)
		}
		msg := rapid.SliceOf(rapid.Byte()).Draw(t, "message")
		sig, err := k.Sign(t.Context(), msg)
		if err != nil || !identity.Verify(k.ID(), msg, sig) {
			t.Fatalf("Verify() = false of the signature of %x (%v)", msg, err)
		}
		bit := rapid.IntRange(0, 8*len(sig)-1).Draw(t, "bit")
		sig[bit/8] ^= 1 << (bit % 8)
		if identity.Verify(k.ID(), msg, sig) {
			t.Fatalf("Verify() = true with bit %d of the signature flipped", bit)
		}
	})
}

func FuzzParseHex(f *testing.F) {
	for _, c := range vectors[idCase](f, "testdata/identity.json") {
		f.Add(c.Input.Hex)
		f.Add(c.Expect.ID)
	}
	f.Fuzz(func(t *testing.T, s string) {
		b, err := identity.ParseHex(s)
		if err != nil {
			if !problem.Is(err, problem.Malformed) {
				t.Errorf("ParseHex(%q) = %v, want Malformed", s, err)
			}
			return
		}
		again, err := identity.ParseHex(fmt.Sprintf("%x", b))
		if err != nil || !bytes.Equal(again, b) {
			t.Errorf("ParseHex(%x) = %x, %v", b, again, err)
		}
		if id, err := identity.ParseID(s); (err == nil) != (len(b) == identity.Size) || err == nil && !bytes.Equal(id[:], b) {
			t.Errorf("ParseID(%q) = %s, %v beside ParseHex = %x", s, id, err, b)
		}
	})
}
