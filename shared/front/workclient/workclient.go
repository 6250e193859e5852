// Package workclient does turns of vacants for a host: it leases them, lets a handler do the work, streams the handler's
// events and returns its answer. It renews the leases, and it continues after the host was away.
package workclient

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/front/workapi"
	"github.com/vacancy-host/vacancy/shared/host/substrate/worker"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/retry"
)

// Turn, Event and Answer are the documents of the API.
type (
	// Turn is a leased turn. Question is the JSON that an HTTP agent would get (vacancy help agent-contract).
	Turn = worker.Leased
	// Event is a piece of the work on a turn, for example {Type: worker.TypeText, Text: "It is"}.
	Event = worker.Event
	// Answer is the end of a turn. The caller gets the texts of all events, and then Text.
	Answer = worker.Result
)

// Client calls the API of workers.
type Client struct {
	op.Client
	Operator bool // the client has the operator's paths
}

// Lease asks for a turn of a vacant, or of all vacants if vacant is empty. It waits for at most so many seconds.
func (c Client) Lease(ctx context.Context, vacant string, wait int64) (workapi.Offer, error) {
	return workapi.Lease.For(c.Operator).Call(ctx, c, workapi.Leasing{Body: workapi.NewLease{Vacant: vacant, Wait: wait}})
}

// Heartbeat renews a lease. It reports whether the turn was canceled.
func (c Client) Heartbeat(ctx context.Context, lease string) (canceled bool, err error) {
	r, err := workapi.Heartbeat.For(c.Operator).Call(ctx, c, workapi.OneLease{Lease: lease})
	return r.Canceled, err
}

// Events reports a batch of events. Batches count from 1, and the same batch may be sent again.
func (c Client) Events(ctx context.Context, lease string, batch int64, events ...Event) error {
	_, err := workapi.Report.For(c.Operator).Call(ctx, c, workapi.Reporting{OneLease: workapi.OneLease{Lease: lease}, Body: workapi.Batch{Batch: batch, Events: events}})
	return err
}

// Result ends a turn. The same result may be sent again.
func (c Client) Result(ctx context.Context, lease string, a Answer) error {
	_, err := workapi.Finish.For(c.Operator).Call(ctx, c, workapi.Finishing{OneLease: workapi.OneLease{Lease: lease}, Body: a})
	return err
}

// Handler does a turn. It reports events by emit, which may be called by several goroutines until Handler returns, and
// waits if the host is slow. ctx ends when the turn is canceled, its lease is lost or the worker ends; context.Cause
// tells which. An error voids the call. Its text is for the owner of the vacant.
type Handler func(ctx context.Context, t *Turn, emit func(Event)) (Answer, error)

// The causes for which the context of a Handler ends.
var (
	ErrCanceled = errors.New("the turn was canceled")
	ErrLost     = errors.New("the lease was lost")
	ErrStopped  = errors.New("the worker was stopped")
)

// Status describes a Worker.
type Status struct {
	Connected bool
	Err       error // why it is not connected
	Running   int   // turns
	// Turn is the turn that has just begun or ended, or nil. Ended reports its end, and Failure why it failed.
	Turn    *Turn
	Ended   bool
	Failure error
}

// Worker leases turns and lets a handler do them.
type Worker struct {
	Client
	Vacant string // name or id; "" means all vacants of the tenant
	Turns  int    // turns at once; zero means 1
	Handle Handler
	// Observe is called at each change of the status, never twice at once. It may be nil.
	Observe func(Status)

	mu     sync.Mutex
	status Status
}

// Pauses.
const (
	firstPause = time.Second // after an error
	maxPause   = 10 * time.Second
	sendPause  = 500 * time.Millisecond // between two tries of a request about a lease
	stopTime   = 5 * time.Second        // for the results of turns that run when the worker ends
)

