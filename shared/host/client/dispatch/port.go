package dispatch

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Book keeps the State of each pair. Safe for concurrent use.
type Book interface {
	// Open locks the pair and returns its session. While another session of
	// the same pair is open, in this process or another, it waits until that is
	// closed or ctx ends: one call in flight per target.
	Open(ctx context.Context, self, target identity.ID) (Session, error)
}

// Session is one pair's state while it is locked. For one goroutine.
type Session interface {
	// Load returns the state; a pair without one has the zero State, its ids
	// filled in.
	Load() (State, error)
	// Save replaces the state as a whole. It is durable before Save returns: an
	// envelope is sent only after.
	Save(State) error
	// Close unlocks the pair.
	Close() error
}

// Transport carries a request to a target. Safe for concurrent use.
type Transport interface {
	// Post sends body as application/json and returns what came back, whatever
	// its status. An error of kind problem.Unavailable says that nothing was
	// sent; problem.TooLarge and problem.Usage, that trying again is pointless;
	// after any other error the outcome is unknown.
	Post(ctx context.Context, url string, body []byte) (status int, reply []byte, err error)
}
