//go:build unix

package kills

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store/blob"
)

// blobs wraps the storage of files. Each call is a step.
func (v *victim) blobs(inner blob.Blobs) blob.Blobs { return &mortalBlobs{inner, v} }

type mortalBlobs struct {
	blob.Blobs
	v *victim
}

func (m *mortalBlobs) Get(ctx context.Context, key string) (o blob.Object, err error) {
	err = m.v.step("Get blob", func() (err error) {
		o, err = m.Blobs.Get(ctx, key)
		return err
	})
	return o, err
}

func (m *mortalBlobs) Head(ctx context.Context, key string) (i blob.Info, err error) {
	err = m.v.step("Head blob", func() (err error) {
		i, err = m.Blobs.Head(ctx, key)
		return err
	})
	return i, err
}

func (m *mortalBlobs) Put(ctx context.Context, key string, body io.ReadSeeker, size int64, cond blob.Condition) (tag string, err error) {
	err = m.v.step(putBlob, func() (err error) {
		tag, err = m.Blobs.Put(ctx, key, body, size, cond)
		return err
	})
	return tag, err
}

func (m *mortalBlobs) Delete(ctx context.Context, key string) error {
	return m.v.step(deleteBlob, func() error { return m.Blobs.Delete(ctx, key) })
}

func (m *mortalBlobs) List(ctx context.Context, prefix string, n int, cursor string) (page []blob.Info, next string, err error) {
	err = m.v.step("List blobs", func() (err error) {
		page, next, err = m.Blobs.List(ctx, prefix, n, cursor)
		return err
	})
	return page, next, err
}

// putBlob and deleteBlob are the calls that change blobs.
const (
	putBlob    = "Put blob"
	deleteBlob = "Delete blob"
)

// Files of the operator.
const (
	operatorWorkspace = "/v1/admin/workspaces/main"
	report            = "docs/report.md"
	notes             = "notes.md"
)

// put is a request that writes a file. It creates the file, or replaces the file whose text is before.
func put(path, before, text string) request {
	r := request{
		control: true, method: http.MethodPut, path: operatorWorkspace + "/files/" + path,
		body: []byte(text), header: http.Header{"Content-Type": {"application/octet-stream"}},
	}
	if before != "" {
		r.header.Set("If-Match", fmt.Sprintf(`"%x"`, sha256.Sum256([]byte(before))))
	}
	return r
}

func aNewFile(*stage) request { return put(report, "", "one") }

func aReplacement(*stage) request { return put(report, "one", "two") }

// isWritten writes the file that is replaced.
func isWritten(s *stage, p process) {
	s.t.Helper()
	s.wantStatus(p, put(report, "", "one"), http.StatusCreated)
}

func (s *stage) wantStatus(p process, r request, status int) response {
	s.t.Helper()
	got, err := p.do(r)
	if err != nil || got.status != status {
		s.t.Fatalf("%s %s = %d %s, %v; want %d", r.method, r.path, got.status, got.body, err, status)
	}
	return got
}

// textOf returns the text of a file, or "" if there is none.
func (s *stage) textOf(p process, path string) string {
	s.t.Helper()
	got := s.get(p, operatorWorkspace+"/files/"+path)
	switch got.status {
	case http.StatusOK:
		return string(got.body)
	case http.StatusNotFound:
		return ""
	}
	s.t.Fatalf("read %s: %d %s", path, got.status, got.body)
	return ""
}

func (s *stage) wantText(p process, path, want string) {
	s.t.Helper()
	if got := s.textOf(p, path); got != want {
		s.t.Fatalf("%s has %q, want %q", path, got, want)
	}
}

// writeAgain finds the text before a write or the text after it, and the write again changes nothing that it has written.
func writeAgain(before, after string) func(*stage, process, request, *response, fate) {
	return func(s *stage, p process, r request, _ *response, then fate) {
		s.t.Helper()
		s.wantText(p, report, map[fate]string{fresh: before, done: after}[then])
		want := map[fate]int{fresh: http.StatusOK, done: http.StatusPreconditionFailed}[then]
		if before == "" && then == fresh {
			want = http.StatusCreated
		}
		s.wantStatus(p, r, want)
		s.wantText(p, report, after)
		s.wantStatus(p, put(report, after, "next"), http.StatusOK)
		s.wantText(p, report, "next")
	}
}

func removeWorkspace(*stage) request {
	return request{control: true, method: http.MethodDelete, path: operatorWorkspace}
}

// removeWorkspaceAgain finds the workspace complete or not at all, and another one can have its name.
func removeWorkspaceAgain(s *stage, p process, r request, _ *response, then fate) {
	s.t.Helper()
	s.wantText(p, report, map[fate]string{fresh: "one"}[then])
	s.wantStatus(p, r, map[fate]int{fresh: http.StatusNoContent, done: http.StatusNotFound}[then])
	s.wantText(p, report, "")
	isWritten(s, p)
	s.wantText(p, report, "one")
}

