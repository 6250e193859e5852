package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/caller"
	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/mcpserver/mcptool"
	"github.com/vacancy-host/vacancy/shared/front/plain"
	"github.com/vacancy-host/vacancy/shared/host/a2a/a2awire"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
)

// agent implements mcptool.Agent for the client of one request.
type agent struct {
	*plain.Caller
	d *api
	r *request
}

func (a *agent) Ask(ctx context.Context, q mcptool.Question, piece func(string)) (mcptool.Answer, error) {
	a.r.asked.Store(true)
	l := plain.Line{Message: a.r.Line.Message, What: "ask", IsCall: true, Method: a.r.Method, Path: a.r.URL.Path, Began: a.d.Agents.Now()}
	t, err := a.ask(ctx, q, piece, &l)
	if err != nil && !l.Accepted {
		p := problem.AsError(err)
		a.Log(ctx, &l, p.Kind.String(), p.Kind.Row().Status, err)
	}
	if !a.r.posted.batch { // a batch has one HTTP status for several answers
		err = a.OrLogin(ctx, err)
	}
	return a.answer(&t, err)
}

func (a *agent) ask(ctx context.Context, q mcptool.Question, piece func(string), l *plain.Line) (t task.Task, err error) {
	if err := a.CheckPlain(); err != nil {
		return t, err
	}
	if q.Text == "" {
		return t, problem.Invalid("message", "a text", "none")
	}
	if err := plain.CheckText("message", q.Text); err != nil {
		return t, err
	}
	if err := a.CheckContext(ctx, q.Context, "the context"); err != nil {
		return t, err
	}
	if len(q.ID) > envelope.MaxIDBytes {
		return t, problem.Invalid("idempotency-key", fmt.Sprintf("at most %d bytes", envelope.MaxIDBytes), strconv.Itoa(len(q.ID)))
	}
	m := task.Message{ID: q.ID, Context: q.Context, Role: task.User, Parts: []task.Part{{Kind: task.Text, Text: q.Text}}}
	for _, f := range q.Files {
		m.Parts = append(m.Parts, task.Part{Kind: task.Raw, Raw: f.Data, Filename: f.Name, MediaType: f.MediaType})
	}
	// Part 0 is the question's text, so part i is file i-1.
	unfit := plain.CheckParts(&m, func(i int, p *task.Part) error {
		// The schema of the tool lists the media types, so other spellings are not accepted.
		if a.Vacant.AcceptsFile(&q.Files[i-1]) {
			return nil
		}
		return problem.Invalid(fmt.Sprintf("files[%d].mime_type", i-1), "a type that this agent reads: "+plain.ListReadable(&a.Vacant), httpapi.Clip(p.MediaType))
	})
	turn, err := a.Turn(ctx, m, unfit)
	if err != nil {
		return t, err
	}
	turn.MaxPrice = q.Most
	if err := a.SetPayment(ctx, turn, a.r.Request, l); err != nil {
		return t, err
	}
	return a.Run(ctx, turn, plain.Wait{Time: a.d.AnswerTime, Began: q.Began, Piece: pieceOf(piece)})
}

func (a *agent) Task(ctx context.Context, id string, wait time.Duration, piece func(string)) (mcptool.Answer, error) {
	t, err := a.Follow(ctx, id, wait, pieceOf(piece))
	return a.answer(&t, err)
}

func (a *agent) Stop(ctx context.Context, id string) (mcptool.Answer, error) {
	t, err := a.Caller.Stop(ctx, id)
	return a.answer(&t, err)
}

func pieceOf(piece func(string)) plain.Piece {
	if piece == nil {
		return nil
	}
	// The second argument is false if the piece replaces all earlier pieces. It is ignored, because
	// a progress message cannot replace earlier messages. The result contains the complete answer.
	return func(text string, _ bool) { piece(text) }
}

func (a *agent) answer(t *task.Task, err error) (mcptool.Answer, error) {
	out := mcptool.Answer{Context: t.Context, Task: t.ID}
	var signed *envelope.Envelope
	if err == nil {
		switch err = plain.FailureOf(&t.Status); {
		case err != nil && t.Status.State == task.Canceled:
			err = nil
		case err == nil && !t.Status.State.Active() && t.Status.Message != nil:
			out.Text = plain.TextOfStatus(&t.Status)
			// The envelope is the message that the vacant signed, in the form of PROTOCOL §5.
			if signed, err = a2awire.ParseEnvelope(t.Status.Message); signed != nil {
				out.Envelope = envelope.AppendMessage(nil, signed)
			}
		}
	}
	if err != nil {
		return mcptool.Answer{}, a.r.recordError(addOutcome(err, false))
	}
	switch {
	case t.Status.State != task.Completed && out.Envelope == nil, t.Status.State.Waits():
		out.State = string(t.Status.State)
	case t.Status.Cut() != "":
		out.Finish = string(t.Status.Cut())
	default:
		out.Finish = "stop"
	}
	if paid := t.Status.Paid; paid != nil {
		out.Price = &paid.Charge
		if signed != nil {
			base, err := a.d.Agents.Base(a.r.Request)
			if err != nil {
				return out, a.r.recordError(err)
			}
			out.Receipt = base + call.ReceiptPath(call.Pair{Caller: signed.To, Vacant: a.Vacant.ID}, paid.Position)
		}
	}
	return out, nil
}

