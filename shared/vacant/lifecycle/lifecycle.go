// Package lifecycle holds the states a vacant can be in, which event moves it
// where, and what each state allows (PROTOCOL §18).
//
// Pure: it imports canon and problem. The invariant: a cell that the table does
// not name is an error and leaves the state as it was.
package lifecycle

import (
	"fmt"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// State is a vacant's runtime state; its value is the word on the wire.
type State string

// The states. A vacant starts Local, which is complete but unlisted.
const (
	Local       State = "LOCAL"
	Active      State = "ACTIVE"
	Hibernating State = "HIBERNATING" // asleep by its owner's wish
	Stale       State = "STALE"       // asleep so long that it must be revived
	Sunk        State = "SUNK"        // closed; the key is kept
	Archived    State = "ARCHIVED"    // closed for good
)

// States lists every state, in the order of a vacant's life.
func States() []State {
	return []State{Local, Active, Hibernating, Stale, Sunk, Archived}
}

// ParseState reads the word of a state, exactly as it stands on the wire.
func ParseState(s string) (State, error) {
	if _, ok := table[State(s)]; ok {
		return State(s), nil
	}
	return "", problem.Invalid("state", "LOCAL, ACTIVE, HIBERNATING, STALE, SUNK or ARCHIVED", fmt.Sprintf("%.40q", s))
}

// Event is what can happen to a vacant; its value is the word on the wire.
type Event string

// The events.
const (
	Tick             Event = "TICK"
	Heartbeat        Event = "HEARTBEAT"
	CallReceived     Event = "CALL_RECEIVED"
	ReviewReceived   Event = "REVIEW_RECEIVED"
	ReviveRequested  Event = "REVIVE_REQUESTED"
	ArchiveRequested Event = "ARCHIVE_REQUESTED"
	SpawnRequested   Event = "SPAWN_REQUESTED"
)

// table has the 23 valid cells of the 42; a missing cell is an error. Nothing
// here leads from Local or Active to another state: an owner moves those from
// outside the table (pause, sink).
var table = map[State]map[Event]State{
	Local:       {Tick: Local, Heartbeat: Local, CallReceived: Local, ReviewReceived: Local, SpawnRequested: Local},
	Active:      {Tick: Active, Heartbeat: Active, CallReceived: Active, ReviewReceived: Active, SpawnRequested: Active},
	Hibernating: {Tick: Hibernating, Heartbeat: Hibernating, ReviewReceived: Hibernating, ReviveRequested: Active},
	Stale:       {Tick: Stale, Heartbeat: Stale, ReviewReceived: Stale, ReviveRequested: Active},
	Sunk:        {Tick: Sunk, Heartbeat: Sunk, ReviewReceived: Sunk, ArchiveRequested: Archived},
	Archived:    {Tick: Archived},
}

// Next is the state after e. Where e is not valid it is s itself, with an
// error of kind Conflict in the words of the reference.
func (s State) Next(e Event) (State, error) {
	if to, ok := table[s][e]; ok {
		return to, nil
	}
	return s, problem.New(problem.Conflict, "event %.40s is not valid in state %.40s", e, s)
}

// CanBeCalled reports whether a vacant in s answers calls (the reference's
// can_be_called and is_runnable, which never differ).
func (s State) CanBeCalled() bool { return s == Local || s == Active }

// CanReview reports whether a vacant in s may review others.
func (s State) CanReview() bool { return s == Local || s == Active || s == Hibernating }

// RequiresRevive reports whether only a revival makes s callable again.
func (s State) RequiresRevive() bool { return s == Stale }

// Closed reports whether s never answers again: 410 and not 423.
func (s State) Closed() bool { return s == Sunk || s == Archived }

// Visibility says who finds a vacant in a registry; its value is the word on
// the wire.
type Visibility string

// The visibilities.
const (
	Hidden     Visibility = "NONE"
	Restricted Visibility = "RESTRICTED"
	Public     Visibility = "PUBLIC"
)

// Effective is the visibility that a vacant in s really has when v is
// declared: Local hides it, every other state keeps v (PROTOCOL §19).
func (s State) Effective(v Visibility) Visibility {
	if s == Local {
		return Hidden
	}
	return v
}
