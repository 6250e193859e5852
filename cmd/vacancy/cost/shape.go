package cost

import (
	"slices"

	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
)

// Shape lists the parts of a stage that cost money or limit costs.
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
	BudgetUSD   float64 `json:"budget_usd_a_day"`       // zero without a budget
	ModelUSD    float64 `json:"model_budget_usd_a_day"` // for models that the operator pays
	LogDays     int     `json:"log_days"`               // longest retention; zero if no log group has one
}

// Function is one Lambda function.
type Function struct {
	Name     string `json:"name"`
	MemoryMB int    `json:"memory_mb"`
	Arm      bool   `json:"arm64"`
	Seconds  int    `json:"timeout_seconds"`
	// Reserved is the reserved concurrency. With nil, only the account limits
	// the function.
	Reserved    *int `json:"reserved_concurrency"`
	URL         bool `json:"function_url"`
	Seeds       bool `json:"opens_seeds"` // it has the sealing key in its environment, for seeds or secrets
	Step        bool `json:"gate_step"`   // only a state machine starts it
	Runs        int  `json:"runs_a_day"`  // by a schedule, retries included; zero without a schedule
	OnRowChange bool `json:"watch"`       // only changed and removed rows start it
	Invoked     bool `json:"invoked"`     // only other functions start it
	Queued      bool `json:"queued"`      // only messages of queues start it
	// Puts and Gets are the objects of files that an instance writes and reads in a second, at most.
	Puts float64 `json:"object_writes,omitempty"`
	Gets float64 `json:"object_reads,omitempty"`
}

// Table is a DynamoDB table or an index, which has its own ceilings.
type Table struct {
	Name  string `json:"name"`
	Index bool   `json:"index"`
	// The ceilings in units a second, or nil.
	Read  *int `json:"read_ceiling"`
	Write *int `json:"write_ceiling"`
}

// Function finds a function by its name.
func (s Shape) Function(name string) (Function, bool) {
	i := slices.IndexFunc(s.Functions, func(f Function) bool { return f.Name == name })
	if i < 0 {
		return Function{}, false
	}
	return s.Functions[i], true
}

// retries is the number of times that Lambda retries an asynchronous invocation that
// failed. Jobs are not retried, because the next run does the work of the failed one.
const retries = 2

// add adds a function as the table of functions describes it.
func (s *Shape) add(f functions.Function, arm bool, reserved *int) {
	runs := 0
	if f.Every > 0 {
		runs = 24 * 60 / f.Every
		if !f.Scheduled() {
			runs *= 1 + retries
		}
	}
	s.Functions = append(s.Functions, Function{
		Name: f.Name, MemoryMB: f.Memory, Arm: arm, Seconds: f.Timeout, Reserved: reserved,
		URL: f.URL, Seeds: f.Has("VACANCY_SEAL_KEY"), Step: f.Step, Runs: runs,
		OnRowChange: f.Stream == functions.Rows, Invoked: f.Invoked(), Queued: f.Queues != "",
	})
	s.Queues += len(f.Receives())
}

const (
	// transitionsOfGate counts the four steps, the start and the end of a graduation.
	transitionsOfGate = 6
	// rulesOfACL are the rules of a web ACL: a rate, and AWS's common rules.
	rulesOfACL = 2
	// otherAlarms are the metrics of alarms that are not for the failures of one function.
	otherAlarms = 18
)

// alarms counts the metrics of all alarms.
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
