package envelope_test

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// envelopeCase is a test case of testdata/envelope.json.
type envelopeCase struct {
	Name  string
	Input struct {
		Seed      string
		From, To  identity.ID
		Seq       int64 `json:"sequence_no"`
		Timestamp string
		Prev      identity.Hash  `json:"prev_envelope_hash"`
		Key       string         `json:"idempotency_key"`
		Role      envelope.Role  `json:"role"`
		Parts     []string       `json:"parts"`
		ContextID *string        `json:"context_id"`
		MessageID *string        `json:"message_id"`
		SelfEval  *selfEvalInput `json:"self_eval"`
	}
	Expect struct {
		SigningPayload string `json:"signing_payload"`
		Length         int
		Hash           identity.Hash
		Signature      string
		Request        json.RawMessage
	}
}

type selfEvalInput struct {
	Adoption, Confidence, Factual, Honesty, Logical, Relevance float64
}

// verifyCase is a test case of testdata/envelope_verify.json.
type verifyCase struct {
	Name   string
	Input  struct{ Request json.RawMessage }
	Expect struct {
		Valid bool
		Hash  identity.Hash
	}
}

// requestCase is a test case of testdata/requests.json.
type requestCase struct {
	Name  string
	Input struct {
		ContentType string `json:"content_type"`
		State       string
		Raw         string
		RawHex      string `json:"raw_hex"`
	}
	Expect struct {
		Status       int
		StrictStatus int `json:"strict_status"`
		Body         json.RawMessage
	}
}

