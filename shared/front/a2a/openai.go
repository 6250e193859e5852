package a2a

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
	"github.com/vacancy-host/vacancy/shared/front/openai"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
)

// openAI serves OpenAI's API at the address of a vacant.
func (d *api) openAI(r *request) (handled bool, err error) {
	name, one := strings.CutPrefix(r.rest, openai.Models+"/")
	if asked, ok := openai.Of(r.rest); ok {
		q, err := d.readOpenAI(r, asked)
		if err != nil {
			return true, err
		}
		return true, d.complete(r, q)
	}
	if r.rest != openai.Models && !one {
		return false, nil
	}
	if err := d.identify(r); err != nil {
		return true, err
	}
	switch {
	case !one:
		return true, d.models(r, []vacants.Record{r.vacant})
	case name == r.vacant.Name || name == r.vacant.ID.String():
		return true, d.model(r)
	}
	return false, nil
}

// openAIHost serves OpenAI's API at the host's own address, where the model names the vacant.
func (d *api) openAIHost(r *request) (handled bool, err error) {
	if asked, ok := openai.Of(r.rest); ok {
		q, err := d.readOpenAI(r, asked)
		if err != nil {
			return true, err
		}
		if q.Model == "" {
			return true, problem.Invalid("model", "the name of a vacant of this host", "none")
		}
		ok, err := d.find(r, q.Model)
		if err != nil {
			return true, err
		}
		if !ok {
			return true, problem.New(problem.NotFound, "model: no vacant %s answers here; GET %s lists the published ones", httpapi.Clip(q.Model), openai.Models)
		}
		return true, d.complete(r, q)
	}
	name, one := strings.CutPrefix(r.rest, openai.Models+"/")
	if r.rest != openai.Models && !one {
		return false, nil
	}
	if err := d.identify(r); err != nil {
		return true, err
	}
	if one {
		ok, err := d.find(r, name)
		if err != nil || !ok {
			return false, err
		}
		return true, d.model(r)
	}
	published, err := d.Published(r.Context())
	if err != nil {
		return true, err
	}
	return true, d.models(r, published)
}

// What a request is, for the log.
const (
	textWhat       = "text"
	completionWhat = "completion"
	responseWhat   = "response"
)

// readOpenAI reads a request of one of OpenAI's APIs.
func (d *api) readOpenAI(r *request, asked openai.API) (*openai.Request, error) {
	r.what = completionWhat
	if asked == openai.Responses {
		r.what = responseWhat
	}
	if r.Method != http.MethodPost {
		return nil, notAllowed(r, http.MethodPost)
	}
	if err := r.read(); err != nil {
		return nil, err
	}
	q, err := openai.Decode(asked, r.body)
	if err != nil {
		return nil, err
	}
	return q, checkSize("the last message", q.Asked.Text)
}

// complete answers a request of one of OpenAI's APIs. It waits for the answer as long as the client does,
// like a stream.
func (d *api) complete(r *request, q *openai.Request) error {
	if err := d.identifyPlain(r); err != nil {
		return err
	}
	hold := d.waiting(r).holdInLine
	if q.Stream {
		hold = d.streams.hold
	}
	return hold(r, func() error {
		if err := d.resolveAnswers(r, q); err != nil {
			return err
		}
		c, done, err := d.beginCompletion(r, q)
		if err != nil {
			return err
		}
		defer func() { <-done }() // see streamMessage
		defer c.settle()
		if !q.Stream {
			return d.answerCompletion(c, done)
		}
		after := 0
		if c.repeats {
			// Of a turn that has ended, the answer is in the last event, also if pieces of it were lost.
			t, last, err := d.Tasks.Snapshot(r.Context(), c.ref)
			if err != nil {
				return err
			}
			if !t.Status.State.Active() {
				after = last - 1
			}
		}
		s := &sse{r: r, ref: c.ref, as: &pieces{completion: c, out: openai.Stream{API: q.API, Usage: q.Usage}}}
		err = d.stream(s, after, d.Tasks.FollowTurn)
		c.delivered = c.delivered && !s.broken
		return err
	})
}

