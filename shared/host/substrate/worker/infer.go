package worker

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/httpagent"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

type workerSubstrate struct {
	*Broker
	allowsRedo bool
}

// giveUpMargin lets a caller get the error NoWorker and not a timeout.
const giveUpMargin = 250 * time.Millisecond

// Infer implements substrate.Substrate. If redo=1 is set, texts are yielded only together with the result, because the
// caller must not see the texts of a worker that is lost later.
func (r *workerSubstrate) Infer(ctx context.Context, q substrate.Request) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		id, t, err := r.storeTurn(ctx, &q)
		if err != nil {
			yield(nil, err)
			return
		}
		defer r.withdraw(ctx, id)
		s := supervisor{workerSubstrate: r, id: id, turn: t, versionTime: r.now(), emit: yield}
		s.run(ctx)
	}
}

func (r *workerSubstrate) storeTurn(ctx context.Context, q *substrate.Request) (id string, t turn, err error) {
	tenant, err := r.TenantOf(ctx, q.Vacant)
	switch {
	case err != nil && problem.AsError(err).Kind.IsFailure():
		return "", t, err
	case err != nil:
		return "", t, problem.WithPlace(problem.SubstrateUnavailable, "the vacant's tenant", err)
	}
	remaining := defaultTurnTime
	if deadline, ok := ctx.Deadline(); ok {
		remaining = time.Until(deadline)
	}
	t = turn{Vacant: q.Vacant, Tenant: tenant, Test: call.IsTestWalk(ctx), Deadline: r.now().Add(remaining), State: stateWaiting}
	if id, err = r.newID(); err != nil {
		return "", t, err
	}
	// The question is stored without a deadline, because Lease appends the time that remains.
	question := httpagent.AppendQuestion(context.Background(), nil, q)
	err = r.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		TurnDocs.Put(tx, store.Doc{Key: TurnDocs.Key(id), Expires: t.expires()}, t)
		WaitingDocs.Put(tx, store.Doc{Key: t.waitingKey(id), Expires: t.expires()}, waitingTurn{id})
		return r.storeText(ctx, tx, textKey(id, 0, 0), &t, question)
	})
	switch {
	case errors.Is(err, store.ErrTooLarge):
		err = problem.Wrap(problem.SubstrateMisconfigured, err, "the question with its files and history has %d bytes, and a worker accepts at most %d", len(question), store.MaxData)
	case err != nil && ctx.Err() != nil:
		err = substrate.ContextError(ctx, "the turn of a worker")
	case err != nil:
		err = problem.WithPlace(problem.SubstrateUnavailable, "the turn of a worker cannot be stored", err)
	}
	r.signalChange(queueName(t.Tenant, t.Test))
	return id, t, err
}

const withdrawTimeout = 2 * time.Second

// withdraw ends a turn that has no answer yet. Errors are ignored, because workers cannot lease the turn after its
// deadline.
func (r *workerSubstrate) withdraw(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawTimeout)
	defer cancel()
	_ = r.updateTurn(ctx, id, func(tx *store.Tx, t *turn, _ uint64) (bool, error) {
		if t.State == stateWaiting {
			key := t.waitingKey(id)
			if _, err := tx.Doc(ctx, key); err != nil {
				return false, err
			}
			tx.Delete(key)
		}
		isRunning := t.State == stateWaiting || t.State == stateLeased
		t.State = stateWithdrawn
		return isRunning, nil
	})
}

type supervisor struct {
	*workerSubstrate
	emit            func(substrate.Event, error) bool
	id              string
	turn            turn
	version         uint64
	versionTime     time.Time
	leaseNumber     int
	readReportCount int
	delayedEvents   []substrate.Event // yielded together with the result (redo=1)
}

func (s *supervisor) yieldError(err error) (done bool) {
	s.emit(nil, err)
	return true
}

