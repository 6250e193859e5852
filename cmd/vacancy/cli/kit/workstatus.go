package kit

import (
	"encoding/json"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/workclient"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// maxFailure limits the characters of a failure's text.
const maxFailure = 2000

// WorkStatus returns a function that prints when a worker connects or loses its connection, and when a turn ends, with
// the number of turns that still run.
func (a *App) WorkStatus(name string, say func(format string, args ...any)) func(workclient.Status) {
	connected, failure := false, ""
	return func(s workclient.Status) {
		switch {
		case s.Err != nil:
			connected = false
			if text := problem.AsError(s.Err).Text(); text != failure {
				failure = text
				say("%s is not connected: %s; connecting again", Printable(name), Printable(text))
			}
		case !connected:
			connected, failure = true, ""
			say("%s is connected", Printable(name))
		}
		if !s.Ended {
			return
		}
		verdict := "answered"
		if s.Failure != nil {
			verdict = "failed: " + EscapeControls(Clip(problem.PlainMessage(s.Failure), maxFailure), "\n\t")
		}
		caller := "?"
		var question struct {
			Caller identity.ID `json:"caller"`
		}
		if json.Unmarshal(s.Turn.Question, &question) == nil {
			caller = question.Caller.Short()
		}
		say("%s  %s  %s  %s; %d running", a.Now().Local().Format(time.TimeOnly), Printable(name), caller, verdict, s.Running)
	}
}
