package plain

import (
	"context"
	"net/http"

	"github.com/vacancy-host/vacancy/shared/front/caller"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// NewTurn returns the turn of a message, which the host signs for the caller. unfit is the reason why
// the vacant cannot answer the message, or nil. Turn returns unfit as its error, unless an account
// sent the message with a message id: the message may then be a repetition whose first answer is
// returned.
func (c *Caller) NewTurn(ctx context.Context, m task.Message, contentErr error) (*task.Turn, error) {
	accessErr := c.CheckKeylessAccess()
	isAccount := c.Payer != nil && accessErr == nil
	if contentErr != nil && !(isAccount && m.ID != "") {
		return nil, contentErr
	}
	if accessErr != nil {
		return nil, accessErr
	}
	id, err := m.Task, error(nil)
	if id == "" && !(isAccount && m.ID != "") {
		if id, err = c.s.Tasks.NewID(); err != nil {
			return nil, err
		}
	}
	owner := c.Owner()
	t := &task.Turn{Ref: task.Ref{Vacant: c.Vacant.ID, Owner: owner, ID: id}, Continue: m.Task != "", NewMessageError: contentErr}
	if isAccount {
		// An account chooses its contexts and message ids. The same message id means the same task.
		t.ListOwner, t.Idempotent, t.IsFirstCall = owner, m.ID != "", m.Context == "" && !t.Continue
		if t.Idempotent && !t.Continue {
			t.ID = task.MessageTaskID(c.Vacant.ID, owner, m.ID)
		}
	}
	if t.Continue {
		// The message must name its task's context or no context.
		previous, err := c.s.Tasks.Get(ctx, t.Ref)
		if err == nil {
			err = previous.CheckContext(m.Context)
		}
		if err != nil {
			return nil, err
		}
		m.Context = previous.Context
	}
	isOwnContext := true
	switch {
	case isAccount && m.Context == "":
		m.Context = "c-" + t.ID
	case isAccount:
	case m.Context == "":
		t.IsFirstCall = true
		m.Context, err = c.s.Guests.NewContextID(ctx, c.Vacant.ID)
	default:
		isOwnContext, err = c.s.Guests.IsHostContextID(ctx, c.Vacant.ID, m.Context)
		t.IsFirstCall = !isOwnContext && !t.Continue && owner != call.SharedOwner
	}
	if err != nil {
		return nil, err
	}
	// In a context that the host created, all messages are from the same guest identity, which has
	// one chain and one memory. Strangers may know any other context, so each task in it gets a new
	// identity.
	conversation := m.Context
	if owner == call.GuestOwner && !isOwnContext {
		conversation = "task\x1f" + t.ID
	}
	if m.ID == "" {
		m.ID = "m-" + t.ID
	}
	if err := c.SignMessage(ctx, t, conversation, m, ""); err != nil {
		return nil, err
	}
	switch {
	case owner == call.SharedOwner:
		t.ListOwner = owner
	case owner == call.GuestOwner && isOwnContext:
		t.ListOwner = call.KeyOwner(t.Caller)
	}
	return t, nil
}

func (c *Caller) DeriveKey(ctx context.Context, owner call.Owner, conversation string) (*identity.Key, error) {
	return c.s.Guests.DeriveOwnerKey(ctx, c.Vacant.ID, owner.String(), conversation)
}

func (c *Caller) SignMessage(ctx context.Context, t *task.Turn, conversation string, m task.Message, idempotencyKey string) error {
	return c.s.Tasks.Sign(ctx, t, conversation, m, idempotencyKey)
}

// SetPayment sets the turn's payer, address and payment. If both the turn and the request limit the
// price, the lower limit applies. SetPayment refuses an address that begins too many conversations. When
// the call is accepted, l.Accepted becomes true.
func (c *Caller) SetPayment(ctx context.Context, t *task.Turn, r *http.Request, line *LogLine) error {
	credential, err := caller.ParseCredential(r)
	if err != nil {
		return err
	}
	if t.MaxPrice != nil && (credential.MaxPrice == nil || *t.MaxPrice < *credential.MaxPrice) {
		credential.MaxPrice = t.MaxPrice
	}
	credential.Payer = c.Payer
	t.Credential, t.ClientAddress = credential, c.Address.String()
	line.Pair = t.Caller.Short() + ">" + t.Vacant.Short()
	t.OnAccept, t.Operation = func() { line.Accepted = true }, line.Operation
	if t.IsFirstCall {
		return CheckNewPair(ctx)
	}
	return nil
}
