package dispatch

import (
	"cmp"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// Remedy is the operation of a Caller that must precede another call.
type Remedy string

const (
	RemedyAsk   Remedy = "ask"
	RemedyReset Remedy = "reset"
)

// StuckError is the error of a chain that can continue only after Remedy.
type StuckError struct {
	error
	Remedy Remedy
	Target string
}

func (s *StuckError) Unwrap() error { return s.error }

func (r *run) newStuckError(remedy Remedy, kind problem.Kind, format string, args ...any) error {
	name := r.target.Name
	if name == r.target.ID.Short() { // unpublished vacants cannot be found by the default name
		name = cmp.Or(r.target.Address, r.target.URL)
	}
	return &StuckError{problem.New(kind, format, args...), remedy, name}
}
