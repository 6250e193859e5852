package a2a

import (
	"context"
	"strconv"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/host/a2a/a2awire"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func (d *api) subscribe(r *request, params []byte) error {
	q, err := a2awire.DecodeTask(r.dialect, params)
	if err != nil {
		return err
	}
	ref, err := d.ref(r, q.ID)
	if err != nil {
		return err
	}
	t, last, err := d.Tasks.Snapshot(r.Context(), ref)
	if err != nil {
		return err
	}
	after, lastID := 0, r.Request.Header.Get("Last-Event-ID")
	if lastID != "" {
		if after, err = strconv.Atoi(lastID); err != nil || after < 0 || after > last {
			return problem.Invalid("Last-Event-ID", "the id of an event of this task", httpapi.Clip(lastID))
		}
	}
	if t.Status.State.Terminal() && (lastID == "" || after == last) {
		return faultf(unsupported, "task "+t.ID+" has ended ("+string(t.Status.State)+"); read it with GetTask")
	}
	ctx, cancel := context.WithTimeout(r.Context(), d.Follow)
	defer cancel()
	r.Request = r.WithContext(ctx)
	s := r.Stream(&events{r: r, task: task.Task{ID: ref.ID, Context: t.Context}})
	if lastID == "" {
		s.Send(task.Numbered{N: last, Event: task.Event{Task: &t}})
		after = last
	}
	return s.Follow(ref, after, d.Tasks.Follow)
}

type events struct {
	r       *request
	task    task.Task // only the id and the context are set
	history *int
}

func (e *events) Event(n task.Numbered) ([]byte, error) {
	if n.Task != nil {
		e.task.Context = n.Task.Context
	}
	result := a2awire.StreamResult(e.r.dialect, &e.task, n.View(e.history, e.r.extension))
	b := append(strconv.AppendInt([]byte("id: "), int64(n.N), 10), "\ndata: "...)
	return append(e.r.frame(b, result), "\n\n"...), nil
}

// frame appends a result with the JSON-RPC wrapper, if the client expects one.
func (r *request) frame(b, result []byte) []byte {
	if r.withoutRPC {
		return append(b, result...)
	}
	b = append(append(b, r.appendID(nil)...), `,"result":`...)
	return append(append(b, result...), '}')
}

func (e *events) End(err error) []byte {
	if err == nil || e.r.withoutRPC {
		return nil
	}
	f := problemOfFault(err)
	if f == nil {
		f = faultf(internalError, problem.AsError(err).Text())
	}
	return append(append([]byte("data: "), e.r.rpcError(f)...), "\n\n"...)
}
