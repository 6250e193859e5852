package kms_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/kms"
	"github.com/vacancy-host/vacancy/shared/obs"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func b64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

func TestASecretGoesUnderItsKeyAndContext(t *testing.T) {
	s, client := scripted(t, `{"CiphertextBlob":"`+b64("sealed")+`"}`, `{"Plaintext":"`+b64("seed")+`"}`)
	v := kms.New(client, keyARN)
	ctx, usage := obs.WithUsage(t.Context(), obs.Invocation{Now: time.Now})
	box, err := v.Seal(ctx, "vacant:1", []byte("seed"))
	if err != nil || string(box) != "\x01sealed" {
		t.Fatalf("Seal() = %q, %v, want the format and the ciphertext", box, err)
	}
	got, err := v.Open(ctx, "vacant:1", box)
	if err != nil || string(got) != "seed" {
		t.Fatalf("Open() = %q, %v, want the seed", got, err)
	}
	context := map[string]any{"vacancy": "vacant:1"}
	want := []asked{
		{"Encrypt", map[string]any{"KeyId": keyARN, "Plaintext": b64("seed"), "EncryptionContext": context}},
		{"Decrypt", map[string]any{"KeyId": keyARN, "CiphertextBlob": b64("sealed"), "EncryptionContext": context}},
	}
	if diff := cmp.Diff(want, s.asked); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if n := usage.Counts().KMS; n != 2 {
		t.Errorf("usage counts %d requests, want 2", n)
	}
}

func TestAnEmptySecretIsNotAZeroByte(t *testing.T) {
	s, client := scripted(t, `{"CiphertextBlob":"`+b64("sealed")+`"}`, `{"Plaintext":"AA=="}`)
	v := kms.New(client, keyARN)
	box, err := v.Seal(t.Context(), "vacant:1", nil)
	if err != nil || string(box) != "\x02sealed" {
		t.Fatalf("Seal(nothing) = %q, %v", box, err)
	}
	if got, err := v.Open(t.Context(), "vacant:1", box); err != nil || got == nil || len(got) != 0 {
		t.Errorf("Open() = %q, %v, want an empty secret", got, err)
	}
	for _, a := range s.asked {
		if diff := cmp.Diff(map[string]any{"vacancy": "vacant:1#empty"}, a.Body["EncryptionContext"]); diff != "" {
			t.Errorf("%s: context (-want +got):\n%s", a.Operation, diff)
		}
	}
}

func TestMalformedBoxIsDamagedWithoutACallToKMS(t *testing.T) {
	s, client := scripted(t, `{}`)
	v := kms.New(client, keyARN)
	for name, c := range map[string]struct {
		bound string
		box   []byte
	}{
		"nothing":                     {"b", nil},
		"a format alone":              {"b", []byte{1}},
		"another format":              {"b", []byte("\x03sealed")},
		"too much":                    {"b", bytes.Repeat([]byte{1}, 6146)},
		"bound to nothing":            {"", []byte("\x01sealed")},
		"bound as an empty secret is": {"b#empty", []byte("\x01sealed")},
	} {
		if got, err := v.Open(t.Context(), c.bound, c.box); !problem.Is(err, problem.Damaged) || got != nil {
			t.Errorf("Open(%s) = %q, %v, want damaged", name, got, err)
		}
	}
	if _, err := v.Seal(t.Context(), "b", make([]byte, custody.MaxSecretBytes+1)); !problem.Is(err, problem.TooLarge) {
		t.Errorf("Seal(too much) = %v, want too large", err)
	}
	for _, bound := range []string{"", "b#empty"} {
		if _, err := v.Seal(t.Context(), bound, []byte("x")); err == nil {
			t.Errorf("Seal() for the context %q succeeded", bound)
		}
	}
	if len(s.asked) != 0 {
		t.Errorf("requests = %v, want none", s.asked)
	}
}

