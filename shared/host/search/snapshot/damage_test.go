package snapshot_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/search/snapshot"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// random is a source that many goroutines may read.
type random struct{}

func (random) Read(p []byte) (int, error) { return rand.Read(p) }

// brokenIndex breaks off in the middle of its copy.
type brokenIndex struct {
	text
	err error
}

func (b brokenIndex) Snapshot(_ context.Context, w io.Writer) error {
	if _, err := io.WriteString(w, "the beginning"); err != nil {
		return err
	}
	return b.err
}

func TestADamagedArchiveIsRefusedAndReplacedByTheNextPublication(t *testing.T) {
	for name, damage := range map[string]func([]byte) []byte{
		"a bit of a file":          func(b []byte) []byte { b[600] ^= 1; return b },
		"a bit of a header":        func(b []byte) []byte { b[0] ^= 1; return b },
		"a bit behind the files":   func(b []byte) []byte { b[len(b)-1] ^= 1; return b },
		"the end is missing":       func(b []byte) []byte { return b[:len(b)-512] },
		"something follows":        func(b []byte) []byte { return append(b, 0) },
		"another archive":          func([]byte) []byte { return tarOf(t, file{name: "x", body: "y"}) },
		"nothing":                  func([]byte) []byte { return nil },
		"all of it, by zero bytes": func(b []byte) []byte { return make([]byte, len(b)) },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHome(t)
			s, _ := h.process()
			v := h.publish(s, text("index"), snapshot.Version{})
			h.write(v.Manifest.Archive, damage(h.body(v.Manifest.Archive)))
			loader, dir := h.process()
			got, folder, err := loader.Load(t.Context())
			if !problem.Is(err, problem.Damaged) || folder != "" {
				t.Fatalf("Load() = %q, %v, want damaged", folder, err)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("Load() left %v, %v", left, err)
			}
			h.publish(s, text("rebuilt"), got)
			if _, got := h.loaded(); got != "rebuilt" {
				t.Errorf("Load() = %q, want %q", got, "rebuilt")
			}
		})
	}
}

func TestAMissingArchiveIsDamageAndNotAnEmptyIndex(t *testing.T) {
	h := newHome(t)
	s, _ := h.process()
	v := h.publish(s, text("index"), snapshot.Version{})
	if err := h.blobs.Blobs.Delete(t.Context(), v.Manifest.Archive); err != nil {
		t.Fatal(err)
	}
	got, _, err := s.Load(t.Context())
	if !problem.Is(err, problem.Damaged) {
		t.Fatalf("Load() = %v, want damaged", err)
	}
	h.publish(s, text("rebuilt"), got)
}

func TestADamagedManifestIsReplacedByTheNextPublication(t *testing.T) {
	good := newHome(t)
	s, _ := good.process()
	m := good.publish(s, text("index"), snapshot.Version{}).Manifest
	for name, body := range map[string]string{
		"nothing":         "",
		"no JSON":         "{",
		"two values":      manifestOf(t, m) + "{}",
		"unknown member":  strings.Replace(manifestOf(t, m), `{`, `{"path":"x",`, 1),
		"another format":  changed(t, m, func(m *snapshot.Manifest) { m.Format = 2 }),
		"another place":   changed(t, m, func(m *snapshot.Manifest) { m.Archive = "other/" + m.Archive }),
		"a place above":   changed(t, m, func(m *snapshot.Manifest) { m.Archive = snapshot.Prefix + "../x.tar" }),
		"itself":          changed(t, m, func(m *snapshot.Manifest) { m.Archive = manifestKey }),
		"a short sum":     changed(t, m, func(m *snapshot.Manifest) { m.SHA256 = m.SHA256[2:] }),
		"no size":         changed(t, m, func(m *snapshot.Manifest) { m.Size = 0 }),
		"too large":       changed(t, m, func(m *snapshot.Manifest) { m.Size = 1 << 60 }),
		"too few entries": changed(t, m, func(m *snapshot.Manifest) { m.Entries = -1 }),
		"without end":     manifestOf(t, m) + strings.Repeat(" ", 20<<10),
	} {
		t.Run(name, func(t *testing.T) {
			h := newHome(t)
			h.write(manifestKey, []byte(body))
			s, _ := h.process()
			v, folder, err := s.Load(t.Context())
			if !problem.Is(err, problem.Damaged) || folder != "" || v.Tag == "" {
				t.Fatalf("Load() = %+v, %q, %v, want damaged, with a tag", v, folder, err)
			}
			h.publish(s, text("rebuilt"), v)
			if _, got := h.loaded(); got != "rebuilt" {
				t.Errorf("Load() = %q, want %q", got, "rebuilt")
			}
		})
	}
}