func (a *agent) Describe(context.Context) (mcptool.Description, error) {
	d, err := a.describe()
	return d, a.r.recordError(err)
}

func (a *agent) describe() (mcptool.Description, error) {
	d := mcptool.Description{ID: a.Vacant.ID.String()}
	c, err := card.Parse(a.Vacant.Card)
	if err != nil {
		return d, problem.Wrap(problem.Damaged, err, "the stored card of %s is damaged", a.Vacant.ID.Short())
	}
	d.Capability, d.Halo = &c.CapabilityText, &c.HaloVersion
	if c.Endpoint != "" {
		d.Endpoint = &c.Endpoint
	}
	return d, nil
}

func (a *agent) Call(ctx context.Context, request []byte) ([]byte, error) {
	a.r.asked.Store(true)
	reply, err := a.call(ctx, request)
	var toolErr *mcptool.ReferenceError
	if errors.As(err, &toolErr) {
		return nil, err
	}
	return reply, a.r.recordError(err)
}

func (a *agent) call(ctx context.Context, request []byte) ([]byte, error) {
	// Like the reference implementation, call does not check jsonrpc and method. The request is
	// therefore decoded like a reset.
	q, err := envelope.DecodeResetRequest(request)
	if err != nil {
		return nil, err
	}
	e := &q.Envelope
	if e.To != a.Vacant.ID {
		return nil, &mcptool.ReferenceError{Text: fmt.Sprintf("envelope_to_mismatch: expected %s, got %s", a.Vacant.ID, e.To)}
	}
	if !a.Vacant.State.CanBeCalled() {
		return nil, &mcptool.ReferenceError{Text: fmt.Sprintf("vacant %s; not accepting calls", a.Vacant.State)}
	}
	if e.Seq == 1 {
		err = plain.CheckNewPair(ctx)
	}
	var by call.Credential
	if err == nil {
		by, err = caller.Payment(a.r.Request)
	}
	var o call.Outcome
	if err == nil {
		by.Payer = a.Payer // the client's account, if it has one, pays for the call
		err = a.d.Agents.Answers.Hold(a.Caller, func() error {
			o = a.d.Agents.Tasks.Send(ctx, a.Vacant.ID, e, by, a.Address.String())
			return nil
		})
	}
	refusal := err
	if o.Problem != nil && !o.HasEnded && o.State == "" {
		refusal = o.Problem
	}
	if refusal != nil {
		p := problem.AsError(refusal)
		l := plain.Line{Message: a.r.Line.Message, What: "call", Pair: e.From.Short() + ">" + e.To.Short(), Method: a.r.Method, Path: a.r.URL.Path, Began: a.d.Agents.Now()}
		a.Log(ctx, &l, p.Kind.String(), p.Kind.Row().Status, refusal)
	}
	if err != nil {
		return nil, err
	}
	if o.Problem != nil {
		return nil, addOutcome(&task.Refusal{Outcome: o}, true)
	}
	return envelope.AppendMessage(nil, o.Reply), nil
}

// addOutcome adds members to a refusal of a call: the price and the ways to pay and, if signed is
// true, the state of the caller's chain. Callers that do not sign cannot use the state.
func addOutcome(err error, signed bool) error {
	var refused *task.Refusal
	if !errors.As(err, &refused) {
		return err
	}
	return &withOutcome{err, &refused.Outcome, signed}
}

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
		Due      string       `json:"due,omitempty"` // only for a pending call
		Expected int64        `json:"expected_seq,omitempty"`
		Tip      string       `json:"chain_tip,omitempty"`
		Floor    string       `json:"floor,omitempty"`
		Now      string       `json:"now,omitempty"`
		Price    *price.Price `json:"price,omitempty"`
		Pay      any          `json:"pay,omitempty"`
		Reply    any          `json:"reply,omitempty"` // only for a repeated request
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
	if o.HasChain {
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