// Only an error about the box means damage. After an error of the service, of its key or of the
// caller, the box may be intact.
func TestOnlyWhatIsWrongWithABoxIsDamage(t *testing.T) {
	for fault, want := range map[string]struct {
		kind  problem.Kind
		tries int
		text  string
	}{
		"InvalidCiphertextException":  {problem.Damaged, 1, "does not open"},
		"IncorrectKeyException":       {problem.Damaged, 1, "does not open"},
		"AccessDeniedException":       {problem.Unavailable, 1, "refuses access"},
		"DisabledException":           {problem.Unavailable, 1, "key is disabled"},
		"KMSInvalidStateException":    {problem.Unavailable, 1, "about to be deleted"},
		"NotFoundException":           {problem.Unavailable, 1, "does not exist"},
		"InvalidKeyUsageException":    {problem.Unavailable, 1, "another kind"},
		"ExpiredTokenException":       {problem.Unavailable, 1, "credentials are expired"},
		"UnrecognizedClientException": {problem.Unavailable, 1, "credentials are expired or wrong"},
		"InvalidSignatureException":   {problem.Unavailable, 1, "credentials are expired or wrong"},
		"ThrottlingException":         {problem.Unavailable, 3, "the key service failed"},
		"KMSInternalException":        {problem.Unavailable, 3, "the key service failed"},
		"DependencyTimeoutException":  {problem.Unavailable, 3, "the key service failed"},
		"KeyUnavailableException":     {problem.Unavailable, -1, "the key service failed"},
		"LimitExceededException":      {problem.Unavailable, -1, "the key service failed"},
		"ValidationException":         {problem.Unavailable, 1, "the key service failed"},
		"SomethingNewException":       {problem.Unavailable, 1, "the key service failed"},
	} {
		t.Run(fault, func(t *testing.T) {
			s, client := scripted(t, "!"+fault)
			v := kms.New(client, keyARN)
			got, err := v.Open(t.Context(), "vacant:1", []byte("\x01sealed"))
			if p := problem.AsError(err); got != nil || p == nil || p.Kind != want.kind || !strings.Contains(p.Text(), want.text) {
				t.Errorf("Open() = %q, %v, want %v saying %q", got, err, want.kind, want.text)
			}
			if p := problem.AsError(err); p != nil && strings.Contains(p.Text(), keyARN) {
				t.Errorf("the refusal names the key: %s", p.Text())
			}
			if got, want := errors.Is(err, custody.ErrWithheld), fault == "AccessDeniedException"; got != want {
				t.Errorf("withheld: %t, want %t", got, want)
			}
			if n := len(s.asked); want.tries > 0 && n != want.tries {
				t.Errorf("asked %d times, want %d", n, want.tries)
			}
			if _, err := v.Seal(t.Context(), "vacant:1", []byte("hush")); !problem.Is(err, problem.Unavailable) {
				t.Errorf("Seal() = %v, want unavailable", err)
			}
		})
	}
}

func TestAServiceThatIsAwayIsUnavailable(t *testing.T) {
	v := kms.New(clientAt("http://127.0.0.1:1"), keyARN)
	if got, err := v.Open(t.Context(), "vacant:1", []byte("\x01sealed")); !problem.Is(err, problem.Unavailable) || got != nil {
		t.Errorf("Open() = %q, %v, want unavailable", got, err)
	}
	ended, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	if _, err := v.Seal(ended, "vacant:1", []byte("hush")); !problem.Is(err, problem.Unavailable) || strings.Contains(err.Error(), "hush") {
		t.Errorf("Seal() with no time left = %v, want unavailable", err)
	}
}

func TestAThrottledRequestIsMadeAgain(t *testing.T) {
	s, client := scripted(t, "!ThrottlingException", `{"Plaintext":"`+b64("seed")+`"}`)
	got, err := kms.New(client, keyARN).Open(t.Context(), "vacant:1", []byte("\x01sealed"))
	if err != nil || string(got) != "seed" || len(s.asked) != 2 {
		t.Errorf("Open() = %q, %v after %d requests, want the seed after 2", got, err, len(s.asked))
	}
}

func TestAVaultPrintsNothingOfItsKey(t *testing.T) {
	_, client := scripted(t, `{}`)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d"} {
		if got := fmt.Sprintf(verb, kms.New(client, keyARN)); got != "kms.Vault" {
			t.Errorf("%s prints %s", verb, got)
		}
	}
}
