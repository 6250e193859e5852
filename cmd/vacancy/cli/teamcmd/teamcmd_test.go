package teamcmd

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/teamapi"
	"github.com/vacancy-host/vacancy/shared/host/team"
)

func TestATaskNamesAFileOfTheWorkingDirectory(t *testing.T) {
	dir := t.TempDir()
	work := filepath.Join(dir, "work")
	for name, text := range map[string]string{
		"work/plan.md": "the plan", "work/docs/deep.md": "deep", "work/notes.txt": "notes", "work/dir.md/x": "x", "secret.md": "secret", "worker/other.md": "other",
		"work/large.md": strings.Repeat("x", maxFileBytes+1),
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(dir, "secret.md"), filepath.Join(work, "link.md")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(work)
	const same = "\x00"
	for task, want := range map[string]string{
		"plan.md": "the plan", "docs/deep.md": "deep", "docs/../plan.md": "the plan", filepath.Join(work, "plan.md"): "the plan", work + "/docs/../plan.md": "the plan",
		"large.md":  strings.Repeat("x", maxFileBytes),
		"notes.txt": same, "missing.md": same, "dir.md": same, "link.md": same, "../secret.md": same, filepath.Join(dir, "secret.md"): same,
		filepath.Join(dir, "worker", "other.md"): same, work + "/../secret.md": same, "read plan.md": same, "see\nplan.md": same, "\x00.md": same, "": same,
	} {
		if want == same {
			want = task
		}
		if got, err := readTask(task); got != want || err != nil {
			t.Errorf("taskText(%q) = %.40q, %v; want %.40q", task, got, err, want)
		}
	}
}

// fakeHost has one task, and answers each request with its next state.
type fakeHost struct {
	states   []team.Status
	requests []string
}

func (h *fakeHost) Call(_ context.Context, method, path string, _ http.Header, body []byte, into any) error {
	h.requests = append(h.requests, method+" "+path+" "+string(body))
	switch into := into.(type) {
	case *team.Started:
		*into = team.Started{TaskID: "t1", Status: "working", Warnings: []string{"budget: not used"}}
	case *teamapi.Task:
		into.Status, h.states = h.states[0], h.states[1:]
	}
	return nil
}

func TestRunFollowsATaskToItsEnd(t *testing.T) {
	status := func(state string) team.Status {
		return team.Status{TaskID: "t1", Status: state, Agent: "writer", Mode: "read-only"}
	}
	asking, wordless, failed, completed := status("input_required"), status("input_required"), status("failed"), status("completed")
	asking.Question, failed.Error, completed.Result = "which color?", "it is broken", &team.Result{Response: "it is blue\x1b"}
	for name, tt := range map[string]struct {
		states          []team.Status
		interactive     bool
		stdin           string
		json            bool
		out, errs, last string // last request
		fails           bool
	}{
		"completed":             {states: []team.Status{status("pending"), status("working"), completed}, out: "it is blue\\u001b\n", errs: "pending\nworking\ncompleted\n"},
		"failed":                {states: []team.Status{failed}, out: "task t1 is failed\n  agent       writer\n  mode        read-only\n  error       it is broken\n", fails: true},
		"failed as JSON":        {states: []team.Status{failed}, json: true, out: `{"taskId":"t1","status":"failed","agent":"writer","model":null,"mode":"read-only","error":"it is broken"}` + "\n", fails: true},
		"cancelled":             {states: []team.Status{status("cancelled")}, out: "task t1 is cancelled\n  agent       writer\n  mode        read-only\n", fails: true},
		"a question":            {states: []team.Status{asking}, out: "question    which color?", errs: "to answer the question: vacancy task answer t1 TEXT\n"},
		"a question of no text": {states: []team.Status{wordless}, out: "task t1 is input_required\n", errs: "vacancy task answer t1 TEXT\n"},
		"an answer":             {states: []team.Status{asking, status("working"), completed}, interactive: true, stdin: "blue\n", out: "it is blue", errs: "which color?\n>", last: `GET /v1/tasks/t1?wait=20 `},
		"no answer":             {states: []team.Status{asking}, interactive: true, out: "question    which color?", errs: "vacancy task answer t1 TEXT\n"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // a host that does not wait is asked again after two seconds
				var out, errs bytes.Buffer
				a := &kit.App{In: bufio.NewReader(strings.NewReader(tt.stdin)), Out: &out, Err: &errs, JSON: tt.json}
				h := &fakeHost{states: tt.states}
				f := runFlags{follow: true, interactive: tt.interactive, task: teamapi.NewTask{Agent: "writer", Task: "paint"}}
				err := f.run(t.Context(), a, h)
				if reported := new(kit.ReportedError); errors.As(err, &reported) != tt.fails || err != nil && !tt.fails {
					t.Errorf("run = %v", err)
				}
				if !strings.Contains(out.String(), tt.out) || !strings.Contains(errs.String(), tt.errs) || tt.json != (errs.Len() == 0) {
					t.Errorf("run printed %q and %q, want %q and %q", out.String(), errs.String(), tt.out, tt.errs)
				}
				if h.requests[0] != `POST /v1/tasks {"agent":"writer","task":"paint"}` || len(h.states) > 0 || !strings.HasPrefix(h.requests[len(h.requests)-1], tt.last) {
					t.Errorf("requests = %q", h.requests)
				}
				if tt.stdin != "" && h.requests[2] != `POST /v1/tasks/t1/answer {"text":"blue"}` {
					t.Errorf("the answer = %q", h.requests)
				}
			})
		})
	}
}

func TestTheTaskOfRun(t *testing.T) {
	plan := filepath.Join(t.TempDir(), "plan.md")
	if err := os.WriteFile(plan, []byte("\none\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		flags runFlags
		want  string
	}{
		{runFlags{goal: "paint"}, "paint"},
		{runFlags{planFile: plan}, "# Plan\n\none"},
		{runFlags{goal: "paint", planFile: plan, contextFile: plan, budget: "0.5"}, "paint\n\n# Plan\n\none\n\n# Context\n\none"},
	} {
		if err := tt.flags.fillTask(); err != nil || tt.flags.task.Task != tt.want || tt.flags.budget != "" && *tt.flags.task.Budget != 500_000 {
			t.Errorf("complete() = %+v, %v; want %q", tt.flags.task, err, tt.want)
		}
	}
	for _, f := range []runFlags{{}, {contextFile: plan}, {goal: "x", budget: "much"}, {planFile: plan + "x"}} {
		if err := f.fillTask(); err == nil {
			t.Errorf("complete() of %+v = no error", f)
		}
	}
}
