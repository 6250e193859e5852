package standalone_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
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
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
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
