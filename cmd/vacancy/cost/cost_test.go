package cost_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cost"
)

func formatNumber(n int) *int { return &n }

// shape has round numbers: 128 MB of arm64.
func shape() cost.Shape {
	return cost.Shape{
		Functions: []cost.Function{
			{Name: "message", MemoryMB: 128, Arm: true, Reserved: formatNumber(10), URL: true, OpensSeeds: true},
			{Name: "sweeper", MemoryMB: 256, Arm: true, Reserved: formatNumber(1), TimeoutSeconds: 60, RunsPerDay: 24},
			{Name: "indexer", MemoryMB: 512, Arm: true, Reserved: formatNumber(1), TimeoutSeconds: 300},
			{Name: "tamper", MemoryMB: 128, Arm: true, Reserved: formatNumber(1), OnRowChange: true},
		},
		Tables: []cost.Table{{Name: "rows", ReadLimit: formatNumber(100), WriteLimit: formatNumber(50)}},
		Keys:   3, Secrets: 1, Alarms: 5, Dashboards: 1,
	}
}

func usd(lines []cost.CostLine) map[string]string {
	m := map[string]string{}
	for _, l := range lines {
		m[l.Label] = fmt.Sprintf("%.4f", l.USD)
	}
	return m
}

// A model of round numbers, so that each line can be computed in the head.
var easy = cost.CallModel{
	WriteUnits: 2, ReadUnits: 4, LineBytes: 998, BilledMS: 10, AnswerBytes: 1 << 10, RequestBytes: 2 << 10, ColdShare: 0.01, ColdMS: 100, ColdKMS: 1, RowBytes: 1 << 9,
}

func TestEachLineOfAMillionCallsIsUnitsTimesPrice(t *testing.T) {
	l := cost.ListPrices()
	direct := map[string]string{
		"invocations":             "0.2000",                                             // 1 million
		"compute":                 fmt.Sprintf("%.4f", 11_000*0.125*0.0000133334),       // 10 + 0.01 x 100 ms
		"rows written":            "1.2500",                                             // 2 million units
		"reads":                   "0.5000",                                             // 4 million units
		"stream of rows":          "0.0000",                                             // free to Lambda
		"log lines":               fmt.Sprintf("%.4f", 1e6*1024/float64(1<<30)*0.5),     // 1 KB each
		"opening seeds":           "0.0300",                                             // 10,000 requests
		"answers to the Internet": fmt.Sprintf("%.4f", 1e6*float64(1<<10)/(1<<30)*0.09), // 1 KB each
	}
	if diff := cmp.Diff(direct, usd(easy.CallCosts(shape(), l, 1e6, false))); diff != "" {
		t.Errorf("CallCosts() by Function URL (-want +got):\n%s", diff)
	}
	delete(direct, "answers to the Internet")
	direct["CloudFront requests"] = "1.0000"
	direct["CloudFront to the caller"] = fmt.Sprintf("%.4f", 1e6/float64(1<<20)*0.085)
	direct["CloudFront to the function"] = fmt.Sprintf("%.4f", 2e6/float64(1<<20)*0.02)
	if diff := cmp.Diff(direct, usd(easy.CallCosts(shape(), l, 1e6, true))); diff != "" {
		t.Errorf("CallCosts() through CloudFront (-want +got):\n%s", diff)
	}
	for _, line := range easy.CallCosts(shape(), l, 1e6, true) {
		p := l.Prices[line.Item]
		if got := line.Units / p.Per * p.USD; math.Abs(got-line.USD) > 1e-9 || line.Formula == "" || line.Price == "" || line.Unit != p.Unit {
			t.Errorf("line %+v does not say its units, formula and price", line)
		}
	}
}

