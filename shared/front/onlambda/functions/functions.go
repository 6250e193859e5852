// Package functions contains the table of a host's Lambda functions: the purpose, size, triggers,
// variables and cost limits of each function. The stacks, the functions themselves, the commands
// and their tests use the table.
//
// The table is plain data, and the package does not depend on the AWS SDK, so that commands can use
// the table without the SDK. The table does not contain permissions, which infra/stacks grants
// explicitly.
package functions

import (
	"cmp"
	"slices"
	"strings"
)

// Function is a Lambda function, whose program is a directory of functions/.
type Function struct {
	Name        string // name of the directory, and suffix of the name in AWS
	Description string // one line for the AWS console

	Memory  int // MB
	Timeout int // seconds
	Disk    int // MB of the temporary directory; zero means the free 512 MB

	// Triggers of the function. A function without a trigger is invoked by other functions.
	URL     bool   // requests to its Function URL
	Streams bool   // the answers of the URL are streams
	Every   int    // minutes between two scheduled runs; zero means no schedule
	Jobs    string // jobs of a run in order, by their names in serve.Server.Jobs
	Rule    string // name of the schedule's rule; "" means the function's name
	Event   string // JSON that the rule sends; "" means EventBridge's own event
	Stream  string // changes of a table, which is Rows or Docs
	Queues  string // messages of queues, separated by spaces
	Step    bool   // steps of the gate's state machine

	// Environment variables in addition to the settings (package setting) and the variables of a
	// URL, separated by spaces. The function does not start if a variable in Needs is missing. The
	// variables in Takes are optional.
	Needs, Takes string

	Charges  bool // true if the function handles accounts; its role then has the permissions
	Identity bool // the function uses the host's identity

	// Instances is the minimum reserved concurrency. Zero reserves no concurrency. Share is the
	// percentage of the cost limit for the worst day that the function gets for additional
	// instances.
	Instances int
	Share     float64
	Idle      Idle

	// Patient excludes the function from the alarm for throttled requests, because its clients
	// retry.
	Patient bool
	Alarm   Alarm
	Check   Check
}

// Idle contains the resources that a scheduled run uses if it finds no work.
type Idle struct{ ReadUnits, Milliseconds, StreamRequests, Listings int }

// Alarm is the alarm for failures: 5xx answers of a URL, or errors of a function without a URL.
type Alarm struct {
	Name    string
	Says    string // meaning of the alarm, and advice
	Least   int    // minimum number of failures that raises the alarm
	Minutes int    // period in which failures are counted
	Missed  bool   // runs that the schedule could not start count as failures
}

// Check is the check of `vacancy doctor --host aws` for a function without waiting callers. Failing
// names the work that a failure leaves undone.
type Check struct{ Name, Failing string }

const (
	Rows = "rows"
	Docs = "docs"
)

const (
	Tasks  = "tasks"  // background turns, and dispatches of bookings
	Pushes = "pushes" // notices of events to push
)

// Timeouts in seconds.
const (
	// HandlerSeconds is below CloudFront's limit of 30 seconds, so that callers get the answer of
	// the function and not an error of CloudFront.
	HandlerSeconds = 28
	// TurnSeconds allows turns of a2a/task.MaxWork, which is 14 minutes, and time to end them.
	TurnSeconds = 15 * 60
	// ThinkSeconds allows one turn of a model, and time to answer.
	ThinkSeconds = 14*60 + 20
	// StepSeconds allows one step of the gate. The state machine gives up two seconds later.
	StepSeconds = 10
)

// Variables of several functions.
const (
	tables = "VACANCY_ROWS VACANCY_DOCS"
	sealed = tables + " VACANCY_SEAL_KEY"
	edge   = "VACANCY_EDGE_SECRET VACANCY_EDGE_SECRET_BEFORE"
	// objects lists the variables of functions that read and write files in workspaces.
	objects = " VACANCY_BLOBS VACANCY_PUTS VACANCY_GETS"
)

func (f Function) Environment() []string {
	variables := strings.Fields(f.Needs + " " + f.Takes)
	if f.URL {
		variables = append(variables, strings.Fields(edge)...)
	}
	return variables
}

func (f Function) Requires(variable string) bool {
	return slices.Contains(strings.Fields(f.Needs), variable)
}

// Has reports whether f may have a variable, required or optional.
func (f Function) Has(variable string) bool { return slices.Contains(f.Environment(), variable) }

// Receives returns the names of the queues whose messages start f.
func (f Function) Receives() []string { return strings.Fields(f.Queues) }

func (f Function) IsScheduled() bool { return f.Every > 0 && !f.URL }

// IsInvoked reports whether only other functions start f.
func (f Function) IsInvoked() bool {
	return !f.URL && f.Every == 0 && f.Stream == "" && f.Queues == "" && !f.Step
}

func (f Function) Logs() bool { return f.URL || f.IsInvoked() || f.Queues != "" }

// AlarmsOnThrottle reports whether throttled requests of f raise the alarm functions-throttled. The
// alarm covers only some functions, because an alarm has at most ten metrics: Think and Worker have
// alarms of their own, the gate's functions are retried, and jobs end long before their next run.
func (f Function) AlarmsOnThrottle() bool {
	return f.Instances > 0 && !f.IsScheduled() && !f.IsInvoked() && f.Queues == "" && !f.Patient
}

func (f Function) RuleName() string { return cmp.Or(f.Rule, f.Name) }

// URLOutput returns the name of the output of the functions stack that contains the URL of f.
func (f Function) URLOutput() string { return strings.ToUpper(f.Name[:1]) + f.Name[1:] + "Url" }

func Names() (names []string) {
	for _, f := range All() {
		names = append(names, f.Name)
	}
	return names
}

func Find(name string) (f Function, ok bool) {
	functions := All()
	i := slices.IndexFunc(functions, func(f Function) bool { return f.Name == name })
	if i < 0 {
		return Function{}, false
	}
	return functions[i], true
}
