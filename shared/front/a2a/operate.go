package a2a

import (
	"context"
	"net/http"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/plain"
	"github.com/vacancy-host/vacancy/shared/host/a2a/a2awire"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func (d *api) operate(r *request, params []byte) {
	err := r.Identify()
	if err != nil {
		d.failWith(r, err)
		return
	}
	if r.op != a2awire.Stream && r.op != a2awire.Subscribe && r.op != a2awire.Send {
		ctx, cancel := context.WithTimeout(r.Context(), plain.UnaryTime)
		defer cancel()
		r.Request = r.WithContext(ctx)
	}
	switch r.op {
	case a2awire.Send:
		err = d.send(r, params)
	case a2awire.Stream:
		err = d.Streams.Hold(&r.Caller, func() error { return d.send(r, params) })
	case a2awire.GetTask:
		err = d.oneTask(r, params, d.Tasks.Get)
	case a2awire.ListTasks:
		err = d.Lists.Hold(&r.Caller, func() error { return d.listTasks(r, params) })
	case a2awire.CancelTask:
		err = d.oneTask(r, params, d.Tasks.Cancel)
	case a2awire.Subscribe:
		err = d.Streams.Hold(&r.Caller, func() error { return d.subscribe(r, params) })
	case a2awire.ExtendedCard:
		err = d.extendedCard(r)
	default:
		err = d.pushConfigs(r, params)
	}
	if err != nil {
		d.failWith(r, err)
	}
}

func (d *api) extendedCard(r *request) error {
	// The extended card is equal to the public card, because cards have no private members.
	switch {
	case d.hasExtendedCard(&r.Vacant):
		if r.Payer == nil {
			return problem.New(problem.Unauthorized, "Authorization: this agent's extended card is for keys of accounts")
		}
	case r.dialect == a2awire.V03:
		return faultf(noExtendedCard, "the agent has no extended card; its card is public")
	default:
		return faultf(unsupported, "the agent has no extended card; its card is public")
	}
	base, err := d.Base(r.Request)
	if err != nil {
		return err
	}
	form := pure
	if r.dialect == a2awire.V03 {
		form = union
	}
	c, err := d.cards.get(r.Context(), d, &r.Vacant, base, form)
	if err == nil {
		d.answer(r, c.body)
	}
	return err
}

// ref returns a reference to a task that belongs to the sender of a request. The request has no
// message, so the sender is the vacant that signed the Vacancy-Caller header, or else a caller that
// does not sign.
func (d *api) ref(r *request, id string) (task.Ref, error) {
	ref := task.Ref{Vacant: r.Vacant.ID, ID: id}
	signer, err := d.Callers.Identify(r.Request, r.body)
	switch {
	case err != nil:
		return ref, err
	case signer != nil:
		ref.Owner = call.KeyOwner(*signer)
		return ref, nil
	case r.Plain() == vacants.PlainOff:
		return ref, plainOff()
	}
	ref.Owner = r.Owner()
	return ref, nil
}

func plainOff() error {
	return faultf(extensionRequired, "this agent answers only signed messages: extension "+a2awire.Extension)
}

func (d *api) oneTask(r *request, params []byte, do func(context.Context, task.Ref) (task.Task, error)) error {
	q, err := a2awire.DecodeTask(r.dialect, params)
	if err != nil {
		return err
	}
	ref, err := d.ref(r, q.ID)
	if err != nil {
		return err
	}
	t, err := do(r.Context(), ref)
	if err != nil {
		return err
	}
	d.answer(r, a2awire.EncodeTask(r.dialect, r.view(&t, q.HistoryLength)))
	return nil
}

func (d *api) listTasks(r *request, params []byte) error {
	q, err := a2awire.DecodeList(r.dialect, params)
	if err != nil {
		return err
	}
	ref, err := d.ref(r, "")
	if err != nil {
		return err
	}
	list := task.ListRequest{Ref: ref, List: ref.Owner, Context: q.Context, State: q.State, Since: q.Since, Size: q.Size, Token: q.Token}
	if ref.Owner == call.GuestOwner {
		// A guest (a caller without a key) may list the tasks of a conversation if it knows the
		// context id, which the host created and which cannot be guessed.
		own, err := d.Guests.IsOwnContext(r.Context(), r.Vacant.ID, q.Context)
		if err != nil {
			return err
		}
		list.List = call.Owner{}
		if own {
			key, err := r.Key(r.Context(), ref.Owner, q.Context)
			if err != nil {
				return err
			}
			list.List = call.KeyOwner(key.ID())
		}
	}
	answer := func(page *task.Page) {
		for i := range page.Tasks {
			page.Tasks[i] = *r.view(&page.Tasks[i], q.HistoryLength)
		}
		// Limit the time in which the client reads this page, because other lists wait until the
		// memory of the page is free.
		r.ExtendWrite()
		d.answer(r, a2awire.ListResult(r.dialect, page, q.Size, q.Artifacts))
		c := http.NewResponseController(r.ResponseWriter)
		_ = c.Flush()
		_ = c.SetWriteDeadline(time.Time{}) // the connection is reused
	}
	if list.List.IsZero() {
		answer(&task.Page{})
		return nil
	}
	return d.Tasks.List(r.Context(), list, answer)
}

func (r *request) view(t *task.Task, history *int) *task.Task {
	v := t.View(history, r.extension)
	return &v
}
