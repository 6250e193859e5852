package serve_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/due"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/blob"
	"github.com/vacancy-host/vacancy/shared/store/blob/files"
	"github.com/vacancy-host/vacancy/shared/store/memory"
)

// job is a job of a server by its name.
func job(t *testing.T, h *serve.Server, p serve.JobParts, name string) serve.Job {
	t.Helper()
	for _, j := range h.Jobs(p) {
		if j.Name == name {
			return j
		}
	}
	t.Fatalf("there is no job %s", name)
	return serve.Job{}
}

// noRows is a feed without rows, or one that fails.
type noRows struct {
	store.Feed
	failing error
}

func (f *noRows) Partitions(context.Context) ([]store.Partition, error) { return nil, f.failing }

// charging is a host with accounts and a feed.
func charging(t *testing.T, feed store.Feed) *serve.Server {
	t.Helper()
	return httpServer(t, memory.New(), "http://127.0.0.1:1", quiet, func(c *serve.Config) { c.Feed, c.HoldsIdentity, c.HasAccounts = feed, true, true })
}

// Every job runs on a local host, or in a function of AWS that names it; and functions name no
// other.
func TestEveryJobRunsSomewhereAndFunctionsNameJobs(t *testing.T) {
	h := httpServer(t, memory.New(), "http://127.0.0.1:1", quiet, func(c *serve.Config) {
		c.Feed, c.HoldsIdentity, c.HasAccounts = &noRows{}, true, true
		c.Blobs = func() (blob.Blobs, error) { return files.Open(t.TempDir(), time.Now()) }
	})
	l, err := h.OpenLog(nil)
	must(t, err)
	local, names := map[string]bool{}, []string{}
	for _, j := range h.Jobs(serve.JobParts{
		Log: l, Bookings: func(context.Context) (due.SweepResult, error) { return due.SweepResult{}, nil },
		Exports: func() (blob.Blobs, error) { return files.Open(t.TempDir(), time.Now()) }, Expire: func(context.Context, int) (int, error) { return 0, nil },
	}) {
		if slices.Contains(names, j.Name) {
			t.Errorf("two jobs are named %s", j.Name)
		}
		names, local[j.Name] = append(names, j.Name), j.Every > 0
		if _, err := j.Run(t.Context()); err != nil {
			t.Errorf("%s of a new host = %v", j.Name, err)
		}
	}
	named := map[string]bool{}
	for _, f := range functions.All() {
		if f.Jobs != "" && !f.IsScheduled() {
			t.Errorf("%s names jobs %q, and no schedule starts it", f.Name, f.Jobs)
		}
		for _, name := range strings.Fields(f.Jobs) {
			if named[name] = true; !slices.Contains(names, name) {
				t.Errorf("%s names job %s, which does not exist", f.Name, name)
			}
		}
	}
	for _, name := range names {
		if !local[name] && !named[name] {
			t.Errorf("job %s runs nowhere", name)
		}
	}
}

func TestAJobWithoutItsPartIsNotAmongTheJobs(t *testing.T) {
	var names []string
	for _, j := range httpServer(t, memory.New(), "http://127.0.0.1:1", quiet).Jobs(serve.JobParts{}) {
		names = append(names, j.Name)
	}
	if diff := cmp.Diff([]string{"texts", "nextday", "endpoints"}, names); diff != "" {
		t.Errorf("jobs of a host without accounts (-want +got):\n%s", diff)
	}
}

// A job fails as long as it fails, and is tried again each time. One that runs each second
// logs a failure once, and again when it has changed or was over.
func TestAJobGoesOnAfterAFailure(t *testing.T) {
	for _, tt := range []struct {
		every time.Duration
		want  string
	}{
		{time.Minute, "a a b a "},
		{time.Second, "a b a "},
	} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			ctx, cancel := context.WithCancel(t.Context())
			outcomes := []string{"a", "a", "b", "", "", "a"}
			runs, begun := 0, time.Now()
			serve.Job{Name: "trial", Every: tt.every, Run: func(context.Context) (serve.JobResult, error) {
				if got := time.Since(begun); got != time.Duration(runs)*tt.every {
					t.Errorf("run %d after %s", runs, got)
				}
				if runs == len(outcomes) {
					cancel()
					return serve.JobResult{}, ctx.Err()
				}
				says := outcomes[runs]
				if runs++; says != "" {
					return serve.JobResult{}, errors.New(says)
				}
				return serve.JobResult{}, nil
			}}.Loop(ctx, slog.New(slog.NewTextHandler(&log, nil)))
			got := ""
			for line := range strings.Lines(log.String()) {
				if !strings.Contains(line, `msg="a job failed" job=trial cause=`) {
					t.Errorf("a line of the log: %s", line)
				}
				got += line[strings.LastIndex(line, "=")+1:len(line)-1] + " "
			}
			if got != tt.want {
				t.Errorf("every %s the log has failures %q, want %q", tt.every, got, tt.want)
			}
		})
	}
}

func TestAJobWithMoreToDoRunsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		begun, runs := time.Now(), 0
		serve.Job{Every: time.Hour, Run: func(context.Context) (serve.JobResult, error) {
			if runs++; runs == 4 {
				cancel()
			}
			return serve.JobResult{RunAgain: runs < 3, Message: fmt.Sprint("run ", runs), Counts: []slog.Attr{slog.Int("n", runs)}}, nil
		}}.Loop(ctx, slog.New(slog.NewTextHandler(&log, nil)))
		if got := time.Since(begun); runs != 4 || got != time.Hour {
			t.Errorf("%d runs in %s, want three at once and one an hour later", runs, got)
		}
		if got := log.String(); strings.Count(got, "\n") != 4 || !strings.Contains(got, `level=INFO msg="run 2" n=2`) {
			t.Errorf("the log has %s", got)
		}
	})
}

// A day is exported only after its rows are folded: an export never changes.
func TestNothingIsExportedWhileUsageIsNotFolded(t *testing.T) {
	feed := &noRows{}
	h := charging(t, feed)
	opened := 0
	run := job(t, h, serve.JobParts{Exports: func() (blob.Blobs, error) {
		opened++
		return files.Open(t.TempDir(), time.Now())
	}}, "exports").Run
	if _, err := run(t.Context()); err != nil || opened != 1 {
		t.Fatalf("exports = %v, %d times", err, opened)
	}
	feed.failing = errors.New("no feed")
	if _, err := run(t.Context()); err == nil || opened != 1 {
		t.Errorf("exports without a feed = %v, and the files were opened %d times, want once", err, opened)
	}
}
