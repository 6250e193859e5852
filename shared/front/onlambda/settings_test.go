package onlambda

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/front/edge"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/front/setting"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/substrate/resources"
	"github.com/vacancy-host/vacancy/shared/host/tenant/quota"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store/dynamo"
)

const (
	sealARN    = "arn:aws:kms:us-east-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
	hostARN    = "arn:aws-us-gov:kms:us-gov-west-1:123456789012:key/mrk-1234abcd12ab34cd56ef1234567890ab"
	secret     = "q4mZk2v9XcT7bN1sWgRj8pLdYfHa0uEoIiQyVtGz3KB"
	before     = "A1c3E5g7I9k1M3o5Q7s9U1w3Y5a7C9e1G3i5K7m9O1q"
	gateARN    = "arn:aws:states:us-east-1:123456789012:stateMachine:vacancy-dev-gate"
	thinkerARN = "arn:aws:lambda:us-east-1:123456789012:function:vacancy-dev-think"
	tasksURL   = "https://sqs.us-east-1.amazonaws.com/123456789012/vacancy-dev-tasks"
	pushesURL  = "https://sqs.us-east-1.amazonaws.com/123456789012/vacancy-dev-pushes"
	searchARN  = "arn:aws:lambda:us-east-1:123456789012:function:vacancy-dev-search"
	streamARN  = "arn:aws:dynamodb:us-east-1:123456789012:table/vacancy-dev-rows/stream/2026-11-25T10:00:00.000"
	hexKey     = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
)

// full has every variable, well-formed.
func full() map[string]string {
	return map[string]string{
		"VACANCY_STAGE": "dev", "VACANCY_ROWS": "vacancy-dev-rows", "VACANCY_DOCS": "vacancy-dev-docs", "VACANCY_BLOBS": "vacancy-dev-blobs", "VACANCY_SEAL_KEY": sealARN,
		"VACANCY_HOST_KEY": hostARN, "VACANCY_URL": "https://vacants.example.org", "VACANCY_EDGE_SECRET": secret,
		"VACANCY_EDGE_SECRET_BEFORE": before, "VACANCY_RATE": "20:40", "VACANCY_PAIR_RATE": "0.5:20", "VACANCY_READS": "12.5:50", "VACANCY_PUTS": "0.5:60", "VACANCY_GETS": "4:480",
		"VACANCY_RETENTION": "48", "VACANCY_GATE": gateARN, "VACANCY_TASKS": tasksURL, "VACANCY_PUSHES": pushesURL, "VACANCY_TURNS": "6",
		"VACANCY_AGENT_URL": "https://agent.lambda-url.us-east-1.on.aws/", "VACANCY_MESSAGE_URL": "https://message.lambda-url.us-east-1.on.aws/",
		"VACANCY_REGISTRY_URL": "https://registry.lambda-url.us-east-1.on.aws/", "VACANCY_SEARCH_URL": "https://search.lambda-url.us-east-1.on.aws/",
		"VACANCY_THINK": thinkerARN, "VACANCY_MODEL_BUDGET": "2.5", "VACANCY_MOCK": "true", "VACANCY_TENANT_FUNCTIONS": "acme=" + thinkerARN,
		"VACANCY_ROWS_STREAM": streamARN, "VACANCY_SEARCH": searchARN, "VACANCY_FEE": "250", "VACANCY_BOOKING_PRICE": "0.5", "VACANCY_KEY_PREFIX": "acme", "VACANCY_AGP_KEY_PREFIX": "acmeagp",
		"VACANCY_QUOTAS": "vacants=500,acme/vacants=5000",
	}
}

func read(f functions.Function, env map[string]string) (Settings, error) {
	return ReadSettings(f, func(name string) string { return env[name] })
}

