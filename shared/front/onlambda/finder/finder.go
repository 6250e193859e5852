// Package finder searches vacants by invoking functions/search, which has the index. New returns
// the client, and Answer returns the handler of functions/search.
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

type asked struct {
	Find *search.Request `json:"find"`
}

// found is the answer: the ids of the matches in their order, or the refusal of the request.
type found struct {
	IDs     []identity.ID `json:"ids"`
	Next    string        `json:"next"`
	Refused *refusal      `json:"refused,omitempty"`
}

type refusal struct{ Detail, Field, Want, Got string }

func Answer(find serve.Find, log *slog.Logger) onlambda.DirectHandler {
	return func(ctx context.Context, event json.RawMessage) (any, bool, error) {
		var a asked
		if json.Unmarshal(event, &a) != nil || a.Find == nil {
			return nil, false, nil
		}
		page, err := find(ctx, *a.Find)
		out := found{IDs: make([]identity.ID, len(page.Matches)), Next: page.Next}
		for i := range page.Matches {
			out.IDs[i] = page.Matches[i].Registration.ID
		}
		verdict, level := "ok", slog.LevelInfo
		var attrs []slog.Attr
		if err != nil {
			p := problem.AsError(err)
			verdict, attrs = p.Kind.String(), append(attrs, slog.String("cause", obs.Clip(p.Error(), 200)))
			if p.Kind == problem.Malformed {
				out.Refused, err = &refusal{p.Detail, p.Field, p.Want, p.Got}, nil
			} else {
				// Lambda reports the error as FunctionError.
				level, err = slog.LevelError, problem.New(p.Kind, "%s", p.Text())
			}
		}
		log.LogAttrs(context.WithoutCancel(ctx), level, "find", append(attrs, slog.Int("matches", len(out.IDs)), slog.String(obs.AttrVerdict, verdict))...)
		return out, true, err
	}
}

// Lambda contains the used method of the AWS Lambda client.
type Lambda interface {
	Invoke(context.Context, *lambda.InvokeInput, ...func(*lambda.Options)) (*lambda.InvokeOutput, error)
}

func New(client Lambda, function string, r *registry.Registry) serve.Find {
	return func(ctx context.Context, q search.Request) (search.Page, error) {
		var page search.Page
		event, err := json.Marshal(asked{&q})
		if err != nil {
			return page, problem.Wrap(problem.Internal, err, "")
		}
		reply, err := client.Invoke(ctx, &lambda.InvokeInput{FunctionName: &function, Payload: event})
		var f found
		switch {
		case err != nil:
			return page, problem.Wrap(problem.Unavailable, err, "the search cannot be reached; send the same request again")
		case reply.FunctionError != nil:
			return page, problem.Wrap(problem.Unavailable, errors.New(aws.ToString(reply.FunctionError)+": "+obs.Clip(string(reply.Payload), 200)), "the search failed; send the same request again")
		}
		if err := json.Unmarshal(reply.Payload, &f); err != nil {
			return page, problem.Wrap(problem.Unavailable, err, "the answer of the search cannot be parsed")
		}
		if no := f.Refused; no != nil {
			return page, &problem.Error{Kind: problem.Malformed, Detail: no.Detail, Field: no.Field, Want: no.Want, Got: no.Got}
		}
		// The function returns only ids, so the registrations are read from the registry.
		registrations, err := r.GetMany(ctx, f.IDs)
		if err != nil {
			return page, err
		}
		for i := range registrations {
			if registrations[i].FirstSeq > 0 && registrations[i].IsListed() {
				page.Matches = append(page.Matches, search.Match{Registration: registrations[i]})
			}
		}
		page.Next = f.Next
		return page, nil
	}
}
