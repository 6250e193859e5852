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

// OldFormatError means that the file needs an upgrade, and that Options.Upgrade is nil.
type OldFormatError struct{ problem *problem.Error }

func (e *OldFormatError) Error() string { return e.problem.Error() }

func (e *OldFormatError) Unwrap() error { return e.problem }

func NewOldFormatError(format string, args ...any) error {
	return &OldFormatError{problem.New(problem.Conflict, format, args...)}
}

const earliestFormat = 2

// Limits of one transaction of an upgrade.
const (
	maxBatchEntries = 5000
	maxBatchBytes   = 4 << 20
)

// Upgrade contains the functions that Open calls while it upgrades a file of an earlier format.
//
// The first transaction sets the new format and stores an upgradeState. Each later transaction
// converts some entries and records its progress, because a document does not show whether it was
// converted. The caller may then upgrade the contents of documents, and calls
// [Store.FinishUpgrade].
type Upgrade struct {
	// BeforeFirstChange is called while the file is locked, so it can copy the file. If it returns an
	// error, Open fails.
	BeforeFirstChange func(from int) error
	// Progress is called with the number of upgraded entries. It may be nil.
	Progress func(entries int)
}

const (
	phaseNumbers byte = iota + 1
	phaseDocuments
	phaseDone
)

type upgradeState struct {
	fromFormat int
	phase      byte
	lastKey    []byte // last upgraded key of the phase
}

func (s *upgradeState) encode() []byte {
	return append(append(encodeNumber(uint64(s.fromFormat)), s.phase), s.lastKey...)
}

func parseUpgradeState(b []byte) (state upgradeState, ok bool) {
	if len(b) < 9 {
		return state, false
	}
	return upgradeState{int(parseNumber(b[:8])), b[8], bytes.Clone(b[9:])}, true
}

func upgradeFile(db *bbolt.DB, fromFormat int, u *Upgrade) error {
	if fromFormat < Format {
		if err := u.BeforeFirstChange(fromFormat); err != nil {
			return err
		}
		if err := db.Update(func(tx *bbolt.Tx) error { return beginUpgrade(tx, fromFormat) }); err != nil {
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
	state := upgradeState{fromFormat: from, phase: phaseDone}
	if from == 2 {
		state.phase = phaseNumbers
	}
	if err := createBuckets(tx); err != nil {
		return err
	}
	return tx.Bucket(metaBucket).Put(upgradeKey, state.encode())
}

func upgradeBatch(tx *bbolt.Tx) (n int, done bool, err error) {
	b := openBuckets(tx)
	state, ok := parseUpgradeState(b.meta.Get(upgradeKey))
	if !ok {
		return 0, true, damagedError("the state of the upgrade is truncated")
	}
	source, convert := b.numberByName, func(name, n []byte) error { return b.nameByNumber.Put(n, name) }
	switch state.phase {
	case phaseDocuments:
		b.documents.FillPercent = 0.9
		source, convert = b.documents, func(k, value []byte) error { return b.documents.Put(k, convertFormat2(value)) }
	case phaseDone:
		return 0, true, nil
	}
	var entries [][2][]byte // Put invalidates cursors and values
	c := source.Cursor()
	k, v := c.Seek(state.lastKey)
	if len(state.lastKey) > 0 && bytes.Equal(k, state.lastKey) {
		k, v = c.Next()
	}
	for size := 0; k != nil && len(entries) < maxBatchEntries && size < maxBatchBytes; k, v = c.Next() {
		entries = append(entries, [2][]byte{bytes.Clone(k), bytes.Clone(v)})
		size += len(k) + len(v)
	}
	if state.lastKey = nil; k == nil {
		state.phase++
	} else {
		state.lastKey = entries[len(entries)-1][0]
	}
	for _, e := range entries {
		if err := convert(e[0], e[1]); err != nil {
			return 0, false, err
		}
	}
	return len(entries), false, b.meta.Put(upgradeKey, state.encode())
}

// convertFormat2 converts a document of format 2, which stored documents without expiry in a
// shorter form. It returns damaged values unchanged, so that reads report them.
func convertFormat2(value []byte) []byte {
	const expiringFormat = 2 // first byte of a document that expires
	switch {
	case len(value) > 0 && value[0] == expiringFormat:
		return append([]byte{entryFormat}, value[1:]...)
	case len(value) > 0 && value[0] == entryFormat:
		if _, data, ok := parseDocumentHead(value[1:]); ok {
			return slices.Insert(bytes.Clone(value), len(value)-len(data), 0)
		}
	}
	return value
}

type Info struct {
	Format int // -1 for an empty file
	// UpgradeFrom is the format at which an incomplete upgrade began, or zero.
	UpgradeFrom int
	// VersionData is the argument of the last FinishUpgrade. It may be nil.
	VersionData []byte
	// Size is only set by Inspect.
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
	err = s.openDB(path, &bbolt.Options{Timeout: lockTimeout, ReadOnly: true})
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
	if info.Format, err = readFormat(db); err != nil || info.Format < 0 {
		return info, err
	}
	err = db.View(func(tx *bbolt.Tx) error {
		meta := tx.Bucket(metaBucket)
		state, _ := parseUpgradeState(meta.Get(upgradeKey))
		info.UpgradeFrom, info.VersionData = state.fromFormat, bytes.Clone(meta.Get(versionKey))
		return nil
	})
	return info, err
}

func (s *Store) BeginUpgrade() error {
	state := upgradeState{fromFormat: Format, phase: phaseDone}
	return s.updateMeta(func(meta *bbolt.Bucket) error { return meta.Put(upgradeKey, state.encode()) })
}

// FinishUpgrade marks the upgrade as complete.
func (s *Store) FinishUpgrade(versionData []byte) error {
	return s.updateMeta(func(meta *bbolt.Bucket) error {
		return errors.Join(meta.Delete(upgradeKey), meta.Put(versionKey, versionData))
	})
}

func (s *Store) updateMeta(change func(meta *bbolt.Bucket) error) error {
	id := 0
	err := s.db.Update(func(tx *bbolt.Tx) error {
		id = tx.ID()
		return change(tx.Bucket(metaBucket))
	})
	if err != nil {
		return problem.Wrap(problem.Unavailable, err, "cannot write %s: %v", s.db.Path(), err)
	}
	s.disk.markSynced(id)
	return syncDir(filepath.Dir(s.db.Path()))
}
