package bolt

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

// toFormat2 returns the value of a document as format 2 stored it.
func toFormat2(value []byte) []byte {
	_, rest, ok := parseDocumentHead(value[1:])
	if !ok {
		return value
	}
	if rest[0] == 0 {
		return slices.Delete(slices.Clone(value), len(value)-len(rest), len(value)-len(rest)+1)
	}
	return append([]byte{2}, value[1:]...)
}

// makeFormat turns a file of today into one of an earlier format.
func makeFormat(t testing.TB, path string, format int) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second, NoSync: true})
	must(t, err)
	err = db.Update(func(tx *bbolt.Tx) error {
		b := openBuckets(tx)
		if format == 2 {
			values := map[string][]byte{}
			if err := b.documents.ForEach(func(k, v []byte) error { values[string(k)] = toFormat2(v); return nil }); err != nil {
				return err
			}
			for k, v := range values {
				if err := b.documents.Put([]byte(k), v); err != nil {
					return err
				}
			}
			if err := tx.DeleteBucket(nameByNumberBucket); err != nil {
				return err
			}
			if k, _ := b.expiry.Cursor().First(); k == nil {
				if err := tx.DeleteBucket(expiryBucket); err != nil {
					return err
				}
			}
		}
		return errors.Join(b.meta.Put(formatKey, encodeNumber(uint64(format))), b.meta.Delete(versionKey), b.meta.Delete(upgradeKey))
	})
	must(t, errors.Join(err, db.Sync(), db.Close()))
}

// oldFile makes a file of an earlier format with documents of all forms and rows of several streams, and
// returns its documents and rows.
func oldFile(t testing.TB, format, documents int) (path string, docs []store.Doc, rows map[store.Stream][]store.Row) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "vacancy.db")
	s, err := Open(path, Options{})
	must(t, err)
	s.db.NoSync = true
	rows = map[store.Stream][]store.Row{}
	for i := range 50 {
		name := store.Stream(fmt.Sprintf("stream %d", i%7))
		a := row(name, uint64(i/7)+1)
		must(t, s.Commit(t.Context(), a))
		rows[name] = append(rows[name], store.Row{Position: a.Position, WriteID: a.WriteID, Data: a.Data})
	}
	for first := 0; first < documents; first += store.MaxWrites {
		var writes []store.Write
		for i := first; i < min(first+store.MaxWrites, documents); i++ {
			p := store.Put{Key: store.Key{Partition: fmt.Sprint("p", i%13), Sort: fmt.Sprintf("%06d", i)}, WriteID: store.WriteID{1, byte(i), byte(i >> 8)}, Data: []byte(strings.Repeat("x", i%40)), Number: int64(i%5 - 2)}
			if i%3 == 0 {
				p.Index = store.Key{Partition: "index", Sort: fmt.Sprint(i)}
			}
			if i%4 == 0 {
				p.Expires = time.Unix(int64(1e9+i), 0).UTC()
			}
			writes = append(writes, p)
		}
		must(t, s.Commit(t.Context(), writes...))
	}
	docs = allDocs(t, s)
	s.db.NoSync = false
	must(t, s.Close())
	makeFormat(t, path, format)
	return path, docs, rows
}

func allDocs(t testing.TB, s *Store) (docs []store.Doc) {
	t.Helper()
	for i := range 13 {
		for d, err := range store.Documents(t.Context(), s, store.Range{Partition: fmt.Sprint("p", i)}) {
			if err != nil {
				t.Fatal(err)
			}
			docs = append(docs, d)
		}
	}
	return docs
}

var noBegin = &Upgrade{BeforeFirstChange: func(int) error { return nil }}