func TestWAFIsALineOnlyWhereThereIsOne(t *testing.T) {
	s := shape()
	s.ACLs, s.Rules = 1, 2
	if got := usd(easy.CallCosts(s, cost.ListPrices(), 1e6, true))["WAF"]; got != "0.6000" {
		t.Errorf("CallCosts() with a web ACL: WAF = %q, want 0.6000", got)
	}
	month := usd(cost.MonthlyCosts(s, cost.ListPrices()))
	if month["WAF web ACL"] != "5.0000" || month["WAF rules"] != "2.0000" {
		t.Errorf("MonthlyCosts() with a web ACL = %v", month)
	}
}

func TestAMonthIsWhatStandsInTheTemplates(t *testing.T) {
	want := map[string]string{
		"KMS keys": "3.0000", "zips of a deploy": "0.0007", "secrets": "0.4000", "alarms": "0.5000", "dashboard": "3.0000",
	}
	if diff := cmp.Diff(want, usd(cost.MonthlyCosts(shape(), cost.ListPrices()))); diff != "" {
		t.Errorf("MonthlyCosts() (-want +got):\n%s", diff)
	}
	want = map[string]string{"metrics": fmt.Sprintf("%.4f", 9*0.3)} // 4 of a handler, 3 more of message, and 2 of tamper
	if diff := cmp.Diff(want, usd(cost.MonthlyMetricCosts(shape(), cost.ListPrices()))); diff != "" {
		t.Errorf("MonthlyMetricCosts() (-want +got):\n%s", diff)
	}
}

func TestTheWorstDayIsTheLimitsTimesADay(t *testing.T) {
	d := cost.WorstDay(shape(), cost.ListPrices(), cost.Bounds{LineBytes: 998, Vacants: 10, Decryptions: 24})
	got := usd(d.Lines)
	const requests = 10 * 10 * 86_400
	for what, want := range map[string]float64{
		"message: requests":                requests / 1e6 * 0.2,
		"message: compute":                 10 * 0.125 * 86_400 * 0.0000133334,
		"message: log lines":               10 * 86_400 / float64(1<<20) * 0.5, // one a second and instance
		"log lines of requests that write": 25 * 86_400 / float64(1<<20) * 0.5, // a call writes two units
		"message: opening seeds":           10 * 10 * 24 / 1e4 * 0.03,
		"message: pages":                   requests * float64(32<<10) / (1 << 30) * 0.09,
		"sweeper: compute":                 0.25 * 24 * 60 * 0.0000133334,
		"indexer: compute":                 0.5 * 86_400 * 0.0000133334,
		"rows: writes":                     50 * 86_400 / 1e6 * 0.625,
		"rows: reads":                      100 * 86_400 / 1e6 * 0.125,
		"texts to the Internet":            (100*4 + 50) * 86_400 / float64(1<<20) * 0.09,
	} {
		if got[what] != fmt.Sprintf("%.4f", want) {
			t.Errorf("WorstDay(): %s = %s, want %.4f", what, got[what], want)
		}
	}
	if _, there := got["tamper: compute"]; there {
		t.Error("WorstDay() has a function that runs only if rows change, which no caller can do")
	}
	if _, there := got["sweeper: log lines"]; there {
		t.Error("WorstDay() has log lines of a function that nobody can call")
	}
	if math.Abs(d.USD-cost.Sum(d.Lines)) > 1e-9 {
		t.Errorf("WorstDay().USD = %v, its lines come to %v", d.USD, cost.Sum(d.Lines))
	}
}

