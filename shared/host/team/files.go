package team

import (
	"context"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/workspace"
	"github.com/vacancy-host/vacancy/shared/host/workspace/locks"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// resolveFiles returns the access to files for a task of the caller's own agent. A read-only task
// locks the shared folder. Other tasks lock the paths in the agent's file.
func (t *Team) resolveFiles(c Caller, a *definition.Agent, mode string) (*task.Files, error) {
	if t.Workspaces == nil {
		return nil, nil
	}
	name := a.Workspace
	if c.Payer != nil && c.Payer.Test {
		name = workspace.TestName
	}
	ref, err := workspace.ResolveRef(c.Payer, name)
	if err != nil {
		return nil, err
	}
	f := &task.Files{Owner: ref.Owner, Workspace: ref.Name, LockPaths: a.LockPaths}
	if mode == string(definition.ReadOnly) {
		f.LockPaths = []string{definition.SharedFolder}
	}
	return f, nil
}

// resolveTaskText returns the content of a Markdown file in the task's workspace if text is the
// path of the file. Otherwise, it returns text.
func (t *Team) resolveTaskText(ctx context.Context, d *task.Dispatch, text string) (string, error) {
	name := strings.TrimSpace(text)
	if d.Files == nil || !strings.HasSuffix(name, ".md") {
		return text, nil
	}
	f, data, err := t.Workspaces.Read(ctx, workspace.Ref{Owner: d.Files.Owner, Name: d.Files.Workspace}, name)
	switch {
	case problem.Is(err, problem.NotFound), problem.Is(err, problem.Malformed), problem.Is(err, problem.Conflict): // Conflict means that the path of the file has another spelling
		return text, nil
	case err == nil && !utf8.Valid(data):
		err = problem.Invalid("task", "a text, or the path of a text file in UTF-8", f.Path+", which is not valid UTF-8")
	}
	return string(data), err
}

func (t *Team) findLock(ctx context.Context, d *task.DispatchedTask) (*locks.Lock, error) {
	if d.Files == nil {
		return nil, nil
	}
	lockList, _, err := t.Locks.List(ctx, d.Files.Owner)
	for _, l := range lockList {
		if l.Task == d.Ref.ID {
			return &l, err
		}
	}
	return nil, err
}

// HeldLocks returns the locks that tasks hold in the caller's workspaces, oldest first, and the
// lock policies of the workspaces.
func (t *Team) HeldLocks(ctx context.Context, c Caller) ([]locks.Lock, map[string]locks.Policy, error) {
	if t.Locks == nil {
		return []locks.Lock{}, nil, nil
	}
	ref, err := workspace.ResolveRef(c.Payer, "")
	if err != nil {
		return nil, nil, err
	}
	lockList, policies, err := t.Locks.List(ctx, ref.Owner)
	isHidden := func(name string) bool {
		_, err := workspace.ResolveRef(c.Payer, name)
		return err != nil
	}
	lockList = slices.DeleteFunc(lockList, func(l locks.Lock) bool { return isHidden(l.Workspace) })
	maps.DeleteFunc(policies, func(name string, _ locks.Policy) bool { return isHidden(name) })
	return lockList, policies, err
}

func (t *Team) SetLockPolicy(ctx context.Context, c Caller, name string, p locks.Policy) error {
	switch {
	case t.Locks == nil:
		return problem.New(problem.NotFound, "this host has no workspaces")
	case c.Payer != nil && c.Payer.Issuer != "":
		return problem.New(problem.Forbidden, "a token may not set the policy of a workspace; use a key of the account")
	}
	ref, err := workspace.ResolveRef(c.Payer, name)
	if err == nil {
		_, _, err = t.Workspaces.ListFiles(ctx, ref, "", 1, "") // fails unless the workspace exists or would be created by the first write
	}
	if err != nil {
		return err
	}
	return t.Locks.SetPolicy(ctx, ref, p)
}

func (t *Team) Log(ctx context.Context, c Caller, id string, after int) ([]task.LogEvent, error) {
	d, err := t.findTask(ctx, c, id, missingOrExpiredFormat)
	if err != nil {
		return nil, err
	}
	return t.Tasks.ReadLog(ctx, d.Ref, after)
}
