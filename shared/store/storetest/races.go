package storetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/store"
)

const racers = 64

var raceTests = []contractTest{
	{"of 64 writers for one position exactly one is accepted, every round", testRaceForPosition},
	{"of 64 writers for one version exactly one is accepted", testRaceForVersion},
	{"commits to the same streams in opposite orders neither deadlock nor mix", testCrossingCommits},
	{"concurrent adds sum up exactly and never exceed their bounds", testRaceForBalance},
	{"readers see only contiguous prefixes that grow", testReadersSeePrefixes},
	{"writes of one commit become visible together", testReadOrder},
	{"histories are linearizable", testLinearizable},
}

// runConcurrently runs n functions concurrently and returns their errors.
func runConcurrently(n int, run func(i int) error) []error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			errs[i] = run(i)
		})
	}
	close(start)
	wg.Wait()
	return errs
}

func testRaceForPosition(t *testing.T, h Adapter) {
	s, name := h.Open(t), newStream()
	var want []store.Row
	for round := range h.rounds() {
		attempts := make([]store.Append, racers)
		for i := range attempts {
			attempts[i] = newAppend(name, uint64(round+1), fmt.Sprintf("round %d writer %d", round, i))
		}
		outcomes := runConcurrently(racers, func(i int) error { return s.Commit(t.Context(), attempts[i]) })
		winner := -1
		for i, err := range outcomes {
			if err == nil && winner >= 0 {
				t.Fatalf("round %d: writers %d and %d were both accepted", round, winner, i)
			}
			if err == nil {
				winner = i
			}
		}
		if winner < 0 {
			t.Fatalf("round %d: no writer was accepted: %v", round, outcomes[0])
		}
		want = append(want, rowOf(attempts[winner]))
		for i, err := range outcomes {
			var taken *store.TakenError
			if i != winner && (!errors.As(err, &taken) || taken.Occupant.WriteID != attempts[winner].WriteID) {
				t.Fatalf("round %d: a loser got %v, want a TakenError with the winner", round, err)
			}
		}
	}
	if diff := cmp.Diff(want, allRows(t, s, name)); diff != "" {
		t.Errorf("rows (-accepted +stored):\n%s", diff)
	}
}

func testRaceForVersion(t *testing.T, h Adapter) {
	s, k := h.Open(t), newKey()
	for version := range uint64(h.rounds()/50 + 1) {
		attempts := make([]store.Put, racers)
		for i := range attempts {
			attempts[i] = newPut(k, version, fmt.Sprint(i))
		}
		winner := -1
		for i, err := range runConcurrently(racers, func(i int) error { return s.Commit(t.Context(), attempts[i]) }) {
			switch {
			case err == nil && winner >= 0:
				t.Fatalf("version %d: writers %d and %d were both accepted", version, winner, i)
			case err == nil:
				winner = i
			default:
				wantConflict(t, err, version+1)
			}
		}
		if winner < 0 {
			t.Fatalf("version %d: no writer was accepted", version)
		}
		wantDoc(t, s, docOf(attempts[winner]))
	}
}

// testCrossingCommits runs writers whose commits append to the same two streams, in opposite
// orders. In each round, exactly one commit must be accepted, and it must append to both streams.
func testCrossingCommits(t *testing.T, h Adapter) {
	s, a, b := h.Open(t), newStream(), newStream()
	for round := range uint64(h.rounds()/50 + 1) {
		outcomes := runConcurrently(16, func(i int) error {
			x, y := newAppend(a, round+1, fmt.Sprint(i)), newAppend(b, round+1, fmt.Sprint(i))
			if i%2 == 0 {
				return s.Commit(t.Context(), x, y)
			}
			return s.Commit(t.Context(), y, x)
		})
		accepted := 0
		for _, err := range outcomes {
			var taken *store.TakenError
			if err == nil {
				accepted++
			} else if !errors.As(err, &taken) {
				t.Fatalf("round %d: Commit() = %v, want nil or a TakenError", round, err)
			}
		}
		if accepted != 1 {
			t.Fatalf("round %d: %d commits were accepted, want 1", round, accepted)
		}
	}
	x, y := allRows(t, s, a), allRows(t, s, b)
	for i := range x {
		if string(x[i].Data) != string(y[i].Data) {
			t.Errorf("position %d is of writer %s in one stream, of %s in the other", i+1, x[i].Data, y[i].Data)
		}
	}
}

