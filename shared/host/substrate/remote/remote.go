// Package remote asks models at servers: it posts a request in JSON and reads the
// server-sent events of the answer.
//
// The invariant: a request goes to one URL, as the vacant that is asked, and has the
// given header and body alone. The secret of a request is in no error.
package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"

	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/sse"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Request is what a server is asked for.
type Request struct {
	URL    string
	Header http.Header // besides Content-Type and Accept
	Body   any         // in JSON
}

// Answer reads one answer in the form of a provider.
type Answer interface {
	// Read reads the data of an event. With io.EOF it was the last.
	Read(data []byte) ([]substrate.Event, error)
	// End is what is left of the answer when the stream has ended: the last event is
	// Done.
	End() ([]substrate.Event, error)
}

// Infer sends a request for r through client, whose guard may refuse it, and yields
// the events that a makes of the answer.
//
// The kinds of its errors are SubstrateUnavailable if the server cannot be reached or
// is out of order, SubstrateBusy for 429, SubstrateTooLarge for a long stream,
// SubstrateMisconfigured for any other answer, and those of a. They have what the
// server answered as a call.AgentError.
func Infer(ctx context.Context, client *outbound.Client, r *substrate.Request, q Request, a Answer) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		give := func(events []substrate.Event, err error) bool {
			for _, e := range events {
				if !yield(e, nil) {
					return false
				}
			}
			return err == nil || yield(nil, err) && false
		}
		for data, err := range ask(ctx, client, r, q) {
			if err != nil {
				yield(nil, err)
				return
			}
			events, err := a.Read(data)
			last := errors.Is(err, io.EOF)
			if last {
				err = nil
			}
			if err != nil {
				err = substrate.Answered(http.StatusOK, nil, r.Secret.Hide(data), err)
			}
			if !give(events, err) {
				return
			}
			if last {
				break
			}
		}
		give(a.End())
	}
}

// ask sends the request, and yields the data of each event of the answer.
func ask(ctx context.Context, client *outbound.Client, r *substrate.Request, q Request) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		reply, err := post(ctx, client, r, q)
		if err != nil {
			yield(nil, err)
			return
		}
		defer reply.Body.Close()
		for data, err := range sse.Data(reply.Body, outbound.MaxStream) {
			if err != nil {
				err = failure(err)
			}
			if !yield(data, err) || err != nil {
				return
			}
		}
	}
}

// post sends the request. The reply has status 200.
func post(ctx context.Context, client *outbound.Client, r *substrate.Request, q Request) (*http.Response, error) {
	encoded, err := json.Marshal(q.Body)
	if err != nil {
		return nil, problem.Wrap(problem.Internal, err, "")
	}
	reply, err := substrate.WhileRefused(ctx, func() (*http.Response, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, q.URL, bytes.NewReader(encoded))
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
		said, _ := io.ReadAll(io.LimitReader(reply.Body, 2*substrate.MaxExcerpt)) // what of it comes is shown
		return nil, substrate.Answered(reply.StatusCode, reply.Header, r.Secret.Hide(said), substrate.BadStatus(reply.StatusCode))
	}
	return reply, nil
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
	return system + "Answer with one JSON document alone, without a code fence or any other text."
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

// Failed is the error of an answer that its server ends with an error.
func Failed() error {
	return problem.New(problem.SubstrateUnavailable, "the model's answer ends with an error")
}

// CutOff is the error of an answer without its end.
func CutOff() error {
	return problem.New(problem.SubstrateUnavailable, "the model's answer ends in the middle, or is no stream")
}

// NoCall is the error of a model that waits for a tool which it has not called.
func NoCall() error {
	return problem.New(problem.SubstrateMisconfigured, "the model calls a tool and names none")
}

// WithoutSecret is the error of a model whose server answers nobody without one.
func WithoutSecret(kind string) error {
	return problem.New(problem.SubstrateMisconfigured, "the agent has no secret for %s", kind)
}
