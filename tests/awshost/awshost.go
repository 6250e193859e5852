// Package awshost sets up the data of a host on AWS for tests: two tables on
// DynamoDB Local, a sealing key, and the environment of the functions. A test
// can open the same host in its own process too.
package awshost

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/local"
	"github.com/vacancy-host/vacancy/shared/host/keys/operator"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/dynamo"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/tests/dynamolocal"
	"github.com/vacancy-host/vacancy/tests/sqslocal"
)

// URL is the host's public URL.
const URL = "https://test.lambda-url.us-east-1.on.aws"

// Host holds the tables and keys of a host.
type Host struct {
	Endpoint string // of DynamoDB Local
	Tables   dynamo.TableNames
	Vault    custody.Vault
	Queues   *sqslocal.Server // "tasks" and "pushes"

	// Identity is the host's identity in KMS. If it is nil, the host has a software identity.
	Identity func(context.Context) (identity.Signer, error)

	sealKey string
	keys    []string // environment of a host in KMS
}

// New creates tables that are deleted when the test ends.
func New(tb testing.TB) *Host {
	tb.Helper()
	key := make([]byte, 32)
	rand.Read(key)
	h := &Host{Endpoint: dynamolocal.Start(tb), sealKey: hex.EncodeToString(key), Queues: sqslocal.Start(tb)}
	h.Tables = dynamolocal.Tables(tb, h.Endpoint)
	vault, err := local.FromHex(h.sealKey, rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	h.Vault = vault
	return h
}

// Stage is the stage's name.
const Stage = "test"

// Gate is the state machine's ARN in the functions' environment; nothing runs
// there.
const Gate = "arn:aws:states:us-east-1:123456789012:stateMachine:vacancy-test-gate"

// Env is the environment of all functions, with DynamoDB at endpoint: the
// server's own, or a proxy's. Each function reads only its own variables.
func (h *Host) Env(endpoint string) []string {
	return append([]string{
		"AWS_ENDPOINT_URL=" + endpoint, "VACANCY_STAGE=" + Stage,
		"VACANCY_ROWS=" + h.Tables.Rows, "VACANCY_DOCS=" + h.Tables.Docs,
		"VACANCY_URL=" + URL, "VACANCY_SEAL_KEY=" + h.sealKey, "VACANCY_GATE=" + Gate, "VACANCY_MODEL_BUDGET=5",
		"AWS_ENDPOINT_URL_SQS=" + h.Queues.URL, "VACANCY_TASKS=" + h.Queues.Queue("tasks"), "VACANCY_PUSHES=" + h.Queues.Queue("pushes"), "VACANCY_TURNS=64",
	}, h.keys...)
}

// Stream gives the table of rows a stream and returns its ARN, which meter needs.
func (h *Host) Stream(tb testing.TB) string {
	tb.Helper()
	return dynamolocal.Stream(tb, h.Endpoint, h.Tables)
}

// OperatorKey creates the operator key from random bytes and replaces the
// previous key.
func (h *Host) OperatorKey(tb testing.TB, random io.Reader) string {
	tb.Helper()
	key, err := operator.Keys{Store: h.Store(h.Endpoint), Now: time.Now, Rand: random}.Rotate(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

// Store opens the tables in this process, at an endpoint.
func (h *Host) Store(endpoint string, opts ...func(*dynamodb.Options)) *dynamo.Store {
	return dynamo.New(dynamolocal.Client(endpoint, opts...), h.Tables)
}

// Open opens the host in this process over s, with a clock and with additional
// substrates from kinds.
func (h *Host) Open(tb testing.TB, s store.Store, now func() time.Time, kinds substrate.Kinds) *serve.Server {
	tb.Helper()
	server, err := serve.Config{
		Store: s, Vault: h.Vault, Substrates: kinds, URL: URL, Log: slog.New(slog.DiscardHandler), Now: now, Rand: rand.Reader, AllowRemote: true, HasAccounts: true, Identity: h.Identity,
	}.Open()
	if err != nil {
		tb.Fatal(err)
	}
	return server
}

// Create creates a vacant with the echo substrate; a nil key means a new one.
func (h *Host) Create(tb testing.TB, name string, key *identity.Key) identity.ID {
	tb.Helper()
	server := h.Open(tb, h.Store(h.Endpoint), time.Now, nil)
	r, err := server.Vacants.Create(tb.Context(), vacants.CreateSpec{Name: name, Capability: "echoes", Substrate: "echo", Key: key})
	if err != nil {
		tb.Fatal(err)
	}
	return r.ID
}
