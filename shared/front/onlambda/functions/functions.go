// Package functions is the table of a host's Lambda functions: what each does, how large it is, what starts it, what it
// is told, and what it may cost. The stacks, the functions themselves, the commands and their tests read it.
//
// The table is plain data, and this package imports only the standard library, so that the command can read it without
// the AWS SDK. Rights are not in the table: infra/stacks grants them by hand.
package functions

import (
	"cmp"
	"slices"
	"strings"
)

// Function is one function: a directory of functions/ and how it runs.
type Function struct {
	Name        string // of its directory, and the end of its name in AWS
	Description string // one line, which AWS shows

	Memory  int // MB
	Timeout int // seconds
	Disk    int // MB of the temporary directory; zero means the free 512

	// What starts the function. A function with none of these is invoked by other functions.
	URL     bool   // requests of its Function URL
	Streams bool   // the URL's answers are streams
	Every   int    // minutes between two runs by a schedule; zero means no schedule
	Jobs    string // what a run does: names of serve.Server.Jobs, in their order
	Rule    string // name of the schedule's rule; "" means the function's name
	Event   string // JSON that the rule sends; "" means EventBridge's own event
	Stream  string // changes of a table: Rows or Docs
	Queues  string // messages of queues, separated by spaces
	Step    bool   // the gate's state machine

	// Environment variables besides the settings (package setting) and a URL's variables, separated by spaces. The
	// function does not start without Needs. A stage may lack Takes.
	Needs, Takes string

	Charges  bool // it has to do with accounts; what it may do is in its role
	Identity bool // it uses the identity of the host

	// Instances is the least reserved concurrency. Zero reserves nothing. Share is the part of the worst day, in
	// percent, that buys more of them.
	Instances int
	Share     float64
	Idle      Idle

	// Patient reports that throttled requests of f raise no alarm, because a reader tries again.
	Patient bool
	Alarm   Alarm
	Check   Check
}

// Idle is the cost of one run in a stage where nothing is due.
type Idle struct{ ReadUnits, Milliseconds, StreamRequests, Listings int }

// Alarm is the alarm for failures: answers of a URL with 5xx, or errors of a function without a URL.
type Alarm struct {
	Name    string
	Says    string // what it means, and what to do
	Least   int    // failures that raise it
	Minutes int    // within which they are counted
	Missed  bool   // runs that the schedule failed to start count, too
}

// Check is the check of `vacancy doctor --host aws` for a function that nobody waits for. Failing says what a failure leaves undone.
type Check struct{ Name, Failing string }

// Tables whose streams start functions.
const (
	Rows = "rows"
	Docs = "docs"
)

// Queues.
const (
	Tasks  = "tasks"  // turns that run in the background, and dispatches of bookings
	Pushes = "pushes" // notices of events to push
)

// Timeouts in seconds.
const (
	// HandlerSeconds is below the 30 seconds of CloudFront, so that callers get our answer.
	HandlerSeconds = 28
	// TurnSeconds is for turns of a2a/task.MaxWork: 14 minutes, and time to end.
	TurnSeconds = 15 * 60
	// ThinkSeconds is for one turn of a model, and time to answer.
	ThinkSeconds = 14*60 + 20
	// StepSeconds is for a step of the gate, which its machine gives up two seconds later.
	StepSeconds = 10
)

// Variables that several functions have.
const (
	tables = "VACANCY_ROWS VACANCY_DOCS"
	sealed = tables + " VACANCY_SEAL_KEY"
	edge   = "VACANCY_EDGE_SECRET VACANCY_EDGE_SECRET_BEFORE"
	// objects are the variables of functions that read and write files in workspaces.
	objects = " VACANCY_BLOBS VACANCY_PUTS VACANCY_GETS"
)

// Environment lists the environment variables by which its stack tells f what the stage has.
func (f Function) Environment() []string {
	all := strings.Fields(f.Needs + " " + f.Takes)
	if f.URL {
		all = append(all, strings.Fields(edge)...)
	}
	return all
}

// Requires reports whether f does not start without a variable.
func (f Function) Requires(variable string) bool {
	return slices.Contains(strings.Fields(f.Needs), variable)
}

// Has reports whether f has an environment variable.
func (f Function) Has(variable string) bool { return slices.Contains(f.Environment(), variable) }

// Receives lists the queues whose messages start f.
func (f Function) Receives() []string { return strings.Fields(f.Queues) }

// Scheduled reports whether only a schedule starts f.
func (f Function) Scheduled() bool { return f.Every > 0 && !f.URL }

// Invoked reports whether only other functions start f.
func (f Function) Invoked() bool {
	return !f.URL && f.Every == 0 && f.Stream == "" && f.Queues == "" && !f.Step
}

// Logs reports whether f logs its requests, with their metrics.
func (f Function) Logs() bool { return f.URL || f.Invoked() || f.Queues != "" }

// AlarmsOnThrottle reports whether refused requests of f raise the alarm functions-throttled. Functions of the gate are retried.
// An alarm takes at most ten metrics: Think and Worker have alarms of their own, and jobs end long before their next run.
func (f Function) AlarmsOnThrottle() bool {
	return f.Instances > 0 && !f.Scheduled() && !f.Invoked() && f.Queues == "" && !f.Patient
}

// RuleName is the name of the rule that starts f.
func (f Function) RuleName() string { return cmp.Or(f.Rule, f.Name) }

// URLOutput is the output of the stack functions that holds the URL of f.
func (f Function) URLOutput() string { return strings.ToUpper(f.Name[:1]) + f.Name[1:] + "Url" }

// Names lists the names of all functions.
func Names() (names []string) {
	for _, f := range All() {
		names = append(names, f.Name)
	}
	return names
}

// Named finds a function by its name.
func Named(name string) (f Function, ok bool) {
	all := All()
	i := slices.IndexFunc(all, func(f Function) bool { return f.Name == name })
	if i < 0 {
		return Function{}, false
	}
	return all[i], true
}