// A golden file also has these lines, but -update accepts any number in it.
func TestThinkGateAndMeterHaveTheirUnits(t *testing.T) {
	s, list := shape(), cost.ListPrices()
	s.Functions = append(s.Functions,
		cost.Function{Name: "think", MemoryMB: 256, Arm: true, Reserved: formatNumber(2), OpensSeeds: true, Invoked: true},
		cost.Function{Name: "consent", MemoryMB: 128, Arm: true, TimeoutSeconds: 10, IsGateStep: true},
		cost.Function{Name: "meter", MemoryMB: 128, Arm: true, Reserved: formatNumber(1), RunsPerDay: 1440})
	s.Transitions, s.ModelUSD = 4, 5
	d := cost.WorstDay(s, list, cost.Bounds{LineBytes: 998, Vacants: 10, Decryptions: 24, Parents: 1, Attempts: 96})
	const attempts = 10 * 96 // one parent for each instance of message
	type amount struct {
		Item  cost.Item
		Units float64
	}
	for name, tt := range map[string]struct {
		lines []cost.CostLine
		want  map[string]amount
	}{
		"WorstDay()": {d.Lines, map[string]amount{
			"think: requests":         {cost.LambdaRequests, 2 * 10 * 86_400},
			"think: compute":          {cost.LambdaArm, 2 * 0.25 * 86_400},
			"think: log lines":        {cost.LogBytes, 2 * 86_400 / float64(1<<20)}, // one of 1 KB a second and instance
			"think: opening seeds":    {cost.KMSRequests, 2 * 10 * 24},
			"consent: requests":       {cost.LambdaRequests, attempts},
			"consent: compute":        {cost.LambdaArm, attempts * 10 * 0.125},
			"consent: log lines":      {cost.LogBytes, attempts / float64(1<<20)},
			"transitions of the gate": {cost.Transitions, attempts * 4},
		}},
		"Scheduled()": {cost.ScheduledRunCosts(s, list), map[string]amount{
			"meter: runs":                   {cost.LambdaRequests, 1440 * 30.4},
			"meter: compute":                {cost.LambdaArm, 1440 * 30.4 * 0.2 * 0.125}, // 200 ms
			"meter: reads":                  {cost.ReadUnits, 1440 * 30.4 * 3},
			"meter: requests to the stream": {cost.StreamRequests, 1440 * 30.4 * 7},
		}},
	} {
		got := map[string]cost.CostLine{}
		for _, l := range tt.lines {
			got[l.Label] = l
		}
		for what, want := range tt.want {
			if l := got[what]; l.Item != want.Item || math.Abs(l.Units-want.Units) > 1e-6 {
				t.Errorf("%s: %s = %v units of %q, want %v of %q", name, what, l.Units, l.Item, want.Units, want.Item)
			}
		}
		if l, there := got["think: pages"]; there {
			t.Errorf("%s has %+v of a function that only others invoke", name, l)
		}
	}
	for _, words := range []string{"at most $5 more for vacants without a tenant and all vacants at Bedrock (context value modelBudget)", "more than 10 parents: each further parent adds up to 96 a day"} {
		if !slices.ContainsFunc(d.Unbounded, func(u string) bool { return strings.Contains(u, words) }) {
			t.Errorf("WorstDay() does not say %q: %v", words, d.Unbounded)
		}
	}
	if i := slices.IndexFunc(d.Unbounded, func(u string) bool { return strings.Contains(u, "no reserved concurrency") }); i >= 0 {
		t.Errorf("WorstDay() lists a step as not bounded, and the gate bounds it: %s", d.Unbounded[i])
	}
}

func TestUnboundedCostsAreListed(t *testing.T) {
	says := func(s cost.Shape, words string) bool {
		d := cost.WorstDay(s, cost.ListPrices(), cost.DefaultBounds())
		return slices.ContainsFunc(d.Unbounded, func(u string) bool { return strings.Contains(u, words) })
	}
	s := shape()
	if says(s, "CloudFront") || says(s, "no ceiling for") || says(s, "no reserved") || !says(s, "never deleted") {
		t.Error("WorstDay() of a bounded stage names what it has not, or leaves storage out")
	}
	s.Edge = true
	if !says(s, "$0.01 per 10,000 requests") {
		t.Error("WorstDay() does not say that CloudFront has no ceiling")
	}
	s.ACLs = 1
	if !says(s, "including blocked requests") {
		t.Error("WorstDay() does not say what WAF costs")
	}
	s.Tables[0].WriteLimit = nil
	if !says(s, "rows has no ceiling for writes") {
		t.Error("WorstDay() does not say that a table has no ceiling")
	}
	s.Functions[0].Reserved = nil
	if !says(s, "function message has no reserved concurrency") {
		t.Error("WorstDay() does not say that a function has no reserved concurrency")
	}
}

