package awscloud_test

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logtypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	lambdatypes "github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	sfntypes "github.com/aws/aws-sdk-go-v2/service/sfn/types"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud/awscloud"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cost"
	"github.com/vacancy-host/vacancy/cmd/vacancy/doctor"
	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/edge"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// lab is the AWS of a test: a LocalStack that tests/run started.
type lab struct {
	t     *testing.T
	cloud *awscloud.Cloud
	cfg   aws.Config
	stage string
}

func newLab(t *testing.T) *lab {
	t.Helper()
	endpoint := os.Getenv("VACANCY_TEST_AWS")
	if endpoint == "" {
		t.Skip("VACANCY_TEST_AWS names no LocalStack; tests/run starts one for this test")
	}
	c := at(endpoint, "us-east-1")
	var id [4]byte
	rand.Read(id[:])
	return &lab{t, c, c.Config(), "g" + hex.EncodeToString(id[:])}
}

func (l *lab) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

// stack makes a stack with one topic and the outputs.
func (l *lab) stack(short, topic string, outputs map[string]string) {
	l.t.Helper()
	said := map[string]any{}
	for name, value := range outputs {
		said[name] = map[string]string{"Value": value}
	}
	properties := map[string]string{}
	if topic != "" {
		properties["TopicName"] = topic
	}
	b, err := json.Marshal(map[string]any{
		"Resources": map[string]any{"T": map[string]any{"Type": "AWS::SNS::Topic", "Properties": properties}}, "Outputs": said,
	})
	l.must(err)
	client, name := cloudformation.NewFromConfig(l.cfg), stage.FullName(l.stage, short)
	_, err = client.CreateStack(l.t.Context(), &cloudformation.CreateStackInput{StackName: &name, TemplateBody: aws.String(string(b))})
	l.must(err)
	l.t.Cleanup(func() {
		_, _ = client.DeleteStack(context.Background(), &cloudformation.DeleteStackInput{StackName: &name})
	})
	for {
		s, err := l.cloud.Stack(l.t.Context(), name)
		l.must(err)
		if !s.IsBusy() {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// table makes a table; well says whether it has all required settings or none.
func (l *lab) table(short, key string, well bool) string {
	l.t.Helper()
	name := l.stage + "-" + short
	pk, sk := types.ScalarAttributeTypeB, types.ScalarAttributeTypeN
	in := &dynamodb.CreateTableInput{TableName: &name, BillingMode: types.BillingModePayPerRequest, DeletionProtectionEnabled: &well}
	if short == doctor.DocsTable {
		pk, sk = types.ScalarAttributeTypeS, types.ScalarAttributeTypeS
	}
	if !well {
		pk = types.ScalarAttributeTypeN
	}
	schema := func(hash, sort string) []types.KeySchemaElement {
		return []types.KeySchemaElement{{AttributeName: &hash, KeyType: types.KeyTypeHash}, {AttributeName: &sort, KeyType: types.KeyTypeRange}}
	}
	in.KeySchema = schema("pk", "sk")
	in.AttributeDefinitions = []types.AttributeDefinition{
		{AttributeName: aws.String("pk"), AttributeType: pk}, {AttributeName: aws.String("sk"), AttributeType: sk}}
	if well {
		limit := &types.OnDemandThroughput{MaxReadRequestUnits: aws.Int64(100), MaxWriteRequestUnits: aws.Int64(50)}
		in.OnDemandThroughput = limit
		in.SSESpecification = &types.SSESpecification{Enabled: aws.Bool(true), SSEType: types.SSETypeKms, KMSMasterKeyId: &key}
		in.StreamSpecification = &types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: types.StreamViewTypeNewAndOldImages}
		if short == doctor.DocsTable {
			in.StreamSpecification.StreamViewType = types.StreamViewTypeKeysOnly
			in.AttributeDefinitions = append(in.AttributeDefinitions,
				types.AttributeDefinition{AttributeName: aws.String("xp"), AttributeType: types.ScalarAttributeTypeS},
				types.AttributeDefinition{AttributeName: aws.String("xs"), AttributeType: types.ScalarAttributeTypeS})
			in.GlobalSecondaryIndexes = []types.GlobalSecondaryIndex{{IndexName: aws.String("listed"), KeySchema: schema("xp", "xs"),
				Projection: &types.Projection{ProjectionType: types.ProjectionTypeAll}, OnDemandThroughput: limit}}
		}
	}
	client := dynamodb.NewFromConfig(l.cfg, func(o *dynamodb.Options) { o.DisableValidateResponseChecksum = true })
	_, err := client.CreateTable(l.t.Context(), in)
	l.must(err)
	l.t.Cleanup(func() {
		ctx := context.Background()
		_, _ = client.UpdateTable(ctx, &dynamodb.UpdateTableInput{TableName: &name, DeletionProtectionEnabled: aws.Bool(false)})
		_, _ = client.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: &name})
	})
	l.must(dynamodb.NewTableExistsWaiter(client).Wait(l.t.Context(), &dynamodb.DescribeTableInput{TableName: &name}, time.Minute))
	if well {
		_, err := client.UpdateContinuousBackups(l.t.Context(), &dynamodb.UpdateContinuousBackupsInput{TableName: &name,
			PointInTimeRecoverySpecification: &types.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: aws.Bool(true)}})
		l.must(err)
	}
	return name
}

