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

func (a *api) runOperation(r *request, params []byte) {
	err := r.IdentifyPayer()
	if err != nil {
		a.writeError(r, err)
		return
	}
	if r.op != a2awire.Stream && r.op != a2awire.Subscribe && r.op != a2awire.Send {
		ctx, cancel := context.WithTimeout(r.Context(), plain.MaxUnaryTime)
		defer cancel()
		r.Request = r.WithContext(ctx)
	}
	switch r.op {
	case a2awire.Send:
		err = a.sendMessage(r, params)
	case a2awire.Stream:
		err = a.Streams.Run(&r.Caller, func() error { return a.sendMessage(r, params) })
	case a2awire.GetTask:
		err = a.serveTask(r, params, a.Tasks.Get)
	case a2awire.ListTasks:
		err = a.Lists.Run(&r.Caller, func() error { return a.listTasks(r, params) })
	case a2awire.CancelTask:
		err = a.serveTask(r, params, a.Tasks.Cancel)
	case a2awire.Subscribe:
		err = a.Streams.Run(&r.Caller, func() error { return a.subscribe(r, params) })
	case a2awire.ExtendedCard:
		err = a.serveExtendedCard(r)
	default:
		err = a.servePushConfigs(r, params)
	}
	if err != nil {
		a.writeError(r, err)
	}
}

func (a *api) serveExtendedCard(r *request) error {
	// The extended card is equal to the public card, because cards have no private members.
	switch {
	case a.hasExtendedCard(&r.Vacant):
		if r.Payer == nil {
			return problem.New(problem.Unauthorized, "Authorization: this agent's extended card is for keys of accounts")
		}
	case r.dialect == a2awire.V03:
		return newFault(extendedCardNotConfigured, "the agent has no extended card; its card is public")
	default:
		return newFault(unsupportedOperation, "the agent has no extended card; its card is public")
	}
	base, err := a.Base(r.Request)
	if err != nil {
		return err
	}
	form := pureCard
	if r.dialect == a2awire.V03 {
		form = unionCard
	}
	c, err := a.cards.cardFor(r.Context(), a, &r.Vacant, base, form)
	if err == nil {
		a.writeResult(r, c.body)
	}
	return err
}

// taskRef returns a reference to a task of the request's sender: the vacant that signed the header
// Vacancy-Caller, or a caller that does not sign.
func (a *api) taskRef(r *request, id string) (task.Ref, error) {
	ref := task.Ref{Vacant: r.Vacant.ID, ID: id}
	signer, err := a.Callers.Identify(r.Request, r.body)
	switch {
	case err != nil:
		return ref, err
	case signer != nil:
		ref.Owner = call.KeyOwner(*signer)
		return ref, nil
	case r.KeylessAccess() == vacants.KeylessOff:
		return ref, newExtensionRequired()
	}
	ref.Owner = r.Owner()
	return ref, nil
}

func newExtensionRequired() error {
	return newFault(extensionRequired, "this agent answers only signed messages: extension "+a2awire.Extension)
}

func (a *api) serveTask(r *request, params []byte, operation func(context.Context, task.Ref) (task.Task, error)) error {
	q, err := a2awire.DecodeTask(r.dialect, params)
	if err != nil {
		return err
	}
	ref, err := a.taskRef(r, q.ID)
	if err != nil {
		return err
	}
	t, err := operation(r.Context(), ref)
	if err != nil {
		return err
	}
	a.writeResult(r, a2awire.EncodeTask(r.dialect, r.viewTask(&t, q.HistoryLength)))
	return nil
}

func (a *api) listTasks(r *request, params []byte) error {
	q, err := a2awire.DecodeList(r.dialect, params)
	if err != nil {
		return err
	}
	ref, err := a.taskRef(r, "")
	if err != nil {
		return err
	}
	listRequest := task.ListRequest{Ref: ref, ListOwner: ref.Owner, Context: q.Context, State: q.State, UpdatedAfter: q.UpdatedAfter, PageSize: q.PageSize, PageToken: q.PageToken}
	if ref.Owner == call.GuestOwner {
		// A guest (a caller without a key) may list the tasks of a conversation if it sends a context id
		// that the host created. Such an id cannot be guessed.
		isHostContext, err := a.Guests.IsHostContextID(r.Context(), r.Vacant.ID, q.Context)
		if err != nil {
			return err
		}
		listRequest.ListOwner = call.Owner{}
		if isHostContext {
			key, err := r.DeriveKey(r.Context(), ref.Owner, q.Context)
			if err != nil {
				return err
			}
			listRequest.ListOwner = call.KeyOwner(key.ID())
		}
	}
	writePage := func(page *task.Page) {
		for i := range page.Tasks {
			page.Tasks[i] = *r.viewTask(&page.Tasks[i], q.HistoryLength)
		}
		// Limit the time in which the client reads this page, because other lists wait until the
		// memory of the page is free.
		r.ExtendWriteDeadline()
		a.writeResult(r, a2awire.EncodeListResult(r.dialect, page, q.PageSize, q.IncludeArtifacts))
		c := http.NewResponseController(r.ResponseWriter)
		_ = c.Flush()
		_ = c.SetWriteDeadline(time.Time{}) // the connection is reused
	}
	if listRequest.ListOwner.IsZero() {
		writePage(&task.Page{})
		return nil
	}
	return a.Tasks.List(r.Context(), listRequest, writePage)
}

func (r *request) viewTask(t *task.Task, historyLength *int) *task.Task {
	v := t.View(historyLength, r.hasExtension)
	return &v
}
