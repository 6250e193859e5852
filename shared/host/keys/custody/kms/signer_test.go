package kms_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/keys/custody/kms"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func newKey(t *testing.T) *identity.Key {
	t.Helper()
	k, err := identity.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// public is GetPublicKey's answer for a key of a spec.
func public(t *testing.T, key any, spec string) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`{"KeyId":%q,"KeySpec":%q,"KeyUsage":"SIGN_VERIFY","SigningAlgorithms":["ED25519_SHA_512","ED25519_PH_SHA_512"],"PublicKey":%q}`,
		keyARN, spec, base64.StdEncoding.EncodeToString(der))
}

const ed25519Spec = "ECC_NIST_EDWARDS25519"

func publicOf(t *testing.T, id identity.ID) string {
	return public(t, ed25519.PublicKey(id[:]), ed25519Spec)
}

func signature(t *testing.T, k *identity.Key, msg string) string {
	t.Helper()
	sig, err := k.Sign(t.Context(), []byte(msg))
	if err != nil {
		t.Fatal(err)
	}
	return `{"Signature":"` + base64.StdEncoding.EncodeToString(sig) + `"}`
}

func TestAKeyOfTheServiceSignsAsItsID(t *testing.T) {
	k := newKey(t)
	s, client := scripted(t, publicOf(t, k.ID()), signature(t, k, "hello"))
	open := kms.NewSigner(client, keyARN)
	for range 3 { // the public key is fetched once
		signer, err := open(t.Context())
		if err != nil || signer.ID() != k.ID() {
			t.Fatalf("signer = %v, %v, want %s", signer, err, k.ID().Short())
		}
		if sig, err := signer.Sign(t.Context(), []byte("hello")); err != nil || !identity.Verify(k.ID(), []byte("hello"), sig) {
			t.Errorf("Sign() = %x, %v", sig, err)
		}
		if got := fmt.Sprintf("%+v", signer); got != "kms key of "+k.ID().Short() {
			t.Errorf("it prints %s", got)
		}
	}
	sign := asked{"Sign", map[string]any{"KeyId": keyARN, "Message": b64("hello"), "MessageType": "RAW", "SigningAlgorithm": "ED25519_SHA_512"}}
	want := []asked{{"GetPublicKey", map[string]any{"KeyId": keyARN}}, sign, sign, sign}
	if diff := cmp.Diff(want, s.asked); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestASignatureThatDoesNotVerifyNeverLeaves(t *testing.T) {
	k := newKey(t)
	for name, answer := range map[string]string{
		"of another key":     signature(t, newKey(t), "hello"),
		"of another message": signature(t, k, "hullo"),
		"cut":                `{"Signature":"` + b64(strings.Repeat("x", 63)) + `"}`,
		"none":               `{}`,
	} {
		_, client := scripted(t, publicOf(t, k.ID()), answer)
		signer, err := kms.NewSigner(client, keyARN)(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if sig, err := signer.Sign(t.Context(), []byte("hello")); !problem.Is(err, problem.Untrusted) || sig != nil {
			t.Errorf("%s: Sign() = %x, %v, want untrusted", name, sig, err)
		}
	}
}

func TestUnsignableMessageIsRefusedWithoutACallToKMS(t *testing.T) {
	k := newKey(t)
	s, client := scripted(t, publicOf(t, k.ID()))
	signer, err := kms.NewSigner(client, keyARN)(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := signer.Sign(t.Context(), make([]byte, 4097)); !problem.Is(err, problem.TooLarge) {
		t.Errorf("Sign(4097 bytes) = %v, want too large", err)
	}
	if _, err := signer.Sign(t.Context(), nil); !problem.Is(err, problem.Malformed) {
		t.Errorf("Sign(nothing) = %v, want malformed", err)
	}
	if len(s.asked) != 1 {
		t.Errorf("requests = %v, want the public key's alone", s.asked)
	}
}

func TestAKeyThatCanBeNoIdentityIsRefused(t *testing.T) {
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	small := make(ed25519.PublicKey, 32) // of small order
	for name, c := range map[string]struct {
		answer string
		kind   problem.Kind
	}{
		"another curve":              {public(t, &curve.PublicKey, "ECC_NIST_P256"), problem.Damaged},
		"another curve's bytes":      {public(t, &curve.PublicKey, ed25519Spec), problem.Damaged},
		"a point of small order":     {public(t, small, ed25519Spec), problem.Damaged},
		"no DER":                     {fmt.Sprintf(`{"KeySpec":%q,"SigningAlgorithms":["ED25519_SHA_512"],"PublicKey":"AAAA"}`, ed25519Spec), problem.Damaged},
		"another algorithm":          {fmt.Sprintf(`{"KeySpec":%q,"SigningAlgorithms":["ED25519_PH_SHA_512"],"PublicKey":"AAAA"}`, ed25519Spec), problem.Damaged},
		"an answer with nothing":     {`{}`, problem.Damaged},
		"a key that is disabled":     {"!DisabledException", problem.Unavailable},
		"a key that does not exist":  {"!NotFoundException", problem.Unavailable},
		"a spec that is not offered": {"!UnsupportedOperationException", problem.Unavailable},
	} {
		_, client := scripted(t, c.answer)
		if signer, err := kms.NewSigner(client, keyARN)(t.Context()); !problem.Is(err, c.kind) || signer != nil {
			t.Errorf("%s: signer = %v, %v, want %v", name, signer, err, c.kind)
		}
	}
}

func TestAPublicKeyThatCouldNotBeFetchedIsFetchedAgain(t *testing.T) {
	k := newKey(t)
	_, client := scripted(t, "!AccessDeniedException", publicOf(t, k.ID()))
	open := kms.NewSigner(client, keyARN)
	if _, err := open(t.Context()); !problem.Is(err, problem.Unavailable) {
		t.Errorf("first = %v, want unavailable", err)
	}
	if s, err := open(t.Context()); err != nil || s.ID() != k.ID() {
		t.Errorf("second = %v, %v, want %s", s, err, k.ID().Short())
	}
}

func FuzzPublicKeysAreIDsOrRefused(f *testing.F) {
	der, err := x509.MarshalPKIXPublicKey(ed25519.PublicKey(make([]byte, 32)))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(der)
	f.Add([]byte{0x30})
	f.Fuzz(func(t *testing.T, der []byte) {
		if id, err := kms.ParsePublicKey(der); err == nil && id.Check() != nil {
			t.Errorf("ParsePublicKey(%x) = %s, which is no id", der, id)
		} else if err != nil && !problem.Is(err, problem.Damaged) {
			t.Errorf("ParsePublicKey(%x) = %v, want damaged", der, err)
		}
	})
}
