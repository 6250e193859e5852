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
	// An alarm over several metrics is billed for each metric.
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
	Name     string `json:"name"`
	MemoryMB int    `json:"memory_mb"`
	Arm      bool   `json:"arm64"`
	Seconds  int    `json:"timeout_seconds"`
	// Reserved is the reserved concurrency. If it is nil, only the account limits the function.
	Reserved *int `json:"reserved_concurrency"`
	URL      bool `json:"function_url"`
	// Seeds is true if the function decrypts seeds of vacants or secrets with the sealing key.
	Seeds bool `json:"opens_seeds"`
	Step  bool `json:"gate_step"` // only a state machine starts the function
	// Runs is the number of scheduled runs per day including retries. It is zero without a
	// schedule.
	Runs        int  `json:"runs_a_day"`
	OnRowChange bool `json:"watch"`   // only changed and removed rows start the function
	Invoked     bool `json:"invoked"` // only other functions start the function
	Queued      bool `json:"queued"`  // only queue messages start the function
	// Puts and Gets limit the file objects that an instance writes and reads per second.
	Puts float64 `json:"object_writes,omitempty"`
	Gets float64 `json:"object_reads,omitempty"`
}

// Table is a DynamoDB table or an index. An index has its own throughput limits.
type Table struct {
	Name  string `json:"name"`
	Index bool   `json:"index"`
	// Throughput limits in units per second, or nil.
	Read  *int `json:"read_ceiling"`
	Write *int `json:"write_ceiling"`
}

func (s Shape) Function(name string) (Function, bool) {
	i := slices.IndexFunc(s.Functions, func(f Function) bool { return f.Name == name })
	if i < 0 {
		return Function{}, false
	}
	return s.Functions[i], true
}

// retries is the number of times that Lambda retries a failed asynchronous invocation. Scheduled
// functions are not retried, because the next run does the work of the failed one.
const retries = 2

func (s *Shape) add(f functions.Function, arm bool, reserved *int) {
	runs := 0
	if f.Every > 0 {
		runs = 24 * 60 / f.Every
		if !f.IsScheduled() {
			runs *= 1 + retries
		}
	}
	s.Functions = append(s.Functions, Function{
		Name: f.Name, MemoryMB: f.Memory, Arm: arm, Seconds: f.Timeout, Reserved: reserved,
		URL: f.URL, Seeds: f.Has("VACANCY_SEAL_KEY"), Step: f.Step, Runs: runs,
		OnRowChange: f.Stream == functions.Rows, Invoked: f.IsInvoked(), Queued: f.Queues != "",
	})
	s.Queues += len(f.Receives())
}

const (
	// transitionsOfGate counts the four steps, the start and the end of a graduation.
	transitionsOfGate = 6
	// rulesOfACL counts the rules of a web ACL: a rate limit and AWS's common rules.
	rulesOfACL = 2
	// otherAlarms is the number of alarm metrics that are not for the failures of a single
	// function.
	otherAlarms = 18
)

func alarms() int {
	n := otherAlarms
	for _, f := range functions.All() {
		if f.Alarm.Name != "" {
			n++
		}
		if f.Alarm.Missed {
			n++
		}
		if f.AlarmsOnThrottle() {
			n++
		}
	}
	return n
}
