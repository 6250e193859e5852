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

func (c *Cloud) CollectFacts(ctx context.Context, name string, now func() time.Time) doctor.Facts {
	f := doctor.Facts{Stage: name}
	f.Account, f.Clock = c.fetchAccount(ctx, now)
	if f.Account.CredentialProblem != doctor.CredentialsOK {
		return f
	}
	f.Stacks = map[string]doctor.Stack{}
	for _, short := range stage.StackNames() {
		f.Stacks[short] = c.fetchStack(ctx, stage.FullName(name, short))
	}
	data := f.Stacks["data"].Outputs
	var wg sync.WaitGroup
	wg.Go(func() { c.fetchAccountFacts(ctx, &f, f.Stacks["functions"]) })
	if topic := f.Stacks["watch"].Outputs["AlarmTopic"]; topic != "" {
		wg.Go(func() { f.Mail = c.MailSubscriptions(ctx, topic) })
	}
	wg.Go(func() { f.Rows = c.fetchTable(ctx, data["Rows"]) })
	wg.Go(func() { f.Docs = c.fetchTable(ctx, data["Docs"]) })
	wg.Go(func() { f.SealingKey = c.fetchSealingKey(ctx, data["SealKey"]) })
	wg.Go(func() { f.TamperReports = c.fetchTamperReports(ctx, name) })
	wg.Go(func() { f.TamperSource = c.fetchEventSource(ctx, stage.FullName(name, "tamper")) })
	wg.Go(func() { f.Gate = c.fetchGate(ctx, f.Stacks["functions"].Outputs["Gate"], now().Add(-jobsPeriod)) })
	wg.Go(func() { f.Jobs = c.fetchJobs(ctx, name, now().Add(-jobsPeriod)) })
	wg.Wait()
	return f
}

func (c *Cloud) CollectAccountFacts(ctx context.Context, name string) doctor.Facts {
	f := doctor.Facts{Stage: name}
	c.fetchAccountFacts(ctx, &f, c.fetchStack(ctx, stage.FullName(name, "functions")))
	return f
}

func (c *Cloud) fetchAccountFacts(ctx context.Context, f *doctor.Facts, functions doctor.Stack) {
	var wg sync.WaitGroup
	wg.Go(func() { f.Bootstrap = c.fetchBootstrap(ctx) })
	wg.Go(func() { f.Quota = c.fetchQuota(ctx, f.Stage, functions) })
	wg.Go(func() { f.Types = c.fetchTypeSupport(ctx) })
	wg.Wait()
}

func classifyCredentialError(err error) doctor.CredentialProblem {
	if err == nil {
		return doctor.CredentialsOK
	}
	var apiErr smithy.APIError
	isAPIError := errors.As(err, &apiErr) // AWS returned the error; otherwise the credential chain did
	var profile config.SharedConfigProfileNotExistError
	switch kind := problem.AsError(err).Kind; {
	case isAPIError && slices.Contains(expiredCodes, apiErr.ErrorCode()):
		return doctor.ExpiredCredentials
	case kind == problem.ClockSkew:
		return doctor.SkewedClock
	case kind == problem.Unauthorized && !isAPIError && strings.Contains(err.Error(), "expired"):
		return doctor.ExpiredCredentials
	case kind == problem.Unauthorized && !isAPIError, errors.As(err, &profile):
		return doctor.NoCredentials
	case kind == problem.Unauthorized, kind == problem.Forbidden:
		return doctor.DeniedCredentials
	case kind == problem.Usage:
		return doctor.NoRegion
	}
	return doctor.Unreachable
}

// fetchAccount reads AWS's clock even from the answer that refuses the request.
func (c *Cloud) fetchAccount(ctx context.Context, now func() time.Time) (doctor.Account, doctor.Clock) {
	inner := c.cfg.HTTPClient
	if inner == nil {
		inner = awshttp.NewBuildableClient()
	}
	client := &clockClient{inner: inner, now: now}
	withClock := *c
	withClock.cfg = c.cfg.Copy()
	withClock.cfg.HTTPClient = client
	caller, err := withClock.CallerIdentity(ctx)
	a := doctor.Account{ID: caller.Account, ARN: caller.ARN, Region: c.cfg.Region, CredentialProblem: classifyCredentialError(err), Err: err}
	return a, client.clock
}

// clockClient is an HTTP client that reads the server's clock from the first Date header.
type clockClient struct {
	inner aws.HTTPClient
	now   func() time.Time
	clock doctor.Clock
}

