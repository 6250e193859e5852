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

// remote is the substrate whose turns workers run.
type remote struct {
	*Desk
	redo bool // whether another worker may repeat a turn that a lost worker had started
}

// endMargin is the time before a call's deadline at which the supervisor of a waiting turn gives up. Callers then learn
// that no worker was connected, instead of that the time ran out.
const endMargin = 250 * time.Millisecond

// Infer offers a turn to the workers of the vacant's tenant and yields the events of the worker that leases it. If no
// worker leases the turn in time, the error is of kind NoWorker. If the worker is lost after it has started, the error
// is of kind SubstrateUnavailable, unless redo=1 lets another worker repeat the turn. In this case, the texts of a worker
// are yielded only together with its result, because the caller must not see texts of a worker that is lost later.
func (r *remote) Infer(ctx context.Context, q substrate.Request) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		id, t, err := r.offer(ctx, &q)
		if err != nil {
			yield(nil, err)
			return
		}
		defer r.withdraw(ctx, id)
		s := supervisor{remote: r, id: id, turn: t, at: r.now(), out: yield}
		s.run(ctx)
	}
}

func (r *remote) offer(ctx context.Context, q *substrate.Request) (id string, t turn, err error) {
	tenant, err := r.Tenant(ctx, q.Vacant)
	switch {
	case err != nil && problem.AsError(err).Kind.IsFailure():
		return "", t, err
	case err != nil:
		return "", t, problem.WithPlace(problem.SubstrateUnavailable, "the vacant's tenant", err)
	}
	left := maxTime
	if end, ok := ctx.Deadline(); ok {
		left = time.Until(end)
	}
	t = turn{Vacant: q.Vacant, Tenant: tenant, Test: call.IsTest(ctx), Deadline: r.now().Add(left), State: waits}
	if id, err = r.newID(); err != nil {
		return "", t, err
	}
	// The question is stored without a deadline, because Lease appends the time that remains.
	question := httpagent.AppendQuestion(context.Background(), nil, q)
	err = r.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		TurnDocs.Put(tx, store.Doc{Key: TurnDocs.Key(id), Expires: t.expires()}, t)
		WaitingDocs.Put(tx, store.Doc{Key: t.waitingKey(id), Expires: t.expires()}, waiting{id})
		return r.put(ctx, tx, textKey(id, 0, 0), &t, question)
	})
	switch {
	case errors.Is(err, store.ErrTooLarge):
		err = problem.Wrap(problem.SubstrateMisconfigured, err, "the question with its files and history has %d bytes, and a worker accepts at most %d", len(question), store.MaxData)
	case err != nil && ctx.Err() != nil:
		err = substrate.EndedError(ctx, "the turn of a worker")
	case err != nil:
		err = problem.WithPlace(problem.SubstrateUnavailable, "the turn of a worker cannot be stored", err)
	}
	r.wake(queueOf(t.Tenant, t.Test))
	return id, t, err
}

// withdrawTime limits the time of withdraw, which runs after the call has ended.
const withdrawTime = 2 * time.Second

// withdraw ends a turn that has no answer yet. Renew then reports to the worker that the answer is not needed. Errors are
// ignored, because workers cannot lease the turn after its deadline in any case.
func (r *remote) withdraw(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawTime)
	defer cancel()
	_ = r.update(ctx, id, func(tx *store.Tx, t *turn, _ uint64) (bool, error) {
		if t.State == waits {
			key := t.waitingKey(id)
			if _, err := tx.Doc(ctx, key); err != nil {
				return false, err
			}
			tx.Delete(key)
		}
		isRunning := t.State == waits || t.State == leased
		t.State = over
		return isRunning, nil
	})
}

// supervisor follows one turn.
type supervisor struct {
	*remote
	out   func(substrate.Event, error) bool // yield function of Infer
	id    string
	turn  turn
	seen  uint64            // version of the document of turn
	at    time.Time         // time at which the supervisor first read that version
	lease int               // number of the lease whose reports were read
	read  int               // number of reports of the lease that were read
	texts []substrate.Event // texts of the lease that are yielded together with the result (redo=1)
}

func (s *supervisor) fail(err error) (done bool) {
	s.out(nil, err)
	return true
}

