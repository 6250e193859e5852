package workspace_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/local"
	"github.com/vacancy-host/vacancy/shared/host/workspace"
	"github.com/vacancy-host/vacancy/shared/host/workspace/locks"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/blob"
	"github.com/vacancy-host/vacancy/shared/store/memory"
)

var main = workspace.Ref{Owner: "acme", Name: workspace.MainName}

// faults lets calls of the store and of the blobs fail. A call with a number in lost is applied and reported as failed.
type faults struct {
	mu       sync.Mutex
	calls    int
	fail     int  // the call that fails, from 1
	applied  bool // it is applied
	down     bool // all calls of the blobs fail
	puts     int
	writes   [][]store.Write
	beforeOn func() // runs before each commit
}

func (f *faults) next() (before, after error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.calls++; f.calls != f.fail {
		return nil, nil
	}
	if f.applied {
		return nil, blob.ErrUnavailable
	}
	return blob.ErrUnavailable, nil
}

type faultyStore struct {
	store.Store
	*faults
}

func (s faultyStore) Commit(ctx context.Context, writes ...store.Write) error {
	if s.beforeOn != nil {
		s.beforeOn()
	}
	before, after := s.next()
	if before != nil {
		return before
	}
	s.mu.Lock()
	s.writes = append(s.writes, writes)
	s.mu.Unlock()
	return errors.Join(s.Store.Commit(ctx, writes...), after)
}

type faultyBlobs struct {
	blob.Blobs
	*faults
}

func (b faultyBlobs) Put(ctx context.Context, key string, body io.ReadSeeker, size int64, cond blob.Condition) (string, error) {
	before, after := b.next()
	if before != nil || b.down {
		return "", blob.ErrUnavailable
	}
	b.mu.Lock()
	b.puts++
	b.mu.Unlock()
	tag, err := b.Blobs.Put(ctx, key, body, size, cond)
	return tag, errors.Join(err, after)
}

func (b faultyBlobs) Delete(ctx context.Context, key string) error {
	before, after := b.next()
	if before != nil {
		return before
	}
	return errors.Join(b.Blobs.Delete(ctx, key), after)
}

func (b faultyBlobs) List(ctx context.Context, prefix string, n int, cursor string) ([]blob.Info, string, error) {
	if b.down {
		return nil, "", blob.ErrUnavailable
	}
	return b.Blobs.List(ctx, prefix, n, cursor)
}

func (b faultyBlobs) Get(ctx context.Context, key string) (blob.Object, error) {
	if b.down {
		return blob.Object{}, blob.ErrUnavailable
	}
	return b.Blobs.Get(ctx, key)
}

// objects are blobs in memory, by the world's clock.
type objects struct {
	now func() time.Time
	mu  sync.Mutex
	all map[string]object
}

type object struct {
	data []byte
	at   time.Time
}

func (o *objects) Get(_ context.Context, key string) (blob.Object, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	one, ok := o.all[key]
	if !ok {
		return blob.Object{}, blob.ErrAbsent
	}
	return blob.Object{Info: blob.Info{Key: key, Size: int64(len(one.data))}, Body: io.NopCloser(bytes.NewReader(one.data))}, nil
}

func (o *objects) Head(context.Context, string) (blob.Info, error) { panic("nobody asks") }

func (o *objects) Put(_ context.Context, key string, body io.ReadSeeker, size int64, cond blob.Condition) (string, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, ok := o.all[key]; ok && cond.Absent {
		return "", blob.ErrConflict
	}
	data, err := io.ReadAll(body)
	o.all[key] = object{data, o.now()}
	return "", errors.Join(err, blob.CheckPut(key, bytes.NewReader(data), size, cond))
}

func (o *objects) Delete(_ context.Context, key string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.all, key)
	return nil
}

func (o *objects) List(_ context.Context, prefix string, n int, cursor string) (page []blob.Info, next string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(o.all)) {
		switch {
		case !strings.HasPrefix(key, prefix) || key <= cursor:
			continue
		case len(page) == n:
			return page, page[n-1].Key, nil
		}
		page = append(page, blob.Info{Key: key, Size: int64(len(o.all[key].data)), Modified: o.all[key].at})
	}
	return page, "", nil
}

// world has the workspaces of a host with a clock.
type world struct {
	*testing.T
	*workspace.Workspaces
	faults *faults
	store  *memory.Store
	blobs  blob.Blobs
	vault  custody.Vault
	mu     sync.Mutex
	clock  time.Time
	denied error // what owners must not write
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, faults: &faults{}, store: memory.New(), clock: time.Now().UTC().Truncate(time.Second)}
	var err error
	w.vault, err = local.FromHex(strings.Repeat("0a", 32), rand.Reader)
	w.must(err)
	w.blobs = &objects{now: w.now, all: map[string]object{}}
	w.Workspaces = w.open()
	return w
}

