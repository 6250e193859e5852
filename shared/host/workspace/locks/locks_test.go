package locks_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/local"
	"github.com/vacancy-host/vacancy/shared/host/workspace"
	"github.com/vacancy-host/vacancy/shared/host/workspace/locks"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/blob"
	"github.com/vacancy-host/vacancy/shared/store/blob/files"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func TestPathsThatOverlap(t *testing.T) {
	for _, tt := range []struct {
		path, dir string
		want      bool
	}{
		{".vault/", ".vault/", true}, {".vault", ".vault/", true}, {".vault/a/b", ".vault/", true}, {".VAULT/a", ".vault", true},
		{"a", ".", true}, {"a", "", true}, {"src/é.md", "src/e\u0301.md", true}, {"a/b", "a", true},
		{"a", "a/b", false}, {".vault-evil/x", ".vault/", false}, {"src2", "src", false}, {"a/b", "a/c", false}, {"b/a", "a", false},
	} {
		if got := locks.IsWithin(tt.path, tt.dir); got != tt.want {
			t.Errorf("Below(%q, %q) = %t", tt.path, tt.dir, got)
		}
	}
}

// world has the locks and the files of a workspace, and tasks with a clock.
type world struct {
	*testing.T
	*locks.Locks
	files *workspace.Workspaces
	store *memory.Store
	mu    sync.Mutex
	clock time.Time
}

var (
	main  = workspace.Ref{Owner: "acme", Name: workspace.MainName}
	owner = call.AccountOwner("acme", "")
)

func newWorld(t *testing.T, p locks.Policy) *world {
	w := &world{T: t, store: memory.New(), clock: time.Now().UTC().Truncate(time.Second)}
	vault, err := local.FromHex(strings.Repeat("0a", 32), rand.Reader)
	w.must(err)
	blobs, err := files.Open(t.TempDir(), w.clock)
	w.must(err)
	updater := store.Updater{Store: w.store, Rand: rand.Reader}
	w.Locks = &locks.Locks{Store: updater, Now: w.now}
	w.files = workspace.New(workspace.Config{
		Store: updater, Blobs: func() (blob.Blobs, error) { return blobs, nil }, Vault: vault, Now: w.now,
		CheckWritable: func(context.Context, string) error { return nil }, RemoveRelated: locks.Remove,
	})
	if p != "" {
		w.must(w.SetPolicy(t.Context(), main, p))
	}
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.clock
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clock = w.clock.Add(d)
}

func refOf(n int) task.Ref {
	return task.Ref{Vacant: identity.ID{byte(n % 8)}, Owner: owner, ID: fmt.Sprintf("%032x", n)}
}

// keyReader records the key of the document that is read.
type keyReader struct{ key store.Key }

func (k *keyReader) Doc(_ context.Context, key store.Key) (store.Doc, error) {
	k.key = key
	return store.Doc{}, nil
}

// putTask adds the head of a task to tx. A task that works has a lease of a minute, and its deadline is in an hour.
func (w *world) putTask(ctx context.Context, tx *store.Tx, r task.Ref, state string) error {
	var at keyReader
	if _, err := task.IsUnfinished(ctx, &at, r, w.now()); err != nil {
		return err
	}
	if _, err := tx.Doc(ctx, at.key); err != nil {
		return err
	}
	head := map[string]any{
		"state": state, "began": w.now(), "changed": w.now(), "caller": identity.ID{}, "position": 0, "events": 1, "context": "",
		"dispatch": map[string]any{"agent": "a", "deadline": w.now().Add(time.Hour), "mode": "read-write"},
	}
	if state == "working" {
		head["lease"], head["position"] = w.now().Add(time.Minute), 1
	}
	b, err := json.Marshal(head)
	tx.Put(store.Doc{Key: at.key, Data: append([]byte(`{"format":2,`), b[1:]...)})
	return err
}

func (w *world) setTask(n int, state string) {
	w.Helper()
	w.must(w.Store.Update(w.Context(), func(ctx context.Context, tx *store.Tx) error { return w.putTask(ctx, tx, refOf(n), state) }))
}

// take lets a task take its lock, or wait for it. A new task is stored in the same commit.
func (w *world) take(n int, isNew bool, paths ...string) (warnings []string, waits bool, err error) {
	d := task.Dispatch{Agent: fmt.Sprint("agent-", n%8), Files: &task.Files{Owner: main.Owner, Workspace: main.Name, LockPaths: paths}}
	err = w.Store.Update(w.Context(), func(ctx context.Context, tx *store.Tx) (err error) {
		if warnings, waits, err = w.Acquire(ctx, tx, refOf(n), &d); err == nil && isNew {
			err = w.putTask(ctx, tx, refOf(n), "submitted")
		}
		return err
	})
	return warnings, waits, err
}

