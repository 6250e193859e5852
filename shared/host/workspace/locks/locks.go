// Package locks lets the tasks of agents lock files of workspaces.
//
// The invariants: only a task that has not ended holds a lock. With the policies Queue and Reject, two tasks never hold
// locks that overlap, and a write below the lock of another task does not commit. With the policy Warn, a lock is only
// shown to others.
package locks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/workspace"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

// Policy selects what happens to a task whose lock overlaps the lock of another task.
type Policy string

// The policies.
const (
	Warn   Policy = "warn"   // both tasks hold their locks, and the later one has a warning
	Queue  Policy = "queue"  // the later task waits, in the order of dispatch
	Reject Policy = "reject" // the later task is refused
)

// Config configures Locks.
type Config struct {
	Store store.Updater
	Now   func() time.Time
}

// Locks implements task.Locks. It is safe for concurrent use.
type Locks struct{ Config }

// New returns Locks.
func New(c Config) *Locks { return &Locks{c} }

// Lock is a lock that a task holds.
type Lock struct {
	Task      string    `json:"taskId"`
	Agent     string    `json:"agent"`
	Workspace string    `json:"workspace"`
	Paths     []string  `json:"paths"`
	Mode      string    `json:"mode"`        // always exclusive
	Acquired  int64     `json:"acquired_at"` // Unix time
	since     time.Time // for the order
}

// Take implements task.Locks.
func (l *Locks) Take(ctx context.Context, tx *store.Tx, r task.Ref, d *task.Dispatch) (warnings []string, waits bool, err error) {
	hold, heldDoc, err := Docs.Get(ctx, tx, Docs.Key(d.Files.Owner, d.Files.Workspace, held))
	if err != nil || slices.ContainsFunc(hold.Locks, isOf(r)) {
		return nil, false, err
	}
	wait, waitDoc, err := Docs.Get(ctx, tx, Docs.Key(d.Files.Owner, d.Files.Workspace, waiting))
	if err != nil {
		return nil, false, err
	}
	e := entry{r.ID, r.Vacant, r.Owner, d.Agent, d.Files.Lock, l.Now().UTC().Truncate(time.Microsecond)}
	isNew := true
	if at := slices.IndexFunc(wait.Locks, isOf(r)); at >= 0 {
		e, isNew = wait.Locks[at], false
	}
	if hold.Locks, err = l.unfinished(ctx, hold.Locks); err != nil {
		return nil, false, err
	}
	before := slices.Clone(hold.Locks)
	if hold.Policy == Queue { // tasks that wait longer come first
		older := wait.Locks
		if !isNew {
			older = older[:slices.IndexFunc(older, isOf(r))]
		}
		if older, err = l.unfinished(ctx, older); err != nil {
			return nil, false, err
		}
		before = append(before, older...)
	}
	before = slices.DeleteFunc(before, func(other entry) bool { return !e.overlaps(other.Paths) })
	switch {
	case len(before) == 0:
	case hold.Policy == Queue || hold.Policy == Reject && !isNew:
		if isNew {
			if wait.Locks, err = l.unfinished(ctx, wait.Locks); err != nil {
				return nil, false, err
			}
			wait.Locks = append(wait.Locks, e)
			Docs.Put(tx, waitDoc, wait)
		}
		return nil, true, nil
	case hold.Policy == Reject:
		return nil, false, before[0].refusal(d.Files.Workspace)
	default:
		for _, other := range before {
			warnings = append(warnings, fmt.Sprintf("lock: task %s of agent %s holds %s, too", other.Task, other.Agent, strings.Join(other.Paths, ", ")))
		}
	}
	e.Since = l.Now().UTC().Truncate(time.Microsecond)
	hold.Locks = append(hold.Locks, e)
	heldDoc.Number++
	Docs.Put(tx, heldDoc, hold)
	if !isNew {
		wait.Locks = slices.DeleteFunc(wait.Locks, isOf(r))
		Docs.Put(tx, waitDoc, wait)
	}
	return warnings, false, nil
}

func isOf(r task.Ref) func(entry) bool {
	return func(e entry) bool { return e.Task == r.ID && e.Owner == r.Owner }
}

func (e *entry) refusal(where string) error {
	return problem.New(problem.Conflict, "task %s of agent %s holds %s in workspace %s; wait until the task ends, or cancel it", e.Task, e.Agent, strings.Join(e.Paths, ", "), where)
}

