// Package functions contains the table of a host's Lambda functions: the purpose, size, triggers,
// variables and cost limits of each function. The table does not contain permissions, which
// infra/stacks grants explicitly.
package functions

import (
	"cmp"
	"slices"
	"strings"
)

type Function struct {
	Name        string // directory, and suffix of the name in AWS
	Description string

	MemoryMB       int
	TimeoutSeconds int
	DiskMB         int // temporary directory; zero means the free 512 MB

	URL            bool
	StreamsAnswers bool
	EveryMinutes   int    // zero means no schedule
	Jobs           string // names in serve.Server.Jobs, in order
	Rule           string // schedule's rule; "" means the function's name
	RuleEvent      string // JSON that the rule sends; "" means EventBridge's own event
	SourceTable    string // RowsTable or DocsTable, if its changes start the function
	Queues         string // queues whose messages start the function, separated by spaces
	IsGateStep     bool

	// The function does not start if a variable in RequiredVars is missing. Variables are separated
	// by spaces.
	RequiredVars, OptionalVars string

	HandlesAccounts  bool // the function's role may access accounts
	UsesHostIdentity bool

	// MinInstances is the minimum reserved concurrency. CostShare is the percentage of a day's
	// maximum cost that pays for additional instances.
	MinInstances int
	CostShare    float64
	Idle         Idle

	ClientsRetry bool
	Alarm        Alarm
	Check        Check
}

type Idle struct{ ReadUnits, Milliseconds, StreamRequests, Listings int }

type Alarm struct {
	Name             string
	Description      string
	MinFailures      int
	PeriodMinutes    int
	CountsMissedRuns bool // runs that the schedule could not start count as failures
}

type Check struct{ Name, FailureEffect string }

const (
	RowsTable = "rows"
	DocsTable = "docs"
)

const (
	TaskQueue = "tasks"
	PushQueue = "pushes"
)

const (
	// CloudFront gives up after 30 seconds, and its error would replace the function's answer.
	HandlerSeconds = 28
	TurnSeconds    = 15 * 60    // a2a/task.MaxTurnTime (14 minutes) and time to end the turn
	ThinkSeconds   = 14*60 + 20 // one turn of a model, and time to answer
	StepSeconds    = 10         // the state machine gives up two seconds later
)

const (
	tableVars  = "VACANCY_ROWS VACANCY_DOCS"
	sealedVars = tableVars + " VACANCY_SEAL_KEY"
	edgeVars   = "VACANCY_EDGE_SECRET VACANCY_EDGE_SECRET_BEFORE"
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

func (f Function) HasVariable(variable string) bool { return slices.Contains(f.Variables(), variable) }

func (f Function) QueueNames() []string { return strings.Fields(f.Queues) }

func (f Function) IsScheduled() bool { return f.EveryMinutes > 0 && !f.URL }

func (f Function) IsInvoked() bool {
	return !f.URL && f.EveryMinutes == 0 && f.SourceTable == "" && f.Queues == "" && !f.IsGateStep
}

func (f Function) DropsQuietLines() bool { return f.URL || f.IsInvoked() || f.Queues != "" }

// An alarm has at most ten metrics, so the alarm functions-throttled does not cover all functions.
func (f Function) AlarmsOnThrottle() bool {
	return f.MinInstances > 0 && !f.IsScheduled() && !f.IsInvoked() && f.Queues == "" && !f.ClientsRetry
}

func (f Function) RuleName() string { return cmp.Or(f.Rule, f.Name) }

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
