package a2a

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/caller"
	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/host/a2a/a2awire"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
)

const mediaText = "text/plain"

// Headers of an answer of text.
const (
	// contextHeader names the conversation, for the parameter context of the next message.
	contextHeader = "Vacancy-Context"
	// cutHeader says why the answer ends before its end.
	cutHeader = "Vacancy-Cut"
)

// paramContext is the query parameter that continues a conversation.
const paramContext = "context"

// maxText bounds the size that a text has in JSON, as the largest message of A2A does. An
// envelope has the text in JSON, where a control character takes six bytes.
var maxText = canon.DefaultLimits().Bytes - 64

// text answers a text with a text, or with a stream of it. The sender is an account, or a guest.
func (d *api) text(r *request) error {
	r.what = textWhat
	if r.Method != http.MethodPost {
		return notAllowed(r, http.MethodPost)
	}
	if err := d.identifyPlain(r); err != nil {
		return err
	}
	q, err := d.readText(r)
	if err != nil {
		return err
	}
	if strings.Contains(strings.ToLower(strings.Join(r.Request.Header.Values("Accept"), ",")), mediaEvents) {
		return d.streams.hold(r, func() error { return d.streamText(r, q) })
	}
	if err := d.checkWaits(r); err != nil {
		return err
	}
	return d.answerText(r, q)
}

// checkPlain refuses a request without an envelope to a vacant that answers only signed calls.
func (r *request) checkPlain() error {
	if r.plain() == vacants.PlainOff {
		return problem.New(problem.Forbidden, "this vacant answers only signed calls; send one with vacancy call")
	}
	return nil
}

// identifyPlain is identify for a request that can carry no envelope.
func (d *api) identifyPlain(r *request) error {
	if err := r.checkPlain(); err != nil {
		return err
	}
	return d.identify(r)
}

// readText reads the message that the request is.
func (d *api) readText(r *request) (*a2awire.SendRequest, error) {
	q := &a2awire.SendRequest{Message: task.Message{Role: task.User}}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, problem.Invalid("query", paramContext+" and "+caller.MaxPrice+", escaped", httpapi.Clip(r.URL.RawQuery))
	}
	for name, values := range query {
		switch name {
		case caller.MaxPrice: // for Payment
		case paramContext:
			q.Message.Context = values[0]
			if err := d.checkContext(r, strings.Join(values, ", "), "the "+contextHeader); err != nil {
				return nil, err
			}
		default:
			return nil, problem.Invalid("query", paramContext+" and "+caller.MaxPrice, httpapi.Clip(name))
		}
	}
	text, err := httpapi.Text(r.ResponseWriter, r.Request, canon.DefaultLimits().Bytes)
	if err != nil {
		return nil, err
	}
	r.endReadDeadline()
	q.Message.Parts = []task.Part{{Kind: task.Text, Text: text}}
	return q, checkSize("body", text)
}

// checkSize refuses a text that no envelope can have.
func checkSize(field, text string) error {
	if size := len(canon.AppendString(nil, text)); size > maxText {
		return problem.New(problem.TooLarge, "%s: expected at most %d bytes in JSON, which escapes quotes and control characters, got %d", field, maxText, size)
	}
	return nil
}

// checkContext refuses a context that no header can name, and one that a guest made up: each of
// its messages would begin a conversation of its own. where says where an answer has the name.
func (d *api) checkContext(r *request, name, where string) error {
	if len(name) > envelope.MaxIDBytes || strings.ContainsFunc(name, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return problem.Invalid(paramContext, fmt.Sprintf("one name of at most %d visible ASCII characters", envelope.MaxIDBytes), httpapi.Clip(name))
	}
	if name == "" || r.payer != nil || r.plain() == vacants.PlainShared {
		return nil
	}
	own, err := d.Guests.Own(r.Context(), r.vacant.ID, name)
	if err == nil && !own {
		err = problem.Invalid(paramContext, where+" of an answer of this vacant; only a key of an account may choose names", httpapi.Clip(name))
	}
	return err
}

