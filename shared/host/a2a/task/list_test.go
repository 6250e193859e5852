package task_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// run runs a turn with a text of a size and returns the id of its task.
func (w *world) run(size int) string {
	w.t.Helper()
	turn := w.turn(strings.Repeat("x", size))
	w.clock.advance(time.Millisecond)
	if _, err := w.a.Run(w.t.Context(), turn); err != nil {
		w.t.Fatal(err)
	}
	return turn.ID
}

// pages lists all tasks by pages.
func (w *world) pages(size int) (pages [][]task.Task, total int) {
	w.t.Helper()
	q := task.ListRequest{Ref: task.Ref{Vacant: w.vacant.ID(), Owner: call.GuestOwner}, ListOwner: call.SharedOwner, PageSize: size}
	for {
		page, err := list(w.t.Context(), w.b, q)
		if err != nil {
			w.t.Fatal(err)
		}
		pages = append(pages, page.Tasks)
		if q.PageToken = page.Next; q.PageToken == "" {
			return pages, page.Total
		}
	}
}

func TestAPageEndsAtItsSizeInBytes(t *testing.T) {
	block := make(chan struct{})
	end := sync.OnceFunc(func() { close(block) })
	defer end()
	w := newWorld(t, agent(func(ctx context.Context, say func(string) bool) error {
		say("done")
		if task.MessageOf(ctx).Parts[0].Text == "streams" {
			for range 3 { // more than its head counts
				say(strings.Repeat("y", 90<<10))
			}
			<-block
		}
		return nil
	}))
	var want []string
	add := func(id string) { want = append([]string{id}, want...) }
	for _, size := range []int{1, 300 << 10, 300 << 10, 300 << 10, 300 << 10, 330 << 10, 330 << 10, 1} {
		add(w.run(size))
	}
	var ends []<-chan struct{}
	for range 5 {
		turn := w.turn("streams")
		w.clock.advance(time.Millisecond)
		_, done, err := w.a.Begin(t.Context(), turn)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		read := 0
		if err := w.b.Follow(ctx, turn.Ref, 0, func(n task.NumberedEvent) bool {
			if n.Artifact != nil {
				read += len(textOf(n.Artifact.Artifact.Parts))
			}
			return read < 270<<10
		}); err != nil {
			t.Fatal(err)
		}
		cancel()
		ends = append(ends, done)
		add(turn.ID)
	}
	for range 2 { // while turns run, and once their heads count them
		pages, total := w.pages(100)
		var got []string
		var counts []int
		for _, page := range pages {
			size := 0
			for _, one := range page {
				got = append(got, one.ID)
				size += len(textOf(one.History[0].Parts))
				for _, a := range one.Artifacts {
					size += len(textOf(a.Parts))
				}
			}
			if size > task.MaxPageBytes && len(page) > 1 {
				t.Errorf("a page of %d tasks has %d bytes", len(page), size)
			}
			counts = append(counts, len(page))
		}
		// The five that stream end at one time.
		slices.Sort(want[:5])
		slices.Sort(got[:min(5, len(got))])
		if diff := cmp.Diff(want, got); diff != "" || total != len(want) {
			t.Errorf("of %d, listed (-want +got):\n%s", total, diff)
		}
		if diff := cmp.Diff([]int{3, 4, 3, 3}, counts); diff != "" {
			t.Errorf("tasks of the pages (-want +got):\n%s", diff)
		}
		end()
		for _, done := range ends {
			await.Receive(t, "the turn ends", done)
		}
	}
}

func TestListsOfTheHostShareTheirMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, says("done"))
		for range 4 {
			w.run(320 << 10)
		}
		q := task.ListRequest{Ref: task.Ref{Vacant: w.vacant.ID(), Owner: call.GuestOwner}, ListOwner: call.SharedOwner, PageSize: 100}
		var mu sync.Mutex
		var flying, refused int
		read := make(chan struct{})
		for range 100 {
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
				defer cancel()
				err := w.b.List(ctx, q, func(p *task.Page) {
					mu.Lock()
					for _, one := range p.Tasks {
						flying += len(textOf(one.History[0].Parts))
					}
					mu.Unlock()
					<-read
				})
				mu.Lock()
				defer mu.Unlock()
				if problem.Is(err, problem.TooManyRequests) {
					refused++
				} else if err != nil {
					t.Errorf("List() = %v", err)
				}
			}()
		}
		synctest.Wait()
		mu.Lock()
		if flying > task.MaxListingBytes || flying < task.MaxListingBytes*9/10 || refused != 0 {
			t.Errorf("%d bytes are in flight, %d lists refused; want nearly %d and none", flying, refused, task.MaxListingBytes)
		}
		mu.Unlock()
		time.Sleep(26 * time.Second) // of the bubble
		mu.Lock()
		if want := 100 - flying/(3*320<<10); refused != want {
			t.Errorf("%d lists were refused at their deadline, want %d", refused, want)
		}
		mu.Unlock()
		close(read)
		synctest.Wait()
		if page, err := list(t.Context(), w.b, q); err != nil || len(page.Tasks) != 3 {
			t.Errorf("List() afterwards = %d tasks, %v", len(page.Tasks), err)
		}
	})
}

// A list of a task that grows needs much room until it is read, and little while its client
// takes it.
func TestAListGivesBackWhatItDidNotRead(t *testing.T) {
	block := make(chan struct{})
	w := newWorld(t, agent(func(_ context.Context, say func(string) bool) error {
		say("a little")
		<-block
		return nil
	}))
	turn := w.turn("hi")
	_, done, err := w.a.Begin(t.Context(), turn)
	if err != nil {
		t.Fatal(err)
	}
	q := task.ListRequest{Ref: task.Ref{Vacant: w.vacant.ID(), Owner: call.GuestOwner}, ListOwner: call.SharedOwner, PageSize: 100}
	const lists = 32 // twice MaxBytes would be all of MaxListingBytes
	var nested func(n int) error
	nested = func(n int) error {
		if n == 0 {
			return nil
		}
		inner := error(nil)
		err := w.b.List(t.Context(), q, func(p *task.Page) {
			if len(p.Tasks) != 1 {
				t.Errorf("%d tasks are listed, want 1", len(p.Tasks))
			}
			inner = nested(n - 1)
		})
		return errors.Join(err, inner)
	}
	if err := nested(lists); err != nil {
		t.Error(err)
	}
	close(block)
	await.Receive(t, "the turn ends", done)
}

func TestAllTasksAreListedBeyondTheCount(t *testing.T) {
	w := newWorld(t, says("done"))
	const all = task.MaxListed + 130
	for range all {
		w.run(1)
	}
	for _, size := range []int{100, 97} {
		pages, total := w.pages(size)
		seen := map[string]bool{}
		for i, page := range pages {
			if len(page) != size && i < len(pages)-1 {
				t.Errorf("page %d has %d tasks, want %d", i, len(page), size)
			}
			for _, one := range page {
				seen[one.ID] = true
			}
		}
		if want := fmt.Sprint(all, " of ", -1); fmt.Sprint(len(seen), " of ", total) != want {
			t.Errorf("pages of %d: %d of %d, want %s", size, len(seen), total, want)
		}
	}
}
