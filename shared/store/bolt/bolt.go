// Package bolt stores everything in one bbolt file, for a host with a single process. All data that
// Commit acknowledged or that a read returned is on disk.
//
// One goroutine, the committer, applies the queued commits in groups, and syncs the file once for
// each group. The rows of all streams are appended to one journal, and an index locates them. Rows
// keyed by stream would take three times as much CPU and twice as much disk space.
//
// The index entries of the last few thousand rows are only in memory (Store.recent). After a crash,
// Open completes the file's index from the journal. A reader ignores rows in memory that are not
// yet in its transaction, so the rows of one commit become visible together.
package bolt

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

const (
	// pageSize is fixed, so that a file can move between machines.
	pageSize = 4096
	// mmapHeadroom is the address space mapped beyond the end of the file, so that a growing file is
	// seldom remapped.
	mmapHeadroom       = 1 << 30
	defaultRecentLimit = 4096
	lockTimeout        = time.Second
)

type Options struct {
	// MaxSize is the size limit of the file in bytes. Zero means no limit. If a commit needs a larger
	// file, Commit returns ErrUnavailable.
	MaxSize int
	// If Upgrade is nil, Open rejects a file of an earlier format.
	Upgrade *Upgrade

	recentLimit int
	openFile    func(string, int, os.FileMode) (*os.File, error)
}

type Store struct {
	db            *bbolt.DB
	recentLimit   int
	queue         queue
	committerDone chan struct{}

	disk syncState

	// mu guards the fields up to groupMu. It is never held while waiting.
	mu     sync.RWMutex
	closed bool
	recent map[store.Stream]recentEntries
	// rollbackCount counts the groups that were published and rolled back.
	rollbackCount uint64

	// The committer holds groupMu during each group. A walk holds groupMu at its start and end.
	groupMu sync.Mutex
	views   []*view
}

// recentEntries lists the rows of a stream that are missing in the file's index: records[i] is the
// record of position firstPosition+i. The committer only appends to records, so a copy of the
// struct is a snapshot.
type recentEntries struct {
	streamNumber  uint64
	firstPosition uint64
	records       []uint64
}

func (r recentEntries) lastPosition() uint64 { return r.firstPosition + uint64(len(r.records)) - 1 }

// recordAt returns the record at a position, or 0.
func (r recentEntries) recordAt(position uint64) uint64 {
	if position < r.firstPosition || position-r.firstPosition >= uint64(len(r.records)) {
		return 0
	}
	return r.records[position-r.firstPosition]
}

func (r recentEntries) truncateAfter(record uint64) recentEntries {
	for n := len(r.records); n > 0 && r.records[n-1] > record; n-- {
		r.records = r.records[:n-1]
	}
	return r
}

// Open opens the file at path, or creates it. It does not change a file of a later format or a file
// locked by another process.
func Open(path string, o Options) (*Store, error) {
	s := &Store{recentLimit: o.recentLimit, committerDone: make(chan struct{}), recent: map[store.Stream]recentEntries{}}
	if s.recentLimit == 0 {
		s.recentLimit = defaultRecentLimit
	}
	if err := s.openPath(path, o); err != nil {
		return nil, err
	}
	s.disk.init()
	s.queue.init()
	if err := recoverPanic(func() error { return s.prepareFile(o.Upgrade) }); err != nil {
		err = withPath(err, path)
		return nil, errors.Join(err, s.closeFile(err))
	}
	go s.runCommitter()
	return s, nil
}

func (s *Store) prepareFile(u *Upgrade) error {
	// If a process was killed before its last sync, a power failure could still lose its last
	// transaction, or the name of a new file. Therefore sync both.
	if err := errors.Join(s.db.Sync(), syncDir(filepath.Dir(s.db.Path()))); err != nil {
		return problem.Wrap(problem.Unavailable, err, "cannot write %s", s.db.Path())
	}
	if err := checkFormat(s.db, u); err != nil {
		return err
	}
	isIndexBehind := false
	readState := func(tx *bbolt.Tx) error {
		b := openBuckets(tx)
		isIndexBehind = b.lastIndexedRecord() < b.journal.Sequence()
		s.disk.markSynced(tx.ID())
		return nil
	}
	if err := s.db.View(readState); err != nil || !isIndexBehind {
		return err
	}
	if err := s.db.Update(completeIndex); err != nil {
		return problem.Wrap(problem.Unavailable, err, "cannot write %s", s.db.Path())
	}
	return s.db.View(readState)
}

func (s *Store) openPath(path string, o Options) error {
	options := &bbolt.Options{
		Timeout:      lockTimeout,
		FreelistType: bbolt.FreelistMapType,
		PageSize:     pageSize,
		MaxSize:      o.MaxSize,
		NoStatistics: true,
		OpenFile:     o.openFile,
	}
	// On Windows the file would grow to the size of its mapping.
	if runtime.GOOS != "windows" && ^uint(0)>>63 == 1 {
		options.InitialMmapSize = mmapHeadroom
		if info, err := os.Stat(path); err == nil {
			options.InitialMmapSize += int(info.Size())
		}
	}
	return s.openDB(path, options)
}

func (s *Store) openDB(path string, options *bbolt.Options) error {
	err := recoverPanic(func() (err error) {
		s.db, err = bbolt.Open(path, 0o600, options)
		return err
	})
	switch {
	case err == nil:
		return nil
	case isPanic(err):
		return withPath(err, path)
	case errors.Is(err, bolterrors.ErrTimeout):
		return problem.Wrap(problem.Unavailable, err, "%s is in use by another vacancy process", path)
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrChecksum), errors.Is(err, bolterrors.ErrVersionMismatch):
		return problem.Wrap(problem.Damaged, err, "%s is not a data file of Vacancy, or is damaged", path)
	}
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return problem.Wrap(problem.Unavailable, err, "cannot open %s: %v; expected a file and a folder that this user can write", path, err)
	}
	return problem.Wrap(problem.Unavailable, err, "cannot open %s: %v", path, err)
}

// recoverPanic converts a panic of fn to an error. bbolt panics on invalid data, and a truncated
// file causes memory faults. fn must release locks with defer.
func recoverPanic(fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = problem.Wrap(problem.Damaged, panicError{r}, "the data file is damaged")
		}
	}()
	return fn()
}

func withPath(err error, path string) error {
	var p panicError
	if errors.As(err, &p) {
		return problem.Wrap(problem.Damaged, p, "%s is damaged or truncated", path)
	}
	return err
}

type panicError struct{ value any }

func (p panicError) Error() string { return fmt.Sprintf("panic: %v", p.value) }

func isPanic(err error) bool {
	var p panicError
	return errors.As(err, &p)
}

func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.queue.close()
	<-s.committerDone
	return s.closeFile(s.disk.err())
}

// closeFile closes the file unless err is a panic. After a panic, bbolt may still hold locks, and
// its Close could hang.
func (s *Store) closeFile(err error) error {
	if isPanic(err) {
		return nil
	}
	return s.db.Close()
}

func syncDir(path string) error {
	if runtime.GOOS == "windows" {
		return nil // Windows cannot sync directories
	}
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
