package datadir

import (
	"context"
	"errors"

	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch/filebook"
)

func (i *Identity) Book() *filebook.Book { return &filebook.Book{Dir: i.ChainsDir()} }

func (b *Bundle) writeChains(ctx context.Context, dir string) error {
	book := &filebook.Book{Dir: dir}
	for _, state := range b.Chains {
		s, err := book.Open(ctx, state.Self, state.Target)
		if err != nil {
			return err
		}
		if err := errors.Join(s.Save(state), s.Close()); err != nil {
			return err
		}
	}
	return nil
}

// readChains locks each target, so that it never reads a state while a call changes it.
func (i *Identity) readChains(ctx context.Context) ([]dispatch.State, error) {
	book := i.Book()
	targets, err := book.Targets()
	if err != nil {
		return nil, err
	}
	var states []dispatch.State
	for _, target := range targets {
		s, err := book.Open(ctx, i.ID(), target)
		if err != nil {
			return nil, err
		}
		state, err := s.Load()
		if err := errors.Join(err, s.Close()); err != nil {
			return nil, err
		}
		states = append(states, state)
	}
	return states, nil
}