func (s *supervisor) run(ctx context.Context) {
	var giveUp <-chan time.Time
	if deadline, ok := ctx.Deadline(); ok {
		remaining := time.Until(deadline)
		timer := time.NewTimer(remaining - min(giveUpMargin, remaining/4))
		defer timer.Stop()
		giveUp = timer.C
	}
	for done := false; !done; {
		change := s.changeSignal(s.id)
		t, doc, err := TurnDocs.Require(ctx, s.Store, TurnDocs.Key(s.id))
		switch {
		case ctx.Err() != nil:
			done = s.yieldError(substrate.ContextError(ctx, "the turn of a worker"))
		case problem.Is(err, problem.Damaged):
			done = s.yieldError(problem.WithPlace(problem.SubstrateUnavailable, "the turn of a worker", err))
		case err == nil:
			done = s.processTurn(ctx, t, doc.Version)
		}
		if done {
			return
		}
		select {
		case <-change:
		case <-time.After(pollInterval):
		case <-giveUp:
			if giveUp = nil; s.turn.State == stateWaiting {
				done = s.yieldError(noWorkerError())
			}
		case <-ctx.Done():
		}
	}
}

func (s *supervisor) processTurn(ctx context.Context, t turn, version uint64) (done bool) {
	if s.version != version {
		s.turn, s.version, s.versionTime = t, version, s.now()
	}
	if n := len(t.Holders); n != s.leaseNumber {
		s.leaseNumber, s.readReportCount, s.delayedEvents = n, 0, nil
	}
	for s.readReportCount < t.ReportCount {
		var r report
		plain, err := s.loadText(ctx, textKey(s.id, s.leaseNumber, s.readReportCount+1))
		if problem.Is(err, problem.Unavailable) {
			return false
		}
		if err == nil {
			err = json.Unmarshal(plain, &r)
		}
		if err != nil {
			return s.yieldError(problem.Wrap(problem.SubstrateUnavailable, err, "a report of the worker cannot be read"))
		}
		s.readReportCount++
		for i := range r.Events {
			if !s.yieldEvent(ctx, &r.Events[i]) {
				return true
			}
		}
		if r.Result != nil {
			s.yieldResult(r.Result)
			return true
		}
	}
	switch {
	case t.State == stateLost:
		return s.yieldError(problem.New(problem.SubstrateUnavailable, "the worker was lost after it had started the turn"))
	case t.State == stateLeased && s.now().Sub(s.versionTime) >= LeaseDuration:
		_ = s.expireLease(ctx) // the next round reads the new state of the turn
	}
	return false
}

func (s *supervisor) yieldEvent(ctx context.Context, e *Event) bool {
	var event substrate.Event
	switch e.Type {
	case TypeText:
		event = substrate.Text(e.Text)
	case TypeQuestion:
		event = substrate.Question{}
	case TypeThought:
		return s.emit(substrate.Thought(e.Text), nil)
	case TypeTool:
		call.Report(ctx, call.ProvisionalEvent{Detail: *e.Tool})
		return true
	default:
		return true
	}
	if s.allowsRedo {
		s.delayedEvents = append(s.delayedEvents, event)
		return true
	}
	return s.emit(event, nil)
}

func (s *supervisor) yieldResult(r *Result) {
	if r.Error != "" {
		s.emit(nil, problem.New(failureKinds[r.Failure], "%s", r.Error))
		return
	}
	events := s.delayedEvents
	if u := r.Usage; u != nil {
		events = append(events, substrate.Usage{InputTokens: int(u.InputTokens), OutputTokens: int(u.OutputTokens), CachedTokens: int(u.CachedTokens)})
	}
	if r.State == StateInputRequired {
		events = append(events, substrate.Question{})
	}
	if r.Text != "" {
		events = append(events, substrate.Text(r.Text))
	}
	for _, e := range append(events, substrate.FinishStop) {
		if !s.emit(e, nil) {
			return
		}
	}
}

// expireLease ends a lease that was not renewed.
func (s *supervisor) expireLease(ctx context.Context) error {
	err := s.updateTurn(ctx, s.id, func(tx *store.Tx, t *turn, version uint64) (bool, error) {
		if version != s.version {
			return false, nil
		}
		if t.Started && !s.allowsRedo {
			t.State = stateLost
			return true, nil
		}
		t.State, t.Started, t.ReportCount, t.ReportBytes, t.HeartbeatCount = stateWaiting, false, 0, 0, 0
		key := t.waitingKey(s.id)
		if _, err := tx.Doc(ctx, key); err != nil {
			return false, err
		}
		WaitingDocs.Put(tx, store.Doc{Key: key, Expires: t.expires()}, waitingTurn{s.id})
		return true, nil
	})
	s.signalChange(queueName(s.turn.Tenant, s.turn.Test))
	return err
}
