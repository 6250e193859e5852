// Package openai serves vacants to clients of OpenAI's chat completions and Responses APIs. A
// client that did not receive an answer may repeat its request, with the same key or marked as a
// retry, and is not charged again.
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

// Handler returns the handler of the paths that openaiwire.IsPath accepts. publishedVacants returns
// the vacants that search shows, sorted by name. It must cache them.
func Handler(s *plain.Service, publishedVacants func(context.Context) ([]vacants.Record, error)) func(*plain.Exchange) error {
	return (&api{s, publishedVacants}).serve
}

type api struct {
	*plain.Service
	publishedVacants func(context.Context) ([]vacants.Record, error)
}

func (d *api) serve(r *plain.Exchange) error {
	notFound := func() error {
		base, err := d.Base(r.Request)
		if err == nil {
			err = openaiwire.NotFound(r.Method, r.SubPath, base)
		}
		return err
	}
	// At the host's own address, the model of the request names the vacant.
	_, _, isVacantPath := message.SplitPath(r.URL.Path)
	if isVacantPath {
		if err := r.OpenByPath(); problem.Is(err, problem.NotFound) {
			return notFound()
		} else if err != nil {
			return err
		}
	}
	if wireAPI, ok := openaiwire.APIOf(r.SubPath); ok {
		return d.serveCompletion(r, wireAPI, isVacantPath)
	}
	name, isModel := strings.CutPrefix(r.SubPath, openaiwire.ModelsPath+"/")
	if r.SubPath != openaiwire.ModelsPath && !isModel {
		return notFound()
	}
	if err := r.IdentifyPayer(); err != nil {
		return err
	}
	var models []vacants.Record
	var err error
	switch {
	case isModel && isVacantPath:
		if name != r.Vacant.Name && name != r.Vacant.ID.String() {
			return notFound()
		}
	case isModel:
		if err := r.OpenVacant(name); problem.Is(err, problem.NotFound) {
			return notFound()
		} else if err != nil {
			return err
		}
	case isVacantPath:
		models = []vacants.Record{r.Vacant}
	default:
		if models, err = d.publishedVacants(r.Context()); err != nil {
			return err
		}
	}
	modelOf := func(v *vacants.Record) openaiwire.Model {
		return openaiwire.Model{ID: v.Name, Object: "model", Created: v.CreatedAt.Unix(), Owner: "vacancy"}
	}
	modelList := openaiwire.ModelList{Object: "list", Data: []openaiwire.Model{}}
	for i := range models {
		modelList.Data = append(modelList.Data, modelOf(&models[i]))
	}
	var answer any = modelList
	if r.Line.Operation = "models"; isModel {
		r.Line.Operation, answer = "model", modelOf(&r.Vacant)
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return r.MethodError("GET")
	}
	if err := httpapi.SendJSON(r.ResponseWriter, http.StatusOK, answer); err != nil {
		return err
	}
	r.Log("ok", http.StatusOK, nil)
	return nil
}

func (d *api) serveCompletion(r *plain.Exchange, wireAPI openaiwire.API, hasVacant bool) error {
	r.Line.Operation, r.Line.IsCall = "completion", true
	if wireAPI == openaiwire.Responses {
		r.Line.Operation = "response"
	}
	if r.Method != http.MethodPost {
		return r.MethodError(http.MethodPost)
	}
	body, err := httpapi.ReadBody(r.ResponseWriter, r.Request, a2awire.MaxBody, "application/a2a+json")
	if err != nil {
		return err
	}
	r.ClearReadDeadline()
	req, err := openaiwire.Decode(wireAPI, body)
	if err == nil {
		err = plain.CheckText("the last message", req.Question.Text)
	}
	switch {
	case err != nil:
		return err
	case hasVacant:
	case req.Model == "":
		return problem.Invalid("model", "the name of a vacant of this host", "none")
	default:
		if err := r.OpenVacant(req.Model); problem.Is(err, problem.NotFound) {
			return problem.New(problem.NotFound, "model: vacant %s is not hosted here; GET %s lists the published vacants", httpapi.QuoteTruncated(req.Model), openaiwire.ModelsPath)
		} else if err != nil {
			return err
		}
	}
	if err := r.CheckKeylessAccess(); err != nil {
		return err
	}
	if err := r.IdentifyPayer(); err != nil {
		return err
	}
	// Like a stream, a request waits for its answer as long as the client waits.
	answer := func() error { return d.answerRequest(r, req) }
	if req.WantsStream {
		return d.Streams.Run(&r.Caller, answer)
	}
	return r.WaitLimiter().RunOrWait(r.Context(), &r.Caller, answer)
}

