// Package remote calls models on servers. It posts a JSON request and reads the server-sent events
// of the answer. Errors never contain the secret of a request.
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

type Request struct {
	Spec      substrate.Spec
	Omissions *Omissions
	Header    http.Header // in addition to Content-Type and Accept
	Body      func(*substrate.Request) any
}

type AnswerParser interface {
	// Read parses the data of an event. It returns io.EOF if the answer has ended.
	Read(data []byte) ([]substrate.Event, error)
	Ender
}

type Ender interface {
	// End returns the remaining events, or an error if the answer is incomplete.
	End(hasEndMark bool) ([]substrate.Event, error)
}

// Infer sends a request for r and yields the events of the answer. A failure after the end of the
// answer does not discard the answer. Errors contain the server's answer as a call.AgentError.
func Infer(ctx context.Context, client *outbound.Client, r *substrate.Request, serverReq Request, a AnswerParser) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		yieldAll := func(events []substrate.Event) bool {
			for _, e := range events {
				if !yield(e, nil) {
					return false
				}
			}
			return true
		}
		hasEndMark := false
		var document []byte
		for e, err := range requestEvents(ctx, client, r, serverReq, &document) {
			var events []substrate.Event
			hasEndMark = err == nil && string(e.Data) == sse.Done
			if err == nil && !hasEndMark {
				if detail, isError := findError(&e); isError {
					err = ServerError(detail)
				} else if events, err = a.Read(e.Data); errors.Is(err, io.EOF) {
					hasEndMark, err = true, nil
				}
				if err != nil {
					err = substrate.AnswerError(http.StatusOK, nil, r.Secret.Hide(e.Data), err)
				}
			}
			switch {
			case !yieldAll(events):
				return
			case err != nil:
				YieldEnd(a, false, err)(yield)
				return
			}
			if hasEndMark {
				break
			}
		}
		var err error
		if document != nil {
			err = substrate.AnswerError(http.StatusOK, nil, r.Secret.Hide(document), UnreadableError())
		}
		YieldEnd(a, hasEndMark, err)(yield)
	}
}