// wantUpgraded checks that a file has all documents and rows, takes writes, and finds streams by number.
func wantUpgraded(t *testing.T, path string, docs []store.Doc, rows map[store.Stream][]store.Row) {
	t.Helper()
	s, err := Open(path, Options{Upgrade: noBegin})
	must(t, err)
	defer s.Close()
	if got := allDocs(t, s); !reflect.DeepEqual(docs, got) {
		t.Errorf("documents (-want +got):\n%s", cmp.Diff(docs, got))
	}
	for name, want := range rows {
		got, err := s.Rows(t.Context(), name, 1, 100, store.Ascending)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("rows of %s: %v (-want +got):\n%s", name, err, diff)
		}
	}
	if err := s.Commit(t.Context(), row("stream 1", uint64(len(rows["stream 1"])+1)), row("new", 1)); err != nil {
		t.Error(err)
	}
	err = s.db.View(func(tx *bbolt.Tx) error {
		b := openBuckets(tx)
		return b.numberByName.ForEach(func(name, n []byte) error {
			if got := b.nameByNumber.Get(n); string(got) != string(name) {
				t.Errorf("stream %x is %q, want %q", n, got, name)
			}
			return nil
		})
	})
	if err != nil {
		t.Error(err)
	}
	expired, err := s.DeleteExpired(t.Context(), time.Unix(1e9, 0), 10)
	if err != nil || expired != 1 {
		t.Errorf("DeleteExpired() = %d, %v, want the document that is due", expired, err)
	}
}

func TestAFileOfAnEarlierFormatIsUpgraded(t *testing.T) {
	for _, format := range []int{2, 3} {
		path, docs, rows := oldFile(t, format, 300)
		begun := 0
		s, err := Open(path, Options{Upgrade: &Upgrade{BeforeFirstChange: func(from int) error { begun = from; return nil }}})
		if err != nil || begun != format {
			t.Fatalf("Open(format %d) = %v, began from %d", format, err, begun)
		}
		if info, err := s.Info(); err != nil || info.Format != Format || info.UpgradeFrom != format {
			t.Errorf("Info() = %+v, %v", info, err)
		}
		must(t, s.Close())
		if _, err := Open(path, Options{}); !problem.Is(err, problem.Conflict) || !strings.Contains(err.Error(), "is incomplete") {
			t.Errorf("Open() before Upgraded = %v", err)
		}
		s, err = Open(path, Options{Upgrade: &Upgrade{BeforeFirstChange: func(int) error { return errors.New("begun twice") }}})
		must(t, err)
		must(t, errors.Join(s.FinishUpgrade([]byte("about")), s.Close()))
		if info, err := Inspect(path); err != nil || info.UpgradeFrom != 0 || string(info.VersionData) != "about" {
			t.Errorf("Inspect() = %+v, %v", info, err)
		}
		wantUpgraded(t, path, docs, rows)
	}
}

// A process that is killed leaves the file as one of its commits left it.
func TestAnUpgradeGoesOnAfterEachOfItsCommits(t *testing.T) {
	path, docs, rows := oldFile(t, 2, 12_000)
	old, err := os.ReadFile(path)
	must(t, err)
	killed := errors.New("killed")
	for n := 1; ; n++ {
		must(t, os.WriteFile(path, old, 0o600))
		calls := 0
		err := func() (err error) {
			defer func() {
				if r := recover(); r != nil {
					err = killed
				}
			}()
			db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second})
			if err != nil {
				return err
			}
			defer db.Close()
			return upgradeFile(db, 2, &Upgrade{BeforeFirstChange: noBegin.BeforeFirstChange, Progress: func(int) {
				if calls++; calls == n {
					panic(killed)
				}
			}})
		}()
		if err != nil && !errors.Is(err, killed) {
			t.Fatal(err)
		}
		wantUpgraded(t, path, docs, rows)
		if err == nil {
			if n < 4 {
				t.Errorf("the upgrade has %d commits, want several", n)
			}
			return
		}
	}
}

