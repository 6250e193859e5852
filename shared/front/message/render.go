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

const (
	pendingRetryAfter = "1"
	busyRetryAfter    = "5"
)

func SecondsUntilMidnightUTC(now time.Time) int {
	return int(now.UTC().Truncate(24*time.Hour).Add(24*time.Hour).Sub(now)/time.Second) + 1
}

func sendRefusal(w http.ResponseWriter, p *problem.Error) {
	httpapi.Send(w, p.Kind.Forms().HTTPStatus, append(beginRefusal(detailPrefix, p), '}'))
}

const (
	detailPrefix     = `{"detail":`
	resetErrorPrefix = `{"ok":false,"error":`
)

func beginRefusal(prefix string, p *problem.Error) []byte {
	b := canon.AppendString([]byte(prefix), p.Text())
	return canon.AppendString(append(b, `,"code":`...), p.Kind.String())
}

func encodeAnswer(id []byte, o *call.Outcome) []byte {
	b := envelope.AppendResponse(nil, id, o.Reply)
	if o.CutReason == "" {
		return b
	}
	b = append(bytes.TrimSuffix(b, []byte("}}")), `,"cut":`...)
	return append(canon.AppendString(b, string(o.CutReason)), "}}"...)
}

// sendOutcome sends a JSON object with the outcome's members. body is the beginning of the object,
// or nil.
func sendOutcome(w http.ResponseWriter, o *call.Outcome, body []byte) {
	status := http.StatusOK
	if o.Problem != nil {
		status = o.Problem.Kind.Forms().HTTPStatus
	}
	m := objectBuilder{b: body}
	if o.State != "" {
		m.addString("state", string(o.State))
	}
	if o.State == call.Pending && !o.Due.IsZero() {
		m.addString("due", canon.FormatTime(o.Due))
	}
	if o.State == call.Pending {
		w.Header().Set("Retry-After", pendingRetryAfter)
	}
	if o.Problem != nil && o.Problem.Kind.Forms().HTTPStatus == http.StatusPaymentRequired {
		w.Header().Set("Cache-Control", "no-store")
	}
	if o.Problem != nil && o.Problem.Kind == problem.SubstrateBusy {
		w.Header().Set("Retry-After", busyRetryAfter)
	}
	if o.HasChain {
		m.addRaw("expected_seq", strconv.AppendInt(nil, o.ExpectedSeq, 10))
		m.addString("chain_tip", o.ChainTip.String())
	}
	if !o.Floor.IsZero() {
		m.addString("floor", canon.FormatTime(o.Floor))
	}
	if !o.RestoredAt.IsZero() {
		m.addString("restored", canon.FormatTime(o.RestoredAt))
	}
	if !o.HostTime.IsZero() {
		m.addString("now", canon.FormatTime(o.HostTime))
	}
	if o.Price != nil && o.PaymentOptions != nil {
		// Encoding integers, strings and times cannot fail.
		terms, _ := json.Marshal(o.Price)
		m.addRaw("price", terms)
		paymentOptions, _ := json.Marshal(o.PaymentOptions)
		m.addRaw("pay", paymentOptions)
	}
	if o.CutReason != "" {
		m.addString("cut", string(o.CutReason))
	}
	if o.HasUnsearchedEpochs {
		m.addRaw("too_old", []byte("true"))
	}
	switch {
	case o.Reply != nil:
		m.addRaw("reply", envelope.AppendMessage(nil, o.Reply))
	case o.ReplySeq > 0:
		m.addRaw("reply_seq", strconv.AppendInt(nil, o.ReplySeq, 10))
		m.addString("reply_hash", o.ReplyHash.String())
	}
	httpapi.Send(w, status, append(m.b, '}'))
}

// objectBuilder appends members to the JSON object in b.
type objectBuilder struct{ b []byte }

func (m *objectBuilder) addRaw(key string, value []byte) {
	sep := byte(',')
	if len(m.b) == 0 {
		sep = '{'
	}
	m.b = canon.AppendString(append(m.b, sep), key)
	m.b = append(append(m.b, ':'), value...)
}

func (m *objectBuilder) addString(key, value string) { m.addRaw(key, canon.AppendString(nil, value)) }
