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
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/network/sse"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/lax"
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

// Infer POSTs {message, caller, vacant, context_id, files, history, id, deadline_ms} and yields
// the answer: members text, state and usage of a JSON object, a body of text/plain, or the
// events of text/event-stream as they come. A timeout is a problem of kind Deadline.
// SubstrateUnavailable means that the endpoint cannot be reached or is out of order
// (5xx, 408, an event error, a stream without done), SubstrateBusy 429,
// SubstrateMisconfigured that it may not be reached or answers something else,
// SubstrateTooLarge that it answers too much. Those say what was expected and what
// came, and have what it answered as a call.AgentError.
func (s *agent) Infer(ctx context.Context, q substrate.Request) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		reply, err := substrate.WhileRefused(ctx, func() (*http.Response, error) { return s.post(ctx, &q) })
		if err != nil {
			yield(nil, unreached(err))
			return
		}
		defer reply.Body.Close()
		body := &substrate.Beginning{Reader: reply.Body}
		size := 0
		for e, err := range read(reply, body) {
			if text, ok := e.(substrate.Text); ok {
				if size += len(text); size > substrate.MaxText {
					e, err = nil, substrate.TooLarge(size)
				}
			}
			if err != nil {
				err = substrate.Answered(reply.StatusCode, reply.Header, q.Secret.Hide(body.Said), err)
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// post sends the question.
func (s *agent) post(ctx context.Context, q *substrate.Request) (*http.Response, error) {
	body := AppendQuestion(ctx, nil, q)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/plain, text/event-stream")
	if !q.Secret.IsZero() {
		r.Header.Set(signatureHeader, signature(q.Secret, time.Now(), body))
	}
	return s.client.As(outbound.Vacant(q.Vacant, q.By)).HTTPClient().Do(r)
}

// unreached gives an error of package outbound, or of a body, its kind.
func unreached(err error) error {
	var known *problem.Error
	if errors.As(err, &known) {
		err = known
	}
	return substrate.Unreached(err)
}

// read yields the events of a reply by its media type.
func read(reply *http.Response, body io.Reader) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		media, err := mediaOf(reply)
		switch {
		case err != nil:
			_, _ = io.CopyN(io.Discard, body, 2*substrate.MaxExcerpt) // the part that came is shown
			yield(nil, err)
			return
		case media == "text/event-stream":
			stream(body)(yield)
			return
		}
		all, err := io.ReadAll(body)
		if err != nil {
			yield(nil, unreached(err))
			return
		}
		var events []substrate.Event
		switch isObject := bytes.HasPrefix(bytes.TrimSpace(canon.TrimMark(all)), []byte("{")); {
		case media == "" && !isObject:
			err = wrongMedia(media)
		case media == "application/json", media == "":
			events, err = object(all)
		case utf8.Valid(all):
			events = append(whole(string(canon.TrimMark(all))), substrate.Stop)
		default:
			err = failed("body", "UTF-8", "other bytes")
		}
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

// Parse returns the events of an answer that is a JSON object.
func Parse(body []byte) ([]substrate.Event, error) {
	events, err := object(body)
	if err != nil {
		return nil, err
	}
	for _, e := range events {
		if text, ok := e.(substrate.Text); ok && len(text) > substrate.MaxText {
			return nil, substrate.TooLarge(len(text))
		}
	}
	return events, nil
}

// object returns the events of a JSON object.
func object(body []byte) ([]substrate.Event, error) {
	text, asks, end, err := parse(body)
	if err != nil {
		return nil, err
	}
	events := append(whole(text), end...)
	if asks {
		events = append([]substrate.Event{substrate.Asks{}}, events...)
	}
	return events, nil
}

// AppendQuestion appends the request body. files are the files of an agent that takes files
// (definition.Agent.Input): {name, media_type, data} with data in base64, or {name, media_type, url}. A URL
// is the caller's text, which the host has not read. history is the earlier conversation, if
// the vacant's agent remembers; or what the caller says that it was, each turn with the role
// caller, and claimed is the role that the caller gives the speaker. deadline_ms is the time that the host waits, in
// milliseconds, and is left out if nothing bounds it.
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
	if files := q.Turns[len(q.Turns)-1].Files; len(files) > 0 {
		b = append(b, `,"files":[`...)
		for i := range files {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendFile(b, &files[i])
		}
		b = append(b, ']')
	}
	if before := q.Turns[:len(q.Turns)-1]; len(before) > 0 {
		b = append(b, `,"history":[`...)
		for i, t := range before {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, `{"role":"`...)
			b = append(append(b, t.Role...), '"')
			if t.Claimed != "" {
				b = canon.AppendString(append(b, `,"claimed":`...), t.Claimed)
			}
			b = append(b, `,"text":`...)
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

func appendFile(b []byte, f *substrate.File) []byte {
	b = append(b, '{')
	for _, member := range []struct{ name, text string }{{"name", f.Name}, {"media_type", f.MediaType}, {"url", f.URL}} {
		if member.text != "" {
			b = append(append(append(b, '"'), member.name...), `":`...)
			b = append(canon.AppendString(b, member.text), ',')
		}
	}
	if f.URL != "" {
		b[len(b)-1] = '}'
		return b
	}
	b = base64.StdEncoding.AppendEncode(append(b, `"data":"`...), f.Data)
	return append(b, `"}`...)
}

// mediaOf returns the media type of a reply that may be an answer. It is "" for a reply without
// one, which may be an object.
func mediaOf(reply *http.Response) (string, error) {
	if reply.StatusCode != http.StatusOK {
		return "", substrate.BadStatus(reply.StatusCode)
	}
	header := reply.Header.Get("Content-Type")
	media, params, err := mime.ParseMediaType(header)
	if header == "" {
		return "", nil
	}
	if err == nil && slices.Contains([]string{"application/json", "text/plain", "text/event-stream"}, media) {
		switch strings.ToLower(params["charset"]) {
		case "", "utf-8", "utf8", "us-ascii":
			return media, nil
		}
	}
	return "", wrongMedia(header)
}

func wrongMedia(header string) error {
	return failed("Content-Type", "application/json, text/plain or text/event-stream in UTF-8", fmt.Sprintf("%.80q", header))
}

// whole returns the event of a text, or none for an empty text.
func whole(text string) []substrate.Event {
	if text == "" {
		return nil
	}
	return []substrate.Event{substrate.Text(text)}
}

// stream yields events: delta, thought and ask with {"text"}, usage, and at the end done, or
// error. Others are ignored.
func stream(body io.Reader) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		for e, err := range sse.Events(body, outbound.MaxStream) {
			switch {
			case errors.Is(err, sse.ErrTooLong):
				err = problem.Wrap(problem.SubstrateTooLarge, err, "the agent's answer: %v", err)
			case err != nil:
				err = unreached(err)
			}
			var event substrate.Event
			switch {
			case err != nil:
			case e.Name == "delta", e.Name == "thought", e.Name == "ask":
				var text string
				if text, _, _, err = parse(e.Data); err == nil && text != "" {
					event = substrate.Text(text)
					if e.Name == "thought" {
						event = substrate.Thought(text)
					}
					if e.Name == "ask" && !yield(substrate.Asks{}, nil) {
						return
					}
				}
			case e.Name == "usage":
				if u, ok := usage(e.Data); ok {
					event = u
				}
			case e.Name == "error":
				err = problem.New(problem.SubstrateUnavailable, "the agent's answer ends with an error")
			case e.Name == "done":
				event = substrate.Stop
			}
			switch {
			case err != nil:
				yield(nil, err)
				return
			case event != nil && !yield(event, nil), e.Name == "done":
				return
			}
		}
		yield(nil, problem.New(problem.SubstrateUnavailable, "the agent's answer ends without the event done"))
	}
}

// usage reads {"input_tokens", "output_tokens", "cached_tokens"}. ok is false if there is no
// number.
func usage(data []byte) (u substrate.Usage, ok bool) {
	var is lax.Of[struct {
		In     lax.Count `json:"input_tokens"`
		Out    lax.Count `json:"output_tokens"`
		Cached lax.Count `json:"cached_tokens"`
	}]
	if json.Unmarshal(data, &is) != nil {
		return u, false
	}
	v := &is.Value
	return substrate.Usage{In: v.In.Int(), Out: v.Out.Int(), Cached: v.Cached.Int()}, v.In.IsGiven() || v.Out.IsGiven()
}

// parse reads the members text, state and usage with the end of the answer, and ignores other
// members.
func parse(body []byte) (text string, asks bool, end []substrate.Event, err error) {
	limits := canon.AnswerLimits()
	limits.Lenient = true
	d := canon.NewDecoder(canon.TrimMark(body), limits)
	found := false
	err = d.Document(func(key string) (err error) {
		switch key {
		case "text":
			found = true
			text, err = d.String()
			return err
		case "state":
			raw, err := d.Span()
			asks = string(raw) == `"input-required"`
			return err
		case "usage":
			raw, err := d.Span()
			if u, ok := usage(raw); ok {
				end = append(end, u)
			}
			return err
		}
		return d.Skip()
	})
	if err == nil && !found {
		return "", false, nil, failed("text", "a string", "nothing")
	}
	if err != nil {
		return "", false, nil, problem.Within(problem.SubstrateMisconfigured, "the agent's answer is not an object with member text", err)
	}
	return text, asks, append(end, substrate.Stop), nil
}

func failed(what, want, got string) error {
	return &problem.Error{Kind: problem.SubstrateMisconfigured, Field: "answer of the agent: " + what, Want: want, Got: got}
}
