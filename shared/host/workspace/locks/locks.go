// Package locks lets the tasks of agents lock files in workspaces.
package locks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/workspace"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

type Policy string

const (
	Warn   Policy = "warn"   // both tasks hold their locks, and the later task gets a warning
	Queue  Policy = "queue"  // the later task waits, in the order of dispatch
	Reject Policy = "reject" // the later task is refused
)

// Locks implements task.Locks. It is safe for concurrent use.
type Locks struct {
	Store store.Updater
	Now   func() time.Time
}

type Lock struct {
	Task      string   `json:"taskId"`
	Agent     string   `json:"agent"`
	Workspace string   `json:"workspace"`
	Paths     []string `json:"paths"`
	Mode      string   `json:"mode"`        // always "exclusive"
	Acquired  int64    `json:"acquired_at"` // Unix time
}

func (l *Locks) Acquire(ctx context.Context, tx *store.Tx, taskRef task.Ref, d *task.Dispatch) (warnings []string, isWaiting bool, err error) {
	ref := workspace.Ref{Owner: d.Files.Owner, Name: d.Files.Workspace}
	v, doc, err := Docs.Get(ctx, tx, Docs.Key(ref.Owner, ref.Name))
	if err == nil {
		v.Locks, err = l.filterUnfinished(ctx, v.Locks)
	}
	if err != nil {
		return nil, false, err
	}
	index := slices.IndexFunc(v.Locks, func(e entry) bool { return e.Task == taskRef.ID })
	isNew := index < 0
	if isNew {
		index = len(v.Locks)
		v.Locks = append(v.Locks, entry{Task: taskRef.ID, Vacant: taskRef.Vacant, Owner: taskRef.Owner, Agent: d.Agent, Paths: d.Files.LockPaths})
	}
	e := &v.Locks[index]
	if e.isHeld() {
		return nil, false, nil
	}
	var conflicting []entry
	for i, other := range v.Locks {
		hasPriority := other.isHeld() || v.Policy == Queue && i < index
		if i != index && hasPriority && e.overlaps(other.Paths) {
			conflicting = append(conflicting, other)
			warnings = append(warnings, fmt.Sprintf("also locked: %s", &other))
		}
	}
	switch {
	case len(conflicting) == 0 || v.Policy != Queue && v.Policy != Reject:
		e.HeldSince = l.Now().UTC().Truncate(time.Microsecond)
		Docs.Put(tx, doc, v)
		incrementNumber(tx, ref)
		return warnings, false, nil
	case v.Policy == Reject && isNew:
		return nil, false, conflicting[0].conflictError(ref.Name)
	case isNew:
		Docs.Put(tx, doc, v)
	}
	return nil, true, nil
}

// incrementNumber makes uncommitted writes fail, even if CheckWrite has accepted them.
func incrementNumber(tx *store.Tx, ref workspace.Ref) {
	tx.AddWrites(store.Add{Key: LockNumberDocs.Key(ref.Owner, ref.Name), Delta: 1, Max: math.MaxInt64})
}

func (e *entry) String() string {
	return fmt.Sprintf("task %s of agent %s holds %s", e.Task, e.Agent, strings.Join(e.Paths, ", "))
}

func (e *entry) conflictError(workspaceName string) error {
	return problem.New(problem.Conflict, "%s in workspace %s; wait until the task ends, or cancel it", e, workspaceName)
}

func (l *Locks) filterUnfinished(ctx context.Context, entries []entry) (unfinished []entry, err error) {
	for _, e := range entries {
		isUnfinished, err := task.IsUnfinished(ctx, l.Store.Store, task.Ref{Vacant: e.Vacant, Owner: e.Owner, ID: e.Task}, l.Now())
		if err != nil {
			return nil, err
		}
		if isUnfinished {
			unfinished = append(unfinished, e)
		}
	}
	return unfinished, nil
}

func (e *entry) overlaps(paths []string) bool {
	return slices.ContainsFunc(e.Paths, func(a string) bool {
		return slices.ContainsFunc(paths, func(b string) bool { return IsWithin(a, b) || IsWithin(b, a) })
	})
}

// IsWithin reports whether path is dir or is below dir. The folder "." is the complete workspace.
func IsWithin(path, dir string) bool { return strings.HasPrefix(dirPrefix(path), dirPrefix(dir)) }

