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
// host could repeat pages forever, or list streams twice to hide the streams that it omits. The
// checker writes hashes of the names to disk in sorted runs, and merges the runs to find
// duplicates.
type streamChecker struct {
	currentRun []nameHash
	file       *os.File
	runCount   int64

	pagesSinceMark uint64
	mark           string // cursor of an earlier page (Brent's cycle detection)
	markInterval   uint64
}

type nameHash [16]byte

// hashesPerRun is the number of hashes in a run, which takes 1 MB.
const hashesPerRun = 64 << 10

// addPage adds a page of names. next is "" on the last page.
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
	// Every cycle of cursors is detected within three times its length.
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
		// Most systems unlink an open file, so that a crash leaves no file.
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

func fileError(err error) error {
	if err == nil {
		return nil
	}
	return problem.Wrap(problem.Unavailable, err, "cannot use a temporary file for the names of streams")
}
