package task_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

// Random turns run, are canceled and read on two instances at once, over a store that
// refuses commits, or applies them and loses the acknowledgement. In the end each task
// has ended, an answer in the rows is one of its task, and no turn ran twice.
func TestRandomSchedulesLeaveTasksAndRowsThatAgree(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		fails := rapid.Bool().Draw(rt, "the agent fails")
		faults := rapid.SampledFrom([]float64{0, 0.05, 0.3}).Draw(rt, "faults")
		w := newWorld(t, agent(func(ctx context.Context, say func(string) bool) error {
			for range 3 {
				say("piece ")
				select {
				case <-time.After(time.Millisecond):
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			if fails {
				return problem.New(problem.SubstrateBusy, "busy")
			}
			return nil
		}))
		if _, err := w.b.Run(t.Context(), w.turn("makes the key of the day")); err != nil && !fails {
			rt.Fatal(err)
		}
		before := w.ran.Load()
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		var mu sync.Mutex
		chance := func() float64 {
			mu.Lock()
			defer mu.Unlock()
			return random.Float64()
		}
		w.store.set(func(writes []store.Write) error {
			switch c := chance(); {
			case c < faults/2:
				return store.NotAppliedError(errors.New("refused"))
			case c < faults:
				if err := w.store.Store.Commit(context.Background(), writes...); err != nil {
					return err
				}
				return fmt.Errorf("%w: lost", store.ErrUnavailable)
			}
			return nil
		})
		var turns []task.Turn
		var all sync.WaitGroup
		for range rapid.IntRange(1, 5).Draw(rt, "turns") {
			turn := w.turn("hi")
			turns = append(turns, turn)
			way := rapid.SampledFrom([]string{"run", "begin", "start"}).Draw(rt, "way")
			cancelAfter := time.Duration(rapid.IntRange(0, 8).Draw(rt, "cancel after")) * time.Millisecond
			all.Go(func() { w.does(way, turn) })
			if cancelAfter < 5*time.Millisecond {
				all.Go(func() {
					time.Sleep(cancelAfter)
					_, _ = w.b.Cancel(context.Background(), turn.Ref)
				})
			}
			all.Go(func() {
				_ = w.b.Follow(context.Background(), turn.Ref, 0, func(n task.NumberedEvent) bool { return n.Number < 3 })
			})
		}
		all.Wait()
		w.a.Wait()
		w.b.Wait()
		w.store.set(nil)
		for i, turn := range turns {
			w.agrees(fmt.Sprintf("turn %d", i), turn, "piece piece piece ")
		}
		if n := w.ran.Load() - before; n > int64(len(turns)) {
			rt.Errorf("%d turns ran %d times", len(turns), n)
		}
	})
}

// does runs a turn on the instance that meets faults.
func (w *world) does(way string, turn task.Turn) {
	ctx := context.Background()
	switch way {
	case "run":
		_, _ = w.a.Run(ctx, turn)
	case "begin":
		if _, done, err := w.a.Begin(ctx, turn); err == nil {
			await.Receive(w.t, "the turn ends", done)
		}
	case "start":
		_, _ = w.a.Enqueue(ctx, turn)
		for range 3 { // at least once
			select {
			case message := <-w.queue.sent:
				_ = w.a.RunQueued(ctx, message)
				w.queue.sent <- message
			default:
			}
		}
	}
}
