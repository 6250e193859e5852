// Package openai serves vacants to clients of OpenAI's chat completions and Responses APIs. Package
// openaiwire defines the forms of requests and answers.
//
// If a client repeats a request, with the same key or marked as a retry, it is not charged again
// for an answer that it did not receive.
package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/caller"
	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/message"
	"github.com/vacancy-host/vacancy/shared/front/openai/openaiwire"
	"github.com/vacancy-host/vacancy/shared/front/plain"
	"github.com/vacancy-host/vacancy/shared/host/a2a/a2awire"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Handler returns the handler of the paths that openaiwire.IsPath accepts. published returns the
// vacants that search shows, sorted by name. It must cache them, because each request for the
// host's models calls it.
func Handler(s *plain.Service, published func(context.Context) ([]vacants.Record, error)) func(*plain.Exchange) error {
	return (&api{s, published}).serve
}

type api struct {
	*plain.Service
	published func(context.Context) ([]vacants.Record, error)
}

func (d *api) serve(r *plain.Exchange) error {
	notFound := func() error {
		base, err := d.Base(r.Request)
		if err == nil {
			err = openaiwire.NotFound(r.Method, r.Rest, base)
		}
		return err
	}
	// At the host's own address, the model of the request names the vacant.
	_, _, below := message.Split(r.URL.Path)
	if below {
		if err := r.Find(); problem.Is(err, problem.NotFound) {
			return notFound()
		} else if err != nil {
			return err
		}
	}
	if api, ok := openaiwire.Of(r.Rest); ok {
		return d.complete(r, api, below)
	}
	name, isModel := strings.CutPrefix(r.Rest, openaiwire.Models+"/")
	if r.Rest != openaiwire.Models && !isModel {
		return notFound()
	}
	if err := r.Identify(); err != nil {
		return err
	}
	var models []vacants.Record
	var err error
	switch {
	case isModel && below:
		if name != r.Vacant.Name && name != r.Vacant.ID.String() {
			return notFound()
		}
	case isModel:
		if err := r.Open(name); problem.Is(err, problem.NotFound) {
			return notFound()
		} else if err != nil {
			return err
		}
	case below:
		models = []vacants.Record{r.Vacant}
	default:
		if models, err = d.published(r.Context()); err != nil {
			return err
		}
	}
	modelOf := func(v *vacants.Record) openaiwire.Model {
		return openaiwire.Model{ID: v.Name, Object: "model", Created: v.Created.Unix(), Owner: "vacancy"}
	}
	list := openaiwire.ModelList{Object: "list", Data: []openaiwire.Model{}}
	for i := range models {
		list.Data = append(list.Data, modelOf(&models[i]))
	}
	var answer any = list
	if r.Line.What = "models"; isModel {
		r.Line.What, answer = "model", modelOf(&r.Vacant)
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return r.NotAllowed("GET")
	}
	if err := httpapi.SendJSON(r.ResponseWriter, http.StatusOK, answer); err != nil {
		return err
	}
	r.Log("ok", http.StatusOK, nil)
	return nil
}

func (d *api) complete(r *plain.Exchange, api openaiwire.API, hasVacant bool) error {
	r.Line.What, r.Line.IsCall = "completion", true
	if api == openaiwire.Responses {
		r.Line.What = "response"
	}
	if r.Method != http.MethodPost {
		return r.NotAllowed(http.MethodPost)
	}
	body, err := httpapi.Body(r.ResponseWriter, r.Request, a2awire.MaxBody, "application/a2a+json")
	if err != nil {
		return err
	}
	r.EndReadDeadline()
	q, err := openaiwire.Decode(api, body)
	if err == nil {
		err = plain.CheckText("the last message", q.Asked.Text)
	}
	switch {
	case err != nil:
		return err
	case hasVacant:
	case q.Model == "":
		return problem.Invalid("model", "the name of a vacant of this host", "none")
	default:
		if err := r.Open(q.Model); problem.Is(err, problem.NotFound) {
			return problem.New(problem.NotFound, "model: vacant %s is not hosted here; GET %s lists the published vacants", httpapi.Clip(q.Model), openaiwire.Models)
		} else if err != nil {
			return err
		}
	}
	if err := r.CheckPlain(); err != nil {
		return err
	}
	if err := r.Identify(); err != nil {
		return err
	}
	// A request waits for its answer as long as the client does, like a stream.
	answer := func() error { return d.answer(r, q) }
	if q.Stream {
		return d.Streams.Hold(&r.Caller, answer)
	}
	return r.WaitCounter().HoldInLine(r.Context(), &r.Caller, answer)
}

