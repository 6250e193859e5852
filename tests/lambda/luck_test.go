//go:build unix

package lambda

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/store/dynamo"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/tests/awshost"
	"github.com/vacancy-host/vacancy/tests/caller"
)

// refusing is a service of AWS that refuses everything with a code.
func refusing(t *testing.T, code string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]string{"__type": code, "message": "refused by the test"})
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// sealKey is a KMS key that does not exist.
const sealKey = "VACANCY_SEAL_KEY=" + awshost.SealKey

func TestAWrongEnvironmentEndsTheStartWithAllThatIsWrongInOneLine(t *testing.T) {
	for name, wants := range map[string][]string{
		"message":      {"VACANCY_STAGE: ", "VACANCY_ROWS: ", "VACANCY_DOCS: ", "VACANCY_SEAL_KEY: ", "VACANCY_RATE: ", "VACANCY_MODEL_BUDGET: ", "VACANCY_TASKS: "},
		"agent":        {"VACANCY_STAGE: ", "VACANCY_ROWS: ", "VACANCY_DOCS: ", "VACANCY_SEAL_KEY: ", "VACANCY_RATE: ", "VACANCY_URL: ", "VACANCY_MODEL_BUDGET: ", "VACANCY_TASKS: ", "VACANCY_PUSHES: "},
		"worker":       {"VACANCY_STAGE: ", "VACANCY_ROWS: ", "VACANCY_DOCS: ", "VACANCY_SEAL_KEY: ", "VACANCY_MODEL_BUDGET: ", "VACANCY_TASKS: ", "VACANCY_PUSHES: ", "VACANCY_TURNS: ", "VACANCY_URL: "},
		"think":        {"VACANCY_STAGE: ", "VACANCY_DOCS: ", "VACANCY_SEAL_KEY: ", "VACANCY_MODEL_BUDGET: "},
		"admin":        {"VACANCY_STAGE: ", "VACANCY_ROWS: ", "VACANCY_DOCS: ", "VACANCY_SEAL_KEY: ", "VACANCY_RATE: ", "VACANCY_URL: ", "VACANCY_MODEL_BUDGET: ", "VACANCY_TASKS: "},
		"export":       {"VACANCY_STAGE: ", "VACANCY_ROWS: ", "VACANCY_DOCS: ", "VACANCY_SEAL_KEY: ", "VACANCY_RATE: "},
		"registry":     {"VACANCY_STAGE: ", "VACANCY_ROWS: ", "VACANCY_DOCS: ", "VACANCY_RATE: ", "VACANCY_URL: "},
		"search":       {"VACANCY_STAGE: ", "VACANCY_DOCS: ", "VACANCY_BLOBS: ", "VACANCY_RATE: "},
		"web":          {"VACANCY_STAGE: ", "VACANCY_RATE: ", "VACANCY_AGENT_URL: ", "VACANCY_MESSAGE_URL: ", "VACANCY_REGISTRY_URL: ", "VACANCY_SEARCH_URL: "},
		"graduate":     {"VACANCY_STAGE: ", "VACANCY_ROWS: ", "VACANCY_DOCS: ", "VACANCY_RATE: ", "VACANCY_URL: ", "VACANCY_GATE: "},
		"consent":      {"VACANCY_STAGE: ", "VACANCY_ROWS: ", "VACANCY_DOCS: "},
		"ratelimit":    {"VACANCY_STAGE: ", "VACANCY_ROWS: ", "VACANCY_DOCS: "},
		"collusion":    {"VACANCY_STAGE: ", "VACANCY_ROWS: ", "VACANCY_DOCS: ", "VACANCY_SEAL_KEY: "},
		"commit":       {"VACANCY_STAGE: ", "VACANCY_ROWS: ", "VACANCY_DOCS: ", "VACANCY_SEAL_KEY: ", "VACANCY_URL: "},
		"record":       {"VACANCY_STAGE: ", "VACANCY_ROWS: ", "VACANCY_DOCS: "},
		"gateway":      {"VACANCY_STAGE: ", "VACANCY_ROWS: ", "VACANCY_DOCS: ", "VACANCY_SEAL_KEY: ", "VACANCY_RATE: ", "VACANCY_URL: ", "VACANCY_TASKS: ", "VACANCY_SEARCH: "},
		"sweeper":      {"VACANCY_STAGE: ", "VACANCY_ROWS: ", "VACANCY_DOCS: ", "VACANCY_BLOBS: ", "VACANCY_TASKS: "},
		"meter":        {"VACANCY_STAGE: ", "VACANCY_ROWS: ", "VACANCY_DOCS: ", "VACANCY_BLOBS: ", "VACANCY_ROWS_STREAM: "},
		"prober":       {"VACANCY_STAGE: ", "VACANCY_DOCS: "},
		"tamper":       {"VACANCY_STAGE: "},
		"indexer":      {"VACANCY_STAGE: ", "VACANCY_DOCS: ", "VACANCY_BLOBS: "},
		"checkpointer": {"VACANCY_STAGE: ", "VACANCY_ROWS: ", "VACANCY_DOCS: ", "VACANCY_SEAL_KEY: "},
	} {
		t.Run(name, func(t *testing.T) {
			env := []string{"VACANCY_STAGE=No Stage", "VACANCY_SEAL_KEY=hush-hush", "VACANCY_RATE=fast", "VACANCY_URL=nowhere", "VACANCY_DOCS="}
			f := Start(t, bootstrap(t, name), Options{Env: env})
			if _, err := f.Ready(t.Context()); !errors.Is(err, ErrDied) {
				t.Errorf("Ready() = %v, want it dead", err)
			}
			all := lines(t, f)
			if len(all) != 1 || all[0]["level"] != "ERROR" {
				t.Fatalf("%d lines, want one error:\n%s", len(all), f.Log())
			}
			cause, _ := all[0]["cause"].(string)
			for _, want := range wants {
				if strings.Count(cause, want) != 1 {
					t.Errorf("%q is not in the line once: %s", want, cause)
				}
			}
			if n := strings.Count(cause, "VACANCY_"); n != len(wants) {
				t.Errorf("%d variables are named, want %d: %s", n, len(wants), cause)
			}
			if strings.Contains(f.Log(), "hush") {
				t.Errorf("the log shows a secret:\n%s", f.Log())
			}
		})
	}
}

