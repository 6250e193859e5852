package doctor_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cost"
	"github.com/vacancy-host/vacancy/cmd/vacancy/doctor"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/front/setting"
)

func TestTheFixOfATablesEncryptionNamesTheKeyThatIsDeployed(t *testing.T) {
	f := well()
	f.Rows.KeyARN = ""
	named := regexp.MustCompile(`--logical-resource-id (\w+) `).FindStringSubmatch(doctor.Examine(f).Find("rows: encryption").Fix)
	if named == nil {
		t.Fatal("the fix names no resource")
	}
	if got := deployedData(t)[named[1]].Type; got != "AWS::KMS::Key" {
		t.Errorf("the fix names %s, which is a %q in stack data, want a key", named[1], got)
	}
}

func TestTheFixOfACeilingPutsTheOneThatIsDeployed(t *testing.T) {
	docs := deployedData(t)["Docs"].Properties
	f := well()
	f.Docs.ReadLimit = 0
	want := fmt.Sprintf("MaxReadRequestUnits=%d,MaxWriteRequestUnits=%d", docs.Replicas[0].Read.Reads, docs.Write.Writes)
	if got := doctor.Examine(f).Find("docs: ceilings").Fix; !strings.Contains(got, want) {
		t.Errorf("fix of docs = %s, want %s in it", got, want)
	}
	f = well()
	f.Docs.Indexes[0].ReadLimit = 0
	want = fmt.Sprintf(`"MaxReadRequestUnits":%d,"MaxWriteRequestUnits":%d`, docs.Replicas[0].Indexes[0].Read.Reads, docs.Indexes[0].Write.Writes)
	if got := doctor.Examine(f).Find("docs: ceilings").Fix; !strings.Contains(got, want) {
		t.Errorf("fix of the index = %s, want %s in it", got, want)
	}
}

// resource is a resource of stack data; a table has ceilings.
type resource struct {
	Type       string
	Properties struct {
		Write    ceiling     `json:"WriteOnDemandThroughputSettings"`
		Indexes  []docsIndex `json:"GlobalSecondaryIndexes"`
		Replicas []struct {
			Read    ceiling     `json:"ReadOnDemandThroughputSettings"`
			Indexes []docsIndex `json:"GlobalSecondaryIndexes"`
		}
	}
}

type docsIndex struct {
	Read  ceiling `json:"ReadOnDemandThroughputSettings"`
	Write ceiling `json:"WriteOnDemandThroughputSettings"`
}

type ceiling struct {
	Reads  int `json:"MaxReadRequestUnits"`
	Writes int `json:"MaxWriteRequestUnits"`
}

// deployedData are the resources of stack data with the defaults.
func deployedData(t *testing.T) map[string]resource {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "..", "infra", "testdata", "data.json"))
	if err != nil {
		t.Fatal(err)
	}
	var template struct{ Resources map[string]resource }
	if err := json.Unmarshal(b, &template); err != nil {
		t.Fatal(err)
	}
	return template.Resources
}