// unfinished returns the locks of tasks that have not ended.
func (l *Locks) unfinished(ctx context.Context, all []entry) (left []entry, err error) {
	for _, e := range all {
		ok, err := task.IsUnfinished(ctx, l.Store.Store, e.ref(), l.Now())
		if err != nil {
			return nil, err
		}
		if ok {
			left = append(left, e)
		}
	}
	return left, nil
}

// overlaps reports whether a path of the lock equals one of others, or one of the two is a folder of the other.
func (e *entry) overlaps(others []string) bool {
	return slices.ContainsFunc(e.Paths, func(a string) bool {
		return slices.ContainsFunc(others, func(b string) bool { return Overlap(a, b) })
	})
}

// Overlap reports whether two paths are equal or one is a folder of the other, in whatever spelling. The path "." is the
// complete workspace.
func Overlap(a, b string) bool {
	a, b = folder(a), folder(b)
	return strings.HasPrefix(a, b) || strings.HasPrefix(b, a)
}

// Below reports whether a path is a folder, or below the folder.
func Below(path, dir string) bool { return strings.HasPrefix(folder(path), folder(dir)) }

// folder returns the folded form of a path with a slash at its end; "" for the complete workspace.
func folder(path string) string {
	path = strings.TrimSuffix(workspace.Fold(path), "/")
	if path == "." || path == "" {
		return ""
	}
	return path + "/"
}

// Guard adds to tx a condition for the commit in which a task writes a path: the commit fails if another task locks the
// path at the same time. Guard returns an error if the task has ended, or if another task holds the path. The error names
// the other task.
func (l *Locks) Guard(ctx context.Context, tx *store.Tx, ref workspace.Ref, r task.Ref, path string) error {
	switch ok, err := task.IsUnfinished(ctx, l.Store.Store, r, l.Now()); {
	case err != nil:
		return err
	case !ok:
		return problem.New(problem.Canceled, "%s: the task has ended", path)
	}
	key := Docs.Key(ref.Owner, ref.Name, held)
	hold, doc, err := Docs.Get(ctx, l.Store.Store, key)
	if err != nil || doc.Version == 0 || hold.Policy != Queue && hold.Policy != Reject {
		return store.Problem(err)
	}
	other := slices.DeleteFunc(hold.Locks, func(e entry) bool { return isOf(r)(e) || !e.overlaps([]string{path}) })
	if other, err = l.unfinished(ctx, other); err != nil {
		return err
	}
	if len(other) > 0 {
		return problem.Within(problem.Conflict, path, other[0].refusal(ref.Name))
	}
	tx.Add(store.Add{Key: key, Min: doc.Number, Max: doc.Number})
	return nil
}

// IsChanged reports whether a write failed because the locks have changed since its Guard. The write may be tried again.
func IsChanged(err error) bool {
	full := new(store.BoundsError)
	return errors.As(err, &full) && Docs.Matches(full.Key)
}

// List lists the locks of an owner's workspaces that tasks hold, and the policies by workspace.
func (l *Locks) List(ctx context.Context, owner string) (all []Lock, policies map[string]Policy, err error) {
	all, policies = []Lock{}, map[string]Policy{}
	for d, err := range store.All(ctx, l.Store.Store, Docs.All(owner)) {
		if err != nil {
			return nil, nil, store.Problem(err)
		}
		parts, _ := Docs.Parts(d.Key)
		if parts[2] != held {
			continue
		}
		v, err := Docs.Parse(d)
		if err == nil {
			policies[parts[1]] = v.policy()
			v.Locks, err = l.unfinished(ctx, v.Locks)
		}
		if err != nil {
			return nil, nil, err
		}
		for _, e := range v.Locks {
			all = append(all, Lock{e.Task, e.Agent, parts[1], e.Paths, "exclusive", e.Since.Unix(), e.Since})
		}
	}
	slices.SortStableFunc(all, func(a, b Lock) int { return a.since.Compare(b.since) })
	return all, policies, nil
}

func (v *list) policy() Policy {
	if v.Policy == "" {
		return Warn
	}
	return v.Policy
}

// SetPolicy sets the policy of a workspace. Tasks that hold their locks or wait for them go on.
func (l *Locks) SetPolicy(ctx context.Context, ref workspace.Ref, p Policy) error {
	if p != Warn && p != Queue && p != Reject {
		return problem.Invalid("policy", "warn, queue or reject", fmt.Sprintf("%.40q", string(p)))
	}
	return store.Problem(l.Store.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		v, d, err := Docs.Get(ctx, tx, Docs.Key(ref.Owner, ref.Name, held))
		if err == nil {
			v.Policy = p
			d.Number++
			Docs.Put(tx, d, v)
		}
		return err
	}))
}