// resolveAnswers replaces earlier answers, which a client of Responses names by their ids, with their texts.
// Only the sender of a task's message finds its answer.
func (d *api) resolveAnswers(r *request, q *openai.Request) error {
	return q.Resolve(func(item string) (string, error) {
		id, ok := openai.AnswerTask(item)
		owner, _ := d.plainOwner(r)
		t, err := task.Task{}, error(task.ErrNotFound)
		if ok {
			t, err = d.Tasks.Get(r.Context(), task.Ref{Vacant: r.vacant.ID, Owner: owner, ID: id})
		}
		if errors.Is(err, task.ErrNotFound) {
			err = problem.Invalid("id", "the id of an answer of the last 24 hours, or the message itself", httpapi.Clip(item))
		}
		return textOfStatus(&t.Status), err
	})
}

// maxRepeats bounds how often a message that its client sends again is looked for, because another
// repeat was quicker.
const maxRepeats = 4

// beginCompletion begins the turn of a request, or finds the turn that the client began before.
func (d *api) beginCompletion(r *request, q *openai.Request) (c *completion, done <-chan struct{}, err error) {
	key, again, err := repeatOf(r)
	if err != nil {
		return nil, nil, err
	}
	owner, payer := d.plainOwner(r)
	c = &completion{d: d, r: r, q: q}
	c.Model = r.vacant.Name
	lost := false // the client of an equal request has lost its connection
	for try := 1; ; try++ {
		id := ""
		if key == "" {
			c.recent = task.Sent(r.vacant.ID, payer, q.Came)
		}
		switch {
		case key != "":
			id, err = d.keyedTask(r, owner, payer, key)
		case again:
			id, err = d.Tasks.Repeats(r.Context(), c.recent)
		case lost:
			id, err = d.Tasks.TakeLost(r.Context(), c.recent, r.vacant.ID, owner)
		}
		c.repeats = id != ""
		if err == nil && id == "" {
			id, err = d.Tasks.NewID()
		}
		if err != nil {
			return nil, nil, err
		}
		turn, err := d.completionTurn(r, q, task.Ref{Vacant: r.vacant.ID, Owner: owner, ID: id}, c.repeats)
		if err == nil {
			turn.Recent, turn.Quiet = c.recent, !q.Stream
			if !q.Stream {
				turn.Ended = func(e *task.Ended) { c.ended = e }
			}
			c.ref, done, err = d.Tasks.Begin(r.Context(), *turn)
			c.ID = c.ref.ID
		}
		if err == nil {
			return c, done, nil
		}
		d.Tasks.ReleaseLost(c.recent, id)
		switch p := problem.Of(err); {
		case errors.Is(err, task.ErrLost):
			lost = true
		case key != "" && p.Field == "messageId":
			return nil, nil, problem.Invalid(openai.IdempotencyHeader, "a new key, or the body that had it", "another body with the same key")
		case again && key == "" && p.Kind == problem.Conflict && try < maxRepeats:
		default:
			return nil, nil, err
		}
	}
}

// keyedTask is the id of the task that a client's key names. Whoever knows a guest's task may read it, so
// nobody but the host can make the id from the key.
func (d *api) keyedTask(r *request, owner call.Owner, payer, key string) (string, error) {
	k, err := d.guest(r, owner, "openai\x1f"+payer+"\x1f"+key)
	if err != nil {
		return "", err
	}
	return task.MessageTask(r.vacant.ID, owner, k.ID().String()), nil
}

// repeatOf reads how a client marks a request that it may send again: by a key, or by the number of
// requests before.
func repeatOf(r *request) (key string, again bool, err error) {
	key = strings.Join(r.Request.Header.Values(openai.IdempotencyHeader), ", ")
	if len(key) > envelope.MaxIDBytes {
		return "", false, problem.Invalid(openai.IdempotencyHeader, "at most 512 bytes", "more")
	}
	count := r.Request.Header.Get(openai.RetryCountHeader)
	return key, strings.Trim(count, "0") != "" && strings.Trim(count, "0123456789") == "", nil
}

// plainOwner returns the owner of a plain caller's task, and the payer of its calls: the account, or the
// address of a guest, because guests have nothing else in common with a request before.
func (d *api) plainOwner(r *request) (owner call.Owner, payer string) {
	switch {
	case r.payer != nil:
		return r.payer.Owner(), r.payer.Owner().String()
	case r.plain() == vacants.PlainShared:
		owner = call.SharedOwner
	default:
		owner = call.GuestOwner
	}
	return owner, "address " + caller.Origin(r.RemoteAddr).String()
}

