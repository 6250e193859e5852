package a2a

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/caller"
	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/message"
	"github.com/vacancy-host/vacancy/shared/host/a2a/a2awire"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/conformance"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func (d *api) sendMessage(r *request, params []byte) error {
	q, turn, err := d.decodeTurn(r, params)
	if err != nil {
		return err
	}
	bare := r.wantsBare(&q.Message)
	var t task.Task
	if q.Immediately && !bare {
		t, err = d.Tasks.Start(r.Context(), *turn)
	} else {
		t, err = d.run(r, turn)
	}
	if err != nil {
		return d.busy(r, turn, err)
	}
	r.cut = t.Status.Cut()
	if bare && t.Status.Message != nil {
		d.answer(r, r.bareMessage(&t))
		return nil
	}
	d.answer(r, a2awire.SendResult(r.dialect, r.view(&t, q.HistoryLength)))
	return nil
}

// isTest reports whether a vacant is an agent under test.
func isTest(v *vacants.Record) bool {
	is, _ := conformance.Is(v.Substrate)
	return is
}

// wantsBare reports whether the client gets a message instead of a task, which only an
// agent under test answers. The task is stored all the same.
func (r *request) wantsBare(m *task.Message) bool { return isTest(&r.vacant) && conformance.IsBare(m) }

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

// decodeTurn reads the parameters of a message, and makes its turn.
func (d *api) decodeTurn(r *request, params []byte) (q a2awire.SendRequest, turn *task.Turn, err error) {
	if q, err = a2awire.DecodeSend(r.dialect, params); err != nil {
		return q, nil, err
	}
	turn, err = d.turn(r, &q)
	return q, turn, err
}

// turn makes the turn of a message.
func (d *api) turn(r *request, q *a2awire.SendRequest) (*task.Turn, error) {
	unfit := checkSend(r.dialect, q, &r.vacant)
	account := r.payer != nil && r.plain() != vacants.PlainOff
	if unfit != nil && !(account && q.Message.ID != "") {
		return nil, unfit
	}
	e, err := a2awire.Signed(&q.Message)
	if err != nil {
		return nil, err
	}
	var o *task.Turn
	switch { // without an envelope, the host signs
	case e != nil:
		r.extension, r.signed = true, true
		o = d.signedTurn(r, q, e)
	case account:
		o, err = d.accountTurn(r, q)
	default:
		o, err = d.guestTurn(r, q)
	}
	if err == nil {
		if o.Unfit = unfit; !o.Once {
			err = unfit
		}
	}
	if err == nil && q.Push != nil {
		err = d.checkPush(r, q.Push)
	}
	if err != nil {
		return nil, err
	}
	o.Push = q.Push
	return o, d.admit(r, o)
}

// admit completes a turn by its request: who pays, and from where. It refuses an address that begins too
// many conversations.
func (d *api) admit(r *request, o *task.Turn) (err error) {
	if o.Credential, err = caller.Payment(r.Request); err != nil {
		return err
	}
	o.Payer, o.From = r.payer, caller.Origin(r.RemoteAddr).String()
	r.pair = o.Caller.Short() + ">" + o.Vacant.Short()
	o.Accepted, o.Operation = func() { r.accepted = true }, r.what
	if o.Opens {
		return message.CheckNewPair(r.ResponseWriter, r.Request)
	}
	return nil
}

// checkSend refuses a message that the vacant cannot answer.
func checkSend(d a2awire.Dialect, q *a2awire.SendRequest, v *vacants.Record) error {
	m, modes := &q.Message, outputModes(v)
	switch {
	case d == a2awire.V03 && m.ID == "": // 1.0 requires it, too, but its clients leave it out
		return problem.Invalid("messageId", "an id that the client makes", "none")
	case m.Role != task.User:
		return problem.Invalid("role", "a user's", string(m.Role))
	case !accepts(q.OutputModes, modes):
		return faultf(contentType, fmt.Sprintf("acceptedOutputModes: this agent answers %s, got %.80q", strings.Join(modes, ", "), strings.Join(q.OutputModes, ", ")))
	}
	return checkParts(m, v)
}

// MaxFiles bounds the bytes of a message with files, its text included. In the form in which a task is
// stored they take a third more.
const MaxFiles = 256 << 10

