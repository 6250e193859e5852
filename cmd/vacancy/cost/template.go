package cost

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// Shape is what the templates of a stage contain that costs money or limits
// costs.
type Shape struct {
	Functions  []Function `json:"functions"`
	Tables     []Table    `json:"tables"` // and their indexes
	Keys       int        `json:"keys"`
	Secrets    int        `json:"secrets"`
	Alarms     int        `json:"alarm_metrics"` // an alarm over several metrics is billed for each
	Dashboards int        `json:"dashboards"`
	Edge       bool       `json:"edge"` // a CloudFront distribution
	ACLs       int        `json:"web_acls"`
	Queues     int        `json:"queues"` // that Lambda polls
	Rules      int        `json:"waf_rules"`
	// Transitions is the number of transitions of an accepted attempt, with
	// start and end; 0 without a gate.
	Transitions int     `json:"gate_transitions"`
	BudgetUSD   float64 `json:"budget_usd_a_day"`       // 0: none
	ModelUSD    float64 `json:"model_budget_usd_a_day"` // for models that the operator pays
	LogDays     int     `json:"log_days"`               // longest retention; 0: no log group has one
}

// Function is one Lambda function.
type Function struct {
	Name     string `json:"name"`
	MemoryMB int    `json:"memory_mb"`
	Arm      bool   `json:"arm64"`
	Seconds  int    `json:"timeout_seconds"`
	// Reserved is the reserved concurrency; nil: limited by the account only.
	Reserved *int `json:"reserved_concurrency"`
	URL      bool `json:"function_url"`
	Seeds    bool `json:"opens_seeds"` // it has the sealing key in its environment, for seeds or secrets
	Step     bool `json:"gate_step"`   // only a state machine starts it
	Runs     int  `json:"runs_a_day"`  // by a schedule, retries included; 0: none
	Watch    bool `json:"watch"`       // only changed and removed rows start it
	Invoked  bool `json:"invoked"`     // only other functions start it
	Queued   bool `json:"queued"`      // only messages of queues start it
}

// Table is a DynamoDB table or an index, which has its own ceilings.
type Table struct {
	Name  string `json:"name"`
	Index bool   `json:"index"`
	// The ceilings in units a second; nil: none.
	Read  *int `json:"read_ceiling"`
	Write *int `json:"write_ceiling"`
}

// Function finds a function by the suffix of its name.
func (s Shape) Function(name string) (Function, bool) {
	i := slices.IndexFunc(s.Functions, func(f Function) bool { return f.Name == name || strings.HasSuffix(f.Name, "-"+name) })
	if i < 0 {
		return Function{}, false
	}
	return s.Functions[i], true
}

// ReadTemplates reads the templates of a stage's stacks, in any order.
func ReadTemplates(templates ...[]byte) (Shape, error) {
	var s Shape
	for i, b := range templates {
		var t struct{ Resources map[string]resource }
		if err := json.Unmarshal(b, &t); err != nil {
			return Shape{}, problem.Wrap(problem.Malformed, err, "template %d is no CloudFormation template in JSON", i+1)
		}
		starts, err := readStarts(t.Resources)
		if err != nil {
			return Shape{}, problem.Wrap(problem.Malformed, err, "template %d: %s", i+1, err)
		}
		for _, id := range slices.Sorted(maps.Keys(t.Resources)) {
			if err := s.add(id, t.Resources[id], starts); err != nil {
				return Shape{}, problem.Wrap(problem.Malformed, err, "resource %.60q of type %.60q: %s", id, t.Resources[id].Type, err)
			}
		}
	}
	return s, nil
}

// starts says what starts functions, by their logical ids.
type starts struct {
	public, step, watch map[string]bool
	stream              map[string]bool // a stream, watched or not
	queued              map[string]int  // queues
	scheduled           map[string]int  // runs a day
	retries             map[string]int  // of a run that failed; missing: Lambda's default
}

// lambdaRetries is how often Lambda retries an asynchronous invocation, unless
// the template says otherwise.
const lambdaRetries = 2

// runs is how often a schedule starts a function in a day at most.
func (s starts) runs(id string) int {
	retries, ok := s.retries[id]
	if !ok {
		retries = lambdaRetries
	}
	return s.scheduled[id] * (1 + retries)
}

