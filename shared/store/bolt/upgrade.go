package bolt

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// OldFormatError is the error of Open for a file of an earlier format or with an incomplete upgrade,
// if Options.Upgrade is nil.
type OldFormatError struct{ problem *problem.Error }

func (e *OldFormatError) Error() string { return e.problem.Error() }

func (e *OldFormatError) Unwrap() error { return e.problem }

func NewEarlierError(format string, args ...any) error {
	return &OldFormatError{problem.New(problem.Conflict, format, args...)}
}

// earliestFormat is the earliest format that can be upgraded.
const earliestFormat = 2

// Limits of a transaction of an upgrade.
const (
	batchEntries = 5000
	batchBytes   = 4 << 20
)

// Upgrade contains the functions that Open calls while it upgrades a file of an earlier format.
//
// Rows keep their encoding. Format 2 stored documents without expiry in a shorter form, and its
// first version had no numbersBucket. The first transaction sets the new format, which earlier
// programs reject, and a mark that records the progress. Each later transaction changes some entries
// and moves the mark, because a document of format 2 is indistinguishable from one of format 3. The
// mark remains until [Store.FinishUpgrade] is called, so that the caller can first upgrade the
// contents of documents.
type Upgrade struct {
	// Begin is called before the first change of the file. If it returns an error, Open fails. The
	// file is locked, so Begin can copy it.
	Begin func(from int) error
	// Progress is called with the number of entries that this process has upgraded. It may be nil.
	Progress func(entries int)
}

// Phases of an upgrade.
const (
	phaseNumbers byte = iota + 1
	phaseDocuments
	phaseDone // all entries are upgraded
)

// mark is the persistent state of an upgrade.
type mark struct {
	from  int    // format before the upgrade
	phase byte   // current phase
	last  []byte // last key that the current phase has upgraded
}

func (m *mark) bytes() []byte {
	return append(append(number(uint64(m.from)), m.phase), m.last...)
}

func parseMark(b []byte) (m mark, ok bool) {
	if len(b) < 9 {
		return m, false
	}
	return mark{int(parseNumber(b[:8])), b[8], bytes.Clone(b[9:])}, true
}

// upgrade upgrades a file of format from, or resumes an interrupted upgrade.
func upgrade(db *bbolt.DB, from int, u *Upgrade) error {
	if from < Format {
		if err := u.Begin(from); err != nil {
			return err
		}
		if err := db.Update(func(tx *bbolt.Tx) error { return beginUpgrade(tx, from) }); err != nil {
			return upgradeError(db, err)
		}
	}
	for entries, done := 0, false; !done; {
		n := 0
		err := db.Update(func(tx *bbolt.Tx) (err error) {
			n, done, err = upgradeBatch(tx)
			return err
		})
		if err != nil {
			return upgradeError(db, err)
		}
		if entries += n; u.Progress != nil && n > 0 {
			u.Progress(entries)
		}
	}
	return nil
}

func upgradeError(db *bbolt.DB, err error) error {
	return problem.Wrap(problem.Unavailable, err, "the upgrade of %s was interrupted: %v; the next start continues it", db.Path(), err)
}

func beginUpgrade(tx *bbolt.Tx, from int) error {
	m := mark{from: from, phase: phaseDone}
	if from == 2 {
		m.phase = phaseNumbers
	}
	if err := makeBuckets(tx); err != nil {
		return err
	}
	return tx.Bucket(metaBucket).Put(upgradeKey, m.bytes())
}

