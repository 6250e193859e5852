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
	api *api
	req *request
}

func (a *agent) Ask(ctx context.Context, q mcptool.Question, piece func(string)) (mcptool.Answer, error) {
	a.req.hasBegunCall.Store(true)
	l := plain.LogLine{Message: a.req.Line.Message, Operation: "ask", IsCall: true, Method: a.req.Method, Path: a.req.URL.Path, StartedAt: a.api.Plain.Now()}
	t, err := a.runQuestion(ctx, q, piece, &l)
	if err != nil && !l.Accepted {
		p := problem.AsError(err)
		a.Log(ctx, &l, p.Kind.String(), p.Kind.Forms().HTTPStatus, err)
	}
	if !a.req.postBody.isBatch { // a batch has one HTTP status for several answers
		err = a.SuggestLogin(ctx, err)
	}
	return a.convertAnswer(&t, err)
}

func (a *agent) runQuestion(ctx context.Context, q mcptool.Question, piece func(string), l *plain.LogLine) (t task.Task, err error) {
	if err := a.CheckKeylessAccess(); err != nil {
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
	if len(q.IdempotencyKey) > envelope.MaxIDBytes {
		return t, problem.Invalid("idempotency-key", fmt.Sprintf("at most %d bytes", envelope.MaxIDBytes), strconv.Itoa(len(q.IdempotencyKey)))
	}
	m := task.Message{ID: q.IdempotencyKey, Context: q.Context, Role: task.User, Parts: []task.Part{{Kind: task.Text, Text: q.Text}}}
	for _, f := range q.Files {
		m.Parts = append(m.Parts, task.Part{Kind: task.Raw, Raw: f.Data, Filename: f.Name, MediaType: f.MediaType})
	}
	// Part 0 is the question's text, so part i is file i-1.
	partsErr := plain.CheckParts(&m, func(i int, p *task.Part) error {
		if a.Vacant.AcceptsFile(&q.Files[i-1]) {
			return nil
		}
		return problem.Invalid(fmt.Sprintf("files[%d].mime_type", i-1), "a type that this agent reads: "+plain.ReadableTypes(&a.Vacant), httpapi.QuoteTruncated(p.MediaType))
	})
	turn, err := a.NewTurn(ctx, m, partsErr)
	if err != nil {
		return t, err
	}
	turn.MaxPrice = q.MaxPrice
	if err := a.SetPayment(ctx, turn, a.req.Request, l); err != nil {
		return t, err
	}
	return a.Run(ctx, turn, plain.WaitOptions{Timeout: a.api.AnswerTime, OnAccept: q.OnAccept, OnPiece: adaptPiece(piece)})
}

func (a *agent) GetTask(ctx context.Context, id string, wait time.Duration, piece func(string)) (mcptool.Answer, error) {
	t, err := a.WaitForTask(ctx, id, wait, adaptPiece(piece))
	return a.convertAnswer(&t, err)
}

func (a *agent) StopTask(ctx context.Context, id string) (mcptool.Answer, error) {
	t, err := a.Caller.CancelTask(ctx, id)
	return a.convertAnswer(&t, err)
}

func adaptPiece(piece func(string)) plain.PieceFunc {
	if piece == nil {
		return nil
	}
	// A progress message cannot replace earlier messages. The result contains the complete answer.
	return func(text string, _ bool) { piece(text) }
}

func (a *agent) convertAnswer(t *task.Task, err error) (mcptool.Answer, error) {
	out := mcptool.Answer{Context: t.Context, TaskID: t.ID}
	var signed *envelope.Envelope
	if err == nil {
		switch err = plain.StatusError(&t.Status); {
		case err != nil && t.Status.State == task.Canceled:
			err = nil
		case err == nil && !t.Status.State.IsActive() && t.Status.Message != nil:
			out.Text = plain.StatusText(&t.Status)
			if signed, err = a2awire.ParseEnvelope(t.Status.Message); signed != nil {
				out.Envelope = envelope.AppendMessage(nil, signed)
			}
		}
	}
	if err != nil {
		return mcptool.Answer{}, a.req.recordError(addOutcome(err, false))
	}
	switch {
	case t.Status.State != task.Completed && out.Envelope == nil, t.Status.State.AwaitsMessage():
		out.State = string(t.Status.State)
	case t.Status.CutReason() != "":
		out.FinishReason = string(t.Status.CutReason())
	default:
		out.FinishReason = "stop"
	}
	if paid := t.Status.Paid; paid != nil {
		out.Price = &paid.Charge
		if signed != nil {
			base, err := a.api.Plain.Base(a.req.Request)
			if err != nil {
				return out, a.req.recordError(err)
			}
			out.ReceiptURL = base + call.ReceiptPath(call.Pair{Caller: signed.To, Vacant: a.Vacant.ID}, paid.Position)
		}
	}
	return out, nil
}

func (a *agent) Describe(context.Context) (mcptool.Description, error) {
	d, err := a.describeVacant()
	return d, a.req.recordError(err)
}

func (a *agent) describeVacant() (mcptool.Description, error) {
	d := mcptool.Description{ID: a.Vacant.ID.String()}
	c, err := card.Parse(a.Vacant.Card)
	if err != nil {
		return d, problem.Wrap(problem.Damaged, err, "the stored card of %s is damaged", a.Vacant.ID.Short())
	}
	d.CapabilityText, d.HaloVersion = &c.CapabilityText, &c.HaloVersion
	if c.Endpoint != "" {
		d.Endpoint = &c.Endpoint
	}
	return d, nil
}

func (a *agent) CallSigned(ctx context.Context, request []byte) ([]byte, error) {
	a.req.hasBegunCall.Store(true)
	reply, err := a.sendSignedCall(ctx, request)
	var toolErr *mcptool.ReferenceError
	if errors.As(err, &toolErr) {
		return nil, err
	}
	return reply, a.req.recordError(err)
}

func (a *agent) sendSignedCall(ctx context.Context, request []byte) ([]byte, error) {
	// Like the reference implementation, DecodeResetRequest does not check the members jsonrpc and
	// method.
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
	var credential call.Credential
	if err == nil {
		credential, err = caller.ParseCredential(a.req.Request)
	}
	var outcome call.Outcome
	if err == nil {
		credential.Payer = a.Payer
		err = a.api.Plain.Answers.Run(a.Caller, func() error {
			outcome = a.api.Plain.Tasks.Send(ctx, a.Vacant.ID, e, credential, a.Address.String())
			return nil
		})
	}
	refusal := err
	if outcome.Problem != nil && !outcome.HasEnded && outcome.State == "" {
		refusal = outcome.Problem
	}
	if refusal != nil {
		p := problem.AsError(refusal)
		l := plain.LogLine{Message: a.req.Line.Message, Operation: "call", Pair: e.From.Short() + ">" + e.To.Short(), Method: a.req.Method, Path: a.req.URL.Path, StartedAt: a.api.Plain.Now()}
		a.Log(ctx, &l, p.Kind.String(), p.Kind.Forms().HTTPStatus, refusal)
	}
	if err != nil {
		return nil, err
	}
	if outcome.Problem != nil {
		return nil, addOutcome(&task.Refusal{Outcome: outcome}, true)
	}
	return envelope.AppendMessage(nil, outcome.Reply), nil
}

// addOutcome adds the price and the ways to pay to a refusal of a call. If signed is true, it also
// adds the state of the caller's chain.
func addOutcome(err error, signed bool) error {
	var taskRefusal *task.Refusal
	if !errors.As(err, &taskRefusal) {
		return err
	}
	return &outcomeError{err, &taskRefusal.Outcome, signed}
}

type outcomeError struct {
	error
	outcome *call.Outcome
	signed  bool
}

func (w *outcomeError) Unwrap() error { return w.error }

// Members returns the members that a refusal has on the signed path (PROTOCOL §6).
func (w *outcomeError) Members() any {
	m := struct {
		State    call.State   `json:"state,omitempty"`
		Due      string       `json:"due,omitempty"`
		Expected int64        `json:"expected_seq,omitempty"`
		Tip      string       `json:"chain_tip,omitempty"`
		Floor    string       `json:"floor,omitempty"`
		Now      string       `json:"now,omitempty"`
		Price    *price.Price `json:"price,omitempty"`
		Pay      any          `json:"pay,omitempty"`
		Reply    any          `json:"reply,omitempty"`
	}{Price: w.outcome.Price}
	if w.outcome.PaymentOptions != nil {
		m.Pay = w.outcome.PaymentOptions
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
	if !o.HostTime.IsZero() {
		m.Now = canon.FormatTime(o.HostTime)
	}
	return m
}
