package think

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"

	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Invoke sends a request to the other process and returns its reply. Invoke must not repeat a
// request that may have arrived.
type Invoke func(ctx context.Context, request []byte) (reply []byte, err error)

func NewClient(i Invoke) Service { return &client{i} }

type client struct{ invoke Invoke }

func (c *client) RunTurn(ctx context.Context, t Turn) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		for l, err := range c.fetchLines(ctx, encodeTurn(&t)) {
			if err != nil {
				yield(nil, err)
				return
			}
			if e := l.decodeEvent(); e != nil && !yield(e, nil) {
				return
			}
		}
	}
}

func (c *client) ListMCPTools(ctx context.Context, a AgentVersion) (offer Offer, err error) {
	for l, err := range c.fetchLines(ctx, request{Op: opListTools, Vacant: a.Vacant, Version: a.Version}) {
		if err != nil {
			return Offer{}, err
		}
		if l.OmittedTools != nil {
			offer.OmittedTools.AddAll(*l.OmittedTools)
		}
		if l.Tools != nil {
			for _, t := range *l.Tools {
				offer.Tools = append(offer.Tools, Tool{substrate.Tool{Name: t.Name, Description: t.Description, Schema: t.Schema}, t.Writes})
			}
		}
	}
	return offer, nil
}

func (c *client) UseMCPTool(ctx context.Context, a AgentVersion, name string, arguments json.RawMessage) (text string, err error) {
	for l, err := range c.fetchLines(ctx, request{Op: opUseTool, Vacant: a.Vacant, Version: a.Version, Name: name, Arguments: arguments}) {
		if err != nil {
			return "", err
		}
		text += l.Text
	}
	return text, nil
}

func (c *client) fetchLines(ctx context.Context, r request) iter.Seq2[*line, error] {
	return func(yield func(*line, error) bool) {
		if deadline, ok := ctx.Deadline(); ok {
			r.DeadlineMS = deadline.UnixMilli()
		}
		r.Task = task.TurnNameOf(ctx)
		data, err := json.Marshal(r)
		if err != nil {
			yield(nil, problem.Wrap(problem.Internal, err, "the request for a model cannot be encoded"))
			return
		}
		if len(data) > maxPayloadBytes {
			yield(nil, &problem.Error{Kind: problem.SubstrateTooLarge, Field: "conversation", Want: fmt.Sprintf("at most %d bytes", maxPayloadBytes), Got: fmt.Sprint(len(data))})
			return
		}
		reply, err := c.invoke(ctx, data)
		if err != nil {
			yield(nil, err)
			return
		}
		d := json.NewDecoder(bytes.NewReader(reply))
		for {
			var l line
			if err := d.Decode(&l); err != nil {
				if err == io.EOF {
					err = io.ErrUnexpectedEOF
				}
				yield(nil, problem.Wrap(problem.SubstrateUnavailable, err, "the function that calls models ended before its answer was complete"))
				return
			}
			switch {
			case l.Error != nil:
				yield(nil, l.Error.toError())
				return
			case !yield(&l, nil), l.FinishReason != "":
				return
			}
		}
	}
}

// Kinds returns constructors of substrates that call s. These substrates can only combine the
// answers of plans.
func Kinds(s Service, kinds ...string) substrate.Kinds {
	constructors := substrate.Kinds{}
	for _, kind := range kinds {
		constructors[kind] = func(argument string) (substrate.Substrate, error) {
			return combiner{s}, checkArgument(substrate.Spec{Kind: kind, Argument: argument})
		}
	}
	return constructors
}

func checkArgument(s substrate.Spec) error {
	switch s.Kind {
	case substrate.KindMCP:
		return substrate.CheckMCP(s.Argument)
	case substrate.KindLambda:
		return substrate.CheckFunction(s.Argument)
	case substrate.KindMock:
		return nil
	}
	return s.CheckModel()
}

// combiner calls the substrate that combines the answers of a plan.
type combiner struct{ service Service }

func (c combiner) Infer(ctx context.Context, r substrate.Request) iter.Seq2[substrate.Event, error] {
	return c.service.RunTurn(ctx, Turn{Agent: AgentVersion{Vacant: r.Vacant}, Request: r})
}
