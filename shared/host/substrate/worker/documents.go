package worker

import (
	"fmt"
	"slices"
	"time"

	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// turnPartition has the documents of a turn: the star is the turn's id.
const turnPartition = "workturn#*"

// The documents of turns for workers. They expire soon after the turn's deadline. Texts are sealed under the text key of
// the day.
var (
	// WaitingDocs list the turns that no worker has leased, by tenant and mode, then by vacant and turn.
	WaitingDocs = store.Kind[waiting]{
		Shape: store.Shape{Name: "waiting turn", Partition: "work#*#*", Sort: "*#*", Verify: store.VerifyNot},
		Codec: store.JSONCodec[waiting](1),
	}
	TurnDocs = store.Kind[turn]{
		Shape: store.Shape{Name: "turn of a worker", Partition: turnPartition, Sort: "turn", Verify: store.VerifyNot},
		Codec: store.JSONCodec[turn](1),
		CheckValue: func(_ store.Doc, t turn) error {
			if !slices.Contains([]state{waits, leased, answered, over, lost}, t.State) || (t.State == leased || t.State == answered) && len(t.Holders) == 0 {
				return fmt.Errorf("it is %.20q with %d leases", t.State, len(t.Holders))
			}
			return nil
		},
	}
	// TextDocs are the question of a turn, and the reports of a lease: the stars of the sort are the numbers of the lease
	// and the report, both 0 for the question.
	TextDocs = store.Kind[[]byte]{
		Shape: store.Shape{Name: "text of a turn", Partition: turnPartition, Sort: "t#*#*", Verify: store.VerifyNot},
		Codec: store.Bytes(),
	}
	// SeenDocs have the minute in which a worker last asked for turns, by tenant and mode, then by vacant. The sort
	// anyVacant is of workers that take the turns of all vacants.
	SeenDocs = store.Kind[seen]{
		Shape: store.Shape{Name: "connection of workers", Partition: "workers#*#*", Sort: "*", Verify: store.VerifyNot},
		Codec: store.JSONCodec[seen](1),
	}
)

// anyVacant stands for all vacants of a tenant.
const anyVacant = "*"

// waiting is a turn that no worker has leased.
type waiting struct {
	Turn string `json:"turn"`
}

// state is the state of a turn. The supervisor is the process that runs the turn's call.
type state string

const (
	waits    state = "waiting"
	leased   state = "leased"
	answered state = "answered"
	over     state = "over" // the supervisor does not wait for an answer any more
	lost     state = "lost" // the worker was lost after it had started
)

// turn is a turn for a worker. Its texts are documents of their own, so that a change of the state writes little.
type turn struct {
	Vacant   identity.ID `json:"vacant"`
	Tenant   string      `json:"tenant,omitempty"`
	Test     bool        `json:"test,omitempty"`
	Deadline time.Time   `json:"deadline"`
	State    state       `json:"state"`
	// Holders are the holders of the turn's leases, in order. The number of a lease is its index plus one. A lease
	// that is not the last one is lost.
	Holders []string `json:"holders,omitempty"`
	// Started, Batches, Size and Renewed belong to the last lease. Batches counts its reports, and Renewed its heartbeats.
	Started bool `json:"started,omitempty"`
	Batches int  `json:"batches,omitempty"`
	Size    int  `json:"size,omitempty"` // bytes of all reports
	Renewed int  `json:"renewed,omitempty"`
	// Answer is the hash of the answer, by which a repeated answer is recognized.
	Answer string `json:"answer,omitempty"`
}

// seen is the time at which a worker asked for turns.
type seen struct {
	Time time.Time `json:"time"`
}
