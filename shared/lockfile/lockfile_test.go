package lockfile_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/lockfile"
)

// holdAndWait makes this test binary a process that takes the lock of the file
// so named, says so, and waits to be killed.
const holdAndWait = "VACANCY_TEST_HOLD_AND_WAIT"

func TestMain(m *testing.M) {
	path := os.Getenv(holdAndWait)
	if path == "" {
		os.Exit(m.Run())
	}
	release, err := lockfile.Acquire(context.Background(), path)
	if err != nil {
		panic(err)
	}
	defer release()
	os.Stdout.WriteString("held\n")
	select {}
}

func TestALockIsHeldByOneAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	release, err := lockfile.Acquire(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	other, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if ok, err := lockfile.Try(other); ok || err != nil {
		t.Errorf("Try() of a held lock = %v, %v, want false", ok, err)
	}
	release()
	for range 2 {
		if ok, err := lockfile.Try(other); !ok || err != nil {
			t.Errorf("Try() of a free lock = %v, %v, want true", ok, err)
		}
		if err := lockfile.Release(other); err != nil {
			t.Errorf("Release() = %v", err)
		}
	}
}

func TestWhoeverWaitsGetsTheLockWhenItIsFree(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	release, err := lockfile.Acquire(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan error, 1)
	go func() {
		second, err := lockfile.Acquire(t.Context(), path)
		if err == nil {
			second()
		}
		got <- err
	}()
	select {
	case err := <-got:
		t.Errorf("Acquire() of a held lock = %v, want a wait", err)
	case <-time.After(100 * time.Millisecond):
		release()
		if err := <-got; err != nil {
			t.Errorf("Acquire() = %v", err)
		}
	}
}

func TestAWaitEndsWithItsContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	release, err := lockfile.Acquire(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := lockfile.Acquire(ctx, path); !errors.Is(err, context.Canceled) {
		t.Errorf("Acquire() = %v, want the context's end", err)
	}
}

func TestALockEndsWithItsProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), holdAndWait+"="+path)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		t.Errorf("the child said %q, %v", line, err)
	}
	if err := child.Process.Kill(); err != nil { // no clean-up of any kind runs in it
		t.Fatal(err)
	}
	_ = child.Wait()
	release, err := lockfile.Acquire(t.Context(), path)
	if err != nil {
		t.Fatalf("Acquire() = %v", err)
	}
	release()
}

func TestAnOddPathIsAnError(t *testing.T) {
	if _, err := lockfile.Acquire(t.Context(), filepath.Join(t.TempDir(), "not", "there")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Acquire() = %v, want that the folder is missing", err)
	}
}