// answerRequest begins the turn of a request. It streams the answer if the client wants a stream,
// and otherwise waits for the end.
func (d *api) answerRequest(r *plain.Exchange, req *openaiwire.Request) error {
	// Only the sender of a task's message can find the task's answer.
	err := req.Resolve(func(item string) (string, error) {
		id, ok := openaiwire.TaskIDOfItem(item)
		t, err := task.Task{}, error(task.ErrNotFound)
		if ok {
			t, err = d.Tasks.Get(r.Context(), task.Ref{Vacant: r.Vacant.ID, Owner: r.Owner(), ID: id})
		}
		if errors.Is(err, task.ErrNotFound) {
			err = problem.Invalid("id", "the id of an answer of the last 24 hours, or the message itself", httpapi.QuoteTruncated(item))
		}
		return plain.StatusText(&t.Status), err
	})
	if err != nil {
		return err
	}
	c, done, err := d.beginCompletion(r, req)
	if err != nil {
		return err
	}
	// The handler must wait for the turn even if the client disconnects, because a Lambda function
	// runs no code after its handler has returned.
	defer func() { <-done }()
	defer c.recordDelivery()
	if req.WantsStream {
		afterEvent := 0
		if c.isRepeat {
			// The last event of an ended turn contains the answer, even if earlier pieces were
			// lost.
			t, lastEvent, err := d.Tasks.Snapshot(r.Context(), c.ref)
			if err != nil {
				return err
			}
			if !t.Status.State.IsActive() {
				afterEvent = lastEvent - 1
			}
		}
		s := r.NewStream(&pieceRenderer{completion: c, stream: openaiwire.Stream{API: req.API, WantsUsage: req.WantsUsage}})
		err = s.Follow(c.ref, afterEvent, d.Tasks.FollowTurn)
		c.delivered = c.delivered && !s.Broken
		return err
	}
	logHangUp := func() error {
		r.Log("hung_up", http.StatusOK, nil)
		return nil
	}
	select {
	case <-done:
	case <-r.Context().Done():
		return logHangUp()
	}
	var eventErr error
	if e := c.endedTurn; e != nil {
		c.Created = e.StartedAt.Unix()
		eventErr = c.applyEvent(&task.Event{Status: e.Status})
	} else {
		err = d.Tasks.FollowTurn(r.Context(), c.ref, 0, func(n task.NumberedEvent) bool {
			eventErr = c.applyEvent(&n.Event)
			return eventErr == nil
		})
	}
	// The write deadline was set at the start of the request, but a turn may take minutes.
	r.ExtendWriteDeadline()
	switch err = errors.Join(err, eventErr); {
	case err != nil:
		return err
	case c.finalStatus == nil:
		return logHangUp()
	}
	if err := c.addProof(r.Context()); err != nil {
		return err
	}
	if c.Proof.Receipt != "" {
		r.ResponseWriter.Header().Set(caller.ReceiptHeader, c.Proof.Receipt)
	}
	r.Line.CutReason = c.CutReason
	if r.Context().Err() != nil {
		return logHangUp()
	}
	if err := httpapi.SendJSON(r.ResponseWriter, http.StatusOK, req.API.RenderAnswer(&c.Answer)); err != nil {
		return err
	}
	// A client may close its connection as soon as it has the answer. Only a write error means that
	// the answer was lost.
	if err := http.NewResponseController(r.ResponseWriter).Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return logHangUp()
	}
	c.delivered = true
	r.Log("ok", http.StatusOK, nil)
	return nil
}

// An attempt fails if a concurrent equal request begins a turn after the lookup.
const maxRepeats = 4

