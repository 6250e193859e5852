package awscloud

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/smithy-go"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cost"
	"github.com/vacancy-host/vacancy/cmd/vacancy/doctor"
	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
	"github.com/vacancy-host/vacancy/shared/front/setting"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func (c *Cloud) Examine(ctx context.Context, name string, now func() time.Time) doctor.Facts {
	f := doctor.Facts{Stage: name}
	f.Account, f.Clock = c.callerOf(ctx, now)
	if f.Account.Trouble != doctor.NoTrouble {
		return f
	}
	f.Stacks = map[string]doctor.Stack{}
	for _, short := range stage.Stacks() {
		f.Stacks[short] = c.stackFacts(ctx, stage.FullName(name, short))
	}
	data := f.Stacks["data"].Outputs
	var wg sync.WaitGroup
	wg.Go(func() { c.accountFacts(ctx, &f, f.Stacks["functions"]) })
	if topic := f.Stacks["watch"].Outputs["AlarmTopic"]; topic != "" {
		wg.Go(func() { f.Mail = c.Mail(ctx, topic) })
	}
	wg.Go(func() { f.Rows = c.tableFacts(ctx, data["Rows"]) })
	wg.Go(func() { f.Docs = c.tableFacts(ctx, data["Docs"]) })
	wg.Go(func() { f.Seal = c.keyFacts(ctx, data["SealKey"]) })
	wg.Go(func() { f.Tampered = c.tamperedFacts(ctx, name) })
	wg.Go(func() { f.Watch = c.feedFacts(ctx, stage.FullName(name, "tamper")) })
	wg.Go(func() { f.Gate = c.gateFacts(ctx, f.Stacks["functions"].Outputs["Gate"], now().Add(-jobsSince)) })
	wg.Go(func() { f.Jobs = c.jobFacts(ctx, name, now().Add(-jobsSince)) })
	wg.Wait()
	return f
}

func (c *Cloud) ExamineAccount(ctx context.Context, name string) doctor.Facts {
	f := doctor.Facts{Stage: name}
	c.accountFacts(ctx, &f, c.stackFacts(ctx, stage.FullName(name, "functions")))
	return f
}

func (c *Cloud) accountFacts(ctx context.Context, f *doctor.Facts, functions doctor.Stack) {
	var wg sync.WaitGroup
	wg.Go(func() { f.Bootstrap = c.bootstrapFacts(ctx) })
	wg.Go(func() { f.Quota = c.quotaFacts(ctx, f.Stage, functions) })
	wg.Go(func() { f.Types = c.typeFacts(ctx) })
	wg.Wait()
}

// trouble classifies an error of the credentials.
func trouble(err error) doctor.Trouble {
	if err == nil {
		return doctor.NoTrouble
	}
	var api smithy.APIError
	answered := errors.As(err, &api) // AWS returned the error; otherwise the credential chain did
	var profile config.SharedConfigProfileNotExistError
	switch kind := problem.AsError(err).Kind; {
	case answered && slices.Contains(expired, api.ErrorCode()):
		return doctor.Expired
	case kind == problem.Clock:
		return doctor.Skewed
	case kind == problem.Unauthorized && !answered && strings.Contains(err.Error(), "expired"):
		return doctor.Expired
	case kind == problem.Unauthorized && !answered, errors.As(err, &profile):
		return doctor.NoneFound
	case kind == problem.Unauthorized, kind == problem.Forbidden:
		return doctor.Denied
	case kind == problem.Usage:
		return doctor.NoRegion
	}
	return doctor.Unreachable
}

// callerOf asks AWS for the owner of the credentials. It also reads AWS's clock from the answer, even
// if AWS refuses the request.
func (c *Cloud) callerOf(ctx context.Context, now func() time.Time) (doctor.Account, doctor.Clock) {
	inner := c.cfg.HTTPClient
	if inner == nil {
		inner = awshttp.NewBuildableClient()
	}
	watch := &dated{inner: inner, now: now}
	seen := *c
	seen.cfg = c.cfg.Copy()
	seen.cfg.HTTPClient = watch
	caller, err := seen.Caller(ctx)
	a := doctor.Account{ID: caller.Account, ARN: caller.ARN, Region: c.cfg.Region, Trouble: trouble(err), Err: err}
	return a, watch.clock
}

// dated is an HTTP client that reads the server's clock from the first Date header.
type dated struct {
	inner aws.HTTPClient
	now   func() time.Time
	clock doctor.Clock
}

func (d *dated) Do(r *http.Request) (*http.Response, error) {
	out, err := d.inner.Do(r)
	if err != nil {
		return nil, err
	}
	if serverTime, err := http.ParseTime(out.Header.Get("Date")); err == nil && !d.clock.Seen {
		d.clock = doctor.Clock{Seen: true, Skew: d.now().Sub(serverTime)}
	}
	return out, nil
}