// answer begins the turn of a request. It sends the pieces of the answer as they arrive, or waits
// for the end. If this process ran the turn, answer does not read the result from the store again.
func (d *api) answer(r *plain.Exchange, q *openaiwire.Request) error {
	// Only the sender of a task's message can find the task's answer.
	err := q.Resolve(func(item string) (string, error) {
		id, ok := openaiwire.AnswerTask(item)
		t, err := task.Task{}, error(task.ErrNotFound)
		if ok {
			t, err = d.Tasks.Get(r.Context(), task.Ref{Vacant: r.Vacant.ID, Owner: r.Owner(), ID: id})
		}
		if errors.Is(err, task.ErrNotFound) {
			err = problem.Invalid("id", "the id of an answer of the last 24 hours, or the message itself", httpapi.Clip(item))
		}
		return plain.TextOfStatus(&t.Status), err
	})
	if err != nil {
		return err
	}
	c, done, err := d.beginCompletion(r, q)
	if err != nil {
		return err
	}
	// The turn continues if the client disconnects. The handler must wait for it, because a Lambda
	// function runs no code after its handler has returned.
	defer func() { <-done }()
	defer c.settle()
	if q.Stream {
		after := 0
		if c.repeats {
			// The last event of a turn that has ended contains the answer, even if earlier pieces
			// were lost.
			t, last, err := d.Tasks.Snapshot(r.Context(), c.ref)
			if err != nil {
				return err
			}
			if !t.Status.State.Active() {
				after = last - 1
			}
		}
		s := r.Stream(&pieces{completion: c, out: openaiwire.Stream{API: q.API, Usage: q.Usage}})
		err = s.Follow(c.ref, after, d.Tasks.FollowTurn)
		c.delivered = c.delivered && !s.Broken
		return err
	}
	hungUp := func() error {
		r.Log("hung_up", http.StatusOK, nil)
		return nil
	}
	select {
	case <-done:
	case <-r.Context().Done():
		return hungUp()
	}
	var failed error
	if e := c.ended; e != nil {
		c.Created = e.Began.Unix()
		failed = c.take(&task.Event{Status: e.Status})
	} else {
		err = d.Tasks.FollowTurn(r.Context(), c.ref, 0, func(n task.Numbered) bool {
			failed = c.take(&n.Event)
			return failed == nil
		})
	}
	// The write deadline was set at the start of the request, but a turn may take minutes.
	r.ExtendWrite()
	switch err = errors.Join(err, failed); {
	case err != nil:
		return err
	case c.last == nil:
		return hungUp()
	}
	if err := c.prove(r.Context()); err != nil {
		return err
	}
	if c.Proof.Receipt != "" {
		r.ResponseWriter.Header().Set(caller.ReceiptHeader, c.Proof.Receipt)
	}
	r.Line.Cut = c.Cut
	if r.Context().Err() != nil {
		return hungUp()
	}
	if err := httpapi.SendJSON(r.ResponseWriter, http.StatusOK, q.API.Whole(&c.Answer)); err != nil {
		return err
	}
	// A client may close its connection as soon as it has the answer, so a canceled context does
	// not mean that the answer was lost. A write error does.
	if err := http.NewResponseController(r.ResponseWriter).Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return hungUp()
	}
	c.delivered = true
	r.Log("ok", http.StatusOK, nil)
	return nil
}

// maxRepeats limits the attempts to find the turn of a repeated request. An attempt fails if a
// concurrent equal request begins a turn after the lookup.
const maxRepeats = 4

