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

	MemoryMB       int
	TimeoutSeconds int
	DiskMB         int // size of the temporary directory; zero means the free 512 MB

	// Triggers of the function. A function without a trigger is invoked by other functions.
	URL            bool   // requests to its Function URL
	StreamsAnswers bool   // the answers of the URL are streams
	EveryMinutes   int    // minutes between two scheduled runs; zero means no schedule
	Jobs           string // jobs of a run in order, by their names in serve.Server.Jobs
	Rule           string // name of the schedule's rule; "" means the function's name
	RuleEvent      string // JSON that the rule sends; "" means EventBridge's own event
	SourceTable    string // changes of a table, which is RowsTable or DocsTable
	Queues         string // messages of queues, separated by spaces
	IsGateStep     bool   // steps of the gate's state machine

	// Environment variables in addition to the settings (package setting) and the variables of a URL,
	// separated by spaces. The function does not start if a variable in RequiredVars is missing. The
	// variables in OptionalVars are optional.
	RequiredVars, OptionalVars string

	HandlesAccounts  bool // the function handles accounts, and its role has the permissions for them
	UsesHostIdentity bool // the function uses the host's identity

	// MinInstances is the minimum reserved concurrency. Zero reserves no concurrency. CostShare is the
	// percentage of the maximum cost of a day that pays for additional instances of the function.
	MinInstances int
	CostShare    float64
	Idle         Idle

	// ClientsRetry excludes the function from the alarm for throttled requests, because its clients
	// retry.
	ClientsRetry bool
	Alarm        Alarm
	Check        Check
}

// Idle contains the resources that a scheduled run uses if it finds no work.
type Idle struct{ ReadUnits, Milliseconds, StreamRequests, Listings int }

// Alarm is the alarm for failures: 5xx answers of a URL, or errors of a function without a URL.
type Alarm struct {
	Name             string
	Description      string // meaning of the alarm, and advice
	MinFailures      int    // minimum number of failures that raises the alarm
	PeriodMinutes    int    // period in which failures are counted
	CountsMissedRuns bool   // runs that the schedule could not start count as failures
}

// Check is the check of `vacancy doctor --host aws` for a function without waiting callers.
// FailureEffect names the work that a failure leaves undone.
type Check struct{ Name, FailureEffect string }

const (
	RowsTable = "rows"
	DocsTable = "docs"
)

const (
	TaskQueue = "tasks"  // background turns, and dispatches of bookings
	PushQueue = "pushes" // notices of events to push
)

// Timeouts in seconds.
const (
	// HandlerSeconds is below CloudFront's limit of 30 seconds, so that callers get the answer of
	// the function and not an error of CloudFront.
	HandlerSeconds = 28
	// TurnSeconds allows turns of a2a/task.MaxTurnTime, which is 14 minutes, and time to end them.
	TurnSeconds = 15 * 60
	// ThinkSeconds allows one turn of a model, and time to answer.
	ThinkSeconds = 14*60 + 20
	// StepSeconds allows one step of the gate. The state machine gives up two seconds later.
	StepSeconds = 10
)

// Variables of several functions.
const (
	tableVars  = "VACANCY_ROWS VACANCY_DOCS"
	sealedVars = tableVars + " VACANCY_SEAL_KEY"
	edgeVars   = "VACANCY_EDGE_SECRET VACANCY_EDGE_SECRET_BEFORE"
	// objectVars lists the variables of functions that read and write files in workspaces.
	objectVars = " VACANCY_BLOBS VACANCY_PUTS VACANCY_GETS"
)

func (f Function) Variables() []string {
	variables := strings.Fields(f.RequiredVars + " " + f.OptionalVars)
	if f.URL {
		variables = append(variables, strings.Fields(edgeVars)...)
	}
	return variables
}

func (f Function) RequiresVariable(variable string) bool {
	return slices.Contains(strings.Fields(f.RequiredVars), variable)
}

// HasVariable reports whether f may have a variable, required or optional.
func (f Function) HasVariable(variable string) bool { return slices.Contains(f.Variables(), variable) }

// QueueNames returns the names of the queues whose messages start f.
func (f Function) QueueNames() []string { return strings.Fields(f.Queues) }

func (f Function) IsScheduled() bool { return f.EveryMinutes > 0 && !f.URL }

// IsInvoked reports whether only other functions start f.
func (f Function) IsInvoked() bool {
	return !f.URL && f.EveryMinutes == 0 && f.SourceTable == "" && f.Queues == "" && !f.IsGateStep
}

func (f Function) DropsQuietLines() bool { return f.URL || f.IsInvoked() || f.Queues != "" }

// AlarmsOnThrottle reports whether throttled requests of f raise the alarm functions-throttled. An
// alarm has at most ten metrics, so this alarm does not cover all functions. Think and Worker have
// alarms of their own, the gate's functions are retried, and jobs end long before their next run.
func (f Function) AlarmsOnThrottle() bool {
	return f.MinInstances > 0 && !f.IsScheduled() && !f.IsInvoked() && f.Queues == "" && !f.ClientsRetry
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
