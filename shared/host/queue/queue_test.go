package queue_test

import (
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/queue"
)

// Costs and dead letters count with MostWaits.
func TestATurnWaitsForRoomAFewTimes(t *testing.T) {
	if n := int(call.MaxQueued/queue.RoomWait) + 1; n != queue.MostWaits {
		t.Errorf("a turn comes again %d times until it fails, want %d", n, queue.MostWaits)
	}
}
