// Package lifecycle defines the states of a vacant, the events that change them, and what each
// state allows (PROTOCOL §18).
//
// An event that a state does not allow is an error and leaves the state unchanged.
package lifecycle

import (
	"fmt"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// State is the runtime state of a vacant, in its wire form.
type State string

// A vacant starts in state Local: it is complete, but not listed in a registry.
const (
	Local       State = "LOCAL"
	Active      State = "ACTIVE"
	Hibernating State = "HIBERNATING" // paused by its owner
	Stale       State = "STALE"       // paused for so long that it must be revived
	Sunk        State = "SUNK"        // out of service, but its key is kept
	Archived    State = "ARCHIVED"    // out of service permanently
)

func States() []State {
	return []State{Local, Active, Hibernating, Stale, Sunk, Archived}
}

func ParseState(s string) (State, error) {
	if _, ok := transitions[State(s)]; ok {
		return State(s), nil
	}
	return "", problem.Invalid("state", "LOCAL, ACTIVE, HIBERNATING, STALE, SUNK or ARCHIVED", fmt.Sprintf("%.40q", s))
}

// Event is an event that can change the state of a vacant, in its wire form.
type Event string

const (
	Tick             Event = "TICK"
	Heartbeat        Event = "HEARTBEAT"
	CallReceived     Event = "CALL_RECEIVED"
	ReviewReceived   Event = "REVIEW_RECEIVED"
	ReviveRequested  Event = "REVIVE_REQUESTED"
	ArchiveRequested Event = "ARCHIVE_REQUESTED"
	SpawnRequested   Event = "SPAWN_REQUESTED"
)

// transitions maps each state and each event that it allows to the next state. Only ReviveRequested
// and ArchiveRequested change the state. Pausing and sinking are not events: the host sets the new
// state.
var transitions = map[State]map[Event]State{
	Local:       {Tick: Local, Heartbeat: Local, CallReceived: Local, ReviewReceived: Local, SpawnRequested: Local},
	Active:      {Tick: Active, Heartbeat: Active, CallReceived: Active, ReviewReceived: Active, SpawnRequested: Active},
	Hibernating: {Tick: Hibernating, Heartbeat: Hibernating, ReviewReceived: Hibernating, ReviveRequested: Active},
	Stale:       {Tick: Stale, Heartbeat: Stale, ReviewReceived: Stale, ReviveRequested: Active},
	Sunk:        {Tick: Sunk, Heartbeat: Sunk, ReviewReceived: Sunk, ArchiveRequested: Archived},
	Archived:    {Tick: Archived},
}

// Next returns the state after e. If s does not allow e, Next returns s and an error of kind
// Conflict. The message is the same as in the Python reference implementation.
func (s State) Next(e Event) (State, error) {
	if next, ok := transitions[s][e]; ok {
		return next, nil
	}
	return s, problem.New(problem.Conflict, "event %.40s is not valid in state %.40s", e, s)
}

// CanBeCalled reports whether a vacant in state s answers calls. In the Python reference
// implementation, can_be_called and is_runnable both return this value.
func (s State) CanBeCalled() bool { return s == Local || s == Active }

func (s State) CanReview() bool { return s == Local || s == Active || s == Hibernating }

func (s State) RequiresRevival() bool { return s == Stale }

// IsRetired reports whether a vacant in state s refuses all calls permanently, with HTTP status
// 410. Hibernating and Stale vacants refuse calls with status 423.
func (s State) IsRetired() bool { return s == Sunk || s == Archived }

// Visibility determines who can find a vacant in a registry, in its wire form.
type Visibility string

const (
	Hidden     Visibility = "NONE"
	Restricted Visibility = "RESTRICTED"
	Public     Visibility = "PUBLIC"
)

// EffectiveVisibility returns the visibility of a vacant in state s that declares v. A Local vacant
// is hidden, and all other vacants have the declared visibility.
func (s State) EffectiveVisibility(v Visibility) Visibility {
	if s == Local {
		return Hidden
	}
	return v
}
