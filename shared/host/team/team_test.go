package team

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
)

// statusOf is the status of a task that took a second, in a state with a text.
func statusOf(s task.State, text string) Status {
	began := time.Unix(1_800_000_000, 0)
	d := task.DispatchedTask{StartedAt: began, Dispatch: task.Dispatch{Agent: "writer", Mode: "read-write"}}
	d.Task.Status = task.Status{State: s, Time: began.Add(time.Second), Message: &task.Message{Parts: []task.Part{{Kind: task.Text, Text: text}}}}
	return newStatus(&d)
}

func TestTheResultOfATask(t *testing.T) {
	long := strings.Repeat("é", maxSummaryRunes+1)
	for text, summary := range map[string]string{"short": "short", long[:2*maxSummaryRunes]: long[:2*maxSummaryRunes], long: long[:2*maxSummaryRunes] + "..."} {
		r := statusOf(task.Completed, text).Result
		if r.Summary != summary || r.Response != text || r.Duration != 1 || r.Model != "(default)" {
			t.Errorf("%d bytes: %+v", len(text), r)
		}
	}
	r := statusOf(task.Completed, "wrote src/b.rs, .vault/a.md, /etc/x.md and src/b.rs").Result
	if !slices.Equal(r.Artifacts, []string{".vault/a.md", "/etc/x.md", "src/b.rs"}) || !slices.Equal(r.Unverified, []string{"/etc/x.md"}) {
		t.Errorf("artifacts %q, unverified %q", r.Artifacts, r.Unverified)
	}
	if r := statusOf(task.Completed, "").Result; r.Artifacts == nil {
		t.Error("artifacts are null in JSON")
	}
}

func TestEachStateHasItsPart(t *testing.T) {
	for state, want := range map[task.State]Status{
		task.Submitted:     {Status: "pending"},
		task.Working:       {Status: "working"},
		task.InputRequired: {Status: "input_required", Question: "text"},
		task.AuthRequired:  {Status: "input_required", Question: "text"},
		task.Failed:        {Status: "failed", Error: "text"},
		task.Rejected:      {Status: "failed", Error: "text"},
		task.Canceled:      {Status: "cancelled"},
	} {
		got := statusOf(state, "text")
		if got.Status != want.Status || got.Question != want.Question || got.Error != want.Error || got.Result != nil {
			t.Errorf("%s = %+v, want %+v", state, got, want)
		}
	}
	if s := statusOf(task.InputRequired, " "); s.Question == "" {
		t.Error("a task that waits has no question")
	}
}

func TestALongResponseIsShortened(t *testing.T) {
	for _, tt := range []struct {
		text       string
		size, want int
		path       string
	}{{"ééé", 6, 6, ""}, {"ééé", 5, 4, "/p"}, {"ééé", 0, 0, "/p"}, {"", 0, 0, ""}} {
		s := statusOf(task.Completed, tt.text)
		s.Result.Path = "/p"
		s.TruncateResponse(tt.size)
		if len(s.Result.Response) != tt.want || s.Result.Path != tt.path || !utf8.ValidString(s.Result.Response) {
			t.Errorf("%q to %d bytes = %q at %q", tt.text, tt.size, s.Result.Response, s.Result.Path)
		}
	}
	s := statusOf(task.Failed, "x")
	s.TruncateResponse(0) // has no result
}
