package worker

import (
	"fmt"
	"slices"
	"time"

	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// turnPartition contains the documents of a turn. The star stands for the turn's id.
const turnPartition = "workturn#*"

// The documents of a turn expire soon after its deadline. Texts are sealed with the text key of the day.
var (
	// WaitingDocs contains the turns that wait for a worker. The partition is the tenant and the mode, and the sort key
	// is the vacant and the turn.
	WaitingDocs = store.DocKind[waitingTurn]{
		Shape: store.Shape{Name: "waiting turn", Partition: "work#*#*", Sort: "*#*", Verify: store.VerifySkip},
		Codec: store.JSONCodec[waitingTurn](1),
	}
	TurnDocs = store.DocKind[turn]{
		Shape: store.Shape{Name: "turn of a worker", Partition: turnPartition, Sort: "turn", Verify: store.VerifySkip},
		Codec: store.JSONCodec[turn](1),
		CheckValue: func(_ store.Doc, t turn) error {
			if !slices.Contains([]state{stateWaiting, stateLeased, stateAnswered, stateWithdrawn, stateLost}, t.State) || (t.State == stateLeased || t.State == stateAnswered) && len(t.Holders) == 0 {
				return fmt.Errorf("it is %.20q with %d leases", t.State, len(t.Holders))
			}
			return nil
		},
	}
	// TextDocs contains the question of a turn and the reports of its leases. The sort key contains the numbers of the
	// lease and the report, which are both 0 for the question.
	TextDocs = store.DocKind[[]byte]{
		Shape: store.Shape{Name: "text of a turn", Partition: turnPartition, Sort: "t#*#*", Verify: store.VerifySkip},
		Codec: store.BytesCodec(),
	}
	// ConnectionDocs contains the time at which a worker last asked for turns. The partition is the tenant and the mode, and
	// the sort key is the vacant, or anyVacant for workers that run the turns of all vacants.
	ConnectionDocs = store.DocKind[connection]{
		Shape: store.Shape{Name: "connection of workers", Partition: "workers#*#*", Sort: "*", Verify: store.VerifySkip},
		Codec: store.JSONCodec[connection](1),
	}
)

// anyVacant stands for all vacants of a tenant.
const anyVacant = "*"

// waitingTurn is a turn that no worker has leased.
type waitingTurn struct {
	Turn string `json:"turn"`
}

// state is the state of a turn. The supervisor is the process that runs the turn's call.
type state string

const (
	stateWaiting   state = "waiting"
	stateLeased    state = "leased"
	stateAnswered  state = "answered"
	stateWithdrawn state = "over" // the supervisor no longer waits for an answer
	stateLost      state = "lost" // the worker was lost after it had started
)

// turn is a turn for a worker. Its texts are separate documents, so that a change of the state writes little data.
type turn struct {
	Vacant   identity.ID `json:"vacant"`
	Tenant   string      `json:"tenant,omitempty"`
	Test     bool        `json:"test,omitempty"`
	Deadline time.Time   `json:"deadline"`
	State    state       `json:"state"`
	// Holders lists the holders of the turn's leases in order. The number of a lease is its index plus one. All leases
	// except the last are lost.
	Holders []string `json:"holders,omitempty"`
	// Started, ReportCount, ReportBytes and HeartbeatCount belong to the last lease.
	Started        bool `json:"started,omitempty"`
	ReportCount    int  `json:"batches,omitempty"`
	ReportBytes    int  `json:"size,omitempty"`
	HeartbeatCount int  `json:"renewed,omitempty"`
	// AnswerHash identifies a result that is sent again.
	AnswerHash string `json:"answer,omitempty"`
}

// connection is the time at which a worker asked for turns.
type connection struct {
	Time time.Time `json:"time"`
}