// completionTurn is the turn of a request. It is a conversation of its own, because the client brings what
// was said before. The key of its envelope is the hash of the body, so that the call's row covers all
// that came. With once the request may have come before.
func (d *api) completionTurn(r *request, q *openai.Request, ref task.Ref, once bool) (*task.Turn, error) {
	came := "openai:" + q.Came
	metadata, err := json.Marshal(map[string]string{"idempotency_key": came})
	if err != nil {
		return nil, err
	}
	m := task.Message{ID: "m-" + ref.ID, Context: "c-" + ref.ID, Role: task.User, Parts: partsOf(&q.Asked), Metadata: metadata}
	t := &task.Turn{Ref: ref, Opens: true, Told: []task.Told{}, Once: once}
	if t.Unfit = checkImages(&m, &r.vacant); t.Unfit != nil && !once {
		return nil, t.Unfit
	}
	if q.Left > 0 {
		t.Told = append(t.Told, task.Told{Role: "host", Text: fmt.Sprintf("[%d older messages of this conversation were left out]", q.Left)})
	}
	for _, said := range q.Told {
		var lines []string
		for _, p := range partsOf(&said) {
			lines = append(lines, p.Note())
		}
		t.Told = append(t.Told, task.Told{Role: said.Role, Text: strings.Join(lines, "\n")})
	}
	if ref.Owner != call.GuestOwner {
		t.List = ref.Owner
	}
	if err := d.signFor(r, t, m.Context, m, came); err != nil {
		return nil, err
	}
	return t, d.admit(r, t)
}

// partsOf returns the text and the images of a message.
func partsOf(said *openai.Said) (parts []task.Part) {
	if said.Text != "" {
		parts = append(parts, task.Part{Kind: task.Text, Text: said.Text})
	}
	for _, image := range said.Images {
		p := task.Part{Kind: task.Raw, Raw: image.Data, MediaType: image.MediaType}
		if image.URL != "" {
			p = task.Part{Kind: task.URL, Text: image.URL, MediaType: vacants.AnyImage}
		}
		parts = append(parts, p)
	}
	return parts
}

// checkImages is checkParts for the last message of a completion.
func checkImages(m *task.Message, v *vacants.Record) error {
	for _, p := range m.Parts {
		if p.Kind != task.Text && !takes(v, &p) {
			return problem.Invalid("messages", "content that this agent reads, which is "+readable(v), describe(&p))
		}
	}
	return checkParts(m, v)
}

// completion is a turn whose answer goes to a client of OpenAI's API.
type completion struct {
	openai.Answer
	d       *api
	r       *request
	q       *openai.Request
	ref     task.Ref
	repeats bool // the turn may have begun before
	last    *task.Status
	ended   *task.Ended // of a turn that this process has run, once it is done

	recent *task.Recent // nil if the client has a key for its request
	// delivered means that the end of the turn was sent.
	delivered bool
}

// settleTime bounds how long the record of a lost answer may take.
const settleTime = 5 * time.Second

// settle records that the client did not receive its answer, so that the next equal request gets it, or that
// a request received the answer of an earlier one.
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

// take applies an event. It reports a failed turn as its error.
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
	// The request ran, and would only run again.
	c.r.ResponseWriter.Header().Set(openai.RetryHeader, "false")
	refusal := httpapi.Refusal{Code: c.last.Failure, Detail: textOfStatus(c.last)}
	return refusal.Problem()
}

// prove reads the call of the turn that has ended, and completes the answer with its text, proof and usage.
func (c *completion) prove(ctx context.Context) error {
	var pair call.Pair
	var q call.RequestRow
	var a *call.ResponseRow
	var err error
	if e := c.ended; e != nil {
		pair = e.Pair
		q, a, err = c.d.Tasks.Calls.Answered(ctx, e.Pair, e.Position)
	} else {
		pair, q, a, err = c.d.Tasks.Answered(ctx, c.ref)
	}
	if err != nil {
		return err
	}
	if a == nil || c.last.Message == nil {
		return problem.New(problem.Damaged, "task %s has an answer that no row has", c.ref.ID)
	}
	c.Request, c.Text, c.Cut, c.Usage = q.Hash.String(), textOfStatus(c.last), c.last.Cut(), a.Usage
	c.Proof = &openai.Proof{Envelope: c.last.Message.Metadata, Warnings: c.q.Warnings()}
	if a.Charged {
		c.Proof.Receipt = call.ReceiptPath(pair, q.Position)
	}
	return nil
}

