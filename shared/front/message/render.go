package message

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
)

// Retry-After values in seconds, for a pending call and for a call whose agent is busy.
const (
	retryAfter = "1"
	busyAfter  = "5"
)

func SecondsUntilMidnightUTC(now time.Time) int {
	// The result is rounded up.
	return int(now.UTC().Truncate(24*time.Hour).Add(24*time.Hour).Sub(now)/time.Second) + 1
}

func fail(w http.ResponseWriter, p *problem.Error) {
	httpapi.Send(w, p.Kind.Row().Status, append(refusalBody(detail, p), '}'))
}

// Beginnings of the JSON of a refusal, and of the refusal of a reset.
const (
	detail     = `{"detail":`
	resetError = `{"ok":false,"error":`
)

// refusalBody returns the beginning of a refusal's JSON object, with its text and code. The caller
// appends further members and the closing brace.
func refusalBody(beginning string, p *problem.Error) []byte {
	b := canon.AppendString([]byte(beginning), p.Text())
	return canon.AppendString(append(b, `,"code":`...), p.Kind.String())
}

// answer returns the body of an answer. Reference callers read only the message in its result.
func answer(id []byte, o *call.Outcome) []byte {
	b := envelope.AppendResponse(nil, id, o.Reply)
	if o.Cut == "" {
		return b
	}
	b = append(bytes.TrimSuffix(b, []byte("}}")), `,"cut":`...)
	return append(canon.AppendString(b, string(o.Cut)), "}}"...)
}

// sendOutcome appends the outcome's members to b, the beginning of a refusal, and sends the object.
// b is empty for the answer to an ask. Reference callers read only the detail.
func sendOutcome(w http.ResponseWriter, o *call.Outcome, b []byte) {
	status := http.StatusOK
	if o.Problem != nil {
		status = o.Problem.Kind.Row().Status
	}
	m := members{b: b}
	if o.State != "" {
		m.text("state", string(o.State))
	}
	if o.State == call.Pending && !o.Due.IsZero() {
		m.text("due", canon.FormatTime(o.Due))
	}
	if o.State == call.Pending {
		w.Header().Set("Retry-After", retryAfter)
	}
	if o.Problem != nil && o.Problem.Kind.Row().Status == http.StatusPaymentRequired {
		w.Header().Set("Cache-Control", "no-store")
	}
	if o.Problem != nil && o.Problem.Kind == problem.SubstrateBusy {
		w.Header().Set("Retry-After", busyAfter)
	}
	if o.HasChain {
		m.raw("expected_seq", strconv.AppendInt(nil, o.ExpectedSeq, 10))
		m.text("chain_tip", o.ChainTip.String())
	}
	if !o.Floor.IsZero() {
		m.text("floor", canon.FormatTime(o.Floor))
	}
	if !o.Restored.IsZero() {
		m.text("restored", canon.FormatTime(o.Restored))
	}
	if !o.Now.IsZero() {
		m.text("now", canon.FormatTime(o.Now))
	}
	if o.Price != nil && o.Pay != nil {
		// Encoding integers, strings and times cannot fail.
		terms, _ := json.Marshal(o.Price)
		m.raw("price", terms)
		ways, _ := json.Marshal(o.Pay)
		m.raw("pay", ways)
	}
	if o.Cut != "" {
		m.text("cut", string(o.Cut))
	}
	if o.TooOld {
		m.raw("too_old", []byte("true"))
	}
	switch {
	case o.Reply != nil:
		m.raw("reply", envelope.AppendMessage(nil, o.Reply))
	case o.ReplySeq > 0:
		m.raw("reply_seq", strconv.AppendInt(nil, o.ReplySeq, 10))
		m.text("reply_hash", o.ReplyHash.String())
	}
	httpapi.Send(w, status, append(m.b, '}'))
}

// members appends members to the JSON object in b. If b is empty, it begins the object.
type members struct{ b []byte }

func (m *members) raw(key string, value []byte) {
	sep := byte(',')
	if len(m.b) == 0 {
		sep = '{'
	}
	m.b = canon.AppendString(append(m.b, sep), key)
	m.b = append(append(m.b, ':'), value...)
}

func (m *members) text(key, value string) { m.raw(key, canon.AppendString(nil, value)) }
