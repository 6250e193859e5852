// Package bolt stores everything in one bbolt file, for a host of one process.
//
// The invariant: what Commit acknowledged or a read returned is on disk, and
// survives kill -9 and, as far as fsync works, a power cut.
//
// # The life of a row
//
// Commit copies the row into a record and queues it. One goroutine, the
// committer, takes the whole queue, judges each commit against the transaction
// and earlier commits in the queue, writes the records of those that fit, syncs
// once for all, and then acknowledges. While it syncs, the next group gathers:
// no commit waits for others to join.
//
// Records of all streams are appended to one journal, so 64 rows of 64 pairs
// fill a dozen pages and do not touch 64. The
// index says where a row is: in memory for the last few thousand rows (recent),
// in the file for the others. When recent is full, the transaction that writes
// the next rows moves it into the file; after a crash it is read back from the
// journal. Measured with 64 pairs and two rows of 900 bytes a call: keyed by
// pair and position, rows cost 95 to 125 µs of CPU a call and 2.1 KB of disk
// each; this way a third of that, and 1.1 KB.
//
// A reader takes the stream's recent rows from memory, then begins a
// transaction, and uses no record beyond it. A row enters memory before its
// transaction is visible, and leaves memory after its index entry is visible, so
// rows written together become visible together. A reader also waits for a
// transaction that is not on disk yet (disk).
//
// # Measured and rejected
//
// Pages larger than 4 KB gain nothing. Not syncing the free list saves a tenth,
// but then every start reads the whole file. bbolt's own Batch waits for
// company, and runs a group again when one of it is refused.
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
	// headroom is address space mapped beyond the file, so that a growing file
	// is mapped again only once in so many bytes.
	headroom = 1 << 30
	// recentRows is the number of rows kept out of the file's index: at most so
	// many are read back at the start.
	recentRows = 4096
	// lockWait bounds the wait for another process's lock, as when one ends
	// while the next starts.
	lockWait = time.Second
)

// Options of Open; the zero Options suit a host.
type Options struct {
	// MaxSize, if not 0, bounds the file in bytes: beyond, Commit returns
	// ErrUnavailable, as with a full disk, and reads continue.
	MaxSize int
	// Upgrade, if set, upgrades a file of an earlier format. Without it, Open refuses such a file.
	Upgrade *Upgrade

	recentRows int // zero means the default
	openFile   func(string, int, os.FileMode) (*os.File, error)
}

// Store is an open file.
type Store struct {
	db    *bbolt.DB
	limit int // of recent rows
	queue queue
	ended chan struct{} // closed when the committer has ended

	disk disk

	// mu guards the fields below. It is never held while waiting.
	mu     sync.RWMutex
	closed bool
	recent map[store.Stream]recent
	// takenBack counts the groups that were published and then failed.
	takenBack uint64

	// groupMu is held by the committer during each group, and by a walk at its
	// begin and end.
	groupMu sync.Mutex
	views   []*view
}

// recent lists the rows of a stream that the file's index lacks: records[i] is the
// journal's record of position first+i. The committer only appends to records, so a
// copy of the struct is a stable view. number is the number that the file
// gives the stream.
type recent struct {
	number  uint64
	first   uint64
	records []uint64
}

func (r recent) last() uint64 { return r.first + uint64(len(r.records)) - 1 }

// record returns where the row at a position is, 0 if unknown.
func (r recent) record(position uint64) uint64 {
	if position < r.first || position-r.first >= uint64(len(r.records)) {
		return 0
	}
	return r.records[position-r.first]
}

// upTo returns r without the records after record, as a transaction sees it that
// ends with record.
func (r recent) upTo(record uint64) recent {
	for n := len(r.records); n > 0 && r.records[n-1] > record; n-- {
		r.records = r.records[:n-1]
	}
	return r
}

// Open opens the file at path, or makes it with mode 0600. A file of a later Format, and one that
// another process holds, is refused and not changed.
func Open(path string, o Options) (*Store, error) {
	s := &Store{limit: o.recentRows, ended: make(chan struct{}), recent: map[store.Stream]recent{}}
	if s.limit == 0 {
		s.limit = recentRows
	}
	if err := s.open(path, o); err != nil {
		return nil, err
	}
	s.disk.init()
	s.queue.init()
	if err := guarded(func() error { return s.prepare(o.Upgrade) }); err != nil {
		err = atPath(err, path)
		return nil, errors.Join(err, s.closeFile(err))
	}
	go s.run()
	return s, nil
}

