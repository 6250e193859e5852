// Package queue contains constants that all task queues share. Its subpackages implement
// task.Queue. A message names a task that has a due turn, or a booking (package booking). In a
// turn, an agent answers one call.
package queue

import (
	"time"

	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/call"
)

const (
	// RetryTime is the time for which a message is retried if its handler returns
	// task.ErrRetryLater. It is longer than the lease of a worker that has died.
	RetryTime = 2 * time.Minute
	// UndecidedWait is the delay before the message of a turn with an uncertain payment
	// (task.ErrUndecided) is redelivered. It is longer than the lease of the turn's worker.
	UndecidedWait = 8 * time.Minute
	// Retention is the time for which a queue stores a message. It is longer than a dispatched task
	// may take.
	Retention = task.MaxRunTime + 4*time.Hour
)

// If too many turns are running (task.ErrFull), the message of a waiting turn is redelivered after
// FullRetryDelay or later. To limit the cost, each process redelivers about one message per
// FullRetryInterval for all accounts together, and one for all callers without an account. A turn
// fails after call.MaxQueued, so its message is redelivered at most MaxFullRetries times. A
// dispatched task (task.ErrWaiting) may wait until its deadline. A queue limits the deliveries of a
// message, so a new message replaces it after MaxFullRetries deliveries.
const (
	FullRetryDelay    = 20 * time.Second
	FullRetryInterval = 8 * time.Second
	MaxFullRetries    = int(call.MaxQueued / FullRetryDelay)
)