func (w *world) open() *workspace.Workspaces {
	return workspace.New(workspace.Config{
		Store: w.updater(), Blobs: func() (blob.Blobs, error) { return faultyBlobs{w.blobs, w.faults}, nil }, Vault: w.vault,
		CheckWritable: func(context.Context, string) error { return w.denied }, RemoveRelated: locks.Remove, Now: w.now,
	})
}

// updater does not wait between attempts.
func (w *world) updater() store.Updater {
	return store.Updater{Store: faultyStore{w.store, w.faults}, Rand: rand.Reader, Wait: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }}
}

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.clock
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clock = w.clock.Add(d)
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) write(path, text string) workspace.File {
	w.Helper()
	f, err := w.Write(w.Context(), main, workspace.Change{Path: path, Data: []byte(text)})
	w.must(err)
	return f
}

func (w *world) read(path string) string {
	w.Helper()
	_, data, err := w.Read(w.Context(), main, path)
	w.must(err)
	return string(data)
}

func (w *world) list(prefix string) (paths []string) {
	w.Helper()
	for page, err := range store.AllPages(func(cursor string) ([]workspace.File, string, error) {
		return w.ListFiles(w.Context(), main, prefix, 2, cursor)
	}) {
		w.must(err)
		for _, f := range page {
			paths = append(paths, f.Path)
		}
	}
	return paths
}

func (w *world) keys() (keys []string) {
	w.Helper()
	page, _, err := w.blobs.List(w.Context(), workspace.BlobPrefix, blob.MaxPage, "")
	w.must(err)
	for _, b := range page {
		keys = append(keys, b.Key)
	}
	return keys
}

// verify returns the findings: where, what is expected, and what is found.
func (w *world) verify() (found [][3]string) {
	w.Helper()
	c := workspace.Verifier{
		Documents: w.store, Blobs: func() (blob.Blobs, error) { return w.blobs, nil }, Now: w.now(),
		Report: func(where, want, got string) { found = append(found, [3]string{where, want, got}) },
	}
	w.must(c.Verify(w.Context()))
	return found
}

// sweep returns the number of deleted blobs.
func (w *world) sweep() int {
	w.Helper()
	deleted, err := w.Sweep(w.Context())
	w.must(err)
	return deleted
}

func (w *world) counts() (files, bytes int64) {
	w.Helper()
	all, err := w.Workspaces.ListWorkspaces(w.Context(), main.Owner)
	w.must(err)
	for _, info := range all {
		if info.Name == main.Name {
			return info.Files, info.Bytes
		}
	}
	return 0, 0
}

func TestAFileIsWrittenReadListedAndDeleted(t *testing.T) {
	w := newWorld(t)
	if got := w.list(""); got != nil {
		t.Errorf("a workspace without files lists %q", got)
	}
	f := w.write("src/main.go", "package main")
	if f.Size != 12 || f.Path != "src/main.go" || !f.Time.Equal(w.now()) || len(f.Hash) != 64 {
		t.Errorf("Write() = %+v", f)
	}
	w.write(".vault/report.md", "# Report")
	w.write("README.md", "")
	if got, want := w.list(""), []string{".vault/report.md", "README.md", "src/main.go"}; !slices.Equal(got, want) {
		t.Errorf("List() = %q, want %q", got, want)
	}
	for prefix, want := range map[string][]string{"src/": {"src/main.go"}, "s": {"src/main.go"}, ".vault": {".vault/report.md"}, "Readme": {"README.md"}, "x": nil} {
		if got := w.list(prefix); !slices.Equal(got, want) {
			t.Errorf("List(%q) = %q, want %q", prefix, got, want)
		}
	}
	if got := w.read("src/main.go") + w.read("README.md"); got != "package main" {
		t.Errorf("Read() = %q", got)
	}
	if files, bytes := w.counts(); files != 3 || bytes != 20 {
		t.Errorf("counts are %d files of %d bytes, want 3 of 20", files, bytes)
	}
	w.must(w.Delete(t.Context(), main, workspace.Change{Path: "src/main.go"}))
	if _, _, err := w.Read(t.Context(), main, "src/main.go"); !problem.Is(err, problem.NotFound) {
		t.Errorf("Read() of a deleted file = %v", err)
	}
	if err := w.Delete(t.Context(), main, workspace.Change{Path: "src/main.go"}); !problem.Is(err, problem.NotFound) {
		t.Errorf("Delete() of a deleted file = %v", err)
	}
	w.write("src/main.go", "again")
	if files, bytes := w.counts(); files != 3 || bytes != 13 {
		t.Errorf("counts are %d files of %d bytes, want 3 of 13", files, bytes)
	}
	if found := w.verify(); found != nil {
		t.Errorf("verify found %v", found)
	}
}

