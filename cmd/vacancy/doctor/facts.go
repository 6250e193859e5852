package doctor

import (
	"time"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cost"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/setting"
)

// Facts contains facts about a machine, an account and a stage. In each struct, Err explains why
// facts are missing.
type Facts struct {
	Stage string
	// Version is the commit or release of this command, in the form of the stacks' output Version.
	// It is "" if unknown.
	Version string
	// Settings and Limits are derived from the stage's CDK context (see Facts.SetContext). If that
	// context is unknown, they are the defaults.
	Settings       setting.Values
	Limits         cost.Limits
	ContextUnknown bool
	// Region is the Region to which this machine deployed the stage, or "".
	Region string

	Tools         []Tool
	Account       Account
	Clock         Clock
	Bootstrap     Bootstrap
	Quota         Quota
	Types         TypeSupport
	Stacks        map[string]Stack // keyed by short name
	Rows          Table
	Docs          Table
	SealingKey    SealingKey
	TamperReports TamperReports
	Mail          Mail
	Roles         *Simulation    // nil unless requested
	TamperSource  EventSource    // event source of the tamper detector
	Jobs          map[string]Job // keyed by the names of background functions
	Gate          Gate
	HostAnswers   HostAnswers
	Models        Models
	Issuers       Issuers
}

type Tool struct {
	Name    string
	Version string // version in the program's output, without other words, or ""
	Missing bool
}

// CredentialProblem is the reason why AWS cannot be queried, or CredentialsOK.
type CredentialProblem string

const (
	CredentialsOK      CredentialProblem = ""
	NoCredentials      CredentialProblem = "none found"
	ExpiredCredentials CredentialProblem = "expired"
	DeniedCredentials  CredentialProblem = "denied"
	SkewedClock        CredentialProblem = "clock"
	NoRegion           CredentialProblem = "no Region"
	Unreachable        CredentialProblem = "unreachable"
)

type Account struct {
	ID, ARN           string
	Region            string
	CredentialProblem CredentialProblem
	Err               error // nil if CredentialProblem is CredentialsOK
}

// Clock compares this machine's clock with AWS's.
type Clock struct {
	Known bool          // AWS answered
	Skew  time.Duration // time by which this machine's clock is ahead
}

type Bootstrap struct {
	Missing bool
	Version int
	Err     error
}

// Quota is the quota of concurrent executions.
type Quota struct {
	Limit      int // limit of the account
	Unreserved int // executions that no function reserves
	Reserved   int // executions that functions of the deployed stage reserve
	Deployed   bool
	Err        error
}

// TypeSupport describes the resource types that CloudFormation supports in the Region.
type TypeSupport struct {
	Missing  []string // missing types among those that a stage may use
	KeySpecs []string // key specs of KMS; empty if unknown
	Err      error    // reason why some types are unknown
}

type Stack struct {
	Missing bool
	Status  string
	Reason  string
	Outputs map[string]string
	Err     error
}

// Table is a DynamoDB table.
type Table struct {
	NameUnknown        bool // the name is unknown, because the stack that contains it does not exist
	Name               string
	Missing            bool
	Status             string
	Keys               []string // for example "pk B HASH"
	PITR               bool
	DeletionProtection bool
	StreamView         string // view type; "" if the stream is off
	KeyARN             string // ARN of the customer managed key; "" if AWS owns the key
	// Throughput limits in units per second, of the table and of its indexes. Zero means no limit.
	ReadLimit, WriteLimit int
	Indexes               []Index
	Err                   error
}

type Index struct {
	Name                  string
	ReadLimit, WriteLimit int
}

// SealingKey describes the KMS key that encrypts seeds, text keys and secrets.
type SealingKey struct {
	Absent bool // the stage has no sealing key
	ID     string
	State  string // for example Enabled, Disabled or PendingDeletion
	Err    error
}

// Mail describes the mail subscriptions to alarms.
type Mail struct {
	Topic string // ARN; "" if the stage has no topic
	// Subscribers contains each subscribed address, with true if its subscription is confirmed.
	Subscribers map[string]bool
	Err         error
}

// Simulation contains the decisions of AWS's policy simulator about the calls of all functions.
type Simulation struct {
	Calls      int
	Mismatches []string // calls with an unexpected decision
	Err        error
}

// TamperReports counts the changed and removed rows that the tamper detector reported.
type TamperReports struct {
	Absent     bool      // the detector's log does not exist
	Rows       int       // number of reported rows
	LastReport time.Time // time of the last report
	Err        error
}

// EventSource is the event source mapping by which a stream starts a function.
type EventSource struct {
	Absent bool   // the stage has no such mapping
	State  string // Enabled if the mapping works
	// LastResult is the result of the last batch: "OK", "No records processed", or "PROBLEM:"
	// followed by the reason.
	LastResult string
	Err        error
}

// Job is the result of the last run of a background function.
type Job struct {
	Absent  bool // the log contains no run
	LastRun time.Time
	Verdict string // ok, or the kind of the failure
	Err     error
}

// Gate is the state machine of the gate.
type Gate struct {
	NameUnknown bool   // the name is unknown, because no stack contains it
	Status      string // ACTIVE or DELETING; "" if the machine does not exist
	Missing     bool
	Failed      int       // number of executions in the last day that failed, timed out or were aborted
	LastFailure time.Time // end of the last such execution
	Err         error
}

// HostAnswers contains the answers of the host to requests of this command.
type HostAnswers struct {
	Absent bool // the host's URL is unknown
	Edge   bool // CloudFront is in front of the functions
	// DirectAnswers contains each function's answer to a request that bypasses CloudFront.
	DirectAnswers map[string]Answer
	Health        Answer
	// Agent is the answer for the agent card at the host's own address.
	Agent Answer
	// Registry, Log and Search are the answers of these routes.
	Registry, Log, Search Answer
	NoRegistry            bool // the stage has no registry
	// Graduate is the answer of the gate's route.
	Graduate Answer
	NoGate   bool // the stage has no gate
	// Gateway is the answer of the status route of AGP, the protocol for bookings.
	Gateway    Answer
	NoAccounts bool // the stage has no accounts
	Host       admin.Host
	// Operator is the admin API's answer to the operator's key.
	Operator       Answer
	NoKey          bool // this machine has no operator's key for the stage
	IdentityProved bool // the host signed the challenge with its own key
}

// Answer is an HTTP answer, reduced to its status and error code.
type Answer struct {
	Status int
	Code   string
	Err    error
}
