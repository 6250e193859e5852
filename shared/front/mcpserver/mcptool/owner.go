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

// Owner contains the functions behind the tools that only the owner of a vacant gets. They are
// called with the context of a tool call. If a function is nil, its tools are not listed. The
// results have the reference's members.
type Owner struct {
	Children func(ctx context.Context, cursor string) (any, error)
	Spawn    func(ctx context.Context, rule, name string) (any, error)
	// Delegate returns the answer of a child. It waits at most wait for the answer.
	Delegate func(ctx context.Context, child, task string, wait time.Duration) (map[string]any, error)
	// Review signs a review of an answered call and submits it to this host.
	Review func(ctx context.Context, r Review) (any, error)
}

// Review contains the arguments of vacant_caller_review.
type Review struct {
	Target    identity.ID `json:"target_vacant_id_hex" canon:"required"`
	Factual   float64     `json:"factual" canon:"required"`
	Logical   float64     `json:"logical" canon:"required"`
	Relevance float64     `json:"relevance" canon:"required"`
	Honesty   *float64    `json:"honesty"`
	Adoption  *float64    `json:"adoption"`
	Substrate string      `json:"substrate"`
	Call      string      `json:"call_envelope_id_hex"`
	Claim     string      `json:"claim"`
}

func (r *Review) Record() (rec review.Record, err error) {
	if r.Call != "" {
		if rec.Call, err = identity.ParseHash(r.Call); err != nil {
			return rec, problem.Invalid("call_envelope_id_hex", "the hash of a request", fmt.Sprintf("%.80q", r.Call))
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
		"ok": true, "reviewer_vacant_id_hex": rec.Reviewer, "target_vacant_id_hex": rec.Target, "dimensions": rec.Ratings, "substrate": rec.Substrate, "call_envelope_id_hex": rec.Call,
		"payload_hash_hex": rec.Hash, "signature_hex": rec.Signature, "delivered_locally": true, "competitor_spawned": nil, "receipt": receipt,
	}
}

// AddOwner adds the owner's tools to the server of a vacant. As in the reference, a failure is a
// result {"error": text} without isError.
func AddOwner(s *sdk.Server, o Owner) {
	type (
		listing struct {
			Cursor string `json:"cursor"`
		}
		spawning struct {
			Rule string `json:"policy_mutation" canon:"required,min=1"`
			Name string `json:"child_name_hint"`
		}
		delegating struct {
			Child string `json:"child_name" canon:"required,min=1"`
			Task  string `json:"task" canon:"required,min=1"`
		}
		delegatingHere struct {
			delegating
			Hint      string `json:"model_hint"`
			MaxTokens int64  `json:"max_tokens"`
		}
		delegatingByA2A struct {
			delegating
			Seconds *float64 `json:"timeout_s"`
		}
	)
	if o.Children != nil {
		tool(s, &sdk.Tool{
			Name: "vacant_list_children", Title: "List children", Annotations: withTitle(reads, "List children"),
			Description: "Lists the children of this vacant on this host, 20 a page. reputation_5d is null, because closed children have no reviews.",
			InputSchema: schema("cursor", describeProperty(aText, "the value of next from the previous page")),
		}, func(ctx context.Context, _ *sdk.CallToolRequest, in listing) (*sdk.CallToolResult, error) {
			page, err := o.Children(ctx, in.Cursor)
			return ownerResult(page, "", err)
		})
	}
	if o.Spawn != nil {
		tool(s, &sdk.Tool{
			Name: "vacant_spawn", Title: "Create a child", Annotations: withTitle(sdk.ToolAnnotations{IdempotentHint: true, DestructiveHint: no(), OpenWorldHint: no()}, "Create a child"),
			Description: "Creates a child of this vacant, like the vacant but with one additional rule of conduct (path D1). The same request again returns the same child.",
			InputSchema: schema("*policy_mutation", describeProperty(aText, "the child's additional rule"), "child_name_hint", describeProperty(aText, "the child's name; made from its parent's name and the rule if left out")),
		}, func(ctx context.Context, _ *sdk.CallToolRequest, in spawning) (*sdk.CallToolResult, error) {
			made, err := o.Spawn(ctx, in.Rule, in.Name)
			return ownerResult(made, "", err)
		})
	}
	if o.Review != nil {
		rating := `"type":"number","minimum":0,"maximum":1`
		tool(s, &sdk.Tool{
			Name: "vacant_caller_review", Title: "Review an answer", Annotations: withTitle(sdk.ToolAnnotations{IdempotentHint: true, DestructiveHint: no(), OpenWorldHint: yes()}, "Review an answer"),
			Description: "Signs a review of an answer that another vacant gave to the signer, and delivers it to that vacant's host. Each answer is reviewed once.",
			InputSchema: schema("*target_vacant_id_hex", describeProperty(aText, "the id of the vacant that answered"), "*factual", describeProperty(rating, "whether the facts were right"),
				"*logical", describeProperty(rating, "whether the reasoning was sound"), "*relevance", describeProperty(rating, "whether it answered the message"), "honesty", describeProperty(rating, "whether it said what it did not know"),
				"adoption", describeProperty(rating, "whether the answer was used"), "substrate", describeProperty(aText, "default if left out; the host counts the review for the model that answered"),
				"call_envelope_id_hex", describeProperty(aText, "the hash of the request; the last answered call if left out"), "claim", describeProperty(aText, "a public sentence")),
		}, func(ctx context.Context, _ *sdk.CallToolRequest, in Review) (*sdk.CallToolResult, error) {
			reviewed, err := o.Review(ctx, in)
			return ownerResult(reviewed, "", err)
		})
	}
	if o.Delegate == nil {
		return
	}
	child := describeProperty(aText, "the name of a child")
	tool(s, &sdk.Tool{
		Name: "vacant_delegate", Title: "Delegate a task to a child", Annotations: withTitle(asks, "Delegate a task to a child"),
		Description: "Signs a task as this vacant, sends it to one of its children and returns the child's answer. The child answers with a model of its own, so model_hint and max_tokens have no effect.",
		InputSchema: schema("*child_name", child, "*task", messageArgument, "model_hint", describeProperty(aText, "returned in the result"), "max_tokens", describeProperty(aNumber, "has no effect")),
	}, func(ctx context.Context, _ *sdk.CallToolRequest, in delegatingHere) (*sdk.CallToolResult, error) {
		d, err := o.Delegate(ctx, in.Child, in.Task, AnswerTime)
		if err == nil {
			delete(d, "child_endpoint")
			d["model_hint"] = cmp.Or(in.Hint, "client-default")
		}
		return ownerResult(d, "", err)
	})
	tool(s, &sdk.Tool{
		Name: "vacant_delegate_a2a", Title: "Delegate a task to a child within a time", Annotations: withTitle(asks, "Delegate a task to a child within a time"),
		Description: "Signs a task as this vacant, sends it to one of its children as a message of A2A, and waits for the answer for timeout_s, at most 25 seconds.",
		InputSchema: schema("*child_name", child, "*task", messageArgument, "timeout_s", describeProperty(`"type":"number"`, "seconds to wait, 25 if left out")),
	}, func(ctx context.Context, _ *sdk.CallToolRequest, in delegatingByA2A) (*sdk.CallToolResult, error) {
		wait := AnswerTime
		if in.Seconds != nil && *in.Seconds < wait.Seconds() {
			wait = time.Duration(*in.Seconds * float64(time.Second))
		}
		d, err := o.Delegate(ctx, in.Child, in.Task, wait)
		tag := "a2a_http_failed: "
		if err == nil {
			delete(d, "substrate")
			d["transport"] = "a2a-http"
		} else if !problem.Is(err, problem.Deadline) {
			tag = fmt.Sprintf("a2a_http_status: %d ", problem.AsError(err).Kind.Row().Status)
		}
		return ownerResult(d, tag, err)
	})
}

func ownerResult(v any, tag string, err error) (*sdk.CallToolResult, error) {
	var toolErr *ReferenceError
	switch {
	case err == nil:
		return result("", v)
	case errors.As(err, &toolErr):
		return result("", map[string]string{"error": toolErr.Text})
	case IsFault(err):
		return nil, err
	}
	return result("", map[string]string{"error": tag + problem.AsError(err).Text()})
}