// filing makes two agents of the operator whose tasks lock the notes: clerk adds its message to them, and shy asks first.
func filing(s *stage) {
	s.t.Helper()
	server, _, done := s.target.aside(s.t, s.target.now)
	defer done()
	s.must(server.Texts.Warm(s.ctx))
	for name, script := range map[string]string{
		"clerk": `call: Edit {"file_path": "` + notes + `", "old_string": "notes:", "new_string": "notes: {input}"}` + "\n---\ntext: noted",
		"shy":   `call: ask_user {"question": "may I?"}`,
	} {
		agent := &definition.Agent{Provider: substrate.KindMock, System: "```mock\n" + script + "\n```", LockPaths: []string{notes}, Ask: name == "shy"}
		_, err := server.Vacants.Create(s.ctx, vacants.CreateSpec{Name: name, Capability: "files", Agent: agent})
		s.must(err)
	}
}

// noted writes the notes, and has locks enforced.
func noted(s *stage, p process) {
	s.t.Helper()
	s.wantStatus(p, put(notes, "", "notes:"), http.StatusCreated)
	s.wantStatus(p, request{control: true, method: http.MethodPut, path: operatorTasks + "/locks", body: []byte(`{"workspace":"main","policy":"queue"}`)}, http.StatusOK)
}

// holds has a task ask its question, which holds the lock of the notes then.
func holds(s *stage, p process) {
	s.t.Helper()
	noted(s, p)
	got, err := p.do(dispatchTo("shy", "x"))
	s.must(err)
	s.team.task = s.taskOf(got)
	p.(*dev).order(order{Await: "Commit queue 2"})
	if state := s.stateOf(p, s.operated("", "")); state != "input_required" {
		s.t.Fatalf("the task is %s", state)
	}
}

// dispatchTo is a request that dispatches a task to an agent of the operator. Its text is its idempotency key.
func dispatchTo(agent, text string) request {
	return request{control: true, path: operatorTasks, body: []byte(`{"agent":"` + agent + `","task":"` + text + `"}`), header: http.Header{"Idempotency-Key": {text}}}
}

func aTaskThatWrites(*stage) request { return dispatchTo("clerk", "one") }

// endOfTask waits for the end of a task, and returns its state.
func (s *stage) endOfTask(p process, id string) string {
	s.t.Helper()
	return s.endOf(p, request{control: true, path: operatorTasks + "/" + id})
}

// lockers returns the tasks that hold locks.
func (s *stage) lockers(p process) (ids []string) {
	s.t.Helper()
	for _, l := range decode[struct{ Locks []struct{ TaskID string } }](s.t, s.get(p, operatorTasks+"/locks")).Locks {
		ids = append(ids, l.TaskID)
	}
	return ids
}

func (s *stage) wantLockers(p process, want ...string) {
	s.t.Helper()
	if got := s.lockers(p); !slices.Equal(got, want) {
		s.t.Fatalf("the tasks %q hold locks, want %q", got, want)
	}
}

// fileTaskAgain dispatches a task again, when the lease of a turn that had begun is over: it is one task, which has
// written once at most. It holds no lock, so the next one writes too.
func fileTaskAgain(s *stage, p process, r request, first *response, then fate) {
	s.t.Helper()
	leaseEnds(p, then)
	got, err := p.do(r)
	s.must(err)
	id := s.taskOf(got)
	if first != nil && s.taskOf(*first) != id {
		s.t.Errorf("the same request dispatched %s and %s", s.taskOf(*first), id)
	}
	state := s.endOfTask(p, id)
	s.wantEnd(state, then)
	text := s.textOf(p, notes)
	if text != "notes: one" && (state == "completed" || text != "notes:") {
		s.t.Errorf("the task is %s, and its file has %q", state, text)
	}
	s.wantLockers(p)
	s.writesNext(p, text)
}

// writesNext has another task write.
func (s *stage) writesNext(p process, before string) {
	s.t.Helper()
	got, err := p.do(dispatchTo("clerk", "two"))
	s.must(err)
	if state := s.endOfTask(p, s.taskOf(got)); state != "completed" {
		s.t.Fatalf("the next task is %s", state)
	}
	s.wantText(p, notes, strings.Replace(before, "notes:", "notes: two", 1))
	s.wantLockers(p)
}

// cancelHolderAgain cancels the task that holds a lock again. The lock ends with it, and another task that waits for the
// lock runs.
func cancelHolderAgain(s *stage, p process, r request, _ *response, then fate) {
	s.t.Helper()
	if s.wantLockers(p, map[fate][]string{fresh: {s.team.task}}[then]...); then == fresh {
		got, err := p.do(dispatchTo("clerk", "two"))
		s.must(err)
		if state := s.stateOf(p, request{control: true, path: operatorTasks + "/" + s.taskOf(got)}); state != "pending" {
			s.t.Fatalf("the task behind the lock is %s", state)
		}
	}
	cancelTaskAgain("input_required")(s, p, r, nil, then)
	s.writesNext(p, "notes:")
}

// waitAgain dispatches a task that waits for a lock again, and ends the task that holds the lock.
func waitAgain(s *stage, p process, r request, _ *response, then fate) {
	s.t.Helper()
	got, err := p.do(r)
	s.must(err)
	id := s.taskOf(got)
	s.wantText(p, notes, "notes:")
	s.wantLockers(p, s.team.task)
	s.wantStatus(p, s.operated("/cancel", ""), http.StatusOK)
	s.wantEnd(s.endOfTask(p, id), then)
	s.wantText(p, notes, "notes: one")
	s.wantLockers(p)
	s.writesNext(p, "notes: one")
}
