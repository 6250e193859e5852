package localstack

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/vacancy-host/vacancy/localstack/server"
)

func TestFunctionHearsWhoCallsAndOfTheTrace(t *testing.T) {
	p := deploy(t, "who", nil, nil)
	a := p.ask(t, "who", http.StatusOK)
	if a.SourceIP != "127.0.0.1" {
		t.Errorf("sourceIp = %q, want the caller's address", a.SourceIP)
	}
	if !strings.Contains(a.Trace, "Root=1-") {
		t.Errorf("_X_AMZN_TRACE_ID = %q, want a trace", a.Trace)
	}
	if again := p.ask(t, "who", http.StatusOK); again.PID != a.PID {
		t.Errorf("pid = %d, then %d, want one warm process", a.PID, again.PID)
	}
}

func TestEveryCallIsRecordedWithoutItsBody(t *testing.T) {
	p := deploy(t, "recorded", nil, nil)
	p.ask(t, "put?key=first", http.StatusOK)
	if a := p.ask(t, "put?key=first", http.StatusOK); a.Error != "ConditionalCheckFailedException" {
		t.Errorf("error = %q, want a failed condition", a.Error)
	}
	p.ask(t, "transact?key=second", http.StatusOK)
	p.ask(t, "seal?key=vacant-1", http.StatusOK)
	table := "arn:aws:dynamodb:us-east-1:000000000000:table/table-recorded"
	put := server.Action{Name: "dynamodb:PutItem", Resource: table, Condition: "attribute_not_exists(k)"}
	want := []server.Call{
		{Service: "dynamodb", Operation: "PutItem", Actions: []server.Action{put}, Status: 200},
		{Service: "dynamodb", Operation: "PutItem", Actions: []server.Action{put}, Status: 400, Error: "ConditionalCheckFailedException"},
		{Service: "dynamodb", Operation: "TransactWriteItems", Actions: []server.Action{put, {Name: "dynamodb:DeleteItem", Resource: table}}, Status: 200},
		{Service: "kms", Operation: "Encrypt", Actions: []server.Action{{Name: "kms:Encrypt", Resource: shared.key}}, Context: map[string]string{"vacancy": "vacant-1"}, Status: 200},
	}
	got := p.calls(t)
	rest := cmpopts.IgnoreFields(server.Call{}, "Time", "Function", "Role", "Instance", "Invocation", "Parameters")
	if diff := cmp.Diff(want, got, rest, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("Calls() (-want +got):\n%s", diff)
	}
	for _, c := range got {
		if c.Role != p.role || c.Invocation == "" || c.Time.IsZero() {
			t.Errorf("Calls() has %+v, want role %s, an invocation and a time", c, p.role)
		}
	}
	content, err := os.ReadFile(shared.Dir + "/calls.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"secret words", `"first"`} {
		if strings.Contains(string(content), secret) {
			t.Errorf("the record holds %q", secret)
		}
	}
}

func TestFaultsAreDoneToTheChosenCallsOnly(t *testing.T) {
	p := deploy(t, "faulty", nil, nil)
	for _, test := range []struct {
		fault   server.Fault
		error   string
		applied bool
	}{
		{server.Fault{Kind: server.Throttled}, "ProvisionedThroughputExceededException", false},
		{server.Fault{Kind: server.Internal}, "InternalServerError", false},
		{server.Fault{Kind: server.Denied}, "AccessDeniedException", false},
		{server.Fault{Kind: server.Expired}, "ExpiredTokenException", false},
		{server.Fault{Kind: server.Refused}, "cut", false},
		{server.Fault{Kind: server.Lost}, "cut", true},
		{server.Fault{Kind: server.Slow, Seconds: 0.1}, "", true},
	} {
		t.Run(string(test.fault.Kind), func(t *testing.T) {
			test.fault.Function, test.fault.Service, test.fault.Operation, test.fault.Table = p.name, "dynamodb", "PutItem", p.table
			if err := shared.AddFault(t.Context(), test.fault); err != nil {
				t.Fatal(err)
			}
			key := string(test.fault.Kind)
			a := p.ask(t, "put?key="+key, http.StatusOK)
			if a.Error != test.error || p.has(t, key) != test.applied {
				t.Errorf("the call ended as %q, applied %v, want %q, %v", a.Error, p.has(t, key), test.error, test.applied)
			}
			if a := p.ask(t, "put?key="+key+"-next", http.StatusOK); a.Error != "" {
				t.Errorf("the next call ended as %q, want none", a.Error)
			}
		})
	}
	var kinds []string
	for _, c := range p.calls(t) {
		if c.Fault != "" {
			kinds = append(kinds, c.Fault)
		}
	}
	if diff := cmp.Diff([]string{"throttled", "internal", "denied", "expired", "refused", "lost", "slow"}, kinds); diff != "" {
		t.Errorf("faults in the record (-want +got):\n%s", diff)
	}
}

