package a2a

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/caller"
	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/message"
	"github.com/vacancy-host/vacancy/shared/host/a2a/a2awire"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
)

// Visitor is a client that signs nothing, at one vacant: a guest, or an account by its key. It is
// safe for concurrent use while its request is handled.
type Visitor struct {
	// Vacant is the vacant that the visitor asks.
	Vacant vacants.Record

	d     *api
	r     *http.Request
	payer *call.Payer
}

// Visit returns the visitor of a vacant, which is named by its name or id, for a request. The
// error is NotFound for a vacant that the host does not show, and Unauthorized or Scope for a
// credential that is not accepted.
func (s Server) Visit(r *http.Request, name string) (*Visitor, error) {
	payer, err := s.Payer(r)
	if err != nil {
		return nil, err
	}
	return s.VisitAs(r, payer, name)
}

// Payer returns the account of a request's credential, or nil without a credential.
func (s Server) Payer(r *http.Request) (*call.Payer, error) {
	q := &request{Request: r}
	err := s.identify(q)
	return q.payer, err
}

// VisitAs is Visit for a request whose payer is known.
func (s Server) VisitAs(r *http.Request, payer *call.Payer, name string) (*Visitor, error) {
	q := &request{Request: r}
	ok, err := s.find(q, name)
	if err == nil && !ok {
		err = problem.New(problem.NotFound, "no such vacant or path")
	}
	return &Visitor{Vacant: q.vacant, d: s.api, r: r, payer: payer}, err
}

// OrLogin returns an error of Ask, or Unauthorized if it is PaymentRequired and the visitor may log in.
func (v *Visitor) OrLogin(ctx context.Context, err error) error {
	return v.d.orLogin(v.request(ctx), err)
}

// Base returns the host's base URL, as the visitor reaches it.
func (v *Visitor) Base() (string, error) { return v.d.base(v.request(v.r.Context())) }

// Base returns the host's base URL, as the sender of r reaches it.
func (s Server) Base(r *http.Request) (string, error) { return s.base(&request{Request: r}) }

// request returns a request for one operation. Its headers are not the answer's, because
// operations of a visitor may run at once.
func (v *Visitor) request(ctx context.Context) *request {
	return &request{ResponseWriter: headers{}, Request: v.r.WithContext(ctx), vacant: v.Vacant, began: v.d.Now(), payer: v.payer}
}

// headers takes the headers of an answer that is never sent.
type headers http.Header

func (h headers) Header() http.Header       { return http.Header(h) }
func (headers) Write(b []byte) (int, error) { return len(b), nil }
func (headers) WriteHeader(int)             {}

// TakesText reports whether the vacant answers clients that sign nothing.
func (v *Visitor) TakesText() bool { return v.request(v.r.Context()).checkPlain() == nil }

// HoldStream runs a request that streams, or refuses it if the visitor or the vacant has as many
// streams open as it may.
func (v *Visitor) HoldStream(w http.ResponseWriter, run func()) error {
	r := v.request(v.r.Context())
	r.ResponseWriter = w
	return v.d.streams.hold(r, func() error { run(); return nil })
}

// HoldStream runs a request at the host's own address that streams, or refuses it if its sender, an account or
// an address, has as many streams open as it may.
func (s Server) HoldStream(w http.ResponseWriter, r *http.Request, payer *call.Payer, run func()) error {
	return s.streams.hold(&request{ResponseWriter: w, Request: r, payer: payer}, func() error { run(); return nil })
}

// Question is a text for a vacant.
type Question struct {
	Text string
	// Files are for an agent that takes them.
	Files []substrate.File
	// Context names the conversation; "" begins a conversation.
	Context string
	// ID is the id of the message. A message of an account that comes again by its id runs
	// nothing. "" means a new id.
	ID string
	// Most refuses a call that may cost more, unless nil.
	Most *money.Amount
	// Began is called with the id of the task once the call is accepted, before any piece, unless nil. A
	// question without pieces does not call it.
	Began func(task string)
}

// Ask has the vacant answer a question. It returns the task as it is after a time at the latest: a
// turn that is not over then goes on. The pieces of the answer go to piece as they come, unless
// piece is nil. The error is a *task.Refusal if the call was not accepted.
func (v *Visitor) Ask(ctx context.Context, q Question, wait time.Duration, piece Piece) (task.Task, error) {
	r := v.request(ctx)
	r.protocol, r.what, r.op = "mcp", "ask", a2awire.Send
	t, err := v.ask(r, q, wait, piece)
	if err != nil && !r.accepted {
		p := problem.Of(err)
		v.d.log(r, p.Kind.String(), p.Kind.Row().Status, err)
	}
	return t, err
}

func (v *Visitor) ask(r *request, q Question, wait time.Duration, piece Piece) (t task.Task, err error) {
	d, ctx := v.d, r.Context()
	if err := r.checkPlain(); err != nil {
		return t, err
	}
	if q.Text == "" {
		return t, problem.Invalid("message", "a text", "none")
	}
	if err := checkSize("message", q.Text); err != nil {
		return t, err
	}
	if err := d.checkContext(r, q.Context, "the "+paramContext); err != nil {
		return t, err
	}
	if len(q.ID) > envelope.MaxIDBytes {
		return t, problem.Invalid("idempotency-key", fmt.Sprintf("at most %d bytes", envelope.MaxIDBytes), strconv.Itoa(len(q.ID)))
	}
	parts := []task.Part{{Kind: task.Text, Text: q.Text}}
	var unfit error
	for i, f := range q.Files {
		if unfit == nil && !r.vacant.Takes(&f) {
			unfit = problem.Invalid(fmt.Sprintf("files[%d].mime_type", i), "a type that this agent reads: "+readable(&r.vacant), httpapi.Clip(f.MediaType))
		}
		parts = append(parts, task.Part{Kind: task.Raw, Raw: f.Data, Filename: f.Name, MediaType: f.MediaType})
	}
	if unfit != nil && (r.payer == nil || q.ID == "") {
		return t, unfit
	}
	turn, err := d.turn(r, &a2awire.SendRequest{Message: task.Message{ID: q.ID, Context: q.Context, Role: task.User, Parts: parts}})
	if err != nil {
		return t, err
	}
	if unfit != nil {
		turn.Unfit = unfit // a question that was answered before still gets its answer
	}
	if q.Most != nil && (turn.Most == nil || *q.Most < *turn.Most) {
		turn.Most = q.Most
	}
	if piece == nil { // with pieces, HoldStream counts the request
		return holdFor(d.waiting(r), r, func() (task.Task, error) { return v.run(ctx, turn, q, wait, nil) })
	}
	return v.run(ctx, turn, q, wait, piece)
}

