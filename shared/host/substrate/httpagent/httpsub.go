// Package httpagent is the substrate behind an HTTP endpoint: it POSTs the
// question as JSON and accepts the answer as JSON or plain text.
//
// The invariant: the request contains the four members of the question and
// nothing else: no envelope, no signature, no key, no header chosen by the
// caller. (outbound adds X-Ray's trace id.)
package httpagent

import (
	"context"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

// Deadline bounds one request. The context of a behaviour ends 2 s before the
// host's own deadline (call.Config), which is reserved for signing and storing
// the answer.
const Deadline = 25 * time.Second

// Substrate calls one URL.
type Substrate struct {
	client *outbound.Client
	url    string
}

// New returns a constructor for substrate.Kinds. Requests go through client as
// the vacant, so client's guard may refuse them.
func New(client *outbound.Client) func(url string) (substrate.Substrate, error) {
	return func(url string) (substrate.Substrate, error) {
		u, err := outbound.ParseURL(url)
		if err != nil {
			p := problem.Of(err)
			return nil, &problem.Error{Kind: p.Kind, Field: "substrate", Want: "http: and " + p.Want, Got: p.Got, Err: p.Err}
		}
		if host := u.Hostname(); strings.ContainsFunc(host, func(r rune) bool { return r >= utf8.RuneSelf }) {
			// A host must have one spelling, because substrates are compared as
			// evidence.
			return nil, problem.Invalid("substrate", "a host in ASCII, as in xn--bcher-kva.example", fmt.Sprintf("%.80q", host))
		}
		return &Substrate{client: client, url: url}, nil
	}
}

// Answer POSTs {message, caller, vacant, context_id} and returns the text of
// the answer: member text of a JSON object, or the body if it is text/plain. A
// timeout is a problem of kind Deadline; all other errors are BehaviourFailed
// and say what was expected and what came.
func (s *Substrate) Answer(ctx context.Context, q substrate.Question) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, Deadline)
	defer cancel()
	r, err := s.client.Do(ctx, outbound.Vacant(q.Vacant), outbound.Request{
		Method: http.MethodPost, URL: s.url, Body: appendQuestion(nil, q),
		Header: http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/plain"}},
	})
	switch {
	case problem.Is(err, problem.Deadline), problem.Is(err, problem.Canceled):
		return "", err
	case err != nil:
		return "", problem.New(problem.BehaviourFailed, "the substrate gave no answer: %v", err)
	case r.Status != http.StatusOK:
		return "", failed("status", "200", fmt.Sprint(r.Status))
	}
	text, err := read(r)
	switch {
	case err != nil:
		return "", err
	case len(text) > substrate.MaxText:
		return "", failed("text", fmt.Sprintf("at most %d bytes", substrate.MaxText), fmt.Sprint(len(text)))
	}
	return text, nil
}

// appendQuestion appends the request body.
func appendQuestion(b []byte, q substrate.Question) []byte {
	b = append(b, `{"message":`...)
	b = canon.AppendString(b, q.Text)
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
	return append(b, '}')
}

// read extracts the text of a reply by its media type.
func read(r outbound.Reply) (string, error) {
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
		return "", problem.Wrap(problem.BehaviourFailed, err, "the substrate's answer is not an object with member text: %s", problem.Of(err).Text())
	}
	return text, nil
}

func failed(field, want, got string) error {
	return &problem.Error{Kind: problem.BehaviourFailed, Field: "answer of the substrate: " + field, Want: want, Got: got}
}
