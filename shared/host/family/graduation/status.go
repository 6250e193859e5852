package graduation

import (
	"encoding/json"
	"time"

	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

type Phase string

// Refused means that a step refused the attempt. Failed means that a fault or the deadline ended
// the run.
const (
	Open     Phase = "open"
	Accepted Phase = "accepted"
	Refused  Phase = "refused"
	Failed   Phase = "failed"
)

type Refusal struct {
	// Error is the name of the exception class in the Python reference implementation
	// (gate.ErrorName).
	Error    string         `json:"error"`
	Kind     string         `json:"kind"`
	Detail   string         `json:"detail"`
	Step     gate.StepName  `json:"step"`
	Findings *gate.Findings `json:"findings,omitempty"`
}

type Outcome struct {
	Manifest json.RawMessage `json:"manifest"`
	CardHash identity.Hash   `json:"card_hash"`
	Endpoint string          `json:"endpoint"`
	Seq      uint64          `json:"event_seq"`
}

type Status struct {
	Attempt
	Phase     Phase
	Step      gate.StepName // last step, or the current step if it is known
	Refusal   *Refusal
	Findings  *gate.Findings
	Outcome   *Outcome
	DecidedAt time.Time // zero while open

	acceptedPosition uint64 // earlier accepted attempt, or 0
	version          uint64
}

type View struct {
	ID          string         `json:"id"`
	Child       identity.ID    `json:"child_id"`
	Parent      identity.ID    `json:"parent_id"`
	Position    uint64         `json:"position"`
	Phase       Phase          `json:"state"`
	Step        gate.StepName  `json:"step,omitempty"`
	RequestHash identity.Hash  `json:"request_hash"`
	Capability  string         `json:"capability_text"`
	StartedAt   time.Time      `json:"began"`
	DueAt       time.Time      `json:"due"`
	DecidedAt   time.Time      `json:"decided,omitzero"`
	Policy      gate.Policy    `json:"policy"`
	Refusal     *Refusal       `json:"refusal,omitempty"`
	Findings    *gate.Findings `json:"findings,omitempty"`
	Outcome     *Outcome       `json:"outcome,omitempty"`
}

func (s *Status) View() View {
	return View{
		ID: s.ID.String(), Child: s.Child, Parent: s.Request.ParentID, Position: s.Position, Phase: s.Phase, Step: s.Step,
		RequestHash: s.Request.Hash(), Capability: s.Request.CapabilityText, StartedAt: s.StartedAt, DueAt: s.DueAt, DecidedAt: s.DecidedAt,
		Policy: s.Policy, Refusal: s.Refusal, Findings: s.Findings, Outcome: s.Outcome,
	}
}

func (s *Status) newPut(writeID store.WriteID) (store.Put, error) {
	w := storedStatus{Phase: s.Phase, Step: s.Step, Refusal: s.Refusal, Findings: s.Findings, Outcome: s.Outcome, AcceptedPosition: s.acceptedPosition}
	if !s.DecidedAt.IsZero() {
		w.DecidedAt = s.DecidedAt.UnixMicro()
	}
	data, err := StatusDocs.Encode(w)
	return store.Put{Key: StatusKey(s.Child, s.Position), IfVersion: s.version, WriteID: writeID, Data: data}, err
}

func DecodeStatus(a Attempt, d store.Doc) (Status, error) {
	w, err := StatusDocs.Parse(d)
	if err != nil {
		return Status{}, err
	}
	return a.newStatus(&w, d.Version), nil
}

func (a *Attempt) newStatus(w *storedStatus, version uint64) Status {
	s := Status{Attempt: *a, Phase: w.Phase, Step: w.Step, Refusal: w.Refusal, Findings: w.Findings, Outcome: w.Outcome, acceptedPosition: w.AcceptedPosition, version: version}
	if w.DecidedAt != 0 {
		s.DecidedAt = time.UnixMicro(w.DecidedAt).UTC()
	}
	return s
}
