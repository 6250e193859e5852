//go:build unix

package kills

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/storetest"
)

// newCrowded is a host whose vacant has one turn at a time, with a turn that waits.
func newCrowded(t *testing.T) *queued {
	t.Helper()
	q := newQueued(t)
	q.env = []string{"VACANCY_TURNS=1"}
	if r, err := q.send(q.run(agentFunction, nil)); err != nil || r.Status != http.StatusOK {
		t.Fatalf("send = %d %s, %v", r.Status, r.Body, err)
	}
	q.count(1)
	return q
}

// count sets the number of the vacant's turns that run, as other workers would.
func (q *queued) count(n int64) {
	q.t.Helper()
	s := q.Store(q.Endpoint)
	k := task.RunningCountDocs.Key("vacant "+q.caller.To.String(), time.Now().UTC().Format(time.DateOnly))
	_, d, err := task.RunningCountDocs.Get(q.t.Context(), s, k)
	if err == nil {
		err = s.Commit(q.t.Context(), store.Put{Key: k, IfVersion: d.Version, WriteID: store.WriteID{byte(n + 1)}, Number: n})
	}
	if err != nil {
		q.t.Fatal(err)
	}
}

// A worker that dies with a turn that has no room leaves the turn waiting.
func TestAWorkerThatDiesLosesNoTurnWithoutRoom(t *testing.T) {
	q := newCrowded(t)
	w := q.run(workerFunction, nil)
	if err := q.deliver(w, "tasks"); err != nil {
		t.Fatal(err)
	}
	trace := w.restart(nil)
	t.Logf("worker: %s", strings.Join(trace, ", "))
	if !slices.Contains(trace, "Hide tasks") || len(q.Queues.Waiting("tasks")) != 1 {
		t.Fatal("worker does not let the message come again")
	}
	q.count(0)
	q.recovers(task.Completed)
	for i, at := range places(trace) {
		if !storetest.InSample(i) {
			continue
		}
		t.Run(at.String(), func(t *testing.T) {
			t.Parallel()
			q := newCrowded(t)
			if err := q.deliver(q.run(workerFunction, &at), "tasks"); err == nil && !(at.After && strings.HasPrefix(at.Call, write)) {
				t.Fatal("the worker lives, want it dead")
			}
			q.count(0)
			q.recovers(task.Completed)
		})
	}
}
