// Package mock is a substrate for trials of agents without a model. It answers with a script from
// its agent's instructions, or with the message itself if there is no script.
//
// The script is a code block with the language mock. Each block of lines is a turn. Lines that
// contain only --- separate the turns, and the last turn is repeated. Each line is an event:
//
//	thought: TEXT
//	text: TEXT
//	call: TOOL {"argument": "value"}
//	usage: IN OUT [CACHED]
//	wait: 200ms
//	fail: busy, unavailable, refused or misconfigured
//
// TEXT may be a JSON string if it contains line breaks. In texts and arguments, {input} is replaced
// with the message and {result} with the last results of the tools.
package mock

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/retry"
)

// Kinds returns the kind mock. Its argument may be the name of a model.
func Kinds() substrate.Kinds {
	return substrate.Kinds{substrate.KindMock: func(string) (substrate.Substrate, error) { return mock{}, nil }}
}

type mock struct{}

func (mock) Infer(ctx context.Context, r substrate.Request) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		s, turn := scene{}, 0
		for _, t := range r.Turns {
			switch t.Role {
			case substrate.Caller:
				s.input, turn = t.Text, 0
			case substrate.Tools:
				turn++
				s.result = ""
				for _, res := range t.Results {
					s.result += res.Text
				}
			}
		}
		end := substrate.Stop
		for _, line := range linesOf(r.System, turn) {
			if ctx.Err() != nil {
				yield(nil, substrate.EndedError(ctx, "the script"))
				return
			}
			e, err := s.event(ctx, line)
			if err != nil {
				yield(nil, err)
				return
			}
			if _, ok := e.(substrate.ToolCall); ok {
				end = substrate.Called
			}
			if e != nil && !yield(e, nil) {
				return
			}
		}
		yield(end, nil)
	}
}

func linesOf(system string, turn int) []string {
	_, script, ok := strings.Cut("\n"+system, "\n```mock\n")
	if !ok {
		return []string{"text: {input}"}
	}
	script, _, _ = strings.Cut(script, "\n```")
	turns := strings.Split(script, "\n---\n")
	var lines []string
	for line := range strings.Lines(turns[min(turn, len(turns)-1)]) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// scene contains the values to which a script refers, and the number of its calls.
type scene struct {
	input, result string
	calls         int
}

// event returns the event of a line of the script, or nil for a wait or an empty text.
func (s *scene) event(ctx context.Context, line string) (substrate.Event, error) {
	what, rest, _ := strings.Cut(line, ":")
	rest = strings.TrimSpace(rest)
	switch what {
	case "thought":
		return substrate.Thought(s.fill(rest)), nil
	case "text":
		if text := s.fill(rest); text != "" {
			return substrate.Text(text), nil
		}
		return nil, nil
	case "call":
		name, arguments, _ := strings.Cut(rest, " ")
		s.calls++
		return substrate.ToolCall{ID: fmt.Sprintf("call_%d", s.calls), Name: name, Arguments: s.inJSON(arguments)}, nil
	case "usage":
		var u substrate.Usage
		for i, field := range strings.Fields(rest) {
			n, err := strconv.Atoi(field)
			if err != nil || i > 2 {
				return nil, wrong(line)
			}
			*[]*int{&u.In, &u.Out, &u.Cached}[i] = n
		}
		return u, nil
	case "wait":
		d, err := time.ParseDuration(rest)
		if err != nil || d < 0 {
			return nil, wrong(line)
		}
		if retry.Sleep(ctx, d) != nil {
			return nil, substrate.EndedError(ctx, "the script")
		}
		return nil, nil
	case "fail":
		if kind, ok := failures[rest]; ok {
			return nil, &call.AgentError{Status: statuses[kind], Err: problem.New(kind, "the script contains a fail line")}
		}
	}
	return nil, wrong(line)
}

var failures = map[string]problem.Kind{
	"busy": problem.SubstrateBusy, "unavailable": problem.SubstrateUnavailable,
	"refused": problem.SubstrateRefused, "misconfigured": problem.SubstrateMisconfigured,
}

// statuses maps failures to the HTTP statuses that a real server would return.
var statuses = map[problem.Kind]int{
	problem.SubstrateBusy: http.StatusTooManyRequests, problem.SubstrateUnavailable: http.StatusServiceUnavailable,
	problem.SubstrateRefused: http.StatusOK, problem.SubstrateMisconfigured: http.StatusBadRequest,
}

func wrong(line string) error {
	return &problem.Error{Kind: problem.SubstrateMisconfigured, Field: "script of the mock", Want: "thought, text, call, usage, wait or fail", Got: fmt.Sprintf("%.80q", line)}
}

func (s *scene) fill(text string) string {
	var quoted string
	if strings.HasPrefix(text, `"`) && json.Unmarshal([]byte(text), &quoted) == nil {
		text = quoted
	}
	return strings.NewReplacer("{input}", s.input, "{result}", s.result).Replace(text)
}

func (s *scene) inJSON(arguments string) string {
	escape := func(text string) string {
		b, _ := json.Marshal(text)
		return string(b[1 : len(b)-1])
	}
	return strings.NewReplacer("{input}", escape(s.input), "{result}", escape(s.result)).Replace(arguments)
}
