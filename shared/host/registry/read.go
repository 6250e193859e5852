package registry

import (
	"context"
	"math"
	"sync"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

const maxConcurrentReads = 16

func notRegisteredError(id identity.ID) error { return problem.New(problem.NotFound, "%s", id) }

// Get returns id's registration without a visibility check. It returns false if id is not
// registered.
func (r *Registry) Get(ctx context.Context, id identity.ID) (Registration, bool, error) {
	reg, err := r.loadRegistration(ctx, id)
	if err != nil {
		return Registration{}, false, WrapStoreError(err)
	}
	return reg, reg.FirstSeq > 0, nil
}

// GetMany returns the registrations of up to store.MaxPage ids in the same order, without a
// visibility check. FirstSeq is 0 for an id that is not registered or whose registration is
// damaged.
func (r *Registry) GetMany(ctx context.Context, ids []identity.ID) ([]Registration, error) {
	registrations := make([]Registration, len(ids))
	errs := make([]error, len(ids))
	var wg sync.WaitGroup
	slots := make(chan struct{}, maxConcurrentReads)
	for i, id := range ids {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			registrations[i], _, errs[i] = r.Get(ctx, id)
		})
	}
	wg.Wait()
	for i, err := range errs {
		switch {
		case problem.Is(err, problem.Damaged):
			registrations[i] = Registration{ID: ids[i]}
		case err != nil:
			return nil, err
		}
	}
	return registrations, nil
}

// View returns the registration of id if caller, whose id must be proved, may see it. A nil caller
// is anonymous. The error for a hidden closed child is the same as for an unregistered id.
func (r *Registry) View(ctx context.Context, id identity.ID, caller *identity.ID) (Registration, error) {
	reg, ok, err := r.Get(ctx, id)
	if err != nil {
		return Registration{}, err
	}
	if !ok {
		return Registration{}, notRegisteredError(id)
	}
	isVisible, err := r.newViewer(caller).canSee(ctx, &reg)
	switch {
	case err != nil:
		return Registration{}, err
	case isVisible:
		return reg, nil
	case reg.Closed:
		return Registration{}, notRegisteredError(id)
	case caller == nil:
		return Registration{}, problem.New(problem.Forbidden, "vacant %s is NONE-visibility; caller required", id)
	}
	return Registration{}, problem.New(problem.Forbidden, "vacant %s is NONE-visibility; caller is not owner/parent", id)
}

// Events returns up to limit of actor's events whose seq is greater than after. It returns no
// events if actor is unknown or hidden from caller.
func (r *Registry) Events(ctx context.Context, actor identity.ID, caller *identity.ID, after uint64, limit int) ([]LoggedEvent, error) {
	reg, err := r.loadRegistration(ctx, actor)
	if err != nil {
		return nil, WrapStoreError(err)
	}
	if isVisible, err := r.newViewer(caller).canSee(ctx, &reg); err != nil || !isVisible {
		return nil, err
	}
	firstPosition, err := r.findFirstAfter(ctx, actor, after)
	if err != nil {
		return nil, err
	}
	rows, err := r.Store.Rows(ctx, ActorStream(actor), firstPosition, limit, store.Ascending)
	if err != nil {
		return nil, WrapStoreError(err)
	}
	events := make([]LoggedEvent, len(rows))
	for i, row := range rows {
		if events[i], err = DecodeActorRow(actor, row); err != nil {
			return nil, err
		}
	}
	return events, nil
}

