package plain

import (
	"context"
	"net/http"

	"github.com/vacancy-host/vacancy/shared/front/caller"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// NewTurn returns the turn of a message, which the host signs for the caller. If contentErr is not
// nil, the vacant cannot answer the message, and only a repetition of an account's earlier message
// gets an answer.
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
		if id, err = c.service.Tasks.NewID(); err != nil {
			return nil, err
		}
	}
	owner := c.Owner()
	turn := &task.Turn{Ref: task.Ref{Vacant: c.Vacant.ID, Owner: owner, ID: id}, Continue: m.Task != "", NewMessageError: contentErr}
	if isAccount {
		// The same message id of an account means the same task.
		turn.ListOwner, turn.Idempotent, turn.IsFirstCall = owner, m.ID != "", m.Context == "" && !turn.Continue
		if turn.Idempotent && !turn.Continue {
			turn.ID = task.MessageTaskID(c.Vacant.ID, owner, m.ID)
		}
	}
	if turn.Continue {
		previous, err := c.service.Tasks.Get(ctx, turn.Ref)
		if err == nil {
			err = previous.CheckContext(m.Context)
		}
		if err != nil {
			return nil, err
		}
		m.Context = previous.Context
	}
	isHostContext := true
	switch {
	case isAccount && m.Context == "":
		m.Context = "c-" + turn.ID
	case isAccount:
	case m.Context == "":
		turn.IsFirstCall = true
		m.Context, err = c.service.Guests.NewContextID(ctx, c.Vacant.ID)
	default:
		isHostContext, err = c.service.Guests.IsHostContextID(ctx, c.Vacant.ID, m.Context)
		turn.IsFirstCall = !isHostContext && !turn.Continue && owner != call.SharedOwner
	}
	if err != nil {
		return nil, err
	}
	// In a context that the host created, all messages are from the same guest identity and share
	// one memory. Strangers may know any other context, so each of its tasks gets a new identity.
	conversation := m.Context
	if owner == call.GuestOwner && !isHostContext {
		conversation = "task\x1f" + turn.ID
	}
	if m.ID == "" {
		m.ID = "m-" + turn.ID
	}
	if err := c.SignMessage(ctx, turn, conversation, m, ""); err != nil {
		return nil, err
	}
	switch {
	case owner == call.SharedOwner:
		turn.ListOwner = owner
	case owner == call.GuestOwner && isHostContext:
		turn.ListOwner = call.KeyOwner(turn.Caller)
	}
	return turn, nil
}

func (c *Caller) DeriveKey(ctx context.Context, owner call.Owner, conversation string) (*identity.Key, error) {
	return c.service.Guests.DeriveOwnerKey(ctx, c.Vacant.ID, owner.String(), conversation)
}

func (c *Caller) SignMessage(ctx context.Context, t *task.Turn, conversation string, m task.Message, idempotencyKey string) error {
	return c.service.Tasks.PrepareSigning(ctx, t, conversation, m, idempotencyKey)
}

// SetPayment sets the turn's payer and address, and the lower price limit of turn and request. It
// refuses an address that begins too many conversations.
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
