package snapshot_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/registry/search/snapshot"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store/blob"
)

// random is a random source that is safe for concurrent use.
type random struct{}

func (random) Read(p []byte) (int, error) { return rand.Read(p) }

// brokenIndex fails in the middle of its copy.
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
			h := newFixture(t)
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
	h := newFixture(t)
	s, _ := h.process()
	v := h.publish(s, text("index"), snapshot.Version{})
	must(t, h.blobs.Blobs.Delete(t.Context(), v.Manifest.Archive))
	got, _, err := s.Load(t.Context())
	if !problem.Is(err, problem.Damaged) {
		t.Fatalf("Load() = %v, want damaged", err)
	}
	h.publish(s, text("rebuilt"), got)
}

func TestADamagedManifestIsReplacedByTheNextPublication(t *testing.T) {
	good := newFixture(t)
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
			h := newFixture(t)
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

func manifestOf(t testing.TB, m snapshot.Manifest) string {
	t.Helper()
	b, err := json.Marshal(m)
	must(t, err)
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
		must(t, w.WriteHeader(h))
		if _, err := io.WriteString(w, f.body); err != nil {
			t.Fatal(err)
		}
	}
	must(t, w.Close())
	return b.Bytes()
}

// serve makes the manifest name an archive and contain its checksum.
func serve(t *testing.T, h *fixture, archive []byte) {
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
			h := newFixture(t)
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

// fixed are two objects in memory.
type fixed struct {
	blob.Blobs
	manifest, archive []byte
}

func (f fixed) Get(_ context.Context, key string) (blob.Object, error) {
	body := f.archive
	if key == manifestKey {
		body = f.manifest
	}
	info := blob.Info{Key: key, Size: int64(len(body)), Tag: "tag"}
	return blob.Object{Info: info, Body: io.NopCloser(bytes.NewReader(body))}, nil
}

func FuzzAnArchiveStaysInItsFolder(f *testing.F) {
	f.Add([]byte("x"))
	f.Add(make([]byte, 1024))
	f.Add(tarOf(f, file{name: "a/b", body: "x"}))
	f.Add(tarOf(f, file{name: "../b", body: "x"}, file{name: "c", link: "/", kind: tar.TypeSymlink}))
	f.Fuzz(func(t *testing.T, archive []byte) {
		sum := sha256.Sum256(archive)
		m := snapshot.Manifest{Format: 1, Archive: snapshot.Prefix + "a.tar", SHA256: hex.EncodeToString(sum[:]), Size: int64(len(archive))}
		dir := filepath.Join(t.TempDir(), "own")
		must(t, os.Mkdir(dir, 0o700))
		s := snapshot.New(snapshot.Config{Blobs: fixed{manifest: []byte(manifestOf(t, m)), archive: archive}, Now: time.Now, Rand: random{}, Dir: dir})
		_, folder, err := s.Load(t.Context())
		left, wrong := os.ReadDir(dir)
		if wrong != nil {
			t.Fatal(wrong)
		}
		if want := map[bool]int{true: 1, false: 0}[err == nil]; len(left) != want {
			t.Errorf("Load() = %q, %v and leaves %v", folder, err, left)
		}
		if around, wrong := os.ReadDir(filepath.Dir(dir)); wrong != nil || len(around) != 1 {
			t.Errorf("beside the folder there is %v, %v", around, wrong)
		}
	})
}

func FuzzAManifestLeadsNowhereElse(f *testing.F) {
	m := snapshot.Manifest{Format: 1, Archive: snapshot.Prefix + "a.tar", SHA256: strings.Repeat("0", 64), Size: 1}
	f.Add([]byte(manifestOf(f, m)))
	f.Add([]byte(`{"format":1,"archive":"search/../a.tar"}`))
	f.Fuzz(func(t *testing.T, manifest []byte) {
		s := snapshot.New(snapshot.Config{Blobs: fixed{manifest: manifest}})
		v, err := s.Latest(t.Context())
		if v.Tag != "tag" || err != nil && !problem.Is(err, problem.Damaged) {
			t.Fatalf("Latest() = %+v, %v, want a tag and at most damage", v, err)
		}
		key := v.Manifest.Archive
		if err == nil && (path.Dir(key)+"/" != snapshot.Prefix || path.Clean(key) != key || blob.CheckKey(key) != nil) {
			t.Errorf("Latest() leads to %q", key)
		}
	})
}

func TestAnArchiveTakesNoMoreRoomThanItHas(t *testing.T) {
	// The header announces 8 GiB of zeros, as for a sparse PAX file.
	sparse := tarOf(t, file{name: "a", body: "1\n0\n0\n" + strings.Repeat("\x00", 506)})
	header := tarHeader(t, map[string]string{
		"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "a", "GNU.sparse.realsize": "8589934592",
	})
	h := newFixture(t)
	serve(t, h, append(header, sparse...))
	s, dir := h.process()
	if _, folder, err := s.Load(t.Context()); !problem.Is(err, problem.Damaged) || !strings.Contains(err.Error(), "more than the rest of the archive") {
		t.Errorf("Load() = %q, %v, want that the archive has fewer bytes", folder, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("Load() left %v, %v", left, err)
	}
}

// tarHeader returns a PAX header for the next file that archive/tar would not write.
func tarHeader(t *testing.T, records map[string]string) []byte {
	t.Helper()
	var body string
	for _, key := range slices.Sorted(maps.Keys(records)) {
		line := " " + key + "=" + records[key] + "\n"
		n := len(line) + 2 // every line is of 10 to 99 bytes
		body += strconv.Itoa(n) + line
	}
	block := make([]byte, 512)
	copy(block, "PaxHeaders/a")
	copy(block[100:], "0000600\x00")
	copy(block[124:], fmt.Sprintf("%011o\x00", len(body)))
	copy(block[136:], "00000000000\x00")
	block[156] = 'x'
	copy(block[257:], "ustar\x0000")
	copy(block[148:], "        ")
	sum := 0
	for _, b := range block {
		sum += int(b)
	}
	copy(block[148:], fmt.Sprintf("%06o\x00 ", sum))
	return append(block, append([]byte(body), make([]byte, (512-len(body)%512)%512)...)...)
}