func TestAFunctionReadsItsVariablesAndNoOthers(t *testing.T) {
	for _, f := range functions.All() {
		got := map[string]bool{}
		if _, err := ReadSettings(f, func(name string) string { got[name] = true; return full()[name] }); err != nil {
			t.Errorf("ReadSettings(%s) = %v", f.Name, err)
		}
		want := map[string]bool{}
		for _, name := range f.Variables() {
			want[name] = true
		}
		for _, row := range setting.Table() {
			if row.IsReadBy(f.Name, f.URL) {
				want[row.Variable] = true
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s reads (-want +got):\n%s", f.Name, diff)
		}
	}
}

func TestEachVariableHasItsMember(t *testing.T) {
	var all []string
	for _, v := range variables() {
		all = append(all, v.name)
	}
	got, err := read(functions.Function{Name: "admin", URL: true, OptionalVars: strings.Join(all, " ")}, full())
	want := Settings{
		Stage: "dev", Tables: dynamo.TableNames{Rows: "vacancy-dev-rows", Docs: "vacancy-dev-docs"}, Bucket: "vacancy-dev-blobs", SealKey: sealARN, HostKey: hostARN,
		URL: "https://vacants.example.org", EdgeSecrets: []string{secret, before}, ReadRate: edge.Rate{PerSecond: 12.5, Burst: 50}, PutRate: edge.Rate{PerSecond: 0.5, Burst: 60}, GetRate: edge.Rate{PerSecond: 4, Burst: 480}, ThinkARN: thinkerARN, TaskQueueURL: tasksURL, PushQueueURL: pushesURL,
		MaxTurns: 6, RowsStreamARN: streamARN, SearchARN: searchARN, StateMachineARN: gateARN,
		FunctionURLs: map[string]string{
			"agent": "https://agent.lambda-url.us-east-1.on.aws", "message": "https://message.lambda-url.us-east-1.on.aws",
			"registry": "https://registry.lambda-url.us-east-1.on.aws", "search": "https://search.lambda-url.us-east-1.on.aws",
		},
		Host: setting.Host{
			Rate: edge.Rate{PerSecond: 20, Burst: 40}, PairRate: edge.Rate{PerSecond: 0.5, Burst: 20}, Retention: 48 * time.Hour, ModelBudget: 5 * money.Dollar / 2, AllowMocks: true,
			TenantFunctions: resources.Functions{"acme": {thinkerARN}}, Fee: 250, KeyPrefix: "acme", AGPKeyPrefix: "acmeagp", Quotas: quota.Quotas{"vacants": 500, "acme/vacants": 5000},
		},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("ReadSettings() = %v (-want +got):\n%s", err, diff)
	}
	if got, err := read(functions.Gateway, full()); err != nil || got.BookingPrice != money.Dollar/2 {
		t.Errorf("ReadSettings(gateway) = %+v, %v, want a booking price of %d", got, err, money.Dollar/2)
	}
}

func TestOptionalToolsMayBeMissing(t *testing.T) {
	env := map[string]string{"VACANCY_STAGE": "dev", "VACANCY_ROWS": "rows", "VACANCY_DOCS": "docs", "VACANCY_SEAL_KEY": hexKey, "VACANCY_MODEL_BUDGET": "0", "VACANCY_TASKS": tasksURL}
	got, err := read(functions.Admin, env)
	want := Settings{Stage: "dev", Host: setting.Host{Retention: 24 * time.Hour}, Tables: dynamo.TableNames{Rows: "rows", Docs: "docs"}, SealKey: hexKey, TaskQueueURL: tasksURL}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("ReadSettings() = %v (-want +got):\n%s", err, diff)
	}
}

