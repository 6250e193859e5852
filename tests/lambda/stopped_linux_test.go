package lambda

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// wantStopped waits until the process is stopped. Only Linux reports that in a
// file.
func wantStopped(t *testing.T, pid int) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(b), ") ")
		if strings.HasPrefix(rest, "T ") {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("process %d has state %.1s, want T", pid, rest)
		}
	}
}
