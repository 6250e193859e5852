// Package lifecycle defines the states of a vacant, the events that change
// them, and what each state allows (PROTOCOL §18).
//
// Invariant: an event that the table does not allow is an error and leaves the
// state unchanged.
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
	Hibernating State = "HIBERNATING" // asleep at the owner's request
	Stale       State = "STALE"       // asleep for so long that it must be revived
	Sunk        State = "SUNK"        // out of service; the key is kept
	Archived    State = "ARCHIVED"    // out of service for ever
)

// States lists every state, in the order of a vacant's life.
func States() []State {
	return []State{Local, Active, Hibernating, Stale, Sunk, Archived}
}

// ParseState parses a state, exactly as on the wire.
func ParseState(s string) (State, error) {
	if _, ok := table[State(s)]; ok {
		return State(s), nil
	}
	return "", problem.Invalid("state", "LOCAL, ACTIVE, HIBERNATING, STALE, SUNK or ARCHIVED", fmt.Sprintf("%.40q", s))
}

// Event changes a vacant's state; its value is the word on the wire.
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

// table has the 23 allowed of the 42 combinations. Only a revival and an archiving
// change a state here. An owner pauses and sinks a vacant by other means.
var table = map[State]map[Event]State{
	Local:       {Tick: Local, Heartbeat: Local, CallReceived: Local, ReviewReceived: Local, SpawnRequested: Local},
	Active:      {Tick: Active, Heartbeat: Active, CallReceived: Active, ReviewReceived: Active, SpawnRequested: Active},
	Hibernating: {Tick: Hibernating, Heartbeat: Hibernating, ReviewReceived: Hibernating, ReviveRequested: Active},
	Stale:       {Tick: Stale, Heartbeat: Stale, ReviewReceived: Stale, ReviveRequested: Active},
	Sunk:        {Tick: Sunk, Heartbeat: Sunk, ReviewReceived: Sunk, ArchiveRequested: Archived},
	Archived:    {Tick: Archived},
}

// Next is the state after e. If s does not allow e, Next returns s and an error
// of kind Conflict in the reference's words.
func (s State) Next(e Event) (State, error) {
	if to, ok := table[s][e]; ok {
		return to, nil
	}
	return s, problem.New(problem.Conflict, "event %.40s is not valid in state %.40s", e, s)
}

// CanBeCalled reports whether a vacant in s answers calls (the reference's
// can_be_called and is_runnable, which are always equal).
func (s State) CanBeCalled() bool { return s == Local || s == Active }

// CanReview reports whether a vacant in s may review others.
func (s State) CanReview() bool { return s == Local || s == Active || s == Hibernating }

// RequiresRevive reports whether s needs a revival before calls.
func (s State) RequiresRevive() bool { return s == Stale }

// Closed reports whether s refuses calls for ever, with 410 instead of 423.
func (s State) Closed() bool { return s == Sunk || s == Archived }

// Visibility limits who can find a vacant in a registry; its value is the word
// on the wire.
type Visibility string

// The visibilities.
const (
	Hidden     Visibility = "NONE"
	Restricted Visibility = "RESTRICTED"
	Public     Visibility = "PUBLIC"
)

// Effective is the visibility of a vacant in s that declares v: Local is always
// hidden, all other states keep v (PROTOCOL §19).
func (s State) Effective(v Visibility) Visibility {
	if s == Local {
		return Hidden
	}
	return v
}
