package plain

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
)

const KeepAliveInterval = 15 * time.Second

const MediaEvents = "text/event-stream"

type EventRenderer interface {
	// RenderEvent renders an event. If it returns nil, the event is skipped. If it returns an empty
	// slice, only the HTTP header is sent. An error ends the stream.
	RenderEvent(n task.NumberedEvent) ([]byte, error)
	RenderEnd(err error) []byte
}

type Stream struct {
	x        *Exchange
	renderer EventRenderer
	startErr error
	hasBegun bool
	Broken   bool
}

func (x *Exchange) NewStream(renderer EventRenderer) *Stream {
	return &Stream{x: x, renderer: renderer}
}

// Follow sends the events whose numbers are greater than after, until subscribe returns or the
// request ends.
func (s *Stream) Follow(ref task.Ref, after int, subscribe func(context.Context, task.Ref, int, func(task.NumberedEvent) bool) error) error {
	ctx, cancel := context.WithCancel(s.x.Context())
	defer cancel()
	events := make(chan task.NumberedEvent)
	followErr := make(chan error, 1)
	go func() {
		defer close(events)
		followErr <- subscribe(ctx, ref, after, func(n task.NumberedEvent) bool {
			select {
			case events <- n:
				return true
			case <-ctx.Done():
				return false
			}
		})
	}()
	tick := time.NewTicker(KeepAliveInterval)
	defer tick.Stop()
	for {
		select {
		case n, ok := <-events:
			if !ok {
				err := <-followErr
				if err != nil && !s.hasBegun {
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
		if s.startErr != nil {
			return s.startErr
		}
		if s.Broken {
			s.x.Log("hung_up", http.StatusOK, nil)
			return nil
		}
	}
}

func (s *Stream) Send(n task.NumberedEvent) {
	switch {
	case n.Task != nil:
		s.x.Line.CutReason = n.Task.Status.CutReason()
	case n.Status != nil:
		s.x.Line.CutReason = n.Status.CutReason()
	}
	switch b, err := s.renderer.RenderEvent(n); {
	case err != nil && !s.hasBegun:
		s.startErr = err
	case err != nil:
		s.Write(s.renderer.RenderEnd(err))
	case b != nil:
		s.Write(b)
	}
}

func (s *Stream) End(err error) { s.Write(s.renderer.RenderEnd(err)) }

func (s *Stream) Write(b []byte) {
	if !s.hasBegun {
		s.hasBegun = true
		// The HTTP server keeps reading to detect a disconnected client, so an expired read
		// deadline would end the stream.
		s.x.ClearReadDeadline()
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
	s.x.ExtendWriteDeadline()
	_, err := s.x.ResponseWriter.Write(b)
	if err == nil {
		err = http.NewResponseController(s.x.ResponseWriter).Flush()
	}
	s.Broken = err != nil && !errors.Is(err, http.ErrNotSupported)
}