// beginCompletion begins the turn of a request, or finds the turn that an earlier equal request
// began. Each turn is a conversation of its own, because the client sends the previous messages
// with each request.
func (d *api) beginCompletion(r *plain.Exchange, q *openaiwire.Request) (c *completion, done <-chan struct{}, err error) {
	// A client marks a request as repeatable by a key, or by a retry count above zero.
	key := strings.Join(r.Request.Header.Values(openaiwire.IdempotencyHeader), ", ")
	if len(key) > envelope.MaxIDBytes {
		return nil, nil, problem.Invalid(openaiwire.IdempotencyHeader, "at most 512 bytes", "more")
	}
	count := r.Request.Header.Get(openaiwire.RetryCountHeader)
	again := strings.Trim(count, "0") != "" && strings.Trim(count, "0123456789") == ""
	// payer is the sender whose equal requests are compared. Guests are distinguished only by their
	// network addresses.
	owner, payer := r.Owner(), "address "+r.Address.String()
	if r.Payer != nil {
		payer = owner.String()
	}
	// The idempotency key in the envelope is the hash of the body, so that the call's row covers
	// the complete request.
	came := "openai:" + q.Came
	metadata, err := json.Marshal(map[string]string{"idempotency_key": came})
	if err != nil {
		return nil, nil, err
	}
	m := task.Message{Role: task.User, Parts: partsOf(&q.Asked), Metadata: metadata}
	told := []task.Told{}
	if q.Left > 0 {
		told = append(told, task.Told{Role: "host", Text: fmt.Sprintf("[%d older messages of this conversation were left out]", q.Left)})
	}
	for _, msg := range q.Told {
		var lines []string
		for _, p := range partsOf(&msg) {
			lines = append(lines, p.Note())
		}
		told = append(told, task.Told{Role: msg.Role, Text: strings.Join(lines, "\n")})
	}
	c = &completion{d: d, r: r, q: q}
	c.Model = r.Vacant.Name
	lost := false // true if the client of an equal request did not receive its answer
	for try := 1; ; try++ {
		id := ""
		if key == "" {
			c.recent = task.NewRecent(r.Vacant.ID, payer, q.Came)
		}
		switch {
		case key != "":
			// Anyone who knows the id of a guest's task may read the task. The id is therefore
			// derived from the key in a way that only the host can repeat.
			var k *identity.Key
			if k, err = r.Key(r.Context(), owner, "openai\x1f"+payer+"\x1f"+key); err == nil {
				id = task.MessageTask(r.Vacant.ID, owner, k.ID().String())
			}
		case again:
			id, err = d.Tasks.FindRepeat(r.Context(), c.recent)
		case lost:
			id, err = d.Tasks.TakeLost(r.Context(), c.recent, r.Vacant.ID, owner)
		}
		c.repeats = id != ""
		if err == nil && id == "" {
			id, err = d.Tasks.NewID()
		}
		if err != nil {
			return nil, nil, err
		}
		m.ID, m.Context = "m-"+id, "c-"+id
		unfit := plain.CheckParts(&m, func(_ int, p *task.Part) error {
			if r.AcceptsPart(p) {
				return nil
			}
			return problem.Invalid("messages", "content that this agent reads, which is "+plain.ListReadable(&r.Vacant), plain.DescribePart(p))
		})
		turn := &task.Turn{
			Ref: task.Ref{Vacant: r.Vacant.ID, Owner: owner, ID: id}, Opens: true, Told: told, Once: c.repeats, Unfit: unfit,
			Recent: c.recent, Quiet: !q.Stream,
		}
		if owner != call.GuestOwner {
			turn.List = owner
		}
		if !q.Stream {
			turn.Ended = func(e *task.Ended) { c.ended = e }
		}
		if !c.repeats {
			err = unfit
		}
		if err == nil {
			err = r.SetMessage(r.Context(), turn, m.Context, m, came)
		}
		if err == nil {
			err = r.SetPayment(r.Context(), turn, r.Request, &r.Line)
		}
		if err == nil {
			c.ref, done, err = d.Tasks.Begin(r.Context(), *turn)
			c.ID = c.ref.ID
		}
		if err == nil {
			return c, done, nil
		}
		d.Tasks.ReleaseLost(c.recent, id)
		switch p := problem.AsError(err); {
		case errors.Is(err, task.ErrLost):
			lost = true
		case key != "" && p.Field == "messageId":
			return nil, nil, problem.Invalid(openaiwire.IdempotencyHeader, "a new key, or the body that had it", "another body with the same key")
		case again && key == "" && p.Kind == problem.Conflict && try < maxRepeats:
		default:
			return nil, nil, err
		}
	}
}

func partsOf(msg *openaiwire.Said) (parts []task.Part) {
	if msg.Text != "" {
		parts = append(parts, task.Part{Kind: task.Text, Text: msg.Text})
	}
	for _, image := range msg.Images {
		p := task.Part{Kind: task.Raw, Raw: image.Data, MediaType: image.MediaType}
		if image.URL != "" {
			p = task.Part{Kind: task.URL, Text: image.URL, MediaType: vacants.AnyImage}
		}
		parts = append(parts, p)
	}
	return parts
}

// completion is a turn whose answer is sent to a client of OpenAI's API.
type completion struct {
	openaiwire.Answer
	d       *api
	r       *plain.Exchange
	q       *openaiwire.Request
	ref     task.Ref
	repeats bool // true if an earlier request may have begun the turn
	last    *task.Status
	ended   *task.Ended // result of a turn that this process ran

	recent *task.Recent // nil if the request has a key
	// delivered is true if the end of the answer, or its failure, was sent to the client.
	delivered bool
}

