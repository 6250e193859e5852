package dispatch_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch/dispatchtest"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
)

// streaming is a wire to a host that streams calls. Open calls stream before it ends the stream.
type streaming struct {
	*dispatchtest.Wire
	stream func() (status int, broken error)
	asked  []string
}

func (s *streaming) Open(_ context.Context, r outbound.Request) (*http.Response, error) {
	s.asked = append(s.asked, r.URL+" "+string(r.Body))
	status, broken := s.stream()
	body := io.MultiReader(strings.NewReader("data: {}\n\n"), errReader{broken})
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(body)}, nil
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) {
	if r.err == nil {
		return 0, io.EOF
	}
	return 0, r.err
}

// answer answers the pending call of w.
func (w *world) answer() {
	for _, p := range w.host.Pairs {
		w.host.Answer(p, p.Rows[0])
	}
}

// An answer arrives when its stream ends, however long the call takes, without polls in between.
func TestAPendingCallIsStreamed(t *testing.T) {
	w := newWorld(t)
	w.host.Behaviour = func(*envelope.Envelope) string { return "hang" }
	web := &streaming{Wire: w.wire, stream: func() (int, error) { w.clock.Add(7 * time.Second); w.answer(); return 200, nil }}
	w.Transport, w.MaxPrice = web, new(int64)
	res := w.answers(t, "hi")
	wantPaths(t, w, "send", "send", "send")
	if want := 7*time.Second + 200*time.Millisecond; res.Duration != want || res.Resumed { // the first reply is lost
		t.Errorf("Call() took %v, resumed %v, want %v and a call of this run", res.Duration, res.Resumed, want)
	}
	if len(web.asked) != 1 || !strings.HasPrefix(web.asked[0], strings.TrimSuffix(w.host.Target().URL, "/a2a/message/send")) ||
		!strings.Contains(web.asked[0], "?max_price=0 ") || !strings.Contains(web.asked[0], "SendStreamingMessage") {
		t.Errorf("streams = %q", web.asked)
	}
}

// A stream that the host refuses is asked for once, and one that breaks or ends early each second time.
func TestAPendingCallWithoutAStreamIsSentAgain(t *testing.T) {
	for name, tt := range map[string]struct {
		status  int
		broken  error
		streams int
	}{
		"refused": {404, nil, 1}, "broken": {200, errors.New("reset"), 3}, "early": {200, nil, 3},
	} {
		w := newWorld(t)
		w.host.Behaviour = func(*envelope.Envelope) string { return "hang" }
		web := &streaming{Wire: w.wire, stream: func() (int, error) { return tt.status, tt.broken }}
		w.Transport = web
		w.wire.Fault = func(string, *envelope.Envelope) string {
			if len(w.wire.Posts) == 6 {
				w.answer()
			}
			return ""
		}
		w.answers(t, "hi")
		if len(web.asked) != tt.streams {
			t.Errorf("%s: %d streams, want %d", name, len(web.asked), tt.streams)
		}
	}
}

// The host's word bounds the wait, not Time and not Patience.
func TestAPendingCallIsWaitedForUntilItIsDue(t *testing.T) {
	w := newWorld(t)
	w.host.Behaviour = func(*envelope.Envelope) string { return "hang" }
	w.host.AnswerTimeout = 5 * time.Minute
	w.MaxTime, w.AnswerTimeout, w.MaxDueWait = time.Minute, 5*time.Second, time.Hour
	var due []time.Time
	w.OnDue = func(at time.Time) { due = append(due, at) }
	res := w.fails(t, "hi", problem.BehaviourFailed)
	if took := res.Duration; res.Fate != dispatch.Unanswered || took < 5*time.Minute || took > 5*time.Minute+10*time.Second {
		t.Errorf("Call() = %v after %v, want that the host voided the call after 5m", res.Fate, took)
	}
	if len(due) == 0 || !due[0].Equal(dispatchtest.Start.Add(5*time.Minute)) {
		t.Errorf("Waits got %v, want 5m after the start", due)
	}
	w = newWorld(t)
	w.host.Behaviour = func(*envelope.Envelope) string { return "hang" }
	w.host.AnswerTimeout = 5 * time.Minute
	w.AnswerTimeout, w.MaxDueWait = 5*time.Second, time.Minute
	res = w.fails(t, "hi", problem.Pending)
	if res.Duration > 70*time.Second {
		t.Errorf("Call() took %v, want MaxDueWait", res.Duration)
	}
}