func (v *Visitor) run(ctx context.Context, turn *task.Turn, q Question, wait time.Duration, piece Piece) (t task.Task, err error) {
	d, slow := v.d, v.d.Tasks.Calls.IsSlow(v.Vacant.Work)
	if piece == nil && !slow {
		ctx, cancel := context.WithTimeout(ctx, unaryTime)
		defer cancel()
		return d.Tasks.Run(ctx, *turn)
	}
	// A turn goes on without its client, and after this answer. The server waits for it before it
	// ends (task.Engine.Wait).
	var ref task.Ref
	if slow {
		ref, err = d.start(ctx, turn)
	} else {
		ref, _, err = d.Tasks.Begin(ctx, *turn)
	}
	if err != nil {
		return t, err
	}
	if q.Began != nil {
		q.Began(ref.ID)
	}
	return d.follow(ctx, ref, wait, piece)
}

// Send has the vacant answer a call that the client signed. The visitor's account pays for the
// call, if there is one.
func (v *Visitor) Send(ctx context.Context, e *envelope.Envelope) (call.Outcome, error) {
	o, err := v.send(ctx, e)
	refusal := err
	if o.Problem != nil && !o.Ended && o.State == "" {
		refusal = o.Problem
	}
	if refusal != nil {
		r, p := v.request(ctx), problem.Of(refusal)
		r.protocol, r.what, r.pair = "mcp", "call", e.From.Short()+">"+e.To.Short()
		v.d.log(r, p.Kind.String(), p.Kind.Row().Status, refusal)
	}
	return o, err
}

func (v *Visitor) send(ctx context.Context, e *envelope.Envelope) (call.Outcome, error) {
	if e.Seq == 1 {
		if err := message.CheckNewPair(headers{}, v.r); err != nil {
			return call.Outcome{}, err
		}
	}
	by, err := caller.Payment(v.r)
	if err != nil {
		return call.Outcome{}, err
	}
	by.Payer = v.payer
	return holdFor(v.d.answers, v.request(ctx), func() (call.Outcome, error) {
		return v.d.Tasks.Send(ctx, v.Vacant.ID, e, by, caller.Origin(v.r.RemoteAddr).String()), nil
	})
}

// Piece takes a piece of an answer. A piece that does not follow the pieces before is the whole
// answer in their place.
type Piece func(text string, follows bool)

// Task returns a task of the visitor once its turn is over, or as it is after a time.
func (v *Visitor) Task(ctx context.Context, id string, wait time.Duration, piece Piece) (task.Task, error) {
	ref, err := v.ref(ctx, id)
	switch {
	case err != nil:
		return task.Task{}, err
	case wait == 0:
		return v.d.Tasks.Get(ctx, ref)
	case piece == nil: // with pieces, HoldStream counts the request
		return holdFor(v.d.streams, v.request(ctx), func() (task.Task, error) { return v.d.follow(ctx, ref, wait, nil) })
	}
	return v.d.follow(ctx, ref, wait, piece)
}

// Stop cancels a task of the visitor.
func (v *Visitor) Stop(ctx context.Context, id string) (task.Task, error) {
	ref, err := v.ref(ctx, id)
	if err != nil {
		return task.Task{}, err
	}
	return v.d.Tasks.Cancel(ctx, ref)
}

func (v *Visitor) ref(ctx context.Context, id string) (task.Ref, error) {
	r := v.request(ctx)
	return task.Ref{Vacant: v.Vacant.ID, Owner: r.plainOwner(), ID: id}, r.checkPlain()
}

// Card returns the signed agent card.
func (v *Visitor) Card(ctx context.Context) ([]byte, error) {
	base, err := v.d.base(v.request(ctx))
	if err != nil {
		return nil, err
	}
	c, err := v.d.cards.get(ctx, v.d, &v.Vacant, base, union)
	if err != nil {
		return nil, err
	}
	return c.body, nil
}

// Answer holds the answer of a turn, for clients that read texts.
type Answer struct {
	Text string
	// Failure tells why the turn ended without an answer, or nil.
	Failure error
	// Envelope is the message that the vacant signed, as PROTOCOL §5 has it; nil without an answer.
	Envelope json.RawMessage
	// Signed is the decoded Envelope.
	Signed *envelope.Envelope
}

// AnswerOf returns the answer of a task's last turn.
func AnswerOf(t *task.Task) (a Answer, err error) {
	a.Failure = failureOf(&t.Status)
	if a.Failure != nil || t.Status.State.Active() || t.Status.Message == nil {
		return a, nil
	}
	a.Text = textOfStatus(&t.Status)
	if a.Signed, err = a2awire.Signed(t.Status.Message); a.Signed != nil {
		a.Envelope = envelope.AppendMessage(nil, a.Signed)
	}
	return a, err
}
