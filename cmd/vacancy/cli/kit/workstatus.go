package kit

import (
	"encoding/json"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/workclient"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

const maxFailureLength = 2000

// WorkStatusPrinter returns a function that prints the changes of a worker's connection and the end
// of each turn.
func (a *App) WorkStatusPrinter(name string, printf func(format string, args ...any)) func(workclient.Status) {
	isConnected, failure := false, ""
	return func(s workclient.Status) {
		switch {
		case s.Err != nil:
			isConnected = false
			if text := problem.AsError(s.Err).Text(); text != failure {
				failure = text
				printf("%s is not connected: %s; connecting again", EscapeLine(name), EscapeLine(text))
			}
		case !isConnected:
			isConnected, failure = true, ""
			printf("%s is connected", EscapeLine(name))
		}
		if !s.Ended {
			return
		}
		verdict := "answered"
		if s.Failure != nil {
			verdict = "failed: " + EscapeControls(Truncate(problem.PlainMessage(s.Failure), maxFailureLength), "\n\t")
		}
		caller := "?"
		var question struct {
			Caller identity.ID `json:"caller"`
		}
		if json.Unmarshal(s.Turn.Question, &question) == nil {
			caller = question.Caller.Short()
		}
		printf("%s  %s  %s  %s; %d running", a.Now().Local().Format(time.TimeOnly), EscapeLine(name), caller, verdict, s.Running)
	}
}