// A blob has neither the path nor the text, and opens only under its own key.
func TestBytesAreSealedForTheirWorkspaceAndTheirBlob(t *testing.T) {
	w := newWorld(t)
	w.write("secret.txt", "canary")
	w.write("other.txt", "canary")
	keys := w.keys()
	var boxes [][]byte
	for _, k := range keys {
		o, err := w.blobs.Get(t.Context(), k)
		w.must(err)
		b, err := io.ReadAll(o.Body)
		w.must(errors.Join(err, o.Body.Close()))
		if bytes.Contains(b, []byte("canary")) || strings.Contains(k, "secret") {
			t.Errorf("blob %s has %q", k, b)
		}
		boxes = append(boxes, b)
	}
	for i, k := range keys {
		_, err := w.blobs.Put(t.Context(), k, bytes.NewReader(boxes[1-i]), int64(len(boxes[1-i])), blob.Condition{})
		w.must(err)
	}
	if _, _, err := w.Read(t.Context(), main, "secret.txt"); !problem.Is(err, problem.Damaged) {
		t.Errorf("Read() of another file's bytes = %v, want Damaged", err)
	}
}

func TestPathsAreNormal(t *testing.T) {
	for path, want := range map[string]string{
		"a": "a", ".vault/x": ".vault/x", "a b/ü.txt": "a b/ü.txt", "u\u0308": "ü", strings.Repeat("a", 400): strings.Repeat("a", 400),
		"": "", "/etc/passwd": "", "..": "", "../x": "", "a/../b": "", "a/./b": "", "a//b": "", "a/": "", `a\b`: "", `..\x`: "", "a\x00b": "", "a\nb": "", "a\xff": "",
		strings.Repeat("a", 401): "", strings.Repeat("ŉ", 199): "", // it has 597 bytes once it is folded

	} {
		got, err := workspace.NormalizePath(path)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("NormalizePath(%.20q) = %q, %v, want %q", path, got, err, want)
		}
		if err != nil && problem.AsError(err).Field != "path" {
			t.Errorf("NormalizePath(%.20q) = %v, want an error about the path", path, err)
		}
	}
	for _, name := range []string{"Main", "a/b", "..", "-a", "a~1", "a\n", strings.Repeat("a", 33), "ä"} {
		if _, err := workspace.ResolveRef(nil, name); !problem.Is(err, problem.Malformed) {
			t.Errorf("ResolveRef(%q) = %v", name, err)
		}
	}
}

// Two spellings of a path are one document, so a writer of the second is refused, and reads nothing.
func TestAPathHasOneSpelling(t *testing.T) {
	w := newWorld(t)
	w.write("Straße/Ünder.md", "first")
	for _, other := range []string{"straße/ünder.md", "STRASSE/ÜNDER.MD", "straße/u\u0308nder.md"} {
		_, err := w.Write(t.Context(), main, workspace.Change{Path: other, Data: []byte("second")})
		if !problem.Is(err, problem.Conflict) || !strings.Contains(err.Error(), "Straße/Ünder.md") {
			t.Errorf("Write(%q) = %v, want a conflict that names the spelling", other, err)
		}
		if _, _, err := w.Read(t.Context(), main, other); !problem.Is(err, problem.Conflict) {
			t.Errorf("Read(%q) = %v, want a conflict", other, err)
		}
	}
	w.write("Straße/U\u0308nder.md", "same")
	if got := w.read("Straße/Ünder.md"); got != "same" {
		t.Errorf("a decomposed path is another file: %q", got)
	}
	w.must(w.Delete(t.Context(), main, workspace.Change{Path: "Straße/Ünder.md"}))
	w.write("straße/ünder.md", "new")
	if got := w.list(""); !slices.Equal(got, []string{"straße/ünder.md"}) {
		t.Errorf("List() = %q", got)
	}
}

