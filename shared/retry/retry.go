// Package retry waits between attempts, until a context ends.
//
// Packages that pause have a field for Sleep, so that tests need not wait.
package retry

import (
	"context"
	"time"
)

// Sleep waits for d. If ctx ends earlier, it returns the context's error.
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
