// Package queue contains constants of all task queues.
package queue

import (
	"time"

	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/call"
)

const (
	// RetryTime is longer than the lease of a worker that has died.
	RetryTime = 2 * time.Minute
	// UndecidedWait is longer than the lease of a turn's worker.
	UndecidedWait = 8 * time.Minute
	Retention     = task.MaxRunTime + 4*time.Hour
)

// FullRetryInterval limits the cost of redeliveries after task.ErrFull.
const (
	FullRetryDelay    = 20 * time.Second
	FullRetryInterval = 8 * time.Second
	MaxFullRetries    = int(call.MaxQueueDuration / FullRetryDelay)
)
