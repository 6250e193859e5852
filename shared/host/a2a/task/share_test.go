package task_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
)

// limited is another engine over the store, whose turns have two shares: of the vacant, and of the
// sender.
func (w *world) limited(ofVacant, ofSender int) *task.Engine {
	c := w.b.Config
	c.Shares = func(_ context.Context, r task.Ref, of task.Sender) ([]task.Share, error) {
		return []task.Share{{Key: "vacant " + r.Vacant.String(), Max: ofVacant}, {Key: "guests " + string(of), Max: ofSender}}, nil
	}
	e := task.New(c)
	w.t.Cleanup(e.Wait)
	return e
}

// running is the number of turns that count for a share on the clock's day.
func (w *world) running(share string) int64 {
	w.t.Helper()
	n, _, err := task.RunningDocs.Get(w.t.Context(), w.store, task.RunningDocs.Key(share, w.clock.now().UTC().Format(time.DateOnly)))
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

// Workers that meet at a vacant run as many turns as its share has. Each turn that ends has one run
// that waits.
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
		turn.From = string(rune('a' + n))
		if _, err := w.a.Start(t.Context(), turn); err != nil {
			t.Fatal(err)
		}
	}
	engines := []*task.Engine{w.limited(most, all), w.limited(most, all)}
	var running sync.WaitGroup
	ended := make(chan bool)
	running.Go(func() {
		for n := 0; ; n++ {
			select {
			case m := <-w.queue.sent:
				running.Go(func() {
					if err := engines[n%2].Work(context.Background(), m); errors.Is(err, task.ErrFull) {
						full.Add(1)
					} else if err != nil {
						t.Errorf("Work() = %v", err)
					}
				})
			case <-ended:
				return
			}
		}
	})
	share := "vacant " + w.vacant.ID().String()
	await.Until(t, "the other turns wait", func() bool { return full.Load() == all-most && now.Load() == most })
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
	e := w.limited(5, 1)
	var messages []string
	for range 2 {
		turn := w.turn("hi")
		turn.From = "203.0.113.7"
		if _, err := w.a.Start(t.Context(), turn); err != nil {
			t.Fatal(err)
		}
		messages = append(messages, <-w.queue.sent)
	}
	var running sync.WaitGroup
	running.Go(func() {
		if err := e.Work(context.Background(), messages[0]); err != nil {
			t.Errorf("Work() = %v", err)
		}
	})
	await.Until(t, "the first turn runs", func() bool { return w.ran.Load() == 1 })
	if err := e.Work(t.Context(), messages[1]); !errors.Is(err, task.ErrFull) {
		t.Errorf("Work() = %v, want the share full", err)
	}
	if n := w.running("vacant " + w.vacant.ID().String()); n != 1 {
		t.Errorf("%d turns of the vacant are counted, want the one that runs", n)
	}
	close(release)
	running.Wait()
	select {
	case m := <-w.queue.sent:
		if m != messages[1] {
			t.Errorf("the turn that ended sends %s, want the message of the one that waits", m)
		}
	default:
		t.Error("the turn that ended sends no message of the one that waits")
	}
	if err := e.Work(t.Context(), messages[1]); err != nil || w.ran.Load() != 2 {
		t.Errorf("when there is room, Work() = %v, %d turns ran", err, w.ran.Load())
	}
}

// A turn that was canceled, or whose worker is lost, gives its room back.
func TestAnEndedTurnGivesItsRoomBack(t *testing.T) {
	block := make(chan bool)
	w := newWorld(t, agent(func(_ context.Context, say func(string) bool) error { <-block; say("done"); return nil }))
	w.noon()
	e := w.limited(1, 1)
	turn := w.turn("hi")
	if _, err := w.a.Start(t.Context(), turn); err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() { _ = e.Work(context.Background(), <-w.queue.sent) })
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
	e := w.limited(1, 1)
	start := func() string {
		if _, err := w.a.Start(t.Context(), w.turn("hi")); err != nil {
			t.Fatal(err)
		}
		return <-w.queue.sent
	}
	before := start()
	var running sync.WaitGroup
	running.Go(func() {
		if err := e.Work(context.Background(), before); err != nil {
			t.Errorf("Work() = %v", err)
		}
	})
	await.Until(t, "the first turn runs", func() bool { return w.ran.Load() == 1 })
	w.clock.advance(40 * time.Second)
	next := start()
	if err := e.Work(t.Context(), next); !errors.Is(err, task.ErrFull) {
		t.Errorf("Work() = %v, want the share full", err)
	}
	close(release)
	running.Wait()
	if err := e.Work(t.Context(), next); err != nil || w.ran.Load() != 2 {
		t.Errorf("when there is room, Work() = %v, %d turns ran", err, w.ran.Load())
	}
	if n := w.running("vacant " + w.vacant.ID().String()); n != 0 {
		t.Errorf("%d turns are counted in the end, want none", n)
	}
}
