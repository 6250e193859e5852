package bolt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

func openTest(t *testing.T, o Options) *Store {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "vacancy.db"), o)
	if err != nil {
		t.Fatalf("Open() = %v, want nil", err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func row(name store.Stream, position uint64) store.Append {
	return store.Append{Stream: name, Position: position, WriteID: store.WriteID{byte(position), 7}, Data: []byte("data")}
}

func wantTip(t *testing.T, s *Store, name store.Stream, position uint64) {
	t.Helper()
	if tip, err := s.Tip(t.Context(), name); err != nil || tip.Position != position {
		t.Errorf("Tip(%s) = %d, %v, want %d", name, tip.Position, err, position)
	}
}

// stall stops the committer from committing until the returned function runs.
func stall(t *testing.T, s *Store) (release func()) {
	t.Helper()
	tx, err := s.db.Begin(true)
	must(t, err)
	return func() {
		if err := tx.Rollback(); err != nil {
			t.Error(err)
		}
	}
}

// waitTaken waits until the committer has taken a group from the queue. An empty queue is not
// enough, because the commit may not be queued yet.
func waitTaken(s *Store) {
	for s.groupMu.TryLock() {
		s.groupMu.Unlock()
		time.Sleep(time.Millisecond)
	}
}

func waitQueued(s *Store, n int) {
	for queued := -1; queued < n; time.Sleep(time.Millisecond) {
		s.queue.mu.Lock()
		queued = len(s.queue.requests)
		s.queue.mu.Unlock()
	}
}

func TestACommitCancelledInTheQueueIsNotAppliedAndLaterUnknown(t *testing.T) {
	s := openTest(t, Options{})
	release := stall(t, s)
	commit := func(ctx context.Context, name store.Stream) chan error {
		done := make(chan error, 1)
		go func() { done <- s.Commit(ctx, row(name, 1)) }()
		return done
	}
	ctx, cancel := context.WithCancel(t.Context())
	picked := commit(ctx, "picked")
	waitTaken(s)
	queued, patient := commit(ctx, "queued"), commit(t.Context(), "patient")
	waitQueued(s, 2)
	cancel()
	if err := <-picked; !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrNotApplied) || !errors.Is(err, context.Canceled) {
		t.Errorf("Commit(picked) = %v, want ErrUnavailable with an unknown outcome", err)
	}
	if err := <-queued; !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, store.ErrNotApplied) || !errors.Is(err, context.Canceled) {
		t.Errorf("Commit(queued) = %v, want ErrNotApplied", err)
	}
	release()
	if err := <-patient; err != nil {
		t.Errorf("Commit(patient) = %v, want nil", err)
	}
	wantTip(t, s, "picked", 1)
	wantTip(t, s, "queued", 0)
	wantTip(t, s, "patient", 1)
}

func TestCommitsThatWaitTogetherShareOneTransaction(t *testing.T) {
	s := openTest(t, Options{})
	release := stall(t, s)
	var wg sync.WaitGroup
	commit := func(name store.Stream) {
		wg.Go(func() {
			if err := s.Commit(t.Context(), row(name, 1)); err != nil {
				t.Errorf("Commit() = %v, want nil", err)
			}
		})
	}
	commit("first")
	waitTaken(s)
	for i := range 300 {
		commit(store.Stream(fmt.Sprint(i)))
	}
	waitQueued(s, 300)
	before := s.disk.lastSynced.Load()
	release()
	wg.Wait()
	if got := s.disk.lastSynced.Load() - before; got != 2 {
		t.Errorf("%d transactions for 1 and 300 commits, want 2", got)
	}
}

func TestAFullDiskRefusesWritesAndServesReads(t *testing.T) {
	s := openTest(t, Options{MaxSize: 32 << 20})
	big := make([]byte, store.MaxData)
	var last uint64
	var err error
	for p := uint64(1); p < 1000; p++ {
		a := row("big", p)
		a.Data = big
		if err = s.Commit(t.Context(), a); err != nil {
			break
		}
		last = p
	}
	if !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, store.ErrNotApplied) || last == 0 {
		t.Fatalf("Commit() after %d rows = %v, want ErrUnavailable with ErrNotApplied", last, err)
	}
	wantTip(t, s, "big", last)
	a := row("big", last+1)
	a.Data = big
	if err := s.Commit(t.Context(), a); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Commit() again = %v, want ErrUnavailable", err)
	}
	wantTip(t, s, "big", last)
	rows, err := s.Rows(t.Context(), "big", last, 1, store.Descending)
	if err != nil || len(rows) != 1 || len(rows[0].Data) != store.MaxData {
		t.Errorf("Rows() = %d rows, %v, want the last one whole", len(rows), err)
	}
}

