// Package workclient implements workers, which run turns of vacants for a host. A worker leases
// turns (reserves them for a limited time), calls a handler for each turn, and sends the handler's
// events and answer to the host. It renews its leases, and retries while the host is unavailable.
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
	// Turn is a leased turn. Question is the JSON that an HTTP agent would get (vacancy help
	// agent-contract).
	Turn = worker.Leased
	// Event is a piece of the work on a turn, for example {Type: worker.TypeText, Text: "It is"}.
	Event = worker.Event
	// Answer is the result of a turn. The caller gets the texts of all text events, followed by
	// Text.
	Answer = worker.Result
)

// Handler runs a turn. It reports events by calling emit. emit may be called by several goroutines
// until Handler returns, and blocks while the host is slow. ctx ends when the turn is canceled, its
// deadline has passed, its lease is lost or the worker is stopped. context.Cause returns the
// reason. If Handler returns an error, the call fails. The error message is for the owner of the
// vacant.
type Handler func(ctx context.Context, t *Turn, emit func(Event)) (Answer, error)

// ErrCanceled, ErrLost and ErrStopped are causes (context.Cause) with which the context of a
// Handler ends.
var (
	ErrCanceled = errors.New("the turn was canceled")
	ErrLost     = errors.New("the lease was lost")
	ErrStopped  = errors.New("the worker was stopped")
)

// Status describes a Worker.
type Status struct {
	Connected bool
	Err       error // reason why the worker is not connected, or nil
	Running   int   // number of running turns
	// Turn is the turn that has just begun or ended, or nil. Ended is true if the turn has ended,
	// and Failure is the error if it has failed.
	Turn    *Turn
	Ended   bool
	Failure error
}

// Worker leases turns and lets a handler run them.
type Worker struct {
	op.Client
	AsOperator bool   // use the operator's paths instead of the paths for account keys
	Vacant     string // name or id; "" means all vacants of the tenant
	MaxTurns   int    // maximum number of concurrent turns; zero means 1
	Handle     Handler
	// Observe is called after each change of the status. Calls are never concurrent. Observe may be
	// nil.
	Observe func(Status)

	mu     sync.Mutex
	status Status
}

// Pauses and time limits.
const (
	firstPause  = time.Second // first pause after an error
	maxPause    = 10 * time.Second
	sendPause   = 500 * time.Millisecond // pause before a request about a lease is repeated
	stopTimeout = 5 * time.Second        // time to send the results of turns that were running when the worker was stopped
)

// Run leases and runs turns until ctx ends. It then stops the handlers of running turns and waits
// for them. It returns an error only if the host refuses to lease turns for a permanent reason,
// such as a revoked key.
func (w *Worker) Run(ctx context.Context) error {
	slots, vacant := make(chan struct{}, max(w.MaxTurns, 1)), w.Vacant
	var running sync.WaitGroup
	defer running.Wait()
	var errorPause, idlePause time.Duration // last pause after an error, and after an answer without a turn
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		offer, err := workapi.Lease.For(w.AsOperator).Call(ctx, w.Client, workapi.LeaseRequest{Body: workapi.NewLease{Vacant: vacant, Wait: workapi.MaxWait}})
		if err == nil && offer.Turn != nil {
			errorPause, idlePause = 0, 0
			w.updateStatus(func(s *Status) { *s = Status{Connected: true, Running: s.Running + 1, Turn: offer.Turn} })
			running.Go(func() {
				defer func() { <-slots }()
				failure := w.runTurn(ctx, offer.Turn)
				w.updateStatus(func(s *Status) { s.Running--; s.Turn, s.Ended, s.Failure = offer.Turn, true, failure })
			})
			continue
		}
		<-slots
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !isTemporary(err):
			return err
		}
		w.updateStatus(func(s *Status) { *s = Status{Connected: err == nil, Err: err, Running: s.Running} })
		wait := time.Duration(0)
		if err != nil {
			errorPause = min(max(2*errorPause, firstPause), maxPause)
			wait = errorPause/2 + rand.N(errorPause/2+1) // random, so that workers do not retry simultaneously
		} else {
			errorPause, idlePause = 0, min(max(2*idlePause, time.Duration(offer.RetryAfter)*time.Second), maxPause)
			wait = idlePause
		}
		if offer.Vacant != nil {
			vacant = offer.Vacant.String()
		}
		if retry.Sleep(ctx, wait) != nil {
			return nil
		}
	}
}

func isTemporary(err error) bool {
	switch problem.AsError(err).Kind {
	case problem.Unavailable, problem.Internal, problem.TooManyRequests, problem.DeadlineExceeded, problem.Canceled, problem.Damaged:
		return true
	}
	return false
}

func (w *Worker) updateStatus(change func(*Status)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.status)
	if w.Observe != nil {
		w.Observe(w.status)
	}
}

