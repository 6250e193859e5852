package acpclient

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/coder/acp-go-sdk"

	"github.com/vacancy-host/vacancy/cmd/vacancy/sessionlog"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Approval is the policy for permissions that an agent asks for.
type Approval string

// The policies.
const (
	Default  Approval = "default"   // a person decides
	Yolo     Approval = "yolo"      // everything is allowed
	AutoEdit Approval = "auto_edit" // edits are allowed; a person decides about all other requests
	Plan     Approval = "plan"      // everything is rejected
)

func (a Approval) Check() error {
	switch a {
	case Default, Yolo, AutoEdit, Plan:
		return nil
	}
	return problem.New(problem.Usage, "--approval: expected default, yolo, auto_edit or plan, got %.40q", string(a))
}

// Question is a request for a permission that a person decides, and Option is a possible answer.
type (
	Question = acp.RequestPermissionRequest
	Option   = acp.PermissionOption
)

// RequestPermission implements acp.Client.
func (r requests) RequestPermission(ctx context.Context, q acp.RequestPermissionRequest) (acp.RequestPermissionResponse, error) {
	id := string(q.ToolCall.ToolCallId)
	r.mu.Lock()
	c := r.calls[id]
	r.mu.Unlock()
	if q.ToolCall.Kind != nil {
		c.kind = string(*q.ToolCall.Kind)
	}
	if q.ToolCall.Title != nil {
		c.title = *q.ToolCall.Title
	}
	for _, location := range q.ToolCall.Locations {
		c.paths = append(c.paths, location.Path)
	}
	t := r.current()
	option, asks := "", false
	if t != nil {
		option, asks = choose(r.o.Approval, r.o.ReadOnly && !r.onlyReads(c), c.kind, q.Options)
	}
	switch {
	case asks && r.o.Ask == nil:
		option = first(q.Options, false)
	case asks:
		asking, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(t.ctx, cancel)()
		q.ToolCall.Title = &c.title
		var err error
		if option, err = r.o.Ask(asking, q); err != nil {
			option = ""
		}
	}
	outcome := acp.NewRequestPermissionOutcomeSelected(acp.PermissionOptionId(option))
	if option == "" || t == nil || t.ctx.Err() != nil {
		option, outcome = "cancelled", acp.NewRequestPermissionOutcomeCancelled()
	}
	r.log.Load().Write(sessionlog.PermissionRequest, "tool_call_id", id, "outcome", option)
	return acp.RequestPermissionResponse{Outcome: outcome}, nil
}

// choose returns the option that a policy selects, or "" if options has no suitable one. If denied is true, it selects a
// rejection under every policy. If a person must decide, asks is true.
func choose(policy Approval, denied bool, kind string, options []acp.PermissionOption) (option string, asks bool) {
	switch {
	case denied || policy == Plan:
		return first(options, false), false
	case policy == Yolo, policy == AutoEdit && kind == string(acp.ToolKindEdit):
		switch option := first(options, true); {
		case option != "":
			return option, false
		case len(options) > 0:
			return string(options[0].OptionId), false
		}
		return "allow", false
	}
	return "", true
}

// first returns the id of the first option that allows the request, or rejects it if allows is false. It returns "" if
// options contains none.
func first(options []acp.PermissionOption, allows bool) string {
	for _, o := range options {
		if Allows(o) == allows {
			return string(o.OptionId)
		}
	}
	return ""
}

func Allows(o acp.PermissionOption) bool {
	return o.Kind == acp.PermissionOptionKindAllowOnce || o.Kind == acp.PermissionOptionKindAllowAlways
}

// onlyReads reports whether a tool call is allowed if the mode is read-only. It allows calls that only read, and calls
// that change only files below .vault. It does not allow calls of other and unknown kinds, because they may change
// other data.
func (a *Agent) onlyReads(c call) bool {
	switch acp.ToolKind(c.kind) {
	case acp.ToolKindRead, acp.ToolKindSearch, acp.ToolKindThink, acp.ToolKindFetch:
		return true
	case acp.ToolKindEdit, acp.ToolKindDelete, acp.ToolKindMove:
	default:
		return false
	}
	for _, path := range c.paths {
		if name, err := a.name(path); err != nil || !isBelowVault(name) {
			return false
		}
	}
	return len(c.paths) > 0
}

// vault is the folder below the root that may be written if the mode is read-only.
const vault = ".vault"

func isBelowVault(name string) bool {
	return strings.HasPrefix(name, vault+string(filepath.Separator))
}