// want takes the lock of a task, and compares whether it waits.
func (w *world) want(waits bool, n int, isNew bool, paths ...string) {
	w.Helper()
	if _, got, err := w.take(n, isNew, paths...); err != nil || got != waits {
		w.Errorf("task %d waits: %t, %v, want %t", n, got, err, waits)
	}
}

func (w *world) write(n int, path, text string, cond workspace.Condition) error {
	_, err := w.files.Write(w.Context(), main, workspace.Change{Path: path, Data: []byte(text), Condition: cond, Task: refOf(n).ID, AddWrites: func(ctx context.Context, tx *store.Tx) error {
		return w.CheckWrite(ctx, tx, main, refOf(n), path)
	}})
	return err
}

// held returns the tasks that hold locks.
func (w *world) held() (tasks []int) {
	w.Helper()
	all, _, err := w.List(w.Context(), main.Owner)
	w.must(err)
	for _, l := range all {
		var n int
		if _, err := fmt.Sscanf(l.Task, "%x", &n); err != nil || l.Mode != "exclusive" || l.Workspace != main.Name {
			w.Errorf("a lock is %+v", l)
		}
		tasks = append(tasks, n)
	}
	return tasks
}

// 64 tasks of 8 agents queue for two folders. The tasks of a folder hold it one after the other, in the order of dispatch.
// No write is refused or lost, and no lock remains.
func TestManyTasksWriteInTheOrderOfDispatch(t *testing.T) {
	const tasks = 64
	w := newWorld(t, locks.Queue)
	folderOf := func(n int) string { return []string{".vault/", "src/"}[n%8/4] }
	want := map[string]string{}
	for n := range tasks {
		_, _, err := w.take(n, true, folderOf(n))
		w.must(err)
		want[folderOf(n)] += fmt.Sprintln(n)
	}
	var mu sync.Mutex
	ended := make(chan struct{}) // closed when a task ends
	var all sync.WaitGroup
	for n := range tasks {
		all.Go(func() {
			for {
				mu.Lock()
				next := ended
				mu.Unlock()
				_, waits, err := w.take(n, false, folderOf(n))
				if err != nil {
					t.Error(err)
					return
				}
				if !waits {
					break
				}
				select {
				case <-next:
				case <-t.Context().Done():
					return
				}
			}
			w.setTask(n, "working")
			path := folderOf(n) + "list"
			f, data, err := w.files.Read(t.Context(), main, path)
			cond := workspace.Condition{Hash: f.Hash}
			if problem.Is(err, problem.NotFound) {
				cond, err = workspace.Condition{Absent: true}, nil
			}
			if err == nil {
				err = w.write(n, path, string(data)+fmt.Sprintln(n), cond)
			}
			for locks.IsLockChange(err) { // the lock of the other folder
				err = w.write(n, path, string(data)+fmt.Sprintln(n), cond)
			}
			if err != nil {
				t.Errorf("task %d: %v", n, err)
			}
			w.setTask(n, "completed")
			mu.Lock()
			defer mu.Unlock()
			close(ended)
			ended = make(chan struct{})
		})
	}
	all.Wait()
	for folder, text := range want {
		if _, data, err := w.files.Read(t.Context(), main, folder+"list"); err != nil || string(data) != text {
			t.Errorf("%s has %q, %v, want %q", folder, data, err, text)
		}
	}
	if held := w.held(); held != nil {
		t.Errorf("tasks %v hold locks", held)
	}
	w.want(false, tasks, true, ".")
	d, err := w.store.Doc(t.Context(), locks.Docs.Key(main.Owner, main.Name))
	if w.must(err); strings.Count(string(d.Data), `"task"`) != 1 {
		t.Errorf("locks of tasks that have ended remain stored: %s", d.Data)
	}
}

// A lock that another task takes between the check of a write and its commit prevents the write.
func TestALockThatIsTakenBetweenReadAndWrite(t *testing.T) {
	for _, policy := range []locks.Policy{locks.Queue, locks.Reject} {
		w := newWorld(t, policy)
		w.want(false, 1, true, "docs")
		w.must(w.write(1, "src/a", "first", workspace.Condition{}))
		isTaken := false
		write := func() error {
			_, err := w.files.Write(t.Context(), main, workspace.Change{Path: "src/a", Data: []byte("second"), AddWrites: func(ctx context.Context, tx *store.Tx) error {
				err := w.CheckWrite(ctx, tx, main, refOf(1), "src/a")
				if err == nil && !isTaken {
					isTaken = true
					w.want(false, 2, true, "SRC/")
				}
				return err
			}})
			return err
		}
		if err := write(); !locks.IsLockChange(err) {
			t.Errorf("%s: Write() = %v, want changed locks", policy, err)
		}
		if err := write(); !problem.Is(err, problem.Conflict) || !strings.Contains(err.Error(), refOf(2).ID) || !strings.Contains(err.Error(), "agent-2 holds SRC/") {
			t.Errorf("%s: Write() = %v, want a denial that names the holder", policy, err)
		}
		w.must(w.write(2, "src/b", "x", workspace.Condition{}))
		if _, data, err := w.files.Read(t.Context(), main, "src/a"); err != nil || string(data) != "first" {
			t.Errorf("%s: the file is %q, %v", policy, data, err)
		}
		w.setTask(2, "canceled")
		if err := write(); err != nil {
			t.Errorf("%s: Write() below a lock that has ended = %v", policy, err)
		}
	}
}

