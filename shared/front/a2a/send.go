package a2a

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
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

func (a *api) sendMessage(r *request, params []byte) error {
	sendReq, err := a2awire.DecodeSend(r.dialect, params)
	if err != nil {
		return err
	}
	turn, err := a.newTurn(r, &sendReq)
	if err == nil {
		err = r.SetPayment(r.Context(), turn, r.Request, &r.Line)
	}
	if err != nil {
		return err
	}
	isStream, isMessageOnly := r.op == a2awire.Stream, r.Options.IsAnsweredWithoutTask(&sendReq.Message)
	var t task.Task
	var ref task.Ref
	switch {
	case isStream && isMessageOnly:
		t, err = a.Tasks.Run(r.Context(), *turn)
	case isStream:
		var done <-chan struct{}
		if ref, done, err = r.BeginTurn(r.Context(), turn); err == nil {
			// A turn continues without its client. The handler waits for the turn, because a Lambda
			// function may not run code after its handler has returned.
			defer func() { <-done }()
		}
	case sendReq.ReturnImmediately && !isMessageOnly:
		t, err = a.Tasks.Enqueue(r.Context(), *turn)
	default:
		t, err = r.Run(r.Context(), turn, plain.WaitOptions{})
		if r.IsSlow() {
			// The write deadline began with the request. A turn may take minutes longer.
			r.ExtendWriteDeadline()
		}
	}
	if turn.Continue && errors.Is(err, task.ErrBusy) {
		current, err := a.Tasks.Get(r.Context(), turn.Ref)
		switch {
		case err != nil:
			return err
		case current.Status.State.IsTerminal():
			return newFault(unsupportedOperation, "task "+current.ID+" has ended ("+string(current.Status.State)+"); send a message without taskId")
		}
		return newFault(taskBusy, "task "+current.ID+" is still answering the previous message; wait until it ends, or cancel it")
	}
	if err != nil {
		return err
	}
	if isStream && !isMessageOnly {
		s := r.NewStream(&eventRenderer{r: r, task: task.Task{ID: ref.ID}, historyLength: sendReq.HistoryLength})
		if !turn.Continue {
			return s.Follow(ref, 0, a.Tasks.FollowTurn)
		}
		// A stream begins with the task, even if the task already existed.
		t, last, err := a.Tasks.TurnSnapshot(r.Context(), ref)
		if err != nil {
			return err
		}
		s.Send(task.NumberedEvent{Number: last, Event: task.Event{Task: &t}})
		return s.Follow(ref, last, a.Tasks.FollowTurn)
	}
	r.Line.CutReason = t.Status.CutReason()
	if !isMessageOnly || !isStream && t.Status.Message == nil {
		a.writeResult(r, a2awire.EncodeSendResult(r.dialect, r.viewTask(&t, sendReq.HistoryLength)))
		return nil
	}
	m := *r.viewTask(&t, nil).Status.Message
	m.Task = ""
	result := a2awire.EncodeMessageResult(r.dialect, &m)
	if !isStream {
		a.writeResult(r, result)
		return nil
	}
	r.NewStream(nil).Write(append(r.appendFrame([]byte("data: "), result), "\n\n"...))
	r.Log("ok", http.StatusOK, nil)
	return nil
}

// newTurn returns the turn of a message. If the message has no envelope, the host signs it.
func (a *api) newTurn(r *request, sendReq *a2awire.SendRequest) (t *task.Turn, err error) {
	m, outputModes := sendReq.Message, plain.OutputModes(&r.Vacant)
	accepted := len(sendReq.OutputModes) == 0 || slices.ContainsFunc(sendReq.OutputModes, func(accepted string) bool {
		media, _, _ := strings.Cut(accepted, ";")
		media = strings.ToLower(strings.TrimSpace(media))
		return slices.Contains(outputModes, media) || media == "text/*" || media == "*/*" || media == "*"
	})
	var messageErr error
	switch {
	case r.dialect == a2awire.V03 && m.ID == "": // required in 1.0 too, but clients of 1.0 omit it
		messageErr = problem.Invalid("messageId", "an id that the client creates", "none")
	case m.Role != task.User:
		messageErr = problem.Invalid("role", "the role of a user", string(m.Role))
	case !accepted:
		messageErr = newFault(contentTypeNotSupported, fmt.Sprintf("acceptedOutputModes: this agent answers %s, got %.80q", strings.Join(outputModes, ", "), strings.Join(sendReq.OutputModes, ", ")))
	default:
		messageErr = plain.CheckParts(&m, func(i int, p *task.Part) error {
			if r.AcceptsPart(p) {
				return nil
			}
			return newFault(contentTypeNotSupported, fmt.Sprintf("parts[%d]: this agent reads %s, got %s", i, plain.ReadableTypes(&r.Vacant), plain.DescribePart(p)))
		})
	}
	e, err := a2awire.ParseEnvelope(&m)
	switch {
	case messageErr != nil && (e != nil || err != nil):
		err = messageErr
	case err != nil:
	case e != nil:
		r.hasExtension, r.Signed = true, true
		// The task's id is derived from the envelope, so the same bytes find the same task. The signature
		// does not cover m.Task, so the owner of an old envelope could try many ids to test which tasks
		// exist. The task m.Task is therefore read only after the envelope is accepted as new.
		owner := call.KeyOwner(e.From)
		t = &task.Turn{
			Ref:       task.Ref{Vacant: r.Vacant.ID, Owner: owner, ID: task.EnvelopeTaskID(e.Hash())},
			ListOwner: owner, Signed: true, IsFirstCall: e.Seq == 1, Caller: e.From,
			SignEnvelope: func(context.Context, call.ExpectedEnvelope) (*envelope.Envelope, error) { return e, nil },
			ContainsEnvelope: func(m *task.Message) bool {
				other, err := a2awire.ParseEnvelope(m)
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
	case messageErr == nil && r.KeylessAccess() == vacants.KeylessOff:
		err = newExtensionRequired()
	default:
		t, err = r.NewTurn(r.Context(), m, messageErr)
	}
	if err == nil && sendReq.Push != nil {
		err = a.preparePushConfig(r, sendReq.Push)
	}
	if err == nil {
		t.Push = sendReq.Push
	}
	return t, err
}