func TestAFailedSyncIsUnavailableToItsWholeGroupAndLeavesNothing(t *testing.T) {
	var file *os.File
	s := openTest(t, Options{openFile: func(name string, flag int, mode os.FileMode) (_ *os.File, err error) {
		file, err = os.OpenFile(name, flag, mode)
		return file, err
	}})
	must(t, s.Commit(t.Context(), row("kept", 1)))
	release := stall(t, s)
	// The file descriptor is closed: every later write fails, and the memory
	// map stays.
	must(t, file.Close())
	outcomes := make(chan error)
	for i := range 20 {
		go func() { outcomes <- s.Commit(t.Context(), row(store.Stream(fmt.Sprint(i)), 1)) }()
	}
	// This commit would be refused, but the row that refuses it may not have been stored.
	go func() { outcomes <- s.Commit(t.Context(), row("kept", 3)) }()
	time.Sleep(10 * time.Millisecond)
	release()
	for range 20 {
		if err := <-outcomes; !errors.Is(err, store.ErrUnavailable) {
			var taken *store.TakenError
			if !errors.As(err, &taken) {
				t.Errorf("Commit() = %v, want ErrUnavailable", err)
			}
		}
	}
	<-outcomes
	for i := range 20 {
		wantTip(t, s, store.Stream(fmt.Sprint(i)), 0)
	}
	wantTip(t, s, "kept", 1)
}

func TestARowPublishedByAFailedGroupIsForgottenAndItsPlaceTakenByTheNext(t *testing.T) {
	s := openTest(t, Options{})
	for p := uint64(1); p <= 3; p++ {
		must(t, s.Commit(t.Context(), row("stream", p)))
	}
	// The group's rows are published, and then its transaction fails.
	fail := errors.New("no space left on device")
	var g *group
	err := s.runWriteTx(func(tx *bbolt.Tx) error {
		g = newGroup(s, tx)
		if outcome, err := g.applyRequest(newRequest([]store.Write{row("stream", 4), row("new", 1)})); outcome != nil || err != nil {
			t.Fatalf("commit() = %v, %v, want nil", outcome, err)
		}
		must(t, g.finish())
		// Reads that began after it do not see them.
		wantTip(t, s, "stream", 3)
		wantTip(t, s, "new", 0)
		return fail
	})
	if err := s.rollBack(g, err); !errors.Is(err, store.ErrNotApplied) || !errors.Is(err, fail) {
		t.Errorf("failed() = %v, want ErrNotApplied with the cause", err)
	}
	wantTip(t, s, "stream", 3)
	wantTip(t, s, "new", 0)
	other := row("stream", 4)
	other.WriteID = store.WriteID{99}
	must(t, s.Commit(t.Context(), other))
	rows, err := s.Rows(t.Context(), "stream", 1, 10, store.Ascending)
	if err != nil || len(rows) != 4 || rows[3].WriteID != other.WriteID {
		t.Errorf("Rows() = %d rows, %v, want 4 with the second writer's", len(rows), err)
	}
}

// slow is a context that yields between a read's access to memory and its
// transaction: the read checks it once in between.
type slow struct {
	context.Context
	looked, resume chan struct{}
	once           *sync.Once
}

func (c slow) Err() error {
	c.once.Do(func() { close(c.looked); <-c.resume })
	return nil
}

func TestAReaderOfAFailedGroupsRowsLooksAgain(t *testing.T) {
	s := openTest(t, Options{})
	must(t, s.Commit(t.Context(), row("stream", 1)))
	ctx := slow{t.Context(), make(chan struct{}), make(chan struct{}), new(sync.Once)}
	tip := make(chan error, 1)
	fail := errors.New("no space left on device")
	var g *group
	err := s.runWriteTx(func(tx *bbolt.Tx) error {
		g = newGroup(s, tx)
		if outcome, err := g.applyRequest(newRequest([]store.Write{row("stream", 2)})); outcome != nil || err != nil {
			t.Fatalf("commit() = %v, %v, want nil", outcome, err)
		}
		must(t, g.finish())
		go func() {
			row, err := s.Tip(ctx, "stream")
			if err == nil && row.Position != 1 {
				err = fmt.Errorf("position %d", row.Position)
			}
			tip <- err
		}()
		<-ctx.looked
		return fail
	})
	if err := s.rollBack(g, err); !errors.Is(err, store.ErrNotApplied) {
		t.Fatalf("failed() = %v, want ErrNotApplied", err)
	}
	// The next group's row gets the record number that the failed one had.
	must(t, s.Commit(t.Context(), row("another", 1)))
	close(ctx.resume)
	if err := <-tip; err != nil {
		t.Errorf("Tip() = %v, want row 1", err)
	}
}

