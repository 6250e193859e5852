package a2a

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/host/a2a/a2awire"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Limits of a stream.
const (
	keepAlive    = 15 * time.Second
	writeTimeout = 20 * time.Second // of one event or a page of tasks to a slow client
)

func (d *api) streamMessage(r *request, params []byte) error {
	q, turn, err := d.decodeTurn(r, params)
	if err != nil {
		return err
	}
	if r.wantsBare(&q.Message) {
		t, err := d.Tasks.Run(r.Context(), *turn)
		if err != nil {
			return d.busy(r, turn, err)
		}
		s := &sse{r: r, ref: turn.Ref}
		r.cut = t.Status.Cut()
		s.begin()
		s.write(append(s.frame([]byte("data: "), r.bareMessage(&t)), "\n\n"...))
		d.log(r, "ok", http.StatusOK, nil)
		return nil
	}
	ref, done, err := d.begin(r, turn)
	if err != nil {
		return d.busy(r, turn, err)
	}
	// A turn goes on without its client. The handler waits for it, because after the
	// handler nothing may run.
	defer func() { <-done }()
	s := &sse{r: r, ref: ref, history: q.HistoryLength}
	if !turn.Continue {
		return d.stream(s, 0, d.Tasks.FollowTurn)
	}
	// A stream begins with the task, also if that is older. The turn may have ended
	// already.
	t, last, err := d.Tasks.TurnSnapshot(r.Context(), ref)
	if err != nil {
		return err
	}
	s.context = t.Context
	s.event(task.Numbered{N: last, Event: task.Event{Task: &t}})
	return d.stream(s, last, d.Tasks.FollowTurn)
}

func (d *api) subscribe(r *request, params []byte) error {
	_, ref, err := d.named(r, params)
	if err != nil {
		return err
	}
	t, last, err := d.Tasks.Snapshot(r.Context(), ref)
	if err != nil {
		return err
	}
	after, known := 0, r.Request.Header.Get("Last-Event-ID")
	if known != "" {
		if after, err = strconv.Atoi(known); err != nil || after < 0 || after > last {
			return problem.Invalid("Last-Event-ID", "the id of an event of this task", httpapi.Clip(known))
		}
	}
	if t.Status.State.Terminal() && (known == "" || after == last) {
		return faultf(unsupported, "task "+t.ID+" has ended ("+string(t.Status.State)+"); read it with GetTask")
	}
	ctx, cancel := context.WithTimeout(r.Context(), d.Follow)
	defer cancel()
	r.Request = r.WithContext(ctx)
	s := &sse{r: r, ref: ref, context: t.Context}
	if known == "" {
		s.event(task.Numbered{N: last, Event: task.Event{Task: &t}})
		after = last
	}
	return d.stream(s, after, d.Tasks.Follow)
}

// stream sends the events of a task after a number until follow or the request ends.
func (d *api) stream(s *sse, after int, follow func(context.Context, task.Ref, int, func(task.Numbered) bool) error) error {
	r := s.r
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	events := make(chan task.Numbered)
	failed := make(chan error, 1)
	go func() {
		defer close(events)
		failed <- follow(ctx, s.ref, after, func(n task.Numbered) bool {
			select {
			case events <- n:
				return true
			case <-ctx.Done():
				return false
			}
		})
	}()
	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
	for {
		select {
		case n, ok := <-events:
			if !ok {
				err := <-failed
				if err != nil && !s.begun {
					return err
				}
				s.end(err)
				d.log(r, "ok", http.StatusOK, nil)
				return nil
			}
			s.event(n)
		case <-tick.C:
			s.begin()
			s.write([]byte(": still at work\n\n"))
		}
		if s.refused != nil {
			return s.refused
		}
		if s.broken {
			d.log(r, "hung_up", http.StatusOK, nil)
			return nil
		}
	}
}

// sse writes server-sent events.
type sse struct {
	r       *request
	ref     task.Ref
	context string // of the task
	history *int
	as      rendering // of the events, for clients of no A2A; nil for clients of A2A
	refused error     // the turn failed before anything was sent
	begun   bool
	broken  bool // the client is gone or reads too slowly
}

// rendering renders the events of a turn for a client of another protocol.
type rendering interface {
	// event renders an event; nil sends nothing, and an empty text begins the stream. The error refuses
	// the request if the stream has not begun, and else ends it.
	event(e *task.Event) ([]byte, error)
	// end renders the end of the stream; err is why it ends early.
	end(err error) []byte
}

func (s *sse) begin() {
	if s.begun {
		return
	}
	s.begun = true
	// The limit for receiving a request would end the stream: the server reads on, to
	// notice that the client is gone.
	_ = http.NewResponseController(s.r.ResponseWriter).SetReadDeadline(time.Time{})
	h := s.r.ResponseWriter.Header()
	h.Set("Content-Type", mediaEvents)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	h.Set("X-Content-Type-Options", "nosniff")
	s.r.WriteHeader(http.StatusOK)
}

func (s *sse) event(n task.Numbered) {
	if n.Task != nil {
		s.context = n.Task.Context
		s.r.cut = n.Task.Status.Cut()
	}
	if n.Status != nil {
		s.r.cut = n.Status.Cut()
	}
	if s.as != nil {
		b, err := s.as.event(&n.Event)
		switch {
		case err != nil && !s.begun:
			s.refused = err
		case err != nil:
			s.write(s.as.end(err))
		case b != nil:
			s.begin()
			s.write(b)
		}
		return
	}
	s.begin()
	result := a2awire.StreamResult(s.r.dialect, &task.Task{ID: s.ref.ID, Context: s.context}, n.View(s.history, s.r.extension))
	b := append(strconv.AppendInt([]byte("id: "), int64(n.N), 10), "\ndata: "...)
	s.write(append(s.frame(b, result), "\n\n"...))
}

// frame appends a result as the binding has it.
func (s *sse) frame(b, result []byte) []byte {
	if s.r.withoutRPC {
		return append(b, result...)
	}
	b = append(append(b, s.r.appendID(nil)...), `,"result":`...)
	return append(append(b, result...), '}')
}

// end ends a stream; err is why it ends early.
func (s *sse) end(err error) {
	s.begin()
	if s.as != nil {
		s.write(s.as.end(err))
		return
	}
	if err == nil || s.r.withoutRPC {
		return
	}
	f := faultOf(err)
	if f == nil {
		f = faultf(internalError, problem.Of(err).Text())
	}
	s.write(append(append([]byte("data: "), s.r.rpcError(f)...), "\n\n"...))
}

// write writes and flushes.
func (s *sse) write(b []byte) {
	if s.broken {
		return
	}
	c := http.NewResponseController(s.r.ResponseWriter)
	_ = c.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := s.r.ResponseWriter.Write(b); err != nil {
		s.broken = true
		return
	}
	if err := c.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		s.broken = true
	}
}
