package dispatch

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Book stores the State of each pair. It is safe for concurrent use.
type Book interface {
	// Open locks the pair and returns its session. If another session of the pair is open, in this
	// process or another one, Open waits until that session is closed or ctx ends. Therefore only
	// one call per target is in flight.
	Open(ctx context.Context, self, target identity.ID) (Session, error)
}

// Session is the locked state of one pair. It must be used by one goroutine.
type Session interface {
	// Load returns the state. For a new pair it is the zero State with its ids.
	Load() (State, error)
	// Save replaces the complete state. The state is durable before Save returns, because an
	// envelope is sent only afterwards.
	Save(State) error
	// Close unlocks the pair.
	Close() error
}

// Transport sends requests to targets. It is safe for concurrent use.
type Transport interface {
	// Post sends body as application/json and returns the reply, whatever its status.
	// problem.Unavailable means that the request was not sent. TooLarge and Usage mean that a retry
	// is pointless. After any other error the outcome is unknown.
	Post(ctx context.Context, url string, body []byte) (status int, reply []byte, err error)
}