func TestAnUnknownOutcomeOnDiskStopsTheStore(t *testing.T) {
	s := openTest(t, Options{})
	must(t, s.Commit(t.Context(), row("stream", 1)))
	// A transaction is visible although its commit reported a failure.
	err := s.rollBack(&group{txID: int(s.disk.lastSynced.Load())}, errors.New("fsync: input/output error"))
	if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrNotApplied) {
		t.Errorf("failed() = %v, want ErrUnavailable with an unknown outcome", err)
	}
	if err := s.Commit(t.Context(), row("stream", 2)); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Commit() = %v, want ErrUnavailable", err)
	}
	// Reads of data that was on disk before succeed; reads of later data fail.
	if err := s.disk.waitSynced(int(s.disk.lastSynced.Load()) + 1); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("await() = %v, want ErrUnavailable", err)
	}
}

func TestAReaderWaitsUntilWhatItSeesIsOnDisk(t *testing.T) {
	var d syncState
	d.init()
	d.markSynced(5)
	if err := d.waitSynced(5); err != nil {
		t.Errorf("await(5) = %v, want nil at once", err)
	}
	done := make(chan error, 2)
	go func() { done <- d.waitSynced(6) }()
	go func() { done <- d.waitSynced(7) }()
	select {
	case err := <-done:
		t.Fatalf("await() = %v before it was reached", err)
	case <-time.After(20 * time.Millisecond):
	}
	d.markSynced(6)
	if err := <-done; err != nil {
		t.Errorf("await(6) = %v, want nil", err)
	}
	lost := d.recordFailure(errors.New("disk on fire"))
	if err := <-done; !errors.Is(err, store.ErrUnavailable) || err != lost {
		t.Errorf("await(7) = %v, want what lost returned", err)
	}
}

func TestEveryReadWaitsForTheDisk(t *testing.T) {
	s := openTest(t, Options{})
	must(t, s.Commit(t.Context(), row("stream", 1)))
	// The test pretends that the last sync of that commit is still running.
	last := int(s.disk.lastSynced.Swap(0))
	reads := map[string]func() error{
		"Tip":  func() error { _, err := s.Tip(t.Context(), "stream"); return err },
		"Rows": func() error { _, err := s.Rows(t.Context(), "stream", 1, 1, store.Ascending); return err },
		"Doc":  func() error { _, err := s.Doc(t.Context(), store.Key{Partition: "p", Sort: "s"}); return err },
		"Docs": func() error { _, _, err := s.Docs(t.Context(), store.Range{Partition: "p"}, 1, ""); return err },
		"Walk": func() error { return s.Walk(t.Context(), func(store.View) error { return nil }) },
	}
	done := make(chan error, len(reads))
	for _, read := range reads {
		go func() { done <- read() }()
	}
	time.Sleep(30 * time.Millisecond)
	if n := len(done); n > 0 {
		t.Errorf("%d reads did not wait until the disk had what they saw", n)
	}
	s.disk.markSynced(last)
	for range reads {
		if err := <-done; err != nil {
			t.Errorf("a read = %v, want nil", err)
		}
	}
}

func TestDamageIsToldOfItsStreamAndLeavesTheOthers(t *testing.T) {
	s := openTest(t, Options{recentLimit: 1})
	for _, name := range []store.Stream{"sound", "gone", "swapped", "format", "hole"} {
		for p := uint64(1); p <= 4; p++ {
			must(t, s.Commit(t.Context(), row(name, p)))
		}
	}
	// Records are numbered in the order of commits.
	err := s.runWriteTx(func(tx *bbolt.Tx) error {
		b := openBuckets(tx)
		v := append([]byte{}, b.journal.Get(encodeNumber(14))...)
		v[0] = 9
		return errors.Join(
			b.journal.Delete(encodeNumber(6)),
			b.index.Put(indexKey(3, 2), encodeNumber(11)),
			b.journal.Put(encodeNumber(14), v),
			b.index.Delete(indexKey(5, 2)),
		)
	})
	if err != nil {
		t.Fatal(err)
	}
	s.disk.markSynced(1 << 30)
	for _, name := range []store.Stream{"gone", "swapped", "format"} {
		rows, err := s.Rows(t.Context(), name, 1, 10, store.Ascending)
		if !problem.Is(err, problem.Damaged) || len(rows) != 1 {
			t.Errorf("Rows(%s) = %d rows, %v, want 1 and Damaged", name, len(rows), err)
		}
		wantTip(t, s, name, 4)
		if err := s.Commit(t.Context(), row(name, 2)); !errors.Is(err, store.ErrUnavailable) || !problem.Is(err, problem.Damaged) {
			t.Errorf("Commit(at the damage of %s) = %v, want ErrUnavailable with Damaged", name, err)
		}
	}
	if rows, err := s.Rows(t.Context(), "hole", 1, 10, store.Ascending); err != nil || len(rows) != 1 {
		t.Errorf("Rows(hole) = %d rows, %v, want 1: a page ends at a hole", len(rows), err)
	}
	if rows, err := s.Rows(t.Context(), "sound", 1, 10, store.Ascending); err != nil || len(rows) != 4 {
		t.Errorf("Rows(sound) = %d rows, %v, want 4", len(rows), err)
	}
}

