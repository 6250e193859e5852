package due_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/due"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
)

// counting counts the queries of partitions.
type counting struct {
	store.Store
	queries chan struct{}
}

func (c counting) Docs(ctx context.Context, r store.Range, n int, cursor string) ([]store.Doc, string, error) {
	c.queries <- struct{}{}
	return c.Store.Docs(ctx, r, n, cursor)
}

// Each minute is looked at when it is due and again ten minutes later: so a reminder that is
// written late is followed, and a sweep each minute reads 32 partitions.
func TestASweepLooksAtAMinuteTwice(t *testing.T) {
	now := time.Date(2026, 5, 6, 12, 0, 30, 0, time.UTC)
	s := counting{memory.New(), make(chan struct{}, 1000)}
	r := due.Reminders{Kind: store.Shape{Partition: "due#*#*", Sort: "*"}, Updater: store.Updater{Store: s, Rand: rand.Reader}, Now: func() time.Time { return now }}
	var followed []string
	sweep := func() (queries int) {
		t.Helper()
		if _, err := r.Sweep(t.Context(), func(_ context.Context, d store.Doc) (bool, error) {
			followed = append(followed, string(d.Data))
			return true, nil
		}); err != nil {
			t.Fatal(err)
		}
		queries = len(s.queries)
		for range queries {
			<-s.queries
		}
		return queries
	}
	put := func(due time.Time, name string) {
		t.Helper()
		if err := s.Commit(t.Context(), store.Put{Key: r.Key(due, name), WriteID: store.WriteID{byte(len(name))}, Data: []byte(name)}); err != nil {
			t.Fatal(err)
		}
	}
	sweep()
	put(now, "punctual")
	for minute := 1; minute <= 30; minute++ {
		now = now.Add(time.Minute)
		if n := sweep(); n != 32 {
			t.Fatalf("sweep %d read %d partitions, want 32", minute, n)
		}
		if minute == 5 {
			put(now.Add(-3*time.Minute), "late")
		}
	}
	now = now.Add(45 * time.Minute) // nobody swept
	put(now.Add(-20*time.Minute), "after a pause")
	sweep()
	if got := fmt.Sprint(followed); got != "[punctual late after a pause]" {
		t.Errorf("followed %v", got)
	}
}

// What waits is followed by every sweep until it is done with, however late that is.
func TestAReminderThatWaitsIsFollowedUntilItIsDone(t *testing.T) {
	now := time.Date(2026, 5, 6, 12, 0, 30, 0, time.UTC)
	s := memory.New()
	r := due.Reminders{Kind: store.Shape{Partition: "due#*#*", Sort: "*"}, Updater: store.Updater{Store: s, Rand: rand.Reader}, Now: func() time.Time { return now }}
	followed, done := 0, false
	sweep := func() (swept due.SweepResult) {
		t.Helper()
		swept, err := r.Sweep(t.Context(), func(context.Context, store.Doc) (bool, error) {
			followed++
			return done, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return swept
	}
	sweep()
	if err := s.Commit(t.Context(), store.Put{Key: r.Key(now, "waits"), WriteID: store.WriteID{1}}); err != nil {
		t.Fatal(err)
	}
	const minutes = 60
	for range minutes {
		now = now.Add(time.Minute)
		sweep()
	}
	if followed < minutes-1 {
		t.Errorf("a reminder that waits is followed %d times in %d minutes", followed, minutes)
	}
	done = true
	if got := sweep(); got != (due.SweepResult{Finished: 1}) {
		t.Errorf("Sweep() = %+v, want one that is done with", got)
	}
	if got := sweep(); got != (due.SweepResult{}) {
		t.Errorf("Sweep() afterwards = %+v, want nothing", got)
	}
}