// beginCompletion begins the turn of a request, or finds the turn of an earlier equal request.
func (d *api) beginCompletion(r *plain.Exchange, req *openaiwire.Request) (c *completion, done <-chan struct{}, err error) {
	// A client marks a request as repeatable by a key, or by a retry count above zero.
	key := strings.Join(r.Request.Header.Values(openaiwire.IdempotencyHeader), ", ")
	if len(key) > envelope.MaxIDBytes {
		return nil, nil, problem.Invalid(openaiwire.IdempotencyHeader, "at most 512 bytes", "more")
	}
	retryCount := r.Request.Header.Get(openaiwire.RetryCountHeader)
	isRetry := strings.Trim(retryCount, "0") != "" && strings.Trim(retryCount, "0123456789") == ""
	// Only equal requests of the same client are repeats. Guests are distinguished only by their
	// network addresses.
	owner, sender := r.Owner(), "address "+r.Address.String()
	if r.Payer != nil {
		sender = owner.String()
	}
	// The hash of the body is in the envelope, so that the call's row covers the complete request.
	bodyKey := "openai:" + req.BodyHash
	metadata, err := json.Marshal(map[string]string{"idempotency_key": bodyKey})
	if err != nil {
		return nil, nil, err
	}
	m := task.Message{Role: task.User, Parts: partsOf(&req.Question), Metadata: metadata}
	earlierMessages := []task.ReportedMessage{}
	if req.OmittedCount > 0 {
		earlierMessages = append(earlierMessages, task.ReportedMessage{Role: "host", Text: fmt.Sprintf("[%d older messages of this conversation were left out]", req.OmittedCount)})
	}
	for _, msg := range req.Earlier {
		var lines []string
		for _, p := range partsOf(&msg) {
			lines = append(lines, p.SignedText())
		}
		earlierMessages = append(earlierMessages, task.ReportedMessage{Role: msg.Role, Text: strings.Join(lines, "\n")})
	}
	c = &completion{api: d, exchange: r, req: req}
	c.Model = r.Vacant.Name
	wasLost := false // the client of an equal request did not receive its answer
	for attempt := 1; ; attempt++ {
		id := ""
		if key == "" {
			c.recentTurns = task.NewRecentTurns(r.Vacant.ID, sender, req.BodyHash)
		}
		switch {
		case key != "":
			// Anyone who knows the id of a guest's task may read the task. Therefore only the host
			// can derive the id from the key.
			var guestKey *identity.Key
			if guestKey, err = r.DeriveKey(r.Context(), owner, "openai\x1f"+sender+"\x1f"+key); err == nil {
				id = task.MessageTaskID(r.Vacant.ID, owner, guestKey.ID().String())
			}
		case isRetry:
			id, err = d.Tasks.FindRepeat(r.Context(), c.recentTurns)
		case wasLost:
			id, err = d.Tasks.ClaimUndelivered(r.Context(), c.recentTurns, r.Vacant.ID, owner)
		}
		c.isRepeat = id != ""
		if err == nil && id == "" {
			id, err = d.Tasks.NewID()
		}
		if err != nil {
			return nil, nil, err
		}
		m.ID, m.Context = "m-"+id, "c-"+id
		contentErr := plain.CheckParts(&m, func(_ int, p *task.Part) error {
			if r.AcceptsPart(p) {
				return nil
			}
			return problem.Invalid("messages", "content that this agent reads, which is "+plain.ReadableTypes(&r.Vacant), plain.DescribePart(p))
		})
		turn := &task.Turn{
			Ref: task.Ref{Vacant: r.Vacant.ID, Owner: owner, ID: id}, IsFirstCall: true, ReportedMessages: earlierMessages, Idempotent: c.isRepeat, NewMessageError: contentErr,
			Recent: c.recentTurns, StoresAtEnd: !req.WantsStream,
		}
		if owner != call.GuestOwner {
			turn.ListOwner = owner
		}
		if !req.WantsStream {
			turn.OnEnd = func(e *task.EndedTurn) { c.endedTurn = e }
		}
		if !c.isRepeat {
			err = contentErr
		}
		if err == nil {
			err = r.SignMessage(r.Context(), turn, m.Context, m, bodyKey)
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
		d.Tasks.ReleaseUndelivered(c.recentTurns, id)
		switch p := problem.AsError(err); {
		case errors.Is(err, task.ErrUndelivered):
			wasLost = true
		case key != "" && p.Field == "messageId":
			return nil, nil, problem.Invalid(openaiwire.IdempotencyHeader, "a new key, or the body that had it", "another body with the same key")
		case isRetry && key == "" && p.Kind == problem.Conflict && attempt < maxRepeats:
		default:
			return nil, nil, err
		}
	}
}

func partsOf(msg *openaiwire.InputMessage) (parts []task.Part) {
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

type completion struct {
	openaiwire.Answer
	api         *api
	exchange    *plain.Exchange
	req         *openaiwire.Request
	ref         task.Ref
	isRepeat    bool // an earlier request may have begun the turn
	finalStatus *task.Status
	endedTurn   *task.EndedTurn // nil unless this process ran the turn

	recentTurns *task.RecentTurns // nil if the request has a key
	// delivered is true if the end of the answer, or its failure, was sent to the client.
	delivered bool
}

const recordTimeout = 5 * time.Second

// recordDelivery records an answer that its client did not receive, so that the next equal request
// gets the answer.
func (c *completion) recordDelivery() {
	if c.recentTurns == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.exchange.Context()), recordTimeout)
	defer cancel()
	var err error
	switch {
	case !c.delivered:
		err = c.api.Tasks.RecordUndelivered(ctx, c.recentTurns, c.ref.ID)
	case c.isRepeat:
		err = c.api.Tasks.RecordDelivery(ctx, c.recentTurns, c.ref.ID)
	}
	if err != nil {
		c.api.Log.LogAttrs(ctx, slog.LevelWarn, "a lost answer is not recorded; a retry may be charged again", slog.String("task", c.ref.ID), slog.String("cause", err.Error()))
	}
	c.api.Tasks.ReleaseUndelivered(c.recentTurns, c.ref.ID)
}

