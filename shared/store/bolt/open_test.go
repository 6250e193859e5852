package bolt_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/bolt"
)

func open(t testing.TB, path string, o bolt.Options) *bolt.Store {
	t.Helper()
	s, err := bolt.Open(path, o)
	if err != nil {
		t.Fatalf("Open() = %v, want nil", err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func fill(t testing.TB, s store.Store, name store.Stream, from, to int) {
	t.Helper()
	for p := from; p <= to; p++ {
		a := store.Append{Stream: name, Position: uint64(p), WriteID: store.WriteID{byte(p), 1}, Data: fmt.Append(nil, p)}
		if err := s.Commit(t.Context(), a); err != nil {
			t.Fatalf("Commit(row %d) = %v, want nil", p, err)
		}
	}
}

func TestANewFileIsItsOwnersAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "vacancy.db")
	open(t, path, bolt.Options{})
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o600 {
		t.Errorf("mode = %o, want 600", got)
	}
}

func TestAFileThatIsHeldIsRefusedSoon(t *testing.T) {
	path := filepath.Join(t.TempDir(), "vacancy.db")
	s := open(t, path, bolt.Options{})
	start := time.Now()
	_, err := bolt.Open(path, bolt.Options{})
	if !problem.Is(err, problem.Unavailable) || !strings.Contains(err.Error(), "another vacancy process") {
		t.Errorf("Open() = %v, want Unavailable that names another vacancy process", err)
	}
	t.Logf("refused after %v", time.Since(start))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, path, bolt.Options{})
}

func TestOpenRefusesOtherFiles(t *testing.T) {
	folder := t.TempDir()
	write := func(name string, b []byte) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	foreign := filepath.Join(folder, "foreign.db")
	db, err := bbolt.Open(foreign, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucket([]byte("somebody's"))
		return err
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	whole := filepath.Join(folder, "whole.db")
	s := open(t, whole, bolt.Options{})
	fill(t, s, "stream", 1, 200)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	meta := append([]byte{}, b...)
	clear(meta[:8192])
	for name, path := range map[string]string{
		"another's bbolt file": foreign,
		"text":                 write("text.db", []byte(strings.Repeat("not a data file\n", 2000))),
		"a few bytes":          write("short.db", []byte("short")),
		"no meta pages":        write("meta.db", meta),
		"cut after the metas":  write("cut.db", b[:8192]),
		"half a page more":     write("half.db", b[:10000]),
		"zeros":                write("zeros.db", make([]byte, 1<<16)),
	} {
		s, err := bolt.Open(path, bolt.Options{})
		if err == nil {
			// The rest of the file may open; it must not crash the process.
			_, err = s.Rows(t.Context(), "stream", 1, 1000, store.Ascending)
			_ = s.Close()
		} else if !strings.Contains(err.Error(), path) {
			t.Errorf("Open(%s) = %v, want %s named", name, err, path)
		}
		if !problem.Is(err, problem.Damaged) && !problem.Is(err, problem.Unavailable) {
			t.Errorf("Open(%s) = %v, want Damaged", name, err)
		}
	}
}

func TestAnotherFormatIsRefusedNamingBothAndNotChanged(t *testing.T) {
	for _, format := range []uint64{0, bolt.Format - 1, bolt.Format + 1, 42} {
		path := filepath.Join(t.TempDir(), "vacancy.db")
		s := open(t, path, bolt.Options{})
		fill(t, s, "stream", 1, 3)
		err := s.DB().Update(func(tx *bbolt.Tx) error {
			return tx.Bucket([]byte("meta")).Put([]byte("format"), binary.BigEndian.AppendUint64(nil, format))
		})
		if err := errors.Join(err, s.Close()); err != nil {
			t.Fatal(err)
		}
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		_, err = bolt.Open(path, bolt.Options{})
		want := fmt.Sprintf("has format %d, this vacancy reads format %d: ", format, bolt.Format)
		if !problem.Is(err, problem.Conflict) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "--data OTHER") && !strings.Contains(err.Error(), "the next start of the host upgrades it") {
			t.Errorf("Open() = %v, want Conflict that says %q", err, want)
		}
		after, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if string(before) != string(after) {
			t.Errorf("the refused file of format %d was changed", format)
		}
	}
}
