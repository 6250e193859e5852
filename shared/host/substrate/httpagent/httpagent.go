// Package httpagent is the substrate for an agent at an HTTP endpoint. It sends the question with
// POST as JSON and accepts an answer as JSON, plain text or server-sent events. A request contains
// no envelope, no key and no header that the caller chose. A secret is not sent, but signs the
// request.
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

type agent struct {
	client *outbound.Client
	url    string
}

func New(client *outbound.Client) func(url string) (substrate.Substrate, error) {
	// client asks its guard whether a vacant may call a URL.
	return func(url string) (substrate.Substrate, error) {
		if err := substrate.CheckURL(url); err != nil {
			return nil, err
		}
		return &agent{client, url}, nil
	}
}

const signatureHeader = "Vacancy-Signature"

func sign(s substrate.Secret, now time.Time, body []byte) string {
	// The signature is "t=SECONDS,v1=HEX" with the HMAC-SHA256 of "SECONDS.BODY".
	t := strconv.FormatInt(now.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(s.Reveal()))
	mac.Write([]byte(t + "."))
	mac.Write(body)
	return "t=" + t + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}

// Infer implements substrate.Substrate.
func (a *agent) Infer(ctx context.Context, q substrate.Request) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		Ask(ctx, a.client.ForActor(outbound.VacantActor(q.Vacant, q.Chooser)), a.url, q.Secret, AppendQuestion(ctx, nil, &q))(yield)
	}
}

