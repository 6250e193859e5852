// Package text serves callers that use no protocol. They send a plain text, and get a plain text or
// a stream of its pieces.
package text

import (
	"net/http"
	"net/url"
	"reflect"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/caller"
	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/message"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/front/plain"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

const mediaText = "text/plain"

// TextRequest is a plain text for a vacant.
type TextRequest struct {
	Vacant         string `path:"vacant"`
	Context        string `query:"context"`
	MaxPrice       string `query:"max_price"`
	MaxPriceHeader string `header:"Vacancy-Max-Price"`
	Text           string `body:"text"`
}

func Operations() []op.Spec {
	return []op.Spec{{
		Method: "POST", Path: "/v/{vacant}" + message.TextPath, Status: http.StatusOK, Doc: "asks a vacant with a text, and answers with a text",
		Access: op.Access{Anybody: true, Key: billing.CallRequirement()}, In: reflect.TypeFor[TextRequest](), ErrorType: reflect.TypeFor[string](),
		RequestMedia: []string{mediaText}, AnswerMedia: []string{mediaText, plain.MediaEvents}, AnswerDoc: "The answer, or its pieces as server-sent events and the event done.",
	}}
}

const (
	// The client sends contextHeader as the parameter context of the next message.
	contextHeader = "Vacancy-Context"
	// cutHeader contains the reason why the answer is incomplete.
	cutHeader = "Vacancy-Cut"
)

const contextParam = "context"

func Handler(s *plain.Service) func(*plain.Exchange) error {
	return func(x *plain.Exchange) error {
		if err := x.OpenByPath(); err != nil {
			return err
		}
		x.Line.Operation, x.Line.IsCall = "text", true
		if x.Method != http.MethodPost {
			return x.MethodError(http.MethodPost)
		}
		if err := x.CheckKeylessAccess(); err != nil {
			return err
		}
		if err := x.IdentifyPayer(); err != nil {
			return err
		}
		m := task.Message{Role: task.User}
		query, err := url.ParseQuery(x.URL.RawQuery)
		if err != nil {
			return problem.Invalid("query", contextParam+" and "+caller.MaxPriceParam+", escaped", httpapi.QuoteTruncated(x.URL.RawQuery))
		}
		for name, values := range query {
			switch name {
			case caller.MaxPriceParam: // parsed by caller.ParseCredential
			case contextParam:
				m.Context = values[0]
				if err := x.CheckContext(x.Context(), strings.Join(values, ", "), "the "+contextHeader); err != nil {
					return err
				}
			default:
				return problem.Invalid("query", contextParam+" and "+caller.MaxPriceParam, httpapi.QuoteTruncated(name))
			}
		}
		text, err := httpapi.ReadText(x.ResponseWriter, x.Request, canon.DefaultLimits().Bytes)
		if err != nil {
			return err
		}
		x.ClearReadDeadline()
		m.Parts = []task.Part{{Kind: task.Text, Text: text}}
		if err := plain.CheckText("body", text); err != nil {
			return err
		}
		isStream := strings.Contains(strings.ToLower(strings.Join(x.Request.Header.Values("Accept"), ",")), plain.MediaEvents)
		if !isStream && s.MaxWait > 0 && x.IsSlow() {
			return problem.New(problem.Malformed, "this vacant may take %s, and an answer must begin within 30 s: send Accept: text/event-stream", x.Vacant.CallTimeout)
		}
		send := func() error {
			turn, err := x.NewTurn(x.Context(), m, plain.CheckParts(&m, nil))
			if err == nil {
				err = x.SetPayment(x.Context(), turn, x.Request, &x.Line)
			}
			if err != nil {
				return err
			}
			h := x.ResponseWriter.Header()
			if isStream {
				ref, done, err := x.BeginTurn(x.Context(), turn)
				if err != nil {
					return err
				}
				// A function may not run code after its handler has returned, but the turn
				// continues without its client.
				defer func() { <-done }()
				h.Set(contextHeader, turn.Message.Context)
				return x.NewStream(&textEvents{}).Follow(ref, 0, s.Tasks.FollowTurn)
			}
			t, err := x.Run(x.Context(), turn, plain.WaitOptions{})
			if x.IsSlow() {
				// A turn may take minutes longer than the write deadline of the request.
				x.ExtendWriteDeadline()
			}
			if err != nil {
				return err
			}
			h.Set(contextHeader, t.Context)
			if err := plain.StatusError(&t.Status); err != nil {
				return err
			}
			if x.Line.CutReason = t.Status.CutReason(); x.Line.CutReason != "" {
				h.Set(cutHeader, string(x.Line.CutReason))
			}
			h.Set("Cache-Control", "no-store")
			h.Set("Content-Type", mediaText+"; charset=utf-8")
			httpapi.Send(x.ResponseWriter, http.StatusOK, []byte(plain.StatusText(&t.Status)))
			x.Log("ok", http.StatusOK, nil)
			return nil
		}
		if isStream {
			return s.Streams.Run(&x.Caller, send)
		}
		return send()
	}
}

// textEvents renders the pieces of an answer, and then the event done or error. The data of done is
// the call.CutReason.
type textEvents struct {
	started    bool
	endsWithCR bool // the last piece ended with a carriage return
	ended      bool
}

func (t *textEvents) RenderEvent(n task.NumberedEvent) ([]byte, error) {
	// An empty result begins the stream, unlike nil.
	switch a, status := n.Artifact, n.Status; {
	case a != nil && a.Artifact.ID == task.ResponseArtifact:
		return t.renderPiece(plain.PartsText(a.Artifact.Parts), a.Append), nil
	case status == nil || status.State.IsActive():
		return []byte{}, nil
	case status.FailureKind != "":
		t.ended = true
		return appendEvent(nil, "error", plain.StatusText(status)), nil
	default:
		t.ended = true
		lastEvents := []byte{}
		if !t.started {
			lastEvents = t.renderPiece(plain.StatusText(status), true)
		}
		return appendEvent(lastEvents, "done", string(status.CutReason())), nil
	}
}

// renderPiece renders a piece of the answer. If isAppended is false, the piece replaces earlier
// pieces.
func (t *textEvents) renderPiece(text string, isAppended bool) []byte {
	name := ""
	if t.started && !isAppended {
		name, t.endsWithCR = "replace", false
	}
	// A carriage return ends a line of an event. An answer could otherwise contain events of its
	// own.
	endsWithCR := strings.HasSuffix(text, "\r")
	if t.endsWithCR {
		text = strings.TrimPrefix(text, "\n")
	}
	t.endsWithCR = endsWithCR
	if text == "" {
		return []byte{}
	}
	t.started = true
	return appendEvent(nil, name, text)
}

func (t *textEvents) RenderEnd(err error) []byte {
	switch {
	case err != nil:
		return appendEvent(nil, "error", problem.AsError(err).Text())
	case !t.ended:
		return appendEvent(nil, "error", "the stream ended before the answer")
	}
	return nil
}

func appendEvent(b []byte, name, data string) []byte {
	if name != "" {
		b = append(append(append(b, "event: "...), name...), '\n')
	}
	for line := range strings.SplitSeq(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(data), "\n") {
		b = append(append(append(b, "data: "...), line...), '\n')
	}
	return append(b, '\n')
}