func TestConditionsOfAWrite(t *testing.T) {
	w := newWorld(t)
	write := func(cond workspace.Condition) error {
		_, err := w.Write(t.Context(), main, workspace.Change{Path: "a", Data: []byte("x"), Condition: cond})
		return err
	}
	for _, cond := range []workspace.Condition{{Exists: true}, {Hash: "00"}} {
		if err := write(cond); !problem.Is(err, problem.PreconditionFailed) {
			t.Errorf("Write(%+v) of a file that does not exist = %v", cond, err)
		}
	}
	w.must(write(workspace.Condition{Absent: true}))
	f, err := w.Stat(t.Context(), main, "a")
	w.must(err)
	for _, cond := range []workspace.Condition{{Absent: true}, {Hash: "00"}} {
		if err := write(cond); !problem.Is(err, problem.PreconditionFailed) {
			t.Errorf("Write(%+v) of a file that exists = %v", cond, err)
		}
		if err := w.Delete(t.Context(), main, workspace.Change{Path: "a", Condition: workspace.Condition{Hash: "00"}}); !problem.Is(err, problem.PreconditionFailed) {
			t.Errorf("Delete(another hash) = %v", err)
		}
	}
	for _, cond := range []workspace.Condition{{Exists: true}, {Hash: f.Hash}, {}} {
		if err := write(cond); err != nil {
			t.Errorf("Write(%+v) = %v", cond, err)
		}
	}
	if n := len(w.keys()); n != 4 {
		t.Errorf("%d blobs were stored, want 4: refused writes store none", n)
	}
	w.must(w.Delete(t.Context(), main, workspace.Change{Path: "a", Condition: workspace.Condition{Hash: f.Hash}}))
}

func TestLimitsOfAWorkspace(t *testing.T) {
	w := newWorld(t)
	large := make([]byte, workspace.MaxFileBytes)
	if _, err := w.Write(t.Context(), main, workspace.Change{Path: "a", Data: append(large, 0)}); !problem.Is(err, problem.TooLarge) || !strings.Contains(err.Error(), "1048576") {
		t.Errorf("Write() of a large file = %v", err)
	}
	for i := range workspace.MaxBytes / workspace.MaxFileBytes {
		_, err := w.Write(t.Context(), main, workspace.Change{Path: fmt.Sprint(i), Data: large})
		w.must(err)
	}
	if _, err := w.Write(t.Context(), main, workspace.Change{Path: "one", Data: []byte("x")}); !problem.Is(err, problem.TooLarge) || !strings.Contains(err.Error(), "104857600") {
		t.Errorf("Write() to a full workspace = %v", err)
	}
	w.write("empty", "")
	w.write("1", "smaller")
	w.write("one", "x")
	for i := range workspace.MaxWorkspaces - 1 {
		_, err := w.Write(t.Context(), workspace.Ref{Owner: main.Owner, Name: fmt.Sprint("w", i)}, workspace.Change{Path: "a"})
		w.must(err)
	}
	if _, err := w.Write(t.Context(), workspace.Ref{Owner: main.Owner, Name: "more"}, workspace.Change{Path: "a"}); !problem.Is(err, problem.TooLarge) || !strings.Contains(err.Error(), "10 workspaces") {
		t.Errorf("Write() to another workspace = %v", err)
	}
	_, err := w.Write(t.Context(), workspace.Ref{Owner: "other", Name: "more"}, workspace.Change{Path: "a"})
	w.must(err)
	w.must(w.RemoveWorkspace(t.Context(), main))
	_, err = w.Write(t.Context(), workspace.Ref{Owner: main.Owner, Name: "more"}, workspace.Change{Path: "a"})
	w.must(err)
}

// The counts of many files are stored, instead of ten thousand files.
func TestTheNumberOfFilesIsExact(t *testing.T) {
	w := newWorld(t)
	w.write("a", "x")
	for d, err := range store.Documents(t.Context(), w.store, workspace.Docs.Range(main.Owner)) {
		w.must(err)
		v, err := workspace.Docs.Parse(d)
		w.must(err)
		k := workspace.CountDocs.Key(v.ID)
		count, err := w.store.Doc(t.Context(), k)
		w.must(err)
		w.must(w.store.Commit(t.Context(), store.Put{Key: k, IfVersion: count.Version, WriteID: store.WriteID{1}, Number: 1<<20 + workspace.MaxFiles - 8}))
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	written := 0
	for i := range 16 {
		all.Go(func() {
			_, err := w.Write(t.Context(), main, workspace.Change{Path: fmt.Sprint(i)})
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				written++
			case !problem.Is(err, problem.TooLarge) || !strings.Contains(err.Error(), "10000 files"):
				t.Error(err)
			}
		})
	}
	all.Wait()
	if written != 8 {
		t.Errorf("%d files were written, want 8", written)
	}
	w.write("a", "replaced")
	w.must(w.Delete(t.Context(), main, workspace.Change{Path: "a"}))
}

