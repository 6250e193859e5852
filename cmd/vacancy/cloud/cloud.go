// Package cloud defines the interface of the command line to an AWS account: its stacks, functions,
// logs, buckets and secrets. Package awscloud implements it with the AWS SDK. This package must not
// import the SDK, which is half of the code to compile. A program without the SDK can therefore have
// the same commands (see cli.Seams).
package cloud

import (
	"context"
	"errors"
	"time"

	"github.com/vacancy-host/vacancy/cmd/vacancy/doctor"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/blob"
)

// OpenFunc opens an account with the credentials and the Region of the environment. If region is not
// "", it replaces that Region. The error is an *OpenError of kind Unauthorized if there are no
// credentials, or of kind Usage if there is no Region.
type OpenFunc func(ctx context.Context, region string) (Cloud, error)

type OpenError struct {
	CredentialProblem doctor.CredentialProblem
	Err               error // a problem
}

func (e *OpenError) Error() string { return e.Err.Error() }

func (e *OpenError) Unwrap() error { return e.Err }

// FactsFromOpenError returns the facts about a stage if Open failed with err.
func FactsFromOpenError(stage string, err error) doctor.Facts {
	var openErr *OpenError
	if !errors.As(err, &openErr) {
		openErr = &OpenError{doctor.Unreachable, err}
	}
	return doctor.Facts{Stage: stage, Account: doctor.Account{CredentialProblem: openErr.CredentialProblem, Err: openErr.Err}}
}

// Cloud is an AWS account in one Region. It is safe for concurrent use. All errors are problems
// that name a remedy. Cloud never prints and never asks the user.
type Cloud interface {
	// Region returns the Region of all calls.
	Region() string
	// CallerIdentity asks AWS for the owner of the credentials, which also verifies the credentials.
	CallerIdentity(ctx context.Context) (CallerIdentity, error)

	// Stack returns a stack by its name or ARN. The error is NotFound if the stack does not exist
	// or was deleted.
	Stack(ctx context.Context, name string) (Stack, error)
	// Template returns the original template of a deployed stack.
	Template(ctx context.Context, stack string) ([]byte, error)
	// Resources lists the existing resources of a stack.
	Resources(ctx context.Context, stack string) ([]Resource, error)
	// TaggedResources lists the tables, keys and buckets with the tag of a stage, whether or not a
	// stack owns them. It omits keys that are scheduled for deletion.
	TaggedResources(ctx context.Context, stage string) ([]Resource, error)
	// DeleteStack starts the deletion of a stack. AwaitStack waits for its end.
	DeleteStack(ctx context.Context, stack string) error
	// WatchStacks returns a reader of the events of stacks, which are given by name or ARN. The
	// reader skips events that already exist.
	WatchStacks(ctx context.Context, stacks ...string) (EventReader, error)

	// Invoke invokes a function with an event and waits for its answer. If the function fails,
	// Invoke returns no error, and the result describes the failure.
	Invoke(ctx context.Context, function string, event []byte) (InvokeResult, error)
	// ReservedConcurrency returns the reserved concurrency of a function, or Unreserved.
	ReservedConcurrency(ctx context.Context, function string) (int, error)
	// SetReservedConcurrency reserves concurrency for a function. Zero prevents it from running, and
	// Unreserved ends the reservation. The error is NotFound if the function does not exist.
	SetReservedConcurrency(ctx context.Context, function string, n int) error

	// CurrentSecretVersion returns the id of a secret's current version.
	CurrentSecretVersion(ctx context.Context, secret string) (string, error)
	// PutSecretVersion creates the next version of a secret, with the given id and a value of 43
	// random letters and digits, which only AWS and this call know. The current version stays
	// current until Cloud.PromoteSecretVersion makes another version the current one.
	PutSecretVersion(ctx context.Context, secret, version string) error
	PromoteSecretVersion(ctx context.Context, secret, version string) error

	// HasObjects reports whether a bucket contains objects. It returns false if the bucket does not
	// exist.
	HasObjects(ctx context.Context, bucket string) (bool, error)
	// HasItems reports whether a table contains items. It returns false if the table does not
	// exist.
	HasItems(ctx context.Context, table string) (bool, error)
	// EmptyBucket deletes all objects of a bucket, including all versions and delete markers. After
	// each page, it reports the number of objects deleted so far. EmptyBucket returns nil if the
	// bucket does not exist.
	EmptyBucket(ctx context.Context, bucket string, reportDeleted func(objects int)) error
	// OpenStore opens a host's two tables. Cloud.ConvertError converts errors of that store into
	// problems.
	OpenStore(rows, docs string) store.Store
	ConvertError(err error) error
	// OpenTables opens a stage's tables for bulk reads with at most units read units per second. If
	// units is zero, there is no limit. The store waits if AWS throttles it. The error is NotFound
	// if the stage is not deployed.
	OpenTables(ctx context.Context, stage string, units float64, now func() time.Time) (*Tables, error)

	// MailSubscriptions returns the mail subscriptions of a topic. If it fails, the result's Err is
	// the reason.
	MailSubscriptions(ctx context.Context, topic string) doctor.Mail

	// LogGroups lists the log groups whose names begin with prefix.
	LogGroups(ctx context.Context, prefix string) ([]string, error)
	// TailLogs returns a reader of the lines that log groups contain since the time from.
	TailLogs(groups []string, from time.Time) LogTail

	// SimulatePolicies asks AWS to evaluate the calls in infra/policies/calls.txt with the policies
	// of this release. It deploys no resources and needs no stage.
	SimulatePolicies(ctx context.Context) *doctor.Simulation
	// CollectFacts collects the facts about a stage. Facts that cannot be read are recorded as errors.
	CollectFacts(ctx context.Context, stage string, now func() time.Time) doctor.Facts
	// CollectAccountFacts collects the facts for doctor.ExamineAccount, except for the facts about the
	// owner of the credentials.
	CollectAccountFacts(ctx context.Context, stage string) doctor.Facts
}

// Unreserved is the concurrency of a function without a reservation.
const Unreserved = -1

type CallerIdentity struct {
	Account string `json:"account"` // twelve digits
	ARN     string `json:"arn"`
}

type InvokeResult struct {
	Payload       []byte
	FunctionError string // "", or AWS's term for the failure, for example Unhandled
	Log           string // last 4 KB of the log
}

// LogLine is an event in a log group.
type LogLine struct {
	Group string
	Time  time.Time
	Text  string
}

// LogTail reads the lines of several log groups in order of time. It is for use by one goroutine.
type LogTail interface {
	// Next passes new lines to show in order of time, and returns when there are no more. A late
	// line is shown by a later Next. If AWS throttles or cannot be reached, the error is
	// Unavailable, and Next may be called again.
	Next(ctx context.Context, show func(LogLine) error) error
}

// Tables contains a stage's tables, opened with the user's credentials. Commands that verify or
// print calls only read the tables. The command "vacancy usage --recount" also writes them.
type Tables struct {
	TableStore
	Vault custody.Vault // decrypts values that the stage's sealing key encrypted
	// Blobs opens the stage's bucket. It may be nil.
	Blobs func() (blob.Blobs, error)
}

type TableStore interface {
	store.Walker
	store.Store
}

func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		// The context ends if the person interrupts the command.
		return problem.Wrap(problem.Canceled, ctx.Err(), "interrupted")
	case <-t.C:
		return nil
	}
}
