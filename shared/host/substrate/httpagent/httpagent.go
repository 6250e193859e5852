// Package httpagent is the substrate behind an HTTP endpoint: it POSTs the
// question as JSON and accepts the answer as JSON or plain text.
//
// The invariant: the request contains the members of the question and nothing
// else: no envelope, no signature, no key, no header chosen by the caller.
// (outbound adds X-Ray's trace id.)
package httpagent

import (
	"context"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

// agent is at one URL.
type agent struct {
	client *outbound.Client
	url    string
}

// New returns a constructor for substrate.Kinds. Requests go through client as
// the vacant, so client's guard may refuse them.
func New(client *outbound.Client) func(url string) (substrate.Substrate, error) {
	return func(url string) (substrate.Substrate, error) {
		if err := substrate.CheckURL(url); err != nil {
			return nil, err
		}
		return substrate.Func((&agent{client, url}).answer), nil
	}
}

// answer POSTs {message, caller, vacant, context_id, history, id, deadline_ms} and returns the text of
// the answer: member text of a JSON object, or the body if it is text/plain. A
// timeout is a problem of kind Deadline. SubstrateUnavailable means that the
// endpoint cannot be reached or is out of order (5xx, 408, 429),
// SubstrateMisconfigured that it may not be reached or answers something else,
// SubstrateTooLarge that it answers too much. Those say what was expected and what
// came, and have what it answered as a call.AgentError.
func (s *agent) answer(ctx context.Context, q substrate.Request) (string, error) {
	r, err := substrate.WhileRefused(ctx, func() (outbound.Reply, error) {
		return s.client.Do(ctx, outbound.Vacant(q.Vacant), outbound.Request{
			Method: http.MethodPost, URL: s.url, Body: appendQuestion(ctx, nil, q),
			Header: http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/plain"}},
		})
	})
	if err != nil {
		return "", substrate.Unreached(err)
	}
	text, err := read(&r)
	if err != nil {
		return "", &call.AgentError{Status: r.Status, Body: substrate.Excerpt(r.Body), Err: err}
	}
	return text, nil
}

// read is the text of a reply.
func read(r *outbound.Reply) (string, error) {
	if r.Status != http.StatusOK {
		return "", substrate.BadStatus(r.Status)
	}
	text, err := textOf(r)
	if err == nil && len(text) > substrate.MaxText {
		err = substrate.TooLarge(len(text))
	}
	return text, err
}

// appendQuestion appends the request body. history is what was said before, if the
// vacant's agent remembers. deadline_ms is how long the host waits,
// in milliseconds, and is left out if nothing bounds it.
func appendQuestion(ctx context.Context, b []byte, q substrate.Request) []byte {
	b = append(b, `{"message":`...)
	b = canon.AppendString(b, q.Text())
	b = append(b, `,"caller":"`...)
	b = q.Caller.AppendHex(b)
	b = append(b, `","vacant":"`...)
	b = q.Vacant.AppendHex(b)
	b = append(b, `","context_id":`...)
	if q.ContextID == nil {
		b = append(b, "null"...)
	} else {
		b = canon.AppendString(b, *q.ContextID)
	}
	if before := q.Turns[:len(q.Turns)-1]; len(before) > 0 {
		b = append(b, `,"history":[`...)
		for i, t := range before {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, `{"role":"`...)
			b = append(append(b, t.Role...), `","text":`...)
			b = append(canon.AppendString(b, t.Text), '}')
		}
		b = append(b, ']')
	}
	b = append(b, `,"id":"`...)
	b = append(append(b, q.ID().String()...), '"')
	if deadline, ok := ctx.Deadline(); ok {
		b = strconv.AppendInt(append(b, `,"deadline_ms":`...), max(time.Until(deadline).Milliseconds(), 0), 10)
	}
	return append(b, '}')
}

// textOf extracts the text of a reply by its media type.
func textOf(r *outbound.Reply) (string, error) {
	const want = "application/json or text/plain in UTF-8"
	header := r.Header.Get("Content-Type")
	media, params, err := mime.ParseMediaType(header)
	if err != nil {
		return "", failed("Content-Type", want, fmt.Sprintf("%.80q", header))
	}
	switch strings.ToLower(params["charset"]) {
	case "", "utf-8", "utf8", "us-ascii":
	default:
		return "", failed("Content-Type", want, fmt.Sprintf("%.80q", header))
	}
	switch media {
	case "application/json":
		return parse(r.Body)
	case "text/plain":
		if !utf8.Valid(r.Body) {
			return "", failed("body", "UTF-8", "other bytes")
		}
		return string(r.Body), nil
	}
	return "", failed("Content-Type", want, fmt.Sprintf("%.80q", header))
}

// parse reads member text and ignores other members.
func parse(body []byte) (string, error) {
	d := canon.NewDecoder(body, canon.AnswerLimits())
	text, found := "", false
	err := d.Document(func(key string) (err error) {
		if key != "text" {
			return d.Skip()
		}
		found = true
		text, err = d.String()
		return err
	})
	if err == nil && !found {
		return "", failed("text", "a string", "nothing")
	}
	if err != nil {
		return "", problem.Within(problem.SubstrateMisconfigured, "the agent's answer is not an object with member text", err)
	}
	return text, nil
}

func failed(what, want, got string) error {
	return &problem.Error{Kind: problem.SubstrateMisconfigured, Field: field(what), Want: want, Got: got}
}

func field(what string) string { return "answer of the agent: " + what }
