package remote

import (
	"bufio"
	"bytes"
	"container/heap"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"slices"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

// listing checks that a list of streams has each name once and ends. The order
// of the names does not prove that: a host could send its reader in circles, or
// count checked streams twice to hide others in the sum. listing keeps 16 bytes
// of each name: a run in memory, then sorted on this machine's disk. At the end
// of the list it merges the runs and finds duplicates.
type listing struct {
	run     []print
	file    *os.File // sorted runs, one after the other
	spilled int64    // their number

	seen  uint64 // pages since the mark
	mark  string // the cursor of an earlier page (Brent's cycle detection)
	power uint64 // for how many pages a mark is kept
}

// print is the beginning of a name's SHA-256.
type print [16]byte

// runPrints is the number of prints kept in memory: 1 MB.
const runPrints = 64 << 10

// take adds a page.
func (l *listing) take(names []store.Stream, next string) error {
	for _, name := range names {
		sum := sha256.Sum256([]byte(name))
		l.run = append(l.run, print(sum[:]))
		if len(l.run) == runPrints {
			if err := l.spill(); err != nil {
				return err
			}
		}
	}
	if next == "" {
		defer l.close()
		return l.merge()
	}
	// This finds every cycle of cursors within three times its length.
	if l.seen > 0 && next == l.mark {
		return wrong("streams", "a list that ends", "the same page again")
	}
	if l.seen == l.power {
		l.mark, l.power, l.seen = next, 2*l.power+1, 0
	}
	l.seen++
	return nil
}

func compare(a, b print) int { return bytes.Compare(a[:], b[:]) }

func (l *listing) spill() error {
	if l.file == nil {
		f, err := os.CreateTemp("", "vacancy-streams-*")
		if err != nil {
			return disk(err)
		}
		l.file = f
		// Where the system allows it, the file is unlinked at once, so that
		// nothing is left of it however this process ends.
		_ = os.Remove(f.Name())
	}
	slices.SortFunc(l.run, compare)
	w := bufio.NewWriter(l.file)
	for i := range l.run {
		if _, err := w.Write(l.run[i][:]); err != nil {
			return disk(err)
		}
	}
	l.run, l.spilled = l.run[:0], l.spilled+1
	return disk(w.Flush())
}

// merge finds duplicates among all runs.
func (l *listing) merge() error {
	slices.SortFunc(l.run, compare)
	runs := sources{}
	const size = runPrints * int64(len(print{}))
	for i := range l.spilled {
		runs = append(runs, source{file: bufio.NewReader(io.NewSectionReader(l.file, i*size, size))})
	}
	runs = append(runs, source{rest: l.run})
	for i := len(runs) - 1; i >= 0; i-- {
		if more, err := runs[i].advance(); err != nil {
			return err
		} else if !more {
			runs = slices.Delete(runs, i, i+1)
		}
	}
	heap.Init(&runs)
	for last := (*print)(nil); len(runs) > 0; {
		at := runs[0].at
		if last != nil && at == *last {
			return wrong("streams", "each name once", "one twice")
		}
		last = &at
		if more, err := runs[0].advance(); err != nil {
			return err
		} else if more {
			heap.Fix(&runs, 0)
		} else {
			heap.Pop(&runs)
		}
	}
	return nil
}

// source is a sorted run, in the file or in memory.
type source struct {
	file *bufio.Reader
	rest []print
	at   print // the first that was not read
}

func (s *source) advance() (more bool, err error) {
	if s.file == nil {
		if more = len(s.rest) > 0; more {
			s.at, s.rest = s.rest[0], s.rest[1:]
		}
		return more, nil
	}
	_, err = io.ReadFull(s.file, s.at[:])
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	return err == nil, disk(err)
}

// sources is a heap by the next print.
type sources []source

func (s sources) Len() int           { return len(s) }
func (s sources) Less(i, j int) bool { return compare(s[i].at, s[j].at) < 0 }
func (s sources) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *sources) Push(x any)        { *s = append(*s, x.(source)) }
func (s *sources) Pop() any {
	last := (*s)[len(*s)-1]
	*s = (*s)[:len(*s)-1]
	return last
}

// close removes everything.
func (l *listing) close() {
	if l.file != nil {
		_ = l.file.Close()
		_ = os.Remove(l.file.Name())
	}
	*l = listing{run: l.run[:0]}
}

// disk is the error of this machine's disk.
func disk(err error) error {
	if err == nil {
		return nil
	}
	return problem.Wrap(problem.Unavailable, err, "a temporary file for the names of streams")
}
