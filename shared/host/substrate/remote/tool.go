package remote

import (
	"errors"
	"regexp"
	"strconv"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Providers identify a tool by its name or by its position in the request, for example
// tools.3.custom.input_schema (Anthropic), tools[3].function.parameters (OpenAI) or
// tools[0].function_declarations[3] (Gemini).
var (
	toolNamePattern     = regexp.MustCompile(`[A-Za-z0-9_-]+`)
	toolPositionPattern = regexp.MustCompile(`(?i)\b(?:tools|function_?declarations)(?:\.|\[)([0-9]{1,3})\b`)
)

// AddToolName adds the name of a tool to err if the server rejected the request for r with a
// message that names one of r's tools. The operator can then exclude the tool. Otherwise,
// AddToolName returns err unchanged.
func AddToolName(r *substrate.Request, message string, err error) error {
	var agentErr *call.AgentError
	name := findToolName(r.Tools, message)
	if name == "" || rejectionBody(err) == "" || !errors.As(err, &agentErr) {
		return err
	}
	withToolName := *agentErr
	withToolName.Err = problem.New(problem.AsError(err).Kind, "%s, which names the tool %s: the model may not accept the schema of the tool; add the tool to disallowed_tools to omit it", problem.AsError(err).Text(), name)
	return &withToolName
}

func findToolName(tools []substrate.Tool, message string) string {
	for _, word := range toolNamePattern.FindAllString(message, -1) {
		for _, t := range tools {
			if t.Name == word {
				return word
			}
		}
	}
	name := ""
	for _, position := range toolPositionPattern.FindAllStringSubmatch(message, -1) {
		if i, err := strconv.Atoi(position[1]); err == nil && i < len(tools) {
			name = tools[i].Name // the last position is used, for example 3 in tools[0].function_declarations[3]
		}
	}
	return name
}
