package dispatch

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Book stores the State of each pair. Safe for concurrent use.
type Book interface {
	// Open locks the pair and returns its session. It waits while another
	// session of the pair is open, in this process or another, until ctx ends:
	// one call in flight per target.
	Open(ctx context.Context, self, target identity.ID) (Session, error)
}

// Session is one pair's state while it is locked. For one goroutine.
type Session interface {
	// Load returns the state; for a new pair the zero State with its ids.
	Load() (State, error)
	// Save replaces the whole state, durably before it returns: an envelope is
	// sent only after.
	Save(State) error
	// Close unlocks the pair.
	Close() error
}

// Transport sends a request to a target. Safe for concurrent use.
type Transport interface {
	// Post sends body as application/json and returns the reply, whatever its
	// status. An error of kind problem.Unavailable means that nothing was sent;
	// TooLarge and Usage, that a retry is pointless; after any other error the
	// outcome is unknown.
	Post(ctx context.Context, url string, body []byte) (status int, reply []byte, err error)
}
