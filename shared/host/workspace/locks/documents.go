package locks

import (
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

var Docs = store.DocKind[lockDocument]{
	Shape: store.Shape{Name: "locks of a workspace", Partition: "locks#*", Sort: "*", Verify: store.VerifySkip},
	Codec: store.JSONCodec[lockDocument](1),
}

// LockNumberDocs contains a number for each workspace, which increases when a task gets a lock and
// when the policy changes. Writes depend on this number, because the document in Docs may be large.
var LockNumberDocs = store.DocKind[int64]{
	Shape: store.Shape{Name: "lock number of a workspace", Partition: "locknumber#*", Sort: "*", Verify: store.VerifySkip},
	Codec: store.CountCodec(),
}

type lockDocument struct {
	Policy Policy  `json:"policy,omitempty"` // "" means Warn
	Locks  []entry `json:"locks,omitempty"`
}

type entry struct {
	Task      string      `json:"task"`
	Vacant    identity.ID `json:"vacant"`
	Owner     call.Owner  `json:"owner"`
	Agent     string      `json:"agent"`
	Paths     []string    `json:"paths"`
	HeldSince time.Time   `json:"since,omitzero"` // zero if the task waits
}

func (e *entry) isHeld() bool { return !e.HeldSince.IsZero() }