func TestAFullDiskStopsAnUpgradeWhichGoesOnLater(t *testing.T) {
	path, docs, rows := oldFile(t, 2, 12_000)
	var file *os.File
	_, err := Open(path, Options{
		openFile: func(name string, flag int, mode os.FileMode) (_ *os.File, err error) {
			file, err = os.OpenFile(name, flag, mode)
			return file, err
		},
		// Every later write fails, and the memory map stays.
		Upgrade: &Upgrade{BeforeFirstChange: noBegin.BeforeFirstChange, Progress: func(int) { _ = file.Close() }},
	})
	if !problem.Is(err, problem.Unavailable) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "the next start continues it") {
		t.Errorf("Open() = %v, want that the next start goes on", err)
	}
	wantUpgraded(t, path, docs, rows)
}

func TestAReadOnlyFileIsRefused(t *testing.T) {
	path, _, _ := oldFile(t, 2, 10)
	for _, cause := range []error{syscall.EACCES, syscall.EROFS} {
		_, err := Open(path, Options{Upgrade: noBegin, openFile: func(string, int, os.FileMode) (*os.File, error) {
			return nil, &os.PathError{Op: "open", Path: path, Err: cause}
		}})
		if !problem.Is(err, problem.Unavailable) || !strings.Contains(err.Error(), "expected a file and a folder that this user can write") {
			t.Errorf("Open() = %v, want that the file cannot be written", err)
		}
	}
}

// upgradeEnv, if set, makes the test binary upgrade that file.
const upgradeEnv = "VACANCY_TEST_BOLT_UPGRADE"

func init() {
	if path := os.Getenv(upgradeEnv); path != "" {
		_, err := Open(path, Options{Upgrade: &Upgrade{BeforeFirstChange: noBegin.BeforeFirstChange, Progress: func(n int) { fmt.Println(n) }}})
		fmt.Println(err)
		os.Exit(0)
	}
}

func TestAnUpgradeSurvivesKill9(t *testing.T) {
	path, docs, rows := oldFile(t, 2, 12_000)
	old, err := os.ReadFile(path)
	must(t, err)
	for n := range 5 { // killed after the n-th line, at some place of the next commit
		must(t, os.WriteFile(path, old, 0o600))
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), upgradeEnv+"="+path)
		out, err := child.StdoutPipe()
		if err == nil {
			err = child.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for range n {
			lines.Scan()
		}
		time.Sleep(time.Duration(n) * time.Millisecond)
		_ = child.Process.Kill()
		_ = child.Wait()
		wantUpgraded(t, path, docs, rows)
	}
}

func TestARefusedBeginChangesNothing(t *testing.T) {
	path, _, _ := oldFile(t, 2, 10)
	before, err := os.ReadFile(path)
	must(t, err)
	no := errors.New("no copy")
	if _, err := Open(path, Options{Upgrade: &Upgrade{BeforeFirstChange: func(int) error { return no }}}); !errors.Is(err, no) {
		t.Errorf("Open() = %v, want the error of Begin", err)
	}
	if info, err := Inspect(path); err != nil || info.Format != 2 {
		t.Errorf("Inspect() = %+v, %v", info, err)
	}
	after, err := os.ReadFile(path)
	if err != nil || string(after) != string(before) {
		t.Errorf("the file changed, %v", err)
	}
}

func TestADamagedDocumentOfFormat2StaysDamaged(t *testing.T) {
	path, docs, _ := oldFile(t, 2, 30)
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second})
	must(t, err)
	err = db.Update(func(tx *bbolt.Tx) error {
		return errors.Join(tx.Bucket(documentsBucket).Put(documentKey(docs[0].Key), []byte{1, 2}), tx.Bucket(documentsBucket).Put(documentKey(docs[1].Key), []byte{9}))
	})
	must(t, errors.Join(err, db.Close()))
	s, err := Open(path, Options{Upgrade: noBegin})
	must(t, err)
	defer s.Close()
	for i, want := range []problem.Kind{problem.Damaged, problem.Damaged} {
		if _, err := s.Doc(t.Context(), docs[i].Key); !problem.Is(err, want) {
			t.Errorf("Doc(%s) = %v, want damage", docs[i].Key, err)
		}
	}
	if d, err := s.Doc(t.Context(), docs[2].Key); err != nil || !cmp.Equal(d, docs[2]) {
		t.Errorf("Doc() = %+v, %v, want %+v", d, err, docs[2])
	}
}