// prepare brings an open file to the state in which commits can start.
func (s *Store) prepare(u *Upgrade) error {
	// A process that was killed between its last write and the sync left data
	// that is readable but can be lost in a power cut: the name of a new file,
	// and its last transaction.
	if err := errors.Join(s.db.Sync(), syncFolder(filepath.Dir(s.db.Path()))); err != nil {
		return problem.Wrap(problem.Unavailable, err, "cannot write %s", s.db.Path())
	}
	if err := checkFormat(s.db, u); err != nil {
		return err
	}
	behind := false
	look := func(tx *bbolt.Tx) error {
		b := openBuckets(tx)
		behind = b.indexed() < b.journal.Sequence()
		s.disk.reached(tx.ID())
		return nil
	}
	if err := s.db.View(look); err != nil || !behind {
		return err
	}
	if err := s.db.Update(catchUp); err != nil {
		return problem.Wrap(problem.Unavailable, err, "cannot write %s", s.db.Path())
	}
	return s.db.View(look)
}

func (s *Store) open(path string, o Options) error {
	options := &bbolt.Options{
		Timeout:      lockWait,
		FreelistType: bbolt.FreelistMapType,
		PageSize:     pageSize,
		MaxSize:      o.MaxSize,
		NoStatistics: true,
		OpenFile:     o.openFile,
	}
	// On Windows the file would be as large as its map.
	if runtime.GOOS != "windows" && ^uint(0)>>63 == 1 {
		options.InitialMmapSize = headroom
		if info, err := os.Stat(path); err == nil {
			options.InitialMmapSize += int(info.Size())
		}
	}
	return s.openFile(path, options)
}

func (s *Store) openFile(path string, options *bbolt.Options) error {
	err := guarded(func() (err error) {
		s.db, err = bbolt.Open(path, 0o600, options)
		return err
	})
	switch {
	case err == nil:
		return nil
	case isPanic(err):
		return atPath(err, path)
	case errors.Is(err, bolterrors.ErrTimeout):
		return problem.Wrap(problem.Unavailable, err, "%s is held by another vacancy process", path)
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrChecksum), errors.Is(err, bolterrors.ErrVersionMismatch):
		return problem.Wrap(problem.Damaged, err, "%s is not a data file of Vacancy, or is damaged", path)
	}
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return problem.Wrap(problem.Unavailable, err, "cannot open %s: %v; expected a file and a folder that this user can write", path, err)
	}
	return problem.Wrap(problem.Unavailable, err, "cannot open %s: %v", path, err)
}

// guarded runs fn and turns its panic into an error: bbolt asserts what it
// reads, and the map of a truncated file faults. fn must release locks with
// defer.
func guarded(fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = problem.Wrap(problem.Damaged, panicked{r}, "the data file is damaged")
		}
	}()
	return fn()
}

// atPath adds the file's path to a panic at opening.
func atPath(err error, path string) error {
	var p panicked
	if errors.As(err, &p) {
		return problem.Wrap(problem.Damaged, p, "%s is damaged, or was cut short", path)
	}
	return err
}

type panicked struct{ value any }

func (p panicked) Error() string { return fmt.Sprintf("panic: %v", p.value) }

func isPanic(err error) bool {
	var p panicked
	return errors.As(err, &p)
}

// Close lets the committer finish the queue, waits for reads, and closes the
// file. Later reads of a running walk return ErrUnavailable.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.queue.close()
	<-s.ended
	return s.closeFile(s.disk.fault())
}

// closeFile closes the file after err. After a panic bbolt's locks may be held
// and its Close would hang: then the file stays open until the process ends.
func (s *Store) closeFile(err error) error {
	if isPanic(err) {
		return nil
	}
	return s.db.Close()
}

func syncFolder(path string) error {
	if runtime.GOOS == "windows" {
		return nil // directories cannot be synced there
	}
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
