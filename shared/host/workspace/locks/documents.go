package locks

import (
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Docs contains two documents for each workspace with a lock or policy: the locks, and the number
// of their last change. A write depends only on the second document, which stays small, whereas the
// first has an entry for each waiting task.
var Docs = store.Kind[list]{
	Shape: store.Shape{Name: "locks of a workspace", Partition: "locks#*", Sort: "*#*", Verify: store.Unread},
	Codec: store.JSON[list](1),
}

const (
	held   = "held"
	number = "number"
)

type list struct {
	Policy Policy  `json:"policy,omitempty"` // "" means Warn
	Locks  []entry `json:"locks,omitempty"`  // in the order of dispatch
}

// entry is the lock of a task that holds the lock or waits for it.
type entry struct {
	Task   string      `json:"task"`
	Vacant identity.ID `json:"vacant"`
	Owner  call.Owner  `json:"owner"`
	Agent  string      `json:"agent"`
	Paths  []string    `json:"paths"`
	Since  time.Time   `json:"since,omitzero"` // zero if the task waits
}

func (e *entry) isHeld() bool { return !e.Since.IsZero() }