func (c *clockClient) Do(r *http.Request) (*http.Response, error) {
	out, err := c.inner.Do(r)
	if err != nil {
		return nil, err
	}
	if serverTime, err := http.ParseTime(out.Header.Get("Date")); err == nil && !c.clock.Known {
		c.clock = doctor.Clock{Known: true, Skew: c.now().Sub(serverTime)}
	}
	return out, nil
}

func (c *Cloud) fetchStack(ctx context.Context, name string) doctor.Stack {
	s, err := c.Stack(ctx, name)
	if problem.Is(err, problem.NotFound) {
		return doctor.Stack{Missing: true}
	}
	return doctor.Stack{Status: s.Status, Reason: s.Reason, Outputs: s.Outputs, Err: err}
}

func (c *Cloud) fetchBootstrap(ctx context.Context) doctor.Bootstrap {
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

func (c *Cloud) fetchQuota(ctx context.Context, name string, functions doctor.Stack) doctor.Quota {
	out, err := c.lambda.GetAccountSettings(ctx, &lambda.GetAccountSettingsInput{})
	if err != nil {
		return doctor.Quota{Err: ToProblem(err)}
	}
	var q doctor.Quota
	if limit := out.AccountLimit; limit != nil {
		q.Limit, q.Unreserved = int(limit.ConcurrentExecutions), int(aws.ToInt32(limit.UnreservedConcurrentExecutions))
	}
	if functions.Missing || functions.Err != nil || !(cloud.Stack{Status: functions.Status}).IsDeployed() {
		return q
	}
	template, err := c.Template(ctx, stage.FullName(name, "functions"))
	if err != nil {
		return doctor.Quota{Err: err}
	}
	shape, err := cost.ParseTemplates(template)
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

// maxTypeRequests limits the concurrent requests, because CloudFormation throttles them.
const maxTypeRequests = 4

// fetchTypeSupport queries each resource type that a stage may use. If the first query fails, it sends no others.
func (c *Cloud) fetchTypeSupport(ctx context.Context) doctor.TypeSupport {
	schema, err := c.describeType(ctx, doctor.KeyType)
	if err != nil {
		return doctor.TypeSupport{Err: err}
	}
	var keySchema struct {
		Properties struct {
			KeySpec struct{ Enum []string }
		}
	}
	// If the schema cannot be parsed, the key specs are unknown.
	_ = json.Unmarshal([]byte(schema), &keySchema)
	result := doctor.TypeSupport{KeySpecs: keySchema.Properties.KeySpec.Enum}
	var mu sync.Mutex
	var wg sync.WaitGroup
	names := make(chan string)
	for range maxTypeRequests {
		wg.Go(func() {
			for name := range names {
				_, err := c.describeType(ctx, name)
				mu.Lock()
				if problem.Is(err, problem.NotFound) {
					result.Missing = append(result.Missing, name)
				} else if err != nil {
					result.Err = err
				}
				mu.Unlock()
			}
		})
	}
	allSettings := setting.Values{Email: "set", Dashboard: true, HasEdge: true, WAF: true}
	for _, name := range doctor.ResourceTypes(allSettings) {
		if name != doctor.KeyType {
			names <- name
		}
	}
	close(names)
	wg.Wait()
	return result
}

func (c *Cloud) describeType(ctx context.Context, name string) (schema string, err error) {
	out, err := c.stacks.DescribeType(ctx, &cloudformation.DescribeTypeInput{Type: types.RegistryTypeResource, TypeName: &name})
	if err != nil {
		return "", ToProblem(err)
	}
	return aws.ToString(out.Schema), nil
}

func (c *Cloud) fetchEventSource(ctx context.Context, function string) doctor.EventSource {
	out, err := c.lambda.ListEventSourceMappings(ctx, &lambda.ListEventSourceMappingsInput{FunctionName: &function})
	switch {
	case problem.Is(ToProblem(err), problem.NotFound):
		return doctor.EventSource{Absent: true}
	case err != nil:
		return doctor.EventSource{Err: ToProblem(err)}
	case len(out.EventSourceMappings) == 0:
		return doctor.EventSource{Absent: true}
	}
	m := out.EventSourceMappings[0]
	return doctor.EventSource{State: aws.ToString(m.State), LastResult: aws.ToString(m.LastProcessingResult)}
}

func (c *Cloud) fetchSealingKey(ctx context.Context, id string) doctor.SealingKey {
	if id == "" {
		return doctor.SealingKey{Absent: true}
	}
	out, err := kms.NewFromConfig(c.cfg).DescribeKey(ctx, &kms.DescribeKeyInput{KeyId: &id})
	if err != nil {
		return doctor.SealingKey{ID: id, Err: ToProblem(err)}
	}
	return doctor.SealingKey{ID: id, State: string(out.KeyMetadata.KeyState)}
}
