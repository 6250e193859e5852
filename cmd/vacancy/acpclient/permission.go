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

const (
	ApprovalDefault  Approval = "default"   // a person decides
	ApprovalYolo     Approval = "yolo"      // everything is allowed
	ApprovalAutoEdit Approval = "auto_edit" // edits are allowed; a person decides about all other requests
	ApprovalPlan     Approval = "plan"      // everything is rejected
)

func (a Approval) Check() error {
	switch a {
	case ApprovalDefault, ApprovalYolo, ApprovalAutoEdit, ApprovalPlan:
		return nil
	}
	return problem.New(problem.Usage, "--approval: expected default, yolo, auto_edit or plan, got %.40q", string(a))
}

type (
	Question = acp.RequestPermissionRequest
	Option   = acp.PermissionOption
)

// RequestPermission implements acp.Client.
func (r requestHandler) RequestPermission(ctx context.Context, q acp.RequestPermissionRequest) (acp.RequestPermissionResponse, error) {
	id := string(q.ToolCall.ToolCallId)
	r.mu.Lock()
	c := r.toolCalls[id]
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
	t := r.currentTurn()
	option, mustAsk := "", false
	if t != nil {
		option, mustAsk = chooseOption(r.opts.Approval, r.opts.ReadOnly && !r.isAllowedReadOnly(c), c.kind, q.Options)
	}
	switch {
	case mustAsk && r.opts.Ask == nil:
		option = findOption(q.Options, false)
	case mustAsk:
		askCtx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(t.ctx, cancel)()
		q.ToolCall.Title = &c.title
		var err error
		if option, err = r.opts.Ask(askCtx, q); err != nil {
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

// chooseOption returns the option that the policy selects, or "". If a person must decide, mustAsk
// is true.
func chooseOption(policy Approval, mustReject bool, kind string, options []acp.PermissionOption) (option string, mustAsk bool) {
	switch {
	case mustReject || policy == ApprovalPlan:
		return findOption(options, false), false
	case policy == ApprovalYolo, policy == ApprovalAutoEdit && kind == string(acp.ToolKindEdit):
		switch option := findOption(options, true); {
		case option != "":
			return option, false
		case len(options) > 0:
			return string(options[0].OptionId), false
		}
		return "allow", false
	}
	return "", true
}

func findOption(options []acp.PermissionOption, wantAllow bool) string {
	for _, o := range options {
		if Allows(o) == wantAllow {
			return string(o.OptionId)
		}
	}
	return ""
}

func Allows(o acp.PermissionOption) bool {
	return o.Kind == acp.PermissionOptionKindAllowOnce || o.Kind == acp.PermissionOptionKindAllowAlways
}

// isAllowedReadOnly reports whether a tool call only reads, or changes only files below .vault. It
// refuses unknown kinds, because they may change other data.
func (a *Agent) isAllowedReadOnly(c toolCall) bool {
	switch acp.ToolKind(c.kind) {
	case acp.ToolKindRead, acp.ToolKindSearch, acp.ToolKindThink, acp.ToolKindFetch:
		return true
	case acp.ToolKindEdit, acp.ToolKindDelete, acp.ToolKindMove:
	default:
		return false
	}
	for _, path := range c.paths {
		if name, err := a.relativeName(path); err != nil || !isBelowVault(name) {
			return false
		}
	}
	return len(c.paths) > 0
}

const vaultDir = ".vault"

func isBelowVault(name string) bool {
	return strings.HasPrefix(name, vaultDir+string(filepath.Separator))
}