func TestAFileCutShortUnderAReaderIsDamageAndNoCrash(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a mapped file cannot be cut there")
	}
	s := openTest(t, Options{recentLimit: 1})
	for p := uint64(1); p <= 100; p++ {
		a := row("stream", p)
		a.Data = make([]byte, 5000)
		must(t, s.Commit(t.Context(), a))
	}
	must(t, os.Truncate(s.db.Path(), 3*pageSize))
	if _, err := s.Rows(t.Context(), "stream", 1, 100, store.Ascending); !problem.Is(err, problem.Damaged) {
		t.Errorf("Rows() = %v, want Damaged", err)
	}
	err := s.Walk(t.Context(), func(v store.View) error {
		_, err := v.Rows(t.Context(), "stream", 1, 100, store.Ascending)
		return err
	})
	if !problem.Is(err, problem.Damaged) {
		t.Errorf("Walk() = %v, want Damaged", err)
	}
	if err := s.Commit(t.Context(), row("stream", 50)); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Commit() = %v, want ErrUnavailable", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close() = %v, want nil", err)
	}
}

func TestAViewIsMadeBetweenTwoGroups(t *testing.T) {
	s := openTest(t, Options{})
	release := stall(t, s)
	committed := make(chan error, 1)
	go func() { committed <- s.Commit(t.Context(), row("stream", 1)) }()
	// The committer is in a group now: changes that it makes before the view
	// exists would be lost to the view.
	waitTaken(s)
	views := make(chan *view, 1)
	go func() {
		v, err := s.newView(t.Context())
		if err != nil {
			t.Errorf("newView() = %v, want nil", err)
		}
		views <- v
	}()
	time.Sleep(20 * time.Millisecond)
	if len(views) > 0 {
		t.Error("a view was made in the middle of a group")
	}
	release()
	if err := <-committed; err != nil {
		t.Errorf("Commit() = %v, want nil", err)
	}
	v := <-views
	defer s.removeView(v)
	rows, err := v.Rows(t.Context(), "stream", 1, 10, store.Ascending)
	if err != nil || len(rows) != 1 {
		t.Errorf("Rows() = %d rows, %v, want the group's 1", len(rows), err)
	}
}

func TestAViewOfALongStreamEndsWhereItWas(t *testing.T) {
	for _, limit := range []int{1, 3, 1000} {
		s := openTest(t, Options{recentLimit: limit})
		commit := func(p uint64) {
			must(t, s.Commit(t.Context(), row("stream", p), row(store.Stream(fmt.Sprint(p)), 1)))
		}
		for p := uint64(1); p <= 50; p++ {
			v, err := s.newView(t.Context())
			must(t, err)
			commit(p)
			defer func() {
				rows, err := v.Rows(t.Context(), "stream", 1000, 2, store.Descending)
				if err != nil || len(rows) != int(min(p-1, 2)) || len(rows) > 0 && rows[0].Position != p-1 {
					t.Errorf("view %d: Rows(down) = %d rows, %v, want from %d", p, len(rows), err, p-1)
				}
				rows, err = v.Rows(t.Context(), "stream", 1, 1000, store.Ascending)
				if err != nil || len(rows) != int(p-1) {
					t.Errorf("view %d: Rows() = %d rows, %v, want %d", p, len(rows), err, p-1)
				}
				names, _, err := v.Streams(t.Context(), "", 1000, "")
				if want := int(min(p, 2*p-2)); err != nil || len(names) != want {
					t.Errorf("view %d: Streams() = %d, %v, want %d", p, len(names), err, want)
				}
				s.removeView(v)
			}()
		}
	}
}
