package a2a

import (
	"context"
	"encoding/json"
	"errors"
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
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
)

// openAI serves OpenAI's API at the address of a vacant.
func (d *api) openAI(r *request) (handled bool, err error) {
	switch name, one := strings.CutPrefix(r.rest, openai.Models+"/"); {
	case r.rest == openai.Completions:
		q, err := d.readCompletion(r)
		if err != nil {
			return true, err
		}
		return true, d.complete(r, q)
	case r.rest == openai.Models:
		return true, d.models(r, []vacants.Record{r.vacant})
	case one && (name == r.vacant.Name || name == r.vacant.ID.String()):
		return true, d.model(r)
	}
	return false, nil
}

// openAIHost serves OpenAI's API at the host's own address, where the model names the vacant.
func (d *api) openAIHost(r *request) (handled bool, err error) {
	name, one := strings.CutPrefix(r.rest, openai.Models+"/")
	switch {
	case r.rest == openai.Completions:
		q, err := d.readCompletion(r)
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
	case r.rest == openai.Models:
		published, err := d.Published(r.Context())
		if err != nil {
			return true, err
		}
		return true, d.models(r, published)
	case one:
		ok, err := d.find(r, name)
		if err != nil || !ok {
			return false, err
		}
		return true, d.model(r)
	}
	return false, nil
}

// readCompletion reads a request for a completion.
func (d *api) readCompletion(r *request) (*openai.Request, error) {
	r.what = "completion"
	if r.Method != http.MethodPost {
		return nil, notAllowed(r, http.MethodPost)
	}
	if err := r.read(); err != nil {
		return nil, err
	}
	q, err := openai.Decode(r.body)
	if err != nil {
		return nil, err
	}
	if size := len(canon.AppendString(nil, q.Asked.Text)); size > maxText {
		return nil, problem.New(problem.TooLarge, "messages: expected at most %d bytes of the last message in JSON, got %d", maxText, size)
	}
	return q, nil
}