func manifestOf(t *testing.T, m snapshot.Manifest) string {
	t.Helper()
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func changed(t *testing.T, m snapshot.Manifest, change func(*snapshot.Manifest)) string {
	change(&m)
	return manifestOf(t, m)
}

type file struct {
	name, body, link string
	kind             byte
}

func tarOf(t testing.TB, files ...file) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		h := &tar.Header{Name: f.name, Linkname: f.link, Typeflag: f.kind, Mode: 0o600, Size: int64(len(f.body))}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, f.body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// serve makes an archive the one that the manifest names, sum and all.
func serve(t *testing.T, h *home, archive []byte) {
	t.Helper()
	sum := sha256.Sum256(archive)
	m := snapshot.Manifest{Format: 1, Archive: snapshot.Prefix + "a.tar", SHA256: hex.EncodeToString(sum[:]), Size: int64(len(archive))}
	h.write(m.Archive, archive)
	h.write(manifestKey, []byte(manifestOf(t, m)))
}

func TestAnArchiveWritesNothingOutsideItsFolder(t *testing.T) {
	for name, files := range map[string][]file{
		"above":              {{name: "../out", body: "x"}},
		"above, further in":  {{name: "a/../../out", body: "x"}},
		"from the root":      {{name: "/tmp/out", body: "x"}},
		"a symbolic link":    {{name: "a", link: "/etc/passwd", kind: tar.TypeSymlink}},
		"through a link":     {{name: "a", link: "..", kind: tar.TypeSymlink}, {name: "a/out", body: "x"}},
		"a hard link":        {{name: "a", link: "../out", kind: tar.TypeLink}},
		"a device":           {{name: "a", kind: tar.TypeChar}},
		"a name twice":       {{name: "a", body: "x"}, {name: "a", body: "y"}},
		"a file as a folder": {{name: "a", body: "x"}, {name: "a/b", body: "y"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHome(t)
			serve(t, h, tarOf(t, files...))
			s, dir := h.process()
			if _, folder, err := s.Load(t.Context()); err == nil {
				t.Errorf("Load() = %q, want an error", folder)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("Load() left %v, %v", left, err)
			}
			if left, err := filepath.Glob(filepath.Join(filepath.Dir(dir), "out")); err != nil || len(left) > 0 {
				t.Errorf("Load() wrote %v", left)
			}
		})
	}
}

func FuzzAnArchiveStaysInItsFolder(f *testing.F) {
	for _, seed := range [][]byte{nil, []byte("x"), bytes.Repeat([]byte{0}, 1024)} {
		f.Add(seed)
	}
	f.Add(tarOf(f, file{name: "a/b", body: "x"}))
	f.Add(tarOf(f, file{name: "../b", body: "x"}, file{name: "c", link: "/", kind: tar.TypeSymlink}))
	f.Fuzz(func(t *testing.T, archive []byte) {
		if len(archive) == 0 {
			return
		}
		h := newHome(t)
		serve(t, h, archive)
		s, dir := h.process()
		_, folder, err := s.Load(t.Context())
		left, wrong := os.ReadDir(dir)
		if wrong != nil {
			t.Fatal(wrong)
		}
		if want := map[bool]int{true: 1, false: 0}[err == nil]; len(left) != want {
			t.Errorf("Load() = %q, %v and leaves %v", folder, err, left)
		}
		if around, wrong := os.ReadDir(filepath.Dir(dir)); wrong != nil || len(around) > 2 {
			t.Errorf("beside the folder there is %v, %v", around, wrong)
		}
	})
}