func TestEachVariableThatIsWrongIsNamed(t *testing.T) {
	for _, tt := range []struct{ name, value, says string }{
		{"VACANCY_STAGE", "", "VACANCY_STAGE: expected 1 to 20 characters of a-z, 0-9 and -, the first a letter, got nothing"},
		{"VACANCY_STAGE", "1dev", `got "1dev"`},
		{"VACANCY_STAGE", "de_v", `got "de_v"`},
		{"VACANCY_STAGE", "Dev", `got "Dev"`},
		{"VACANCY_STAGE", strings.Repeat("a", 21), `got "aaaaaaaaaaaaaaaaaaaaa"`},
		{"VACANCY_ROWS", "", "VACANCY_ROWS: expected the name of a table, got nothing"},
		{"VACANCY_ROWS", "my rows", `VACANCY_ROWS: expected the name of a table, got "my rows"`},
		{"VACANCY_DOCS", "d", `VACANCY_DOCS: expected the name of a table, got "d"`},
		{"VACANCY_BLOBS", "", "VACANCY_BLOBS: expected the name of a bucket, got nothing"},
		{"VACANCY_BLOBS", "My_Bucket", `VACANCY_BLOBS: expected the name of a bucket, got "My_Bucket"`},
		{"VACANCY_SEAL_KEY", "", "VACANCY_SEAL_KEY: expected the ARN of a KMS key, or 64 hex digits, got nothing"},
		{"VACANCY_SEAL_KEY", hexKey[2:], "VACANCY_SEAL_KEY: expected the ARN of a KMS key, or 64 hex digits, got 62 other characters"},
		{"VACANCY_SEAL_KEY", "alias/seal", "got 10 other characters"},
		{"VACANCY_HOST_KEY", "alias/host", `VACANCY_HOST_KEY: expected the ARN of a KMS key, or nothing for a software identity, got "alias/host"`},
		{"VACANCY_HOST_KEY", strings.Replace(hostARN, "key/", "alias/", 1), "VACANCY_HOST_KEY: expected the ARN of a KMS key"},
		{"VACANCY_HOST_KEY", strings.Replace(hostARN, "123456789012", "12345678901", 1), "VACANCY_HOST_KEY: expected the ARN of a KMS key"},
		{"VACANCY_HOST_KEY", strings.Replace(hostARN, ":kms:", ":s3:", 1), "VACANCY_HOST_KEY: expected the ARN of a KMS key"},
		{"VACANCY_HOST_KEY", hostARN + "\n", "VACANCY_HOST_KEY: expected the ARN of a KMS key"},
		{"VACANCY_HOST_KEY", hexKey, "VACANCY_HOST_KEY: expected the ARN of a KMS key"},
		{"VACANCY_URL", "vacants.example.org", "VACANCY_URL: expected http://HOST"},
		{"VACANCY_URL", "https://user:word@example.org", "VACANCY_URL: expected http://HOST"},
		{"VACANCY_EDGE_SECRET", "short", "VACANCY_EDGE_SECRET: expected at least 32 printable characters"},
		{"VACANCY_EDGE_SECRET", "{{resolve:secretsmanager:arn:aws:x, y}}", "VACANCY_EDGE_SECRET: expected"},
		{"VACANCY_EDGE_SECRET", "", "VACANCY_EDGE_SECRET: expected the secret that follows VACANCY_EDGE_SECRET_BEFORE, got nothing"},
		{"VACANCY_EDGE_SECRET_BEFORE", secret[:31], "VACANCY_EDGE_SECRET_BEFORE: expected as VACANCY_EDGE_SECRET, got 31 other characters"},
		{"VACANCY_RATE", "20", `VACANCY_RATE: expected tokens-per-second:burst such as 20:40, or nothing for no limit, got "20"`},
		{"VACANCY_RATE", "0:1", `got "0:1"`},
		{"VACANCY_RATE", "NaN:1", `got "NaN:1"`},
		{"VACANCY_RATE", "1:0", `got "1:0"`},
		{"VACANCY_RATE", "1:2:3", `got "1:2:3"`},
		{"VACANCY_PAIR_RATE", "-1:5", "VACANCY_PAIR_RATE: expected"},
		{"VACANCY_READS", "12.5", `VACANCY_READS: expected units-per-second:burst such as 12.5:50, or nothing for no limit, got "12.5"`},
		{"VACANCY_PUTS", "1", `VACANCY_PUTS: expected objects-per-second:burst such as 0.5:60, or nothing for no limit, got "1"`},
		{"VACANCY_GETS", "0:1", `got "0:1"`},
		{"VACANCY_READS", "0:50", `got "0:50"`},
		{"VACANCY_READS", "12.5:0.5", `got "12.5:0.5"`},
		{"VACANCY_GATE", "vacancy-dev-gate", `VACANCY_GATE: expected the ARN of a state machine, got "vacancy-dev-gate"`},
		{"VACANCY_GATE", strings.Replace(gateARN, ":stateMachine:", ":execution:", 1), "VACANCY_GATE: expected the ARN"},
		{"VACANCY_GATE", gateARN + ":1", "VACANCY_GATE: expected the ARN"},
		{"VACANCY_GATE", hostARN, "VACANCY_GATE: expected the ARN"},
		{"VACANCY_THINK", "vacancy-dev-think", `VACANCY_THINK: expected the ARN of a Lambda function, or nothing where there are no models, got "vacancy-dev-think"`},
		{"VACANCY_MODEL_BUDGET", "", "VACANCY_MODEL_BUDGET: expected USD such as 5 or 0.5, at most 1000000, got nothing"},
		{"VACANCY_MODEL_BUDGET", "$5", `VACANCY_MODEL_BUDGET: expected USD such as 5 or 0.5, at most 1000000, got "$5"`},
		{"VACANCY_MOCK", "no", `VACANCY_MOCK: expected true or false, got "no"`},
		{"VACANCY_TENANT_FUNCTIONS", "acme=f", `VACANCY_TENANT_FUNCTIONS: expected TENANT=ARN,...`},
		{"VACANCY_TASKS", "", "VACANCY_TASKS: expected the URL of a queue, got nothing"},
		{"VACANCY_TASKS", "vacancy-dev-tasks", `VACANCY_TASKS: expected the URL of a queue, got "vacancy-dev-tasks"`},
		{"VACANCY_PUSHES", "", "VACANCY_PUSHES: expected the URL of a queue, got nothing"},
		{"VACANCY_TURNS", "", "VACANCY_TURNS: expected a number of turns from 1 to 1000, got nothing"},
		{"VACANCY_TURNS", "0", `VACANCY_TURNS: expected a number of turns from 1 to 1000, got "0"`},
		{"VACANCY_ROWS_STREAM", "", "VACANCY_ROWS_STREAM: expected the ARN of a table's stream, got nothing"},
		{"VACANCY_ROWS_STREAM", "vacancy-dev-rows", "VACANCY_ROWS_STREAM: expected the ARN of a table's stream"},
		{"VACANCY_ROWS_STREAM", strings.Replace(streamARN, "/stream/", "/index/", 1), "VACANCY_ROWS_STREAM: expected"},
		{"VACANCY_ROWS_STREAM", hostARN, "VACANCY_ROWS_STREAM: expected"},
		{"VACANCY_SEARCH", "", "VACANCY_SEARCH: expected the ARN of a Lambda function, got nothing"},
		{"VACANCY_SEARCH", "search", `VACANCY_SEARCH: expected the ARN of a Lambda function, got "search"`},
		{"VACANCY_AGENT_URL", "", "VACANCY_AGENT_URL: expected the URL of the function agent, got nothing"},
		{"VACANCY_SEARCH_URL", "search", `VACANCY_SEARCH_URL: expected the URL of the function search, got "search"`},
		{"VACANCY_BOOKING_PRICE", "0.255", `VACANCY_BOOKING_PRICE: expected USD in whole cents such as 0.25, 0.01 to 1000, got "0.255"`},
		{"VACANCY_BOOKING_PRICE", "0", `got "0"`},
		{"VACANCY_KEY_PREFIX", "Acme", `VACANCY_KEY_PREFIX: expected 1 to 12 characters of a-z and 0-9, got "Acme"`},
		{"VACANCY_AGP_KEY_PREFIX", "a_b", `VACANCY_AGP_KEY_PREFIX: expected`},
		{"VACANCY_FEE", "10001", `VACANCY_FEE: expected a whole number from 0 to 10000, got "10001"`},
		{"VACANCY_FEE", "-1", `got "-1"`},
		{"VACANCY_RETENTION", "23", `VACANCY_RETENTION: expected whole hours, 24 to 87600, got "23"`},
		{"VACANCY_RETENTION", "24h", `got "24h"`},
		{"VACANCY_RETENTION", "+48", `got "+48"`},
	} {
		env := full()
		env[tt.name] = tt.value
		f := functions.Admin
		if tt.name == "VACANCY_BLOBS" || tt.name == "VACANCY_READS" {
			f = functions.Search
		}
		if tt.name == "VACANCY_ROWS_STREAM" {
			f = functions.Meter
		}
		if tt.name == "VACANCY_SEARCH" || tt.name == "VACANCY_BOOKING_PRICE" {
			f = functions.Gateway
		}
		if tt.name == "VACANCY_AGENT_URL" || tt.name == "VACANCY_SEARCH_URL" {
			f = functions.Web
		}
		if tt.name == "VACANCY_TASKS" || tt.name == "VACANCY_PUSHES" || tt.name == "VACANCY_TURNS" {
			f = functions.Worker
		}
		_, err := read(f, env)
		if !problem.Is(err, problem.Usage) || !strings.Contains(err.Error(), tt.says) || strings.Count(err.Error(), "expected") != 1 {
			t.Errorf("ReadSettings(%s=%q) = %v, want it to say once: %s", tt.name, tt.value, err, tt.says)
		}
	}
}

