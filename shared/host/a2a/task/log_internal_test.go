package task

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/store"
)

// A log ends with one event that says so, and the task goes on.
func TestALogHasALimit(t *testing.T) {
	newRunner := func() *runner {
		return &runner{engine: &Engine{Config: Config{Now: time.Now}}, dispatch: &Dispatch{IsOwn: true}}
	}
	r := newRunner()
	for range MaxLogEvents + 10 {
		r.logEvent(LogRead, LogData{Path: "a"})
	}
	if n := len(r.log.pending); n != MaxLogEvents || r.log.pending[n-1].Type != LogTruncated || r.log.pending[n-2].Type != LogRead {
		t.Errorf("%d events, the last %+v", n, r.log.pending[n-1])
	}
	r = newRunner()
	for range 3 * maxLogBytes / 1000 {
		r.logEvent(LogBlocked, LogData{Reason: strings.Repeat("x", 900)})
	}
	if n := len(r.log.pending); n > maxLogBytes/900 || r.log.pending[n-1].Type != LogTruncated {
		t.Errorf("%d events, the last %+v", n, r.log.pending[n-1])
	}
	r = newRunner()
	r.dispatch.IsOwn = false
	if r.logEvent(LogRead, LogData{}); len(r.log.pending) != 0 {
		t.Error("the task of a stranger has a log")
	}
}

// The longest events of a document fit into it.
func TestADocumentHoldsItsEvents(t *testing.T) {
	long := strings.Repeat("<", 800) // which JSON escapes
	b, err := json.Marshal(slices.Repeat([]LogEvent{{MaxLogEvents, time.Now(), LogBlocked, LogData{Path: long, Reason: long}}}, maxLogDocEvents))
	if err != nil || len(b) > store.MaxData*3/4 {
		t.Errorf("a document has %d bytes, %v", len(b), err)
	}
}

func TestWrittenFilesAreListedOnce(t *testing.T) {
	before := []string{"b"}
	if got := mergePaths(before, []string{"c", "a", "b", "c"}); !slices.Equal(got, []string{"a", "b", "c"}) || len(before) != 1 {
		t.Errorf("mergePaths() = %q", got)
	}
	var many []string
	for n := range 200 {
		many = append(many, fmt.Sprintf("%0400d", n))
	}
	if got := mergePaths(many[100:], many[:100]); !slices.Equal(got, many[:maxWrittenPathBytes/400]) {
		t.Errorf("%d long paths are listed", len(got))
	}
}