// settleTime limits the time to record a lost or delivered answer.
const settleTime = 5 * time.Second

// settle records an answer that its client did not receive, so that the next equal request gets the
// answer. If this request delivered the lost answer of an earlier request, settle records the
// delivery.
func (c *completion) settle() {
	if c.recent == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), settleTime)
	defer cancel()
	var err error
	switch {
	case !c.delivered:
		err = c.d.Tasks.Lose(ctx, c.recent, c.ref.ID)
	case c.repeats:
		err = c.d.Tasks.Deliver(ctx, c.recent, c.ref.ID)
	}
	if err != nil {
		c.d.Log.LogAttrs(ctx, slog.LevelWarn, "a lost answer is not recorded; a retry may be charged again", slog.String("task", c.ref.ID), slog.String("cause", err.Error()))
	}
	c.d.Tasks.ReleaseLost(c.recent, c.ref.ID)
}

func (c *completion) take(e *task.Event) error {
	status := e.Status
	if e.Task != nil {
		status = &e.Task.Status
	}
	if status != nil && c.Created == 0 {
		c.Created = status.Time.Unix()
	}
	if status != nil && !status.State.Active() {
		c.last = status
	}
	if c.last == nil || c.last.Failure == "" {
		return nil
	}
	c.delivered = true
	// The header asks the client not to retry, because a retry would run the failed turn again.
	c.r.ResponseWriter.Header().Set(openaiwire.RetryHeader, "false")
	return plain.FailureOf(c.last)
}

func (c *completion) prove(ctx context.Context) error {
	var pair call.Pair
	var q call.RequestRow
	var a *call.ResponseRow
	var err error
	if e := c.ended; e != nil {
		pair = e.Pair
		q, a, err = c.d.Tasks.Calls.AnsweredCall(ctx, e.Pair, e.Position)
	} else {
		pair, q, a, err = c.d.Tasks.LastCall(ctx, c.ref)
	}
	if err != nil {
		return err
	}
	if a == nil || c.last.Message == nil {
		return problem.New(problem.Damaged, "task %s has an answer that no row has", c.ref.ID)
	}
	c.Request, c.Text, c.Cut, c.Usage = q.Hash.String(), plain.TextOfStatus(c.last), c.last.Cut(), a.Usage
	c.Proof = &openaiwire.Proof{Envelope: c.last.Message.Metadata, Warnings: c.q.Warnings()}
	if a.Charged {
		c.Proof.Receipt = call.ReceiptPath(pair, q.Position)
	}
	return nil
}

type pieces struct {
	*completion
	out    openaiwire.Stream
	closed bool // the end of the answer was sent
}

func (c *pieces) Event(n task.Numbered) ([]byte, error) {
	e := &n.Event
	if err := c.take(e); err != nil {
		return nil, err
	}
	text, follows := "", true
	switch {
	case e.Artifact != nil && e.Artifact.Artifact.ID == task.ResponseArtifact:
		text, follows = plain.TextOf(e.Artifact.Artifact.Parts), e.Artifact.Append
	case c.last != nil:
		text, follows = plain.TextOfStatus(c.last), false
	default:
		return nil, nil
	}
	if !follows {
		// This is the complete answer. The pieces that were sent must be its beginning, because
		// they cannot be replaced.
		rest, ok := strings.CutPrefix(text, c.Text)
		if !ok {
			return nil, problem.New(problem.Unavailable, "pieces of the answer were lost; the same request, sent again with its %s or as a retry, gets the whole answer and costs nothing", openaiwire.IdempotencyHeader)
		}
		text = rest
	}
	var b []byte
	if c.Request == "" {
		_, q, _, err := c.d.Tasks.LastCall(c.r.Context(), c.ref)
		if err != nil {
			return nil, err
		}
		c.Request = q.Hash.String()
		b = c.out.Begin(&c.Answer)
	}
	if text != "" {
		c.Text += text
		b = append(b, c.out.Piece(&c.Answer, text)...)
	}
	if c.last == nil {
		return b, nil
	}
	if err := c.prove(c.r.Context()); err != nil {
		return nil, err
	}
	c.closed, c.delivered = true, true
	return append(b, c.out.End(&c.Answer)...), nil
}

func (c *pieces) End(err error) []byte {
	switch {
	case c.closed:
		return nil
	case err == nil:
		err = problem.New(problem.Unavailable, "the stream ended before the answer; send the same request again")
	}
	c.closed = true
	return c.out.Fail(&c.Answer, err)
}