// complete answers a request for a completion. It waits for the answer as long as the client does, like
// a stream.
func (d *api) complete(r *request, q *openai.Request) error {
	if err := d.identifyPlain(r); err != nil {
		return err
	}
	counted := d.waiting(r)
	if q.Stream {
		counted = d.streams
	}
	return counted.hold(r, func() error {
		c, done, err := d.beginCompletion(r, q)
		if err != nil {
			return err
		}
		defer func() { <-done }() // see streamMessage
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
		return d.stream(&sse{r: r, ref: c.ref, as: &chunks{completion: c, usage: q.Usage}}, after, d.Tasks.FollowTurn)
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
	for try := 1; ; try++ {
		var recent *task.Recent
		id := ""
		switch {
		case key != "":
			id, err = d.keyedTask(r, owner, payer, key)
		case again:
			recent = task.Sent(r.vacant.ID, payer, q.Came)
			id, err = d.Tasks.Repeats(r.Context(), recent)
		default:
			recent = task.Sent(r.vacant.ID, payer, q.Came)
		}
		once := id != ""
		if err == nil && id == "" {
			id, err = d.Tasks.NewID()
		}
		if err != nil {
			return nil, nil, err
		}
		turn, err := d.completionTurn(r, q, task.Ref{Vacant: r.vacant.ID, Owner: owner, ID: id}, once)
		if err != nil {
			return nil, nil, err
		}
		turn.Recent, turn.Quiet = recent, !q.Stream
		c := &completion{d: d, r: r, repeats: once}
		if !q.Stream {
			turn.Ended = func(e *task.Ended) { c.ended = e }
		}
		c.ref, done, err = d.Tasks.Begin(r.Context(), *turn)
		switch p := problem.Of(err); {
		case err == nil:
			return c, done, nil
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

// completion is a turn whose answer is a completion.
type completion struct {
	d       *api
	r       *request
	ref     task.Ref
	repeats bool // the turn may have begun before
	created int64
	hash    string // of the envelope of the request
	said    string // the text that came
	last    *task.Status
	ended   *task.Ended // of a turn that this process has run, once it is done
}

// take applies an event. It reports a failed turn as its error.
func (c *completion) take(e *task.Event) error {
	status := e.Status
	if e.Task != nil {
		status = &e.Task.Status
	}
	if status != nil && c.created == 0 {
		c.created = status.Time.Unix()
	}
	if status != nil && !status.State.Active() {
		c.last = status
	}
	if c.last == nil || c.last.Failure == "" {
		return nil
	}
	// The request ran, and would only run again.
	c.r.ResponseWriter.Header().Set(openai.RetryHeader, "false")
	refusal := httpapi.Refusal{Code: c.last.Failure, Detail: textOfStatus(c.last)}
	return refusal.Problem()
}

// render is a completion without choices.
func (c *completion) render(object string) openai.Completion {
	return openai.Completion{ID: "chatcmpl-" + c.ref.ID, Object: object, Created: c.created, Model: c.r.vacant.Name, Fingerprint: c.hash, Choices: []openai.Choice{}}
}

// prove reads the call of the turn that has ended, and returns the proof of its answer and its usage.
func (c *completion) prove(ctx context.Context) (*openai.Proof, *openai.Usage, error) {
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
		return nil, nil, err
	}
	c.hash = q.Hash.String()
	if a == nil || c.last.Message == nil {
		return nil, nil, problem.New(problem.Damaged, "task %s has an answer that no row has", c.ref.ID)
	}
	p := &openai.Proof{Envelope: c.last.Message.Metadata}
	if a.Charged {
		p.Receipt = call.ReceiptPath(pair, q.Position)
	}
	return p, openai.UsageOf(a.Usage), nil
}

// answerCompletion waits for the end of a turn, and answers. A turn that this process has run is not read again.
func (d *api) answerCompletion(c *completion, done <-chan struct{}) error {
	r := c.r
	select {
	case <-done:
	case <-r.Context().Done():
		d.log(r, "hung_up", http.StatusOK, nil)
		return nil
	}
	var err, failed error
	if e := c.ended; e != nil {
		c.created = e.Began.Unix()
		failed = c.take(&task.Event{Status: e.Status})
	} else {
		err = d.Tasks.FollowTurn(r.Context(), c.ref, 0, func(n task.Numbered) bool {
			failed = c.take(&n.Event)
			return failed == nil
		})
	}
	// The limit for an answer began with the request, which a turn of minutes outlasts.
	_ = http.NewResponseController(r.ResponseWriter).SetWriteDeadline(time.Now().Add(writeTimeout))
	switch err = errors.Join(err, failed); {
	case err != nil:
		return err
	case c.last == nil: // the client is gone
		d.log(r, "hung_up", http.StatusOK, nil)
		return nil
	}
	proof, usage, err := c.prove(r.Context())
	if err != nil {
		return err
	}
	if proof.Receipt != "" {
		r.ResponseWriter.Header().Set(caller.ReceiptHeader, proof.Receipt)
	}
	r.cut = c.last.Cut()
	out := c.render(openai.Whole)
	out.Choices = []openai.Choice{{Message: &openai.Message{Role: "assistant", Content: textOfStatus(c.last)}, Finish: openai.Finish(r.cut)}}
	out.Usage, out.Proof = usage, proof
	if err := httpapi.Answer(r.ResponseWriter, http.StatusOK, out); err != nil {
		return err
	}
	d.log(r, "ok", http.StatusOK, nil)
	return nil
}

// chunks renders a turn as the chunks of a completion.
type chunks struct {
	*completion
	usage   bool // the client wants a chunk with the usage
	started bool
	closed  bool // the last chunk was sent
}

func (c *chunks) event(e *task.Event) ([]byte, error) {
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
		// The whole answer. What came must be its beginning, because no chunk takes back another.
		rest, ok := strings.CutPrefix(text, c.said)
		if !ok {
			return nil, problem.New(problem.Unavailable, "pieces of the answer were lost; the same request, sent again with its %s or as a retry, gets the whole answer and costs nothing", openai.IdempotencyHeader)
		}
		text = rest
	}
	var b []byte
	if !c.started {
		_, q, _, err := c.d.Tasks.Answered(c.r.Context(), c.ref)
		if err != nil {
			return nil, err
		}
		c.started, c.hash = true, q.Hash.String()
		b = c.piece(b, openai.Delta{Role: "assistant", Content: new(string)})
	}
	if text != "" {
		c.said += text
		b = c.piece(b, openai.Delta{Content: &text})
	}
	if c.last == nil {
		return b, nil
	}
	proof, usage, err := c.prove(c.r.Context())
	if err != nil {
		return nil, err
	}
	final := c.render(openai.Chunk)
	final.Choices = []openai.Choice{{Delta: &openai.Delta{}, Finish: openai.Finish(c.last.Cut())}}
	if c.usage {
		b = appendData(b, final)
		final = c.render(openai.Chunk)
		final.Usage = usage
	}
	final.Proof = proof
	c.closed = true
	return append(appendData(b, final), "data: [DONE]\n\n"...), nil
}

// piece appends a chunk with a piece of the answer.
func (c *chunks) piece(b []byte, delta openai.Delta) []byte {
	out := c.render(openai.Chunk)
	out.Choices = []openai.Choice{{Delta: &delta}}
	return appendData(b, out)
}

func (c *chunks) end(err error) []byte {
	switch {
	case c.closed:
		return nil
	case err == nil:
		err = problem.New(problem.Unavailable, "the stream ended before the answer; the same request may be sent again")
	}
	c.closed = true
	return appendData(nil, openai.FailureOf(err))
}

// appendData appends a server-sent event of JSON.
func appendData(b []byte, v any) []byte {
	data, _ := httpapi.Encode(v) // texts encode
	return append(append(append(b, "data: "...), data...), '\n')
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
