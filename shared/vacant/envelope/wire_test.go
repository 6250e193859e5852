package envelope_test

import (
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// The seeds, ids, hash and signature of PROTOCOL §24.
const (
	seedA = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
	seedB = "202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f"
	hexA  = "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8"
	hexB  = "29acbae141bccaf0b22e1a94d34d0bc7361e526d0bfe12c89794bc9322966dd7"
	zeros = "0000000000000000000000000000000000000000000000000000000000000000"
	hashE = "3bdd1acc92e4e279c3b294101b1789edbbfe50fddecf002eb1ffa1f072060d97"
	sigE1 = "4f7ec52ba861d3ab247f89ce0794a3300c1077cf6922dec81614937bd1a363d9805f99413126f37baf10cc631baa11c4e98c29d4956eeb507830b056e4463903"
)

func id(t testing.TB, s string) identity.ID {
	t.Helper()
	id, err := identity.ParseID(s)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func ptr(s string) *string { return &s }

// e1 returns the first envelope of PROTOCOL §24.
func e1(t testing.TB) envelope.Envelope {
	t.Helper()
	return envelope.Envelope{From: id(t, hexA), To: id(t, hexB), Seq: 1, Time: time.Date(2026, 5, 6, 0, 0, 0, 0, time.UTC),
		IdempotencyKey: "idem-1", Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{"hello"}}, Signature: unhex(t, sigE1)}
}

func TestVectorsOfTheWireSpecification(t *testing.T) {
	tests := []struct {
		name, seed string
		e          envelope.Envelope
		signing    string // "" if PROTOCOL §24 does not contain the signed bytes
		length     int
		id         string
		hash, sig  string
	}{
		{
			name: "E1", seed: seedA, e: e1(t), length: 400, id: `"idem-1"`,
			signing: `{"from":"` + hexA + `","idem":"idem-1","payload":{"contextId":null,"messageId":null,"parts":[{"text":"hello","type":"text"}],"role":"ROLE_USER","selfEval":null},"prev":"` + zeros + `","seq":1,"to":"` + hexB + `","ts":"2026-05-06T00:00:00+00:00"}`,
			hash:    hashE, sig: sigE1,
		},
		{
			name: "E2", seed: seedA, length: 435, id: `"451742ee085509fa5e3ed7721ad1514e981430e86aee131c7800440e2d7f4158"`,
			e: envelope.Envelope{From: id(t, hexA), To: id(t, hexB), Seq: 2, Time: time.Date(2026, 5, 6, 12, 34, 56, 789_000, time.UTC),
				Prev: identity.Hash(id(t, hashE)),
				Payload: envelope.Message{Role: envelope.RoleUser, ContextID: ptr("ctx-1"),
					Parts: []string{"<b>&\"\\/\u2028 \u007f 你好 😀\n\t\u0001"}}},
			signing: `{"from":"` + hexA + `","idem":"","payload":{"contextId":"ctx-1","messageId":null,"parts":[{"text":"<b>&\"\\/` + "\u2028 \u007f" + ` 你好 😀\n\t\u0001","type":"text"}],"role":"ROLE_USER","selfEval":null},"prev":"` + hashE + `","seq":2,"to":"` + hexB + `","ts":"2026-05-06T12:34:56.000789+00:00"}`,
			hash:    "451742ee085509fa5e3ed7721ad1514e981430e86aee131c7800440e2d7f4158",
			sig:     "b79ac9767adddc13587b52f0883a87f334e6504bcf6dce0d92106058fe6698b4405a9929fd37f524d6d8fdd51eadc9441546623238e5a64db9668bf78a281804",
		},
		{
			name: "R1", seed: seedB, length: 532, id: `"rsp-1"`,
			e: envelope.Envelope{From: id(t, hexB), To: id(t, hexA), Seq: 1, Time: time.Date(2026, 5, 6, 0, 0, 1, 500_000_000, time.UTC),
				IdempotencyKey: "rsp-1",
				Payload: envelope.Message{Role: envelope.RoleAgent, MessageID: ptr("m-1"), Parts: []string{"echo: hello", "bye"},
					SelfEval: &envelope.SelfEval{Adoption: 1e-05, Confidence: 0.1, Factual: 0.9, Honesty: 0.5, Logical: 1, Relevance: 0}}},
			signing: `{"from":"` + hexB + `","idem":"rsp-1","payload":{"contextId":null,"messageId":"m-1","parts":[{"text":"echo: hello","type":"text"},{"text":"bye","type":"text"}],"role":"ROLE_AGENT","selfEval":{"adoption":1e-05,"confidence":0.1,"factual":0.9,"honesty":0.5,"logical":1.0,"relevance":0.0}},"prev":"` + zeros + `","seq":1,"to":"` + hexA + `","ts":"2026-05-06T00:00:01.500000+00:00"}`,
			hash:    "c1f2b3ba891992dcdfd6c52cb75b9b28af9d258e5ae5ae475ec30382b59c0b13",
			sig:     "a5bc6d1c3b95db9adc0b813032d2666b2a889b020d3100849613a4107d67906ee7c561622fd0583f19387c0171d96b11d577e438c2b9550150844f921c35fe03",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.signing, string(tt.e.AppendSignedBytes(nil))); diff != "" {
				t.Errorf("AppendSignedBytes() mismatch (-want +got):\n%s", diff)
			}
			if got := len(tt.e.AppendSignedBytes(nil)); got != tt.length {
				t.Errorf("AppendSignedBytes() has %d bytes, want %d", got, tt.length)
			}
			hash, err := tt.e.Sign(t.Context(), keyOf(t, tt.seed))
			if err != nil || hash.String() != tt.hash || hex.EncodeToString(tt.e.Signature) != tt.sig {
				t.Errorf("Sign() = %s with %x, %v, want %s with %s", hash, tt.e.Signature, err, tt.hash, tt.sig)
			}
			if got, ok := tt.e.Verify(); !ok || got != hash {
				t.Errorf("Verify() = %s, %t", got, ok)
			}
			if _, ok := tt.e.VerifyBy(tt.e.To); ok {
				t.Error("VerifyBy(To) = true, want false")
			}
			body := string(envelope.AppendRequest(nil, nil, &tt.e))
			if !strings.HasPrefix(body, `{"jsonrpc":"2.0","id":`+tt.id+`,"method":"message/send","params":{"message":{"role":`) {
				t.Errorf("AppendRequest() = %s, want the id %s", body, tt.id)
			}
		})
	}
}