// Run does turns until ctx ends, and then lets the handlers of running turns end. Its error is a refusal that does not
// pass by itself, such as a revoked key.
func (w *Worker) Run(ctx context.Context) error {
	turns := max(w.Turns, 1)
	slots, vacant := make(chan struct{}, turns), w.Vacant
	var running sync.WaitGroup
	defer running.Wait()
	var pause, idle time.Duration
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		offer, err := w.Lease(ctx, vacant, workapi.MaxWait)
		if err == nil && offer.Turn != nil {
			pause, idle = 0, 0
			w.observe(func(s *Status) { *s = Status{Connected: true, Running: s.Running + 1, Turn: offer.Turn} })
			running.Go(func() {
				defer func() { <-slots }()
				failure := w.do(ctx, offer.Turn)
				w.observe(func(s *Status) { s.Running--; s.Turn, s.Ended, s.Failure = offer.Turn, true, failure })
			})
			continue
		}
		<-slots
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !passes(err):
			return err
		case err != nil:
			pause = min(max(2*pause, firstPause), maxPause)
			w.observe(func(s *Status) { *s = Status{Err: err, Running: s.Running} })
			pause := pause/2 + rand.N(pause/2+1) // so that workers do not return at once
			if retry.Sleep(ctx, pause) != nil {
				return nil
			}
			continue
		}
		pause = 0
		w.observe(func(s *Status) { *s = Status{Connected: true, Running: s.Running} })
		if offer.Vacant != nil {
			vacant = offer.Vacant.String()
		}
		idle = min(max(2*idle, time.Duration(offer.RetryAfter)*time.Second), maxPause)
		if idle > 0 && retry.Sleep(ctx, idle) != nil {
			return nil
		}
	}
}

func passes(err error) bool {
	switch problem.Of(err).Kind {
	case problem.Unavailable, problem.Internal, problem.TooMany, problem.Deadline, problem.Canceled, problem.Damaged:
		return true
	}
	return false
}

func (w *Worker) observe(change func(*Status)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.status)
	if w.Observe != nil {
		w.Observe(w.status)
	}
}

func (w *Worker) do(ctx context.Context, t *Turn) error {
	turn, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	stopped := context.AfterFunc(ctx, func() { end(ErrStopped) })
	defer stopped()
	turn, cancel := context.WithTimeout(turn, time.Duration(t.DeadlineMS)*time.Millisecond)
	defer cancel()
	s := &sender{worker: w, turn: t, ctx: turn, end: end, came: make(chan struct{}, 1), room: make(chan struct{}, 1), closed: make(chan struct{})}
	s.emit(Event{Type: worker.TypeStarted})
	var helpers sync.WaitGroup
	helpers.Go(s.renew)
	helpers.Go(s.send)
	a, err := w.handle(turn, t, s.emit)
	close(s.closed)
	helpers.Wait()
	switch cause := context.Cause(turn); {
	case errors.Is(cause, ErrCanceled), errors.Is(cause, ErrLost):
		return cause
	case cause != nil && err == nil:
		err = cause
	case cause != nil:
		err = errors.Join(cause, err)
	case s.failed != nil:
		err = s.failed
	}
	if err != nil {
		a = Answer{Error: errorText(err), Failure: failureOf(err), Usage: a.Usage}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	if turn.Err() == nil {
		last = turn
	}
	if sent := try(last, func() error { return w.Result(last, t.Lease, a) }); sent != nil {
		return errors.Join(err, sent)
	}
	return err
}

// handle calls the handler. A panic fails the turn, not the worker.
func (w *Worker) handle(ctx context.Context, t *Turn, emit func(Event)) (a Answer, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = problem.New(problem.SubstrateUnavailable, "the worker panicked: %v", p)
		}
	}()
	return w.Handle(ctx, t, emit)
}

// maxErrorText limits the text of an error, in bytes.
const maxErrorText = 900

func errorText(err error) string {
	text := strings.ToValidUTF8(problem.Plain(err), "?")
	return cmp.Or(strings.ToValidUTF8(text[:min(len(text), maxErrorText)], ""), "the worker failed")
}

func failureOf(err error) string {
	switch problem.Of(err).Kind {
	case problem.SubstrateBusy:
		return "busy"
	case problem.SubstrateRefused:
		return "refused"
	case problem.SubstrateMisconfigured:
		return "misconfigured"
	}
	return "unavailable"
}

// try sends a request until its error is final.
func try(ctx context.Context, send func() error) error {
	for {
		err := send()
		if err == nil || !passes(err) || retry.Sleep(ctx, sendPause) != nil {
			return err
		}
	}
}

