// Package lifecycle defines the states of a vacant, the events that change them, and what each
// state allows (PROTOCOL §18).
package lifecycle

import (
	"fmt"

	"github.com/vacancy-host/vacancy/shared/problem"
)

type State string

// A vacant starts in state Local: it is complete, but not listed in a registry.
const (
	Local       State = "LOCAL"
	Active      State = "ACTIVE"
	Hibernating State = "HIBERNATING"
	Stale       State = "STALE" // must be revived
	Sunk        State = "SUNK"  // out of service, but its key is kept
	Archived    State = "ARCHIVED"
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

// transitions excludes pausing and sinking, which are not events.
var transitions = map[State]map[Event]State{
	Local:       {Tick: Local, Heartbeat: Local, CallReceived: Local, ReviewReceived: Local, SpawnRequested: Local},
	Active:      {Tick: Active, Heartbeat: Active, CallReceived: Active, ReviewReceived: Active, SpawnRequested: Active},
	Hibernating: {Tick: Hibernating, Heartbeat: Hibernating, ReviewReceived: Hibernating, ReviveRequested: Active},
	Stale:       {Tick: Stale, Heartbeat: Stale, ReviewReceived: Stale, ReviveRequested: Active},
	Sunk:        {Tick: Sunk, Heartbeat: Sunk, ReviewReceived: Sunk, ArchiveRequested: Archived},
	Archived:    {Tick: Archived},
}

// Next returns the state after e. If s does not allow e, it returns s and an error of kind
// Conflict.
func (s State) Next(e Event) (State, error) {
	if next, ok := transitions[s][e]; ok {
		return next, nil
	}
	return s, problem.New(problem.Conflict, "event %.40s is not valid in state %.40s", e, s)
}

func (s State) CanBeCalled() bool { return s == Local || s == Active }

func (s State) CanReview() bool { return s == Local || s == Active || s == Hibernating }

func (s State) RequiresRevival() bool { return s == Stale }

// IsRetired reports whether a vacant in state s refuses all calls permanently.
func (s State) IsRetired() bool { return s == Sunk || s == Archived }

// Visibility determines who can find a vacant in a registry.
type Visibility string

const (
	Hidden     Visibility = "NONE"
	Restricted Visibility = "RESTRICTED"
	Public     Visibility = "PUBLIC"
)

func (s State) EffectiveVisibility(v Visibility) Visibility {
	if s == Local {
		return Hidden
	}
	return v
}