// checkParts refuses parts that the vacant's agent does not take, and more of them than a task holds. An
// agent that reads only text gets no files, even files with text.
func checkParts(m *task.Message, v *vacants.Record) error {
	texts, content, beside, files := 0, 0, len(m.Metadata), false
	for i, p := range m.Parts {
		if p.Kind == task.Text {
			texts += len(canon.AppendString(nil, p.Text))
		} else if files = true; !takes(v, &p) {
			return faultf(contentType, fmt.Sprintf("parts[%d]: this agent reads %s, got %s", i, readable(v), describe(&p)))
		}
		if p.Kind == task.URL {
			if err := outbound.CheckLink(p.Text); err != nil {
				return problem.Below(fmt.Sprintf("parts[%d]", i), err)
			}
		}
		content += len(p.Text) + len(p.Content())
		beside += len(p.Filename) + len(p.MediaType) + len(p.Metadata)
	}
	stored, err := storedSize(m, content+beside)
	switch {
	case err != nil:
		return err
	case stored > maxStored:
		return problem.New(problem.TooLarge, "message: expected at most %d bytes in the form in which a task is stored, got %d", maxStored, stored)
	case texts > maxText:
		return problem.New(problem.TooLarge, "parts: expected at most %d bytes of text in JSON, which escapes quotes and control characters, got %d", maxText, texts)
	case files && content > MaxFiles:
		return problem.New(problem.TooLarge, "parts: expected at most %d bytes of texts and files together, got %d", MaxFiles, content)
	}
	return nil
}

// maxStored bounds a message in its stored form, with room for the rest of the task.
const maxStored = store.MaxData - 6<<10

