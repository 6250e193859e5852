// Package retry waits between tries, no longer than a context lasts.
//
// Whoever pauses takes Sleep through a field, so that tests need not wait.
package retry

import (
	"context"
	"time"
)

// Sleep waits for d, or until ctx ends: then it returns the context's error.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
