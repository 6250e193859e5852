package awshost

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/kms"
)

// ARNs of the keys of a host in KMS.
const (
	SealKey = "arn:aws:kms:us-east-1:123456789012:key/11111111-1111-1111-1111-111111111111"
	HostKey = "arn:aws:kms:us-east-1:123456789012:key/22222222-2222-2222-2222-222222222222"
)

// NewInKMS is New for a host whose sealing key and identity are in KMS, as on AWS. KMS is a server in this process.
func NewInKMS(tb testing.TB) *Host {
	tb.Helper()
	h := New(tb)
	_, identity, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	server := httptest.NewServer(&keyService{vault: h.Vault, identity: identity})
	tb.Cleanup(server.Close)
	client := kms.NewClient(aws.Config{Region: "us-east-1", BaseEndpoint: &server.URL, Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")})
	h.Vault, h.Identity = kms.New(client, SealKey), kms.NewSigner(client, HostKey)
	h.sealKey, h.keys = SealKey, []string{"VACANCY_HOST_KEY=" + HostKey, "AWS_ENDPOINT_URL_KMS=" + server.URL}
	return h
}

// keyService is KMS with the two keys.
type keyService struct {
	vault    custody.Vault
	identity ed25519.PrivateKey
}

// ServeHTTP answers the operations that functions use.
func (k *keyService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in struct {
		KeyId                              string
		Plaintext, CiphertextBlob, Message []byte
		EncryptionContext                  map[string]string
	}
	_ = json.NewDecoder(r.Body).Decode(&in)
	out := map[string]any{"KeyId": in.KeyId}
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	err := k.answer(r.Context(), operation, in.EncryptionContext["vacancy"], in.Plaintext, in.CiphertextBlob, in.Message, out)
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		out = map[string]any{"__type": "InvalidCiphertextException"}
	}
	_ = json.NewEncoder(w).Encode(out)
}

func (k *keyService) answer(ctx context.Context, operation, bound string, plain, box, message []byte, out map[string]any) (err error) {
	switch operation {
	case "Encrypt":
		out["CiphertextBlob"], err = k.vault.Seal(ctx, bound, plain)
	case "Decrypt":
		out["Plaintext"], err = k.vault.Open(ctx, bound, box)
	case "GetPublicKey":
		out["KeySpec"], out["SigningAlgorithms"] = "ECC_NIST_EDWARDS25519", []string{"ED25519_SHA_512"}
		out["PublicKey"], err = x509.MarshalPKIXPublicKey(k.identity.Public())
	case "Sign":
		out["Signature"] = ed25519.Sign(k.identity, message)
	}
	return err
}
