// Package workclient implements workers. A worker leases turns from a host (reserves them for a
// limited time), calls a handler for each turn, and sends the answer to the host.
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

type (
	// Turn is a leased turn. Question is the JSON that an HTTP agent would get.
	Turn  = worker.Leased
	Event = worker.Event
	// Answer is the result of a turn. The caller gets the texts of all text events, followed by
	// Text.
	Answer = worker.Result
)

// Handler runs a turn. Several goroutines may call emit until Handler returns. If Handler returns
// an error, the call fails. When ctx ends, context.Cause returns the reason, for example
// ErrCanceled.
type Handler func(ctx context.Context, t *Turn, emit func(Event)) (Answer, error)

var (
	ErrCanceled = errors.New("the turn was canceled")
	ErrLost     = errors.New("the lease was lost")
	ErrStopped  = errors.New("the worker was stopped")
)

type Status struct {
	Connected bool
	Err       error
	Running   int
	// Turn has just begun or ended. It may be nil.
	Turn    *Turn
	Ended   bool
	Failure error
}

type Worker struct {
	op.Client
	AsOperator bool
	Vacant     string // name or id; "" means all vacants of the tenant
	MaxTurns   int    // zero means 1
	Handle     Handler
	// Observe is called after each change of the status, never concurrently. It may be nil.
	Observe func(Status)

	mu     sync.Mutex
	status Status
}

const (
	firstPause  = time.Second
	maxPause    = 10 * time.Second
	sendPause   = 500 * time.Millisecond
	stopTimeout = 5 * time.Second // for the results of running turns
)

// Run leases and runs turns until ctx ends. It returns an error only if the host refuses
// permanently.
func (w *Worker) Run(ctx context.Context) error {
	slots, vacant := make(chan struct{}, max(w.MaxTurns, 1)), w.Vacant
	var running sync.WaitGroup
	defer running.Wait()
	var errorPause, idlePause time.Duration
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

// callHandler lets a panic fail the turn, not the worker.
func (w *Worker) callHandler(ctx context.Context, t *Turn, emit func(Event)) (a Answer, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = problem.New(problem.SubstrateUnavailable, "the worker panicked: %v", p)
		}
	}()
	return w.Handle(ctx, t, emit)
}

const maxErrorText = 900

func errorText(err error) string {
	text := problem.PlainMessage(err)
	return cmp.Or(strings.ToValidUTF8(text[:min(len(text), maxErrorText)], ""), "the worker failed")
}

var failureNames = map[problem.Kind]string{problem.SubstrateBusy: "busy", problem.SubstrateRefused: "refused", problem.SubstrateMisconfigured: "misconfigured"}

func sendWithRetry(ctx context.Context, send func() error) error {
	for {
		err := send()
		if err == nil || !isTemporary(err) || retry.Sleep(ctx, sendPause) != nil {
			return err
		}
	}
}

const (
	maxPending    = 16
	maxPieceBytes = 16 << 10
	// A batch of maxBatchBytes fits into a document even if all characters are escaped.
	maxBatchBytes  = 32 << 10
	maxEvents      = 256 // per batch
	batchPauseStep = 10 * time.Microsecond
)

type sender struct {
	worker  *Worker
	lease   workapi.LeaseRef
	ctx     context.Context
	endTurn context.CancelCauseFunc
	events  chan Event
}

// emit queues an event. It splits a long text, and blocks while maxPending events are queued.
func (s *sender) emit(e Event) {
	text := strings.ToValidUTF8(e.Text, "\uFFFD")
	if text == "" && (e.Type == worker.TypeText || e.Type == worker.TypeThought) {
		return
	}
	for isFirst := true; isFirst || text != ""; isFirst = false {
		e.Text = strings.ToValidUTF8(text[:min(len(text), maxPieceBytes)], "") // drops an incomplete last character
		text = text[len(e.Text):]
		select {
		case s.events <- e:
		case <-s.ctx.Done():
			return
		}
	}
}

// After the last event, nextBatch returns nil.
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

// sendBatches pauses longer after each batch, because a host limits the number of batches.
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

func (s *sender) fail(err error) {
	if problem.Is(err, problem.Conflict) || problem.Is(err, problem.NotFound) {
		err = ErrLost
	}
	s.endTurn(err)
}

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