// YieldEnd yields the remaining events of a complete answer. If the answer is incomplete, YieldEnd
// yields err, or the error of a.End if err is nil. It always yields an err of kind SubstrateRefused.
func YieldEnd(a Ender, hasEndMark bool, err error) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		events, endErr := a.End(hasEndMark)
		if endErr != nil || problem.Is(err, problem.SubstrateRefused) {
			if err == nil {
				err = endErr
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

// requestEvents sends a request and yields the events of the answer. If the answer is a JSON
// document instead of a stream, requestEvents also stores it in document.
func requestEvents(ctx context.Context, client *outbound.Client, r *substrate.Request, serverReq Request, document *[]byte) iter.Seq2[sse.Event, error] {
	return func(yield func(sse.Event, error) bool) {
		reply, err := post(ctx, client, r, serverReq)
		if err != nil {
			yield(sse.Event{}, err)
			return
		}
		defer reply.Body.Close()
		body := bufio.NewReader(reply.Body)
		if first := firstByte(body); first == '{' || first == '[' {
			if *document, err = io.ReadAll(body); err != nil {
				yield(sse.Event{}, convertError(err))
				return
			}
			documentEvents(*document, r)(yield)
			return
		}
		headReader := &substrate.HeadReader{Reader: body}
		hasEvents := false
		for e, err := range sse.Events(headReader, outbound.MaxStreamBytes) {
			if err != nil {
				yield(sse.Event{}, convertError(err))
				return
			}
			if e.Data = bytes.TrimSpace(e.Data); e.IsNoise() && string(e.Data) != sse.Done {
				continue
			}
			hasEvents = true
			if !yield(e, nil) {
				return
			}
		}
		if prefix := headReader.Head; !hasEvents && len(prefix) > 0 {
			err := UnreadableError()
			if isStream(prefix) {
				err = IncompleteError()
			}
			yield(sse.Event{}, substrate.AnswerError(http.StatusOK, nil, r.Secret.Hide(prefix), err))
		}
	}
}

func isStream(prefix []byte) bool {
	line, _, _ := bytes.Cut(bytes.TrimLeft(prefix, "\r\n"), []byte("\n"))
	field, _, _ := bytes.Cut(bytes.TrimSpace(line), []byte(":"))
	return slices.Contains([]string{"", "data", "event", "id", "retry"}, string(field))
}

func firstByte(r *bufio.Reader) byte {
	for {
		c, _, err := r.ReadRune()
		switch {
		case err != nil:
			return 0
		case c != '\uFEFF' && !unicode.IsSpace(c):
			_ = r.UnreadRune() // a rune was just read
			return byte(min(c, utf8.RuneSelf))
		}
	}
}

func documentEvents(document []byte, r *substrate.Request) iter.Seq2[sse.Event, error] {
	return func(yield func(sse.Event, error) bool) {
		var events []json.RawMessage
		if json.Unmarshal(document, &events) != nil {
			events = []json.RawMessage{document}
		}
		if !json.Valid(document) {
			yield(sse.Event{}, substrate.AnswerError(http.StatusOK, nil, r.Secret.Hide(document), UnreadableError()))
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

func post(ctx context.Context, client *outbound.Client, r *substrate.Request, serverReq Request) (*http.Response, error) {
	return Send(serverReq.Omissions, r, serverReq.Spec, serverReq.Body, func(body any) (*http.Response, error) {
		encoded, err := json.Marshal(body)
		if err != nil {
			return nil, problem.Wrap(problem.Internal, err, "")
		}
		reply, err := substrate.RetryConnectionRefused(ctx, func() (*http.Response, error) {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, serverReq.Spec.Endpoint(), bytes.NewReader(encoded))
			if err != nil {
				return nil, err
			}
			if serverReq.Header != nil {
				req.Header = serverReq.Header.Clone()
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Accept", "text/event-stream")
			return client.ForActor(outbound.VacantActor(r.Vacant, r.Chooser)).HTTPClient().Do(req)
		})
		if err != nil {
			return nil, convertError(err)
		}
		if reply.StatusCode != http.StatusOK {
			defer reply.Body.Close()
			// If the read fails, the received part is used.
			excerpt, _ := io.ReadAll(io.LimitReader(reply.Body, 2*substrate.MaxExcerptBytes))
			answerErr := substrate.AnswerError(reply.StatusCode, reply.Header, r.Secret.Hide(excerpt), substrate.StatusError(reply.StatusCode))
			return nil, AddToolName(r, string(excerpt), answerErr)
		}
		return reply, nil
	})
}

func convertError(err error) error {
	var problemErr *problem.Error
	switch {
	case errors.Is(err, sse.ErrTooLong):
		return problem.Wrap(problem.SubstrateTooLarge, err, "the model's answer: %v", err)
	case errors.As(err, &problemErr):
		return substrate.ConvertRequestError(problemErr)
	}
	return problem.Wrap(problem.SubstrateUnavailable, err, "the model's answer was interrupted")
}

func RefusalError(reason string) error {
	return problem.New(problem.SubstrateRefused, "the model refuses to answer: %s", substrate.Excerpt([]byte(reason)))
}

func AppendJSONInstruction(system string) string {
	if system != "" {
		system += "\n\n"
	}
	return system + "Answer with only one JSON document, without a code fence or any other text."
}

func AppendAnswerInstruction(system string) string {
	return strings.TrimPrefix(system+"\n\nUse no tool any more. Answer now.", "\n\n")
}

// ArgumentsObject returns the arguments of a call as an object, which providers require.
func ArgumentsObject(arguments string) json.RawMessage {
	var object map[string]json.RawMessage
	if json.Unmarshal([]byte(arguments), &object) == nil && object != nil {
		return json.RawMessage(arguments)
	}
	b := []byte("{}")
	if arguments != "" {
		b, _ = json.Marshal(map[string]string{"unreadable": arguments}) // cannot fail for strings
	}
	return b
}

func UnreadableError() error {
	return problem.New(problem.SubstrateMisconfigured, "the model's answer does not have the format of its provider")
}

// findError recognizes the errors of all providers, because proxies mix them.
func findError(e *sse.Event) (detail json.RawMessage, ok bool) {
	var decoded lax.Value[struct {
		Error        json.RawMessage
		Type, Object lax.Value[string]
	}]
	_ = json.Unmarshal(e.Data, &decoded) // data of another form contains none of these members
	switch string(decoded.Value.Error) {
	case "", "null", "{}", "[]", `""`, "false", "0": // servers may send the member without an error
	default:
		return decoded.Value.Error, true
	}
	return e.Data, strings.EqualFold(e.Name, "error") || decoded.Value.Type.Value == "error" || decoded.Value.Object.Value == "error"
}

func ServerError(detail json.RawMessage) error {
	var e struct {
		Code         lax.Count
		Type, Status lax.Value[string]
	}
	_ = json.Unmarshal(detail, &e) // an error of another form contains none of these members
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

func IncompleteError() error {
	return problem.New(problem.SubstrateUnavailable, "the model's answer ended before it was complete")
}

func NoSecretError(kind string) error {
	return problem.New(problem.SubstrateMisconfigured, "the agent has no secret for %s", kind)
}
