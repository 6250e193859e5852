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
// tools[0].function_declarations[3].
var (
	toolNamePattern     = regexp.MustCompile(`[A-Za-z0-9_-]+`)
	toolPositionPattern = regexp.MustCompile(`(?i)\b(?:tools|function_?declarations)(?:\.|\[)([0-9]{1,3})\b`)
)

// AddToolName adds the name of a tool to err if the server's message names the tool. The operator
// can then exclude the tool.
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
			name = tools[i].Name // the last position is the tool's
		}
	}
	return name
}