func TestEverythingThatIsWrongIsToldAtOnceAndNoSecret(t *testing.T) {
	env := full()
	delete(env, "VACANCY_BLOBS") // which no function has beside the others
	delete(env, "VACANCY_READS")
	delete(env, "VACANCY_PUSHES")
	delete(env, "VACANCY_TURNS")
	delete(env, "VACANCY_ROWS_STREAM")
	delete(env, "VACANCY_SEARCH")
	delete(env, "VACANCY_BOOKING_PRICE")
	for _, name := range []string{"VACANCY_AGENT_URL", "VACANCY_MESSAGE_URL", "VACANCY_REGISTRY_URL", "VACANCY_SEARCH_URL"} {
		delete(env, name)
	}
	for name := range env {
		env[name] = "wrong, " + name
	}
	_, err := read(functions.Admin, env)
	if err == nil {
		t.Fatal("ReadSettings() = nil")
	}
	for name := range env {
		if !strings.Contains(err.Error(), name+": expected ") {
			t.Errorf("ReadSettings() does not name %s:\n%v", name, err)
		}
	}
	for _, name := range []string{"VACANCY_SEAL_KEY", "VACANCY_EDGE_SECRET", "VACANCY_EDGE_SECRET_BEFORE"} {
		if strings.Contains(err.Error(), env[name]) {
			t.Errorf("ReadSettings() shows %s:\n%v", name, err)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("ReadSettings() takes several lines:\n%v", err)
	}
}

// A name that the table and the parsers do not share would leave a setting unread.
func TestVariablesOfTheTableAreThoseThatAreParsed(t *testing.T) {
	parsed, had := map[string]bool{}, map[string]bool{}
	for _, v := range variables() {
		parsed[v.name] = true
	}
	for _, f := range functions.All() {
		for _, name := range f.Variables() {
			had[name] = true
		}
	}
	if diff := cmp.Diff(parsed, had); diff != "" {
		t.Errorf("variables (-parsed +of functions):\n%s", diff)
	}
}