func TestTheShapesOnTheWire(t *testing.T) {
	e := e1(t)
	const message = `{"role":"ROLE_USER","parts":[{"type":"text","text":"hello"}],"contextId":null,"messageId":null,` +
		`"metadata":{"urn:vacant:v1":{"from_vacant_id":"` + hexA + `","to_vacant_id":"` + hexB + `","sequence_no":1,` +
		`"timestamp":"2026-05-06T00:00:00+00:00","prev_envelope_hash":"` + zeros + `","idempotency_key":"idem-1","caller_signature":"` + sigE1 + `"}}}`
	tests := []struct{ name, got, want string }{
		{"AppendMessage", string(envelope.AppendMessage(nil, &e)), message},
		{"AppendRequest with the key as id", string(envelope.AppendRequest([]byte("> "), nil, &e)), `> {"jsonrpc":"2.0","id":"idem-1","method":"message/send","params":{"message":` + message + `}}`},
		{"AppendRequest with an id", string(envelope.AppendRequest(nil, []byte("[1.0]"), &e)), `{"jsonrpc":"2.0","id":[1.0],"method":"message/send","params":{"message":` + message + `}}`},
		{"AppendResponse", string(envelope.AppendResponse(nil, []byte(`{"a" : 1e2}`), &e)), `{"jsonrpc":"2.0","id":{"a" : 1e2},"result":{"message":` + message + `}}`},
		{"AppendResponse without id", string(envelope.AppendResponse(nil, nil, &e)), `{"jsonrpc":"2.0","id":null,"result":{"message":` + message + `}}`},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, tt.got); diff != "" {
			t.Errorf("%s mismatch (-want +got):\n%s", tt.name, diff)
		}
	}
	e.IdempotencyKey = ""
	if got := string(envelope.AppendRequest(nil, nil, &e)); !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":"`+e.Hash().String()+`",`) {
		t.Errorf("AppendRequest() without key = %s, want the hash as id", got)
	}
}

func TestIsReset(t *testing.T) {
	for text, want := range map[string]bool{
		"RESET_CHAIN": true, " RESET_CHAIN\n": true, "\u00a0\x1cRESET_CHAIN\u3000": true,
		"reset_chain": false, "RESET_CHAIN!": false, "": false, "RESET CHAIN": false, "\u200bRESET_CHAIN": false,
	} {
		e := envelope.Envelope{Payload: envelope.Message{Parts: []string{text}}}
		if got := e.IsReset(); got != want {
			t.Errorf("IsReset() of %q = %t, want %t", text, got, want)
		}
	}
	parted := envelope.Envelope{Payload: envelope.Message{Parts: []string{"", "RESET_CHAIN", " "}}}
	if !parted.IsReset() {
		t.Error("IsReset() of parts joined and trimmed = false, want true")
	}
}

func TestReplyKeys(t *testing.T) {
	e := e1(t)
	key := envelope.ReplyKey(e.Hash())
	if key != "re:"+hashE || !envelope.IsReplyKey(key) {
		t.Errorf("ReplyKey() = %s", key)
	}
	if envelope.IsReplyKey("RE:"+hashE) || envelope.IsReplyKey("") {
		t.Error("IsReplyKey() = true of a caller's own key")
	}
}