const template = `{"Resources":{
 "Message":{"Type":"AWS::Lambda::Function","Properties":{"FunctionName":"vacancy-dev-message","MemorySize":1,"Architectures":["arm64"],"ReservedConcurrentExecutions":10}},
 "Think":{"Type":"AWS::Lambda::Function","Properties":{"FunctionName":"vacancy-dev-think","Architectures":["x86_64"],"Environment":{"Variables":{"VACANCY_MODEL_BUDGET":"2.5"}}}},
 "Worker":{"Type":"AWS::Lambda::Function","Properties":{"FunctionName":"vacancy-dev-worker"}},
 "Former":{"Type":"AWS::Lambda::Function","Properties":{"FunctionName":"vacancy-dev-former","ReservedConcurrentExecutions":3}},
 "Gate":{"Type":"AWS::StepFunctions::StateMachine","Properties":{}},
 "Docs":{"Type":"AWS::DynamoDB::GlobalTable","Properties":{"BillingMode":"PAY_PER_REQUEST","WriteOnDemandThroughputSettings":{"MaxWriteRequestUnits":50},
  "GlobalSecondaryIndexes":[{"IndexName":"listed","WriteOnDemandThroughputSettings":{"MaxWriteRequestUnits":10}}],
  "Replicas":[{"Region":{"Ref":"AWS::Region"},"ReadOnDemandThroughputSettings":{"MaxReadRequestUnits":100},"GlobalSecondaryIndexes":[{"IndexName":"listed"}]}]}},
 "Seal":{"Type":"AWS::KMS::Key","Properties":{}},
 "Secret":{"Type":"AWS::SecretsManager::Secret"},
 "Alarm":{"Type":"AWS::CloudWatch::Alarm","Properties":{}},
 "Board":{"Type":"AWS::CloudWatch::Dashboard","Properties":{}},
 "Log":{"Type":"AWS::Logs::LogGroup","Properties":{"RetentionInDays":30}},
 "Budget":{"Type":"AWS::Budgets::Budget","Properties":{"Budget":{"TimeUnit":"DAILY","BudgetLimit":{"Amount":20,"Unit":"USD"}}}},
 "ACL":{"Type":"AWS::WAFv2::WebACL","Properties":{"Rules":[{},{}]}},
 "Front":{"Type":"AWS::CloudFront::Distribution","Properties":{}},
 "Role":{"Type":"AWS::IAM::Role","Properties":{"x":1}}}}`

// A test in infra compares the rest of a shape with the templates.
func TestReadTemplatesTakesWhatTheOperatorChose(t *testing.T) {
	got, err := cost.ParseTemplates([]byte(template), []byte(`{"Resources":{}}`))
	must(t, err)
	want := cost.Shape{
		Alarms: deployed(t).Alarms,
		Functions: []cost.Function{
			{Name: "former", Reserved: formatNumber(3)},
			{Name: "message", MemoryMB: 256, Arm: true, TimeoutSeconds: 28, Reserved: formatNumber(10), URL: true, OpensSeeds: true},
			{Name: "think", MemoryMB: 256, TimeoutSeconds: 860, OpensSeeds: true, Invoked: true},
			{Name: "worker", MemoryMB: 256, TimeoutSeconds: 900, OpensSeeds: true, Queued: true},
		},
		Tables: []cost.Table{{Name: "Docs", ReadLimit: formatNumber(100), WriteLimit: formatNumber(50)}, {Name: "Docs/listed", IsIndex: true, WriteLimit: formatNumber(10)}},
		Keys:   1, Secrets: 1, Dashboards: 1, Edge: true, ACLs: 1, Rules: 2, Queues: 2, Transitions: 6, BudgetUSD: 20, ModelUSD: 2.5, LogDays: 30,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ParseTemplates() (-want +got):\n%s", diff)
	}
	const words = "function former is from another release"
	if d := cost.WorstDay(got, cost.ListPrices(), cost.DefaultBounds()); !slices.ContainsFunc(d.Unbounded, func(u string) bool { return strings.Contains(u, words) }) {
		t.Errorf("WorstDay() does not say that %s: %v", words, d.Unbounded)
	}
}