// answerCompletion waits for the end of a turn, and answers. A turn that this process has run is not read again.
func (d *api) answerCompletion(c *completion, done <-chan struct{}) error {
	r := c.r
	hungUp := func() error {
		d.log(r, "hung_up", http.StatusOK, nil)
		return nil
	}
	select {
	case <-done:
	case <-r.Context().Done():
		return hungUp()
	}
	var err, failed error
	if e := c.ended; e != nil {
		c.Created = e.Began.Unix()
		failed = c.take(&task.Event{Status: e.Status})
	} else {
		err = d.Tasks.FollowTurn(r.Context(), c.ref, 0, func(n task.Numbered) bool {
			failed = c.take(&n.Event)
			return failed == nil
		})
	}
	// The limit for an answer began with the request, which a turn of minutes outlasts.
	w := http.NewResponseController(r.ResponseWriter)
	_ = w.SetWriteDeadline(time.Now().Add(writeTimeout))
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
	r.cut = c.Cut
	if r.Context().Err() != nil {
		return hungUp()
	}
	if err := httpapi.Answer(r.ResponseWriter, http.StatusOK, c.q.API.Whole(&c.Answer)); err != nil {
		return err
	}
	// A client that has its answer may close the connection, so only an error of writing says that it broke.
	if err := w.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return hungUp()
	}
	c.delivered = true
	d.log(r, "ok", http.StatusOK, nil)
	return nil
}

// pieces renders a turn as the pieces of a streamed answer.
type pieces struct {
	*completion
	out    openai.Stream
	closed bool // the end of the answer was sent
}

func (c *pieces) event(e *task.Event) ([]byte, error) {
	if err := c.take(e); err != nil {
		return nil, err
	}
	text, follows := "", true
	switch {
	case e.Artifact != nil && e.Artifact.Artifact.ID == task.ResponseArtifact:
		for _, p := range e.Artifact.Artifact.Parts {
			text += p.Text
		}
		follows = e.Artifact.Append
	case c.last != nil:
		text, follows = textOfStatus(c.last), false
	default:
		return nil, nil
	}
	if !follows {
		// The whole answer. What came must be its beginning, because no piece takes back another.
		rest, ok := strings.CutPrefix(text, c.Text)
		if !ok {
			return nil, problem.New(problem.Unavailable, "pieces of the answer were lost; the same request, sent again with its %s or as a retry, gets the whole answer and costs nothing", openai.IdempotencyHeader)
		}
		text = rest
	}
	var b []byte
	if c.Request == "" {
		_, q, _, err := c.d.Tasks.Answered(c.r.Context(), c.ref)
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

func (c *pieces) end(err error) []byte {
	switch {
	case c.closed:
		return nil
	case err == nil:
		err = problem.New(problem.Unavailable, "the stream ended before the answer; the same request may be sent again")
	}
	c.closed = true
	return c.out.Fail(&c.Answer, err)
}

// models lists vacants as models, each with the time at which it was made.
func (d *api) models(r *request, all []vacants.Record) error {
	r.what = "models"
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return notAllowed(r, "GET")
	}
	list := openai.ModelList{Object: "list", Data: []openai.Model{}}
	for i := range all {
		list.Data = append(list.Data, modelOf(&all[i]))
	}
	if err := httpapi.Answer(r.ResponseWriter, http.StatusOK, list); err != nil {
		return err
	}
	d.log(r, "ok", http.StatusOK, nil)
	return nil
}

// model shows the vacant of a request as a model.
func (d *api) model(r *request) error {
	r.what = "model"
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return notAllowed(r, "GET")
	}
	if err := httpapi.Answer(r.ResponseWriter, http.StatusOK, modelOf(&r.vacant)); err != nil {
		return err
	}
	d.log(r, "ok", http.StatusOK, nil)
	return nil
}

func modelOf(v *vacants.Record) openai.Model {
	return openai.Model{ID: v.Name, Object: "model", Created: v.Created.Unix(), Owner: "vacancy"}
}
