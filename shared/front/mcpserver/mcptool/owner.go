package mcptool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/review"
)

// OwnerTools contains the functions behind the tools that only the owner of a vacant gets. If a
// function is nil, its tools are not listed.
type OwnerTools struct {
	ListChildren func(ctx context.Context, cursor string) (any, error)
	SpawnChild   func(ctx context.Context, rule, name string) (any, error)
	Delegate     func(ctx context.Context, child, task string, wait time.Duration) (map[string]any, error)
	// SubmitReview signs a review of an answered call and submits it to this host.
	SubmitReview func(ctx context.Context, r ReviewArgs) (any, error)
}

type ReviewArgs struct {
	Target    identity.ID `json:"target_vacant_id_hex" canon:"required"`
	Factual   float64     `json:"factual" canon:"required"`
	Logical   float64     `json:"logical" canon:"required"`
	Relevance float64     `json:"relevance" canon:"required"`
	Honesty   *float64    `json:"honesty"`
	Adoption  *float64    `json:"adoption"`
	Substrate string      `json:"substrate"`
	CallHash  string      `json:"call_envelope_id_hex"`
	Claim     string      `json:"claim"`
}

func (r *ReviewArgs) Record() (rec review.Record, err error) {
	if r.CallHash != "" {
		if rec.CallHash, err = identity.ParseHash(r.CallHash); err != nil {
			return rec, problem.Invalid("call_envelope_id_hex", "the hash of a request", fmt.Sprintf("%.80q", r.CallHash))
		}
	}
	ratings := review.Ratings{"factual": r.Factual, "logical": r.Logical, "relevance": r.Relevance}
	for name, value := range map[string]*float64{"honesty": r.Honesty, "adoption": r.Adoption} {
		if value != nil {
			ratings[name] = *value
		}
	}
	rec.Target, rec.Ratings, rec.Substrate, rec.Claim = r.Target, ratings, cmp.Or(r.Substrate, "default"), r.Claim
	return rec, nil
}

func NewReviewResult(rec *review.Record, receipt any) map[string]any {
	return map[string]any{
		"ok": true, "reviewer_vacant_id_hex": rec.Reviewer, "target_vacant_id_hex": rec.Target, "dimensions": rec.Ratings, "substrate": rec.Substrate, "call_envelope_id_hex": rec.CallHash,
		"payload_hash_hex": rec.Hash, "signature_hex": rec.Signature, "delivered_locally": true, "competitor_spawned": nil, "receipt": receipt,
	}
}