// 64 writers of one path: each write is complete, one is the last, and one file is counted.
func TestManyWritersOfOnePath(t *testing.T) {
	w := newWorld(t)
	w.faults.beforeOn = runtime.Gosched
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			if _, err := w.Write(t.Context(), main, workspace.Change{Path: "a", Data: bytes.Repeat([]byte{byte(i)}, i+1)}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	data := w.read("a")
	if len(data) != int(data[0])+1 {
		t.Errorf("the file has %d bytes of %d", len(data), data[0])
	}
	if files, bytes := w.counts(); files != 1 || bytes != int64(len(data)) {
		t.Errorf("counts are %d files of %d bytes", files, bytes)
	}
	// With the hash of the file as a condition, one of them replaces each version, and no change is lost.
	f := w.write("a", "")
	start := f.Hash
	var mu sync.Mutex
	replaced := map[string]int{} // versions
	refused := 0
	for i := range 64 {
		all.Go(func() {
			for {
				f, data, err := w.Read(t.Context(), main, "a")
				if err != nil {
					t.Error(err)
					return
				}
				_, err = w.Write(t.Context(), main, workspace.Change{Path: "a", Data: append(data, byte(i)), Condition: workspace.Condition{Hash: f.Hash}})
				mu.Lock()
				switch {
				case err == nil:
					replaced[f.Hash]++
				case problem.Is(err, problem.PreconditionFailed):
					refused++
				default:
					t.Error(err)
				}
				mu.Unlock()
				if !problem.Is(err, problem.PreconditionFailed) {
					return
				}
			}
		})
	}
	all.Wait()
	changes := []byte(w.read("a"))
	slices.Sort(changes)
	if refused == 0 || len(changes) != 64 || len(slices.Compact(changes)) != 64 || len(replaced) != 64 || replaced[start] != 1 {
		t.Errorf("64 writers replaced %d versions, with %d refusals, and left %d changes of %v", len(replaced), refused, len(changes), changes)
	}
	if files, bytes := w.counts(); files != 1 || bytes != 64 {
		t.Errorf("counts are %d files of %d bytes, want 1 of 64", files, bytes)
	}
	w.pass(25 * time.Hour)
	w.sweep()
	if keys := w.keys(); len(keys) != 1 {
		t.Errorf("blobs are %q, want one", keys)
	}
	if found := w.verify(); found != nil {
		t.Errorf("verify found %v", found)
	}
}

// A write is one PUT and one commit of three documents, of which the caller's condition is one.
func TestTheCallerAddsAConditionToTheCommit(t *testing.T) {
	w := newWorld(t)
	w.write("a", "x")
	lock := store.Key{Partition: "lock", Sort: "1"}
	w.must(w.store.Commit(t.Context(), store.Put{Key: lock, WriteID: store.WriteID{1}, Number: 7}))
	w.faults.writes, w.faults.puts = nil, 0
	write := func(number int64) error {
		_, err := w.Write(t.Context(), main, workspace.Change{Path: "a", Data: []byte("y"), Task: "t1", AddWrites: func(_ context.Context, tx *store.Tx) error {
			tx.AddWrites(store.Add{Key: lock, Min: number, Max: number})
			return nil
		}})
		return err
	}
	w.must(write(7))
	if len(w.faults.writes) != 1 || len(w.faults.writes[0]) != 3 || w.faults.puts != 1 {
		t.Errorf("a write made %d commits, %v, and %d PUTs", len(w.faults.writes), w.faults.writes, w.faults.puts)
	}
	var bounds *store.BoundsError
	if err := write(8); !errors.As(err, &bounds) || bounds.Key != lock || bounds.Number != 7 {
		t.Errorf("Write() with the number of another lock = %v", err)
	}
	denied := problem.New(problem.Forbidden, "the lock is held")
	_, err := w.Write(t.Context(), main, workspace.Change{Path: "a", AddWrites: func(context.Context, *store.Tx) error { return denied }})
	if !errors.Is(err, denied) || w.read("a") != "y" {
		t.Errorf("Write() = %v, and the file is %q", err, w.read("a"))
	}
	if f, err := w.Stat(t.Context(), main, "a"); err != nil || f.Task != "t1" {
		t.Errorf("Stat() = %+v, %v, want the task", f, err)
	}
}

// An account that is suspended between the upload and the commit writes nothing.
func TestASuspendedAccountWritesNothing(t *testing.T) {
	w := newWorld(t)
	w.write("a", "x")
	suspended := problem.New(problem.AccountSuspended, "the account is suspended")
	for _, q := range []workspace.Change{{Path: "a", Data: []byte("y")}, {Path: "b"}} {
		q.AddWrites = func(context.Context, *store.Tx) error { t.Error("it came to the commit"); return nil }
		w.denied = suspended
		if _, err := w.Write(t.Context(), main, q); !problem.Is(err, problem.AccountSuspended) {
			t.Errorf("Write(%s) = %v", q.Path, err)
		}
		if err := w.Delete(t.Context(), main, workspace.Change{Path: "a"}); !problem.Is(err, problem.AccountSuspended) {
			t.Errorf("Delete() = %v", err)
		}
		w.denied = nil
	}
	if got := w.read("a"); got != "x" {
		t.Errorf("the file is %q", got)
	}
}

// Each call of a write fails once, applied or not. Then the write has happened or not, never a part of it.
func TestAFaultAtEachCallOfAWrite(t *testing.T) {
	for _, applied := range []bool{false, true} {
		for call := 1; ; call++ {
			w := newWorld(t)
			w.faults.fail, w.faults.applied = call, applied
			_, err := w.Write(t.Context(), main, workspace.Change{Path: "a", Data: []byte("first")})
			done := w.faults.calls < call
			if err != nil && !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("call %d: %v", call, err)
			}
			w.faults.fail = 0
			if found := w.verify(); found != nil {
				t.Errorf("call %d, applied %t: verify found %v", call, applied, found)
			}
			w.write("a", "second")
			w.must(w.Delete(t.Context(), main, workspace.Change{Path: "a"}))
			if files, bytes := w.counts(); files != 0 || bytes != 0 {
				t.Errorf("call %d, applied %t: counts are %d files of %d bytes", call, applied, files, bytes)
			}
			if done {
				break
			}
		}
	}
}

