package message

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// The members beside a refusal and in the answer to an ask (PROTOCOL §6).
func TestMembersOfAnOutcome(t *testing.T) {
	at := time.Date(2026, 6, 1, 12, 0, 0, 1000, time.UTC)
	hash := identity.Hash{0xab}
	replay := problem.New(problem.Replay, "d")
	for _, tt := range []struct {
		name   string
		o      call.Outcome
		status int
		want   string
		retry  string
	}{
		{"a refusal that tells nothing", call.Outcome{Problem: problem.New(problem.BadSignature, "d")}, 401,
			`{"detail":"d","code":"bad_signature"}`, ""},
		{"where the chain stands", call.Outcome{Problem: replay, HasChain: true, ExpectedSeq: 7, ChainTip: hash, Floor: at}, 409,
			`{"detail":"d","code":"replay","expected_seq":7,"chain_tip":"` + hash.String() + `","floor":"2026-06-01T12:00:00.000001+00:00"}`, ""},
		{"a chain that a restore may have cut", call.Outcome{Problem: replay, HasChain: true, ExpectedSeq: 7, ChainTip: hash, Floor: at, RestoredAt: at.Add(-time.Minute)}, 409,
			`{"detail":"d","code":"replay","expected_seq":7,"chain_tip":"` + hash.String() + `","floor":"2026-06-01T12:00:00.000001+00:00","restored":"2026-06-01T11:59:00.000001+00:00"}`, ""},
		{"an empty chain", call.Outcome{Problem: replay, HasChain: true, ExpectedSeq: 1}, 409,
			`{"detail":"d","code":"replay","expected_seq":1,"chain_tip":"` + strings.Repeat("0", 64) + `"}`, ""},
		{"the host's clock", call.Outcome{Problem: problem.New(problem.ClockSkew, "d"), HostTime: at}, 400,
			`{"detail":"d","code":"clock","now":"2026-06-01T12:00:00.000001+00:00"}`, ""},
		{"a call that is not decided", call.Outcome{Problem: replay, State: call.Pending}, 409,
			`{"detail":"d","code":"replay","state":"pending"}`, "1"},
		{"an answer whose text is gone", call.Outcome{Problem: replay, State: call.Answered, ReplySeq: 3, ReplyHash: hash}, 409,
			`{"detail":"d","code":"replay","state":"answered","reply_seq":3,"reply_hash":"` + hash.String() + `"}`, ""},
		{"how to pay", call.Outcome{Problem: problem.New(problem.PaymentRequired, "d"), Price: &price.Price{Version: 3, Flat: 2000, SetAt: at}, PaymentOptions: []json.RawMessage{[]byte(`{"way":"x"}`)}}, 402,
			`{"detail":"d","code":"payment_required","price":{"version":3,"flat":2000,"set":"2026-06-01T12:00:00.000001Z"},"pay":[{"way":"x"}]}`, ""},
		{"to an ask", call.Outcome{State: call.Unanswered, HasChain: true, ExpectedSeq: 2, ChainTip: hash}, 200,
			`{"state":"unanswered","expected_seq":2,"chain_tip":"` + hash.String() + `"}`, ""},
		{"to an ask, with epochs unread", call.Outcome{State: call.Unknown, HasUnsearchedEpochs: true}, 200,
			`{"state":"unknown","too_old":true}`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, b := httptest.NewRecorder(), []byte(nil)
			if tt.o.Problem != nil {
				b = beginRefusal(detailPrefix, tt.o.Problem)
			}
			sendOutcome(w, &tt.o, b)
			if diff := cmp.Diff(tt.want, w.Body.String()); w.Code != tt.status || diff != "" {
				t.Errorf("status %d, want %d; body (-want +got):\n%s", w.Code, tt.status, diff)
			}
			if got := w.Header().Get("Retry-After"); got != tt.retry {
				t.Errorf("Retry-After = %q, want %q", got, tt.retry)
			}
		})
	}
}

// Reference clients read only result.message.
func TestAnAnswerIsMarkedAsCut(t *testing.T) {
	e := &envelope.Envelope{Seq: 1, Time: time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC), IdempotencyKey: "k",
		Payload: envelope.Message{Role: envelope.RoleAgent, Parts: []string{"half"}}, Signature: make([]byte, identity.SignatureSize)}
	whole := string(envelope.AppendResponse(nil, []byte("7"), e))
	if got := string(encodeAnswer([]byte("7"), &call.Outcome{Reply: e})); got != whole {
		t.Errorf("a whole answer is %s, want %s", got, whole)
	}
	cut := encodeAnswer([]byte("7"), &call.Outcome{Reply: e, CutReason: call.CutLength})
	if want := strings.TrimSuffix(whole, "}}") + `,"cut":"length"}}`; string(cut) != want || !json.Valid(cut) {
		t.Errorf("a cut answer is %s, want %s", cut, want)
	}
	if back, err := envelope.DecodeResponse(cut); err != nil || back.Payload.Text() != "half" {
		t.Errorf("DecodeResponse() = %+v, %v", back, err)
	}
}

func TestSecondsUntilMidnightUTC(t *testing.T) {
	tokyo := time.FixedZone("JST", 9*3600)
	for at, want := range map[time.Time]int{
		time.Date(2026, 5, 6, 23, 59, 59, 0, time.UTC):   2,
		time.Date(2026, 5, 6, 23, 59, 59, 5e8, time.UTC): 1,
		time.Date(2026, 5, 6, 0, 0, 0, 0, time.UTC):      86401,
		time.Date(2026, 5, 7, 1, 0, 0, 0, tokyo):         8*3600 + 1,
	} {
		if got := SecondsUntilMidnightUTC(at); got != want {
			t.Errorf("SecondsUntilMidnightUTC(%v) = %d, want %d", at, got, want)
		}
	}
}
