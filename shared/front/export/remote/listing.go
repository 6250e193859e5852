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

// listing checks that a host's list of streams ends and contains each name once. The host chooses
// the order of the names, so the order proves neither: a host could repeat pages forever, or list
// some streams twice, so that the total hides the streams that it omits. listing stores 16 bytes
// per name, in memory until runPrints names are collected, then as a sorted run on this machine's
// disk. At the end of the list, it merges the runs to find duplicates.
type listing struct {
	run     []print
	file    *os.File // sorted runs, one after the other
	spilled int64    // number of runs in file

	seen  uint64 // pages since mark was set
	mark  string // cursor of an earlier page (Brent's cycle detection)
	power uint64 // number of pages after which the mark is replaced
}

// print is a prefix of the SHA-256 of a name.
type print [16]byte

// runPrints is the number of hashes in a run. A run takes 1 MB of memory.
const runPrints = 64 << 10

// take adds a page of names. next is the cursor of the next page, or "" on the last page.
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
	// The comparison with an earlier cursor detects every cycle of cursors within three times its
	// length.
	if l.seen > 0 && next == l.mark {
		return mismatch("streams", "a list that ends", "the same page again")
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
		// Where the system allows it, the file is unlinked immediately, so it disappears however
		// this process ends.
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
		fingerprint := runs[0].at
		if last != nil && fingerprint == *last {
			return mismatch("streams", "each name once", "one twice")
		}
		last = &fingerprint
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

// source is a sorted run in the file or in memory.
type source struct {
	file *bufio.Reader
	rest []print
	at   print
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

// sources is a heap of runs, ordered by their next hash.
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

func (l *listing) close() {
	if l.file != nil {
		_ = l.file.Close()
		_ = os.Remove(l.file.Name())
	}
	*l = listing{run: l.run[:0]}
}

// disk wraps an error of the temporary file. If err is nil, it returns nil.
func disk(err error) error {
	if err == nil {
		return nil
	}
	return problem.Wrap(problem.Unavailable, err, "a temporary file for the names of streams")
}
