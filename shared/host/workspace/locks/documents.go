package locks

import (
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Docs contains the locks of each workspace with a lock or a policy.
var Docs = store.Kind[list]{
	Shape: store.Shape{Name: "locks of a workspace", Partition: "locks#*", Sort: "*", Verify: store.Unread},
	Codec: store.JSON[list](1),
}

// NumberDocs contains a number for each workspace, which every change of its locks increments. A write refers to it, and
// not to the locks themselves, which have an entry for each task that waits.
var NumberDocs = store.Kind[int64]{
	Shape: store.Shape{Name: "number of locks of a workspace", Partition: "locknumber#*", Sort: "*", Verify: store.Unread},
	Codec: store.Count(),
}

type list struct {
	Policy Policy  `json:"policy,omitempty"` // "" means Warn
	Locks  []entry `json:"locks,omitempty"`  // in the order of dispatch
}

// entry is the lock of a task that holds it or waits for it.
type entry struct {
	Task   string      `json:"task"`
	Vacant identity.ID `json:"vacant"`
	Owner  call.Owner  `json:"owner"`
	Agent  string      `json:"agent"`
	Paths  []string    `json:"paths"`
	Since  time.Time   `json:"since,omitzero"` // zero for a task that waits
}

func (e *entry) isHeld() bool { return !e.Since.IsZero() }
