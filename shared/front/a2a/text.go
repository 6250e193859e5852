package a2a

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/caller"
	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/plain"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
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

// text answers a text with a text, or with a stream of it. The sender is an account, or a guest.
func (d *api) text(r *plain.Exchange) error {
	if err := r.Find(); err != nil {
		return err
	}
	r.Line.What, r.Line.IsCall = textWhat, true
	if r.Method != http.MethodPost {
		return r.NotAllowed(http.MethodPost)
	}
	if err := r.CheckPlain(); err != nil {
		return err
	}
	if err := r.Identify(); err != nil {
		return err
	}
	m := task.Message{Role: task.User}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return problem.Invalid("query", paramContext+" and "+caller.MaxPrice+", escaped", httpapi.Clip(r.URL.RawQuery))
	}
	for name, values := range query {
		switch name {
		case caller.MaxPrice: // for Payment
		case paramContext:
			m.Context = values[0]
			if err := r.CheckContext(r.Context(), strings.Join(values, ", "), "the "+contextHeader); err != nil {
				return err
			}
		default:
			return problem.Invalid("query", paramContext+" and "+caller.MaxPrice, httpapi.Clip(name))
		}
	}
	text, err := httpapi.Text(r.ResponseWriter, r.Request, canon.DefaultLimits().Bytes)
	if err != nil {
		return err
	}
	r.EndReadDeadline()
	m.Parts = []task.Part{{Kind: task.Text, Text: text}}
	if err := plain.CheckText("body", text); err != nil {
		return err
	}
	isStream := strings.Contains(strings.ToLower(strings.Join(r.Request.Header.Values("Accept"), ",")), plain.MediaEvents)
	if !isStream && d.Hold > 0 && r.IsSlow() {
		return problem.New(problem.Malformed, "this vacant may take %s, and an answer must begin within 30 s: send Accept: text/event-stream", r.Vacant.Work)
	}
	answer := func() error {
		turn, err := r.Turn(r.Context(), m, plain.CheckParts(&m, &r.Vacant, nil))
		if err == nil {
			err = r.Admit(turn)
		}
		if err != nil {
			return err
		}
		h := r.ResponseWriter.Header()
		if isStream {
			ref, done, err := r.Begin(r.Context(), turn)
			if err != nil {
				return err
			}
			// A turn goes on without its client. The handler waits for it, because after the
			// handler nothing may run.
			defer func() { <-done }()
			h.Set(contextHeader, turn.Message.Context)
			return r.Stream(&textEvents{}).Follow(ref, 0, d.Tasks.FollowTurn)
		}
		t, err := r.Run(turn)
		if err != nil {
			return err
		}
		h.Set(contextHeader, t.Context)
		if err := plain.Failure(&t.Status); err != nil {
			return err
		}
		if r.Line.Cut = t.Status.Cut(); r.Line.Cut != "" {
			h.Set(cutHeader, string(r.Line.Cut))
		}
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Type", mediaText+"; charset=utf-8")
		httpapi.Send(r.ResponseWriter, http.StatusOK, []byte(plain.TextOfStatus(&t.Status)))
		r.Log("ok", http.StatusOK, nil)
		return nil
	}
	if isStream {
		return d.Streams.Hold(&r.Caller, answer)
	}
	return answer()
}

// textEvents renders the events of a turn as server-sent events of text: the pieces of the answer,
// then the event done, whose data is the cut of the answer, or the event error.
type textEvents struct {
	started bool // a piece was sent
	cr      bool // the last piece ended with a carriage return
	ended   bool
}

// Event implements plain.Rendering.
func (t *textEvents) Event(n task.Numbered) ([]byte, error) {
	return append([]byte{}, t.render(&n.Event)...), nil
}

func (t *textEvents) render(e *task.Event) []byte {
	switch {
	case e.Artifact != nil && e.Artifact.Artifact.ID == task.ResponseArtifact:
		return t.piece(plain.TextOf(e.Artifact.Artifact.Parts), e.Artifact.Append)
	case e.Status == nil || e.Status.State.Active():
		return nil
	}
	t.ended = true
	if e.Status.Failure != "" {
		return appendEvent(nil, "error", plain.TextOfStatus(e.Status))
	}
	var last []byte
	if !t.started {
		last = t.piece(plain.TextOfStatus(e.Status), true)
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

// End implements plain.Rendering.
func (t *textEvents) End(err error) []byte {
	switch {
	case err != nil:
		return appendEvent(nil, "error", problem.Of(err).Text())
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
