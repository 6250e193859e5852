package worker

import (
	"fmt"
	"slices"
	"time"

	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

const turnPartition = "workturn#*"

// Texts are sealed with the text key of the day.
var (
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
	TextDocs = store.DocKind[[]byte]{
		Shape: store.Shape{Name: "text of a turn", Partition: turnPartition, Sort: "t#*#*", Verify: store.VerifySkip},
		Codec: store.BytesCodec(),
	}
	ConnectionDocs = store.DocKind[connection]{
		Shape: store.Shape{Name: "connection of workers", Partition: "workers#*#*", Sort: "*", Verify: store.VerifySkip},
		Codec: store.JSONCodec[connection](1),
	}
)

const anyVacant = "*"

type waitingTurn struct {
	Turn string `json:"turn"`
}

type state string

const (
	stateWaiting   state = "waiting"
	stateLeased    state = "leased"
	stateAnswered  state = "answered"
	stateWithdrawn state = "over" // the supervisor no longer waits for an answer
	stateLost      state = "lost" // the worker was lost after it had started
)

// turn is stored without its texts, so that a change of the state writes little data.
type turn struct {
	Vacant   identity.ID `json:"vacant"`
	Tenant   string      `json:"tenant,omitempty"`
	Test     bool        `json:"test,omitempty"`
	Deadline time.Time   `json:"deadline"`
	State    state       `json:"state"`
	// Holders lists the holders of the turn's leases in order. Only the last lease is valid.
	Holders        []string `json:"holders,omitempty"`
	Started        bool     `json:"started,omitempty"`
	ReportCount    int      `json:"batches,omitempty"`
	ReportBytes    int      `json:"size,omitempty"`
	HeartbeatCount int      `json:"renewed,omitempty"`
	AnswerHash     string   `json:"answer,omitempty"`
}

type connection struct {
	Time time.Time `json:"time"`
}
