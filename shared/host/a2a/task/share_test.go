package task_test

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Accounts come before callers without one, whose addresses have two turns, at any vacant.
func TestEveryTurnHasItsShares(t *testing.T) {
	v := task.Ref{Vacant: must(identity.NewKey(rand.Reader)).ID()}
	vacant, account := "vacant "+v.Vacant.String(), task.SenderOf(call.AccountOwner("acme", ""), "203.0.113.7")
	guest := task.SenderOf(call.GuestOwner, "203.0.113.7")
	for _, sender := range []task.Sender{guest, account} {
		for turns, want := range map[int][3]int{1: {1, 1, 1}, 2: {1, 1, 1}, 6: {1, 1, 3}, 16: {4, 2, 8}, 64: {16, 2, 32}} {
			shares := map[string]int{vacant: want[0], "sender " + string(sender): want[1], "strangers": want[2]}
			if sender == account {
				shares = map[string]int{vacant: want[0], "sender " + string(sender): want[0]}
			}
			got := map[string]int{}
			for _, s := range task.Shares(v, sender, sender == guest, turns) {
				got[s.Key] = s.Max
			}
			if diff := cmp.Diff(shares, got); diff != "" {
				t.Errorf("%s, %d turns (-want +got):\n%s", sender, turns, diff)
			}
		}
	}
}

// worker is another engine over the store that counts the turns, of which so many may run.
func (w *world) worker(turns int) *task.Engine {
	c := w.b.Config
	c.MaxRunningTurns = turns
	e := task.New(c)
	w.t.Cleanup(e.Wait)
	return e
}

