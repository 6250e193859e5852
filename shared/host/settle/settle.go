// Package settle is how a change is made where others change things too, over a
// store whose answers get lost: a commit is asked again until its outcome is
// known, and who was overtaken waits a while and decides again.
//
// The invariants: a commit is asked again with the same bytes and attempts, so
// that a write which was applied counts as applied and a new decision is made
// only on what certainly was not; nobody waits beyond the context.
package settle

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"time"

	"github.com/vacancy-host/vacancy/shared/store"
)

const (
	// Tries is how often a commit of unknown outcome is asked, and how often a
	// change that others keep overtaking is decided where no deadline bounds it.
	Tries = 6

	// Patience bounds the tries of a caller that brings no deadline.
	Patience = 20 * time.Second

	firstPause = 5 * time.Millisecond
	longPause  = 250 * time.Millisecond
)

// Wait sleeps for d, or ends early with ctx.
type Wait func(ctx context.Context, d time.Duration) error

// Commit commits to s, and asks again while the outcome is unknown.
func Commit(ctx context.Context, s store.Store, wait Wait, writes ...store.Write) error {
	for try := 1; ; try++ {
		err := s.Commit(ctx, writes...)
		if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrClosed) || try == Tries {
			return err
		}
		if wait(ctx, time.Duration(try*try)*firstPause) != nil {
			return err
		}
	}
}

// Overtaken reports whether a commit was refused because somebody else wrote
// meanwhile: then everything is read and decided again.
func Overtaken(err error) bool {
	var conflict *store.ConflictError
	var taken *store.TakenError
	return errors.As(err, &conflict) || errors.As(err, &taken)
}

// WithPatience gives ctx a deadline if it has none.
func WithPatience(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, Patience)
}

// BackOff waits before the next try, counted from 1: longer each time, and
// never all alike, or those who collided would meet again.
func BackOff(ctx context.Context, wait Wait, rand io.Reader, try int) error {
	most := min(firstPause<<min(try, 10), longPause)
	var b [8]byte
	if _, err := io.ReadFull(rand, b[:]); err != nil {
		return err
	}
	return errors.Join(ctx.Err(), wait(ctx, time.Duration(binary.BigEndian.Uint64(b[:])%uint64(most))))
}
