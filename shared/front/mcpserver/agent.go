package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/a2a"
	"github.com/vacancy-host/vacancy/shared/front/mcpserver/mcptool"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
)

// agent is a vacant, as the client of one request asks it.
type agent struct {
	*a2a.Visitor
	r          *request
	answerTime time.Duration
}

// Ask implements mcptool.Agent.
func (a *agent) Ask(ctx context.Context, q mcptool.Question, piece func(string)) (mcptool.Answer, error) {
	a.r.asked.Store(true)
	t, err := a.Visitor.Ask(ctx, a2a.Question{Text: q.Text, Files: q.Files, Context: q.Context, ID: q.ID, Most: q.Most, Began: q.Began}, a.answerTime, pieceOf(piece))
	if !a.r.posted.batch { // which has one status for several answers
		err = a.OrLogin(ctx, err)
	}
	return a.answer(&t, err)
}

// Task implements mcptool.Agent.
func (a *agent) Task(ctx context.Context, id string, wait time.Duration, piece func(string)) (mcptool.Answer, error) {
	t, err := a.Visitor.Task(ctx, id, wait, pieceOf(piece))
	return a.answer(&t, err)
}

// Stop implements mcptool.Agent.
func (a *agent) Stop(ctx context.Context, id string) (mcptool.Answer, error) {
	t, err := a.Visitor.Stop(ctx, id)
	return a.answer(&t, err)
}

// pieceOf passes pieces on. Progress cannot take back a piece; the result has the whole answer.
func pieceOf(piece func(string)) a2a.Piece {
	if piece == nil {
		return nil
	}
	return func(text string, _ bool) { piece(text) }
}

// answer renders what a task has come to.
func (a *agent) answer(t *task.Task, err error) (mcptool.Answer, error) {
	var got a2a.Answer
	if err == nil {
		got, err = a2a.AnswerOf(t)
	}
	if err == nil && t.Status.State != task.Canceled {
		err = got.Failure
	}
	if err != nil {
		return mcptool.Answer{}, a.r.note(explained(err, false))
	}
	out := mcptool.Answer{Text: got.Text, Context: t.Context, Task: t.ID, Envelope: got.Envelope}
	switch {
	case t.Status.State != task.Completed && got.Envelope == nil, t.Status.State.Waits():
		out.State = string(t.Status.State)
	case t.Status.Cut() != "":
		out.Finish = string(t.Status.Cut())
	default:
		out.Finish = "stop"
	}
	if paid := t.Status.Paid; paid != nil {
		out.Price = &paid.Charge
		if got.Signed != nil {
			base, err := a.Base()
			if err != nil {
				return out, a.r.note(err)
			}
			out.Receipt = base + call.ReceiptPath(call.Pair{Caller: got.Signed.To, Vacant: a.Vacant.ID}, paid.Position)
		}
	}
	return out, nil
}

// Describe implements mcptool.Agent.
func (a *agent) Describe(context.Context) (mcptool.Description, error) {
	d := mcptool.Description{ID: a.Vacant.ID.String()}
	c, err := card.Parse(a.Vacant.Card)
	if err != nil {
		return d, a.r.note(problem.Wrap(problem.Damaged, err, "the stored card of %s is damaged", a.Vacant.ID.Short()))
	}
	d.Capability, d.Halo = &c.CapabilityText, &c.HaloVersion
	if c.Endpoint != "" {
		d.Endpoint = &c.Endpoint
	}
	return d, nil
}

// Call implements mcptool.Agent.
func (a *agent) Call(ctx context.Context, request []byte) ([]byte, error) {
	a.r.asked.Store(true)
	reply, err := a.call(ctx, request)
	var said *mcptool.Said
	if errors.As(err, &said) {
		return nil, err
	}
	return reply, a.r.note(err)
}

func (a *agent) call(ctx context.Context, request []byte) ([]byte, error) {
	// The reference checks neither jsonrpc nor method, as at a reset.
	q, err := envelope.DecodeResetRequest(request)
	if err != nil {
		return nil, err
	}
	e := &q.Envelope
	if e.To != a.Vacant.ID {
		return nil, &mcptool.Said{Text: fmt.Sprintf("envelope_to_mismatch: expected %s, got %s", a.Vacant.ID, e.To)}
	}
	if !a.Vacant.State.CanBeCalled() {
		return nil, &mcptool.Said{Text: fmt.Sprintf("vacant %s; not accepting calls", a.Vacant.State)}
	}
	o, err := a.Send(ctx, e)
	if err != nil {
		return nil, err
	}
	if o.Problem != nil {
		return nil, explained(&task.Refusal{Outcome: o}, true)
	}
	return envelope.AppendMessage(nil, o.Reply), nil
}

// explained adds to a refusal of the pipeline what it tells besides its text. The state of the chain
// is for a caller that signs.
func explained(err error, signed bool) error {
	var refused *task.Refusal
	if !errors.As(err, &refused) {
		return err
	}
	return &withOutcome{err, &refused.Outcome, signed}
}

// withOutcome is a refusal with the members of its outcome.
type withOutcome struct {
	error
	outcome *call.Outcome
	signed  bool
}

func (w *withOutcome) Unwrap() error { return w.error }

// Members returns the members that a refusal has on the signed path (PROTOCOL §6).
func (w *withOutcome) Members() any {
	m := struct {
		State    call.State   `json:"state,omitempty"`
		Due      string       `json:"due,omitempty"` // of a pending call
		Expected int64        `json:"expected_seq,omitempty"`
		Tip      string       `json:"chain_tip,omitempty"`
		Floor    string       `json:"floor,omitempty"`
		Now      string       `json:"now,omitempty"`
		Price    *price.Price `json:"price,omitempty"`
		Pay      any          `json:"pay,omitempty"`
		Reply    any          `json:"reply,omitempty"` // to a request that comes again
	}{Price: w.outcome.Price}
	if w.outcome.Pay != nil {
		m.Pay = w.outcome.Pay
	}
	o := w.outcome
	if !w.signed {
		return m
	}
	m.State = o.State
	if !o.Due.IsZero() {
		m.Due = canon.FormatTime(o.Due)
	}
	if o.Reply != nil {
		m.Reply = json.RawMessage(envelope.AppendMessage(nil, o.Reply))
	}
	if o.Chain {
		m.Expected, m.Tip = o.ExpectedSeq, o.ChainTip.String()
	}
	if !o.Floor.IsZero() {
		m.Floor = canon.FormatTime(o.Floor)
	}
	if !o.Now.IsZero() {
		m.Now = canon.FormatTime(o.Now)
	}
	return m
}
