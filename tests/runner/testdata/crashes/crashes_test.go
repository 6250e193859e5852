// Package crashes has a test that dies as a test does when the race detector crashes: once, or
// whenever it runs.
package crashes

import (
	"os"
	"syscall"
	"testing"
)

func TestOne(t *testing.T) {}

func TestCrashes(t *testing.T) {
	marker := os.Getenv("VACANCY_TEST_CRASHES")
	if marker == "" {
		return
	}
	if marker != "always" && os.Mkdir(marker, 0o700) != nil {
		return // it crashed before
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGSEGV)
	select {}
}

func TestOther(t *testing.T) {
	if os.Getenv("VACANCY_TEST_FAILS") != "" {
		t.Error("fails")
	}
}
