// Package remote asks models at servers: it posts a request in JSON and reads the
// server-sent events of the answer.
//
// The invariant: a request goes to one URL, as the vacant that is asked, and has
// only the given header and body. Errors never contain the secret of a request.
package remote

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/network/sse"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/lax"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Request is the request to a server.
type Request struct {
	Spec      substrate.Spec // model at the server
	Omissions *Omissions
	Header    http.Header                  // besides Content-Type and Accept
	Body      func(*substrate.Request) any // in JSON
}

// Answer reads one answer in the form of a provider.
type Answer interface {
	// Read reads the data of an event, or an answer in one piece, that is not an error. With
	// io.EOF it was the last.
	Read(data []byte) ([]substrate.Event, error)
	Ender
}

// Ender ends an answer, as Ending does.
type Ender interface {
	// End returns the rest of the answer once nothing follows: the last event is Done.
	// closed says that the server marked the end of the stream. The error is CutOff if
	// the answer has no end.
	End(closed bool) ([]substrate.Event, error)
}

// Infer sends a request for r through client, whose guard may refuse it, and yields the
// events that a makes of the answer: a stream, or one JSON document. A failure after the
// end of the answer, such as a lost connection, does not cost the answer.
//
// The kinds of its errors are SubstrateUnavailable if the server cannot be reached or is
// out of order, SubstrateBusy for 429, SubstrateTooLarge for a long stream,
// SubstrateMisconfigured for any other answer, and the kinds of a's errors. The server's
// answer is in the error as a call.AgentError.
func Infer(ctx context.Context, client *outbound.Client, r *substrate.Request, q Request, a Answer) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		give := func(events []substrate.Event) bool {
			for _, e := range events {
				if !yield(e, nil) {
					return false
				}
			}
			return true
		}
		closed := false
		var document []byte
		for e, err := range ask(ctx, client, r, q, &document) {
			var events []substrate.Event
			closed = err == nil && string(e.Data) == sse.Done
			if err == nil && !closed {
				if said, failed := findError(&e); failed {
					err = Failed(said)
				} else if events, err = a.Read(e.Data); errors.Is(err, io.EOF) {
					closed, err = true, nil
				}
				if err != nil {
					err = substrate.Answered(http.StatusOK, nil, r.Secret.Hide(e.Data), err)
				}
			}
			switch {
			case !give(events):
				return
			case err != nil:
				GiveEnd(a, false, err)(yield)
				return
			}
			if closed {
				break
			}
		}
		var err error
		if document != nil {
			err = substrate.Answered(http.StatusOK, nil, r.Secret.Hide(document), Unreadable())
		}
		GiveEnd(a, closed, err)(yield)
	}
}

// GiveEnd yields the end of an answer, if it has one. Otherwise it yields err, which says why
// nothing follows, or for nil the error of the end. A refusal counts even after an end.
func GiveEnd(a Ender, closed bool, err error) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		events, unended := a.End(closed)
		if unended != nil || problem.Is(err, problem.SubstrateRefused) {
			if err == nil {
				err = unended
			}
			yield(nil, err)
			return
		}
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// ask sends the request, and yields each event of the answer. Noise is skipped. A JSON document in place of a stream is kept in document; it is one event, or an
// event for each element of its array, and its end marks the end of the answer.
func ask(ctx context.Context, client *outbound.Client, r *substrate.Request, q Request, document *[]byte) iter.Seq2[sse.Event, error] {
	return func(yield func(sse.Event, error) bool) {
		reply, err := post(ctx, client, r, q)
		if err != nil {
			yield(sse.Event{}, err)
			return
		}
		defer reply.Body.Close()
		body := bufio.NewReader(reply.Body)
		if first := firstByte(body); first == '{' || first == '[' {
			if *document, err = io.ReadAll(body); err != nil {
				yield(sse.Event{}, failure(err))
				return
			}
			eventsOf(*document, r)(yield)
			return
		}
		began := &substrate.Beginning{Reader: body}
		some := false
		for e, err := range sse.Events(began, outbound.MaxStream) {
			if err != nil {
				yield(sse.Event{}, failure(err))
				return
			}
			if e.Data = bytes.TrimSpace(e.Data); e.IsNoise() && string(e.Data) != sse.Done {
				continue
			}
			some = true
			if !yield(e, nil) {
				return
			}
		}
		if said := began.Said; !some && len(said) > 0 {
			err := Unreadable()
			if isStream(said) {
				err = CutOff()
			}
			yield(sse.Event{}, substrate.Answered(http.StatusOK, nil, r.Secret.Hide(said), err))
		}
	}
}

// isStream reports whether a body begins as a stream of events does.
func isStream(said []byte) bool {
	line, _, _ := bytes.Cut(bytes.TrimLeft(said, "\r\n"), []byte("\n"))
	field, _, _ := bytes.Cut(bytes.TrimSpace(line), []byte(":"))
	return slices.Contains([]string{"", "data", "event", "id", "retry"}, string(field))
}

// firstByte returns the first byte that is neither white space nor a byte order mark,
// and leaves it unread. It returns 0 at the end.
func firstByte(r *bufio.Reader) byte {
	for {
		c, _, err := r.ReadRune()
		switch {
		case err != nil:
			return 0
		case c != '\uFEFF' && !unicode.IsSpace(c):
			_ = r.UnreadRune() // one was just read
			return byte(min(c, utf8.RuneSelf))
		}
	}
}

