package dispatch_test

import (
	"context"
	"errors"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch/dispatchtest"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Check ends a call before anything is signed or sent. A kept call is sent again if Check allows
// it, or if the target accepted it before: then it costs nothing more.
func TestCheckRefusesACallBeforeItIsSigned(t *testing.T) {
	w := newWorld(t)
	refused := problem.New(problem.PaymentRequired, "nobody pays")
	var asked int
	var answer error = refused
	w.Check = func(_ context.Context, target dispatch.Target) error {
		if asked++; target.ID != w.host.ID() {
			t.Errorf("asked for %s", target.ID)
		}
		return answer
	}
	for what, call := range map[string]func() (dispatch.Result, error){
		"Call": func() (dispatch.Result, error) {
			return w.Call(t.Context(), w.host.Target(), dispatchtest.UserMessage("x"))
		},
		"Print": func() (dispatch.Result, error) {
			_, res, err := w.SignRequest(t.Context(), w.host.Target(), dispatchtest.UserMessage("x"))
			return res, err
		},
	} {
		res, err := call()
		if !errors.Is(err, refused) || res.RequestCount != 0 || res.MayBeAccepted || len(w.state(t).Acceptable) > 0 || w.state(t).CallKey != "" {
			t.Errorf("%s() = %v, %d posts, state %+v", what, err, res.RequestCount, w.state(t))
		}
	}
	answer = nil
	must(t, errorOf2(w.SignRequest(t.Context(), w.host.Target(), dispatchtest.UserMessage("x"))))
	asked, answer = 0, refused
	if res, err := w.Call(t.Context(), w.host.Target(), dispatchtest.UserMessage("x")); !errors.Is(err, refused) || !res.Resumed || res.Fate != "" || asked != 1 || w.state(t).CallKey == "" {
		t.Errorf("a kept call that was not accepted: %v, %+v, checked %d times", err, res, asked)
	}
	answer = nil
	body, _, err := w.SignRequest(t.Context(), w.host.Target(), dispatchtest.UserMessage("x"))
	if err == nil {
		_, _, err = w.Transport.Post(t.Context(), w.host.Target().URL, body)
	}
	must(t, err)
	answer = refused
	if res, err := w.Call(t.Context(), w.host.Target(), dispatchtest.UserMessage("x")); err != nil || !res.Resumed || res.Fate != dispatch.Answered {
		t.Errorf("a kept call that was accepted: %v, %+v", err, res)
	}
}
