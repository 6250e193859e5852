package simulation

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/vacancy-host/vacancy/shared/front/message"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/store"
)

// mutant breaks an assumption of the rules, to prove that the simulation would
// notice. The zero mutant breaks nothing.
type mutant struct {
	name string
	// store changes what hosts write and read.
	store func(w *world, s store.Store) store.Store
	// route changes the route of a caller's request.
	route func(route string) string
	// save changes the state that a caller's disk stores.
	save func(w *world, before, st dispatch.State) dispatch.State
	// open: hosts do not know that a closed child is closed.
	open bool
}

// Each must be found within this many schedules.
const mutantSchedules = 5000

var mutants = []mutant{
	{name: "a store acknowledges what it did not write", store: func(w *world, s store.Store) store.Store {
		return &committing{s, func(ctx context.Context, writes []store.Write) error {
			if w.rng.IntN(20) == 0 {
				return nil
			}
			return s.Commit(ctx, writes...)
		}}
	}},
	{name: "a store takes every row for the writer's own", store: func(w *world, s store.Store) store.Store {
		return &committing{s, func(ctx context.Context, writes []store.Write) error {
			return s.Commit(ctx, attempting(writes, store.WriteID{1})...)
		}}
	}},
	{name: "a store appends at the end, wherever it is told to", store: func(w *world, s store.Store) store.Store {
		return &committing{s, func(ctx context.Context, writes []store.Write) error {
			err := s.Commit(ctx, writes...)
			var taken *store.TakenError
			if a, ok := writes[0].(store.Append); ok && errors.As(err, &taken) {
				tip, _ := s.Tip(ctx, a.Stream)
				a.Position = tip.Position + 1
				writes = slices.Clone(writes)
				writes[0] = a
				return s.Commit(ctx, writes...)
			}
			return err
		}}
	}},
	{name: "a store hides its newest rows", store: func(w *world, s store.Store) store.Store {
		return &hiding{s, w}
	}},
	{name: "a caller sends what it should ask for", route: func(r string) string {
		if r == message.AskPath {
			return message.SendPath
		}
		return r
	}},
	{name: "a caller forgets what it sent before", save: func(_ *world, _, st dispatch.State) dispatch.State {
		st.Overtaken, st.Acceptable = nil, nil
		st.Sent = st.Sent[max(0, len(st.Sent)-1):]
		return st
	}},
	{name: "a caller's disk loses writes", save: func(w *world, before, st dispatch.State) dispatch.State {
		if w.rng.IntN(4) == 0 {
			return before
		}
		return st
	}},
	{name: "a host takes a closed child for an open one", open: true},
	{name: "a store puts a document whatever its version is", store: func(_ *world, s store.Store) store.Store {
		return &committing{s, func(ctx context.Context, writes []store.Write) error {
			if put, ok := writes[0].(store.Put); ok {
				d, err := s.Doc(ctx, put.Key)
				if err != nil {
					return err
				}
				put.IfVersion = d.Version
				writes = slices.Clone(writes)
				writes[0] = put
			}
			return s.Commit(ctx, writes...)
		}}
	}},
}

// committing is a store with another Commit.
type committing struct {
	store.Store
	commit func(ctx context.Context, writes []store.Write) error
}

func (c *committing) Commit(ctx context.Context, writes ...store.Write) error {
	return c.commit(ctx, writes)
}

// attempting replaces the write ids.
func attempting(writes []store.Write, a store.WriteID) []store.Write {
	writes = slices.Clone(writes)
	for i := range writes {
		if w, ok := writes[i].(store.Append); ok {
			w.WriteID = a
			writes[i] = w
		}
	}
	return writes
}

// hiding is a store whose reads lag behind.
type hiding struct {
	store.Store
	w *world
}

func (h *hiding) Tip(ctx context.Context, s store.Stream) (store.Row, error) {
	row, err := h.Store.Tip(ctx, s)
	if err == nil && row.Position > 0 && h.w.rng.IntN(4) == 0 {
		rows, err := h.Store.Rows(ctx, s, row.Position-1, 1, store.Ascending)
		if err != nil || rows[0].Position == row.Position {
			return store.Row{}, err
		}
		return rows[0], nil
	}
	return row, err
}

func (h *hiding) Rows(ctx context.Context, s store.Stream, from uint64, n int, d store.Direction) ([]store.Row, error) {
	rows, err := h.Store.Rows(ctx, s, from, n, d)
	if err == nil && len(rows) > 0 && h.w.rng.IntN(4) == 0 {
		rows = rows[:len(rows)-1]
	}
	return rows, err
}

func TestBrokenRulesAreFound(t *testing.T) {
	for _, m := range append(mutants, moneyMutants...) {
		t.Run(m.name, func(t *testing.T) {
			h := hunt(t, *first, mutantSchedules, m)
			if h.wrong == nil {
				t.Fatalf("not found in %d schedules", h.ran)
			}
			t.Logf("after %d schedules, seed %d: %v", h.ran, h.wrong.seed, h.wrong.wrong)
		})
	}
}