// Limits of events.
const (
	maxPending = 256 << 10 // bytes that wait to be sent
	maxPiece   = 16 << 10  // bytes of the text of an event
	maxBatch   = 48 << 10  // bytes of the texts of a batch, so that it fits into a document however it is escaped
	maxEvents  = 256       // events of a batch
	batchStep  = 10 * time.Microsecond
)

// sender sends the events of a turn and renews its lease.
type sender struct {
	worker *Worker
	turn   *Turn
	ctx    context.Context
	end    context.CancelCauseFunc
	came   chan struct{} // an event was added
	room   chan struct{} // events were sent
	closed chan struct{} // the handler has returned

	mu      sync.Mutex
	pending []Event
	size    int
	failed  error // why events cannot be sent
}

// emit adds an event. It joins a piece of text with the one before it. It waits while too many bytes are pending.
func (s *sender) emit(e Event) {
	e.Text = strings.ToValidUTF8(e.Text, "\uFFFD")
	if e.Text == "" && (e.Type == worker.TypeText || e.Type == worker.TypeThought) {
		return
	}
	for s.ctx.Err() == nil {
		s.mu.Lock()
		if s.size < maxPending {
			s.add(e)
			s.mu.Unlock()
			notify(s.came)
			return
		}
		s.mu.Unlock()
		select {
		case <-s.room:
		case <-s.ctx.Done():
		}
	}
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// add adds an event to those that are pending. s.mu is held.
func (s *sender) add(e Event) {
	s.size += len(e.Text) + 64
	if n := len(s.pending); n > 0 && e.Text != "" && s.pending[n-1].Type == e.Type && len(s.pending[n-1].Text)+len(e.Text) <= maxPiece {
		s.pending[n-1].Text += e.Text
		return
	}
	for len(e.Text) > maxPiece {
		piece := e
		piece.Text = strings.ToValidUTF8(e.Text[:maxPiece], "") // without the beginning of a character
		e.Text = e.Text[len(piece.Text):]
		s.pending = append(s.pending, piece)
	}
	s.pending = append(s.pending, e)
}

func (s *sender) next() []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, size := 0, 0
	for n < len(s.pending) && n < maxEvents && size+len(s.pending[n].Text) <= maxBatch {
		size += len(s.pending[n].Text) + 64
		n++
	}
	batch := s.pending[:n:n]
	if s.pending = s.pending[n:]; len(s.pending) == 0 {
		s.pending, s.size = nil, 0
	} else {
		s.size = max(s.size-size, 1)
	}
	return batch
}

// send sends events until the handler has returned and all are sent. Long streams are sent in larger batches, because a
// host limits their number.
func (s *sender) send() {
	number := int64(1)
	for {
		batch := s.next()
		if len(batch) == 0 {
			select {
			case <-s.came:
				continue
			case <-s.ctx.Done():
				return
			case <-s.closed:
			}
			if batch = s.next(); len(batch) == 0 {
				return
			}
		}
		err := try(s.ctx, func() error { return s.worker.Events(s.ctx, s.turn.Lease, number, batch...) })
		if err != nil {
			s.fail(err)
			return
		}
		notify(s.room)
		if retry.Sleep(s.ctx, time.Duration(number)*batchStep) != nil {
			return
		}
		number++
	}
}

// fail ends the turn after a request about it was refused.
func (s *sender) fail(err error) {
	switch kind := problem.Of(err).Kind; {
	case s.ctx.Err() != nil:
	case kind == problem.Conflict, kind == problem.NotFound:
		s.end(ErrLost)
	default:
		s.mu.Lock()
		s.failed = cmp.Or(s.failed, err)
		s.mu.Unlock()
		s.end(err)
	}
}

// renew renews the lease three times within its time.
func (s *sender) renew() {
	for {
		select {
		case <-time.After(time.Duration(s.turn.Seconds) * time.Second / 3):
		case <-s.ctx.Done():
			return
		case <-s.closed:
			return
		}
		var canceled bool
		err := try(s.ctx, func() (err error) {
			canceled, err = s.worker.Heartbeat(s.ctx, s.turn.Lease)
			return err
		})
		switch {
		case err != nil:
			s.fail(err)
			return
		case canceled:
			s.end(ErrCanceled)
			return
		}
	}
}
