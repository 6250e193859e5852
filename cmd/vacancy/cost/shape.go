package cost

import (
	"slices"

	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
)

// Shape describes the parts of a stage that cost money or limit costs.
type Shape struct {
	Functions []Function `json:"functions"`
	Tables    []Table    `json:"tables"` // including indexes
	Keys      int        `json:"keys"`
	Secrets   int        `json:"secrets"`
	// Alarms is the number of metrics in alarms. An alarm is billed for each of its metrics.
	Alarms     int  `json:"alarm_metrics"`
	Dashboards int  `json:"dashboards"`
	Edge       bool `json:"edge"` // has a CloudFront distribution
	ACLs       int  `json:"web_acls"`
	Queues     int  `json:"queues"` // queues that Lambda polls
	Rules      int  `json:"waf_rules"`
	// Transitions is the number of state transitions of an accepted attempt to graduate, including
	// start and end. It is 0 if the stage has no gate.
	Transitions int     `json:"gate_transitions"`
	BudgetUSD   float64 `json:"budget_usd_a_day"`       // zero if there is no budget
	ModelUSD    float64 `json:"model_budget_usd_a_day"` // budget for models that the operator pays
	// LogDays is the longest retention, or zero if no log group has one.
	LogDays int `json:"log_days"`
}

type Function struct {
	Name           string `json:"name"`
	MemoryMB       int    `json:"memory_mb"`
	Arm            bool   `json:"arm64"`
	TimeoutSeconds int    `json:"timeout_seconds"`
	// Reserved is the reserved concurrency. If it is nil, only the account limits the function.
	Reserved *int `json:"reserved_concurrency"`
	URL      bool `json:"function_url"`
	// OpensSeeds is true if the function decrypts seeds of vacants or secrets with the sealing key.
	OpensSeeds bool `json:"opens_seeds"`
	IsGateStep bool `json:"gate_step"` // only a state machine starts the function
	// RunsPerDay is the number of scheduled runs per day including retries. It is zero without a
	// schedule.
	RunsPerDay  int  `json:"runs_a_day"`
	OnRowChange bool `json:"watch"`   // only changed and removed rows start the function
	Invoked     bool `json:"invoked"` // only other functions start the function
	Queued      bool `json:"queued"`  // only queue messages start the function
	// ObjectWrites and ObjectReads limit the file objects that an instance writes and reads per
	// second.
	ObjectWrites float64 `json:"object_writes,omitempty"`
	ObjectReads  float64 `json:"object_reads,omitempty"`
}

// Table is a DynamoDB table or an index. An index has its own throughput limits.
type Table struct {
	Name    string `json:"name"`
	IsIndex bool   `json:"index"`
	// Throughput limits in units per second, or nil.
	ReadLimit  *int `json:"read_ceiling"`
	WriteLimit *int `json:"write_ceiling"`
}

func (s Shape) Function(name string) (Function, bool) {
	i := slices.IndexFunc(s.Functions, func(f Function) bool { return f.Name == name })
	if i < 0 {
		return Function{}, false
	}
	return s.Functions[i], true
}

// asyncRetries is the number of times that Lambda retries a failed asynchronous invocation. Scheduled
// functions are not retried, because the next run does the work of the failed one.
const asyncRetries = 2

func (s *Shape) addFunction(f functions.Function, arm bool, reserved *int) {
	runs := 0
	if f.EveryMinutes > 0 {
		runs = 24 * 60 / f.EveryMinutes
		if !f.IsScheduled() {
			runs *= 1 + asyncRetries
		}
	}
	s.Functions = append(s.Functions, Function{
		Name: f.Name, MemoryMB: f.MemoryMB, Arm: arm, TimeoutSeconds: f.TimeoutSeconds, Reserved: reserved,
		URL: f.URL, OpensSeeds: f.HasVariable("VACANCY_SEAL_KEY"), IsGateStep: f.IsGateStep, RunsPerDay: runs,
		OnRowChange: f.SourceTable == functions.RowsTable, Invoked: f.IsInvoked(), Queued: f.Queues != "",
	})
	s.Queues += len(f.QueueNames())
}

const (
	// gateTransitions counts the four steps, the start and the end of a graduation.
	gateTransitions = 6
	// rulesPerACL counts the rules of a web ACL: a rate limit and AWS's common rules.
	rulesPerACL = 2
	// otherAlarms is the number of alarm metrics that are not for the failures of a single
	// function.
	otherAlarms = 18
)

func countAlarms() int {
	n := otherAlarms
	for _, f := range functions.All() {
		if f.Alarm.Name != "" {
			n++
		}
		if f.Alarm.CountsMissedRuns {
			n++
		}
		if f.AlarmsOnThrottle() {
			n++
		}
	}
	return n
}
