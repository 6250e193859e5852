// Package queue holds the common parts of task queues; its subpackages implement
// task.Queue.
package queue

import "time"

// Patience is the time for which a message is tried again if its handler refuses it with
// task.ErrAgain: longer than the lease of a worker that died.
const Patience = 2 * time.Minute

// The message of a turn whose shares have no room (task.ErrFull) comes again after RoomWait, in case
// that the message which tells of the room is lost. So it comes again MostWaits times until the turn
// has waited for call.MaxQueued.
const (
	RoomWait  = 8 * time.Minute
	MostWaits = 2
)
