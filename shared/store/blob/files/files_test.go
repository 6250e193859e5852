package files_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/store/blob"
	"github.com/vacancy-host/vacancy/shared/store/blob/blobtest"
	"github.com/vacancy-host/vacancy/shared/store/blob/files"
)

func open(t *testing.T, dir string) *files.Files {
	t.Helper()
	f, err := files.Open(dir, time.Now())
	if err != nil {
		t.Fatalf("Open() = %v", err)
	}
	return f
}

func TestFilesKeepTheContract(t *testing.T) {
	blobtest.Run(t, func(t *testing.T) blob.Blobs { return open(t, t.TempDir()) })
}

// writeAndDie turns this test binary into a process that writes versions of one
// object until it is killed.
const writeAndDie = "VACANCY_TEST_WRITE_AND_DIE"

func TestMain(m *testing.M) {
	dir := os.Getenv(writeAndDie)
	if dir == "" {
		os.Exit(m.Run())
	}
	f, err := files.Open(dir, time.Now())
	if err != nil {
		panic(err)
	}
	os.Stdout.WriteString("writing\n")
	for i := 0; ; i++ {
		text := strings.Repeat(strconv.Itoa(i%10), 256<<10)
		if _, err := f.Put(context.Background(), "some/key", strings.NewReader(text), int64(len(text)), blob.Condition{}); err != nil {
			panic(err)
		}
	}
}

func TestAWriterThatIsKilledLeavesAWholeVersionAndNoLock(t *testing.T) {
	dir := t.TempDir()
	for range 5 {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), writeAndDie+"="+dir)
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 8)); err != nil {
			t.Fatal(err)
		}
		f := open(t, dir)
		for {
			if _, err := f.Head(t.Context(), "some/key"); err == nil {
				break
			}
		}
		if err := child.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = child.Wait() // it was killed
		text, err := os.ReadFile(filepath.Join(dir, "objects", "some%", "key"))
		if err != nil {
			t.Fatal(err)
		}
		if len(text) != 256<<10 || strings.Trim(string(text), string(text[:1])) != "" {
			t.Errorf("the object has %d bytes, of more than one version", len(text))
		}
		if _, err := f.Put(t.Context(), "other", strings.NewReader("x"), 1, blob.Condition{}); err != nil {
			t.Errorf("Put() after a writer was killed = %v", err)
		}
	}
}

func TestPartialWritesAreRemovedAfterADay(t *testing.T) {
	dir := t.TempDir()
	open(t, dir)
	left := filepath.Join(dir, "incoming", "put-1")
	if err := os.WriteFile(left, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	open(t, dir)
	if _, err := os.Stat(left); err != nil {
		t.Errorf("what may be written now is gone: %v", err)
	}
	if _, err := files.Open(dir, time.Now().Add(25*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Stat() = %v, want that it is removed", err)
	}
}

func TestAnObjectThatCannotBeReadIsUnavailableAndNotAbsent(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir)
	// A directory instead of a file can be opened but not read, by any user.
	if err := os.MkdirAll(filepath.Join(dir, "objects", "key"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Get(t.Context(), "key"); !errors.Is(err, blob.ErrUnavailable) {
		t.Errorf("Get() = %v, want ErrUnavailable", err)
	}
	if _, err := f.Put(t.Context(), "key", strings.NewReader("x"), 1, blob.Condition{}); !errors.Is(err, blob.ErrUnavailable) {
		t.Errorf("Put() = %v, want ErrUnavailable", err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "incoming")); err != nil || len(left) > 0 {
		t.Errorf("a failed Put() leaves %v, %v", left, err)
	}
}

func FuzzKeysStayInTheFolder(f *testing.F) {
	for _, key := range []string{"a", "../a", "a/../../b", "a%/b", "lock", "incoming/x", "C:/a", "con"} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		if blob.CheckKey(key) != nil {
			return
		}
		dir := t.TempDir()
		home := open(t, dir)
		if _, err := home.Put(t.Context(), key, strings.NewReader("x"), 1, blob.Condition{Absent: true}); err != nil {
			t.Fatalf("Put(%q) = %v", key, err)
		}
		page, _, err := home.List(t.Context(), "", 10, "")
		if err != nil || len(page) != 1 || page[0].Key != key {
			t.Errorf("List() = %v, %v, want %q", page, err, key)
		}
		top, err := os.ReadDir(dir)
		if err != nil || len(top) != 3 {
			t.Errorf("the folder holds %v, %v, want objects, incoming and lock", top, err)
		}
	})
}
