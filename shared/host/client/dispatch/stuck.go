package dispatch

import (
	"cmp"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// Remedy is an operation of a Caller.
type Remedy string

// The remedies.
const (
	RemedyAsk   Remedy = "ask"
	RemedyReset Remedy = "reset"
)

// StuckError is an error of a chain that the caller can continue after Remedy.
type StuckError struct {
	error
	Remedy Remedy
	Target string // the target as a person may name it
}

// Unwrap returns the problem.
func (s *StuckError) Unwrap() error { return s.error }

func (r *run) newStuck(remedy Remedy, kind problem.Kind, format string, args ...any) error {
	name := r.t.Name
	if name == r.t.ID.Short() { // the default; a host finds only published vacants by it
		name = cmp.Or(r.t.Address, r.t.URL)
	}
	return &StuckError{problem.New(kind, format, args...), remedy, name}
}
