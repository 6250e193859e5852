package doctor

import (
	"time"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cost"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/setting"
)

// Facts are facts about a machine, an account and a stage. An Err explains why
// the facts beside it are missing.
type Facts struct {
	Stage string
	// Version is the commit or release of this command, as in the stacks'
	// output Version; "" if unknown.
	Version string
	// Settings and Limits are those that the stage's context asks for (see Want). If the
	// context is not known, Undecided is true and they are the defaults.
	Settings  setting.Values
	Limits    cost.Limits
	Undecided bool
	// Region is the Region that the stage was deployed to from here, or "".
	Region string

	Tools     []Tool
	Account   Account
	Clock     Clock
	Bootstrap Bootstrap
	Quota     Quota
	Types     Types
	Stacks    map[string]Stack // by short name
	Rows      Table
	Docs      Table
	Seal      Key
	Tampered  Tampered
	Mail      Mail
	Roles     *Simulation    // nil if not asked for
	Watch     Feed           // of the tamper detector
	Jobs      map[string]Job // by the names of functions that nobody waits for
	Gate      Gate
	Visit     Visit
	Models    Models
	Issuers   Issuers
}

// Tool is a program that a deployment needs.
type Tool struct {
	Name    string
	Version string // as printed, without words; "" if none was printed
	Missing bool
}

// Trouble is a fault of credentials.
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

// Account is the owner of the credentials.
type Account struct {
	ID, ARN string
	Region  string
	Trouble Trouble
	Err     error // with Trouble
}

// Clock compares this machine's clock with AWS's. Seen is false without an
// answer.
type Clock struct {
	Seen bool
	Skew time.Duration // how far this machine is ahead
}

// Bootstrap is the CDK's bootstrap stack.
type Bootstrap struct {
	Missing bool
	Version int
	Err     error
}

// Quota is the quota of concurrent functions.
type Quota struct {
	Limit      int // of the account
	Unreserved int // not reserved by any function
	Reserved   int // reserved by all functions of the deployed stage
	Deployed   bool
	Err        error
}

// Types tells which types of resources CloudFormation has in the Region.
type Types struct {
	Missing  []string // of the types that a stage may have
	KeySpecs []string // key specs of KMS; empty if unknown
	Err      error    // why some types are unknown
}

// Stack is a CloudFormation stack.
type Stack struct {
	Missing bool
	Status  string
	Reason  string
	Outputs map[string]string
	Err     error
}

// Table is a DynamoDB table. If Absent, its name is unknown, because the stack
// with the name does not exist.
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
	// Ceilings in units a second, of the table and of indexes by name. Zero
	// means no ceiling.
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

// Mail describes who gets alarms by mail.
type Mail struct {
	Topic string // ARN; "" if the stage has none
	// Subscribers are mail addresses. The value is false until the address has confirmed its subscription.
	Subscribers map[string]bool
	Err         error
}

// Simulation has the decisions of AWS's policy simulator on the calls of all functions.
type Simulation struct {
	Calls int
	Wrong []string // calls that AWS decides otherwise, with its decision
	Err   error
}

// Tampered counts the changed or removed rows that the tamper detector saw.
type Tampered struct {
	Absent bool // no log to read
	Rows   int
	Last   time.Time
	Err    error
}

// Feed is the event source mapping by which a stream starts a function.
type Feed struct {
	Absent bool   // the stage has none
	State  string // Enabled, if it works
	Result string // of the last batch: OK, No records processed, or PROBLEM: and why
	Err    error
}

// Job is the end of the last run of a function that nobody waits for.
type Job struct {
	Absent  bool // no run is in the log
	Last    time.Time
	Verdict string // ok, or the kind of its failure
	Err     error
}

// Gate is the state machine of the gate.
type Gate struct {
	Absent  bool   // its name is unknown: no stack has it
	Status  string // ACTIVE, DELETING; "" if it is gone
	Missing bool
	Failed  int // executions of the last day that ended without a verdict
	Last    time.Time
	Err     error
}

// Visit is the host's answer to a caller.
type Visit struct {
	Absent bool // there is no URL
	Edge   bool // CloudFront is before the functions
	// Raw are the answers of the Function URLs to requests that bypass
	// CloudFront, by function.
	Raw    map[string]Answer
	Health Answer
	// Agent is the answer of the agent card at the host's own address.
	Agent Answer
	// Registry, Log and Search are the answers of those routes. Unregistered
	// means that the stage has no registry.
	Registry, Log, Search Answer
	Unregistered          bool
	// Graduate is the answer of the gate's route. Ungated means that the stage
	// has no gate.
	Graduate Answer
	Ungated  bool
	// Gateway is the answer of AGP's status. Unpaid means that the stage has no accounts.
	Gateway Answer
	Unpaid  bool
	Host    admin.Host
	// Operator is the admin API's answer to the operator's key.
	Operator Answer
	NoKey    bool // there is no key to try
	Proved   bool // the host signed our challenge with its own key
}

// Answer is an HTTP answer: status and error code.
type Answer struct {
	Status int
	Code   string
	Err    error
}
