package graduation

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Phase says how far an attempt is; its value is the word on the wire.
type Phase string

// The phases. Refused is what a step said; Failed is a run that came to no
// decision: a fault, or nobody ended it in time.
const (
	Open     Phase = "open"
	Accepted Phase = "accepted"
	Refused  Phase = "refused"
	Failed   Phase = "failed"
)

// Refusal says why an attempt was refused or has failed.
type Refusal struct {
	Error  string        `json:"error"`  // gate.ErrorName of the kind: the class of the reference
	Kind   string        `json:"kind"`   // the machine word of the kind
	Detail string        `json:"detail"` // the failing fact
	Step   gate.StepName `json:"step"`
	// Findings come along where the collusion check refuses; in a Status they
	// stand beside it.
	Findings *gate.Findings `json:"findings,omitempty"`
}

// Outcome is what an accepted attempt has made.
type Outcome struct {
	Manifest json.RawMessage `json:"manifest"` // as it is registered now, both signatures in it
	CardHash identity.Hash   `json:"card_hash"`
	Endpoint string          `json:"endpoint"`
	Seq      uint64          `json:"event_seq"` // of its register event in the registry
}

// Status is what may be known of an attempt.
type Status struct {
	Attempt
	Phase    Phase
	Step     gate.StepName // where it ended, or, while it is open, where it is if that is known
	Refusal  *Refusal      // of one that was refused or has failed
	Findings *gate.Findings
	Outcome  *Outcome  // of an accepted one
	Decided  time.Time // zero while it is open

	accepted uint64 // the position of an accepted one before it, 0 if there is none
	version  uint64 // of the document
}

// View is a status as it is shown to both parties.
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

// View is s as it is shown.
func (s *Status) View() View {
	return View{
		ID: s.ID.String(), Child: s.Child, Parent: s.Request.ParentID, Position: s.Position, State: s.Phase, Step: s.Step,
		Request: s.Request.Hash(), Capability: s.Request.CapabilityText, Began: s.Began, Due: s.Due, Decided: s.Decided,
		Policy: s.Policy, Refusal: s.Refusal, Findings: s.Findings, Outcome: s.Outcome,
	}
}

type storedStatus struct {
	Format   int            `json:"format"`
	State    Phase          `json:"state"`
	Step     gate.StepName  `json:"step,omitempty"`
	Refusal  *Refusal       `json:"refusal,omitempty"`
	Findings *gate.Findings `json:"findings,omitempty"`
	Outcome  *Outcome       `json:"outcome,omitempty"`
	Decided  int64          `json:"decided,omitempty"`
	Accepted uint64         `json:"accepted,omitempty"`
}

// put is the write of s over the version that it was read at.
func (s *Status) put(writeID store.WriteID) (store.Put, error) {
	w := storedStatus{Format: format, State: s.Phase, Step: s.Step, Refusal: s.Refusal, Findings: s.Findings, Outcome: s.Outcome, Accepted: s.accepted}
	if !s.Decided.IsZero() {
		w.Decided = s.Decided.UnixMicro()
	}
	data, err := encode(w)
	return store.Put{Key: AttemptKey(s.Child, s.Position), If: s.version, WriteID: writeID, Data: data}, err
}

// DecodeStatus reads what has come of a, for verify too. A problem of kind
// Damaged says what is wrong with it.
func DecodeStatus(a Attempt, d store.Doc) (Status, error) {
	damaged := func(err error, why string) (Status, error) {
		return Status{}, problem.Wrap(problem.Damaged, err, "what came of graduation %s is not readable: %s", a.ID, why)
	}
	if d.Version == 0 {
		return damaged(nil, "there is nothing")
	}
	var w storedStatus
	if err := json.Unmarshal(d.Data, &w); err != nil {
		return damaged(err, "it is no document")
	}
	if err := checkFormat(w.Format); err != nil {
		return damaged(err, problem.Of(err).Text())
	}
	s := Status{Attempt: a, Phase: w.State, Step: w.Step, Refusal: w.Refusal, Findings: w.Findings, Outcome: w.Outcome, accepted: w.Accepted, version: d.Version}
	if w.Decided != 0 {
		s.Decided = time.UnixMicro(w.Decided).UTC()
	}
	switch {
	case !slices.Contains([]Phase{Open, Accepted, Refused, Failed}, s.Phase):
		return damaged(nil, "its state is none")
	case (s.Phase == Open) != s.Decided.IsZero():
		return damaged(nil, "it is decided and open, or neither")
	case (s.Phase == Accepted) != (s.Outcome != nil):
		return damaged(nil, "it has an outcome and is not accepted, or is and has none")
	case (s.Phase == Refused || s.Phase == Failed) != (s.Refusal != nil):
		return damaged(nil, "it has a refusal and is neither refused nor failed, or is and has none")
	case s.accepted >= s.Position:
		return damaged(nil, "it names one before it that is not")
	}
	return s, nil
}