func (w *Worker) runTurn(ctx context.Context, t *Turn) error {
	turnCtx, endTurn := context.WithCancelCause(context.WithoutCancel(ctx))
	defer endTurn(nil)
	defer context.AfterFunc(ctx, func() { endTurn(ErrStopped) })()
	turnCtx, cancel := context.WithTimeout(turnCtx, time.Duration(t.DeadlineMS)*time.Millisecond)
	defer cancel()
	s := &sender{worker: w, lease: workapi.LeaseRef{Lease: t.Lease}, ctx: turnCtx, endTurn: endTurn, events: make(chan Event, maxPending)}
	s.emit(Event{Type: worker.TypeStarted})
	renewCtx, stopRenewing := context.WithCancel(turnCtx)
	var helpers sync.WaitGroup
	helpers.Go(func() { s.renewLease(renewCtx, time.Duration(t.Seconds)*time.Second/3) })
	helpers.Go(s.sendBatches)
	answer, err := w.callHandler(turnCtx, t, s.emit)
	close(s.events)
	stopRenewing()
	helpers.Wait()
	switch cause := context.Cause(turnCtx); {
	case errors.Is(cause, ErrCanceled), errors.Is(cause, ErrLost):
		return cause
	case cause != nil:
		err = cmp.Or(err, cause)
	}
	if err != nil {
		answer = Answer{Error: errorText(err), Failure: failureNames[problem.AsError(err).Kind], Usage: answer.Usage}
	}
	finishCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if turnCtx.Err() == nil {
		finishCtx = turnCtx
	}
	return errors.Join(err, sendWithRetry(finishCtx, func() error {
		_, err := workapi.Finish.For(w.AsOperator).Call(finishCtx, w.Client, workapi.FinishRequest{LeaseRef: s.lease, Body: answer})
		return err
	}))
}

// callHandler calls the handler. A panic fails the turn, not the worker.
func (w *Worker) callHandler(ctx context.Context, t *Turn, emit func(Event)) (a Answer, err error) {
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
	text := problem.PlainMessage(err)
	return cmp.Or(strings.ToValidUTF8(text[:min(len(text), maxErrorText)], ""), "the worker failed")
}

// failureNames maps kinds of errors to the failures that the API defines. An error of another kind
// means that the agent is unavailable.
var failureNames = map[problem.Kind]string{problem.SubstrateBusy: "busy", problem.SubstrateRefused: "refused", problem.SubstrateMisconfigured: "misconfigured"}

// sendWithRetry repeats a request until it succeeds, its error is permanent or ctx ends.
func sendWithRetry(ctx context.Context, send func() error) error {
	for {
		err := send()
		if err == nil || !isTemporary(err) || retry.Sleep(ctx, sendPause) != nil {
			return err
		}
	}
}

// Limits of events.
const (
	maxPending    = 16       // events that wait to be sent
	maxPieceBytes = 16 << 10 // bytes of the text of an event
	// maxBatchBytes is the number of bytes of text at which a batch is sent. A batch then fits into a
	// document even if its last event is long and all characters are escaped.
	maxBatchBytes  = 32 << 10
	maxEvents      = 256                   // events of a batch
	batchPauseStep = 10 * time.Microsecond // the pause after batch n is n times batchPauseStep
)

// sender sends the events of a turn and renews its lease.
type sender struct {
	worker  *Worker
	lease   workapi.LeaseRef
	ctx     context.Context
	endTurn context.CancelCauseFunc
	events  chan Event
}

// emit queues an event. It splits a long text into several events. It blocks while maxPending
// events are queued.
func (s *sender) emit(e Event) {
	text := strings.ToValidUTF8(e.Text, "\uFFFD")
	if text == "" && (e.Type == worker.TypeText || e.Type == worker.TypeThought) {
		return
	}
	for isFirst := true; isFirst || text != ""; isFirst = false {
		e.Text = strings.ToValidUTF8(text[:min(len(text), maxPieceBytes)], "") // without an incomplete last character
		text = text[len(e.Text):]
		select {
		case s.events <- e:
		case <-s.ctx.Done():
			return
		}
	}
}

// nextBatch waits for an event and returns it together with the events that are already queued. It
// joins consecutive texts of the same type. After the last event, it returns nil.
func (s *sender) nextBatch() (batch []Event) {
	var e Event
	ok := false
	select {
	case e, ok = <-s.events:
	case <-s.ctx.Done():
	}
	for size := 0; ok; {
		size += len(e.Text)
		if n := len(batch); n > 0 && e.Text != "" && batch[n-1].Type == e.Type {
			batch[n-1].Text += e.Text
		} else {
			batch = append(batch, e)
		}
		if size >= maxBatchBytes || len(batch) == maxEvents {
			return batch
		}
		select {
		case e, ok = <-s.events:
		default:
			return batch
		}
	}
	return batch
}

// sendBatches sends events until the handler has returned and all are sent. The pauses between batches
// grow, so that a long stream is sent in fewer and larger batches. A host limits the number of
// batches.
func (s *sender) sendBatches() {
	for number := int64(1); ; number++ {
		batch := s.nextBatch()
		if batch == nil {
			return
		}
		err := sendWithRetry(s.ctx, func() error {
			_, err := workapi.Report.For(s.worker.AsOperator).Call(s.ctx, s.worker.Client, workapi.ReportRequest{LeaseRef: s.lease, Body: workapi.Batch{Number: number, Events: batch}})
			return err
		})
		if err != nil {
			s.fail(err)
			return
		}
		_ = retry.Sleep(s.ctx, time.Duration(number)*batchPauseStep) // if ctx has ended, nextBatch returns nil
	}
}

// fail ends the turn after a request about its lease has failed permanently.
func (s *sender) fail(err error) {
	if problem.Is(err, problem.Conflict) || problem.Is(err, problem.NotFound) {
		err = ErrLost
	}
	s.endTurn(err) // has no effect if the turn has already ended
}

// renewLease renews the lease until ctx ends.
func (s *sender) renewLease(ctx context.Context, pause time.Duration) {
	for retry.Sleep(ctx, pause) == nil {
		var r workapi.Renewal
		err := sendWithRetry(ctx, func() (err error) {
			r, err = workapi.Heartbeat.For(s.worker.AsOperator).Call(ctx, s.worker.Client, s.lease)
			return err
		})
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			s.fail(err)
		case r.Canceled:
			s.endTurn(ErrCanceled)
		}
	}
}