// well are the facts of a stage without faults.
func well() doctor.Facts {
	stack := func(outputs map[string]string) doctor.Stack {
		outputs["Version"] = "v1"
		return doctor.Stack{Status: "CREATE_COMPLETE", Outputs: outputs}
	}
	table := doctor.Table{
		Status: "ACTIVE", PITR: true, DeletionProtection: true, KeyARN: "arn:aws:kms:us-east-1:111122223333:key/at-rest", ReadLimit: 100, WriteLimit: 50,
	}
	rows, docs := table, table
	rows.Name, rows.Keys, rows.StreamView = "rows-1", []string{"pk B HASH", "sk N RANGE"}, "NEW_AND_OLD_IMAGES"
	docs.Name, docs.Keys, docs.Indexes = "docs-1", []string{"pk S HASH", "sk S RANGE"}, []doctor.Index{{Name: "listed", ReadLimit: 10, WriteLimit: 10}}
	docs.StreamView = "KEYS_ONLY"
	jobs := map[string]doctor.Job{}
	for _, f := range functions.All() {
		if f.Check.Name != "" {
			jobs[f.Name] = doctor.Job{LastRun: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Verdict: "ok"}
		}
	}
	f := doctor.Facts{
		Stage: "dev", Version: "v1", Region: "us-east-1",
		Tools:        []doctor.Tool{{Name: "go", Version: "1.26.8"}, {Name: "node", Version: "22.1.0"}, {Name: "npm", Version: "10.2.0"}},
		Account:      doctor.Account{ID: "111122223333", ARN: "arn:aws:iam::111122223333:user/ada", Region: "us-east-1"},
		Clock:        doctor.Clock{Known: true, Skew: time.Second},
		Bootstrap:    doctor.Bootstrap{Version: 28},
		Quota:        doctor.Quota{Limit: 1000, Unreserved: 1000},
		Types:        doctor.TypeSupport{KeySpecs: []string{"RSA_2048", "ECC_NIST_EDWARDS25519"}},
		TamperSource: doctor.EventSource{State: "Enabled", LastResult: "No records processed"},
		Roles:        &doctor.Simulation{Calls: 400},
		Mail:         doctor.Mail{Topic: "arn:aws:sns:us-east-1:111122223333:alarms", Subscribers: map[string]bool{"ops@example.org": true}},
		Stacks: map[string]doctor.Stack{
			"data": stack(map[string]string{"Rows": "rows-1"}), "watch": stack(map[string]string{}),
			"functions": stack(map[string]string{"EdgeSecret": "arn:secret"}), "edge": stack(map[string]string{}),
		},
		Rows: rows, Docs: docs, SealingKey: doctor.SealingKey{ID: "seal", State: "Enabled"},
		Jobs: jobs, Gate: doctor.Gate{Status: "ACTIVE"},
		HostAnswers: doctor.HostAnswers{
			Edge: true, DirectAnswers: map[string]doctor.Answer{"message": {Status: 403}, "export": {Status: 403}}, Health: doctor.Answer{Status: 200}, Operator: doctor.Answer{Status: 200},
			Host: admin.Host{KeyStorage: admin.KeyStorageKMS}, IdentityProved: true, Agent: doctor.Answer{Status: 404, Code: "not_found"},
			Registry: doctor.Answer{Status: 200}, Log: doctor.Answer{Status: 200}, Search: doctor.Answer{Status: 200},
			Graduate: doctor.Answer{Status: 404, Code: "not_found"}, Gateway: doctor.Answer{Status: 200},
		},
	}
	f.SetContext(map[string]string{"email": "ops@example.org"}, f.Region)
	return f
}

// setStatus puts the stack watch into a status.
func setStatus(f *doctor.Facts, status string) {
	s := f.Stacks["watch"]
	s.Status = status
	f.Stacks["watch"] = s
}

func TestAWellStageIsWell(t *testing.T) {
	r := doctor.Examine(well())
	if !r.OK || r.Count(doctor.OK) != len(r.Checks) {
		t.Errorf("Examine() of a well stage = %+v", r)
	}
}

