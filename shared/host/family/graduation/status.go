package graduation

import (
	"encoding/json"
	"time"

	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Phase is the progress of an attempt; its value is the wire's term.
type Phase string

// The phases. Refused: a step refused. Failed: the run made no decision,
// because of a fault or because it did not complete in time.
const (
	Open     Phase = "open"
	Accepted Phase = "accepted"
	Refused  Phase = "refused"
	Failed   Phase = "failed"
)

// Refusal says why an attempt was refused or failed.
type Refusal struct {
	Error  string        `json:"error"`  // gate.ErrorName of the kind: the reference's class
	Kind   string        `json:"kind"`   // the code of the kind
	Detail string        `json:"detail"` // the reason
	Step   gate.StepName `json:"step"`
	// Findings are set if the collusion check refused. A Status has them beside
	// the Refusal.
	Findings *gate.Findings `json:"findings,omitempty"`
}

// Outcome is the result of an accepted attempt.
type Outcome struct {
	Manifest json.RawMessage `json:"manifest"` // as registered now, with both signatures
	CardHash identity.Hash   `json:"card_hash"`
	Endpoint string          `json:"endpoint"`
	Seq      uint64          `json:"event_seq"` // seq of the register event
}

// Status is the state of an attempt.
type Status struct {
	Attempt
	Phase    Phase
	Step     gate.StepName // where it ended, or where it is if that is known
	Refusal  *Refusal      // of a refused or failed attempt
	Findings *gate.Findings
	Outcome  *Outcome  // of an accepted attempt
	Decided  time.Time // zero while it is open

	accepted uint64 // the position of an earlier accepted attempt, or 0
	version  uint64 // of the document
}

// View is a status as both parties see it.
type View struct {
	ID         string         `json:"id"`
	Child      identity.ID    `json:"child_id"`
	Parent     identity.ID    `json:"parent_id"`
	Position   uint64         `json:"position"`
	State      Phase          `json:"state"`
	Step       gate.StepName  `json:"step,omitempty"`
	Request    identity.Hash  `json:"request_hash"`
	Capability string         `json:"capability_text"`
	Began      time.Time      `json:"began"`
	Due        time.Time      `json:"due"`
	Decided    time.Time      `json:"decided,omitzero"`
	Policy     gate.Policy    `json:"policy"`
	Refusal    *Refusal       `json:"refusal,omitempty"`
	Findings   *gate.Findings `json:"findings,omitempty"`
	Outcome    *Outcome       `json:"outcome,omitempty"`
}

// View returns the View of s.
func (s *Status) View() View {
	return View{
		ID: s.ID.String(), Child: s.Child, Parent: s.Request.ParentID, Position: s.Position, State: s.Phase, Step: s.Step,
		Request: s.Request.Hash(), Capability: s.Request.CapabilityText, Began: s.Began, Due: s.Due, Decided: s.Decided,
		Policy: s.Policy, Refusal: s.Refusal, Findings: s.Findings, Outcome: s.Outcome,
	}
}

// put is the write of s over the version that was read.
func (s *Status) put(writeID store.WriteID) (store.Put, error) {
	w := storedStatus{State: s.Phase, Step: s.Step, Refusal: s.Refusal, Findings: s.Findings, Outcome: s.Outcome, Accepted: s.accepted}
	if !s.Decided.IsZero() {
		w.Decided = s.Decided.UnixMicro()
	}
	data, err := StatusDocs.Encode(w)
	return store.Put{Key: AttemptKey(s.Child, s.Position), If: s.version, WriteID: writeID, Data: data}, err
}

// DecodeStatus reads the status of a. The error is of kind Damaged if it is
// unreadable or absent.
func DecodeStatus(a Attempt, d store.Doc) (Status, error) {
	w, err := StatusDocs.Parse(d)
	if err != nil {
		return Status{}, err
	}
	return a.status(&w, d.Version), nil
}

func (a *Attempt) status(w *storedStatus, version uint64) Status {
	s := Status{Attempt: *a, Phase: w.State, Step: w.Step, Refusal: w.Refusal, Findings: w.Findings, Outcome: w.Outcome, accepted: w.Accepted, version: version}
	if w.Decided != 0 {
		s.Decided = time.UnixMicro(w.Decided).UTC()
	}
	return s
}
