package standalone_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

func TestASecondBackupIsRefusedAndTheFirstStaysWhole(t *testing.T) {
	h := run(t, filepath.Join(t.TempDir(), "host"))
	client, base, err := serve.DialAdmin(h.dir)
	must(t, err)
	c := admin.Client{HTTP: client, URL: base}
	// More than a socket buffers, so the first backup waits for its reader.
	const many = 20
	for n := range many {
		key := store.Key{Partition: "large", Sort: fmt.Sprint(n)}
		if err := h.Store.Commit(t.Context(), store.Put{Key: key, Data: make([]byte, store.MaxData), WriteID: store.WriteID{1}}); err != nil {
			t.Fatal(err)
		}
	}
	first, err := c.Backup(t.Context())
	must(t, err)
	defer first.Close()
	if second, err := c.Backup(t.Context()); !problem.Is(err, problem.Conflict) {
		if err == nil {
			second.Close()
		}
		t.Errorf("a second backup = %v, want a conflict", err)
	}
	unpacked := t.TempDir()
	if _, err := standalone.Unpack(first, unpacked); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(unpacked, standalone.DataFile))
	if err != nil || info.Size() < many*store.MaxData {
		t.Errorf("the backup has a data file %v, %v; want at least %d bytes", info, err, many*store.MaxData)
	}
	if _, err := io.Copy(io.Discard, first); err != nil {
		t.Fatal(err)
	}
	again, err := c.Backup(t.Context())
	if err != nil {
		t.Fatalf("a backup after the first = %v", err)
	}
	again.Close()
}

// Unpack takes the four files of a backup in their order, and nothing before, between or after.
func TestOnlyAWholeBackupIsUnpacked(t *testing.T) {
	h := run(t, filepath.Join(t.TempDir(), "host"))
	client, base, err := serve.DialAdmin(h.dir)
	must(t, err)
	made, err := (&admin.Client{HTTP: client, URL: base}).Backup(t.Context())
	must(t, err)
	defer made.Close()
	type file struct {
		tar.Header
		data []byte
	}
	var whole []file
	for r := tar.NewReader(made); ; {
		header, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		must(t, err)
		whole = append(whole, file{*header, data})
	}
	unpack := func(files ...file) error {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, f := range files {
			must(t, w.WriteHeader(&f.Header))
			if _, err := w.Write(f.data); err != nil {
				t.Fatal(err)
			}
		}
		must(t, w.Close())
		_, err := standalone.Unpack(&b, t.TempDir())
		return err
	}
	if err := unpack(whole...); err != nil || len(whole) != 4 {
		t.Fatalf("Unpack() of %d files = %v", len(whole), err)
	}
	// A backup with files of workspaces has their blobs before its end.
	const key = "files/workspaces/0123456789abcdef/fedcba9876543210"
	of := func(name string, size int) file {
		return file{Header: tar.Header{Name: name, Mode: 0o600, Typeflag: tar.TypeReg, Size: int64(size)}, data: make([]byte, size)}
	}
	if err := unpack(whole[0], whole[1], whole[2], of(key, 5), of(key+"1", 6), whole[3]); err != nil {
		t.Fatalf("Unpack() with blobs = %v", err)
	}
	extra := file{Header: tar.Header{Name: "extra", Mode: 0o600, Typeflag: tar.TypeReg}}
	link := whole[2]
	link.Typeflag, link.Linkname, link.Size, link.data = tar.TypeSymlink, "/etc/passwd", 0, nil
	for name, files := range map[string][]file{
		"nothing":               {},
		"no end":                whole[:3],
		"another order":         {whole[0], whole[2], whole[1], whole[3]},
		"one file twice":        {whole[0], whole[1], whole[1], whole[2], whole[3]},
		"a file before":         append([]file{extra}, whole...),
		"a file after its end":  append(slices.Clip(whole), extra),
		"its end twice":         append(slices.Clip(whole), whole[3]),
		"a link":                {whole[0], whole[1], link, whole[3]},
		"a blob before":         {whole[0], whole[1], of(key, 5), whole[2], whole[3]},
		"a blob after its end":  append(slices.Clip(whole), of(key, 5)),
		"a blob elsewhere":      {whole[0], whole[1], whole[2], of("files/usage/2026", 5), whole[3]},
		"a blob above":          {whole[0], whole[1], whole[2], of("files/workspaces/../../seal.key", 5), whole[3]},
		"a large blob":          {whole[0], whole[1], whole[2], of(key, 3<<20), whole[3]},
		"a blob that is a link": {whole[0], whole[1], whole[2], file{Header: tar.Header{Name: key, Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}}, whole[3]},
	} {
		if err := unpack(files...); !problem.Is(err, problem.Untrusted) {
			t.Errorf("Unpack() of a backup with %s = %v, want untrusted", name, err)
		}
	}
}
