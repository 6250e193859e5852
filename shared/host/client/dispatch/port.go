package dispatch

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Book stores the State of each pair. It is safe for concurrent use.
type Book interface {
	// Open locks the pair and returns its session. It waits while another session of the pair is
	// open in any process, until ctx ends.
	Open(ctx context.Context, self, target identity.ID) (Session, error)
}

// Session is the locked state of one pair. It must be used by one goroutine.
type Session interface {
	// Load returns the state. The state of a new pair contains only its ids.
	Load() (State, error)
	// Save replaces the state, which must be durable before Save returns.
	Save(State) error
	Close() error
}

// Transport sends requests to targets. It is safe for concurrent use.
type Transport interface {
	// Post sends body as JSON and returns the reply, whatever its status. Unavailable means that
	// the request was not sent. TooLarge and Usage mean that a retry is pointless. After any other
	// error the outcome is unknown.
	Post(ctx context.Context, url string, body []byte) (status int, reply []byte, err error)
}
