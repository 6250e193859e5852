// Package httpagent is the substrate behind an HTTP endpoint: it POSTs the
// question as JSON and accepts the answer as JSON, plain text or server-sent events.
//
// The invariant: the request contains the members of the question and nothing
// else: no envelope, no key, no header chosen by the caller. (outbound adds X-Ray's
// trace id.) A secret is not sent; it signs the request.
package httpagent

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/sse"
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
		return &agent{client, url}, nil
	}
}

// signatureHeader has the signature of a request to an agent with a secret.
const signatureHeader = "Vacancy-Signature"

// signature returns "t=SECONDS,v1=HEX" with the HMAC-SHA256 of "SECONDS.BODY".
func signature(s substrate.Secret, at time.Time, body []byte) string {
	t := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(s.Reveal()))
	mac.Write([]byte(t + "."))
	mac.Write(body)
	return "t=" + t + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}

// Infer POSTs {message, caller, vacant, context_id, history, id, deadline_ms} and gives
// the answer: members text and usage of a JSON object, a body of text/plain, or the
// events of text/event-stream. A timeout is a problem of kind Deadline.
// SubstrateUnavailable means that the endpoint cannot be reached or is out of order
// (5xx, 408, an event error, a stream without done), SubstrateBusy 429,
// SubstrateMisconfigured that it may not be reached or answers something else,
// SubstrateTooLarge that it answers too much. Those say what was expected and what
// came, and have what it answered as a call.AgentError.
func (s *agent) Infer(ctx context.Context, q substrate.Request) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		events, err := s.ask(ctx, q)
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

// ask returns the whole answer. Nothing shows it before its end yet, so it is read at
// once.
func (s *agent) ask(ctx context.Context, q substrate.Request) ([]substrate.Event, error) {
	r, err := substrate.WhileRefused(ctx, func() (outbound.Reply, error) {
		body := AppendQuestion(ctx, nil, &q)
		header := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/plain, text/event-stream"}}
		if !q.Secret.IsZero() {
			header.Set(signatureHeader, signature(q.Secret, time.Now(), body))
		}
		return s.client.Do(ctx, outbound.Vacant(q.Vacant, q.By), outbound.Request{Method: http.MethodPost, URL: s.url, Body: body, Header: header})
	})
	if err != nil {
		return nil, substrate.Unreached(err)
	}
	events, err := read(&r)
	if err != nil {
		err = substrate.Answered(r.Status, r.Header, q.Secret.Hide(r.Body), err)
	}
	return events, err
}

// read is the answer in a reply.
func read(r *outbound.Reply) ([]substrate.Event, error) {
	if r.Status != http.StatusOK {
		return nil, substrate.BadStatus(r.Status)
	}
	return bounded(eventsOf(r))
}

// Parse returns the events of an answer that is a JSON object.
func Parse(body []byte) ([]substrate.Event, error) {
	return bounded(object(body))
}

// object returns the events of a JSON object.
func object(body []byte) ([]substrate.Event, error) {
	text, end, err := parse(body)
	if err != nil {
		return nil, err
	}
	return append(whole(text), end...), nil
}

// bounded refuses an answer with more than substrate.MaxText bytes of text.
func bounded(events []substrate.Event, err error) ([]substrate.Event, error) {
	size := 0
	for _, e := range events {
		if text, ok := e.(substrate.Text); ok {
			size += len(text)
		}
	}
	if size > substrate.MaxText {
		return nil, substrate.TooLarge(size)
	}
	return events, err
}