// Each fault makes exactly one check fail, with the command that mends it.
func TestEveryFaultIsNamedWithItsFix(t *testing.T) {
	for _, tt := range []struct {
		fault   string
		check   string
		verdict doctor.Verdict
		fix     string // part of the fix
		make    func(*doctor.Facts)
	}{
		{"go missing", "go", doctor.Fail, "https://go.dev/dl/", func(f *doctor.Facts) { f.Tools[0].Missing = true }},
		{"go too old", "go", doctor.Fail, "Go 1.26", func(f *doctor.Facts) { f.Tools[0].Version = "1.25.9" }},
		{"node missing", "node", doctor.Fail, "https://nodejs.org", func(f *doctor.Facts) { f.Tools[1].Missing = true }},
		{"node too old", "node", doctor.Fail, "https://nodejs.org", func(f *doctor.Facts) { f.Tools[1].Version = "18.20.1" }},
		{"npm missing", "npm", doctor.Fail, "npm --version", func(f *doctor.Facts) { f.Tools[2].Missing = true }},
		{"another Region", "region", doctor.Fail, "export AWS_REGION=us-east-1", func(f *doctor.Facts) { f.Account.Region = "eu-west-1" }},
		{"clock a little off", "clock", doctor.Warn, "timedatectl", func(f *doctor.Facts) { f.Clock.Skew = -61 * time.Second }},
		{"clock off", "clock", doctor.Fail, "timedatectl", func(f *doctor.Facts) { f.Clock.Skew = 301 * time.Second }},
		{"no bootstrap", "bootstrap", doctor.Fail, "vacancy deploy --stage dev --bootstrap", func(f *doctor.Facts) { f.Bootstrap = doctor.Bootstrap{Missing: true} }},
		{"old bootstrap", "bootstrap", doctor.Fail, "bootstrap aws://111122223333/us-east-1", func(f *doctor.Facts) { f.Bootstrap.Version = 5 }},
		{"small quota", "quota", doctor.Fail, "L-B99A9384", func(f *doctor.Facts) { f.Quota = doctor.Quota{Limit: 10, Unreserved: 10} }},
		{"quota below a larger day", "quota", doctor.Fail, "--context worstDay=20", func(f *doctor.Facts) {
			f.Limits, f.Quota = cost.Limits{"message": 200}, doctor.Quota{Limit: 200, Unreserved: 180, Reserved: 20, Deployed: true}
		}},
		{"quota of a stage that reserves nothing", "quota", doctor.OK, "", func(f *doctor.Facts) {
			f.Settings.ReserveConcurrency, f.Quota = false, doctor.Quota{Limit: 10, Unreserved: 10}
		}},
		{"a quota of 50, of which Lambda wants all unreserved", "quota", doctor.Fail, "--context reserve=false (then only the account's quota limits", func(f *doctor.Facts) {
			f.Quota = doctor.Quota{Limit: 50, Unreserved: 50}
		}},
		{"a quota that cannot be read", "quota", doctor.Warn, "aws sts", func(f *doctor.Facts) { f.Quota = doctor.Quota{Err: errors.New("denied")} }},
		{"a quota that Lambda does not tell", "quota", doctor.Warn, "aws sts", func(f *doctor.Facts) { f.Quota = doctor.Quota{} }},
		{"a bootstrap that cannot be read", "bootstrap", doctor.Warn, "aws sts", func(f *doctor.Facts) { f.Bootstrap = doctor.Bootstrap{Err: errors.New("denied")} }},
		{"no Function URLs", "resource types", doctor.Fail, "export AWS_REGION=us-east-1", func(f *doctor.Facts) { f.Types.Missing = []string{"AWS::Lambda::Url", "AWS::Budgets::Budget"} }},
		{"no CloudFront", "resource types", doctor.Fail, "vacancy deploy --stage dev --no-edge", func(f *doctor.Facts) { f.Types.Missing = []string{"AWS::CloudFront::Distribution"} }},
		{"no budgets", "resource types", doctor.Warn, "costmanagement", func(f *doctor.Facts) { f.Types.Missing = []string{"AWS::Budgets::Budget"} }},
		{"no web ACL, which the stage does not want", "resource types", doctor.OK, "", func(f *doctor.Facts) { f.Types.Missing = []string{"AWS::WAFv2::WebACL"} }},
		{"types that cannot be read", "resource types", doctor.Warn, "aws sts", func(f *doctor.Facts) { f.Types.Err = errors.New("denied") }},
		{"no Ed25519", "key spec", doctor.Fail, "--context hostKey=software", func(f *doctor.Facts) { f.Types.KeySpecs = []string{"RSA_2048"} }},
		{"key specs unknown", "key spec", doctor.Warn, "aws sts", func(f *doctor.Facts) { f.Types.KeySpecs = nil }},
		{"no mail address", "mail address", doctor.Warn, "vacancy deploy --stage dev --email", func(f *doctor.Facts) { f.Settings.Email = "" }},
		{"quota reserved by others", "quota", doctor.Fail, "L-B99A9384", func(f *doctor.Facts) { f.Quota.Unreserved = 113 }},
		{"no detector", "rows watched", doctor.Fail, "list-event-source-mappings --function-name vacancy-dev-tamper", func(f *doctor.Facts) { f.TamperSource = doctor.EventSource{Absent: true} }},
		{"detector switched off", "rows watched", doctor.Fail, "vacancy deploy --stage dev", func(f *doctor.Facts) { f.TamperSource.State = "Disabled" }},
		{"detector without rows", "rows watched", doctor.Fail, "vacancy deploy", func(f *doctor.Facts) { f.TamperSource.LastResult = "PROBLEM: Function call failed" }},
		{"detector unknown", "rows watched", doctor.Fail, "aws sts", func(f *doctor.Facts) { f.TamperSource.Err = errors.New("denied") }},
		{"stack missing", "stack watch", doctor.Fail, "vacancy deploy --stage dev", func(f *doctor.Facts) { f.Stacks["watch"] = doctor.Stack{Missing: true} }},
		{"stack never made", "stack watch", doctor.Fail, "delete-stack --stack-name vacancy-dev-watch", func(f *doctor.Facts) { setStatus(f, "ROLLBACK_COMPLETE") }},
		{"stack rolled back", "stack watch", doctor.Warn, "vacancy deploy --stage dev", func(f *doctor.Facts) { setStatus(f, "UPDATE_ROLLBACK_COMPLETE") }},
		{"rollback failed", "stack watch", doctor.Fail, "continue-update-rollback", func(f *doctor.Facts) { setStatus(f, "UPDATE_ROLLBACK_FAILED") }},
		{"deletion failed", "stack watch", doctor.Fail, "vacancy destroy --stage dev", func(f *doctor.Facts) { setStatus(f, "DELETE_FAILED") }},
		{"stack busy", "stack watch", doctor.Warn, "vacancy doctor", func(f *doctor.Facts) { setStatus(f, "UPDATE_IN_PROGRESS") }},
		{"stack denied", "stack watch", doctor.Fail, "aws sts get-caller-identity", func(f *doctor.Facts) { f.Stacks["watch"] = doctor.Stack{Err: errors.New("denied")} }},
		{"version differs", "version", doctor.Warn, "vacancy deploy --stage dev", func(f *doctor.Facts) { f.Version = "v2" }},
		{"stacks of two versions", "version", doctor.Warn, "vacancy deploy --stage dev", func(f *doctor.Facts) { f.Stacks["edge"].Outputs["Version"] = "v1-1-gabc" }},
		{"mail never confirmed", "alarm mail", doctor.Warn, "aws sns subscribe --topic-arn arn:aws:sns:us-east-1:111122223333:alarms --protocol email --notification-endpoint ops@example.org", func(f *doctor.Facts) { f.Mail.Subscribers["ops@example.org"] = false }},
		{"subscription removed by AWS", "alarm mail", doctor.Warn, "--notification-endpoint ops@example.org", func(f *doctor.Facts) { f.Mail.Subscribers = nil }},
		{"another address never confirmed", "alarm mail", doctor.Warn, "--notification-endpoint b@example.org", func(f *doctor.Facts) { f.Mail.Subscribers["b@example.org"] = false }},
		{"subscriptions unknown", "alarm mail", doctor.Fail, "aws sts", func(f *doctor.Facts) { f.Mail.Err = errors.New("denied") }},
		{"a role that AWS decides otherwise", "roles", doctor.Fail, "report it", func(f *doctor.Facts) {
			f.Roles.Mismatches = []string{"worker dynamodb:PutItem on data.Docs.Arn: implicitDeny"}
		}},
		{"roles that AWS does not decide", "roles", doctor.Fail, "iam:SimulateCustomPolicy", func(f *doctor.Facts) { f.Roles.Err = errors.New("denied") }},
		{"no simulation", "roles", doctor.NotApplicable, "", func(f *doctor.Facts) { f.Roles = nil }},
		{"wrong keys", "rows: keys", doctor.Fail, "--stage OTHER", func(f *doctor.Facts) { f.Rows.Keys[0] = "pk S HASH" }},
		{"no index", "docs: keys", doctor.Fail, "--stage OTHER", func(f *doctor.Facts) { f.Docs.Indexes = nil }},
		{"no backups", "rows: backups", doctor.Fail, "update-continuous-backups --table-name rows-1", func(f *doctor.Facts) { f.Rows.PITR = false }},
		{"no deletion protection", "docs: deletion protection", doctor.Fail, "update-table --table-name docs-1 --deletion-protection-enabled", func(f *doctor.Facts) { f.Docs.DeletionProtection = false }},
		{"no stream", "rows: stream", doctor.Fail, "StreamViewType=NEW_AND_OLD_IMAGES", func(f *doctor.Facts) { f.Rows.StreamView = "" }},
		{"stream shows too little", "rows: stream", doctor.Fail, "StreamViewType=NEW_AND_OLD_IMAGES", func(f *doctor.Facts) { f.Rows.StreamView = "KEYS_ONLY" }},
		{"no stream of documents", "docs: stream", doctor.Fail, "StreamViewType=KEYS_ONLY", func(f *doctor.Facts) { f.Docs.StreamView = "" }},
		{"a stream that shows keys in the clear", "docs: stream", doctor.Fail, "StreamViewType=KEYS_ONLY", func(f *doctor.Facts) { f.Docs.StreamView = "NEW_IMAGE" }},
		{"registry fails", "registry", doctor.Fail, "--function registry", func(f *doctor.Facts) { f.HostAnswers.Registry.Status = 502 }},
		{"search does not answer", "search", doctor.Fail, "--function search", func(f *doctor.Facts) { f.HostAnswers.Search = doctor.Answer{Err: errors.New("refused")} }},
		{"search has another secret", "search", doctor.Fail, "vacancy deploy --stage dev", func(f *doctor.Facts) { f.HostAnswers.Search.Status = 403 }},
		{"search is flooded", "search", doctor.Warn, "vacancy doctor", func(f *doctor.Facts) { f.HostAnswers.Search.Status = 429 }},
		{"nothing is sealed", "log", doctor.Warn, "vacancy invoke checkpointer", func(f *doctor.Facts) { f.HostAnswers.Log.Status = 404 }},
		{"the log fails", "log", doctor.Fail, "--function registry", func(f *doctor.Facts) { f.HostAnswers.Log.Status = 503 }},
		{"A2A fails", "a2a", doctor.Fail, "--function agent", func(f *doctor.Facts) { f.HostAnswers.Agent = doctor.Answer{Status: 502} }},
		{"A2A is another's", "a2a", doctor.Fail, "--function agent", func(f *doctor.Facts) { f.HostAnswers.Agent.Code = "" }},
		{"turns in the background fail", "background turns", doctor.Fail, "--function worker", func(f *doctor.Facts) { f.Jobs["worker"] = doctor.Job{LastRun: time.Now(), Verdict: "unavailable"} }},
		{"turns in the background wait", "background turns", doctor.OK, "", func(f *doctor.Facts) { f.Jobs["worker"] = doctor.Job{LastRun: time.Now(), Verdict: "again"} }},
		{"sealing fails", "sealing", doctor.Fail, "--function checkpointer", func(f *doctor.Facts) {
			f.Jobs["checkpointer"] = doctor.Job{LastRun: time.Now(), Verdict: "unavailable"}
		}},
		{"no index is published", "search index", doctor.Fail, "--function indexer", func(f *doctor.Facts) { f.Jobs["indexer"] = doctor.Job{LastRun: time.Now(), Verdict: "internal"} }},
		{"accounts fail", "accounts and AGP", doctor.Fail, "--function gateway", func(f *doctor.Facts) { f.HostAnswers.Gateway.Status = 502 }},
		{"usage is not folded", "usage", doctor.Fail, "--function meter", func(f *doctor.Facts) { f.Jobs["meter"] = doctor.Job{LastRun: time.Now(), Verdict: "unavailable"} }},
		{"nothing is swept", "sweeps", doctor.Fail, "--function sweeper", func(f *doctor.Facts) { f.Jobs["sweeper"] = doctor.Job{LastRun: time.Now(), Verdict: "unavailable"} }},
		{"the handler of the gate fails", "graduations", doctor.Fail, "--function graduate", func(f *doctor.Facts) { f.HostAnswers.Graduate.Status = 502 }},
		{"the handler of the gate is another's", "graduations", doctor.Fail, "vacancy deploy --stage dev", func(f *doctor.Facts) { f.HostAnswers.Graduate = doctor.Answer{Status: 200} }},
		{"the handler of the gate knows no code", "graduations", doctor.Fail, "--function graduate", func(f *doctor.Facts) { f.HostAnswers.Graduate.Code = "" }},
		{"no state machine", "gate", doctor.Fail, "vacancy deploy --stage dev", func(f *doctor.Facts) { f.Gate = doctor.Gate{Missing: true} }},
		{"a state machine that goes", "gate", doctor.Fail, "vacancy deploy --stage dev", func(f *doctor.Facts) { f.Gate.Status = "DELETING" }},
		{"attempts without a verdict", "gate", doctor.Warn, "list-executions", func(f *doctor.Facts) { f.Gate.Failed = 2 }},
		{"a state machine that cannot be read", "gate", doctor.Fail, "aws sts get-caller-identity", func(f *doctor.Facts) { f.Gate.Err = errors.New("denied") }},
		{"no key of one's own", "rows: encryption", doctor.Fail, "--sse-specification", func(f *doctor.Facts) { f.Rows.KeyARN = "" }},
		{"no ceiling", "rows: ceilings", doctor.Fail, "--on-demand-throughput", func(f *doctor.Facts) { f.Rows.WriteLimit = 0 }},
		{"no ceiling of an index", "docs: ceilings", doctor.Fail, "listed", func(f *doctor.Facts) { f.Docs.Indexes[0].ReadLimit = 0 }},
		{"raw URL answers", "edge", doctor.Fail, "vacancy deploy --stage dev", func(f *doctor.Facts) { f.HostAnswers.DirectAnswers["export"] = doctor.Answer{Status: 404} }},
		{"raw URL does not answer", "edge", doctor.Fail, "vacancy tail", func(f *doctor.Facts) {
			f.HostAnswers.DirectAnswers["message"] = doctor.Answer{Err: errors.New("refused")}
		}},
		{"no Function URL", "edge", doctor.Fail, "vacancy deploy --stage dev", func(f *doctor.Facts) { f.HostAnswers.DirectAnswers = nil }},
		{"host fails", "health", doctor.Fail, "vacancy tail --host aws --since 1h --function message --stage dev", func(f *doctor.Facts) { f.HostAnswers.Health.Status = 502 }},
		{"host does not answer", "health", doctor.Fail, "vacancy tail", func(f *doctor.Facts) { f.HostAnswers.Health = doctor.Answer{Err: errors.New("refused")} }},
		{"edge has another secret", "health", doctor.Fail, "vacancy deploy --stage dev", func(f *doctor.Facts) { f.HostAnswers.Health.Status = 403 }},
		{"host is flooded", "health", doctor.Warn, "vacancy doctor", func(f *doctor.Facts) { f.HostAnswers.Health.Status = 429 }},
		{"software identity", "host identity", doctor.Warn, "hostKey=kms", func(f *doctor.Facts) { f.HostAnswers.Host.KeyStorage = admin.KeyStorageSoftware }},
		{"another's identity", "host identity", doctor.Fail, "vacancy deploy", func(f *doctor.Facts) { f.HostAnswers.IdentityProved = false }},
		{"an agent without its secret", "models", doctor.Fail, "vacancy secret set anthropic --host aws --stage dev --tenant acme", func(f *doctor.Facts) {
			f.Models.Agents = []doctor.ModelAgent{{Name: "well"}, {Name: "sage", Tenant: "acme", MissingSecret: "anthropic"}}
		}},
		{"a model without a price", "models", doctor.Fail, "vacancy models set FILE --host aws --stage dev", func(f *doctor.Facts) {
			f.Models.Agents = []doctor.ModelAgent{{Name: "sage", Tenant: "acme", PriceProblem: "model: expected a model in the table"}}
		}},
		{"a model without a grant", "models", doctor.Fail, "--context bedrockModels=amazon.nova-lite-v1:0,amazon.nova-pro-v1:0", func(f *doctor.Facts) {
			f.Models.BedrockModels, f.Models.Agents = []string{"amazon.nova-pro-v1:0"}, []doctor.ModelAgent{{Name: "rock", BedrockModels: []string{"amazon.nova-lite-v1:0"}}}
		}},
		{"grants that are not known here", "models", doctor.OK, "", func(f *doctor.Facts) {
			f.Models.ContextUnknown, f.Models.Agents = true, []doctor.ModelAgent{{Name: "rock", BedrockModels: []string{"amazon.nova-lite-v1:0"}}}
		}},
		{"a mock that answers", "models", doctor.Warn, "vacancy update trial substrate=KIND:MODEL", func(f *doctor.Facts) {
			f.Models.MockAllowed, f.Models.Agents = true, []doctor.ModelAgent{{Name: "trial", IsMock: true}}
		}},
		{"mocks on a stage", "models", doctor.Warn, "--context mock=false", func(f *doctor.Facts) { f.Models.MockAllowed = true }},
		{"an issuer that is away", "issuers", doctor.Warn, "vacancy issuer show 0a --host aws", func(f *doctor.Facts) {
			f.Issuers.All = []doctor.Issuer{{ID: "09", URL: "https://there.example", Tenant: "acme"}, {ID: "0a", URL: "https://away.example", Tenant: "acme", Failure: "nobody answers"}}
		}},
		{"issuers that cannot be read", "issuers", doctor.Fail, "--function admin", func(f *doctor.Facts) { f.Issuers.Err = errors.New("503") }},
		{"agents that cannot be read", "models", doctor.Fail, "--function admin", func(f *doctor.Facts) { f.Models.Err = errors.New("503") }},
		{"sealing key disabled", "sealing key", doctor.Fail, "aws kms enable-key --key-id seal", func(f *doctor.Facts) { f.SealingKey.State = "Disabled" }},
		{"sealing key dying", "sealing key", doctor.Fail, "aws kms cancel-key-deletion --key-id seal", func(f *doctor.Facts) { f.SealingKey.State = "PendingDeletion" }},
		{"rows changed by hand", "rows untouched", doctor.Fail, "vacancy verify --host aws --stage dev", func(f *doctor.Facts) { f.TamperReports.Rows = 2 }},
	} {
		t.Run(tt.fault, func(t *testing.T) {
			f := well()
			tt.make(&f)
			r := doctor.Examine(f)
			for _, c := range r.Checks {
				if c.Name == tt.check {
					if c.Verdict != tt.verdict || !strings.Contains(c.Fix, tt.fix) || c.Detail == "" {
						t.Errorf("Examine() = %+v, want %s with a fix of %q", c, tt.verdict, tt.fix)
					}
					continue
				}
				if c.Verdict != doctor.OK {
					t.Errorf("Examine() = %+v too, want ok: one fault, one check", c)
				}
			}
			if want := tt.verdict != doctor.Fail; r.OK != want {
				t.Errorf("Examine().OK = %v, want %v", r.OK, want)
			}
		})
	}
}

