package message_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/front/message"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// verdicts returns the verdicts of the log's lines, and empties the log.
func (h *testServer) verdicts() (all []string) {
	for line := range strings.Lines(h.log.String()) {
		_, rest, _ := strings.Cut(line, "verdict=")
		verdict, _, _ := strings.Cut(rest, " ")
		all = append(all, verdict)
	}
	h.log.Reset()
	return all
}

// away is a directory whose store does not answer.
type away struct{}

func (away) Vacant(context.Context, identity.ID, bool) (call.Vacant, bool, error) {
	return call.Vacant{}, false, errors.Join(store.ErrUnavailable)
}

// The same bytes are refused, then the host fails, then they are answered: three rows, of which one is
// a call that was refused, one failed and one was answered. Sent again, they have no row.
func TestEachTryBeforeTheAcceptIsARowAndTheAnswerIsOne(t *testing.T) {
	h := newTestServer(t, noon, seed(1))
	_, body := signed(t, h, nil)
	send := func() { h.post(message.SendPath, "application/json", body) }
	h.states[h.sole()] = lifecycle.Hibernating
	send()
	h.states[h.sole()] = lifecycle.Active
	h.host.Directory = away{}
	send()
	h.host.Directory = h
	for range 3 {
		send()
	}
	if diff := cmp.Diff([]string{"not_accepting", "unavailable", "ok"}, h.verdicts()); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
	if got, want := h.host.Log.Counts(), (call.Counts{Answered: 1, Refused: 1, Failed: 1}); got != want {
		t.Errorf("Counts() = %+v, want %+v", got, want)
	}
}

func TestPollsAreNoRows(t *testing.T) {
	h := newTestServer(t, noon, seed(1))
	_, body := signed(t, h, nil)
	pending := message.SendFunc(func(context.Context, identity.ID, *envelope.Envelope, call.Credential, string) call.Outcome {
		return call.Outcome{State: call.Pending, Position: 1, Problem: problem.New(problem.Pending, "accepted")}
	})
	handler := message.Handler(message.Config{Host: h.host, Directory: h, Now: h.clock, Send: &pending, Log: slog.New(slog.NewTextHandler(h.log, nil))})
	for range 100_000 {
		r := httptest.NewRequest(http.MethodPost, message.SendPath, strings.NewReader(string(body)))
		r.Header.Set("Content-Type", "application/json")
		handler.ServeHTTP(httptest.NewRecorder(), r)
	}
	if got := h.host.Log.Counts(); got != (call.Counts{}) || h.log.Len() > 0 {
		t.Errorf("the counts after polls are %+v, and the log has %.200q, want zeros and an empty log", got, h.log)
	}
}
