package locks

import (
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Docs contains the locks of each workspace with a lock or a policy.
var Docs = store.DocKind[lockDocument]{
	Shape: store.Shape{Name: "locks of a workspace", Partition: "locks#*", Sort: "*", Verify: store.VerifySkip},
	Codec: store.JSONCodec[lockDocument](1),
}

// LockNumberDocs contains a lock number for each workspace. The number increases when a task gets a
// lock and when the policy changes. A write to a workspace depends on this number and not on the
// document in Docs, which may be large because it has an entry for each waiting task.
var LockNumberDocs = store.DocKind[int64]{
	Shape: store.Shape{Name: "lock number of a workspace", Partition: "locknumber#*", Sort: "*", Verify: store.VerifySkip},
	Codec: store.CountCodec(),
}

type lockDocument struct {
	Policy Policy  `json:"policy,omitempty"` // "" means Warn
	Locks  []entry `json:"locks,omitempty"`  // in the order of dispatch
}

// entry is a lock that a task holds or waits for.
type entry struct {
	Task      string      `json:"task"`
	Vacant    identity.ID `json:"vacant"`
	Owner     call.Owner  `json:"owner"`
	Agent     string      `json:"agent"`
	Paths     []string    `json:"paths"`
	HeldSince time.Time   `json:"since,omitzero"` // zero if the task waits
}

func (e *entry) isHeld() bool { return !e.HeldSince.IsZero() }
