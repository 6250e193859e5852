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

// streamChecker checks that a host's list of streams ends and contains each name once. An untrusted
// host could repeat pages forever. It could also list some streams twice, so that the total hides
// the streams that it omits. streamChecker stores 16 bytes per name. When hashesPerRun names are in
// memory, it writes them to this machine's disk as a sorted run. At the end of the list, it merges
// the runs to find duplicates.
type streamChecker struct {
	currentRun []nameHash
	file       *os.File // sorted runs, one after the other
	runCount   int64    // number of runs in file

	pagesSinceMark uint64 // pages since mark was set
	mark           string // cursor of an earlier page (Brent's cycle detection)
	markInterval   uint64 // number of pages after which the mark is replaced
}

// nameHash is a prefix of the SHA-256 of a name.
type nameHash [16]byte

// hashesPerRun is the number of hashes in a run. A run takes 1 MB of memory.
const hashesPerRun = 64 << 10

// addPage adds a page of names. next is the cursor of the next page, or "" on the last page.
func (l *streamChecker) addPage(names []store.Stream, next string) error {
	for _, name := range names {
		sum := sha256.Sum256([]byte(name))
		l.currentRun = append(l.currentRun, nameHash(sum[:]))
		if len(l.currentRun) == hashesPerRun {
			if err := l.writeRun(); err != nil {
				return err
			}
		}
	}
	if next == "" {
		defer l.close()
		return l.checkDuplicates()
	}
	// The comparison with an earlier cursor detects every cycle of cursors within three times its
	// length.
	if l.pagesSinceMark > 0 && next == l.mark {
		return mismatchError("streams", "a list that ends", "the same page again")
	}
	if l.pagesSinceMark == l.markInterval {
		l.mark, l.markInterval, l.pagesSinceMark = next, 2*l.markInterval+1, 0
	}
	l.pagesSinceMark++
	return nil
}

func compareHashes(a, b nameHash) int { return bytes.Compare(a[:], b[:]) }

func (l *streamChecker) writeRun() error {
	if l.file == nil {
		f, err := os.CreateTemp("", "vacancy-streams-*")
		if err != nil {
			return fileError(err)
		}
		l.file = f
		// Where the system allows it, the file is unlinked immediately, so it disappears however
		// this process ends.
		_ = os.Remove(f.Name())
	}
	slices.SortFunc(l.currentRun, compareHashes)
	w := bufio.NewWriter(l.file)
	for i := range l.currentRun {
		if _, err := w.Write(l.currentRun[i][:]); err != nil {
			return fileError(err)
		}
	}
	l.currentRun, l.runCount = l.currentRun[:0], l.runCount+1
	return fileError(w.Flush())
}

func (l *streamChecker) checkDuplicates() error {
	slices.SortFunc(l.currentRun, compareHashes)
	runs := runHeap{}
	const size = hashesPerRun * int64(len(nameHash{}))
	for i := range l.runCount {
		runs = append(runs, runReader{file: bufio.NewReader(io.NewSectionReader(l.file, i*size, size))})
	}
	runs = append(runs, runReader{remaining: l.currentRun})
	for i := len(runs) - 1; i >= 0; i-- {
		if more, err := runs[i].advance(); err != nil {
			return err
		} else if !more {
			runs = slices.Delete(runs, i, i+1)
		}
	}
	heap.Init(&runs)
	for last := (*nameHash)(nil); len(runs) > 0; {
		hash := runs[0].next
		if last != nil && hash == *last {
			return mismatchError("streams", "each name once", "one twice")
		}
		last = &hash
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

// runReader is a sorted run in the file or in memory.
type runReader struct {
	file      *bufio.Reader
	remaining []nameHash
	next      nameHash
}

func (s *runReader) advance() (more bool, err error) {
	if s.file == nil {
		if more = len(s.remaining) > 0; more {
			s.next, s.remaining = s.remaining[0], s.remaining[1:]
		}
		return more, nil
	}
	_, err = io.ReadFull(s.file, s.next[:])
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	return err == nil, fileError(err)
}

// runHeap is a heap of runs, ordered by their next hash.
type runHeap []runReader

func (s runHeap) Len() int           { return len(s) }
func (s runHeap) Less(i, j int) bool { return compareHashes(s[i].next, s[j].next) < 0 }
func (s runHeap) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }
func (s *runHeap) Push(x any)        { *s = append(*s, x.(runReader)) }
func (s *runHeap) Pop() any {
	last := (*s)[len(*s)-1]
	*s = (*s)[:len(*s)-1]
	return last
}

func (l *streamChecker) close() {
	if l.file != nil {
		_ = l.file.Close()
		_ = os.Remove(l.file.Name())
	}
	*l = streamChecker{currentRun: l.currentRun[:0]}
}

// fileError wraps an error of the temporary file. If err is nil, it returns nil.
func fileError(err error) error {
	if err == nil {
		return nil
	}
	return problem.Wrap(problem.Unavailable, err, "a temporary file for the names of streams")
}