func readStarts(resources map[string]resource) (starts, error) {
	out := starts{map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]int{}, map[string]int{}, map[string]int{}}
	for _, r := range resources {
		switch r.Type {
		case "AWS::Lambda::Url":
			var u struct{ TargetFunctionArn json.RawMessage }
			_ = json.Unmarshal(r.Properties, &u)
			out.public[target(u.TargetFunctionArn)] = true
		case "AWS::StepFunctions::StateMachine":
			var m struct{ DefinitionSubstitutions map[string]json.RawMessage }
			_ = json.Unmarshal(r.Properties, &m)
			for _, arn := range m.DefinitionSubstitutions {
				out.step[target(arn)] = true
			}
		case "AWS::Lambda::EventInvokeConfig":
			var c struct {
				FunctionName         json.RawMessage
				MaximumRetryAttempts *int
			}
			if json.Unmarshal(r.Properties, &c) == nil && c.MaximumRetryAttempts != nil {
				out.retries[target(c.FunctionName)] = *c.MaximumRetryAttempts
			}
		case "AWS::Lambda::EventSourceMapping":
			var m struct {
				FunctionName   json.RawMessage
				EventSourceArn json.RawMessage
				FilterCriteria struct{ Filters []struct{ Pattern string } }
			}
			_ = json.Unmarshal(r.Properties, &m)
			if resources[target(m.EventSourceArn)].Type == "AWS::SQS::Queue" {
				out.queued[target(m.FunctionName)]++
				continue
			}
			out.stream[target(m.FunctionName)] = true
			for _, f := range m.FilterCriteria.Filters {
				if strings.Contains(f.Pattern, "eventName") && !strings.Contains(f.Pattern, "INSERT") {
					out.watch[target(m.FunctionName)] = true
				}
			}
		case "AWS::Events::Rule":
			var e struct {
				ScheduleExpression string
				Targets            []struct{ Arn json.RawMessage }
			}
			_ = json.Unmarshal(r.Properties, &e)
			if e.ScheduleExpression == "" {
				continue
			}
			n, err := runsADay(e.ScheduleExpression)
			if err != nil {
				return out, err
			}
			for _, t := range e.Targets {
				out.scheduled[target(t.Arn)] += n
			}
		}
	}
	return out, nil
}

// runsADay reads a schedule such as rate(5 minutes).
func runsADay(schedule string) (int, error) {
	var n int
	var unit string
	if _, err := fmt.Sscanf(strings.NewReplacer("(", " ", ")", " ").Replace(schedule), "rate %d %s", &n, &unit); err != nil || n < 1 {
		return 0, fmt.Errorf("expected a schedule such as rate(5 minutes), got %.40q", schedule)
	}
	minutes, ok := map[string]int{"minute": 1, "hour": 60, "day": 24 * 60}[strings.TrimSuffix(unit, "s")]
	if !ok {
		return 0, fmt.Errorf("expected a schedule in minutes, hours or days, got %.40q", schedule)
	}
	return max(1, 24*60/(n*minutes)), nil
}

type resource struct {
	Type       string
	Properties json.RawMessage
}

// target is the logical id in a Ref or the Fn::GetAtt of an ARN.
func target(b json.RawMessage) string {
	var in struct {
		Ref string          `json:"Ref"`
		Att json.RawMessage `json:"Fn::GetAtt"`
	}
	if json.Unmarshal(b, &in) != nil || in.Ref != "" {
		return in.Ref
	}
	var pair []string
	if json.Unmarshal(in.Att, &pair) == nil && len(pair) > 0 {
		return pair[0]
	}
	return ""
}

// add adds a resource. Resources without cost are skipped.
func (s *Shape) add(id string, r resource, by starts) error {
	into := func(v any) error {
		if len(r.Properties) == 0 {
			return nil
		}
		return json.Unmarshal(r.Properties, v)
	}
	switch r.Type {
	case "AWS::Lambda::Function":
		return s.addFunction(id, by, into)
	case "AWS::StepFunctions::StateMachine":
		return s.addMachine(into)
	case "AWS::DynamoDB::GlobalTable":
		return s.addTable(id, into)
	case "AWS::Logs::LogGroup":
		var p struct{ RetentionInDays int }
		err := into(&p)
		s.LogDays = max(s.LogDays, p.RetentionInDays)
		return err
	case "AWS::WAFv2::WebACL":
		var p struct{ Rules []json.RawMessage }
		err := into(&p)
		s.ACLs, s.Rules = s.ACLs+1, s.Rules+len(p.Rules)
		return err
	case "AWS::Budgets::Budget":
		var p struct {
			Budget struct {
				TimeUnit    string
				BudgetLimit struct{ Amount json.Number }
			}
		}
		err := into(&p)
		if amount, bad := p.Budget.BudgetLimit.Amount.Float64(); bad == nil && p.Budget.TimeUnit == "DAILY" {
			s.BudgetUSD = amount
		}
		return err
	case "AWS::KMS::Key":
		s.Keys++
	case "AWS::SecretsManager::Secret":
		s.Secrets++
	case "AWS::CloudWatch::Alarm":
		return s.addAlarm(into)
	case "AWS::CloudWatch::Dashboard":
		s.Dashboards++
	case "AWS::CloudFront::Distribution":
		s.Edge = true
	}
	return nil
}

