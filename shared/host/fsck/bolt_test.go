package fsck_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"

	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/bolt"
)

// file is a host's data file that tests damage.
type file struct {
	*caller
	path string
	tx   *bbolt.Tx
}

// record returns the offset of a row in the journal. See store/bolt/format.go.
func (f *file) record(s store.Stream, position uint64) []byte {
	f.Helper()
	number := f.tx.Bucket([]byte("names")).Get([]byte(s))
	at := f.tx.Bucket([]byte("index")).Get(binary.BigEndian.AppendUint64(bytes.Clone(number), position))
	if at == nil {
		f.Fatalf("row %d of %s is not in the index", position, s)
	}
	return bytes.Clone(at)
}

func (f *file) journal() *bbolt.Bucket { return f.tx.Bucket([]byte("journal")) }

func (f *file) read(s store.Stream, position uint64) []byte {
	return bytes.Clone(f.journal().Get(f.record(s, position)))
}

func (f *file) write(s store.Stream, position uint64, b []byte) {
	f.Helper()
	f.Must(f.journal().Put(f.record(s, position), b))
}

// headerSize is the size of a journal record's header, which precedes the row.
const header = 33

func TestDamageInADataFileIsFoundAndNamed(t *testing.T) {
	dir := t.TempDir()
	whole := filepath.Join(dir, "whole.db")
	a := story(t, openBolt(t, whole))
	a.Must(a.Store.Close())
	// The file is opened again, so that all rows are in its index.
	a.Must(openBolt(t, whole).Close())
	req, rsp := a.Pair().Requests(), a.Pair().Responses()

	for _, tc := range []struct {
		damage string
		do     func(f *file)
		want   []string
	}{
		{"flipped byte in a text", func(f *file) {
			b := f.read(req, 8)
			b[header+atBox+20] ^= 1
			f.write(req, 8, b)
		}, []string{"req 8: text"}},
		{"foreign signature", func(f *file) {
			b, other := f.read(req, 8), f.read(req, 6)
			copy(b[header+atSignature:header+atTime], other[header+atSignature:])
			f.write(req, 8, b)
		}, []string{"req 8: signature"}},
		{"wrong epoch", func(f *file) {
			b := f.read(req, 10)
			b[header+atEpoch] = 7
			f.write(req, 10, b)
		}, []string{"req 10: epoch"}},
		{"answer without request", func(f *file) {
			b := f.read(rsp, 12)
			b[header+atRequest] = 77
			f.write(rsp, 12, b)
		}, []string{"rsp 12: request"}},
		{"missing row", func(f *file) { f.Must(f.journal().Delete(f.record(req, 8))) }, []string{"req 8: row"}},
		{"row missing in the index", func(f *file) {
			number := f.tx.Bucket([]byte("names")).Get([]byte(req))
			f.Must(f.tx.Bucket([]byte("index")).Delete(binary.BigEndian.AppendUint64(bytes.Clone(number), 8)))
		}, []string{"req 8: position"}},
		{"swapped records", func(f *file) {
			x, y := f.read(req, 8), f.read(req, 6)
			f.write(req, 8, y)
			f.write(req, 6, x)
		}, []string{"req 6: row", "req 8: row"}},
		{"record of a newer format", func(f *file) {
			b := f.read(req, 8)
			b[0] = 200
			f.write(req, 8, b)
		}, []string{"req 8: row"}},
		{"record without bytes", func(f *file) { f.write(rsp, 6, nil) }, []string{"rsp 6: row"}},
		{"record of the last row cut short", func(f *file) { f.write(req, 16, f.read(req, 16)[:20]) }, []string{"req 16: row"}},
		{"index beyond the last row", func(f *file) {
			number := f.tx.Bucket([]byte("names")).Get([]byte(req))
			f.Must(f.tx.Bucket([]byte("index")).Put(binary.BigEndian.AppendUint64(bytes.Clone(number), 1<<40), f.record(req, 16)))
		}, []string{"req 17: row"}},
		{"name without bytes", func(f *file) {
			c := f.tx.Bucket([]byte("documents")).Cursor()
			for k, _ := c.First(); k != nil; k, _ = c.Next() {
				if bytes.HasSuffix(k, []byte("demo")) {
					f.Must(f.tx.Bucket([]byte("documents")).Put(bytes.Clone(k), nil))
					return
				}
			}
			f.Fatal("no document of the name")
		}, []string{"name/*: document", "name/demo: document"}},
	} {
		t.Run(tc.damage, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "vacancy.db")
			b, err := os.ReadFile(whole)
			a.Must(errors.Join(err, os.WriteFile(path, b, 0o600)))
			db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second})
			a.Must(err)
			a.Must(db.Update(func(tx *bbolt.Tx) error {
				tc.do(&file{caller: a, path: path, tx: tx})
				return nil
			}))
			a.Must(db.Close())

			s := openBolt(t, path)
			defer s.Close()
			_, found := a.check(s)
			got := short(a, found)
			slices.Sort(got)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Run() (-want +got):\n%s\n%v", diff, found)
			}
		})
	}
}

func openBolt(t testing.TB, path string) *bolt.Store {
	t.Helper()
	s, err := bolt.Open(path, bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