func (r *Registry) findFirstAfter(ctx context.Context, actor identity.ID, after uint64) (uint64, error) {
	// A binary search works, because the seq rises along an actor's events.
	if after == 0 {
		return 1, nil
	}
	tip, err := r.Store.Tip(ctx, ActorStream(actor))
	if err != nil {
		return 0, WrapStoreError(err)
	}
	// An event's seq is at least its position, so the result is at most after+1.
	low, high := uint64(1), tip.Position+1
	if after < math.MaxUint64 {
		high = min(high, after+1)
	}
	for low < high {
		middle := low + (high-low)/2
		rows, err := r.Store.Rows(ctx, ActorStream(actor), middle, 1, store.Ascending)
		if err != nil {
			return 0, WrapStoreError(err)
		}
		if len(rows) == 0 {
			return 0, problem.New(problem.Damaged, "event %d of %s is missing", middle, actor.Short())
		}
		l, err := DecodeActorRow(actor, rows[0])
		if err != nil {
			return 0, err
		}
		if l.Seq > after {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return low, nil
}

// Event returns the event with a seq. The error is NotFound if the event does not exist or its
// actor is hidden from caller.
func (r *Registry) Event(ctx context.Context, seq uint64, caller *identity.ID) (LoggedEvent, error) {
	notFoundErr := problem.New(problem.NotFound, "event seq=%d not found", seq)
	if seq == 0 || seq > math.MaxInt64 {
		return LoggedEvent{}, notFoundErr
	}
	rows, err := r.Store.Rows(ctx, EventStream(), seq, 1, store.Ascending)
	if err != nil {
		return LoggedEvent{}, WrapStoreError(err)
	}
	if len(rows) == 0 || rows[0].Position != seq {
		return LoggedEvent{}, notFoundErr
	}
	leaf, err := DecodeEventRow(rows[0])
	if err != nil {
		return LoggedEvent{}, err
	}
	reg, err := r.loadRegistration(ctx, leaf.Actor)
	if err != nil {
		return LoggedEvent{}, WrapStoreError(err)
	}
	isVisible, err := r.newViewer(caller).canSee(ctx, &reg)
	if err != nil {
		return LoggedEvent{}, err
	}
	if !isVisible {
		return LoggedEvent{}, notFoundErr
	}
	rows, err = r.Store.Rows(ctx, ActorStream(leaf.Actor), uint64(leaf.ActorSeq), 1, store.Ascending)
	if err != nil {
		return LoggedEvent{}, WrapStoreError(err)
	}
	if len(rows) == 0 {
		return LoggedEvent{}, problem.New(problem.Damaged, "event %d: the stream of its actor %s has no event %d", seq, leaf.Actor.Short(), leaf.ActorSeq)
	}
	l, err := DecodeActorRow(leaf.Actor, rows[0])
	if err == nil && (l.Seq != seq || l.Hash != leaf.Hash) {
		err = problem.New(problem.Damaged, "event %d differs from the event in the stream of its actor %s", seq, leaf.Actor.Short())
	}
	return l, err
}

// Changes returns registrations in the order of their last change, and the next cursor, or "". The
// feed may lag behind, so readers should start earlier (ChangeKeyBefore) and compare DocVersion. A
// damaged registration is returned as hidden, with only its id.
func (r *Registry) Changes(ctx context.Context, since string, limit int, cursor string) ([]Registration, string, error) {
	feed := RegistrationDocs.IndexRange()
	feed.Start = since
	docs, next, err := r.Store.Docs(ctx, feed, limit, cursor)
	if err != nil {
		return nil, "", WrapStoreError(err)
	}
	registrations := make([]Registration, 0, len(docs))
	for _, d := range docs {
		id, err := parseVacantID(d.Key)
		if err != nil || !RegistrationDocs.Matches(d.Key) {
			return nil, "", problem.New(problem.Damaged, "the feed of registrations contains %s, which is not a registration", quoteTruncated(d.Key.String()))
		}
		reg, err := RegistrationDocs.Parse(d)
		if err != nil {
			reg = Registration{ID: id, Visibility: lifecycle.Hidden, SignedVisibility: lifecycle.Hidden, ChangeKey: d.Index.Sort, DocVersion: d.Version}
		}
		registrations = append(registrations, reg)
	}
	return registrations, next, nil
}