func (d *api) answerText(r *request, q *a2awire.SendRequest) error {
	turn, err := d.turn(r, q)
	if err != nil {
		return err
	}
	t, err := d.run(r, turn)
	if err != nil {
		return err
	}
	h := r.ResponseWriter.Header()
	h.Set(contextHeader, t.Context)
	if err := failureOf(&t.Status); err != nil {
		return err
	}
	if r.cut = t.Status.Cut(); r.cut != "" {
		h.Set(cutHeader, string(r.cut))
	}
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Type", mediaText+"; charset=utf-8")
	httpapi.Send(r.ResponseWriter, http.StatusOK, []byte(textOfStatus(&t.Status)))
	d.log(r, "ok", http.StatusOK, nil)
	return nil
}

func (d *api) streamText(r *request, q *a2awire.SendRequest) error {
	turn, err := d.turn(r, q)
	if err != nil {
		return err
	}
	ref, done, err := d.begin(r, turn)
	if err != nil {
		return err
	}
	defer func() { <-done }() // see streamMessage
	r.ResponseWriter.Header().Set(contextHeader, turn.Message.Context)
	return d.stream(&sse{r: r, ref: ref, as: &textEvents{}}, 0, d.Tasks.FollowTurn)
}

// failureOf returns why a turn ended without an answer, or nil if it did not.
func failureOf(s *task.Status) error {
	if s.Failure == "" {
		return nil
	}
	refusal := httpapi.Refusal{Code: s.Failure, Detail: textOfStatus(s)}
	return refusal.Problem()
}

// textOfStatus returns the text of a status's message.
func textOfStatus(s *task.Status) string {
	var b strings.Builder
	if s.Message != nil {
		for _, p := range s.Message.Parts {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}

// textEvents renders the events of a turn as server-sent events of text: the pieces of the answer,
// then the event done, whose data is the cut of the answer, or the event error.
type textEvents struct {
	started bool // a piece was sent
	cr      bool // the last piece ended with a carriage return
	ended   bool
}

func (t *textEvents) event(e *task.Event) ([]byte, error) {
	return append([]byte{}, t.render(e)...), nil
}

func (t *textEvents) render(e *task.Event) []byte {
	switch {
	case e.Artifact != nil && e.Artifact.Artifact.ID == task.ResponseArtifact:
		text := ""
		for _, p := range e.Artifact.Artifact.Parts {
			text += p.Text
		}
		return t.piece(text, e.Artifact.Append)
	case e.Status == nil || e.Status.State.Active():
		return nil
	}
	t.ended = true
	if e.Status.Failure != "" {
		return appendEvent(nil, "error", textOfStatus(e.Status))
	}
	var last []byte
	if !t.started {
		last = t.piece(textOfStatus(e.Status), true)
	}
	return appendEvent(last, "done", string(e.Status.Cut()))
}

// piece renders a piece of the answer. Unless it follows the pieces before, it is the whole answer
// in their place.
func (t *textEvents) piece(text string, follows bool) []byte {
	name := ""
	if t.started && !follows {
		name, t.cr = "replace", false
	}
	// A line of an event ends at a carriage return too, so that an answer with one could otherwise
	// write events of its own.
	cr := strings.HasSuffix(text, "\r")
	if t.cr {
		text = strings.TrimPrefix(text, "\n")
	}
	t.cr = cr
	if text == "" {
		return nil
	}
	t.started = true
	return appendEvent(nil, name, text)
}

// end renders the end of a stream; err is why it ends early.
func (t *textEvents) end(err error) []byte {
	switch {
	case err != nil:
		return appendEvent(nil, "error", textOf(err))
	case !t.ended:
		return appendEvent(nil, "error", "the stream ended before the answer")
	}
	return nil
}

// appendEvent appends a server-sent event. "" names the event message, the default.
func appendEvent(b []byte, name, data string) []byte {
	if name != "" {
		b = append(append(append(b, "event: "...), name...), '\n')
	}
	for line := range strings.SplitSeq(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(data), "\n") {
		b = append(append(append(b, "data: "...), line...), '\n')
	}
	return append(b, '\n')
}
