// Package queue holds what the queues of tasks have in common; its subpackages implement
// task.Queue.
package queue

import "time"

// Patience is for how long a message that its handler refuses with task.ErrAgain is tried
// again: longer than the lease of a worker that died.
const Patience = 2 * time.Minute