func TestReadTemplatesRefusesWhatItCannotPrice(t *testing.T) {
	for name, tt := range map[string]struct{ template, want string }{
		"no JSON":     {"Resources:", "template 1 is not a CloudFormation template"},
		"provisioned": {`{"Resources":{"T":{"Type":"AWS::DynamoDB::GlobalTable","Properties":{"BillingMode":"PROVISIONED"}}}}`, "PAY_PER_REQUEST"},
		"replicas":    {`{"Resources":{"T":{"Type":"AWS::DynamoDB::GlobalTable","Properties":{"BillingMode":"PAY_PER_REQUEST","Replicas":[{},{}]}}}}`, "one replica"},
		"no number":   {`{"Resources":{"F":{"Type":"AWS::Lambda::Function","Properties":{"ReservedConcurrentExecutions":{"Ref":"M"}}}}}`, `"F"`},
	} {
		if _, err := cost.ParseTemplates([]byte(tt.template)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: ParseTemplates() = %v, want an error with %q", name, err, tt.want)
		}
	}
}

func TestReadPricesPutsAFileOverTheList(t *testing.T) {
	list := cost.ListPrices()
	got, err := cost.OverridePrices([]byte(`{"region":"eu-west-1","taken":"2026-01","prices":{"dynamodb-write-units":{"usd":0.7,"per":1000000}}}`), list)
	must(t, err)
	want := maps.Clone(list.Prices)
	want[cost.WriteUnits] = cost.Price{USD: 0.7, Per: 1e6, Unit: "write units"}
	if diff := cmp.Diff(cost.PriceList{Region: "eu-west-1", PriceMonth: "2026-01", Prices: want}, got); diff != "" {
		t.Errorf("OverridePrices() (-want +got):\n%s", diff)
	}
	for name, file := range map[string]string{
		"no object": `[]`, "no date": `{"region":"eu-west-1","prices":{}}`, "unknown item": `{"region":"r","taken":"t","prices":{"gold":{"usd":1,"per":1}}}`,
		"for nothing": `{"region":"r","taken":"t","prices":{"secrets":{"usd":1,"per":0}}}`, "negative": `{"region":"r","taken":"t","prices":{"secrets":{"usd":-1,"per":1}}}`,
		"unknown member": `{"region":"r","taken":"t","discount":1}`,
	} {
		if _, err := cost.OverridePrices([]byte(file), list); err == nil {
			t.Errorf("%s: OverridePrices() = nil, want an error", name)
		}
	}
}

func TestEveryPriceSaysWhatItIsFor(t *testing.T) {
	for item, p := range cost.ListPrices().Prices {
		if p.Per <= 0 || p.Unit == "" || p.USD < 0 {
			t.Errorf("price of %s = %+v", item, p)
		}
	}
}

func FuzzReadTemplates(f *testing.F) {
	f.Add([]byte(template))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := cost.ParseTemplates(b)
		if err != nil {
			return
		}
		r := cost.Estimate(s, cost.ListPrices(), 1)
		if _, err := json.Marshal(r); err != nil {
			t.Errorf("Estimate() of what was read cannot be written: %v", err)
		}
	})
}

func FuzzReadPrices(f *testing.F) {
	f.Add([]byte(`{"region":"eu-west-1","taken":"2026-01","prices":{"secrets":{"usd":0.7,"per":1000000}}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := cost.OverridePrices(b, cost.ListPrices())
		if err != nil {
			return
		}
		if d := cost.WorstDay(shape(), l, cost.DefaultBounds()); !(d.USD >= 0) || math.IsInf(d.USD, 0) {
			t.Errorf("WorstDay() by what was read = %v", d.USD)
		}
	})
}

// must ends the test if err is not nil.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
