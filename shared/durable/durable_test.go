package durable_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/vacancy-host/vacancy/shared/durable"
)

func TestDirSyncsAFolderAndNamesOneThatIsMissing(t *testing.T) {
	dir := t.TempDir()
	if err := durable.SyncDir(dir); err != nil {
		t.Errorf("Dir() = %v", err)
	}
	if runtime.GOOS == "windows" {
		return // nothing is opened there
	}
	if err := durable.SyncDir(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Dir() of no folder = %v, want that it is missing", err)
	}
}
