package push

import (
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/call/task"
)

// Pieces of an answer have a bound; events of the status, the end among them, have none.
func TestOnlyPiecesBeyondTheBoundAreSkipped(t *testing.T) {
	piece, status := task.Event{Artifact: &task.Chunk{}}, task.Event{Status: &task.Status{State: task.Completed}}
	for _, c := range []struct {
		n    int
		e    task.Event
		want bool
	}{{1, piece, false}, {MaxDeliveries, piece, false}, {MaxDeliveries + 1, piece, true}, {MaxDeliveries + 1, status, false}, {10 * MaxDeliveries, status, false}} {
		if got := skips(task.Numbered{N: c.n, Event: c.e}); got != c.want {
			t.Errorf("skips(%d, %+v) = %t, want %t", c.n, c.e, got, c.want)
		}
	}
}
