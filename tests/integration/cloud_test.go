package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/smithy-go"

	"github.com/vacancy-host/vacancy/localstack/server"
	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/store/dynamo"
)

// operator is the operator's own access to AWS.
func operator(s *server.Server) awssdk.Config {
	if s == nil {
		return operatorConfig
	}
	return awssdk.Config{
		Region: server.Region, BaseEndpoint: &s.URL,
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	}
}

// stack is one of a stage's stacks; nil if it does not exist.
func (s *deployed) stack(ctx context.Context, part string) (*types.Stack, error) {
	name := "vacancy-" + s.Stage + "-" + part
	got, err := cloudformation.NewFromConfig(operator(s.aws)).DescribeStacks(ctx, &cloudformation.DescribeStacksInput{StackName: &name})
	var missing smithy.APIError
	switch {
	case errors.As(err, &missing) && missing.ErrorCode() == "ValidationError":
		return nil, nil
	case err != nil || len(got.Stacks) != 1:
		return nil, fmt.Errorf("stack %s: %d, %w", name, len(got.Stacks), err)
	}
	return &got.Stacks[0], nil
}

// outputs returns the outputs of one of the stage's stacks.
func (s *deployed) outputs(t *testing.T, stack string) map[string]string {
	t.Helper()
	got, err := s.stack(t.Context(), stack)
	if err != nil || got == nil {
		t.Fatalf("stack %s: %v, %v", stack, got, err)
	}
	all := map[string]string{}
	for _, o := range got.Outputs {
		all[awssdk.ToString(o.OutputKey)] = awssdk.ToString(o.OutputValue)
	}
	return all
}

// tables are the stage's, and a store over them without the functions.
func (s *deployed) tables(t *testing.T) (dynamo.TableNames, *dynamo.Store) {
	t.Helper()
	out := s.outputs(t, "data")
	tables := dynamo.TableNames{Rows: name(out["Rows"]), Docs: name(out["Docs"])}
	return tables, dynamo.New(dynamo.NewClient(operator(s.aws)), tables)
}

// name returns the last part of an ARN. A text that is not an ARN is returned
// unchanged.
func name(arn string) string { return arn[strings.LastIndexByte(arn, '/')+1:] }

// line is a function's log line, as far as tests read it.
type line struct {
	Pair     string
	Seq      int64
	Verdict  string
	Status   int
	Trips    int
	WCU, RCU float64
	KMS      int
	Cold     bool
	Request  string
	Trace    string
	Queue    string
	At       time.Time `json:"-"`
	MS       float64
	Msg      string
	Canaries int
	Tampered int // of the tamper detector, with the three that follow
	Event    string
	Stream   string // hex
	Position string
	Version  string
	EMF      json.RawMessage `json:"_aws"`
	raw      string
}

// lines are a function's log lines since a time, as soon as enough accepts
// them.
func (s *deployed) lines(t *testing.T, function string, since time.Time, enough func([]line) bool) []line {
	t.Helper()
	client := cloudwatchlogs.NewFromConfig(operator(s.aws))
	group := "/vacancy/" + s.Stage + "/" + function
	var all []line
	await.Until(t, "the lines of "+group, func() bool {
		all = read(t, client, group, since)
		return enough(all)
	})
	return all
}

func read(t *testing.T, client *cloudwatchlogs.Client, group string, since time.Time) (all []line) {
	t.Helper()
	from := since.UnixMilli()
	pages := cloudwatchlogs.NewFilterLogEventsPaginator(client, &cloudwatchlogs.FilterLogEventsInput{LogGroupName: &group, StartTime: &from})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", group, err)
		}
		for _, e := range page.Events {
			l := line{raw: awssdk.ToString(e.Message), At: time.UnixMilli(awssdk.ToInt64(e.Timestamp))}
			if json.Unmarshal([]byte(l.raw), &l) == nil {
				all = append(all, l)
			}
		}
	}
	return all
}

// configuration of one of the stage's functions.
func (s *deployed) configuration(t *testing.T, function string) *lambda.GetFunctionConfigurationOutput {
	t.Helper()
	name := s.function(function)
	got, err := lambda.NewFromConfig(operator(s.aws)).GetFunctionConfiguration(t.Context(), &lambda.GetFunctionConfigurationInput{FunctionName: &name})
	if err != nil {
		t.Fatal(err)
	}
	return got
}
