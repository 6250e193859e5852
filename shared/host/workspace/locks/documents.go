package locks

import (
	"time"

	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Docs contains two documents for each workspace with a lock or a policy: the locks that tasks hold, and the locks that
// tasks wait for. The number of the first changes with its locks and its policy.
var Docs = store.Kind[list]{
	Shape: store.Shape{Name: "locks of a workspace", Partition: "locks#*", Sort: "*#*", Verify: store.Unread},
	Codec: store.JSON[list](1),
}

// The documents of a workspace.
const (
	held    = "held"
	waiting = "waiting"
)

type list struct {
	Policy Policy  `json:"policy,omitempty"` // in the document of held locks; "" means Warn
	Locks  []entry `json:"locks,omitempty"`  // the oldest first
}

// entry is the lock of a task.
type entry struct {
	Task   string      `json:"task"`
	Vacant identity.ID `json:"vacant"`
	Owner  call.Owner  `json:"owner"`
	Agent  string      `json:"agent"`
	Paths  []string    `json:"paths"`
	Since  time.Time   `json:"since"`
}

func (e *entry) ref() task.Ref { return task.Ref{Vacant: e.Vacant, Owner: e.Owner, ID: e.Task} }