// answers503 starts message, calls it, and returns the log line of its start.
func answers503(t *testing.T, env []string, to identity.ID) (start string) {
	t.Helper()
	f := Start(t, bootstrap(t, "message"), Options{Env: env})
	if _, err := f.Ready(t.Context()); err != nil {
		t.Fatalf("Ready() = %v, want a start", err)
	}
	c := caller.New(t, to)
	for range 2 {
		if a := send(t, f, caller.SendPath, c.Call("hi", time.Now())); a.Status != 503 || a.Code != "unavailable" || a.State != "" {
			t.Errorf("call = %v, want 503 without a word on the chain", a)
		}
	}
	all := lines(t, f)
	told := pick(all, "the tables do not answer", "cause")
	if len(told) > 1 || len(pick(all, "send", "cause")) != 2 {
		t.Errorf("want at most one line of the start, and one for each call:\n%s", f.Log())
	}
	if len(told) == 0 {
		return ""
	}
	start, _ = told[0][0].(string)
	return start
}

func TestTablesThatDoNotAnswerAreToldOnceAndWaitedFor(t *testing.T) {
	host := awshost.New(t)
	with := func(tables dynamo.TableNames) []string {
		return append(host.Env(host.Endpoint), "VACANCY_ROWS="+tables.Rows, "VACANCY_DOCS="+tables.Docs)
	}
	for _, tt := range []struct {
		name string
		env  []string
		want []string
	}{
		{"nobody there", host.Env("http://127.0.0.1:1"), []string{"table " + host.Tables.Rows + ": DynamoDB cannot be reached", "table " + host.Tables.Docs + ": DynamoDB cannot be reached"}},
		{"both missing", with(dynamo.TableNames{Rows: "no-rows", Docs: "no-docs"}),
			[]string{"table no-rows: it is missing, or still being created", "table no-docs: it is missing, or still being created"}},
		{"one missing", with(dynamo.TableNames{Rows: "no-rows", Docs: host.Tables.Docs}), []string{"table no-rows: it is missing, or still being created"}},
		{"being created", host.Env(refusing(t, "com.amazonaws.dynamodb.v20120810#ResourceNotFoundException")), []string{"still being created"}},
		{"with another key", with(dynamo.TableNames{Rows: host.Tables.Docs, Docs: host.Tables.Rows}), []string{"table " + host.Tables.Docs + ": its key attributes are not pk and sk", "table " + host.Tables.Rows + ": its key attributes are not pk and sk"}},
		{"denied", host.Env(refusing(t, "com.amazon.coral.service#AccessDeniedException")), []string{"the function's role may not read it"}},
		{"with credentials that have expired", host.Env(refusing(t, "com.amazon.coral.service#ExpiredTokenException")), []string{"the credentials are expired or wrong"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			told := answers503(t, tt.env, identity.ID{1})
			for _, want := range tt.want {
				if !strings.Contains(told, want) {
					t.Errorf("the start tells %q, want %q", told, want)
				}
			}
		})
	}
}

