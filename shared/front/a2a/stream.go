package a2a

import (
	"context"
	"strconv"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/host/a2a/a2awire"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func (a *api) subscribe(r *request, params []byte) error {
	q, err := a2awire.DecodeTask(r.dialect, params)
	if err != nil {
		return err
	}
	ref, err := a.taskRef(r, q.ID)
	if err != nil {
		return err
	}
	t, lastNumber, err := a.Tasks.Snapshot(r.Context(), ref)
	if err != nil {
		return err
	}
	afterNumber, lastID := 0, r.Request.Header.Get("Last-Event-ID")
	if lastID != "" {
		if afterNumber, err = strconv.Atoi(lastID); err != nil || afterNumber < 0 || afterNumber > lastNumber {
			return problem.Invalid("Last-Event-ID", "the id of an event of this task", httpapi.QuoteTruncated(lastID))
		}
	}
	if t.Status.State.IsTerminal() && (lastID == "" || afterNumber == lastNumber) {
		return newFault(unsupportedOperation, "task "+t.ID+" has ended ("+string(t.Status.State)+"); read it with GetTask")
	}
	ctx, cancel := context.WithTimeout(r.Context(), a.MaxSubscription)
	defer cancel()
	r.Request = r.WithContext(ctx)
	s := r.NewStream(&eventRenderer{r: r, task: task.Task{ID: ref.ID, Context: t.Context}})
	if lastID == "" {
		s.Send(task.NumberedEvent{Number: lastNumber, Event: task.Event{Task: &t}})
		afterNumber = lastNumber
	}
	return s.Follow(ref, afterNumber, a.Tasks.Follow)
}

type eventRenderer struct {
	r             *request
	task          task.Task // only the id and the context are set
	historyLength *int
}

func (e *eventRenderer) RenderEvent(n task.NumberedEvent) ([]byte, error) {
	if n.Task != nil {
		e.task.Context = n.Task.Context
	}
	result := a2awire.EncodeStreamResult(e.r.dialect, &e.task, n.View(e.historyLength, e.r.hasExtension))
	b := append(strconv.AppendInt([]byte("id: "), int64(n.Number), 10), "\ndata: "...)
	return append(e.r.appendFrame(b, result), "\n\n"...), nil
}

// appendFrame appends a result with the JSON-RPC wrapper, if the client expects one.
func (r *request) appendFrame(b, result []byte) []byte {
	if r.isUnwrapped {
		return append(b, result...)
	}
	b = append(append(b, r.appendRPCHead(nil)...), `,"result":`...)
	return append(append(b, result...), '}')
}

func (e *eventRenderer) RenderEnd(err error) []byte {
	if err == nil || e.r.isUnwrapped {
		return nil
	}
	f := faultOf(err)
	if f == nil {
		f = newFault(internalError, problem.AsError(err).Text())
	}
	return append(append([]byte("data: "), e.r.encodeRPCError(f)...), "\n\n"...)
}
