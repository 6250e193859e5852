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

func Kinds() substrate.Kinds {
	return substrate.Kinds{substrate.KindMock: func(string) (substrate.Substrate, error) { return mock{}, nil }}
}

type mock struct{}

func (mock) Infer(ctx context.Context, r substrate.Request) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		s, turn := scriptState{}, 0
		for _, t := range r.Turns {
			switch t.Role {
			case substrate.RoleCaller:
				s.input, turn = t.Text, 0
			case substrate.RoleTools:
				turn++
				s.result = ""
				for _, res := range t.Results {
					s.result += res.Text
				}
			}
		}
		end := substrate.FinishStop
		for _, line := range scriptLines(r.System, turn) {
			if ctx.Err() != nil {
				yield(nil, substrate.ContextError(ctx, "the script"))
				return
			}
			e, err := s.runLine(ctx, line)
			if err != nil {
				yield(nil, err)
				return
			}
			if _, ok := e.(substrate.ToolCall); ok {
				end = substrate.FinishToolUse
			}
			if e != nil && !yield(e, nil) {
				return
			}
		}
		yield(end, nil)
	}
}

func scriptLines(system string, turn int) []string {
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

type scriptState struct {
	input, result string
	callCount     int
}

func (s *scriptState) runLine(ctx context.Context, line string) (substrate.Event, error) {
	command, argument, _ := strings.Cut(line, ":")
	argument = strings.TrimSpace(argument)
	switch command {
	case "thought":
		return substrate.Thought(s.fillText(argument)), nil
	case "text":
		if text := s.fillText(argument); text != "" {
			return substrate.Text(text), nil
		}
		return nil, nil
	case "call":
		name, arguments, _ := strings.Cut(argument, " ")
		s.callCount++
		return substrate.ToolCall{ID: fmt.Sprintf("call_%d", s.callCount), Name: name, Arguments: s.fillArguments(arguments)}, nil
	case "usage":
		var u substrate.Usage
		for i, field := range strings.Fields(argument) {
			n, err := strconv.Atoi(field)
			if err != nil || i > 2 {
				return nil, lineError(line)
			}
			*[]*int{&u.InputTokens, &u.OutputTokens, &u.CachedTokens}[i] = n
		}
		return u, nil
	case "wait":
		d, err := time.ParseDuration(argument)
		if err != nil || d < 0 {
			return nil, lineError(line)
		}
		if retry.Sleep(ctx, d) != nil {
			return nil, substrate.ContextError(ctx, "the script")
		}
		return nil, nil
	case "fail":
		if kind, ok := failureKinds[argument]; ok {
			return nil, &call.AgentError{Status: failureStatuses[kind], Err: problem.New(kind, "the script contains a fail line")}
		}
	}
	return nil, lineError(line)
}

var failureKinds = map[string]problem.Kind{
	"busy": problem.SubstrateBusy, "unavailable": problem.SubstrateUnavailable,
	"refused": problem.SubstrateRefused, "misconfigured": problem.SubstrateMisconfigured,
}

var failureStatuses = map[problem.Kind]int{
	problem.SubstrateBusy: http.StatusTooManyRequests, problem.SubstrateUnavailable: http.StatusServiceUnavailable,
	problem.SubstrateRefused: http.StatusOK, problem.SubstrateMisconfigured: http.StatusBadRequest,
}

func lineError(line string) error {
	return &problem.Error{Kind: problem.SubstrateMisconfigured, Field: "script of the mock", Want: "thought, text, call, usage, wait or fail", Got: fmt.Sprintf("%.80q", line)}
}

func (s *scriptState) fillText(text string) string {
	var unquoted string
	if strings.HasPrefix(text, `"`) && json.Unmarshal([]byte(text), &unquoted) == nil {
		text = unquoted
	}
	return strings.NewReplacer("{input}", s.input, "{result}", s.result).Replace(text)
}

func (s *scriptState) fillArguments(arguments string) string {
	escape := func(text string) string {
		b, _ := json.Marshal(text)
		return string(b[1 : len(b)-1])
	}
	return strings.NewReplacer("{input}", escape(s.input), "{result}", escape(s.result)).Replace(arguments)
}
