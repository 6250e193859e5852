package plain

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
)

// KeepAlive is the interval after which an idle stream sends a comment.
const KeepAlive = 15 * time.Second

const MediaEvents = "text/event-stream"

// Rendering renders the events of a task for one protocol.
type Rendering interface {
	// Event renders an event. If it returns nil, the event is skipped. If it returns an empty
	// slice, only the HTTP header is sent, unless the stream has already begun. An error refuses
	// the request if the stream has not begun, and otherwise ends the stream.
	Event(n task.Numbered) ([]byte, error)
	// End renders the end of the stream. err is the reason if the stream ends early.
	End(err error) []byte
}

// Stream writes server-sent events.
type Stream struct {
	x       *Exchange
	as      Rendering
	refused error // error that occurred before the stream began
	begun   bool
	// Broken is true if the client has disconnected or reads too slowly.
	Broken bool
}

func (x *Exchange) Stream(as Rendering) *Stream { return &Stream{x: x, as: as} }

// Follow sends the events of a task that follow the event number after, until follow returns or the
// request ends.
func (s *Stream) Follow(ref task.Ref, after int, follow func(context.Context, task.Ref, int, func(task.Numbered) bool) error) error {
	ctx, cancel := context.WithCancel(s.x.Context())
	defer cancel()
	events := make(chan task.Numbered)
	failed := make(chan error, 1)
	go func() {
		defer close(events)
		failed <- follow(ctx, ref, after, func(n task.Numbered) bool {
			select {
			case events <- n:
				return true
			case <-ctx.Done():
				return false
			}
		})
	}()
	tick := time.NewTicker(KeepAlive)
	defer tick.Stop()
	for {
		select {
		case n, ok := <-events:
			if !ok {
				err := <-failed
				if err != nil && !s.begun {
					return err
				}
				s.End(err)
				s.x.Log("ok", http.StatusOK, nil)
				return nil
			}
			s.Send(n)
		case <-tick.C:
			s.Write([]byte(": still at work\n\n"))
		}
		if s.refused != nil {
			return s.refused
		}
		if s.Broken {
			s.x.Log("hung_up", http.StatusOK, nil)
			return nil
		}
	}
}

func (s *Stream) Send(n task.Numbered) {
	switch {
	case n.Task != nil:
		s.x.Line.Cut = n.Task.Status.Cut()
	case n.Status != nil:
		s.x.Line.Cut = n.Status.Cut()
	}
	switch b, err := s.as.Event(n); {
	case err != nil && !s.begun:
		s.refused = err
	case err != nil:
		s.Write(s.as.End(err))
	case b != nil:
		s.Write(b)
	}
}

func (s *Stream) End(err error) { s.Write(s.as.End(err)) }

func (s *Stream) Write(b []byte) {
	if !s.begun {
		s.begun = true
		// The read deadline must not end the stream: the HTTP server keeps reading to detect a
		// disconnected client.
		s.x.EndReadDeadline()
		h := s.x.ResponseWriter.Header()
		h.Set("Content-Type", MediaEvents)
		h.Set("Cache-Control", "no-store")
		h.Set("X-Accel-Buffering", "no")
		h.Set("X-Content-Type-Options", "nosniff")
		s.x.WriteHeader(http.StatusOK)
	}
	if s.Broken {
		return
	}
	s.x.ExtendWrite()
	_, err := s.x.ResponseWriter.Write(b)
	if err == nil {
		err = http.NewResponseController(s.x.ResponseWriter).Flush()
	}
	s.Broken = err != nil && !errors.Is(err, http.ErrNotSupported)
}
