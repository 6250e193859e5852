package envelope_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"pgregory.net/rapid"
)

// drawEnvelope draws any envelope that Check accepts.
func drawEnvelope(t *rapid.T) envelope.Envelope {
	bytes32 := rapid.SliceOfN(rapid.Byte(), identity.Size, identity.Size)
	shortText := rapid.StringN(-1, -1, envelope.MaxIDBytes)
	dimension := rapid.Float64Range(0, 1)
	first, last := time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	e := envelope.Envelope{
		From: identity.ID(bytes32.Draw(t, "from")),
		To:   identity.ID(bytes32.Draw(t, "to")),
		Seq:  rapid.Int64Range(1, envelope.MaxSeq).Draw(t, "seq"),
		Time: time.Unix(rapid.Int64Range(first.Unix(), last.Unix()).Draw(t, "seconds"),
			1000*rapid.Int64Range(0, 999_999).Draw(t, "micros")).UTC(),
		Prev:           identity.Hash(bytes32.Draw(t, "prev")),
		IdempotencyKey: shortText.Draw(t, "key"),
		Signature:      rapid.SliceOfN(rapid.Byte(), 0, 70).Draw(t, "signature"),
		Payload: envelope.Message{
			Role:      rapid.SampledFrom([]envelope.Role{envelope.RoleUser, envelope.RoleAgent, envelope.RoleTool}).Draw(t, "role"),
			Parts:     rapid.SliceOfN(rapid.String(), 0, 5).Draw(t, "parts"),
			ContextID: rapid.Ptr(shortText, true).Draw(t, "contextId"),
			MessageID: rapid.Ptr(shortText, true).Draw(t, "messageId"),
		},
	}
	if len(e.Payload.Parts) == 0 {
		e.Payload.Parts = nil
	}
	if rapid.Bool().Draw(t, "selfEval") {
		e.Payload.SelfEval = &envelope.SelfEval{Adoption: dimension.Draw(t, "adoption"), Confidence: dimension.Draw(t, "confidence"),
			Factual: dimension.Draw(t, "factual"), Honesty: dimension.Draw(t, "honesty"), Logical: dimension.Draw(t, "logical"),
			Relevance: dimension.Draw(t, "relevance")}
	}
	return e
}

func TestEnvelopesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawEnvelope(t)
		if err := e.Payload.Check(); err != nil {
			t.Fatalf("Check() = %v", err)
		}
		body := envelope.AppendRequest(nil, nil, &e)
		req, err := envelope.DecodeRequest(body)
		if err != nil {
			t.Fatalf("DecodeRequest(%s) = %v", body, err)
		}
		if diff := cmp.Diff(e, req.Envelope); diff != "" {
			t.Fatalf("DecodeRequest(AppendRequest()) mismatch (-want +got):\n%s", diff)
		}
		if again := envelope.AppendRequest(nil, req.ID, &req.Envelope); !bytes.Equal(body, again) {
			t.Fatalf("AppendRequest() = %s, want %s", again, body)
		}
		for name, read := range map[string]func() (envelope.Envelope, error){
			"DecodeResponse": func() (envelope.Envelope, error) {
				return envelope.DecodeResponse(envelope.AppendResponse(nil, nil, &e))
			},
			"DecodeMessage":      func() (envelope.Envelope, error) { return envelope.DecodeMessage(envelope.AppendMessage(nil, &e)) },
			"DecodeResetRequest": func() (envelope.Envelope, error) { r, err := envelope.DecodeResetRequest(body); return r.Envelope, err },
		} {
			got, err := read()
			if diff := cmp.Diff(e, got); err != nil || diff != "" {
				t.Fatalf("%s() = %v, mismatch (-want +got):\n%s", name, err, diff)
			}
		}
	})
}

func TestEveryFieldIsSigned(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawEnvelope(t), drawEnvelope(t)
		a.Signature, b.Signature = nil, nil
		same := cmp.Equal(a, b)
		if got := bytes.Equal(a.AppendSignedBytes(nil), b.AppendSignedBytes(nil)); got != same {
			t.Fatalf("equal signing bytes = %t of envelopes that are equal = %t:\n%s", got, same, cmp.Diff(a, b))
		}
		// If one field changes, the signed bytes must change.
		b = a
		switch rapid.IntRange(0, 8).Draw(t, "field") {
		case 0:
			b.From[31] ^= 1
		case 1:
			b.To[0] ^= 0x80
		case 2:
			b.Seq ^= 1
		case 3:
			b.Time = b.Time.Add(time.Microsecond)
		case 4:
			b.Prev[7] ^= 1
		case 5:
			b.IdempotencyKey += " "
		case 6:
			b.Payload.Parts = append([]string{""}, b.Payload.Parts...)
		case 7:
			b.Payload.ContextID, b.Payload.MessageID = b.Payload.MessageID, ptr("other")
		case 8:
			b.Payload.SelfEval = &envelope.SelfEval{Adoption: 2}
		}
		if a.Hash() == b.Hash() {
			t.Fatalf("Hash() is the same of\n%s\n%s", a.AppendSignedBytes(nil), b.AppendSignedBytes(nil))
		}
	})
}

// A decoded body must pass Check, and encoding and decoding it again must not change the signed
// bytes. An error must be short and have a kind for bad input.
func FuzzDecodeRequest(f *testing.F) {
	for _, c := range vectors[requestCase](f, "testdata/requests.json") {
		f.Add(c.body(f))
	}
	for _, c := range vectors[envelopeCase](f, "testdata/envelope.json") {
		f.Add([]byte(c.Expect.Request))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		req, err := envelope.DecodeRequest(body)
		if err != nil {
			p := problem.AsError(err)
			if p.Kind != problem.NotJSON && p.Kind != problem.Malformed && p.Kind != problem.TooLarge || len(p.Text()) > 400 {
				t.Errorf("DecodeRequest(%q) = %v of kind %s", body, err, p.Kind)
			}
			return
		}
		e := req.Envelope
		if err := e.Payload.Check(); err != nil || e.Seq < 1 || e.Seq > envelope.MaxSeq || len(e.IdempotencyKey) > envelope.MaxIDBytes {
			t.Errorf("DecodeRequest(%q) took what cannot be signed: %v", body, err)
		}
		signing := e.AppendSignedBytes(nil)
		again, err := envelope.DecodeResponse(envelope.AppendResponse(nil, req.ID, &e))
		if err != nil || !bytes.Equal(again.AppendSignedBytes(nil), signing) || !bytes.Equal(again.Signature, e.Signature) {
			t.Errorf("DecodeRequest(%q) signs as %s, and written and read again as %s (%v)", body, signing, again.AppendSignedBytes(nil), err)
		}
		if reset, err := envelope.DecodeResetRequest(body); err != nil || !bytes.Equal(reset.Envelope.AppendSignedBytes(nil), signing) {
			t.Errorf("DecodeResetRequest(%q) = %v where DecodeRequest takes it", body, err)
		}
	})
}