// storedSize returns the size of a message in the form in which a task is stored, or for a small message a bound of
// it: no character takes more than six bytes there. The parts together have size bytes.
func storedSize(m *task.Message, size int) (int, error) {
	for _, s := range slices.Concat(m.Extensions, m.References) {
		size += len(s)
	}
	if bound := 6*size + 4<<10; bound < maxStored {
		return bound, nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(m)
	return b.Len(), err
}

// takes reports whether the vacant's agent takes a part that is not text. An agent under test takes values
// in JSON.
func takes(v *vacants.Record, p *task.Part) bool {
	f := substrate.File{MediaType: p.Media()}
	if p.Kind == task.URL {
		f.URL = p.Text
	}
	return v.Takes(&f) || isTest(v) && (p.MediaType == "" || f.MediaType == mediaJSON)
}

// readable lists the content that a vacant reads, for an error.
func readable(v *vacants.Record) string {
	return strings.Join(append([]string{"text"}, inputModes(v)[2:]...), ", ")
}

// describe names a part for an error.
func describe(p *task.Part) string {
	switch {
	case p.Kind == task.URL:
		return "a URL"
	case p.MediaType == "":
		return fmt.Sprintf("%s without a media type (%s)", p.Kind, p.Media())
	}
	return "a file of type " + httpapi.Clip(p.MediaType)
}

// mediaOf is a media type without parameters.
func mediaOf(s string) string {
	media, _, _ := strings.Cut(s, ";")
	return strings.ToLower(strings.TrimSpace(media))
}

// accepts reports whether a client that accepts media types takes one of modes.
func accepts(accepted, modes []string) bool {
	for _, a := range accepted {
		switch media := mediaOf(a); {
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
func (d *api) signedTurn(r *request, q *a2awire.SendRequest, e *envelope.Envelope) *task.Turn {
	m := q.Message
	owner := call.KeyOwner(e.From)
	t := task.Turn{
		Ref:  task.Ref{Vacant: r.vacant.ID, Owner: owner, ID: task.EnvelopeTask(e.Hash())},
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

// accountTurn is the turn of a message of an account. Its contexts are its own, whatever
// they are called, and so are the ids of its messages: the same one is the same task.
func (d *api) accountTurn(r *request, q *a2awire.SendRequest) (*task.Turn, error) {
	owner, m := r.payer.Owner(), q.Message
	t := &task.Turn{Ref: task.Ref{Vacant: r.vacant.ID, Owner: owner, ID: task.MessageTask(r.vacant.ID, owner, m.ID)}, List: owner, Once: m.ID != "", Opens: m.Context == ""}
	var err error
	switch {
	case m.Task != "":
		t.ID, t.Continue, t.Opens = m.Task, true, false
		m.Context, err = d.conversation(r, t, m.Context)
	case m.ID == "":
		t.ID, err = d.Tasks.NewID()
	}
	if err != nil {
		return nil, err
	}
	if m.Context == "" {
		m.Context = "c-" + t.ID
	}
	if m.ID == "" {
		m.ID = "m-" + t.ID
	}
	return t, d.signFor(r, t, m.Context, m, "")
}

// guestTurn is the turn of a message of nobody. A context that the host made has a guest
// of its own, with one chain and one memory. Any other context could be known to
// strangers, so each of its tasks has a new guest.
func (d *api) guestTurn(r *request, q *a2awire.SendRequest) (*task.Turn, error) {
	ctx, vacant, m := r.Context(), r.vacant.ID, q.Message
	owner := call.GuestOwner
	switch r.plain() {
	case vacants.PlainOff:
		return nil, plainOff()
	case vacants.PlainShared:
		owner = call.SharedOwner
	}
	id, err := d.Tasks.NewID()
	if err != nil {
		return nil, err
	}
	t := &task.Turn{Ref: task.Ref{Vacant: vacant, Owner: owner, ID: id}, Opens: true}
	if m.Task != "" {
		id, t.ID, t.Continue = m.Task, m.Task, true
		if m.Context, err = d.conversation(r, t, m.Context); err != nil {
			return nil, err
		}
	}
	own := true
	if m.Context == "" {
		m.Context, err = d.Guests.NewContext(ctx, vacant)
	} else {
		own, err = d.Guests.Own(ctx, vacant, m.Context)
		t.Opens = !own && !t.Continue && owner != call.SharedOwner
	}
	if err != nil {
		return nil, err
	}
	conversation := m.Context
	if owner == call.GuestOwner && !own {
		conversation = "task\x1f" + id
	}
	if m.ID == "" {
		m.ID = "m-" + id
	}
	if err := d.signFor(r, t, conversation, m, ""); err != nil {
		return nil, err
	}
	if owner == call.SharedOwner {
		t.List = owner
	} else if own {
		t.List = call.KeyOwner(t.Caller)
	}
	return t, nil
}

// guest returns the key with which the host signs in a conversation of an owner that does
// not sign.
func (d *api) guest(r *request, owner call.Owner, conversation string) (*identity.Key, error) {
	return d.Guests.Key(r.Context(), r.vacant.ID, owner.String()+"\x1f"+conversation)
}

// signFor makes m the turn's message, which the host signs with the key of the owner's
// conversation, and with an idempotency key or "".
func (d *api) signFor(r *request, t *task.Turn, conversation string, m task.Message, key string) error {
	signer, err := d.guest(r, t.Owner, conversation)
	if err != nil {
		return err
	}
	t.Message, t.Caller = m, signer.ID()
	t.Envelope = func(ctx context.Context, next call.Next) (*envelope.Envelope, error) {
		e := &envelope.Envelope{From: t.Caller, To: t.Vacant, Seq: next.Seq, Prev: next.Prev, Time: d.Now().UTC().Truncate(time.Microsecond), IdempotencyKey: key}
		if !e.Time.After(next.Floor) {
			e.Time = next.Floor.Add(time.Microsecond)
		}
		e.Payload = envelope.Message{Role: envelope.RoleUser, MessageID: &m.ID, ContextID: &m.Context}
		for i := range m.Parts {
			e.Payload.Parts = append(e.Payload.Parts, m.Parts[i].Note())
		}
		if err := e.Payload.Check(); err != nil {
			return nil, err
		}
		_, err := e.Sign(ctx, signer)
		return e, err
	}
	return nil
}

// conversation is the context of a task that a message names. The message may name the
// same or none.
func (d *api) conversation(r *request, turn *task.Turn, named string) (string, error) {
	t, err := d.Tasks.Get(r.Context(), turn.Ref)
	if err == nil {
		err = t.CheckContext(named)
	}
	return t.Context, err
}
