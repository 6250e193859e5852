package doctor

import (
	"time"

	"github.com/vacancy-host/vacancy/shared/front/admin"
)

// Facts are what is known of a machine, an account and a stage. An Err explains
// why the facts beside it are missing.
type Facts struct {
	Stage string
	// Version is the commit or release that this command is of, as far as it is
	// part of the stacks' output Version; "" if it does not know.
	Version string
	// Keep is what the stage was deployed with: false is a stage that may be
	// lost, whose tables nothing protects.
	Keep bool
	// Region is where the stage was deployed from here; "" if it was not.
	Region string

	Tools     []Tool
	Account   Account
	Clock     Clock
	Bootstrap Bootstrap
	Quota     Quota
	Stacks    map[string]Stack // by their short names
	Rows      Table
	Docs      Table
	Seal      Key
	Tampered  Tampered
	Jobs      map[string]Job // by the names of the functions that nobody waits for
	Gate      Gate
	Visit     Visit
}

// Tool is a program that a deployment runs.
type Tool struct {
	Name    string
	Version string // as the program says it, without words; "" if it said none
	Missing bool
}

// Trouble is what is wrong with credentials.
type Trouble string

// The troubles.
const (
	NoTrouble   Trouble = ""
	NoneFound   Trouble = "none found"
	Expired     Trouble = "expired"
	Denied      Trouble = "denied"
	Skewed      Trouble = "clock"
	NoRegion    Trouble = "no Region"
	Unreachable Trouble = "unreachable"
)

// Account is whose credentials are in use.
type Account struct {
	ID, ARN string
	Region  string
	Trouble Trouble
	Err     error // with Trouble
}

// Clock is this machine's clock beside that of AWS. Seen false: no answer came.
type Clock struct {
	Seen bool
	Skew time.Duration // how far this machine is ahead
}

// Bootstrap is the stack that the CDK puts its assets in.
type Bootstrap struct {
	Missing bool
	Version int
	Err     error
}

// Quota is how many functions may run at once.
type Quota struct {
	Limit      int // of the account
	Unreserved int // what no function has reserved
	Wanted     int // what the stage reserves, all functions together
	Deployed   bool
	Err        error
}

// Stack is a CloudFormation stack.
type Stack struct {
	Missing bool
	Status  string
	Reason  string
	Outputs map[string]string
	Err     error
}

// Table is a DynamoDB table. Absent: there is no name to look for, since the
// stack that would say it is not there.
type Table struct {
	Absent             bool
	Name               string
	Missing            bool
	Status             string
	Keys               []string // "pk B HASH" and so on
	PITR               bool
	DeletionProtection bool
	Stream             string // the view type; "" if off
	Key                string // ARN of the customer managed key; "" if AWS owns it
	// Ceilings in units a second, the table's and those of indexes by name;
	// 0: none.
	Read, Write int
	Indexes     []Index
	Err         error
}

// Index is an index of a table.
type Index struct {
	Name        string
	Read, Write int
}

// Key is the sealing key.
type Key struct {
	Absent bool // the stage has none
	ID     string
	State  string // Enabled, Disabled, PendingDeletion …
	Err    error
}

// Tampered is how many rows the tamper detector saw changed or removed.
type Tampered struct {
	Absent bool // no log to read
	Rows   int
	Last   time.Time
	Err    error
}

// Job is how the last run of a function that nobody waits for ended.
type Job struct {
	Absent  bool // no run is in the log
	Last    time.Time
	Verdict string // ok, or the kind of its failure
	Err     error
}

// Gate is the state machine of the gate.
type Gate struct {
	Absent  bool   // there is no name to look for: no stack says one
	Status  string // ACTIVE, DELETING; "" if it is gone
	Missing bool
	Failed  int // executions of the last day that ended without a verdict
	Last    time.Time
	Err     error
}

// Visit is what the host says to who calls it.
type Visit struct {
	Absent bool // there is no URL
	Edge   bool // CloudFront stands before the functions
	// Raw are the answers of the Function URLs to who does not come through
	// CloudFront, by the names of the functions.
	Raw    map[string]Answer
	Health Answer
	// Registry, Log and Search are the answers of those routes. Unregistered is
	// set if the stage has no registry.
	Registry, Log, Search Answer
	Unregistered          bool
	// Graduate is the answer of the gate's route. Ungated is set if the stage
	// has no gate.
	Graduate Answer
	Ungated  bool
	Host     admin.Host
	// Operator is what the admin API says to the operator key.
	Operator Answer
	NoKey    bool // there is no key to try
	Proved   bool // the host signed our challenge with its own key
}

// Answer is an HTTP answer: its status and the code that a handler of ours gives.
type Answer struct {
	Status int
	Code   string
	Err    error
}