func TestInspectReadsWithoutChange(t *testing.T) {
	dir := t.TempDir()
	empty, other := filepath.Join(dir, "empty"), filepath.Join(dir, "other")
	for path, data := range map[string]string{empty: "", other: strings.Repeat("no data file", 1000)} {
		must(t, os.WriteFile(path, []byte(data), 0o400))
	}
	if info, err := Inspect(empty); err != nil || info.Format != -1 {
		t.Errorf("Inspect(empty) = %+v, %v", info, err)
	}
	if _, err := Inspect(other); !problem.Is(err, problem.Damaged) || !strings.Contains(err.Error(), other) {
		t.Errorf("Inspect(other) = %v, want damage that names it", err)
	}
	if _, err := Inspect(filepath.Join(dir, "none")); err == nil {
		t.Error("Inspect() of a missing file succeeds")
	}
	path, _, _ := oldFile(t, 2, 10)
	s, err := Open(path, Options{Upgrade: noBegin})
	must(t, err)
	defer s.Close()
	if _, err := Inspect(path); !problem.Is(err, problem.Unavailable) || !strings.Contains(err.Error(), "another vacancy process") {
		t.Errorf("Inspect() of an open file = %v", err)
	}
}

// A million rows of 100,000 streams, and 200,000 documents.
func BenchmarkUpgradeOfAMillionRows(b *testing.B) {
	path := filepath.Join(b.TempDir(), "vacancy.db")
	s, err := Open(path, Options{})
	if err != nil {
		b.Fatal(err)
	}
	const streams, perStream, documents = 100_000, 10, 200_000
	data := make([]byte, 900)
	s.db.NoSync = true
	var group []*request
	flush := func() {
		if _, err := s.commitGroup(group); err != nil {
			b.Fatal(err)
		}
		group = nil
	}
	for i := range streams {
		var name [8]byte
		binary.BigEndian.PutUint64(name[:], uint64(i)*0x9e3779b97f4a7c15)
		for p := 1; p <= perStream; p++ {
			group = append(group, newRequest([]store.Write{store.Append{Stream: store.Stream(fmt.Sprintf("req#%x", name)), Position: uint64(p), WriteID: store.WriteID{1}, Data: data}}))
		}
		if len(group) >= 20_000 {
			flush()
		}
	}
	for i := range documents {
		group = append(group, newRequest([]store.Write{store.Put{Key: store.Key{Partition: fmt.Sprint("v#", i), Sort: "record"}, WriteID: store.WriteID{1}, Data: data}}))
		if len(group) >= 20_000 {
			flush()
		}
	}
	flush()
	s.db.NoSync = false
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second, NoSync: true})
	if err != nil {
		b.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		return errors.Join(tx.DeleteBucket(nameByNumberBucket), tx.Bucket(metaBucket).Put(formatKey, encodeNumber(2)))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		b.Fatal(err)
	}
	runtime.GC()
	var most uint64
	began := time.Now()
	s, err = Open(path, Options{Upgrade: &Upgrade{BeforeFirstChange: noBegin.BeforeFirstChange, Progress: func(int) {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		most = max(most, m.HeapSys-m.HeapReleased)
	}}})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	b.ReportMetric(time.Since(began).Seconds(), "s")
	b.ReportMetric(float64(most>>20), "MB")
	if most > 200<<20 {
		b.Errorf("the heap had %d MB, want at most 200", most>>20)
	}
}

// must ends the test if err is not nil.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