// While the storage of blobs is down, requests are answered 503, and nothing is written.
func TestBlobsThatAreDown(t *testing.T) {
	w := newWorld(t)
	f := w.write("a", "x")
	w.faults.down, w.faults.writes = true, nil
	for range 3 {
		for _, path := range []string{"a", "b"} {
			if _, err := w.Write(t.Context(), main, workspace.Change{Path: path, Data: []byte("y")}); !problem.Is(err, problem.Unavailable) || problem.AsError(err).Kind.Forms().HTTPStatus != 503 {
				t.Errorf("Write(%s) = %v", path, err)
			}
		}
		if _, _, err := w.Read(t.Context(), main, "a"); !problem.Is(err, problem.Unavailable) {
			t.Errorf("Read() = %v", err)
		}
		w.pass(10 * time.Second)
	}
	if _, err := w.Sweep(t.Context()); !problem.Is(err, problem.Unavailable) {
		t.Errorf("Sweep() = %v", err)
	}
	if len(w.faults.writes) > 0 || len(w.keys()) != 1 {
		t.Errorf("commits are %v, and blobs %q", w.faults.writes, w.keys())
	}
	w.faults.down = false
	if got, err := w.Stat(t.Context(), main, "a"); err != nil || got.Hash != f.Hash || w.read("a") != "x" || !slices.Equal(w.list(""), []string{"a"}) {
		t.Errorf("the file is %+v, %v", got, err)
	}
	w.write("a", "y")
	w.write("b", "yy")
	if files, bytes := w.counts(); files != 2 || bytes != 3 {
		t.Errorf("counts are %d files of %d bytes, want 2 of 3", files, bytes)
	}
}

func TestSweepDeletesBlobsWithoutADocument(t *testing.T) {
	w := newWorld(t)
	sweep := func(want int) {
		t.Helper()
		if deleted := w.sweep(); deleted != want {
			t.Errorf("Sweep() = %d, want %d", deleted, want)
		}
	}
	w.write("a", "1")
	w.write("a", "2")
	w.write("b", "1")
	sweep(0)
	w.pass(23 * time.Hour)
	sweep(0)
	w.pass(2 * time.Hour) // now all blobs are 25 hours old
	w.write("a", "3")
	w.must(w.Delete(t.Context(), main, workspace.Change{Path: "b"}))
	sweep(1) // the first, which was replaced a day ago
	old := w.keys()
	w.pass(59 * time.Minute)
	w.write("a", "4") // the blob of 3 is young
	sweep(0)
	w.pass(2 * time.Minute)
	sweep(2) // 2 and the one of b, an hour after their commits
	if len(old) != 3 || len(w.keys()) != 2 {
		t.Errorf("blobs are %q, were %q", w.keys(), old)
	}
	w.pass(26 * time.Hour)
	sweep(1)
	if got := w.read("a"); got != "4" {
		t.Errorf("the file is %q", got)
	}
	if found := w.verify(); found != nil {
		t.Errorf("verify found %v", found)
	}
}