// eventsOf yields the events of a JSON document.
func eventsOf(document []byte, r *substrate.Request) iter.Seq2[sse.Event, error] {
	return func(yield func(sse.Event, error) bool) {
		var events []json.RawMessage
		if json.Unmarshal(document, &events) != nil {
			events = []json.RawMessage{document}
		}
		if !json.Valid(document) {
			yield(sse.Event{}, substrate.Answered(http.StatusOK, nil, r.Secret.Hide(document), Unreadable()))
			return
		}
		for _, e := range events {
			if !yield(sse.Event{Data: bytes.TrimSpace(e)}, nil) {
				return
			}
		}
		yield(sse.Event{Data: []byte(sse.Done)}, nil)
	}
}

// post sends the request, and again without optional members that the server refuses. The reply has
// status 200.
func post(ctx context.Context, client *outbound.Client, r *substrate.Request, q Request) (*http.Response, error) {
	return Send(q.Omissions, r, q.Spec, q.Body, func(body any) (*http.Response, error) {
		encoded, err := json.Marshal(body)
		if err != nil {
			return nil, problem.Wrap(problem.Internal, err, "")
		}
		reply, err := substrate.WhileRefused(ctx, func() (*http.Response, error) {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, q.Spec.Endpoint(), bytes.NewReader(encoded))
			if err != nil {
				return nil, err
			}
			if q.Header != nil {
				req.Header = q.Header.Clone()
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Accept", "text/event-stream")
			return client.As(outbound.Vacant(r.Vacant, r.By)).HTTPClient().Do(req)
		})
		if err != nil {
			return nil, failure(err)
		}
		if reply.StatusCode != http.StatusOK {
			defer reply.Body.Close()
			said, _ := io.ReadAll(io.LimitReader(reply.Body, 2*substrate.MaxExcerpt)) // the part that came is shown
			refused := substrate.Answered(reply.StatusCode, reply.Header, r.Secret.Hide(said), substrate.BadStatus(reply.StatusCode))
			return nil, NameTool(r, string(said), refused)
		}
		return reply, nil
	})
}

// failure gives an error of package outbound, or of a stream, its kind.
func failure(err error) error {
	var known *problem.Error
	switch {
	case errors.Is(err, sse.ErrTooLong):
		return problem.Wrap(problem.SubstrateTooLarge, err, "the model's answer: %v", err)
	case errors.As(err, &known):
		return substrate.Unreached(known)
	}
	return problem.Wrap(problem.SubstrateUnavailable, err, "the model's answer breaks off")
}

// Refused is the error of a model that refuses to answer.
func Refused(why string) error {
	return problem.New(problem.SubstrateRefused, "the model refuses to answer: %s", substrate.Excerpt([]byte(why)))
}

// AskForJSON is a system text that asks for a JSON document, for a provider that has no
// other way to.
func AskForJSON(system string) string {
	if system != "" {
		system += "\n\n"
	}
	return system + "Answer with only one JSON document, without a code fence or any other text."
}

// AskForAnswer is a system text that asks for an answer without calls of tools, for a request that cannot
// forbid them.
func AskForAnswer(system string) string {
	return strings.TrimPrefix(system+"\n\nUse no tool any more. Answer now.", "\n\n")
}

// Object is the arguments of a call as an object, which providers want to see again
// even if their model wrote none.
func Object(arguments string) json.RawMessage {
	var object map[string]json.RawMessage
	if json.Unmarshal([]byte(arguments), &object) == nil && object != nil {
		return json.RawMessage(arguments)
	}
	b := []byte("{}")
	if arguments != "" {
		b, _ = json.Marshal(map[string]string{"unreadable": arguments}) // of texts: it cannot fail
	}
	return b
}

// Unreadable is the error of an event in another form than its provider's.
func Unreadable() error {
	return problem.New(problem.SubstrateMisconfigured, "the model's answer is not a stream of its provider's form")
}

// findError returns the error in an event, if the event is an error. It knows the forms of all
// providers, because proxies mix them: the event has the name "error", or its data has a member error
// (OpenAI, Google), or the type (Anthropic) or the object (vLLM) "error".
func findError(e *sse.Event) (said json.RawMessage, ok bool) {
	var is lax.Of[struct {
		Error        json.RawMessage
		Type, Object lax.Of[string]
	}]
	_ = json.Unmarshal(e.Data, &is) // data of another form has none of them
	switch string(is.Value.Error) {
	case "", "null", "{}", "[]", `""`, "false", "0": // servers may send a member without an error
	default:
		return is.Value.Error, true
	}
	return e.Data, strings.EqualFold(e.Name, "error") || is.Value.Type.Value == "error" || is.Value.Object.Value == "error"
}

// Failed is the error of an answer that its server ends with an error, a JSON value. Its kind
// follows from the error's code, an HTTP status, or else from a word of Anthropic's or Google's.
func Failed(said json.RawMessage) error {
	var e struct {
		Code         lax.Count
		Type, Status lax.Of[string]
	}
	_ = json.Unmarshal(said, &e) // an error of another form has none of them
	code := e.Code.Int()
	switch cmp.Or(e.Type.Value, e.Status.Value) {
	case "rate_limit_error", "RESOURCE_EXHAUSTED":
		code = http.StatusTooManyRequests
	case "invalid_request_error", "authentication_error", "permission_error", "not_found_error", "billing_error":
		code = http.StatusBadRequest
	}
	if code < http.StatusBadRequest || code > 599 {
		return problem.New(problem.SubstrateUnavailable, "the model's answer ends with an error")
	}
	return problem.New(substrate.KindOfStatus(code), "the model's answer ends with an error")
}

// CutOff is the error of an answer without its end.
func CutOff() error {
	return problem.New(problem.SubstrateUnavailable, "the model's answer ends in the middle")
}

// WithoutSecret is the error of a model whose server answers nobody without one.
func WithoutSecret(kind string) error {
	return problem.New(problem.SubstrateMisconfigured, "the agent has no secret for %s", kind)
}
