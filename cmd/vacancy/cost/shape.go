package cost

import (
	"slices"

	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
)

type Shape struct {
	Functions []Function `json:"functions"`
	Tables    []Table    `json:"tables"`
	Keys      int        `json:"keys"`
	Secrets   int        `json:"secrets"`
	// Alarms counts metrics, because an alarm is billed for each of its metrics.
	Alarms      int     `json:"alarm_metrics"`
	Dashboards  int     `json:"dashboards"`
	Edge        bool    `json:"edge"`
	ACLs        int     `json:"web_acls"`
	Queues      int     `json:"queues"`
	Rules       int     `json:"waf_rules"`
	Transitions int     `json:"gate_transitions"`
	BudgetUSD   float64 `json:"budget_usd_a_day"` // zero without a budget
	ModelUSD    float64 `json:"model_budget_usd_a_day"`
	LogDays     int     `json:"log_days"`
}

type Function struct {
	Name           string `json:"name"`
	MemoryMB       int    `json:"memory_mb"`
	Arm            bool   `json:"arm64"`
	TimeoutSeconds int    `json:"timeout_seconds"`
	// If Reserved is nil, only the account limits the function.
	Reserved   *int `json:"reserved_concurrency"`
	URL        bool `json:"function_url"`
	OpensSeeds bool `json:"opens_seeds"`
	IsGateStep bool `json:"gate_step"`
	// RunsPerDay includes retries. It is zero without a schedule.
	RunsPerDay  int  `json:"runs_a_day"`
	OnRowChange bool `json:"watch"`
	Invoked     bool `json:"invoked"`
	Queued      bool `json:"queued"`
	// ObjectWrites and ObjectReads are limits per instance and second.
	ObjectWrites float64 `json:"object_writes,omitempty"`
	ObjectReads  float64 `json:"object_reads,omitempty"`
}

// Table is a DynamoDB table or an index. Limits are in units per second.
type Table struct {
	Name       string `json:"name"`
	IsIndex    bool   `json:"index"`
	ReadLimit  *int   `json:"read_ceiling"`
	WriteLimit *int   `json:"write_ceiling"`
}

func (s Shape) Function(name string) (Function, bool) {
	i := slices.IndexFunc(s.Functions, func(f Function) bool { return f.Name == name })
	if i < 0 {
		return Function{}, false
	}
	return s.Functions[i], true
}

// asyncRetries does not apply to scheduled functions: the next run does the work of a failed run.
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
	// gateTransitions counts four steps, start and end.
	gateTransitions = 6
	// rulesPerACL counts a rate limit and AWS's common rules.
	rulesPerACL = 2
	// otherAlarms counts the alarm metrics that do not belong to one function.
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
