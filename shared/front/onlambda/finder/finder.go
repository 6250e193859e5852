// Package finder searches vacants by invoking functions/search, which has the index. NewFindFunc
// returns the client, and NewHandler returns the handler of functions/search.
package finder

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/vacancy-host/vacancy/shared/front/onlambda"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/registry/search"
	"github.com/vacancy-host/vacancy/shared/obs"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

type searchRequest struct {
	Request *search.Request `json:"find"`
}

// searchResponse contains the ids of the matches in order, or a refusal.
type searchResponse struct {
	IDs     []identity.ID `json:"ids"`
	Next    string        `json:"next"`
	Refusal *refusal      `json:"refused,omitempty"`
}

type refusal struct{ Detail, Field, Want, Got string }

func NewHandler(find serve.FindFunc, log *slog.Logger) onlambda.DirectHandler {
	return func(ctx context.Context, event json.RawMessage) (any, bool, error) {
		var in searchRequest
		if json.Unmarshal(event, &in) != nil || in.Request == nil {
			return nil, false, nil
		}
		page, err := find(ctx, *in.Request)
		out := searchResponse{IDs: make([]identity.ID, len(page.Matches)), Next: page.Next}
		for i := range page.Matches {
			out.IDs[i] = page.Matches[i].Registration.ID
		}
		verdict, level := "ok", slog.LevelInfo
		var attrs []slog.Attr
		if err != nil {
			p := problem.AsError(err)
			verdict, attrs = p.Kind.String(), append(attrs, slog.String("cause", obs.Truncate(p.Error(), 200)))
			if p.Kind == problem.Malformed {
				out.Refusal, err = &refusal{p.Detail, p.Field, p.Want, p.Got}, nil
			} else {
				// Lambda reports the error as FunctionError.
				level, err = slog.LevelError, problem.New(p.Kind, "%s", p.Text())
			}
		}
		log.LogAttrs(context.WithoutCancel(ctx), level, "find", append(attrs, slog.Int("matches", len(out.IDs)), slog.String(obs.AttrVerdict, verdict))...)
		return out, true, err
	}
}

type Invoker interface {
	Invoke(context.Context, *lambda.InvokeInput, ...func(*lambda.Options)) (*lambda.InvokeOutput, error)
}

func NewFindFunc(client Invoker, function string, reg *registry.Registry) serve.FindFunc {
	return func(ctx context.Context, req search.Request) (search.Page, error) {
		var page search.Page
		event, err := json.Marshal(searchRequest{&req})
		if err != nil {
			return page, problem.Wrap(problem.Internal, err, "")
		}
		output, err := client.Invoke(ctx, &lambda.InvokeInput{FunctionName: &function, Payload: event})
		var resp searchResponse
		switch {
		case err != nil:
			return page, problem.Wrap(problem.Unavailable, err, "the search cannot be reached; send the same request again")
		case output.FunctionError != nil:
			return page, problem.Wrap(problem.Unavailable, errors.New(aws.ToString(output.FunctionError)+": "+obs.Truncate(string(output.Payload), 200)), "the search failed; send the same request again")
		}
		if err := json.Unmarshal(output.Payload, &resp); err != nil {
			return page, problem.Wrap(problem.Unavailable, err, "the answer of the search cannot be parsed")
		}
		if rejected := resp.Refusal; rejected != nil {
			return page, &problem.Error{Kind: problem.Malformed, Detail: rejected.Detail, Field: rejected.Field, Want: rejected.Want, Got: rejected.Got}
		}
		// The function returns only ids, so the registrations are read from the registry.
		registrations, err := reg.GetMany(ctx, resp.IDs)
		if err != nil {
			return page, err
		}
		for i := range registrations {
			if registrations[i].FirstSeq > 0 && registrations[i].IsListed() {
				page.Matches = append(page.Matches, search.Match{Registration: registrations[i]})
			}
		}
		page.Next = resp.Next
		return page, nil
	}
}
