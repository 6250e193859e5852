package task_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/store"
)

const account = "acct"

// ofAccount is a message whose id is its account's own, as a program sent it that named the owner so.
func (w *world) ofAccount(owner call.Owner, context string) task.Turn {
	turn := w.turn("hi")
	turn.Owner, turn.ListOwner, turn.Idempotent = owner, owner, true
	turn.ID = task.MessageTaskID(turn.Vacant, owner, "m1")
	if turn.Message.Context = context; context == "" {
		turn.Message.Context = "c-" + turn.ID
	}
	return turn
}

// upgrade upgrades the tasks of the account, and fails at each commit once.
func (w *world) upgrade() {
	w.t.Helper()
	killed := errors.New("killed")
	for n := 0; ; n++ {
		done := 0
		w.store.set(func([]store.Write) error {
			if done++; done > n {
				return killed
			}
			return nil
		})
		err := w.a.UpgradeTasks(w.t.Context(), w.vacant.ID(), account)
		w.store.set(nil)
		if err == nil {
			return
		}
		if !errors.Is(err, killed) {
			w.t.Fatal(err)
		}
	}
}

func TestAMessageOfAnEarlierProgramDoesNotRunAgain(t *testing.T) {
	former, owner := call.LegacyAccountOwner(account), call.AccountOwner(account, "")
	for _, context := range []string{"", "mine"} {
		w := newWorld(t, says("hello"))
		turn := w.ofAccount(former, context)
		before, err := w.a.Run(t.Context(), turn)
		if err != nil {
			t.Fatal(err)
		}
		w.upgrade()
		today := turn.Ref
		today.Owner = owner
		if diff := cmp.Diff(before, w.get(w.b, today)); diff != "" {
			t.Errorf("the task under its id (-want +got):\n%s", diff)
		}
		if _, err := w.b.Get(t.Context(), turn.Ref); !errors.Is(err, task.ErrNotFound) {
			t.Errorf("the task of the former owner: %v", err)
		}
		page, err := list(t.Context(), w.b, task.ListRequest{Ref: today, ListOwner: owner, PageSize: 10})
		if err != nil || page.Total != 1 || page.Tasks[0].ID != turn.ID {
			t.Errorf("List() = %d tasks, %v, want the one", page.Total, err)
		}
		again, err := w.b.Run(t.Context(), w.ofAccount(owner, context))
		if err != nil || w.ran.Load() != 1 || summary(again) != summary(before) || again.ID != before.ID {
			t.Errorf("the repeated message = %s of %s, %v, after %d turns", summary(again), again.ID, err, w.ran.Load())
		}
		other := w.ofAccount(owner, context)
		other.Message.Parts = []task.Part{{Kind: task.Text, Text: "something else"}}
		if _, err := w.b.Run(t.Context(), other); err == nil || w.ran.Load() != 1 {
			t.Errorf("another message with the id: %v", err)
		}
	}
}

func TestAQueuedTurnOfAnEarlierProgramRunsOnce(t *testing.T) {
	former, owner := call.LegacyAccountOwner(account), call.AccountOwner(account, "")
	w := newWorld(t, says("hello"))
	turn := w.ofAccount(former, "")
	if _, err := w.a.Enqueue(t.Context(), turn); err != nil {
		t.Fatal(err)
	}
	w.upgrade()
	repeat := func() task.Task {
		again, err := w.b.Run(t.Context(), w.ofAccount(owner, ""))
		if err != nil {
			t.Fatal(err)
		}
		return again
	}
	if got := repeat(); got.Status.State != task.Failed || !strings.Contains(summary(got), turn.ID) || w.ran.Load() != 0 {
		t.Errorf("repeated while it waits: %s after %d turns", summary(got), w.ran.Load())
	}
	message := task.UpgradeQueueMessage(<-w.queue.sent, []string{"other", account})
	if err := w.b.RunQueued(t.Context(), message); err != nil {
		t.Fatal(err)
	}
	today := turn.Ref
	today.Owner = owner
	if got := w.get(w.b, today); summary(got) != `completed response="hello" says "hello"` || w.ran.Load() != 1 {
		t.Errorf("the queued task = %s after %d turns", summary(got), w.ran.Load())
	}
	repeat()
	w.clock.advance(call.MaxQueueDuration + 1)
	if repeat(); w.ran.Load() != 1 {
		t.Errorf("%d turns ran, want 1", w.ran.Load())
	}
	if got := w.get(w.b, today); got.Status.State != task.Completed {
		t.Errorf("the task = %s, want its answer", summary(got))
	}
}

// A stage's queue cannot be rewritten as the file of a server can.
func TestAMessageThatStaysInAQueueDoesNotRun(t *testing.T) {
	w := newWorld(t, says("hello"))
	turn := w.ofAccount(call.LegacyAccountOwner(account), "")
	if _, err := w.a.Enqueue(t.Context(), turn); err != nil {
		t.Fatal(err)
	}
	w.upgrade()
	message := <-w.queue.sent
	if err := w.b.RunQueued(t.Context(), message); !errors.Is(err, task.ErrRetryLater) {
		t.Errorf("RunQueued() = %v, want ErrAgain: the same message may be ahead of its task's document", err)
	}
	w.clock.advance(call.MaxQueueDuration + 1)
	turn.Owner = call.AccountOwner(account, "")
	got := w.get(w.b, turn.Ref)
	if got.Status.State != task.Failed || w.ran.Load() != 0 {
		t.Errorf("after %v: %s after %d turns, want a failure and none", call.MaxQueueDuration, summary(got), w.ran.Load())
	}
	if err := w.b.RunQueued(t.Context(), message); !errors.Is(err, task.ErrRetryLater) || w.ran.Load() != 0 {
		t.Errorf("later: RunQueued() = %v after %d turns", err, w.ran.Load())
	}
}

func TestPushConfigurationsGoWithTheirTask(t *testing.T) {
	w := newWorld(t, says("hello"))
	turn := w.ofAccount(call.LegacyAccountOwner(account), "")
	turn.Push = &task.PushConfig{ID: "p", URL: "https://b.example", Token: "secret"}
	if _, err := w.a.Run(t.Context(), turn); err != nil {
		t.Fatal(err)
	}
	before, err := w.b.ListPushConfigs(t.Context(), turn.Ref)
	if err != nil {
		t.Fatal(err)
	}
	w.upgrade()
	turn.Owner = call.AccountOwner(account, "")
	after, err := w.b.ListPushConfigs(t.Context(), turn.Ref)
	if diff := cmp.Diff(before, after); diff != "" || err != nil || len(after) != 1 {
		t.Errorf("ListPushConfigs() = %v (-want +got):\n%s", err, diff)
	}
}