func (c *Cloud) stackFacts(ctx context.Context, name string) doctor.Stack {
	s, err := c.Stack(ctx, name)
	if problem.Is(err, problem.NotFound) {
		return doctor.Stack{Missing: true}
	}
	return doctor.Stack{Status: s.Status, Reason: s.Reason, Outputs: s.Outputs, Err: err}
}

func (c *Cloud) bootstrapFacts(ctx context.Context) doctor.Bootstrap {
	s, err := c.Stack(ctx, "CDKToolkit")
	switch {
	case problem.Is(err, problem.NotFound), err == nil && !s.IsDeployed():
		return doctor.Bootstrap{Missing: true}
	case err != nil:
		return doctor.Bootstrap{Err: err}
	}
	// A missing version counts as 0, which is too old.
	version, _ := strconv.Atoi(s.Outputs["BootstrapVersion"])
	return doctor.Bootstrap{Version: version}
}

func (c *Cloud) quotaFacts(ctx context.Context, name string, functions doctor.Stack) doctor.Quota {
	out, err := c.lambda.GetAccountSettings(ctx, &lambda.GetAccountSettingsInput{})
	if err != nil {
		return doctor.Quota{Err: Problem(err)}
	}
	var q doctor.Quota
	if l := out.AccountLimit; l != nil {
		q.Limit, q.Unreserved = int(l.ConcurrentExecutions), int(aws.ToInt32(l.UnreservedConcurrentExecutions))
	}
	if functions.Missing || functions.Err != nil || !(cloud.Stack{Status: functions.Status}).IsDeployed() {
		return q
	}
	template, err := c.Template(ctx, stage.FullName(name, "functions"))
	if err != nil {
		return doctor.Quota{Err: err}
	}
	shape, err := cost.ReadTemplates(template)
	if err != nil {
		return doctor.Quota{Err: err}
	}
	q.Deployed = true
	for _, f := range shape.Functions {
		if f.Reserved != nil {
			q.Reserved += *f.Reserved
		}
	}
	return q
}

// typesAtOnce limits the concurrent requests to CloudFormation, which throttles large numbers of
// them.
const typesAtOnce = 4

// typeFacts queries CloudFormation for each resource type that a stage may use. If the first query
// fails, it sends no others.
func (c *Cloud) typeFacts(ctx context.Context) doctor.Types {
	schema, err := c.describeType(ctx, doctor.KeyType)
	if err != nil {
		return doctor.Types{Err: err}
	}
	var key struct {
		Properties struct {
			KeySpec struct{ Enum []string }
		}
	}
	// If the schema cannot be parsed, the key specs are unknown.
	_ = json.Unmarshal([]byte(schema), &key)
	found := doctor.Types{KeySpecs: key.Properties.KeySpec.Enum}
	var mu sync.Mutex
	var wg sync.WaitGroup
	names := make(chan string)
	for range typesAtOnce {
		wg.Go(func() {
			for name := range names {
				_, err := c.describeType(ctx, name)
				mu.Lock()
				if problem.Is(err, problem.NotFound) {
					found.Missing = append(found.Missing, name)
				} else if err != nil {
					found.Err = err
				}
				mu.Unlock()
			}
		})
	}
	every := setting.Values{Email: "set", Dashboard: true, Edge: true, WAF: true}
	for _, name := range doctor.ResourceTypes(every) {
		if name != doctor.KeyType {
			names <- name
		}
	}
	close(names)
	wg.Wait()
	return found
}

func (c *Cloud) describeType(ctx context.Context, name string) (schema string, err error) {
	out, err := c.stacks.DescribeType(ctx, &cloudformation.DescribeTypeInput{Type: types.RegistryTypeResource, TypeName: &name})
	if err != nil {
		return "", Problem(err)
	}
	return aws.ToString(out.Schema), nil
}

func (c *Cloud) feedFacts(ctx context.Context, function string) doctor.Feed {
	out, err := c.lambda.ListEventSourceMappings(ctx, &lambda.ListEventSourceMappingsInput{FunctionName: &function})
	switch {
	case problem.Is(Problem(err), problem.NotFound):
		return doctor.Feed{Absent: true}
	case err != nil:
		return doctor.Feed{Err: Problem(err)}
	case len(out.EventSourceMappings) == 0:
		return doctor.Feed{Absent: true}
	}
	m := out.EventSourceMappings[0]
	return doctor.Feed{State: aws.ToString(m.State), Result: aws.ToString(m.LastProcessingResult)}
}

func (c *Cloud) keyFacts(ctx context.Context, id string) doctor.Key {
	if id == "" {
		return doctor.Key{Absent: true}
	}
	out, err := kms.NewFromConfig(c.cfg).DescribeKey(ctx, &kms.DescribeKeyInput{KeyId: &id})
	if err != nil {
		return doctor.Key{ID: id, Err: Problem(err)}
	}
	return doctor.Key{ID: id, State: string(out.KeyMetadata.KeyState)}
}
