package asl_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/infra/asl"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/host/family/graduation"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
)

var update = flag.Bool("update", false, "write the golden file again")

func rendered(t *testing.T) string {
	t.Helper()
	text, err := asl.GateMachine(gate.Steps()).JSON()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestTheMachineIsAsTheGoldenFileShows(t *testing.T) {
	path, got := filepath.Join("..", "testdata", "gate.asl.json"), rendered(t)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; go test ./infra/asl -update writes it again):\n%s", path, diff)
	}
}

// machine is the state machine as Step Functions reads it.
type machine struct {
	StartAt        string
	TimeoutSeconds int
	States         map[string]state
}

type state struct {
	Type, Resource, Next, InputPath, ResultPath string
	TimeoutSeconds                              int
	Retry                                       []struct {
		ErrorEquals []string
		MaxAttempts int
	}
	Catch []struct {
		ErrorEquals      []string
		ResultPath, Next string
	}
}

func read(t *testing.T) (m machine) {
	t.Helper()
	if err := json.Unmarshal([]byte(rendered(t)), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// A successful execution has a start, each step, and an end.
func TestASuccessWalksTheStepsInTheirOrderAndNoOtherState(t *testing.T) {
	m := read(t)
	var walked, want []string
	for at := m.StartAt; m.States[at].Type == "Task"; at = m.States[at].Next {
		walked = append(walked, at)
	}
	for _, s := range gate.Steps() {
		want = append(want, string(s.Name))
	}
	if diff := cmp.Diff(want, walked); diff != "" {
		t.Errorf("states from the start (-want +got):\n%s", diff)
	}
	if transitions := 1 + len(walked) + 1; transitions > 7 {
		t.Errorf("a success takes %d transitions, want at most 7", transitions)
	}
}

// Each step catches the gate's refusals by name, and the execution succeeds. It
// catches all other errors too, and the execution fails.
func TestEachRefusalOfAStepIsCaughtByNameAndEndsWell(t *testing.T) {
	m := read(t)
	ends := func(at string) (visited []string) {
		for ; at != ""; at = m.States[at].Next {
			visited = append(visited, m.States[at].Type)
		}
		return visited
	}
	for _, s := range gate.Steps() {
		type catch struct{ Errors, Ends []string }
		var want, all []catch
		for _, k := range s.RefusalKinds {
			want = append(want, catch{[]string{gate.ErrorName(k)}, []string{"Task", "Succeed"}})
		}
		want = append(want, catch{[]string{"States.ALL"}, []string{"Task", "Fail"}})
		got := m.States[string(s.Name)].Catch
		for _, c := range got {
			all = append(all, catch{c.ErrorEquals, ends(c.Next)})
		}
		if diff := cmp.Diff(want, all); diff != "" {
			t.Fatalf("%s catches, and what follows (-want +got):\n%s", s.Name, diff)
		}
		for _, c := range got {
			if c.ResultPath != "$.error" || m.States[c.Next].InputPath != "" {
				t.Errorf("%s: what was caught lies at %s, and the recorder sees %q of it all, want the state and the error", s.Name, c.ResultPath, m.States[c.Next].InputPath)
			}
		}
	}
}

// A retried error is never a verdict of a step: a refusal is final.
func TestRefusalsAreNotRetried(t *testing.T) {
	for name, s := range read(t).States {
		for _, r := range s.Retry {
			for _, e := range r.ErrorEquals {
				if kind, ours := gate.ParseErrorName(e); ours && kind != problem.Unavailable || e == "States.ALL" || e == "States.TaskFailed" {
					t.Errorf("%s tries %s again", name, e)
				}
			}
		}
	}
}

// The timeouts are nested: the function's ends first, then the task's, then the
// machine's, and only then is the attempt overdue. A hang is thus reported by
// what is closest to it.
func TestInnermostTimeoutComesFirst(t *testing.T) {
	m := read(t)
	for name, s := range m.States {
		if s.Type == "Task" && s.TimeoutSeconds <= functions.StepSeconds {
			t.Errorf("task %s ends after %d seconds, its function after %d, want it to end first", name, s.TimeoutSeconds, functions.StepSeconds)
		}
		if s.TimeoutSeconds >= m.TimeoutSeconds {
			t.Errorf("task %s ends after %d seconds, the machine after %d", name, s.TimeoutSeconds, m.TimeoutSeconds)
		}
	}
	if whole := time.Duration(m.TimeoutSeconds) * time.Second; whole >= graduation.AttemptTimeout {
		t.Errorf("the machine ends after %v, want it to end before an attempt is due, after %v", whole, graduation.AttemptTimeout)
	}
}

func TestEachTaskNamesOneFunction(t *testing.T) {
	if text := rendered(t); strings.Count(text, "${") != len(gate.Steps())+2 {
		t.Errorf("%d placeholders, want one for each step and two for the recorder:\n%s", strings.Count(text, "${"), text)
	}
}
