// Package queue holds the common parts of task queues; its subpackages implement
// task.Queue.
package queue

import (
	"time"

	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/call"
)

const (
	// Patience is the time for which a message is tried again if its handler refuses it with
	// task.ErrAgain: longer than the lease of a worker that died.
	Patience = 2 * time.Minute
	// UndecidedWait is the time after which the message of a turn with an uncertain payment
	// (task.ErrUndecided) comes again: longer than the lease of the turn's worker.
	UndecidedWait = 8 * time.Minute
	// Retention is the time for which a queue keeps a message: longer than a dispatched task may be unfinished.
	Retention = task.MaxRunTime + 4*time.Hour
)

// The message of a turn without room (task.ErrFull) comes again after RoomWait or later: each process
// that handles messages lets two of them come again in each RoomGap, one of an account and one of
// another caller, which bounds their costs. A message comes again at most MaxRoomWaits times, because the
// turn fails after call.MaxQueued. A dispatched task may wait until its deadline, so another message continues its wait then.
const (
	RoomWait     = 20 * time.Second
	RoomGap      = 8 * time.Second
	MaxRoomWaits = int(call.MaxQueued / RoomWait)
)
