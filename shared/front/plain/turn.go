package plain

import (
	"context"
	"net/http"

	"github.com/vacancy-host/vacancy/shared/front/caller"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Turn returns the turn of a message, which the host signs for the caller. unfit is the reason why
// the vacant cannot answer the message, or nil. Turn returns unfit as its error, unless an account
// sent the message with a message id: the message may then be a repetition whose first answer is
// returned.
func (c *Caller) Turn(ctx context.Context, m task.Message, unfit error) (*task.Turn, error) {
	plainErr := c.CheckPlain()
	isAccount := c.Payer != nil && plainErr == nil
	if unfit != nil && !(isAccount && m.ID != "") {
		return nil, unfit
	}
	if plainErr != nil {
		return nil, plainErr
	}
	id, err := m.Task, error(nil)
	if id == "" && !(isAccount && m.ID != "") {
		if id, err = c.s.Tasks.NewID(); err != nil {
			return nil, err
		}
	}
	owner := c.Owner()
	t := &task.Turn{Ref: task.Ref{Vacant: c.Vacant.ID, Owner: owner, ID: id}, Continue: m.Task != "", Unfit: unfit}
	if isAccount {
		// An account chooses its contexts and message ids. The same message id means the same task.
		t.List, t.Once, t.Opens = owner, m.ID != "", m.Context == "" && !t.Continue
		if t.Once && !t.Continue {
			t.ID = task.MessageTask(c.Vacant.ID, owner, m.ID)
		}
	}
	if t.Continue {
		// The message must name its task's context or no context.
		before, err := c.s.Tasks.Get(ctx, t.Ref)
		if err == nil {
			err = before.CheckContext(m.Context)
		}
		if err != nil {
			return nil, err
		}
		m.Context = before.Context
	}
	own := true
	switch {
	case isAccount && m.Context == "":
		m.Context = "c-" + t.ID
	case isAccount:
	case m.Context == "":
		t.Opens = true
		m.Context, err = c.s.Guests.NewContext(ctx, c.Vacant.ID)
	default:
		own, err = c.s.Guests.IsOwnContext(ctx, c.Vacant.ID, m.Context)
		t.Opens = !own && !t.Continue && owner != call.SharedOwner
	}
	if err != nil {
		return nil, err
	}
	// In a context that the host created, all messages are from the same guest identity, which has
	// one chain and one memory. Strangers may know any other context, so each task in it gets a new
	// identity.
	conversation := m.Context
	if owner == call.GuestOwner && !own {
		conversation = "task\x1f" + t.ID
	}
	if m.ID == "" {
		m.ID = "m-" + t.ID
	}
	if err := c.SetMessage(ctx, t, conversation, m, ""); err != nil {
		return nil, err
	}
	switch {
	case owner == call.SharedOwner:
		t.List = owner
	case owner == call.GuestOwner && own:
		t.List = call.KeyOwner(t.Caller)
	}
	return t, nil
}

func (c *Caller) Key(ctx context.Context, owner call.Owner, conversation string) (*identity.Key, error) {
	return c.s.Guests.KeyOf(ctx, c.Vacant.ID, owner.String(), conversation)
}

func (c *Caller) SetMessage(ctx context.Context, t *task.Turn, conversation string, m task.Message, idempotencyKey string) error {
	return c.s.Tasks.Sign(ctx, t, conversation, m, idempotencyKey)
}

// SetPayment sets the turn's payer, address and payment. If both the turn and the request limit the
// price, the lower limit applies. SetPayment refuses an address that begins too many conversations. When
// the call is accepted, l.Accepted becomes true.
func (c *Caller) SetPayment(ctx context.Context, t *task.Turn, r *http.Request, l *Line) error {
	by, err := caller.Payment(r)
	if err != nil {
		return err
	}
	if t.MaxPrice != nil && (by.MaxPrice == nil || *t.MaxPrice < *by.MaxPrice) {
		by.MaxPrice = t.MaxPrice
	}
	by.Payer = c.Payer
	t.Credential, t.From = by, c.Address.String()
	l.Pair = t.Caller.Short() + ">" + t.Vacant.Short()
	t.Accepted, t.Operation = func() { l.Accepted = true }, l.What
	if t.Opens {
		return CheckNewPair(ctx)
	}
	return nil
}