func testRaceForBalance(t *testing.T, h Adapter) {
	const start, price = 100, 7
	s, balance := h.Open(t), newKey()
	commit(t, s, store.Put{Key: balance, WriteID: newWriteID(), Number: start})
	paid := 0
	for _, err := range runConcurrently(racers, func(int) error {
		return s.Commit(t.Context(), newAppend(newStream(), 1, "priced"), store.Add{Key: balance, Delta: -price, Max: start})
	}) {
		var bounds *store.BoundsError
		if err == nil {
			paid++
		} else if !errors.As(err, &bounds) {
			t.Fatalf("Commit() = %v, want nil or a BoundsError", err)
		}
	}
	doc, err := s.Doc(t.Context(), balance)
	if err != nil || paid != start/price || doc.Number != start-int64(paid*price) || doc.Version != uint64(paid)+1 {
		t.Errorf("%d paid, balance %d at version %d, %v; want %d paid", paid, doc.Number, doc.Version, err, start/price)
	}
}

func testReadersSeePrefixes(t *testing.T, h Adapter) {
	s, name := h.Open(t), newStream()
	count := h.rounds()
	done := make(chan struct{})
	var readers sync.WaitGroup
	for i := range 4 {
		readers.Go(func() {
			minTip := 0
			for {
				isLastRead := false
				select {
				case <-done:
					isLastRead = true
				default:
				}
				if minTip = readPrefix(t, s, name, minTip, i); isLastRead || t.Failed() {
					return
				}
			}
		})
	}
	for p := range count {
		commit(t, s, newAppend(name, uint64(p+1), fmt.Sprint(p+1)))
	}
	close(done)
	readers.Wait()
	wantRows := allRows(t, s, name)
	if len(wantRows) != count {
		t.Errorf("%d rows, want %d", len(wantRows), count)
	}
}

// readPrefix reads a stream in one of four ways. It returns the highest position that the reader
// has seen. A read must not end below minTip, the highest position of earlier reads.
func readPrefix(t *testing.T, s store.Store, name store.Stream, minTip, method int) int {
	var rows []store.Row
	var err error
	switch method {
	case 0:
		var tip store.Row
		tip, err = s.Tip(t.Context(), name)
		if tip.Position > 0 {
			rows = []store.Row{tip}
		}
	case 1:
		rows, err = s.Rows(t.Context(), name, uint64(max(minTip-5, 1)), store.MaxPage, store.Ascending)
	default:
		rows, err = s.Rows(t.Context(), name, 1<<40, method*5, store.Descending)
	}
	if err != nil {
		t.Errorf("read = %v, want nil", err)
		return minTip
	}
	last := 0
	for i, r := range rows {
		if string(r.Data) != fmt.Sprint(r.Position) {
			t.Errorf("row %d holds %q", r.Position, r.Data)
		}
		step := int(r.Position) - int(rows[0].Position)
		if step != i && step != -i {
			t.Errorf("row %d of a page is at position %d, its first at %d", i, r.Position, rows[0].Position)
		}
		last = max(last, int(r.Position))
	}
	if last < minTip {
		t.Errorf("a read ends at row %d, an earlier read at row %d", last, minTip)
	}
	return max(last, minTip)
}

// appendAndCount appends rows until stop is closed, each in a commit that also adds 1 to a
// document.
func appendAndCount(t *testing.T, s store.Store, name store.Stream, k store.Key, stop <-chan struct{}) {
	for p := uint64(1); ; p++ {
		select {
		case <-stop:
			return
		default:
		}
		if err := s.Commit(t.Context(), newAppend(name, p, "row"), store.Add{Key: k, Delta: 1, Max: 1 << 40}); err != nil {
			t.Errorf("Commit() = %v, want nil", err)
			return
		}
	}
}

func testReadOrder(t *testing.T, h Adapter) {
	s, name, k := h.Open(t), newStream(), newKey()
	stop := make(chan struct{})
	var writers sync.WaitGroup
	for range 3 {
		writers.Go(func() { appendAndCount(t, s, newStream(), newKey(), stop) })
	}
	writers.Go(func() { appendAndCount(t, s, name, k, stop) })
	defer writers.Wait()
	defer close(stop)
	for range h.rounds() {
		before, err := s.Doc(t.Context(), k)
		if err != nil {
			t.Fatalf("Doc() = %v, want nil", err)
		}
		tip, err := s.Tip(t.Context(), name)
		if err != nil {
			t.Fatalf("Tip() = %v, want nil", err)
		}
		after, err := s.Doc(t.Context(), k)
		if err != nil {
			t.Fatalf("Doc() = %v, want nil", err)
		}
		if n := int64(tip.Position); n < before.Number || n > after.Number {
			t.Fatalf("%d rows, want at least %d and at most %d", n, before.Number, after.Number)
		}
	}
}