// AppendQuestion appends the request body. history is what was said before, if the
// vacant's agent remembers. deadline_ms is how long the host waits,
// in milliseconds, and is left out if nothing bounds it.
func AppendQuestion(ctx context.Context, b []byte, q *substrate.Request) []byte {
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

// eventsOf reads a reply by its media type.
func eventsOf(r *outbound.Reply) ([]substrate.Event, error) {
	const want = "application/json, text/plain or text/event-stream in UTF-8"
	header := r.Header.Get("Content-Type")
	media, params, err := mime.ParseMediaType(header)
	if err != nil {
		return nil, failed("Content-Type", want, fmt.Sprintf("%.80q", header))
	}
	switch strings.ToLower(params["charset"]) {
	case "", "utf-8", "utf8", "us-ascii":
	default:
		return nil, failed("Content-Type", want, fmt.Sprintf("%.80q", header))
	}
	switch media {
	case "application/json":
		return object(r.Body)
	case "text/plain":
		if !utf8.Valid(r.Body) {
			return nil, failed("body", "UTF-8", "other bytes")
		}
		return append(whole(string(r.Body)), substrate.Stop), nil
	case "text/event-stream":
		return stream(r.Body)
	}
	return nil, failed("Content-Type", want, fmt.Sprintf("%.80q", header))
}

// whole is the event of a text; none if there is no text.
func whole(text string) []substrate.Event {
	if text == "" {
		return nil
	}
	return []substrate.Event{substrate.Text(text)}
}

// stream reads events: delta and thought with {"text"}, usage, and at the end done, or
// error. Others are ignored.
func stream(body []byte) (all []substrate.Event, err error) {
	for e, err := range sse.Events(bytes.NewReader(body), len(body)) {
		if err != nil {
			return all, failed("stream", "server-sent events", "something else")
		}
		switch e.Name {
		case "delta", "thought":
			text, _, err := parse(e.Data)
			switch {
			case err != nil:
				return all, err
			case text == "":
			case e.Name == "delta":
				all = append(all, substrate.Text(text))
			default:
				all = append(all, substrate.Thought(text))
			}
		case "usage":
			u, err := usage(canon.NewDecoder(e.Data, canon.AnswerLimits()))
			if err != nil {
				return all, badUsage(err)
			}
			all = append(all, u)
		case "error":
			return all, problem.New(problem.SubstrateUnavailable, "the agent's answer ends with an error")
		case "done":
			return append(all, substrate.Stop), nil
		}
	}
	return all, problem.New(problem.SubstrateUnavailable, "the agent's answer ends without the event done")
}

// usage reads {"input_tokens", "output_tokens", "cached_tokens"}, each from 0.
func usage(d *canon.Decoder) (u substrate.Usage, err error) {
	err = d.Object(func(key string) error {
		to := map[string]*int{"input_tokens": &u.In, "output_tokens": &u.Out, "cached_tokens": &u.Cached}[key]
		if to == nil {
			return d.Skip()
		}
		n, err := d.Int64()
		if err == nil && (n < 0 || n > maxTokens) {
			err = problem.Invalid(key, fmt.Sprintf("0 to %d", maxTokens), strconv.FormatInt(n, 10))
		}
		*to = int(n)
		return err
	})
	return u, err
}

// maxTokens bounds what an agent reports.
const maxTokens = 1 << 40

func badUsage(err error) error {
	return problem.Within(problem.SubstrateMisconfigured, "the agent's usage is not an object of numbers", err)
}

// parse reads member text, and usage with the end of the answer, and ignores other
// members.
func parse(body []byte) (text string, end []substrate.Event, err error) {
	d := canon.NewDecoder(body, canon.AnswerLimits())
	found := false
	err = d.Document(func(key string) (err error) {
		switch {
		case key == "text":
			found = true
			text, err = d.String()
			return err
		case key == "usage" && d.Kind() != canon.Null:
			u, err := usage(d)
			if err == nil {
				end = append(end, u)
				return nil
			}
			return badUsage(err)
		}
		return d.Skip()
	})
	if err == nil && !found {
		return "", nil, failed("text", "a string", "nothing")
	}
	if err != nil {
		return "", nil, problem.Within(problem.SubstrateMisconfigured, "the agent's answer is not an object with member text", err)
	}
	return text, append(end, substrate.Stop), nil
}

func failed(what, want, got string) error {
	return &problem.Error{Kind: problem.SubstrateMisconfigured, Field: field(what), Want: want, Got: got}
}

func field(what string) string { return "answer of the agent: " + what }
