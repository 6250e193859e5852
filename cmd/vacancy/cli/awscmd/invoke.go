package awscmd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud"
	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
	"github.com/vacancy-host/vacancy/shared/agent/datadir"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func invokeCommand(a *kit.App) *cobra.Command {
	var stageName string
	cmd := &cobra.Command{
		Use:   "invoke FUNCTION EVENT",
		Short: "Run a deployed function with an event from a file",
		Long: `Run a function of a stage with the event in the file EVENT, and print its answer. EVENT "-" is
standard input. The command uses your AWS credentials and not the function's URL. The last
lines of the function's log go to standard error, in the form of "vacancy tail --host aws".

FUNCTION is the name of a function of the host, for example message or sweeper, or a physical
name. If the name is unknown, the error lists all names.

The event is sent once, and its effects are real. The exit code is 0 for an answer. It is 1 if
the function failed or its HTTP answer has a status of 500 or more. It is 5 for a status of
400 to 499.`,
		Example: `  vacancy invoke sweeper events/sweeper-schedule.json
  vacancy invoke admin events/admin-no-key.json --stage prod --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return invoke(a, cmd.Context(), stageName, args[0], args[1])
		},
	}
	kit.AddStageFlag(cmd.Flags(), &stageName)
	return cmd
}

type invokeResult struct {
	Function string          `json:"function"`
	Status   int             `json:"status,omitempty"` // status of an HTTP answer
	Answer   json.RawMessage `json:"answer"`
	Error    string          `json:"error,omitempty"`
	Log      []string        `json:"log"`
}

func (r invokeResult) Print(w io.Writer) { fmt.Fprintf(w, "%s\n", r.Answer) }

func invoke(a *kit.App, ctx context.Context, stageFlag, function, path string) error {
	name, err := a.StageName(stageFlag)
	if err != nil {
		return err
	}
	if !strings.HasPrefix(function, "vacancy-") {
		if err := kit.CheckFunction(function); err != nil {
			return err
		}
		function = stage.FullName(name, function)
	}
	// RequireAWS may replace this process by vacancy-aws, which must then read the event from
	// standard input. So RequireAWS is called before the event is read.
	if err := a.RequireAWS(); err != nil {
		return err
	}
	event, err := datadir.ReadInput(path, a.In)
	if err != nil {
		return err
	}
	if !json.Valid(event) {
		return problem.New(problem.Usage, "%s is not JSON: an event is a JSON document", path)
	}
	_, c, err := a.OpenStage(ctx, name)
	if err != nil {
		return err
	}
	answer, err := c.Invoke(ctx, function, event)
	if problem.Is(err, problem.NotFound) {
		return kit.WithHint(problem.Wrap(problem.NotFound, err, "there is no function %s in Region %s", function, c.Region()), "vacancy deploy --stage %s", name)
	}
	if err != nil {
		return err
	}
	r := invokeResult{Function: function, Answer: joinStreamedAnswer(answer.Payload), Error: answer.FunctionError, Log: []string{}}
	if !json.Valid(r.Answer) {
		if r.Answer, err = json.Marshal(string(answer.Payload)); err != nil {
			return err
		}
	}
	for line := range strings.Lines(answer.Log) {
		text := strings.TrimRight(line, "\n")
		r.Log = append(r.Log, text)
		l := parseLine(cloud.LogLine{Group: function, Text: text})
		l.Time = findTimestamp(l.fields) // Lambda returns only the text of the last log lines
		a.PrintNote("%s", l.format(stage.FullName(name, "")))
	}
	var httpAnswer struct {
		StatusCode int `json:"statusCode"` // 0 if the event is not a Function URL request
	}
	_ = json.Unmarshal(r.Answer, &httpAnswer) // an answer that is not an object has no status
	r.Status = httpAnswer.StatusCode
	if err := a.PrintResult(r); err != nil {
		return err
	}
	return r.statusError()
}

// joinStreamedAnswer converts a streamed HTTP answer into an ordinary answer. A streamed answer
// consists of the status and headers, eight NUL bytes, and the body.
func joinStreamedAnswer(payload []byte) []byte {
	head, body, isStreamed := bytes.Cut(payload, make([]byte, 8))
	var answer map[string]any
	if !isStreamed || json.Unmarshal(head, &answer) != nil {
		return payload
	}
	answer["body"] = string(body)
	b, err := json.Marshal(answer)
	if err != nil {
		return payload
	}
	return b
}

func findTimestamp(fields map[string]any) time.Time {
	if timestamp, err := time.Parse(time.RFC3339Nano, kit.FieldText(fields["time"])); err == nil {
		return timestamp.UTC()
	}
	// The line of a call contains the time only in its metrics.
	block, _ := fields["_aws"].(map[string]any)
	if ms, ok := block["Timestamp"].(float64); ok {
		return time.UnixMilli(int64(ms)).UTC()
	}
	return time.Time{}
}

func (r invokeResult) statusError() error {
	// The answer itself was already printed.
	switch {
	case r.Error != "":
		return &kit.ReportedError{}
	case r.Status >= 500:
		return &kit.ReportedError{}
	case r.Status >= 400:
		return &kit.ReportedError{ExitCode: problem.ExitRefused}
	}
	return nil
}
