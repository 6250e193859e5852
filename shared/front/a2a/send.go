package a2a

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/plain"
	"github.com/vacancy-host/vacancy/shared/host/a2a/a2awire"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
)

func (d *api) sendMessage(r *request, params []byte) error {
	q, turn, err := d.turn(r, params)
	if err != nil {
		return err
	}
	bare := r.Options.IsBare(&q.Message)
	var t task.Task
	if q.Immediately && !bare {
		t, err = d.Tasks.Start(r.Context(), *turn)
	} else {
		t, err = r.Run(turn)
	}
	if err != nil {
		return d.busy(r, turn, err)
	}
	r.Line.Cut = t.Status.Cut()
	if bare && t.Status.Message != nil {
		d.answer(r, r.bareMessage(&t))
		return nil
	}
	d.answer(r, a2awire.SendResult(r.dialect, r.view(&t, q.HistoryLength)))
	return nil
}

// bareMessage returns the answer of a task as a message without the task.
func (r *request) bareMessage(t *task.Task) []byte {
	m := *t.View(nil, r.extension).Status.Message
	m.Task = ""
	return a2awire.MessageResult(r.dialect, &m)
}

// busy says why a task takes no message, if that is why err came.
func (d *api) busy(r *request, turn *task.Turn, err error) error {
	if !turn.Continue || !errors.Is(err, task.ErrBusy) {
		return err
	}
	t, getErr := d.Tasks.Get(r.Context(), turn.Ref)
	if getErr != nil {
		return getErr
	}
	if t.Status.State.Terminal() {
		return faultf(unsupported, "task "+t.ID+" has ended ("+string(t.Status.State)+"); send a message without taskId")
	}
	return faultf(taskBusy, "task "+t.ID+" is at work on the message before; wait for its end, or cancel it")
}

// turn reads the parameters of a message, and makes its turn.
func (d *api) turn(r *request, params []byte) (q a2awire.SendRequest, o *task.Turn, err error) {
	if q, err = a2awire.DecodeSend(r.dialect, params); err != nil {
		return q, nil, err
	}
	unfit := checkSend(r, &q)
	e, err := a2awire.Signed(&q.Message)
	switch {
	case unfit != nil && (e != nil || err != nil):
		err = unfit
	case err != nil:
	case e != nil:
		r.extension, r.Signed = true, true
		o = signedTurn(r, q.Message, e)
	case unfit == nil && r.Plain() == vacants.PlainOff:
		err = plainOff()
	default: // the host signs
		o, err = r.Turn(r.Context(), q.Message, unfit)
	}
	if err == nil && q.Push != nil {
		err = d.checkPush(r, q.Push)
	}
	if err != nil {
		return q, nil, err
	}
	o.Push = q.Push
	return q, o, r.Admit(o)
}

// checkSend refuses a message that the vacant cannot answer.
func checkSend(r *request, q *a2awire.SendRequest) error {
	m, modes := &q.Message, plain.OutputModes(&r.Vacant)
	switch {
	case r.dialect == a2awire.V03 && m.ID == "": // 1.0 requires it, too, but its clients leave it out
		return problem.Invalid("messageId", "an id that the client makes", "none")
	case m.Role != task.User:
		return problem.Invalid("role", "a user's", string(m.Role))
	case !accepts(q.OutputModes, modes):
		return faultf(contentType, fmt.Sprintf("acceptedOutputModes: this agent answers %s, got %.80q", strings.Join(modes, ", "), strings.Join(q.OutputModes, ", ")))
	}
	return plain.CheckParts(m, func(i int, p *task.Part) error {
		if r.Takes(p) {
			return nil
		}
		return faultf(contentType, fmt.Sprintf("parts[%d]: this agent reads %s, got %s", i, plain.Readable(&r.Vacant), plain.Describe(p)))
	})
}

// accepts reports whether a client that accepts media types takes one of modes.
func accepts(accepted, modes []string) bool {
	for _, a := range accepted {
		media, _, _ := strings.Cut(a, ";")
		switch media = strings.ToLower(strings.TrimSpace(media)); {
		case slices.Contains(modes, media), media == "text/*", media == "*/*", media == "*":
			return true
		}
	}
	return len(accepted) == 0
}

// signedTurn is the turn of a message with an envelope. The id of its task follows from
// the envelope, so that the same bytes find the same task. The task that the message names
// is not read before the envelope is accepted as new: the signature does not cover the
// name, and whoever holds an old envelope could try names.
func signedTurn(r *request, m task.Message, e *envelope.Envelope) *task.Turn {
	owner := call.KeyOwner(e.From)
	t := task.Turn{
		Ref:  task.Ref{Vacant: r.Vacant.ID, Owner: owner, ID: task.EnvelopeTask(e.Hash())},
		List: owner, Signed: true, Opens: e.Seq == 1, Caller: e.From,
		Envelope: func(context.Context, call.Next) (*envelope.Envelope, error) { return e, nil },
		Carries: func(m *task.Message) bool {
			other, err := a2awire.Signed(m)
			return err == nil && other != nil && bytes.Equal(other.Signature, e.Signature)
		},
	}
	if m.Task != "" {
		t.ID, t.Continue = m.Task, true
	} else if m.Context == "" {
		m.Context = "c-" + t.ID
	}
	if m.ID == "" {
		m.ID = "m-" + t.ID
	}
	t.Message = m
	return &t
}
