package localstack

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logtypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	dynamotypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cache"
	"github.com/vacancy-host/vacancy/localstack/server"
	"github.com/vacancy-host/vacancy/shared/await"
)

// cloud is shared by the tests: one server, one build of the probe, one key.
type cloud struct {
	*server.Server
	config aws.Config
	code   []byte // the probe's zip
	key    string // ARN
}

var (
	installed *server.Installation
	shared    cloud
)

func TestMain(m *testing.M) {
	if os.Getenv(startAndWait) != "" {
		wait()
	}
	os.Exit(serve(m))
}

func serve(m *testing.M) int {
	ctx, cancel := context.WithTimeout(context.Background(), await.Limit)
	defer cancel()
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	cache, err := cache.Dir(os.Getenv)
	if err != nil {
		return fail(err)
	}
	if installed, err = server.Install(ctx, cache, os.Stderr); err != nil {
		return fail(err)
	}
	if shared.code, err = build(ctx); err != nil {
		return fail(err)
	}
	if shared.Server, err = installed.Start(ctx, server.Options{Freeze: true}); err != nil {
		return fail(err)
	}
	shared.config = aws.Config{
		Region: server.Region, BaseEndpoint: aws.String(shared.URL),
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	}
	key, err := kms.NewFromConfig(shared.config).CreateKey(ctx, &kms.CreateKeyInput{})
	if err != nil {
		return fail(fmt.Errorf("%w, %w", err, shared.Stop()))
	}
	shared.key = *key.KeyMetadata.Arn
	code := m.Run()
	processes, err := pids(ctx, shared.Server)
	if err != nil {
		return fail(err)
	}
	if err := shared.Stop(); err != nil {
		return fail(err)
	}
	for _, pid := range processes {
		if lives(pid) {
			return fail(fmt.Errorf("process %d lives after Stop", pid))
		}
	}
	return code
}

// pids returns the processes of the server and of its functions, which Freeze
// has stopped.
func pids(ctx context.Context, s *server.Server) ([]int, error) {
	instances, err := s.Instances(ctx)
	all := []int{s.PID}
	for _, i := range instances {
		if i.PID != 0 {
			all = append(all, i.PID)
		}
	}
	return all, err
}

// lives reports whether a process exists, stopped ones too. A zombie does not
// count: its new parent may be slow.
func lives(pid int) bool {
	out, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	state := strings.TrimSpace(string(out))
	return err == nil && state != "" && !strings.HasPrefix(state, "Z")
}

// build makes the probe's zip like a deployment.
func build(ctx context.Context) ([]byte, error) {
	dir, err := os.MkdirTemp("", "probe-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	bootstrap := filepath.Join(dir, "bootstrap")
	cmd := exec.CommandContext(ctx, "go", "build", "-tags", "lambda.norpc", "-o", bootstrap, "./probe")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building the probe: %w: %s", err, out)
	}
	content, err := os.ReadFile(bootstrap)
	if err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	z := zip.NewWriter(&packed)
	head := &zip.FileHeader{Name: "bootstrap", Method: zip.Deflate}
	head.SetMode(0o755)
	w, err := z.CreateHeader(head)
	if err == nil {
		_, err = w.Write(content)
	}
	if err := errors.Join(err, z.Close()); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}

// probe is a deployed function with its own table.
type probe struct {
	name, table, role, url string
}

// deploy makes a probe. Every test has its own, under its own name.
func deploy(t *testing.T, name string, environment map[string]string, logging *types.LoggingConfig) probe {
	t.Helper()
	return deployTo(t, shared, name, environment, logging)
}

func deployTo(t *testing.T, to cloud, name string, environment map[string]string, logging *types.LoggingConfig) probe {
	t.Helper()
	p := probe{name: name, table: "table-" + name, role: "arn:aws:iam::" + server.Account + ":role/" + name}
	_, err := dynamodb.NewFromConfig(to.config).CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: &p.table, BillingMode: dynamotypes.BillingModePayPerRequest,
		AttributeDefinitions: []dynamotypes.AttributeDefinition{{AttributeName: aws.String("k"), AttributeType: "S"}},
		KeySchema:            []dynamotypes.KeySchemaElement{{AttributeName: aws.String("k"), KeyType: "HASH"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{"TABLE": p.table, "KEY": to.key}
	for k, v := range environment {
		all[k] = v
	}
	functions := lambda.NewFromConfig(to.config)
	_, err = functions.CreateFunction(t.Context(), &lambda.CreateFunctionInput{
		FunctionName: &p.name, Role: &p.role, Runtime: types.RuntimeProvidedal2023, Handler: aws.String("bootstrap"),
		Code: &types.FunctionCode{ZipFile: to.code}, Environment: &types.Environment{Variables: all},
		Timeout: aws.Int32(3), MemorySize: aws.Int32(128), LoggingConfig: logging,
	})
	if err != nil {
		t.Fatal(err)
	}
	waiter := lambda.NewFunctionActiveV2Waiter(functions, func(o *lambda.FunctionActiveV2WaiterOptions) { o.MinDelay = 50 * time.Millisecond })
	if err := waiter.Wait(t.Context(), &lambda.GetFunctionInput{FunctionName: &p.name}, time.Minute); err != nil {
		t.Fatal(err)
	}
	made, err := functions.CreateFunctionUrlConfig(t.Context(), &lambda.CreateFunctionUrlConfigInput{FunctionName: &p.name, AuthType: types.FunctionUrlAuthTypeNone})
	if err != nil {
		t.Fatal(err)
	}
	p.url = *made.FunctionUrl
	return p
}

// answer of the probe.
type answer struct {
	PID      int    `json:"pid"`
	Error    string `json:"error"`
	SourceIP string `json:"source_ip"`
	Trace    string `json:"trace"`
}

// ask calls the probe at its URL, and fails the test on another status.
func (p probe) ask(t *testing.T, path string, status int) answer {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DialContext: shared.Dial, DisableKeepAlives: true}}
	response, err := client.Get(p.url + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != status {
		t.Fatalf("GET %s = %d %s, want %d", path, response.StatusCode, body, status)
	}
	var a answer
	if status == http.StatusOK {
		if err := json.Unmarshal(body, &a); err != nil {
			t.Fatal(err)
		}
	}
	return a
}

// calls are the AWS calls that the probe itself made.
func (p probe) calls(t *testing.T) (own []server.Call) {
	t.Helper()
	all, err := shared.Calls(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		if c.Function == p.name && c.Instance != "" {
			own = append(own, c)
		}
	}
	return own
}

// has reports whether the probe's table contains key.
func (p probe) has(t *testing.T, key string) bool {
	t.Helper()
	out, err := dynamodb.NewFromConfig(shared.config).GetItem(t.Context(), &dynamodb.GetItemInput{
		TableName: &p.table, ConsistentRead: aws.Bool(true), Key: map[string]dynamotypes.AttributeValue{"k": &dynamotypes.AttributeValueMemberS{Value: key}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.Item != nil
}

// logged waits until the log group contains a matching line. LocalStack stores
// lines a moment after the answer.
func logged(t *testing.T, group string, pleases func(line string) bool) {
	t.Helper()
	client := cloudwatchlogs.NewFromConfig(shared.config)
	await.Until(t, "a line of "+group, func() bool {
		// The group is made with the first line; until then this fails.
		out, err := client.FilterLogEvents(t.Context(), &cloudwatchlogs.FilterLogEventsInput{LogGroupName: &group})
		return err == nil && slices.ContainsFunc(out.Events, func(e logtypes.FilteredLogEvent) bool { return pleases(*e.Message) })
	})
}