// Tasks behind a holder whose runner died, and behind one that reached its deadline, get the lock in their order. Those
// that lost it write nothing more.
func TestAPolicyThatIsSetBetweenReadAndWrite(t *testing.T) {
	w := newWorld(t, "")
	w.setTask(1, "working")
	isSet := false
	_, err := w.files.Write(t.Context(), main, workspace.Change{Path: "src/a", Data: []byte("x"), AddWrites: func(ctx context.Context, tx *store.Tx) error {
		err := w.CheckWrite(ctx, tx, main, refOf(1), "src/a")
		if err == nil && !isSet {
			isSet = true
			w.must(w.SetPolicy(ctx, main, locks.Queue))
			w.want(false, 2, true, "src")
		}
		return err
	}})
	if !locks.IsLockChange(err) {
		t.Errorf("Write() = %v, want changed locks", err)
	}
}

func TestAQueueBehindAHolderThatDied(t *testing.T) {
	w := newWorld(t, locks.Queue)
	w.want(false, 1, true, ".vault/")
	w.setTask(1, "working")
	for n := 2; n <= 4; n++ {
		w.want(true, n, true, ".vault/a")
	}
	w.want(false, 5, true, "src")
	w.want(true, 6, true, "src", ".vault/a/b")
	w.pass(2 * time.Minute) // the lease
	w.want(true, 3, false, ".vault/a")
	w.want(true, 7, true, ".vault/a")
	w.want(false, 2, false, ".vault/a")
	if held := w.held(); !slices.Equal(held, []int{5, 2}) {
		t.Errorf("tasks %v hold locks, want 5 and 2", held)
	}
	if err := w.write(1, ".vault/x", "late", workspace.Condition{}); !problem.Is(err, problem.Canceled) {
		t.Errorf("Write() of a task that died = %v", err)
	}
	w.must(w.write(2, ".vault/a", "x", workspace.Condition{}))
	w.want(false, 2, false, ".vault/a") // it has its lock
	w.setTask(3, "failed")              // it waits no longer
	w.want(true, 4, false, ".vault/a")
	w.pass(time.Hour - 2*time.Minute) // the deadline of all but 7
	if held := w.held(); held != nil {
		t.Errorf("tasks %v hold locks", held)
	}
	w.want(false, 7, false, ".vault/a")
	if held := w.held(); !slices.Equal(held, []int{7}) {
		t.Errorf("tasks %v hold locks, want 7", held)
	}
}

func TestPoliciesOfAWorkspace(t *testing.T) {
	w := newWorld(t, "")
	w.want(false, 1, true, "a")
	warnings, waits, err := w.take(2, true, "a/b", "c")
	if err != nil || waits || len(warnings) != 1 || !strings.Contains(warnings[0], refOf(1).ID) {
		t.Errorf("a second lock = %q, %t, %v, want a warning", warnings, waits, err)
	}
	w.must(w.write(2, "a/b", "x", workspace.Condition{}))
	w.must(w.SetPolicy(t.Context(), main, locks.Reject))
	if err := w.write(2, "a/b", "x", workspace.Condition{}); !problem.Is(err, problem.Conflict) {
		t.Errorf("Write() below two locks = %v", err)
	}
	for range 2 { // it did not join a queue
		if _, _, err := w.take(3, true, "c/d"); !problem.Is(err, problem.Conflict) || !strings.Contains(err.Error(), refOf(2).ID) {
			t.Errorf("a rejected task = %v", err)
		}
	}
	w.must(w.SetPolicy(t.Context(), main, locks.Queue))
	w.want(true, 3, true, "c/d")
	w.must(w.SetPolicy(t.Context(), main, locks.Reject))
	w.want(true, 3, false, "c/d") // a task that was accepted waits
	w.must(w.SetPolicy(t.Context(), main, locks.Warn))
	w.want(false, 3, false, "c/d")
	if held := w.held(); !slices.Equal(held, []int{1, 2, 3}) {
		t.Errorf("tasks %v hold locks", held)
	}
	if err := w.SetPolicy(t.Context(), main, "x"); !problem.Is(err, problem.Malformed) {
		t.Errorf("SetPolicy(x) = %v", err)
	}
	_, policies, err := w.List(t.Context(), main.Owner)
	if w.must(err); !maps.Equal(policies, map[string]locks.Policy{"main": locks.Warn}) {
		t.Errorf("policies are %v", policies)
	}
}
