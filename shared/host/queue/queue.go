// Package queue holds the common parts of task queues; its subpackages implement
// task.Queue.
package queue

import "time"

// Patience is the time for which a message is tried again if its handler refuses it with
// task.ErrAgain: longer than the lease of a worker that died.
const Patience = 2 * time.Minute