func TestARemovedWorkspaceHasNoKeyAndNoFiles(t *testing.T) {
	w := newWorld(t)
	for i := range 60 {
		w.write(fmt.Sprint("f", i), "x")
	}
	other := w.open() // of another process, whose key is in memory
	if _, _, err := other.Read(t.Context(), main, "f1"); err != nil {
		t.Fatal(err)
	}
	// A writer that has begun before the removal ends after it.
	w.faults.beforeOn = func() {
		w.faults.beforeOn = nil
		w.must(w.open().RemoveWorkspace(t.Context(), main))
	}
	if _, err := w.Write(t.Context(), main, workspace.Change{Path: "late", Data: []byte("x")}); !problem.Is(err, problem.NotFound) {
		t.Errorf("Write() = %v, want NotFound", err)
	}
	if _, _, err := other.Read(t.Context(), main, "f1"); !problem.Is(err, problem.NotFound) {
		t.Errorf("Read() = %v, want NotFound", err)
	}
	if err := w.RemoveWorkspace(t.Context(), main); !problem.Is(err, problem.NotFound) {
		t.Errorf("RemoveWorkspace() = %v, want NotFound", err)
	}
	if found := w.verify(); found != nil {
		t.Errorf("verify found %v before the sweep", found)
	}
	if deleted := w.sweep(); deleted != 0 {
		t.Errorf("Sweep() = %d while a backup may read the blobs, want none", deleted)
	}
	w.pass(time.Hour)
	if deleted := w.sweep(); deleted != 61 || len(w.keys()) > 0 {
		t.Errorf("Sweep() = %d, and blobs are %q, want none", deleted, w.keys())
	}
	w.write("f1", "new")
	w.pass(49 * time.Hour)
	if deleted := w.sweep(); deleted != 0 {
		t.Errorf("Sweep() = %d", deleted)
	}
	if got := w.list(""); !slices.Equal(got, []string{"f1"}) || w.read("f1") != "new" {
		t.Errorf("List() = %q", got)
	}
	if found := w.verify(); found != nil {
		t.Errorf("verify found %v", found)
	}
}

// documents returns the keys of all documents of workspaces and their locks.
func (w *world) documents() (keys []string) {
	w.Helper()
	for _, c := range w.faults.writes {
		for _, write := range c {
			k := store.Key{}
			switch write := write.(type) {
			case store.Put:
				k = write.Key
			case store.Add:
				k = write.Key
			}
			d, err := w.store.Doc(w.Context(), k)
			w.must(err)
			if d.Version > 0 && !d.IsExpired(w.now()) && !slices.Contains(keys, k.String()) {
				keys = append(keys, k.String())
			}
		}
	}
	return keys
}

// The sweep deletes what a removed workspace has, wherever an earlier sweep stopped.
func TestSweepCompletesARemoval(t *testing.T) {
	for call := 1; ; call++ {
		w := newWorld(t)
		w.write("a", "x")
		w.write("b", "x")
		w.must((&locks.Locks{Store: w.updater(), Now: w.now}).SetPolicy(t.Context(), main, locks.Queue))
		w.must(w.RemoveWorkspace(t.Context(), main))
		w.pass(time.Hour)
		w.faults.calls, w.faults.fail = 0, call
		_, err := w.Sweep(t.Context())
		done := w.faults.calls < call
		if err != nil && !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("call %d: %v", call, err)
		}
		w.faults.fail = 0
		w.sweep()
		if keys := w.keys(); len(keys) > 0 {
			t.Errorf("call %d: blobs are %q", call, keys)
		}
		w.pass(25 * time.Hour)
		if got := w.documents(); !slices.Equal(got, []string{"workspacecount#acme/count"}) {
			t.Errorf("call %d: the removal left %q", call, got)
		}
		if done {
			break
		}
	}
}

// A workspace without blobs leaves nothing, and no policy of its locks remains for a workspace with its name.
func TestARemovedWorkspaceHasNoLocks(t *testing.T) {
	w := newWorld(t)
	w.faults.down = true
	if _, err := w.Write(t.Context(), main, workspace.Change{Path: "a"}); !problem.Is(err, problem.Unavailable) {
		t.Fatalf("Write() = %v", err)
	}
	w.faults.down = false
	all := &locks.Locks{Store: w.updater(), Now: w.now}
	for _, name := range []string{main.Name, "other"} {
		w.must(all.SetPolicy(t.Context(), workspace.Ref{Owner: main.Owner, Name: name}, locks.Queue))
	}
	w.must(w.RemoveWorkspace(t.Context(), main))
	_, policies, err := all.List(t.Context(), main.Owner)
	if w.must(err); !maps.Equal(policies, map[string]locks.Policy{"other": locks.Queue}) {
		t.Errorf("policies are %v", policies)
	}
	w.pass(25 * time.Hour)
	if got := w.documents(); !slices.Equal(got, []string{"workspacecount#acme/count", "locks#acme/other", "locknumber#acme/other"}) {
		t.Errorf("the removal left %q", got)
	}
}