func dirPrefix(path string) string {
	path = strings.TrimSuffix(workspace.FoldPath(path), "/")
	if path == "." || path == "" {
		return ""
	}
	return path + "/"
}

// CheckWrite returns an error if the task has ended, or if the policy forbids the write because of
// another task's lock. It adds a condition to tx, so that the commit fails if the locks change
// concurrently.
func (l *Locks) CheckWrite(ctx context.Context, tx *store.Tx, ref workspace.Ref, taskRef task.Ref, path string) error {
	switch isUnfinished, err := task.IsUnfinished(ctx, l.Store.Store, taskRef, l.Now()); {
	case err != nil:
		return err
	case !isUnfinished:
		return problem.New(problem.Canceled, "%s: the task has ended", path)
	}
	// Read the number before the locks. If the locks change in between, the number changes too, and
	// the commit fails.
	number, d, err := LockNumberDocs.Get(ctx, l.Store.Store, LockNumberDocs.Key(ref.Owner, ref.Name))
	if err != nil {
		return store.AsProblem(err)
	}
	v, _, err := Docs.Get(ctx, l.Store.Store, Docs.Key(ref.Owner, ref.Name))
	if err != nil {
		return store.AsProblem(err)
	}
	// The condition is added under every policy, because the policy may change before the commit.
	tx.AddWrites(store.Add{Key: d.Key, Min: number, Max: number})
	if v.Policy != Queue && v.Policy != Reject {
		return nil
	}
	conflicting := slices.DeleteFunc(v.Locks, func(e entry) bool { return !e.isHeld() || e.Task == taskRef.ID || !e.overlaps([]string{path}) })
	if conflicting, err = l.filterUnfinished(ctx, conflicting); err != nil {
		return err
	}
	if len(conflicting) > 0 {
		return problem.WithPlace(problem.Conflict, path, conflicting[0].conflictError(ref.Name))
	}
	return nil
}

// IsLockChange reports whether a write failed, and may be retried, because locks have changed.
func IsLockChange(err error) bool {
	boundsErr := new(store.BoundsError)
	return errors.As(err, &boundsErr) && LockNumberDocs.Matches(boundsErr.Key)
}

func (l *Locks) List(ctx context.Context, owner string) (lockList []Lock, policies map[string]Policy, err error) {
	lockList, policies = []Lock{}, map[string]Policy{}
	for d, err := range store.Documents(ctx, l.Store.Store, Docs.Range(owner)) {
		if err != nil {
			return nil, nil, store.AsProblem(err)
		}
		parts, _ := Docs.Parts(d.Key)
		v, err := Docs.Parse(d)
		if err == nil {
			policies[parts[1]] = cmp.Or(v.Policy, Warn)
			v.Locks, err = l.filterUnfinished(ctx, slices.DeleteFunc(v.Locks, func(e entry) bool { return !e.isHeld() }))
		}
		if err != nil {
			return nil, nil, err
		}
		for _, e := range v.Locks {
			lockList = append(lockList, Lock{e.Task, e.Agent, parts[1], e.Paths, "exclusive", e.HeldSince.Unix()})
		}
	}
	slices.SortStableFunc(lockList, func(a, b Lock) int { return cmp.Compare(a.Acquired, b.Acquired) })
	return lockList, policies, nil
}

func (l *Locks) SetPolicy(ctx context.Context, ref workspace.Ref, p Policy) error {
	if p != Warn && p != Queue && p != Reject {
		return problem.Invalid("policy", "warn, queue or reject", fmt.Sprintf("%.40q", string(p)))
	}
	return store.AsProblem(l.Store.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		v, d, err := Docs.Get(ctx, tx, Docs.Key(ref.Owner, ref.Name))
		if err != nil {
			return err
		}
		v.Policy = p
		Docs.Put(tx, d, v)
		incrementNumber(tx, ref)
		return nil
	}))
}

func Remove(ctx context.Context, tx *store.Tx, ref workspace.Ref) error {
	for _, key := range []store.Key{Docs.Key(ref.Owner, ref.Name), LockNumberDocs.Key(ref.Owner, ref.Name)} {
		d, err := tx.Doc(ctx, key)
		if err != nil {
			return err
		}
		tx.Delete(d.Key)
	}
	return nil
}
