package snapshot_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/registry/search/snapshot"
	"github.com/vacancy-host/vacancy/shared/store/blob"
	"github.com/vacancy-host/vacancy/shared/store/blob/files"
)

// text is an index of one file, whose content is the index's.
type text string

func (s text) Snapshot(_ context.Context, w io.Writer) error {
	t := tar.NewWriter(w)
	for _, name := range []string{"store/first", "store/deep/second"} {
		if err := t.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(s))}); err != nil {
			return err
		}
		if _, err := io.WriteString(t, string(s)); err != nil {
			return err
		}
	}
	return t.Close()
}

func (s text) Mark(context.Context) (string, error) { return "mark of " + string(s), nil }
func (s text) Count(context.Context) (int, error)   { return len(s), nil }

// read returns the content of a loaded directory, or "".
func read(t *testing.T, dir string) string {
	t.Helper()
	if dir == "" {
		return ""
	}
	first, err := os.ReadFile(filepath.Join(dir, "store", "first"))
	second, wrong := os.ReadFile(filepath.Join(dir, "store", "deep", "second"))
	err = errors.Join(err, wrong)
	must(t, err)
	if !bytes.Equal(first, second) {
		t.Fatalf("the folder holds %q and %q, want the same", first, second)
	}
	return string(first)
}

// fixture is a bucket, and a clock that the tests set.
type fixture struct {
	t     *testing.T
	blobs *faulty
	now   time.Time
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f, err := files.Open(t.TempDir(), time.Now())
	must(t, err)
	return &fixture{t: t, blobs: &faulty{Blobs: f, at: -1}, now: time.Now()}
}

// process is one process, with its own directory.
func (h *fixture) process() (*snapshot.Snapshots, string) {
	dir := h.t.TempDir()
	return snapshot.New(snapshot.Config{
		Blobs: h.blobs, Now: func() time.Time { return h.now }, Rand: rand.Reader, Dir: dir,
	}), dir
}

func (h *fixture) publish(s *snapshot.Snapshots, index snapshot.Source, base snapshot.Version) snapshot.Version {
	h.t.Helper()
	v, err := s.Publish(h.t.Context(), index, base)
	if err != nil {
		h.t.Fatalf("Publish() = %v", err)
	}
	return v
}

// loaded returns the version and content that a new process loads.
func (h *fixture) loaded() (snapshot.Version, string) {
	h.t.Helper()
	s, _ := h.process()
	v, dir, err := s.Load(h.t.Context())
	if err != nil {
		h.t.Fatalf("Load() = %v", err)
	}
	return v, read(h.t, dir)
}

// archives are the keys of the archives, and manifest is the manifest's text.
func (h *fixture) archives() (keys []string) {
	h.t.Helper()
	page, _, err := h.blobs.Blobs.List(h.t.Context(), snapshot.Prefix, blob.MaxPage, "")
	if err != nil {
		h.t.Fatal(err)
	}
	for _, o := range page {
		if strings.HasSuffix(o.Key, ".tar") {
			keys = append(keys, o.Key)
		}
	}
	return keys
}

func (h *fixture) write(key string, body []byte) {
	h.t.Helper()
	if _, err := h.blobs.Blobs.Put(h.t.Context(), key, bytes.NewReader(body), int64(len(body)), blob.Condition{}); err != nil {
		h.t.Fatal(err)
	}
}

func (h *fixture) body(key string) []byte {
	h.t.Helper()
	o, err := h.blobs.Blobs.Get(h.t.Context(), key)
	if err != nil {
		h.t.Fatal(err)
	}
	defer o.Body.Close()
	body, err := io.ReadAll(o.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	return body
}

// faulty fails one call, or all calls from one on.
type faulty struct {
	blob.Blobs
	calls   []string
	at      int // the call that fails; -1: none
	applied bool
	ever    bool // all calls after it fail too: a crash
	before  func(call string)
}

var errFault = fmt.Errorf("%w: by the test", blob.ErrUnavailable)

// call counts a call. It returns whether the call is made and the error that is returned.
func (f *faulty) call(name string) (happens bool, err error) {
	if f.before != nil {
		f.before(name)
	}
	n := len(f.calls)
	f.calls = append(f.calls, name)
	switch {
	case f.at < 0 || n < f.at || n > f.at && !f.ever:
		return true, nil
	case n == f.at:
		return f.applied, errFault
	}
	return false, errFault
}

func (f *faulty) Get(ctx context.Context, key string) (blob.Object, error) {
	if _, err := f.call("Get " + key); err != nil {
		return blob.Object{}, err
	}
	return f.Blobs.Get(ctx, key)
}

func (f *faulty) Head(ctx context.Context, key string) (blob.Info, error) {
	if _, err := f.call("Head " + key); err != nil {
		return blob.Info{}, err
	}
	return f.Blobs.Head(ctx, key)
}

func (f *faulty) Put(ctx context.Context, key string, body io.ReadSeeker, size int64, cond blob.Condition) (tag string, err error) {
	happens, fault := f.call("Put " + key)
	if happens {
		tag, err = f.Blobs.Put(ctx, key, body, size, cond)
	}
	if fault != nil {
		return "", fault
	}
	return tag, err
}

func (f *faulty) Delete(ctx context.Context, key string) (err error) {
	happens, fault := f.call("Delete " + key)
	if happens {
		err = f.Blobs.Delete(ctx, key)
	}
	return errors.Join(fault, err)
}

func (f *faulty) List(ctx context.Context, prefix string, n int, cursor string) ([]blob.Info, string, error) {
	if _, err := f.call("List"); err != nil {
		return nil, "", err
	}
	return f.Blobs.List(ctx, prefix, n, cursor)
}
