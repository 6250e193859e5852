package standalone_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// clock is a time that tests move.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func newClock() *clock { return &clock{t: time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

func lines(t *testing.T, r *standalone.JournalReader) (all []string) {
	t.Helper()
	if err := r.ReadNewLines(t.Context(), func(line []byte) error { all = append(all, string(line)); return nil }); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestAJournalIsKeptAsLongAsTexts(t *testing.T) {
	dir, c := t.TempDir(), newClock()
	if _, err := standalone.OpenJournalReader(dir, c.now()); !problem.Is(err, problem.NotFound) {
		t.Errorf("OpenJournalReader() of nothing = %v, want not found", err)
	}
	for day := range 4 {
		j, err := standalone.OpenJournal(dir, c.now)
		must(t, err)
		fmt.Fprintf(j, "day %d, one\n", day)
		fmt.Fprintf(j, "day %d, two\n", day)
		must(t, j.Close())
		c.add(24 * time.Hour)
	}
	r, err := standalone.OpenJournalReader(dir, c.now().AddDate(0, 0, -9))
	must(t, err)
	defer r.Close()
	if got, want := lines(t, r), []string{"day 2, one", "day 2, two", "day 3, one", "day 3, two"}; !slices.Equal(got, want) {
		t.Errorf("the journal has %q, want %q", got, want)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "journal", "*"))
	for _, f := range files {
		if info, err := os.Stat(f); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, %v; want 0600", f, info.Mode(), err)
		}
	}
}

// A reader sees whole lines while they are written, and goes on into the next day.
func TestAJournalIsFollowed(t *testing.T) {
	dir, c := t.TempDir(), newClock()
	j, err := standalone.OpenJournal(dir, c.now)
	must(t, err)
	r, err := standalone.OpenJournalReader(dir, c.now())
	must(t, err)
	defer r.Close()
	var got []string
	follow := func(n int) {
		t.Helper()
		await.Until(t, fmt.Sprint("line ", n, " is read"), func() bool {
			got = append(got, lines(t, r)...)
			return len(got) >= n
		})
	}
	fmt.Fprintln(j, "one")
	follow(1)
	fmt.Fprint(j, "tw")
	time.Sleep(100 * time.Millisecond)
	if more := lines(t, r); len(more) > 0 {
		t.Errorf("half a line is read as %q", more)
	}
	fmt.Fprintln(j, "o")
	follow(2)
	c.add(24 * time.Hour)
	fmt.Fprintln(j, "three")
	follow(3)
	if want := []string{"one", "two", "three"}; !slices.Equal(got, want) {
		t.Errorf("followed %q, want %q", got, want)
	}
	if err := j.Close(); err != nil {
		t.Error(err)
	}
}

// A journal that cannot be written says so in the end, and stops nobody.
func TestAFullDiskStopsNoWriter(t *testing.T) {
	dir, c := t.TempDir(), newClock()
	j, err := standalone.OpenJournal(dir, c.now)
	must(t, err)
	// A folder where the file should be.
	must(t, os.MkdirAll(filepath.Join(dir, "journal", "2026-05-06.jsonl"), 0o700))
	if n, err := fmt.Fprintln(j, "lost"); n != 5 || err != nil {
		t.Errorf("Write() = %d, %v; want no error", n, err)
	}
	if err := j.Close(); !problem.Is(err, problem.Unavailable) {
		t.Errorf("Close() = %v, want that lines are missing", err)
	}
}