func (c requestCase) body(t testing.TB) []byte {
	t.Helper()
	if c.Input.RawHex == "" {
		return []byte(c.Input.Raw)
	}
	return unhex(t, c.Input.RawHex)
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

func keyOf(t testing.TB, seed string) *identity.Key {
	t.Helper()
	k, err := identity.KeyFromSeed(unhex(t, seed))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func (c envelopeCase) envelope(t testing.TB) envelope.Envelope {
	t.Helper()
	in := c.Input
	at, err := canon.ParseTime(in.Timestamp)
	if err != nil {
		t.Fatal(err)
	}
	return envelope.Envelope{From: in.From, To: in.To, Seq: in.Seq, Time: at, Prev: in.Prev, IdempotencyKey: in.Key,
		Payload: envelope.Message{Role: in.Role, Parts: in.Parts, ContextID: in.ContextID, MessageID: in.MessageID,
			SelfEval: (*envelope.SelfEval)(in.SelfEval)}}
}

func TestSignedBytesOfTheReference(t *testing.T) {
	for _, c := range vectors[envelopeCase](t, "testdata/envelope.json") {
		t.Run(c.Name, func(t *testing.T) {
			e := c.envelope(t)
			got := string(e.AppendSignedBytes(nil))
			if diff := cmp.Diff(c.Expect.SigningPayload, got); diff != "" {
				t.Fatalf("AppendSignedBytes() mismatch (-want +got):\n%s", diff)
			}
			if len(got) != c.Expect.Length {
				t.Errorf("AppendSignedBytes() has %d bytes, want %d", len(got), c.Expect.Length)
			}
			hash, err := e.Sign(t.Context(), keyOf(t, c.Input.Seed))
			if err != nil || hash != c.Expect.Hash {
				t.Errorf("Sign() = %s, %v, want %s", hash, err, c.Expect.Hash)
			}
			if got := hex.EncodeToString(e.Signature); got != c.Expect.Signature {
				t.Errorf("Signature = %s, want %s", got, c.Expect.Signature)
			}
		})
	}
}

func TestRequestsOfTheReferenceAreReadAndWritten(t *testing.T) {
	for _, c := range vectors[envelopeCase](t, "testdata/envelope.json") {
		t.Run(c.Name, func(t *testing.T) {
			want := c.envelope(t)
			want.Signature = unhex(t, c.Expect.Signature)
			req, err := envelope.DecodeRequest(c.Expect.Request)
			if err != nil {
				t.Fatalf("DecodeRequest() = %v", err)
			}
			if diff := cmp.Diff(string(want.AppendSignedBytes(nil)), string(req.Envelope.AppendSignedBytes(nil))); diff != "" {
				t.Errorf("DecodeRequest() mismatch (-want +got):\n%s", diff)
			}
			if hash, ok := req.Envelope.Verify(); !ok || hash != c.Expect.Hash {
				t.Errorf("Verify() = %s, %t, want %s, true", hash, ok, c.Expect.Hash)
			}
			// The keys must have the reference's order. The protocol does not specify white space
			// and number literals.
			if diff := cmp.Diff(cj(t, c.Expect.Request), cj(t, envelope.AppendRequest(nil, nil, &want))); diff != "" {
				t.Errorf("AppendRequest() mismatch (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(keyOrder(t, c.Expect.Request), keyOrder(t, envelope.AppendRequest(nil, nil, &want))); diff != "" {
				t.Errorf("AppendRequest() order of keys mismatch (-want +got):\n%s", diff)
			}
		})
	}
}

func cj(t testing.TB, doc []byte) string {
	t.Helper()
	var v any
	if err := json.Unmarshal(doc, &v); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// keyOrder returns the keys of all objects in document order.
func keyOrder(t testing.TB, doc []byte) []string {
	t.Helper()
	var keys []string
	d := canon.NewDecoder(doc, canon.DefaultLimits())
	var walk func() error
	walk = func() error {
		switch d.Kind() {
		case canon.Object:
			return d.Object(func(key string) error {
				keys = append(keys, key)
				return walk()
			})
		case canon.Array:
			return d.Array(func(int) error { return walk() })
		}
		return d.Skip()
	}
	if err := walk(); err != nil {
		t.Fatal(err)
	}
	return keys
}

func TestVerifyAgreesWithTheReference(t *testing.T) {
	for _, c := range vectors[verifyCase](t, "testdata/envelope_verify.json") {
		t.Run(c.Name, func(t *testing.T) {
			req, err := envelope.DecodeRequest(c.Input.Request)
			if err != nil {
				t.Fatalf("DecodeRequest() = %v", err)
			}
			if hash, ok := req.Envelope.Verify(); ok != c.Expect.Valid || hash != c.Expect.Hash {
				t.Errorf("Verify() = %s, %t, want %s, %t", hash, ok, c.Expect.Hash, c.Expect.Valid)
			}
		})
	}
}

// The decoder must accept the bodies that the reference refuses only after decoding (because of
// media type, address, state or signature).
func TestBodiesOfTheReferenceAtTheDecodingStage(t *testing.T) {
	for _, c := range vectors[requestCase](t, "testdata/requests.json") {
		t.Run(c.Name, func(t *testing.T) {
			status := c.Expect.Status
			if c.Expect.StrictStatus != 0 {
				status = c.Expect.StrictStatus
			}
			mediaType := strings.HasPrefix(c.Name, "content type ")
			req, err := envelope.DecodeRequest(c.body(t))
			if status != 400 && status != 422 || mediaType {
				if err != nil {
					t.Fatalf("DecodeRequest() = %v, want an envelope (status %d)", err, status)
				}
				_, ok := req.Envelope.Verify()
				if want := status != 401 && status != 421; ok != want && !mediaType && status != 421 {
					t.Errorf("Verify() = %t, want %t (status %d)", ok, want, status)
				}
				return
			}
			if err == nil {
				t.Fatalf("DecodeRequest() = %+v, want status %d", req, status)
			}
			if got := problem.AsError(err).Kind.Forms().HTTPStatus; got != status {
				t.Errorf("DecodeRequest() = %v, status %d, want %d", err, got, status)
			}
			checkText(t, c, problem.AsError(err))
		})
	}
}

// checkText compares an error message with the reference's message, but ignores the text from
// Python itself after some prefixes.
func checkText(t *testing.T, c requestCase, got *problem.Error) {
	t.Helper()
	var body struct{ Detail string }
	if c.Expect.StrictStatus != 0 || json.Unmarshal(c.Expect.Body, &body) != nil || body.Detail == "" {
		// The protocol does not specify this message, which must have the field, the
		// expectation and the value.
		if got.Kind == problem.Malformed && !strings.Contains(got.Text(), ": expected ") && !strings.Contains(got.Text(), "parsing the body: ") {
			t.Errorf("Text() = %q, want field, expected and got", got.Text())
		}
		return
	}
	for _, prefix := range []string{"invalid metadata: ", "invalid selfEval: ", "There was an error parsing the body"} {
		rest, found := strings.CutPrefix(body.Detail, prefix)
		if found && !(strings.HasPrefix(rest, "'") && strings.HasSuffix(rest, "'") && !strings.Contains(rest, " ")) {
			if !strings.HasPrefix(got.Text(), prefix) {
				t.Errorf("Text() = %q, want %q and more", got.Text(), prefix)
			}
			return
		}
	}
	if got.Text() != body.Detail {
		t.Errorf("Text() = %q, want %q", got.Text(), body.Detail)
	}
}