// A fault that hides others makes them not applicable: no check says ok.
func TestChecksHiddenByAFaultAreNotApplicable(t *testing.T) {
	blind := []string{
		"bootstrap", "quota", "resource types", "key spec", "stack data", "stack watch", "stack functions", "stack edge", "version", "alarm mail", "roles",
		"table rows", "rows: keys", "table docs", "docs: ceilings", "sealing key", "rows watched", "rows untouched", "gate",
	}
	for _, f := range functions.All() {
		if f.Check.Name != "" {
			blind = append(blind, f.Check.Name)
		}
	}
	for _, tt := range []struct {
		fault string
		check string
		fix   string
		hides []string
		make  func(*doctor.Facts)
	}{
		{"no credentials", "credentials", "aws configure", blind, func(f *doctor.Facts) { f.Account = doctor.Account{CredentialProblem: doctor.NoCredentials} }},
		{"expired credentials", "credentials", "aws sso login", blind, func(f *doctor.Facts) { f.Account.CredentialProblem = doctor.ExpiredCredentials }},
		{"denied credentials", "credentials", "aws sts get-caller-identity", blind, func(f *doctor.Facts) {
			f.Account.CredentialProblem, f.Account.Err = doctor.DeniedCredentials, errors.New("no such key")
		}},
		{"signature out of time", "credentials", "timedatectl", blind, func(f *doctor.Facts) { f.Account.CredentialProblem = doctor.SkewedClock }},
		{"AWS out of reach", "credentials", "AWS_ENDPOINT_URL", blind, func(f *doctor.Facts) {
			f.Account.CredentialProblem, f.Account.Err = doctor.Unreachable, errors.New("no route")
		}},
		{"no Region", "region", "export AWS_REGION", append(blind, "credentials"), func(f *doctor.Facts) {
			f.Account = doctor.Account{CredentialProblem: doctor.NoRegion}
		}},
		{"table missing", "table rows", "restore", []string{"rows: keys", "rows: backups", "rows: stream"}, func(f *doctor.Facts) { f.Rows = doctor.Table{Name: "rows-1", Missing: true} }},
		{"table not ready", "table rows", "vacancy doctor", []string{"rows: keys"}, func(f *doctor.Facts) { f.Rows.Status = "CREATING" }},
		{"operator key refused", "operator key", "vacancy keys rotate-operator --stage dev", []string{"host identity", "models"}, func(f *doctor.Facts) { f.HostAnswers.Operator.Status = 401 }},
		{"no operator key", "operator key", "vacancy keys rotate-operator --stage dev", []string{"host identity", "models"}, func(f *doctor.Facts) { f.HostAnswers.NoKey = true }},
	} {
		t.Run(tt.fault, func(t *testing.T) {
			f := well()
			tt.make(&f)
			r := doctor.Examine(f)
			if c := r.Find(tt.check); c.Verdict != doctor.Fail || !strings.Contains(c.Fix, tt.fix) {
				t.Errorf("Examine() = %+v, want FAIL with a fix of %q", c, tt.fix)
			}
			for _, hidden := range tt.hides {
				if c := r.Find(hidden); c.Verdict != doctor.NotApplicable {
					t.Errorf("Examine() = %+v, want not applicable", c)
				}
			}
		})
	}
}