// Ask sends a question in the form of AppendQuestion to the agent at a URL, and yields its answer.
// The secret signs the request.
func Ask(ctx context.Context, client outbound.ActorClient, url string, secret substrate.Secret, question []byte) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		reply, err := substrate.RetryConnectionRefused(ctx, func() (*http.Response, error) { return post(ctx, client, url, secret, question) })
		if err != nil {
			yield(nil, requestError(err))
			return
		}
		defer reply.Body.Close()
		body := &substrate.HeadReader{Reader: reply.Body}
		size := 0
		for e, err := range readAnswer(reply, body) {
			if text, ok := e.(substrate.Text); ok {
				if size += len(text); size > substrate.MaxText {
					e, err = nil, substrate.TooLargeError(size)
				}
			}
			if err != nil {
				err = substrate.AnswerError(reply.StatusCode, reply.Header, secret.Hide(body.Head), err)
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

func post(ctx context.Context, client outbound.ActorClient, url string, secret substrate.Secret, body []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/plain, text/event-stream")
	if !secret.IsZero() {
		r.Header.Set(signatureHeader, sign(secret, time.Now(), body))
	}
	return client.HTTPClient().Do(r)
}

func requestError(err error) error {
	var problemErr *problem.Error
	if errors.As(err, &problemErr) {
		err = problemErr
	}
	return substrate.ConvertRequestError(err)
}

func readAnswer(reply *http.Response, body io.Reader) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		mediaType, err := answerMediaType(reply)
		switch {
		case err != nil:
			// This read fills the head of body, which Ask quotes in the error.
			_, _ = io.CopyN(io.Discard, body, 2*substrate.MaxExcerptBytes)
			yield(nil, err)
			return
		case mediaType == "text/event-stream":
			streamEvents(body)(yield)
			return
		}
		content, err := io.ReadAll(body)
		if err != nil {
			yield(nil, requestError(err))
			return
		}
		var events []substrate.Event
		switch isObject := bytes.HasPrefix(bytes.TrimSpace(canon.TrimByteOrderMark(content)), []byte("{")); {
		case mediaType == "" && !isObject:
			err = mediaTypeError(mediaType)
		case mediaType == "application/json", mediaType == "":
			events, err = objectEvents(content)
		case utf8.Valid(content):
			events = append(textEvents(string(canon.TrimByteOrderMark(content))), substrate.FinishStop)
		default:
			err = misconfiguredError("body", "UTF-8", "other bytes")
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

func ParseAnswer(body []byte) ([]substrate.Event, error) {
	events, err := objectEvents(body)
	if err != nil {
		return nil, err
	}
	for _, e := range events {
		if text, ok := e.(substrate.Text); ok && len(text) > substrate.MaxText {
			return nil, substrate.TooLargeError(len(text))
		}
	}
	return events, nil
}

func objectEvents(body []byte) ([]substrate.Event, error) {
	text, isQuestion, lastEvents, err := decodeAnswer(body)
	if err != nil {
		return nil, err
	}
	events := append(textEvents(text), lastEvents...)
	if isQuestion {
		events = append([]substrate.Event{substrate.Question{}}, events...)
	}
	return events, nil
}

// AppendQuestion appends the request body. The member history is the conversation that the vacant
// remembers or that the caller sent. In the second case, the role of every turn is caller, and
// claimed is the role that the caller claims.
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
	if earlierTurns := q.Turns[:len(q.Turns)-1]; len(earlierTurns) > 0 {
		b = append(b, `,"history":[`...)
		for i, t := range earlierTurns {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, `{"role":"`...)
			b = append(append(b, t.Role...), '"')
			if t.ClaimedRole != "" {
				b = canon.AppendString(append(b, `,"claimed":`...), t.ClaimedRole)
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

// answerMediaType returns an error if the reply cannot be an answer. If the reply has no media
// type, it returns "", because the body may be an object.
func answerMediaType(reply *http.Response) (string, error) {
	if reply.StatusCode != http.StatusOK {
		return "", substrate.StatusError(reply.StatusCode)
	}
	header := reply.Header.Get("Content-Type")
	mediaType, params, err := mime.ParseMediaType(header)
	if header == "" {
		return "", nil
	}
	if err == nil && slices.Contains([]string{"application/json", "text/plain", "text/event-stream"}, mediaType) {
		switch strings.ToLower(params["charset"]) {
		case "", "utf-8", "utf8", "us-ascii":
			return mediaType, nil
		}
	}
	return "", mediaTypeError(header)
}

func mediaTypeError(header string) error {
	return misconfiguredError("Content-Type", "application/json, text/plain or text/event-stream in UTF-8", fmt.Sprintf("%.80q", header))
}

func textEvents(text string) []substrate.Event {
	if text == "" {
		return nil
	}
	return []substrate.Event{substrate.Text(text)}
}

// streamEvents reads the events delta, thought, ask, usage, done and error. It ignores other
// events.
func streamEvents(body io.Reader) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		for e, err := range sse.Events(body, outbound.MaxStreamBytes) {
			switch {
			case errors.Is(err, sse.ErrTooLong):
				err = problem.Wrap(problem.SubstrateTooLarge, err, "the agent's answer: %v", err)
			case err != nil:
				err = requestError(err)
			}
			var event substrate.Event
			switch {
			case err != nil:
			case e.Name == "delta", e.Name == "thought", e.Name == "ask":
				var text string
				if text, _, _, err = decodeAnswer(e.Data); err == nil && text != "" {
					event = substrate.Text(text)
					if e.Name == "thought" {
						event = substrate.Thought(text)
					}
					if e.Name == "ask" && !yield(substrate.Question{}, nil) {
						return
					}
				}
			case e.Name == "usage":
				if u, ok := parseUsage(e.Data); ok {
					event = u
				}
			case e.Name == "error":
				err = problem.New(problem.SubstrateUnavailable, "the agent's answer ends with an error")
			case e.Name == "done":
				event = substrate.FinishStop
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

// parseUsage returns false if input and output tokens are both missing.
func parseUsage(data []byte) (u substrate.Usage, ok bool) {
	var decoded lax.Value[struct {
		In     lax.Count `json:"input_tokens"`
		Out    lax.Count `json:"output_tokens"`
		Cached lax.Count `json:"cached_tokens"`
	}]
	if json.Unmarshal(data, &decoded) != nil {
		return u, false
	}
	v := &decoded.Value
	return substrate.Usage{InputTokens: v.In.Int(), OutputTokens: v.Out.Int(), CachedTokens: v.Cached.Int()}, v.In.IsGiven() || v.Out.IsGiven()
}

func decodeAnswer(body []byte) (text string, isQuestion bool, lastEvents []substrate.Event, err error) {
	limits := canon.AnswerLimits()
	limits.Lenient = true
	d := canon.NewDecoder(canon.TrimByteOrderMark(body), limits)
	hasText := false
	err = d.Document(func(key string) (err error) {
		switch key {
		case "text":
			hasText = true
			text, err = d.String()
			return err
		case "state":
			raw, err := d.SkipRaw()
			isQuestion = string(raw) == `"input-required"`
			return err
		case "usage":
			raw, err := d.SkipRaw()
			if u, ok := parseUsage(raw); ok {
				lastEvents = append(lastEvents, u)
			}
			return err
		}
		return d.Skip()
	})
	if err == nil && !hasText {
		return "", false, nil, misconfiguredError("text", "a string", "nothing")
	}
	if err != nil {
		return "", false, nil, problem.WithPlace(problem.SubstrateMisconfigured, "the agent's answer is not an object with member text", err)
	}
	return text, isQuestion, append(lastEvents, substrate.FinishStop), nil
}

func misconfiguredError(field, want, got string) error {
	return &problem.Error{Kind: problem.SubstrateMisconfigured, Field: "answer of the agent: " + field, Want: want, Got: got}
}
