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
	// Version is the commit or release of this command, or "".
	Version string
	// Settings and Limits are the defaults if the stage's CDK context is unknown.
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
	Roles         *Simulation // nil unless requested
	TamperSource  EventSource
	Jobs          map[string]Job // keyed by function
	Gate          Gate
	HostAnswers   HostAnswers
	Models        Models
	Issuers       Issuers
}

type Tool struct {
	Name    string
	Version string
	Missing bool
}

// CredentialProblem is the reason why AWS cannot be queried.
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
	Err               error
}

type Clock struct {
	Known bool          // AWS answered
	Skew  time.Duration // positive if this machine's clock is ahead
}

type Bootstrap struct {
	Missing bool
	Version int
	Err     error
}

// Quota is the quota of concurrent executions.
type Quota struct {
	Limit      int
	Unreserved int
	Reserved   int // executions that the deployed stage reserves
	Deployed   bool
	Err        error
}

// TypeSupport describes the resource types that CloudFormation supports.
type TypeSupport struct {
	Missing  []string // missing types that a stage may use
	KeySpecs []string // empty if unknown
	Err      error
}

type Stack struct {
	Missing bool
	Status  string
	Reason  string
	Outputs map[string]string
	Err     error
}

type Table struct {
	NameUnknown        bool // the stack data does not exist
	Name               string
	Missing            bool
	Status             string
	Keys               []string // for example "pk B HASH"
	PITR               bool
	DeletionProtection bool
	StreamView         string // "" if the stream is off
	KeyARN             string // "" if AWS owns the key
	// Units per second; zero means no limit.
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
	Absent bool
	ID     string
	State  string // for example PendingDeletion
	Err    error
}

type Mail struct {
	Topic string
	// Subscribers maps each address to whether its subscription is confirmed.
	Subscribers map[string]bool
	Err         error
}

// Simulation contains the decisions of AWS's policy simulator.
type Simulation struct {
	Calls      int
	Mismatches []string // calls with an unexpected decision
	Err        error
}

// TamperReports counts changed and removed rows.
type TamperReports struct {
	Absent     bool // the detector has no log
	Rows       int
	LastReport time.Time
	Err        error
}

// EventSource is the mapping by which a stream starts a function.
type EventSource struct {
	Absent bool
	State  string // Enabled if the mapping works
	// LastResult is "OK", "No records processed", or "PROBLEM:" and the reason.
	LastResult string
	Err        error
}

// Job is the last run of a background function.
type Job struct {
	Absent  bool // the log contains no run
	LastRun time.Time
	Verdict string // ok, or the kind of the failure
	Err     error
}

type Gate struct {
	NameUnknown bool   // no stack contains the name
	Status      string // ACTIVE, DELETING or ""
	Missing     bool
	Failed      int // failed executions in the last day
	LastFailure time.Time
	Err         error
}

type HostAnswers struct {
	Absent bool
	Edge   bool // CloudFront is in front of the functions
	// DirectAnswers contains the answers to requests that bypass CloudFront, keyed by function.
	DirectAnswers map[string]Answer
	Health        Answer
	// Agent is the answer for the agent card at the host's own address.
	Agent                 Answer
	Registry, Log, Search Answer
	NoRegistry            bool
	Graduate              Answer
	NoGate                bool
	// Gateway is the answer of AGP, the protocol for bookings.
	Gateway    Answer
	NoAccounts bool
	Host       admin.Host
	// Operator is the answer to the operator's key.
	Operator       Answer
	NoKey          bool // this machine has no operator's key
	IdentityProved bool // the host signed the challenge with its own key
}

type Answer struct {
	Status int
	Code   string
	Err    error
}