// running is the number of turns that count for a share on the clock's day.
func (w *world) running(share string) int64 {
	w.t.Helper()
	n, _, err := task.RunningCountDocs.Get(w.t.Context(), w.store, task.RunningCountDocs.Key(share, w.clock.now().UTC().Format(time.DateOnly)))
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

// noon moves the clock to the noon of the next day.
func (w *world) noon() {
	now := w.clock.now().UTC()
	w.clock.advance(now.Truncate(24 * time.Hour).Add(36 * time.Hour).Sub(now))
}

// refused returns the error of Work for a message that has no room, while other turns run.
func (w *world) refused(e *task.Engine, message string) error {
	w.t.Helper()
	refusal := make(chan error, 1)
	go func() { refusal <- e.RunQueued(context.Background(), message) }()
	return await.Receive(w.t, "a message without room is refused", refusal)
}

// Workers that meet at a vacant run as many turns as its share has. Turns that wait run once there is
// room.
func TestWorkersCountTheTurnsThatRun(t *testing.T) {
	const most, all = 3, 12
	release := make(chan bool)
	var now, peak, full atomic.Int64
	w := newWorld(t, agent(func(_ context.Context, say func(string) bool) error {
		n := now.Add(1)
		defer now.Add(-1)
		for was := peak.Load(); n > was && !peak.CompareAndSwap(was, n); was = peak.Load() {
		}
		<-release
		say("done")
		return nil
	}))
	w.noon()
	for n := range all {
		turn := w.turn("hi")
		turn.ClientAddress = string(rune('a' + n))
		if _, err := w.a.Enqueue(t.Context(), turn); err != nil {
			t.Fatal(err)
		}
	}
	engines := []*task.Engine{w.worker(4 * most), w.worker(4 * most)}
	var running sync.WaitGroup
	ended := make(chan bool)
	running.Go(func() {
		for n := 0; ; n++ {
			select {
			case m := <-w.queue.sent:
				running.Go(func() {
					if err := engines[n%2].RunQueued(context.Background(), m); errors.Is(err, task.ErrFull) {
						full.Add(1)
						time.AfterFunc(time.Millisecond, func() { w.queue.sent <- m })
					} else if err != nil {
						t.Errorf("RunQueued() = %v", err)
					}
				})
			case <-ended:
				return
			}
		}
	})
	share := "vacant " + w.vacant.ID().String()
	await.Until(t, "the other turns wait", func() bool { return full.Load() >= all-most && now.Load() == most })
	if n := w.running(share); n != most {
		t.Errorf("%d turns are counted, want %d", n, most)
	}
	close(release)
	await.Until(t, "all turns ran", func() bool { return w.ran.Load() == all && now.Load() == 0 })
	close(ended)
	running.Wait()
	if n := w.running(share); n != 0 || peak.Load() != most || w.ran.Load() != all {
		t.Errorf("in the end %d turns are counted and %d ran, at most %d at once; want none, %d and %d", n, w.ran.Load(), peak.Load(), all, most)
	}
}

// A share that has no room keeps the room of the others.
func TestATurnCountsForAllOfItsSharesOrNone(t *testing.T) {
	release := make(chan bool)
	w := newWorld(t, agent(func(_ context.Context, say func(string) bool) error { <-release; say("done"); return nil }))
	w.noon()
	e := w.worker(16) // of which an address has two
	var messages []string
	for range 3 {
		turn := w.turn("hi")
		turn.ClientAddress = "203.0.113.7"
		if _, err := w.a.Enqueue(t.Context(), turn); err != nil {
			t.Fatal(err)
		}
		messages = append(messages, await.Receive(t, "a message is queued", w.queue.sent))
	}
	var running sync.WaitGroup
	for _, m := range messages[:2] {
		running.Go(func() {
			if err := e.RunQueued(context.Background(), m); err != nil {
				t.Errorf("RunQueued() = %v", err)
			}
		})
	}
	await.Until(t, "two turns run", func() bool { return w.ran.Load() == 2 })
	if err := w.refused(e, messages[2]); !errors.Is(err, task.ErrFull) {
		t.Errorf("RunQueued() = %v, want the share full", err)
	}
	for _, share := range []string{"vacant " + w.vacant.ID().String(), "strangers"} {
		if n := w.running(share); n != 2 {
			t.Errorf("%d turns are counted in %s, want the two that run", n, share)
		}
	}
	close(release)
	running.Wait()
	if err := e.RunQueued(t.Context(), messages[2]); err != nil || w.ran.Load() != 3 {
		t.Errorf("when there is room, RunQueued() = %v, %d turns ran", err, w.ran.Load())
	}
}

// A turn that found no room in its time fails, and says so. Its message is done with.
func TestATurnWithoutRoomFailsInTheEnd(t *testing.T) {
	w := newWorld(t, agent(func(_ context.Context, say func(string) bool) error { say("done"); return nil }))
	w.noon()
	turn := w.turn("hi")
	if _, err := w.a.Enqueue(t.Context(), turn); err != nil {
		t.Fatal(err)
	}
	e, message := w.worker(1), await.Receive(t, "a message is queued", w.queue.sent)
	share := task.RunningCountDocs.Key("strangers", w.clock.now().UTC().Format(time.DateOnly))
	if err := w.store.Commit(t.Context(), store.Put{Key: share, WriteID: store.WriteID{1}, Number: 1}); err != nil {
		t.Fatal(err)
	}
	w.clock.advance(call.MaxQueueDuration - 10*time.Second)
	if err := w.refused(e, message); !errors.Is(err, task.ErrFull) || errors.Is(err, task.ErrFullForAccount) {
		t.Errorf("RunQueued() = %v, want the share full for a guest", err)
	}
	w.clock.advance(20 * time.Second)
	if err := e.RunQueued(t.Context(), message); err != nil || w.ran.Load() != 0 {
		t.Errorf("in the end RunQueued() = %v, %d turns ran", err, w.ran.Load())
	}
	got, err := w.b.Get(t.Context(), turn.Ref)
	if err != nil || got.Status.State != task.Failed || !strings.Contains(got.Status.Message.Parts[0].Text, "did not begin within 15 minutes") {
		t.Errorf("the task is %+v, %v", got.Status, err)
	}
	w.agrees("the turn", turn, "")
}

// A turn that was canceled, or whose worker is lost, gives its room back.
func TestAnEndedTurnGivesItsRoomBack(t *testing.T) {
	block := make(chan bool)
	w := newWorld(t, agent(func(_ context.Context, say func(string) bool) error { <-block; say("done"); return nil }))
	w.noon()
	e := w.worker(4)
	turn := w.turn("hi")
	if _, err := w.a.Enqueue(t.Context(), turn); err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	message := await.Receive(t, "a message is queued", w.queue.sent)
	running.Go(func() { _ = e.RunQueued(context.Background(), message) })
	share := "vacant " + w.vacant.ID().String()
	await.Until(t, "the turn runs", func() bool { return w.ran.Load() == 1 })
	if n := w.running(share); n != 1 {
		t.Errorf("%d turns are counted, want one", n)
	}
	if _, err := w.a.Cancel(t.Context(), turn.Ref); err != nil {
		t.Fatal(err)
	}
	if n := w.running(share); n != 0 {
		t.Errorf("%d turns are counted after the cancel, want none", n)
	}
	close(block)
	running.Wait()
	if n := w.running(share); n != 0 {
		t.Errorf("%d turns are counted in the end, want none", n)
	}
}

// A turn that runs at midnight keeps its room on the next day.
func TestATurnCountsBeyondMidnight(t *testing.T) {
	release := make(chan bool)
	w := newWorld(t, agent(func(_ context.Context, say func(string) bool) error { <-release; say("done"); return nil }))
	w.noon()
	w.clock.advance(12*time.Hour - 30*time.Second)
	e := w.worker(4)
	start := func() string {
		if _, err := w.a.Enqueue(t.Context(), w.turn("hi")); err != nil {
			t.Fatal(err)
		}
		return await.Receive(t, "a message is queued", w.queue.sent)
	}
	before := start()
	var running sync.WaitGroup
	running.Go(func() {
		if err := e.RunQueued(context.Background(), before); err != nil {
			t.Errorf("RunQueued() = %v", err)
		}
	})
	await.Until(t, "the first turn runs", func() bool { return w.ran.Load() == 1 })
	w.clock.advance(40 * time.Second)
	next := start()
	if err := w.refused(e, next); !errors.Is(err, task.ErrFull) {
		t.Errorf("RunQueued() = %v, want the share full", err)
	}
	close(release)
	running.Wait()
	if err := e.RunQueued(t.Context(), next); err != nil || w.ran.Load() != 2 {
		t.Errorf("when there is room, RunQueued() = %v, %d turns ran", err, w.ran.Load())
	}
	if n := w.running("vacant " + w.vacant.ID().String()); n != 0 {
		t.Errorf("%d turns are counted in the end, want none", n)
	}
}