// AddOwnerTools adds the owner's tools to the server of a vacant. As in the reference, a failure is
// a result {"error": text} without isError.
func AddOwnerTools(s *sdk.Server, o OwnerTools) {
	type (
		listArgs struct {
			Cursor string `json:"cursor"`
		}
		spawnArgs struct {
			Rule string `json:"policy_mutation" canon:"required,min=1"`
			Name string `json:"child_name_hint"`
		}
		delegateArgs struct {
			Child string `json:"child_name" canon:"required,min=1"`
			Task  string `json:"task" canon:"required,min=1"`
		}
		delegateModelArgs struct {
			delegateArgs
			Hint      string `json:"model_hint"`
			MaxTokens int64  `json:"max_tokens"`
		}
		delegateA2AArgs struct {
			delegateArgs
			Seconds *float64 `json:"timeout_s"`
		}
	)
	if o.ListChildren != nil {
		addStrictTool(s, &sdk.Tool{
			Name: "vacant_list_children", Title: "List children", Annotations: withTitle(readHints, "List children"),
			Description: "Lists the children of this vacant on this host, 20 a page. reputation_5d is null, because closed children have no reviews.",
			InputSchema: inputSchema("cursor", propertySchema(stringType, "the value of next from the previous page")),
		}, func(ctx context.Context, _ *sdk.CallToolRequest, in listArgs) (*sdk.CallToolResult, error) {
			page, err := o.ListChildren(ctx, in.Cursor)
			return ownerResult(page, "", err)
		})
	}
	if o.SpawnChild != nil {
		addStrictTool(s, &sdk.Tool{
			Name: "vacant_spawn", Title: "Create a child", Annotations: withTitle(sdk.ToolAnnotations{IdempotentHint: true, DestructiveHint: falsePointer(), OpenWorldHint: falsePointer()}, "Create a child"),
			Description: "Creates a child of this vacant, like the vacant but with one additional rule of conduct (path D1). The same request again returns the same child.",
			InputSchema: inputSchema("*policy_mutation", propertySchema(stringType, "the child's additional rule"), "child_name_hint", propertySchema(stringType, "the child's name; if left out, it is derived from the parent's name and the rule")),
		}, func(ctx context.Context, _ *sdk.CallToolRequest, in spawnArgs) (*sdk.CallToolResult, error) {
			spawned, err := o.SpawnChild(ctx, in.Rule, in.Name)
			return ownerResult(spawned, "", err)
		})
	}
	if o.SubmitReview != nil {
		ratingType := `"type":"number","minimum":0,"maximum":1`
		addStrictTool(s, &sdk.Tool{
			Name: "vacant_caller_review", Title: "Review an answer", Annotations: withTitle(sdk.ToolAnnotations{IdempotentHint: true, DestructiveHint: falsePointer(), OpenWorldHint: truePointer()}, "Review an answer"),
			Description: "Signs a review of an answer that another vacant gave to the signer, and delivers it to that vacant's host. Each answer is reviewed once.",
			InputSchema: inputSchema("*target_vacant_id_hex", propertySchema(stringType, "the id of the vacant that answered"), "*factual", propertySchema(ratingType, "whether the facts were right"),
				"*logical", propertySchema(ratingType, "whether the reasoning was sound"), "*relevance", propertySchema(ratingType, "whether it answered the message"), "honesty", propertySchema(ratingType, "whether it admitted what it did not know"),
				"adoption", propertySchema(ratingType, "whether the answer was used"), "substrate", propertySchema(stringType, "default if left out; the host counts the review for the model that answered"),
				"call_envelope_id_hex", propertySchema(stringType, "the hash of the request; the last answered call if left out"), "claim", propertySchema(stringType, "a public sentence")),
		}, func(ctx context.Context, _ *sdk.CallToolRequest, in ReviewArgs) (*sdk.CallToolResult, error) {
			reviewResult, err := o.SubmitReview(ctx, in)
			return ownerResult(reviewResult, "", err)
		})
	}
	if o.Delegate == nil {
		return
	}
	childNameSchema := propertySchema(stringType, "the name of a child")
	addStrictTool(s, &sdk.Tool{
		Name: "vacant_delegate", Title: "Delegate a task to a child", Annotations: withTitle(askHints, "Delegate a task to a child"),
		Description: "Signs a task as this vacant, sends it to one of its children and returns the child's answer. The child answers with a model of its own, so model_hint and max_tokens have no effect.",
		InputSchema: inputSchema("*child_name", childNameSchema, "*task", messageArgument, "model_hint", propertySchema(stringType, "returned in the result"), "max_tokens", propertySchema(nonNegativeType, "has no effect")),
	}, func(ctx context.Context, _ *sdk.CallToolRequest, in delegateModelArgs) (*sdk.CallToolResult, error) {
		delegated, err := o.Delegate(ctx, in.Child, in.Task, AskTimeout)
		if err == nil {
			delete(delegated, "child_endpoint")
			delegated["model_hint"] = cmp.Or(in.Hint, "client-default")
		}
		return ownerResult(delegated, "", err)
	})
	addStrictTool(s, &sdk.Tool{
		Name: "vacant_delegate_a2a", Title: "Delegate a task to a child within a time", Annotations: withTitle(askHints, "Delegate a task to a child within a time"),
		Description: "Signs a task as this vacant, sends it to one of its children as a message of A2A, and waits for the answer for timeout_s, at most 25 seconds.",
		InputSchema: inputSchema("*child_name", childNameSchema, "*task", messageArgument, "timeout_s", propertySchema(`"type":"number"`, "seconds to wait, 25 if left out")),
	}, func(ctx context.Context, _ *sdk.CallToolRequest, in delegateA2AArgs) (*sdk.CallToolResult, error) {
		wait := AskTimeout
		if in.Seconds != nil && *in.Seconds < wait.Seconds() {
			wait = time.Duration(*in.Seconds * float64(time.Second))
		}
		delegated, err := o.Delegate(ctx, in.Child, in.Task, wait)
		errPrefix := "a2a_http_failed: "
		if err == nil {
			delete(delegated, "substrate")
			delegated["transport"] = "a2a-http"
		} else if !problem.Is(err, problem.DeadlineExceeded) {
			errPrefix = fmt.Sprintf("a2a_http_status: %d ", problem.AsError(err).Kind.Forms().HTTPStatus)
		}
		return ownerResult(delegated, errPrefix, err)
	})
}

func ownerResult(v any, errPrefix string, err error) (*sdk.CallToolResult, error) {
	var refErr *ReferenceError
	switch {
	case err == nil:
		return newResult("", v)
	case errors.As(err, &refErr):
		return newResult("", map[string]string{"error": refErr.Text})
	case IsFault(err):
		return nil, err
	}
	return newResult("", map[string]string{"error": errPrefix + problem.AsError(err).Text()})
}
