// Package locks lets the tasks of agents lock files of workspaces.
//
// The invariants: only a task that has not ended holds a lock. With the policies Queue and Reject, two tasks never hold
// locks that overlap, and a write below the lock of another task does not commit. With the policy Warn, a lock is only
// shown to others.
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

// Policy selects what happens to a task whose lock overlaps the lock of another task.
type Policy string

const (
	Warn   Policy = "warn"   // both tasks hold their locks, and the later one has a warning
	Queue  Policy = "queue"  // the later task waits, in the order of dispatch
	Reject Policy = "reject" // the later task is refused
)

// Locks implements task.Locks. It is safe for concurrent use.
type Locks struct {
	Store store.Updater
	Now   func() time.Time
}

// Lock is a lock that a task holds.
type Lock struct {
	Task      string   `json:"taskId"`
	Agent     string   `json:"agent"`
	Workspace string   `json:"workspace"`
	Paths     []string `json:"paths"`
	Mode      string   `json:"mode"`        // always exclusive
	Acquired  int64    `json:"acquired_at"` // Unix time
}

// Take implements task.Locks.
func (l *Locks) Take(ctx context.Context, tx *store.Tx, r task.Ref, d *task.Dispatch) (warnings []string, waits bool, err error) {
	ref := workspace.Ref{Owner: d.Files.Owner, Name: d.Files.Workspace}
	v, doc, err := Docs.Get(ctx, tx, Docs.Key(ref.Owner, ref.Name))
	if err == nil {
		v.Locks, err = l.unfinished(ctx, v.Locks)
	}
	if err != nil {
		return nil, false, err
	}
	at := slices.IndexFunc(v.Locks, func(e entry) bool { return e.Task == r.ID })
	isNew := at < 0
	if isNew {
		at = len(v.Locks)
		v.Locks = append(v.Locks, entry{Task: r.ID, Vacant: r.Vacant, Owner: r.Owner, Agent: d.Agent, Paths: d.Files.Lock})
	}
	e := &v.Locks[at]
	if e.isHeld() {
		return nil, false, nil
	}
	var others []entry
	for i, other := range v.Locks {
		isFirst := other.isHeld() || v.Policy == Queue && i < at
		if i != at && isFirst && e.overlaps(other.Paths) {
			others = append(others, other)
			warnings = append(warnings, fmt.Sprintf("lock: %s, too", &other))
		}
	}
	switch {
	case len(others) == 0 || v.Policy != Queue && v.Policy != Reject:
		e.Since = l.Now().UTC().Truncate(time.Microsecond)
		Docs.Put(tx, doc, v)
		changeNumber(tx, ref)
		return warnings, false, nil
	case v.Policy == Reject && isNew:
		return nil, false, others[0].refusal(ref.Name)
	case isNew:
		Docs.Put(tx, doc, v)
	}
	return nil, true, nil
}

// changeNumber changes the number of the locks of a workspace. Writes that have passed Guard before do not commit.
func changeNumber(tx *store.Tx, ref workspace.Ref) {
	tx.Add(store.Add{Key: NumberDocs.Key(ref.Owner, ref.Name), Delta: 1, Max: math.MaxInt64})
}

func (e *entry) String() string {
	return fmt.Sprintf("task %s of agent %s holds %s", e.Task, e.Agent, strings.Join(e.Paths, ", "))
}

func (e *entry) refusal(where string) error {
	return problem.New(problem.Conflict, "%s in workspace %s; wait until the task ends, or cancel it", e, where)
}

// unfinished returns the locks of tasks that have not ended.
func (l *Locks) unfinished(ctx context.Context, all []entry) (left []entry, err error) {
	for _, e := range all {
		ok, err := task.IsUnfinished(ctx, l.Store.Store, task.Ref{Vacant: e.Vacant, Owner: e.Owner, ID: e.Task}, l.Now())
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
		return slices.ContainsFunc(others, func(b string) bool { return Below(a, b) || Below(b, a) })
	})
}

// Below reports whether a path is a folder, or below the folder, in whatever spelling. The folder "." is the complete
// workspace.
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
	// The number is read before the locks to which it belongs, so a change of both lets the commit fail.
	number, d, err := NumberDocs.Get(ctx, l.Store.Store, NumberDocs.Key(ref.Owner, ref.Name))
	if err != nil {
		return store.Problem(err)
	}
	v, _, err := Docs.Get(ctx, l.Store.Store, Docs.Key(ref.Owner, ref.Name))
	if err != nil {
		return store.Problem(err)
	}
	tx.Add(store.Add{Key: d.Key, Min: number, Max: number}) // also with the policy Warn, because another may be set before the commit
	if v.Policy != Queue && v.Policy != Reject {
		return nil
	}
	others := slices.DeleteFunc(v.Locks, func(e entry) bool { return !e.isHeld() || e.Task == r.ID || !e.overlaps([]string{path}) })
	if others, err = l.unfinished(ctx, others); err != nil {
		return err
	}
	if len(others) > 0 {
		return problem.Within(problem.Conflict, path, others[0].refusal(ref.Name))
	}
	return nil
}

// IsChanged reports whether a write failed because the locks have changed since its Guard. The write may be tried again.
func IsChanged(err error) bool {
	full := new(store.BoundsError)
	return errors.As(err, &full) && NumberDocs.Matches(full.Key)
}

// List lists the locks of an owner's workspaces that tasks hold, and the policies by workspace.
func (l *Locks) List(ctx context.Context, owner string) (all []Lock, policies map[string]Policy, err error) {
	all, policies = []Lock{}, map[string]Policy{}
	for d, err := range store.All(ctx, l.Store.Store, Docs.All(owner)) {
		if err != nil {
			return nil, nil, store.Problem(err)
		}
		parts, _ := Docs.Parts(d.Key)
		v, err := Docs.Parse(d)
		if err == nil {
			policies[parts[1]] = cmp.Or(v.Policy, Warn)
			v.Locks, err = l.unfinished(ctx, slices.DeleteFunc(v.Locks, func(e entry) bool { return !e.isHeld() }))
		}
		if err != nil {
			return nil, nil, err
		}
		for _, e := range v.Locks {
			all = append(all, Lock{e.Task, e.Agent, parts[1], e.Paths, "exclusive", e.Since.Unix()})
		}
	}
	slices.SortStableFunc(all, func(a, b Lock) int { return cmp.Compare(a.Acquired, b.Acquired) })
	return all, policies, nil
}

// SetPolicy sets the policy of a workspace. Tasks that hold their locks or wait for them go on.
func (l *Locks) SetPolicy(ctx context.Context, ref workspace.Ref, p Policy) error {
	if p != Warn && p != Queue && p != Reject {
		return problem.Invalid("policy", "warn, queue or reject", fmt.Sprintf("%.40q", string(p)))
	}
	return store.Problem(l.Store.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		v, d, err := Docs.Get(ctx, tx, Docs.Key(ref.Owner, ref.Name))
		if err != nil {
			return err
		}
		v.Policy = p
		Docs.Put(tx, d, v)
		changeNumber(tx, ref)
		return nil
	}))
}

// Remove deletes the locks and the policy of a workspace in tx.
func Remove(ctx context.Context, tx *store.Tx, ref workspace.Ref) error {
	for _, key := range []store.Key{Docs.Key(ref.Owner, ref.Name), NumberDocs.Key(ref.Owner, ref.Name)} {
		d, err := tx.Doc(ctx, key)
		if err != nil {
			return err
		}
		tx.Delete(d.Key)
	}
	return nil
}
