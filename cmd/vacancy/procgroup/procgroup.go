// Package procgroup ends a program together with the processes that it started.
package procgroup

import "time"

// GracePeriod is the time between asking a program to end and killing it.
const GracePeriod = 3 * time.Second