func TestChecksThatTheSettingsMakeNeedless(t *testing.T) {
	for check, change := range map[string]func(*doctor.Facts){
		"alarm mail":   func(f *doctor.Facts) { f.Settings.Email, f.Mail.Subscribers = "", nil },
		"mail address": func(f *doctor.Facts) { f.SetContext(nil, f.Region) }, // deployed from another machine
		"key spec":     func(f *doctor.Facts) { f.Settings.HostKey, f.Types.KeySpecs = "software", nil },
	} {
		f := well()
		change(&f)
		if c := doctor.Examine(f).Find(check); c.Verdict != doctor.NotApplicable {
			t.Errorf("Examine() = %+v, want not applicable", c)
		}
	}
}

// The account is examined before there is a stage, so only its own checks are made.
func TestTheChecksOfTheAccountAreAmongThoseOfTheStage(t *testing.T) {
	account, whole := doctor.ExamineAccount(well()).Checks, doctor.Examine(well())
	if len(account) < 5 {
		t.Fatalf("ExamineAccount() makes %d checks, want at least 5", len(account))
	}
	for _, c := range account {
		if whole.Find(c.Name) != c {
			t.Errorf("ExamineAccount() has %+v, and Examine() %+v", c, whole.Find(c.Name))
		}
	}
}