func TestFaultOfAnUnknownKindIsRefused(t *testing.T) {
	if err := shared.AddFault(t.Context(), server.Fault{Kind: "unheard"}); err == nil || !strings.Contains(err.Error(), "want one of throttled") {
		t.Errorf("AddFault() = %v, want the kinds that there are", err)
	}
}

func TestClearFaultsForgetsWhatDidNotHappen(t *testing.T) {
	p := deploy(t, "cleared", nil, nil)
	if err := shared.AddFault(t.Context(), server.Fault{Kind: server.Denied, Function: p.name}); err != nil {
		t.Fatal(err)
	}
	if n, err := shared.CountFaults(t.Context()); n != 1 || err != nil {
		t.Errorf("Waiting() = %d, %v, want 1", n, err)
	}
	if err := shared.ClearFaults(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a := p.ask(t, "put?key=a", http.StatusOK); a.Error != "" {
		t.Errorf("the call ended as %q, want none", a.Error)
	}
}

func TestKillEndsTheProcessAtTheChosenMoment(t *testing.T) {
	p := deploy(t, "killed", nil, nil)
	first := p.ask(t, "who", http.StatusOK)
	if n, err := shared.Kill(t.Context(), p.name, server.Immediately()); n != 1 || err != nil {
		t.Fatalf("Kill(Now) = %d, %v, want 1", n, err)
	}
	second := p.ask(t, "who", http.StatusOK)
	if second.PID == first.PID {
		t.Error("the process lives after Kill(Now)")
	}
	for _, test := range []struct {
		key      string
		path     string
		when     server.Moment
		put, got bool // applied
	}{
		{"before", "put", server.BeforeCall(1), false, false},
		{"after", "put", server.AfterCall(1), true, false},
		{"between", "put-and-get", server.BeforeCall(2), true, false},
		{"named", "put-and-get", server.AfterCall(1).ForOperation("dynamodb", "GetItem").ForTable(p.table), true, true},
	} {
		t.Run(test.key, func(t *testing.T) {
			before := len(p.calls(t))
			if _, err := shared.Kill(t.Context(), p.name, test.when); err != nil {
				t.Fatal(err)
			}
			p.ask(t, test.path+"?key="+test.key, http.StatusBadGateway)
			if p.has(t, test.key) != test.put {
				t.Errorf("the item is there: %v, want %v", !test.put, test.put)
			}
			last := p.calls(t)[before:]
			if got := last[len(last)-1].Operation == "GetItem" && last[len(last)-1].Status == 200; got != test.got {
				t.Errorf("GetItem was carried out: %v, want %v", got, test.got)
			}
			p.ask(t, "who", http.StatusOK)
		})
	}
}

func TestProcessesEndAsLambdaEndsThem(t *testing.T) {
	p := deploy(t, "ends", nil, nil)
	for _, test := range []struct{ path, log string }{
		{"exit", "exit status 3"},
		{"sleep", "Task timed out after 3.00 seconds"},
		{"eat", "signal: killed"},
	} {
		t.Run(test.path, func(t *testing.T) {
			p.ask(t, test.path, http.StatusBadGateway)
			p.ask(t, "who", http.StatusOK) // in a new process
		})
	}
	logged(t, "/aws/lambda/"+p.name, func(line string) bool { return strings.Contains(line, "Task timed out after 3.00 seconds") })
}

func TestFunctionLogsWhereItIsToldAndHowever(t *testing.T) {
	group := "/vacancy/dev/logs"
	p := deploy(t, "logs", nil, &types.LoggingConfig{LogGroup: aws.String(group), LogFormat: types.LogFormatJson, SystemLogLevel: types.SystemLogLevelWarn})
	p.ask(t, "who", http.StatusOK)
	plain := false
	logged(t, group, func(line string) bool {
		plain = plain || strings.HasPrefix(line, "START") || strings.HasPrefix(line, "REPORT")
		return strings.Contains(line, "asked for /who")
	})
	if plain {
		t.Error("the group has the platform's lines at level WARN")
	}
}

func TestLogOfAFailedInitIsKept(t *testing.T) {
	p := deploy(t, "init", map[string]string{"FAIL_INIT": "VACANCY_ROWS is missing"}, nil)
	p.ask(t, "who", http.StatusBadGateway)
	logged(t, "/aws/lambda/"+p.name, func(line string) bool { return strings.Contains(line, "VACANCY_ROWS is missing") })
}
