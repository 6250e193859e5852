package mcptool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// Owner has the functions of the owner's tools at a vacant, for the context of a call. The tools of a
// nil function are not listed.
type Owner struct {
	Children func(ctx context.Context, cursor string) (Children, error)
	Spawn    func(ctx context.Context, rule, name string) (Spawned, error)
	// Delegate returns the answer of a child, after wait at the latest.
	Delegate func(ctx context.Context, child, task string, wait time.Duration) (Delegated, error)
}

// Children is the result of vacant_list_children.
type Children struct {
	Parent   string  `json:"parent_vacant_id_hex"`
	Children []Child `json:"children"`
	Next     string  `json:"next,omitempty"` // cursor of the next page
}

// Child is a child of a vacant. The host has no attestations, reviews and heartbeats of its children.
type Child struct {
	Name         string    `json:"name"`
	ID           string    `json:"vacant_id_hex"`
	State        string    `json:"state"`
	Capability   string    `json:"capability_text"`
	Rule         string    `json:"policy_mutation"` // "" unless the child is of path D1
	Calls        uint64    `json:"inference_count"` // calls of the parent that the child accepted
	Attestations int       `json:"attestation_count"`
	Reviews      int       `json:"review_count"`
	Reputation   *struct{} `json:"reputation_5d"`
	Heartbeat    *string   `json:"last_heartbeat_at"`
}

// Spawned is the result of vacant_spawn.
type Spawned struct {
	OK     bool   `json:"ok"`
	Path   string `json:"path"`
	ID     string `json:"child_vacant_id_hex"`
	Name   string `json:"child_name"`
	Parent string `json:"parent_vacant_id_hex"`
	Rule   string `json:"policy_mutation"`
}

// Delegated is the result of vacant_delegate, and of vacant_delegate_a2a.
type Delegated struct {
	OK        bool   `json:"ok"`
	Name      string `json:"child_name"`
	ID        string `json:"child_vacant_id_hex"`
	Endpoint  string `json:"child_endpoint,omitempty"` // of vacant_delegate_a2a
	Answer    string `json:"answer"`
	Hint      string `json:"model_hint,omitempty"` // of vacant_delegate
	Substrate string `json:"substrate,omitempty"`  // of vacant_delegate
	Request   string `json:"request_envelope_id_hex"`
	Reply     string `json:"response_envelope_id_hex"`
	Transport string `json:"transport,omitempty"` // of vacant_delegate_a2a
}

// Arguments of the owner's tools.
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

var (
	childArgument  = described(aText, "the name of a child")
	delegateSchema = results("ok", `{"type":"boolean"}`, "child_name", "{"+aText+"}", "child_vacant_id_hex", "{"+aText+"}", "child_endpoint", "{"+aText+"}", "answer", described(aText, "the child's answer"),
		"model_hint", "{"+aText+"}", "substrate", "{"+aText+"}", "request_envelope_id_hex", "{"+aText+"}", "response_envelope_id_hex", "{"+aText+"}", "transport", "{"+aText+"}", "error", described(aText, "why there is no answer"))
)

// AddOwner adds the owner's tools to the server of a vacant. Their shapes are the reference's: a failure is a
// result with the member error, which is not marked as an error.
func AddOwner(s *sdk.Server, o Owner) {
	if o.Children != nil {
		tool(s, &sdk.Tool{
			Name: "vacant_list_children", Title: "List children", Annotations: with(reads, "List children"),
			Description: "Lists the children of this vacant on this host, 20 a page. Without a known reputation, reputation_5d is null.",
			InputSchema: schema("cursor", described(aText, "next of the page before")),
		}, func(ctx context.Context, _ *sdk.CallToolRequest, in listing) (*sdk.CallToolResult, error) {
			page, err := o.Children(ctx, in.Cursor)
			return ownerResult(page, "", err)
		})
	}
	if o.Spawn != nil {
		tool(s, &sdk.Tool{
			Name: "vacant_spawn", Title: "Create a child", Annotations: with(sdk.ToolAnnotations{IdempotentHint: true, DestructiveHint: no(), OpenWorldHint: no()}, "Create a child"),
			Description: "Creates a child of this vacant, like the vacant but with one additional rule of conduct (path D1). The same request again returns the same child.",
			InputSchema: schema("*policy_mutation", described(aText, "the child's additional rule"), "child_name_hint", described(aText, "the child's name; made from its parent's name and the rule if left out")),
		}, func(ctx context.Context, _ *sdk.CallToolRequest, in spawning) (*sdk.CallToolResult, error) {
			made, err := o.Spawn(ctx, in.Rule, in.Name)
			return ownerResult(made, "", err)
		})
	}
	if o.Delegate == nil {
		return
	}
	tool(s, &sdk.Tool{
		Name: "vacant_delegate", Title: "Delegate a task to a child", Annotations: with(asks, "Delegate a task to a child"), OutputSchema: delegateSchema,
		Description: "Signs a task as this vacant, sends it to one of its children and returns the child's answer. The child answers with a model of its own, so model_hint and max_tokens have no effect.",
		InputSchema: schema("*child_name", childArgument, "*task", messageArgument, "model_hint", described(aText, "returned in the result"), "max_tokens", described(aNumber, "has no effect")),
	}, func(ctx context.Context, _ *sdk.CallToolRequest, in delegatingHere) (*sdk.CallToolResult, error) {
		d, err := o.Delegate(ctx, in.Child, in.Task, AnswerTime)
		d.Endpoint, d.Hint = "", cmp.Or(in.Hint, "client-default")
		return ownerResult(d, "", err)
	})
	tool(s, &sdk.Tool{
		Name: "vacant_delegate_a2a", Title: "Delegate a task to a child within a time", Annotations: with(asks, "Delegate a task to a child within a time"), OutputSchema: delegateSchema,
		Description: "Sends a task to one of this vacant's children as a signed message of A2A, and waits for the answer for timeout_s, at most 25 seconds.",
		InputSchema: schema("*child_name", childArgument, "*task", messageArgument, "timeout_s", described(`"type":"number","exclusiveMinimum":0`, "seconds to wait, 60 if left out")),
	}, func(ctx context.Context, _ *sdk.CallToolRequest, in delegatingByA2A) (*sdk.CallToolResult, error) {
		wait := AnswerTime
		if s := in.Seconds; s != nil && *s < AnswerTime.Seconds() {
			if wait = time.Duration(*s * float64(time.Second)); wait <= 0 {
				return nil, problem.Invalid("timeout_s", "more than 0 seconds", "less")
			}
		}
		d, err := o.Delegate(ctx, in.Child, in.Task, wait)
		d.Substrate, d.Transport = "", "a2a-http"
		tag := ""
		if p := problem.Of(err); problem.Is(err, problem.Deadline) {
			tag = "a2a_http_failed: "
		} else if err != nil {
			tag = fmt.Sprintf("a2a_http_status: %d ", p.Kind.Row().Status)
		}
		return ownerResult(d, tag, err)
	})
}

// ownerResult renders the result of an owner's tool. A refusal of the host or of the child begins with
// tag.
func ownerResult(v any, tag string, err error) (*sdk.CallToolResult, error) {
	var said *Said
	switch {
	case err == nil:
		return result("", v)
	case errors.As(err, &said):
		return result("", map[string]string{"error": said.Text})
	case IsFault(err):
		return nil, err
	}
	return result("", map[string]string{"error": tag + problem.Of(err).Text()})
}
