package kms_test

import (
	"context"
	"os"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/custodytest"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/kms"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// serverURL is the URL of a key service for tests: LocalStack, which tests/run
// starts and names here.
const serverURL = "VACANCY_TEST_AWS"

func server(t *testing.T) *awskms.Client {
	t.Helper()
	url := os.Getenv(serverURL)
	if url == "" {
		t.Skip("no key service: " + serverURL + " is not set; tests/run sets it in its LocalStack stage")
	}
	return clientAt(url)
}

// made creates a key that is deleted with the test.
func made(t *testing.T, c *awskms.Client, spec types.KeySpec, use types.KeyUsageType) string {
	t.Helper()
	out, err := c.CreateKey(t.Context(), &awskms.CreateKeyInput{KeySpec: spec, KeyUsage: use})
	if err != nil {
		t.Fatal(err)
	}
	key := aws.ToString(out.KeyMetadata.Arn)
	t.Cleanup(func() {
		if _, err := c.ScheduleKeyDeletion(context.WithoutCancel(t.Context()), &awskms.ScheduleKeyDeletionInput{KeyId: &key, PendingWindowInDays: aws.Int32(7)}); err != nil {
			t.Logf("key %s stays: %v", key, err)
		}
	})
	return key
}

func sealing(t *testing.T, c *awskms.Client) string {
	return made(t, c, types.KeySpecSymmetricDefault, types.KeyUsageTypeEncryptDecrypt)
}

func TestOnAWSTheServiceKeepsTheContract(t *testing.T) {
	c := server(t)
	custodytest.Run(t, func(t *testing.T) custody.Vault { return kms.New(c, sealing(t, c)) })
}

func TestOnAWSAKeyThatIsDisabledOrGoneIsUnavailable(t *testing.T) {
	c := server(t)
	key := sealing(t, c)
	v := kms.New(c, key)
	box, err := v.Seal(t.Context(), "vacant:1", []byte("seed"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.DisableKey(t.Context(), &awskms.DisableKeyInput{KeyId: &key}); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Open(t.Context(), "vacant:1", box); !problem.Is(err, problem.Unavailable) {
		t.Errorf("Open() under a disabled key = %v, want unavailable", err)
	}
	if _, err := c.EnableKey(t.Context(), &awskms.EnableKeyInput{KeyId: &key}); err != nil {
		t.Fatal(err)
	}
	if got, err := v.Open(t.Context(), "vacant:1", box); err != nil || string(got) != "seed" {
		t.Errorf("Open() under the key enabled again = %q, %v", got, err)
	}
	missing := key[:len(key)-12] + "000000000000"
	if _, err := kms.New(c, missing).Seal(t.Context(), "vacant:1", []byte("seed")); !problem.Is(err, problem.Unavailable) {
		t.Errorf("Seal() under a key that does not exist = %v, want unavailable", err)
	}
}

func TestOnAWSTheServiceSignsAsAnIdentity(t *testing.T) {
	c := server(t)
	s, err := kms.NewSigner(c, made(t, c, types.KeySpecEccNistEdwards25519, types.KeyUsageTypeSignVerify))(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, msg := range [][]byte{[]byte("hello"), make([]byte, 4096)} {
		if sig, err := s.Sign(t.Context(), msg); err != nil || !identity.Verify(s.ID(), msg, sig) {
			t.Errorf("Sign(%d bytes) = %x, %v", len(msg), sig, err)
		}
	}
	if _, err := kms.NewSigner(c, sealing(t, c))(t.Context()); err == nil {
		t.Error("a sealing key was taken for an identity")
	}
}