// The sweep keeps the blobs of a workspace while one of its documents is damaged, and verify reports the document.
func TestSweepKeepsBlobsThatADamagedDocumentMayNeed(t *testing.T) {
	w := newWorld(t)
	w.write("a", "x")
	w.write("b", "x")
	w.write("b", "y")
	for _, k := range w.documents() {
		if strings.HasSuffix(k, "/a") {
			key := store.Key{Partition: strings.TrimSuffix(k, "/a"), Sort: "a"}
			d, err := w.store.Doc(t.Context(), key)
			w.must(err)
			w.must(w.store.Commit(t.Context(), store.Put{Key: key, IfVersion: d.Version, WriteID: store.WriteID{1}, Data: []byte("{")}))
		}
	}
	w.pass(49 * time.Hour)
	if deleted := w.sweep(); deleted != 0 || len(w.keys()) != 3 {
		t.Errorf("Sweep() = %d, and blobs are %q", deleted, w.keys())
	}
	if found := w.verify(); len(found) != 2 || !strings.Contains(found[0][2], "not readable") || !strings.Contains(found[1][1], "according to the files") {
		t.Errorf("verify found %v", found)
	}
	if w.read("b") != "y" {
		t.Error("another file is not readable")
	}
}

// The sweep goes on with the next workspace if it fails in one.
func TestSweepGoesOnAfterAFailure(t *testing.T) {
	other := workspace.Ref{Owner: main.Owner, Name: "other"}
	for call := 1; ; call++ {
		w := newWorld(t)
		w.write("a", "x")
		_, err := w.Write(t.Context(), other, workspace.Change{Path: "a", Data: []byte("x")})
		w.must(err)
		w.must(w.RemoveWorkspace(t.Context(), main))
		w.must(w.RemoveWorkspace(t.Context(), other))
		w.pass(time.Hour)
		first := w.keys()[:1]
		w.faults.calls, w.faults.fail = 0, call
		_, err = w.Sweep(t.Context())
		if w.faults.calls < call {
			t.Fatal("no sweep has deleted the blob of the second workspace after a failure in the first")
		}
		w.faults.fail = 0
		if err != nil && slices.Equal(w.keys(), first) {
			return
		}
	}
}

func TestVerifyReportsDamage(t *testing.T) {
	w := newWorld(t)
	w.write("a", "x")
	w.write("b", "y")
	keys := w.keys()
	w.must(w.blobs.Delete(t.Context(), keys[0]))
	if found := w.verify(); len(found) != 1 || found[0][2] != "none" || !strings.HasPrefix(found[0][0], "workspacefile#") {
		t.Errorf("without a blob verify found %v", found)
	}
	w.must(func() error {
		_, err := w.blobs.Put(t.Context(), keys[0]+"00", strings.NewReader("x"), 1, blob.Condition{})
		return err
	}())
	if found := w.verify(); len(found) != 1 {
		t.Errorf("verify found %v, want nothing of a young blob", found)
	}
	w.pass(49 * time.Hour)
	if found := w.verify(); len(found) != 2 || found[1][0] != keys[0]+"00" {
		t.Errorf("verify found %v, want an old blob without a document", found)
	}
	for d, err := range store.Documents(t.Context(), w.store, workspace.Docs.Range(main.Owner)) {
		w.must(err)
		v, err := workspace.Docs.Parse(d)
		w.must(err)
		f, err := w.store.Doc(t.Context(), workspace.FileDocs.Key(v.ID, "a"))
		w.must(err)
		w.must(w.store.Commit(t.Context(), store.Delete{Key: f.Key, IfVersion: f.Version}))
	}
	if found := w.verify(); !slices.ContainsFunc(found, func(d [3]string) bool { return strings.Contains(d[1], "according to the files") }) {
		t.Errorf("verify found %v, want other counts", found)
	}
}

func TestTestKeysHaveOneWorkspace(t *testing.T) {
	live, test := &call.Payer{Account: "a1"}, &call.Payer{Account: "a1", Test: true}
	for _, tt := range []struct {
		payer *call.Payer
		name  string
		want  workspace.Ref
		kind  problem.Kind
	}{
		{nil, "", workspace.Ref{Owner: workspace.OperatorOwner, Name: "main"}, 0},
		{live, "", workspace.Ref{Owner: "a1", Name: "main"}, 0},
		{live, "x", workspace.Ref{Owner: "a1", Name: "x"}, 0},
		{test, "", workspace.Ref{Owner: "a1", Name: "test"}, 0},
		{test, "test", workspace.Ref{Owner: "a1", Name: "test"}, 0},
		{test, "main", workspace.Ref{}, problem.TestKeyNotAllowed},
		{live, "test", workspace.Ref{}, problem.NotFound},
		{live, "../x", workspace.Ref{}, problem.Malformed},
	} {
		got, err := workspace.ResolveRef(tt.payer, tt.name)
		if tt.kind == 0 && (err != nil || got != tt.want) || tt.kind != 0 && !problem.Is(err, tt.kind) {
			t.Errorf("ResolveRef(%+v, %q) = %+v, %v", tt.payer, tt.name, got, err)
		}
	}
}