func (s *supervisor) run(ctx context.Context) {
	var giveUp <-chan time.Time
	if end, ok := ctx.Deadline(); ok {
		left := time.Until(end)
		timer := time.NewTimer(left - min(endMargin, left/4))
		defer timer.Stop()
		giveUp = timer.C
	}
	for done := false; !done; {
		change := s.change(s.id)
		t, doc, err := TurnDocs.Require(ctx, s.Store, TurnDocs.Key(s.id))
		switch {
		case ctx.Err() != nil:
			done = s.fail(substrate.EndedError(ctx, "the turn of a worker"))
		case problem.Is(err, problem.Damaged):
			done = s.fail(problem.WithPlace(problem.SubstrateUnavailable, "the turn of a worker", err))
		case err == nil:
			done = s.follow(ctx, t, doc.Version)
		}
		if done {
			return
		}
		select {
		case <-change:
		case <-time.After(pollTime):
		case <-giveUp:
			if giveUp = nil; s.turn.State == waits {
				done = s.fail(errNoWorker())
			}
		case <-ctx.Done():
		}
	}
}

// follow yields the new events of a version of the turn. done reports whether the turn has ended or the consumer has
// stopped. If a report cannot be read because the store is unavailable, the next call reads it again.
func (s *supervisor) follow(ctx context.Context, t turn, version uint64) (done bool) {
	if s.seen != version {
		s.turn, s.seen, s.at = t, version, s.now()
	}
	if n := len(t.Holders); n != s.lease {
		s.lease, s.read, s.texts = n, 0, nil
	}
	for s.read < t.Batches {
		var r report
		plain, err := s.open(ctx, textKey(s.id, s.lease, s.read+1))
		if problem.Is(err, problem.Unavailable) {
			return false
		}
		if err == nil {
			err = json.Unmarshal(plain, &r)
		}
		if err != nil {
			return s.fail(problem.Wrap(problem.SubstrateUnavailable, err, "a report of the worker cannot be read"))
		}
		s.read++
		for i := range r.Events {
			if !s.yield(ctx, &r.Events[i]) {
				return true
			}
		}
		if r.Result != nil {
			s.finish(r.Result)
			return true
		}
	}
	switch {
	case t.State == lost:
		return s.fail(problem.New(problem.SubstrateUnavailable, "the worker was lost after it had started the turn"))
	case t.State == leased && s.now().Sub(s.at) >= LeaseTime:
		_ = s.lose(ctx) // the next round reads the new state of the turn
	}
	return false
}

func (s *supervisor) yield(ctx context.Context, e *Event) bool {
	var event substrate.Event
	switch e.Type {
	case TypeText:
		event = substrate.Text(e.Text)
	case TypeAsks:
		event = substrate.Question{}
	case TypeThought:
		return s.out(substrate.Thought(e.Text), nil)
	case TypeTool:
		call.Report(ctx, call.Provisional{Detail: *e.Tool})
		return true
	default:
		return true
	}
	if s.redo {
		s.texts = append(s.texts, event)
		return true
	}
	return s.out(event, nil)
}

func (s *supervisor) finish(r *Result) {
	if r.Error != "" {
		s.out(nil, problem.New(failures[r.Failure], "%s", r.Error))
		return
	}
	events := s.texts
	if u := r.Usage; u != nil {
		events = append(events, substrate.Usage{In: int(u.In), Out: int(u.Out), Cached: int(u.Cached)})
	}
	if r.State == StateAsks {
		events = append(events, substrate.Question{})
	}
	if r.Text != "" {
		events = append(events, substrate.Text(r.Text))
	}
	for _, e := range append(events, substrate.Stop) {
		if !s.out(e, nil) {
			return
		}
	}
}

// lose ends a lease that was not renewed, unless the turn has changed since the supervisor read it. The turn waits for
// another worker if the lost worker had not started it or redo is set. Otherwise, its state is lost.
func (s *supervisor) lose(ctx context.Context) error {
	err := s.update(ctx, s.id, func(tx *store.Tx, t *turn, version uint64) (bool, error) {
		if version != s.seen {
			return false, nil
		}
		if t.Started && !s.redo {
			t.State = lost
			return true, nil
		}
		t.State, t.Started, t.Batches, t.Size, t.Renewed = waits, false, 0, 0, 0
		key := t.waitingKey(s.id)
		if _, err := tx.Doc(ctx, key); err != nil {
			return false, err
		}
		WaitingDocs.Put(tx, store.Doc{Key: key, Expires: t.expires()}, waiting{s.id})
		return true, nil
	})
	s.wake(queueOf(s.turn.Tenant, s.turn.Test))
	return err
}
