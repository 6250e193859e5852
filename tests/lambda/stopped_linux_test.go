package lambda

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/await"
)

// wantStopped waits until the process is stopped. Only Linux reports that in a
// file.
func wantStopped(t *testing.T, pid int) {
	t.Helper()
	await.Until(t, fmt.Sprintf("process %d is stopped", pid), func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(b), ") ")
		return strings.HasPrefix(rest, "T ")
	})
}