func (c *completion) applyEvent(e *task.Event) error {
	status := e.Status
	if e.Task != nil {
		status = &e.Task.Status
	}
	if status != nil && c.Created == 0 {
		c.Created = status.Time.Unix()
	}
	if status != nil && !status.State.IsActive() {
		c.finalStatus = status
	}
	if c.finalStatus == nil || c.finalStatus.FailureKind == "" {
		return nil
	}
	c.delivered = true
	// A retry would run the failed turn again.
	c.exchange.ResponseWriter.Header().Set(openaiwire.RetryHeader, "false")
	return plain.StatusError(c.finalStatus)
}

func (c *completion) addProof(ctx context.Context) error {
	var pair call.Pair
	var reqRow call.RequestRow
	var respRow *call.ResponseRow
	var err error
	if e := c.endedTurn; e != nil {
		pair = e.Pair
		reqRow, respRow, err = c.api.Tasks.Calls.LoadCallAndAnswer(ctx, e.Pair, e.Position)
	} else {
		pair, reqRow, respRow, err = c.api.Tasks.LastCall(ctx, c.ref)
	}
	if err != nil {
		return err
	}
	if respRow == nil || c.finalStatus.Message == nil {
		return problem.New(problem.Damaged, "the answer of task %s is missing from the rows", c.ref.ID)
	}
	c.RequestHash, c.Text, c.CutReason, c.Usage = reqRow.Hash.String(), plain.StatusText(c.finalStatus), c.finalStatus.CutReason(), respRow.Usage
	c.Proof = &openaiwire.Proof{Envelope: c.finalStatus.Message.Metadata, Warnings: c.req.Warnings()}
	if respRow.IsPriced {
		c.Proof.Receipt = call.ReceiptPath(pair, reqRow.Position)
	}
	return nil
}

type pieceRenderer struct {
	*completion
	stream openaiwire.Stream
	closed bool
}

func (c *pieceRenderer) RenderEvent(n task.NumberedEvent) ([]byte, error) {
	e := &n.Event
	if err := c.applyEvent(e); err != nil {
		return nil, err
	}
	text, isPiece := "", true
	switch {
	case e.Artifact != nil && e.Artifact.Artifact.ID == task.ResponseArtifact:
		text, isPiece = plain.PartsText(e.Artifact.Artifact.Parts), e.Artifact.Append
	case c.finalStatus != nil:
		text, isPiece = plain.StatusText(c.finalStatus), false
	default:
		return nil, nil
	}
	if !isPiece {
		// Pieces that were sent cannot be replaced, so they must be the beginning of the complete
		// answer.
		unsent, ok := strings.CutPrefix(text, c.Text)
		if !ok {
			return nil, problem.New(problem.Unavailable, "pieces of the answer were lost; send the same request again with its %s or as a retry to get the complete answer at no cost", openaiwire.IdempotencyHeader)
		}
		text = unsent
	}
	var b []byte
	if c.RequestHash == "" {
		_, reqRow, _, err := c.api.Tasks.LastCall(c.exchange.Context(), c.ref)
		if err != nil {
			return nil, err
		}
		c.RequestHash = reqRow.Hash.String()
		b = c.stream.Begin(&c.Answer)
	}
	if text != "" {
		c.Text += text
		b = append(b, c.stream.Piece(&c.Answer, text)...)
	}
	if c.finalStatus == nil {
		return b, nil
	}
	if err := c.addProof(c.exchange.Context()); err != nil {
		return nil, err
	}
	c.closed, c.delivered = true, true
	return append(b, c.stream.End(&c.Answer)...), nil
}

func (c *pieceRenderer) RenderEnd(err error) []byte {
	switch {
	case c.closed:
		return nil
	case err == nil:
		err = problem.New(problem.Unavailable, "the stream ended before the answer; send the same request again")
	}
	c.closed = true
	return c.stream.Fail(&c.Answer, err)
}