// addAlarm counts an alarm's metrics: metrics in an expression have a
// MetricStat, the expression has none.
func (s *Shape) addAlarm(into func(any) error) error {
	var p struct {
		Metrics []struct{ MetricStat json.RawMessage }
	}
	err := into(&p)
	n := 0
	for _, m := range p.Metrics {
		if len(m.MetricStat) > 0 {
			n++
		}
	}
	s.Alarms += max(n, 1)
	return err
}

// CloudFormation's defaults.
const defaultMemory = 128

// addMachine follows a state machine from its start, without error transitions.
func (s *Shape) addMachine(into func(any) error) error {
	var p struct{ DefinitionString string }
	if err := into(&p); err != nil {
		return err
	}
	var m struct {
		StartAt string
		States  map[string]struct{ Next string }
	}
	if err := json.Unmarshal([]byte(p.DefinitionString), &m); err != nil {
		return fmt.Errorf("its definition: %w", err)
	}
	at, states := m.StartAt, 0
	for ; at != ""; at = m.States[at].Next {
		if states++; states > len(m.States) {
			return fmt.Errorf("its states do not end")
		}
	}
	s.Transitions += states + 1
	return nil
}

func (s *Shape) addFunction(id string, by starts, into func(any) error) error {
	var p struct {
		FunctionName                 json.RawMessage
		MemorySize                   int
		Architectures                []string
		ReservedConcurrentExecutions *int
		Timeout                      int
		Environment                  struct{ Variables map[string]json.RawMessage }
	}
	if err := into(&p); err != nil {
		return err
	}
	f := Function{Name: plain(p.FunctionName, id), MemoryMB: p.MemorySize, Seconds: p.Timeout, Reserved: p.ReservedConcurrentExecutions,
		URL: by.public[id], Step: by.step[id], Watch: by.watch[id], Runs: by.runs(id)}
	if f.MemoryMB == 0 {
		f.MemoryMB = defaultMemory
	}
	f.Queued = by.queued[id] > 0
	s.Queues += by.queued[id]
	f.Invoked = !f.URL && !f.Step && f.Runs == 0 && !by.stream[id] && !f.Queued
	f.Arm = slices.Contains(p.Architectures, "arm64")
	_, f.Seeds = p.Environment.Variables["VACANCY_SEAL_KEY"]
	var budget json.Number
	if json.Unmarshal(p.Environment.Variables["VACANCY_MODEL_BUDGET"], (*string)(&budget)) == nil && budget != "" {
		usd, err := budget.Float64()
		if err != nil {
			return fmt.Errorf("VACANCY_MODEL_BUDGET: expected USD, got %.40q", budget)
		}
		s.ModelUSD = usd
	}
	s.Functions = append(s.Functions, f)
	return nil
}

// throughput is a ceiling of a table, a replica or an index.
type throughput struct {
	Read  struct{ MaxReadRequestUnits *int }  `json:"ReadOnDemandThroughputSettings"`
	Write struct{ MaxWriteRequestUnits *int } `json:"WriteOnDemandThroughputSettings"`
}

func (s *Shape) addTable(id string, into func(any) error) error {
	type index struct {
		IndexName string
		throughput
	}
	var p struct {
		TableName   json.RawMessage
		BillingMode string
		throughput
		GlobalSecondaryIndexes []index
		Replicas               []struct {
			throughput
			GlobalSecondaryIndexes []index
		}
	}
	if err := into(&p); err != nil {
		return err
	}
	if p.BillingMode != "PAY_PER_REQUEST" {
		return fmt.Errorf("expected BillingMode PAY_PER_REQUEST, got %.40q: provisioned tables are billed by the hour", p.BillingMode)
	}
	if len(p.Replicas) > 1 {
		return fmt.Errorf("expected one replica, got %d: each writes everything again", len(p.Replicas))
	}
	t := Table{Name: plain(p.TableName, id), Write: p.Write.MaxWriteRequestUnits}
	reads := map[string]*int{}
	for _, r := range p.Replicas {
		t.Read = r.Read.MaxReadRequestUnits
		for _, i := range r.GlobalSecondaryIndexes {
			reads[i.IndexName] = i.Read.MaxReadRequestUnits
		}
	}
	s.Tables = append(s.Tables, t)
	for _, i := range p.GlobalSecondaryIndexes {
		s.Tables = append(s.Tables, Table{Name: t.Name + "/" + i.IndexName, Index: true, Read: reads[i.IndexName], Write: i.Write.MaxWriteRequestUnits})
	}
	return nil
}

// plain is a name that is literal in the template, else the logical id.
func plain(b json.RawMessage, id string) string {
	var name string
	if json.Unmarshal(b, &name) != nil || name == "" {
		return id
	}
	return name
}
