// Package bolt stores everything in one bbolt file, for a host with a single process.
//
// Everything that Commit acknowledged or that a read returned is on disk. It survives kill -9 and,
// as far as fsync is reliable, a power failure.
//
// # The life of a row
//
// Commit copies the row into a record and queues it. One goroutine, the committer, takes a group of
// commits from the queue and checks the conditions of each in one transaction. It writes the
// records of the accepted commits, syncs once for the group, and acknowledges them. The next group
// gathers during the sync, so a commit is never delayed in order to fill a group.
//
// Records of all streams are appended to one journal. There, 64 rows of 64 pairs fill a dozen
// pages; keyed by stream, they would change 64 pages. The index locates the rows. The entries of
// the last few thousand rows are only in memory (Store.recent). When recent is full, the
// transaction that writes the next rows also moves recent into the file. After a crash, Open
// completes the file's index from the journal. In a test with 64 pairs and two rows of 900 bytes
// per call, rows keyed by pair and position cost 95 to 125 µs of CPU per call and 2.1 KB of disk
// per row. The journal costs a third of the CPU and 1.1 KB.
//
// A reader takes the stream's recent rows from memory, begins a transaction, and ignores records
// beyond the transaction. A row is added to memory before its transaction is visible, and removed
// from memory after its index entry is visible. Rows of one commit therefore become visible
// together. A reader also waits until its transaction is on disk (disk.go).
//
// # Measured and rejected
//
// Pages larger than 4 KB have no benefit. Not syncing the free list saves a tenth, but then every
// start reads the complete file. The method DB.Batch of bbolt delays commits to collect a group,
// and runs a group again if one of its commits is refused.
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
	// remapped only once per GiB.
	mmapHeadroom = 1 << 30
	// defaultRecentLimit is the default limit of rows that are missing in the file's index. At most
	// this many rows are read back at the start.
	defaultRecentLimit = 4096
	// lockTimeout limits the wait for another process's lock, for example if that process is just
	// ending.
	lockTimeout = time.Second
)

// Options are options of Open. The zero Options suit a host.
type Options struct {
	// MaxSize is the size limit of the file in bytes. If a commit needs a larger file, Commit returns
	// ErrUnavailable. Reads still succeed. Zero means no limit.
	MaxSize int
	// Upgrade upgrades a file of an earlier format. If it is nil, Open rejects such a file.
	Upgrade *Upgrade

	recentLimit int // defaultRecentLimit if zero
	openFile    func(string, int, os.FileMode) (*os.File, error)
}

// Store is an open file.
type Store struct {
	db            *bbolt.DB
	recentLimit   int // maximum number of recent rows
	queue         queue
	committerDone chan struct{} // closed when the committer has ended

	disk syncState

	// mu guards the fields up to groupMu. It is never held while waiting.
	mu     sync.RWMutex
	closed bool
	recent map[store.Stream]recentEntries
	// rollbackCount counts the groups that were published and rolled back.
	rollbackCount uint64

	// groupMu is held by the committer during each group, and by a walk at its start and end.
	groupMu sync.Mutex
	views   []*view
}

// recentEntries lists the rows of a stream that are missing in the file's index: records[i] is the
// record of position firstPosition+i. streamNumber is the stream's number in the file. The
// committer only appends to records, so a copy of the struct is a snapshot.
type recentEntries struct {
	streamNumber  uint64
	firstPosition uint64
	records       []uint64
}

func (r recentEntries) lastPosition() uint64 { return r.firstPosition + uint64(len(r.records)) - 1 }

// recordAt returns the record at a position, or 0 if r does not contain the position.
func (r recentEntries) recordAt(position uint64) uint64 {
	if position < r.firstPosition || position-r.firstPosition >= uint64(len(r.records)) {
		return 0
	}
	return r.records[position-r.firstPosition]
}

// truncateAfter returns r without the records after record. They are invisible to a reader whose
// transaction ends with record.
func (r recentEntries) truncateAfter(record uint64) recentEntries {
	for n := len(r.records); n > 0 && r.records[n-1] > record; n-- {
		r.records = r.records[:n-1]
	}
	return r
}

// Open opens the file at path, or creates it with mode 0600. It rejects a file of a later format
// and a file locked by another process, without changing them.
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
	// If a process was killed between its last write and the sync, its last transaction and the name
	// of a new file are readable, but a power failure would lose them. Therefore sync both.
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

// recoverPanic runs fn and converts a panic to an error. bbolt panics if it reads invalid data, and
// an access beyond the end of a truncated file is a memory fault. fn must release locks with defer.
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

// Close lets the committer finish the queue, waits for reads, and closes the file. Later reads of a
// running walk return ErrUnavailable.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.queue.close()
	<-s.committerDone
	return s.closeFile(s.disk.err())
}

// closeFile closes the file unless err, the earlier failure of the store, is a panic. After a
// panic, bbolt may still hold locks and its Close could hang, so the file stays open until the
// process ends.
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