// A table that is made late is found without a restart.
func TestAFunctionAnswersOnceItsTablesAreThere(t *testing.T) {
	host := awshost.New(t)
	id := host.Create(t, "late", nil)
	gate := httptest.NewServer(http.NotFoundHandler())
	gate.Close() // nobody listens at its address
	f := Start(t, bootstrap(t, "message"), Options{Env: host.Env(gate.URL)})
	c := caller.New(t, id)
	if a := send(t, f, caller.SendPath, c.Call("hi", time.Now())); a.Status != 503 {
		t.Fatalf("call = %v, want 503", a)
	}
	listen(t, strings.TrimPrefix(gate.URL, "http://"), host.Endpoint)
	if a := send(t, f, caller.SendPath, c.Call("hi", time.Now())); a.Status != 200 {
		t.Errorf("call = %v, want 200\n%s", a, f.Log())
	}
}

// listen forwards connections from an address to a server's endpoint.
func listen(t *testing.T, address, endpoint string) {
	t.Helper()
	target, err := url.Parse(endpoint)
	must(t, err)
	l, err := net.Listen("tcp", address)
	must(t, err)
	s := httptest.NewUnstartedServer(httputil.NewSingleHostReverseProxy(target))
	s.Listener.Close()
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
}

func TestWithoutItsKeyServiceAFunctionAnswers503AndAcceptsNothing(t *testing.T) {
	host := awshost.New(t)
	id := host.Create(t, "sealed", nil)
	for code, says := range map[string]string{
		"AccessDeniedException": "refuses access",
		"ExpiredTokenException": "credentials are expired",
		"DisabledException":     "disabled",
		"KMSInternalException":  "the key service failed",
		"NotFoundException":     "does not exist",
		"ThrottlingException":   "the key service failed",
	} {
		t.Run(code, func(t *testing.T) {
			f := run(t, "message", host, sealKey, "AWS_ENDPOINT_URL_KMS="+refusing(t, code))
			c := caller.New(t, id)
			e := c.Call("hi", time.Now())
			if a := send(t, f, caller.SendPath, e); a.Status != 503 || a.State != "" {
				t.Errorf("call = %v, want 503 without a word on the chain", a)
			}
			healthy := run(t, "message", host)
			if a := send(t, healthy, caller.AskPath, e); a.State != "unknown" {
				t.Errorf("ask elsewhere = %v, want the call unknown: nothing was accepted", a)
			}
			told := pick(lines(t, f), "send", "verdict", "cause", "kms")
			cause := ""
			if len(told) == 1 {
				cause, _ = told[0][1].(string)
			}
			if !strings.Contains(cause, says) || told[0][0] != "unavailable" || told[0][2] == nil {
				t.Errorf("verdict, cause and KMS calls = %v, want unavailable with %q", told, says)
			}
		})
	}
}
