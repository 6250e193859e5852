package bolt

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

// steps bring a file from one format to the next: step i from format i. A step
// may need several transactions; the last one sets the format, and until then
// the step can be begun again.
var steps = [Format]func(*bbolt.DB) error{journalRows}

// upgrade brings a file to this Format. A file without anything in it is new.
func upgrade(db *bbolt.DB) error {
	format, err := formatOf(db)
	if err != nil {
		return err
	}
	if format > Format {
		return problem.New(problem.Conflict, "%s has format %d, this vacancy knows formats up to %d: use a newer vacancy", db.Path(), format, Format)
	}
	if format == Format {
		return nil
	}
	if format >= 0 {
		if err := backup(db, format); err != nil {
			return problem.Wrap(problem.Unavailable, err, "cannot copy %s before its upgrade", db.Path())
		}
	}
	for ; format >= 0 && format < Format; format++ {
		if err := steps[format](db); err != nil {
			return problem.Wrap(problem.Unavailable, err, "cannot upgrade %s from format %d", db.Path(), format)
		}
	}
	if err := db.Update(makeBuckets); err != nil {
		return problem.Wrap(problem.Unavailable, err, "cannot write %s", db.Path())
	}
	return nil
}

// formatOf reads a file's format; -1 if it is empty.
func formatOf(db *bbolt.DB) (format int, err error) {
	err = db.View(func(tx *bbolt.Tx) error {
		if k, _ := tx.Cursor().First(); k == nil {
			format = -1
			return nil
		}
		if b := tx.Bucket(metaBucket); b != nil && len(b.Get(formatKey)) == 8 {
			format = int(min(parseNumber(b.Get(formatKey)), math.MaxInt32))
			return nil
		}
		return problem.New(problem.Damaged, "%s is not a vacancy data file, or is damaged", db.Path())
	})
	return format, err
}

func makeBuckets(tx *bbolt.Tx) error {
	for _, name := range [][]byte{metaBucket, journalBucket, namesBucket, indexBucket, documentsBucket, listedBucket} {
		if _, err := tx.CreateBucketIfNotExists(name); err != nil {
			return err
		}
	}
	return tx.Bucket(metaBucket).Put(formatKey, number(Format))
}

// backup copies the file to <file>.v<N>.bak, which is there whole or not at
// all. After an upgrade that was interrupted it is made again: what a step has
// written until then stands beside the old rows and changes none of them.
func backup(db *bbolt.DB, format int) error {
	path := fmt.Sprintf("%s.v%d.bak", db.Path(), format)
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	err = db.View(func(tx *bbolt.Tx) error {
		_, err := tx.WriteTo(f)
		return err
	})
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncFolder(filepath.Dir(path))
}

// Format 0 kept the rows by stream and position in one bucket: the stream's
// name after its length, the position; the attempt, the data. Documents were
// as they are now.
var rowsBucket0 = []byte("rows")

// upgradeRows is how many rows one transaction of an upgrade moves.
const upgradeRows = 10_000

// journalRows is the step from format 0. It writes the new buckets beside the
// old one, which goes with the last transaction.
func journalRows(db *bbolt.DB) error {
	if err := db.Update(restart0); err != nil {
		return err
	}
	next := []byte{}
	for next != nil {
		err := db.Update(func(tx *bbolt.Tx) (err error) {
			next, err = moveRows0(tx, next)
			return err
		})
		if err != nil {
			return err
		}
	}
	return db.Update(func(tx *bbolt.Tx) error {
		if err := catchUp(tx); err != nil {
			return err
		}
		if err := tx.DeleteBucket(rowsBucket0); err != nil {
			return err
		}
		return tx.Bucket(metaBucket).Put(formatKey, number(1))
	})
}

// restart0 throws away what an interrupted step left.
func restart0(tx *bbolt.Tx) error {
	for _, name := range [][]byte{journalBucket, namesBucket, indexBucket} {
		if err := tx.DeleteBucket(name); err != nil && !errors.Is(err, bolterrors.ErrBucketNotFound) {
			return err
		}
		if _, err := tx.CreateBucket(name); err != nil {
			return err
		}
	}
	return tx.Bucket(metaBucket).Delete(indexedKey)
}

// moveRows0 moves some rows from a key on and returns the key to go on from,
// nil after the last.
func moveRows0(tx *bbolt.Tx, from []byte) (next []byte, err error) {
	b := openBuckets(tx)
	g := &group{buckets: b, s: &Store{}, record: b.journal.Sequence(), ends: map[store.Stream]*end{}}
	b.journal.FillPercent = 1
	c := tx.Bucket(rowsBucket0).Cursor()
	moved := 0
	for k, v := c.Seek(from); k != nil; k, v = c.Next() {
		if moved == upgradeRows {
			next = append([]byte{}, k...)
			break
		}
		a, err := parseRow0(k, v)
		if err != nil {
			return nil, err
		}
		if err := g.append(a, newRecord(a)); err != nil {
			return nil, err
		}
		moved++
	}
	return next, b.journal.SetSequence(g.record)
}

func parseRow0(k, v []byte) (a store.Append, err error) {
	if len(k) < 2 || len(v) < 16 {
		return a, damaged("%q is no row", k)
	}
	n := int(k[0])<<8 | int(k[1])
	if len(k) != 2+n+8 {
		return a, damaged("%q is no row", k)
	}
	return store.Append{Stream: store.Stream(k[2 : 2+n]), Position: parseNumber(k[2+n:]),
		WriteID: store.WriteID(v[:16]), Data: v[16:]}, nil
}