func upgradeBatch(tx *bbolt.Tx) (n int, done bool, err error) {
	b := openBuckets(tx)
	m, ok := parseMark(b.meta.Get(upgradeKey))
	if !ok {
		return 0, true, damagedError("the mark of its upgrade is incomplete")
	}
	from, change := b.names, func(name, n []byte) error { return b.numbers.Put(n, name) }
	switch m.phase {
	case phaseDocuments:
		b.documents.FillPercent = 0.9
		from, change = b.documents, func(k, value []byte) error { return b.documents.Put(k, fromFormat2(value)) }
	case phaseDone:
		return 0, true, nil
	}
	var entries [][2][]byte // Put invalidates cursors and values
	c := from.Cursor()
	k, v := c.Seek(m.last)
	if len(m.last) > 0 && bytes.Equal(k, m.last) {
		k, v = c.Next()
	}
	for size := 0; k != nil && len(entries) < batchEntries && size < batchBytes; k, v = c.Next() {
		entries = append(entries, [2][]byte{bytes.Clone(k), bytes.Clone(v)})
		size += len(k) + len(v)
	}
	if m.last = nil; k == nil {
		m.phase++
	} else {
		m.last = entries[len(entries)-1][0]
	}
	for _, e := range entries {
		if err := change(e[0], e[1]); err != nil {
			return 0, false, err
		}
	}
	return len(entries), false, b.meta.Put(upgradeKey, m.bytes())
}

// fromFormat2 converts an encoded document of format 2 to the current format. It returns damaged
// values unchanged, so that reads report them.
func fromFormat2(value []byte) []byte {
	const expires = 2 // first byte of a document that expires
	switch {
	case len(value) > 0 && value[0] == expires:
		return append([]byte{rowFormat}, value[1:]...)
	case len(value) > 0 && value[0] == rowFormat:
		if _, data, ok := parseDocumentHead(value[1:]); ok {
			return slices.Insert(bytes.Clone(value), len(value)-len(data), 0)
		}
	}
	return value
}

// Info describes a file.
type Info struct {
	Format int // -1 for an empty file
	// From is the format at which an incomplete upgrade began. Zero means that no upgrade is incomplete.
	From int
	// About is the value that was passed to the last FinishUpgrade. It may be nil.
	About []byte
	// Size is the size of the file. Only Inspect sets it.
	Size int64
}

// Inspect reads the Info of a file of any format, without changing the file.
func Inspect(path string) (info Info, err error) {
	stat, err := os.Stat(path)
	if err != nil {
		return info, problem.Wrap(problem.Unavailable, err, "cannot open %s: %v", path, err)
	}
	if stat.Size() == 0 {
		return Info{Format: -1}, nil
	}
	s := Store{}
	err = s.openFile(path, &bbolt.Options{Timeout: lockWait, ReadOnly: true})
	if err != nil {
		return info, err
	}
	err = recoverPanic(func() (err error) {
		info, err = readInfo(s.db)
		return err
	})
	info.Size = stat.Size()
	return info, errors.Join(withPath(err, path), s.closeFile(err))
}

func (s *Store) Info() (Info, error) { return readInfo(s.db) }

func readInfo(db *bbolt.DB) (info Info, err error) {
	if info.Format, err = formatOf(db); err != nil || info.Format < 0 {
		return info, err
	}
	err = db.View(func(tx *bbolt.Tx) error {
		meta := tx.Bucket(metaBucket)
		m, _ := parseMark(meta.Get(upgradeKey))
		info.From, info.About = m.from, bytes.Clone(meta.Get(aboutKey))
		return nil
	})
	return info, err
}

// BeginUpgrade marks a file of the current format as being upgraded, for a caller that is going to
// change the contents of documents.
func (s *Store) BeginUpgrade() error {
	m := mark{from: Format, phase: phaseDone}
	return s.setMeta(func(meta *bbolt.Bucket) error { return meta.Put(upgradeKey, m.bytes()) })
}

// FinishUpgrade marks the upgrade as complete and stores about as Info.About.
func (s *Store) FinishUpgrade(about []byte) error {
	return s.setMeta(func(meta *bbolt.Bucket) error {
		return errors.Join(meta.Delete(upgradeKey), meta.Put(aboutKey, about))
	})
}

func (s *Store) setMeta(change func(meta *bbolt.Bucket) error) error {
	id := 0
	err := s.db.Update(func(tx *bbolt.Tx) error {
		id = tx.ID()
		return change(tx.Bucket(metaBucket))
	})
	if err != nil {
		return problem.Wrap(problem.Unavailable, err, "cannot write %s: %v", s.db.Path(), err)
	}
	s.disk.markSynced(id)
	return syncFolder(filepath.Dir(s.db.Path()))
}