func (l *lab) key(enabled bool) string {
	l.t.Helper()
	client := kms.NewFromConfig(l.cfg)
	out, err := client.CreateKey(l.t.Context(), &kms.CreateKeyInput{})
	l.must(err)
	id := aws.ToString(out.KeyMetadata.Arn)
	if !enabled {
		_, err := client.DisableKey(l.t.Context(), &kms.DisableKeyInput{KeyId: &id})
		l.must(err)
	}
	l.t.Cleanup(func() {
		_, _ = client.ScheduleKeyDeletion(context.Background(), &kms.ScheduleKeyDeletionInput{KeyId: &id, PendingWindowInDays: aws.Int32(7)})
	})
	return id
}

// gate makes a state machine that ends in a state of a kind, runs it once, and
// returns its ARN.
func (l *lab) gate(end string) string {
	l.t.Helper()
	client, name := sfn.NewFromConfig(l.cfg), stage.FullName(l.stage, stage.Gate)
	made, err := client.CreateStateMachine(l.t.Context(), &sfn.CreateStateMachineInput{
		Name: &name, RoleArn: aws.String("arn:aws:iam::000000000000:role/gate"), Definition: aws.String(`{"StartAt":"end","States":{"end":{"Type":"` + end + `"}}}`)})
	l.must(err)
	l.t.Cleanup(func() {
		_, _ = client.DeleteStateMachine(context.Background(), &sfn.DeleteStateMachineInput{StateMachineArn: made.StateMachineArn})
	})
	run, err := client.StartExecution(l.t.Context(), &sfn.StartExecutionInput{StateMachineArn: made.StateMachineArn})
	l.must(err)
	for {
		got, err := client.DescribeExecution(l.t.Context(), &sfn.DescribeExecutionInput{ExecutionArn: run.ExecutionArn})
		l.must(err)
		if got.Status != sfntypes.ExecutionStatusRunning {
			return aws.ToString(made.StateMachineArn)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// watch makes a function tamper that the stream of a table starts.
func (l *lab) watch(table string) {
	l.t.Helper()
	described, err := dynamodb.NewFromConfig(l.cfg, func(o *dynamodb.Options) { o.DisableValidateResponseChecksum = true }).
		DescribeTable(l.t.Context(), &dynamodb.DescribeTableInput{TableName: &table})
	l.must(err)
	var code bytes.Buffer
	z := zip.NewWriter(&code)
	w, err := z.CreateHeader(&zip.FileHeader{Name: "bootstrap", ExternalAttrs: 0o755 << 16})
	l.must(err)
	_, err = io.WriteString(w, "#!/bin/sh\nexit 1\n")
	l.must(err)
	l.must(z.Close())
	client, name := lambda.NewFromConfig(l.cfg), stage.FullName(l.stage, "tamper")
	_, err = client.CreateFunction(l.t.Context(), &lambda.CreateFunctionInput{
		FunctionName: &name, Role: aws.String("arn:aws:iam::000000000000:role/tamper"), Runtime: lambdatypes.RuntimeProvidedal2023,
		Handler: aws.String("bootstrap"), Code: &lambdatypes.FunctionCode{ZipFile: code.Bytes()},
	})
	l.must(err)
	l.t.Cleanup(func() {
		_, _ = client.DeleteFunction(context.Background(), &lambda.DeleteFunctionInput{FunctionName: &name})
	})
	l.must(lambda.NewFunctionActiveV2Waiter(client).Wait(l.t.Context(), &lambda.GetFunctionInput{FunctionName: &name}, time.Minute))
	made, err := client.CreateEventSourceMapping(l.t.Context(), &lambda.CreateEventSourceMappingInput{
		FunctionName: &name, EventSourceArn: described.Table.LatestStreamArn, StartingPosition: lambdatypes.EventSourcePositionTrimHorizon,
	})
	l.must(err)
	l.t.Cleanup(func() {
		_, _ = client.DeleteEventSourceMapping(context.Background(), &lambda.DeleteEventSourceMappingInput{UUID: made.UUID})
	})
	for {
		got, err := client.GetEventSourceMapping(l.t.Context(), &lambda.GetEventSourceMappingInput{UUID: made.UUID})
		l.must(err)
		if aws.ToString(got.State) == "Enabled" {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// log writes lines into a function's log.
func (l *lab) log(function string, lines ...string) {
	l.t.Helper()
	client := cloudwatchlogs.NewFromConfig(l.cfg)
	group, stream := "/vacancy/"+l.stage+"/"+function, "one"
	_, err := client.CreateLogGroup(l.t.Context(), &cloudwatchlogs.CreateLogGroupInput{LogGroupName: &group})
	l.must(err)
	l.t.Cleanup(func() {
		_, _ = client.DeleteLogGroup(context.Background(), &cloudwatchlogs.DeleteLogGroupInput{LogGroupName: &group})
	})
	if len(lines) == 0 {
		return
	}
	_, err = client.CreateLogStream(l.t.Context(), &cloudwatchlogs.CreateLogStreamInput{LogGroupName: &group, LogStreamName: &stream})
	l.must(err)
	var events []logtypes.InputLogEvent
	for i, line := range lines {
		events = append(events, logtypes.InputLogEvent{Message: &line, Timestamp: aws.Int64(time.Now().UnixMilli() - int64(len(lines)-i))})
	}
	_, err = client.PutLogEvents(l.t.Context(), &cloudwatchlogs.PutLogEventsInput{LogGroupName: &group, LogStreamName: &stream, LogEvents: events})
	l.must(err)
}

const (
	operatorKey = "vop_of-a-test"
	edgeSecret  = "the-secret-of-the-edge-of-a-test-which-is-long"
)

// host serves the host's identity, and says whether its Function URL is closed.
func (l *lab) host(where string, shut bool) (raw, public string) {
	l.t.Helper()
	key, err := identity.NewKey(rand.Reader)
	l.must(err)
	var handler http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v1/graduations/") {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"detail":"no such graduation","code":"not_found"}`)
			return
		}
		if r.URL.Path != "/v1/admin/host" {
			fmt.Fprint(w, `{"status":"ok"}`)
			return
		}
		h := admin.Host{ID: key.ID(), KeyStorage: where, Version: "v1", Stage: l.stage}
		if r.Header.Get("Authorization") != "Bearer "+operatorKey {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"detail":"no","code":"unauthorized"}`)
			return
		}
		sig, err := key.Sign(r.Context(), h.ProofBytes(r.URL.Query().Get("challenge")))
		if err != nil {
			l.t.Error(err)
		}
		h.Signature = hex.EncodeToString(sig)
		_ = json.NewEncoder(w).Encode(h)
	})
	behind := handler
	if shut {
		behind = edge.Guard([]string{edgeSecret}, handler)
	}
	function, front := httptest.NewServer(behind), httptest.NewServer(handler)
	l.t.Cleanup(function.Close)
	l.t.Cleanup(front.Close)
	return function.URL, front.URL
}

// examine returns the report of `vacancy doctor`.
func (l *lab) examine(raw, public string) doctor.Report {
	l.t.Helper()
	f := l.cloud.CollectFacts(l.t.Context(), l.stage, time.Now)
	f.Version = "v1"
	f.SetContext(map[string]string{"email": "ops@example.org"}, "us-east-1")
	f.Limits = cost.Limits{"message": 14}
	f.Tools = doctor.FindTools(l.t.Context(), func(_ context.Context, program string, _ ...string) (string, error) {
		return map[string]string{"go": "go version go1.26.1 linux/arm64", "node": "v22.1.0", "npm": "10.9.0"}[program], nil
	})
	f.HostAnswers = doctor.AskHost(l.t.Context(), http.DefaultClient, doctor.URLs{Public: public, FunctionURLs: map[string]string{"message": raw}, Admin: public, Registry: public, Search: public, Graduate: public, Gateway: public, Edge: true, OperatorKey: operatorKey}, rand.Reader)
	return doctor.Examine(f)
}

// well makes a stage without faults and returns where it is.
func (l *lab) well() (raw, public string) {
	l.t.Helper()
	raw, public = l.host(admin.KeyStorageKMS, true)
	key := l.key(true)
	rows := l.table("rows", key, true)
	l.watch(rows)
	l.stack("data", "", map[string]string{"Version": "v1", "SealKey": key, "Rows": rows, "Docs": l.table("docs", key, true)})
	l.stack("watch", "", map[string]string{"Version": "v1"})
	l.stack("functions", "", map[string]string{"Version": "v1", "MessageUrl": raw, "EdgeSecret": "arn", "Gate": l.gate("Succeed")})
	l.stack("edge", "", map[string]string{"Version": "v1", "Url": public})
	l.log("tamper", `{"msg":"start"}`)
	l.log("checkpointer", `{"msg":"done","verdict":"unavailable"}`, `{"msg":"done","verdict":"ok"}`)
	l.log("worker", `{"msg":"done","verdict":"unavailable"}`, `{"msg":"done","verdict":"again"}`)
	l.log("sweeper", `{"msg":"done","verdict":"ok"}`)
	l.log("meter", `{"msg":"done","verdict":"ok"}`)
	l.log("indexer", `{"msg":"done","verdict":"ok"}`, `{"msg":"sdk","verdict":"none"}`)
	return raw, public
}

func TestOnAWSDoctorFindsAWellStageWell(t *testing.T) {
	l := newLab(t)
	r := l.examine(l.well())
	for _, c := range r.Checks {
		t.Logf("%-14s %-25s %s", c.Verdict, c.Name, c.Detail)
		// LocalStack has no registry of types, and the stage no stack watch. Whether the server was
		// bootstrapped depends on other tests. Roles are checked with --simulate only.
		unknown := c.Name == "bootstrap" || c.Name == "resource types" && c.Verdict == doctor.Warn ||
			c.Verdict == doctor.NotApplicable && slices.Contains([]string{"key spec", "alarm mail", "roles"}, c.Name)
		if c.Verdict != doctor.OK && !unknown {
			t.Errorf("check = %+v, want ok", c)
		}
	}
}

// All faults of a deployed stage are reported separately, even at once.
func TestOnAWSDoctorNamesEveryFaultOfASickStage(t *testing.T) {
	l := newLab(t)
	raw, public := l.host(admin.KeyStorageSoftware, false)
	key := l.key(false)
	l.stack("data", "", map[string]string{"Version": "v0", "SealKey": key, "Rows": l.table("rows", "", false), "Docs": l.table("docs", "", false)})
	l.stack("functions", "", map[string]string{"Version": "v1", "MessageUrl": raw, "EdgeSecret": "arn", "Gate": l.gate("Fail")})
	l.stack("edge", "no name of a topic!", map[string]string{"Version": "v1", "Url": public})
	l.log("tamper", `{"msg":"changed","tampered":2}`, `{"msg":"start"}`, `{"msg":"removed","tampered":1}`)
	l.log("checkpointer", `{"msg":"done","verdict":"ok"}`, `{"msg":"done","verdict":"unavailable"}`)
	l.log("worker", `{"msg":"done","verdict":"ok"}`, `{"msg":"done","verdict":"unavailable"}`)
	r := l.examine(raw, public)
	for _, tt := range []struct {
		check   string
		verdict doctor.Verdict
		fix     string
	}{
		{"stack watch", doctor.Fail, "vacancy deploy --stage " + l.stage},
		{"stack edge", doctor.Fail, "delete-stack"},
		{"version", doctor.Warn, "vacancy deploy"},
		{"rows: keys", doctor.Fail, "--stage OTHER"},
		{"docs: keys", doctor.Fail, "--stage OTHER"},
		{"rows: backups", doctor.Fail, "update-continuous-backups --table-name " + l.stage + "-rows"},
		{"docs: backups", doctor.Fail, "update-continuous-backups --table-name " + l.stage + "-docs"},
		{"rows: deletion protection", doctor.Fail, "--deletion-protection-enabled"},
		{"rows: stream", doctor.Fail, "--stream-specification"},
		{"docs: stream", doctor.Fail, "StreamViewType=KEYS_ONLY"},
		{"sealing", doctor.Fail, "--function checkpointer"},
		{"background turns", doctor.Fail, "--function worker"},
		{"search index", doctor.NotApplicable, ""},
		{"rows: encryption", doctor.Fail, "--sse-specification"},
		{"rows: ceilings", doctor.Fail, "--on-demand-throughput"},
		{"edge", doctor.Fail, "vacancy deploy"},
		{"host identity", doctor.Warn, "hostKey=kms"},
		{"sealing key", doctor.Fail, "aws kms enable-key --key-id " + key},
		{"rows watched", doctor.Fail, "list-event-source-mappings"},
		{"rows untouched", doctor.Fail, "vacancy verify --host aws --stage " + l.stage},
		{"gate", doctor.Warn, "list-executions"},
	} {
		c := r.Find(tt.check)
		if c.Verdict != tt.verdict || !strings.Contains(c.Fix, tt.fix) {
			t.Errorf("check = %+v, want %s with a fix of %q", c, tt.verdict, tt.fix)
		}
	}
	if c := r.Find("rows untouched"); !strings.Contains(c.Detail, "3 rows") {
		t.Errorf("check = %+v, want 3 rows", c)
	}
}

func TestOnAWSDoctorFindsNeitherStageNorBootstrapInAnotherRegion(t *testing.T) {
	l := newLab(t)
	const empty = "eu-south-2"
	f := at(os.Getenv("VACANCY_TEST_AWS"), empty).CollectFacts(t.Context(), l.stage, time.Now)
	r := doctor.Examine(f)
	for check, fix := range map[string]string{
		"bootstrap": "vacancy deploy --stage " + l.stage + " --bootstrap", "stack data": "vacancy deploy", "stack functions": "vacancy deploy",
	} {
		if c := r.Find(check); c.Verdict != doctor.Fail || !strings.Contains(c.Fix, fix) {
			t.Errorf("check = %+v, want FAIL with a fix of %q", c, fix)
		}
	}
	for _, check := range []string{"table rows", "rows: backups", "sealing key", "edge", "health"} {
		f.HostAnswers = doctor.AskHost(t.Context(), http.DefaultClient, doctor.URLs{}, rand.Reader)
		if c := doctor.Examine(f).Find(check); c.Verdict != doctor.NotApplicable {
			t.Errorf("check = %+v, want not applicable", c)
		}
	}
}