func TestTheResourceTypesAreThoseOfTheTemplates(t *testing.T) {
	in := func(files ...string) (types []string) {
		for _, file := range files {
			b, err := os.ReadFile(filepath.Join("..", "..", "..", "infra", "testdata", file+".json"))
			if err != nil {
				t.Fatal(err)
			}
			var template struct {
				Resources map[string]struct{ Type string }
			}
			if err := json.Unmarshal(b, &template); err != nil {
				t.Fatal(err)
			}
			for _, r := range template.Resources {
				types = append(types, r.Type)
			}
		}
		slices.Sort(types)
		return slices.Compact(types)
	}
	standard := setting.Defaults()
	standard.Email = "ops@example.org"
	full := standard
	full.WAF = true
	for _, tt := range []struct {
		settings setting.Values
		files    []string
	}{{standard, []string{"data", "watch", "functions", "edge"}}, {full, []string{"data", "watch", "functions", "edge-domain-waf"}}} {
		got := doctor.ResourceTypes(tt.settings)
		slices.Sort(got)
		if diff := cmp.Diff(in(tt.files...), got); diff != "" {
			t.Errorf("ResourceTypes() of the stacks %v (-templates +got):\n%s", tt.files, diff)
		}
	}
}

func TestAStageWithoutEdgeOrKeepIsNotWrong(t *testing.T) {
	f := well()
	f.Stacks["edge"] = doctor.Stack{Missing: true}
	delete(f.Stacks["functions"].Outputs, "EdgeSecret")
	f.HostAnswers.Edge, f.Settings.RetainData, f.Rows.DeletionProtection = false, false, false
	r := doctor.Examine(f)
	if !r.OK || r.Count(doctor.NotApplicable) != 3 {
		t.Errorf("Examine() without edge and keep = %+v, want ok with 3 not applicable", r.Checks)
	}
}

func TestTheReportHasEveryCheckWhateverIsKnown(t *testing.T) {
	names := func(f doctor.Facts) (n []string) {
		for _, c := range doctor.Examine(f).Checks {
			n = append(n, c.Name)
		}
		return n
	}
	full := names(well())
	if diff := cmp.Diff(full, names(doctor.Facts{Stage: "dev", Account: doctor.Account{CredentialProblem: doctor.NoRegion}})); diff != "" {
		t.Errorf("checks without facts (-all +got):\n%s", diff)
	}
	slices.Sort(full)
	if n := len(slices.Compact(full)); n != len(doctor.Examine(well()).Checks) {
		t.Errorf("%d names for %d checks, want one each", n, len(doctor.Examine(well()).Checks))
	}
}
