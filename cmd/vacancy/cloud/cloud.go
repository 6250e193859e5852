// Package cloud is the port of the command line to an AWS account: its stacks,
// functions, logs, buckets and secrets. Package awscloud implements it with the
// AWS SDK. The port is apart, so that a program without that SDK, which is half
// of the code to compile, can have the same commands (see cli.Seams).
//
// Invariant: this package does not import the AWS SDK.
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

// Open opens an account with the credentials and the Region of the environment;
// a non-empty region replaces that Region. Its error is an *OpenError:
// Unauthorized without credentials, Usage without a Region.
type Open func(ctx context.Context, region string) (Cloud, error)

// OpenError is the reason why no account could be opened.
type OpenError struct {
	Trouble doctor.Trouble
	Err     error // a problem
}

// Error implements error.
func (e *OpenError) Error() string { return e.Err.Error() }

// Unwrap returns the problem.
func (e *OpenError) Unwrap() error { return e.Err }

// Blind returns the facts about a stage if no account could be opened: err is
// Open's.
func Blind(stage string, err error) doctor.Facts {
	var none *OpenError
	if !errors.As(err, &none) {
		none = &OpenError{doctor.Unreachable, err}
	}
	return doctor.Facts{Stage: stage, Account: doctor.Account{Trouble: none.Trouble, Err: none.Err}}
}

// Cloud is one AWS account in one Region. It is safe for concurrent use. All
// errors are problems that name what to do. Cloud neither asks nor prints.
type Cloud interface {
	// Region is the Region of all calls.
	Region() string
	// Caller asks AWS for the identity, which also verifies the credentials.
	Caller(ctx context.Context) (Caller, error)

	// Stack returns a stack by name or ARN: NotFound if it does not exist or was
	// deleted.
	Stack(ctx context.Context, name string) (Stack, error)
	// Template is the original template of a deployed stack.
	Template(ctx context.Context, stack string) ([]byte, error)
	// Resources lists the existing resources of a stack.
	Resources(ctx context.Context, stack string) ([]Resource, error)
	// Tagged lists the tables, keys and buckets with the tag of a stage, whether a stack owns them or not. Keys that
	// are to be deleted are left out.
	Tagged(ctx context.Context, stage string) ([]Resource, error)
	// Delete starts the deletion of a stack. AwaitStack follows it.
	Delete(ctx context.Context, stack string) error
	// Watch watches stacks, by name or ARN, from their latest event on.
	Watch(ctx context.Context, stacks ...string) (Watch, error)

	// Invoke invokes a function with an event and waits for its answer. A failed
	// function is an Answer with Error, not an error.
	Invoke(ctx context.Context, function string, event []byte) (Answer, error)
	// Concurrency returns the concurrency that is reserved for a function, or Unreserved.
	Concurrency(ctx context.Context, function string) (int, error)
	// SetConcurrency reserves a concurrency for a function; 0 keeps it from running, and Unreserved ends
	// the reservation. The error is of kind NotFound for a function that does not exist.
	SetConcurrency(ctx context.Context, function string, n int) error

	// Version is the id of a secret's current version.
	Version(ctx context.Context, secret string) (string, error)
	// PutVersion creates the next version of a secret, with the caller's id and a
	// value of 43 random letters and digits. The current version stays current.
	// The value is known only to AWS and this call.
	PutVersion(ctx context.Context, secret, version string) error
	// Promote makes a version of a secret the current one.
	Promote(ctx context.Context, secret, version string) error

	// HasObjects reports whether a bucket contains anything; an absent one does
	// not.
	HasObjects(ctx context.Context, bucket string) (bool, error)
	// HasItems reports whether a table contains anything; an absent one does not.
	HasItems(ctx context.Context, table string) (bool, error)
	// Empty deletes all objects of a bucket with all versions and markers, and
	// calls gone after each page with the number deleted. An absent bucket is
	// empty.
	Empty(ctx context.Context, bucket string, gone func(objects int)) error
	// Store opens a host's two tables. Problem explains the errors of the store.
	Store(rows, docs string) store.Store
	Problem(err error) error
	// Tables opens a stage's tables for bulk reads: at most units read units a
	// second, with patience when throttled. Zero units mean no limit. NotFound
	// if the stage is not deployed.
	Tables(ctx context.Context, stage string, units float64, now func() time.Time) (*Tables, error)

	// Mail returns who gets the messages of a topic by mail. It records a failure as Err.
	Mail(ctx context.Context, topic string) doctor.Mail

	// Groups lists the log groups whose names begin with prefix.
	Groups(ctx context.Context, prefix string) ([]string, error)
	// Tail reads the lines of log groups since from.
	Tail(groups []string, from time.Time) Tail

	// Simulate asks AWS to decide the calls in infra/policies/calls.txt by the policies of this release. It deploys nothing,
	// and needs no stage.
	Simulate(ctx context.Context) *doctor.Simulation
	// Examine collects the facts about a stage. Facts that cannot be read are
	// recorded as errors.
	Examine(ctx context.Context, stage string, now func() time.Time) doctor.Facts
	// ExamineAccount collects the facts that doctor.ExamineAccount judges, except for the
	// owner of the credentials.
	ExamineAccount(ctx context.Context, stage string) doctor.Facts
}

// Unreserved is the concurrency of a function without a reservation.
const Unreserved = -1

// Caller is the owner of the credentials.
type Caller struct {
	Account string `json:"account"` // twelve digits
	ARN     string `json:"arn"`
}

// Answer is the result of an invocation.
type Answer struct {
	Payload []byte
	Error   string // "" or AWS's term for the failure, for example Unhandled
	Log     string // the last 4 KB of the log
}

// Line is one event of a log group.
type Line struct {
	Group string
	At    time.Time
	Text  string
}

// Tail reads the lines of several log groups in the order of time. It is for one
// goroutine.
type Tail interface {
	// Next passes new lines to show in the order of time, and returns when there
	// are no more. A late line is shown by a later Next. If AWS throttles or
	// cannot be reached the error is Unavailable, and Next can be called again.
	Next(ctx context.Context, show func(Line) error) error
}

// Tables are a stage's tables, with the person's credentials: for checks and
// transcripts, which only read, and to correct usage.
type Tables struct {
	Store
	Vault custody.Vault // opens boxes under the stage's sealing key
	// Blobs opens the stage's bucket. It may be nil.
	Blobs func() (blob.Blobs, error)
}

// Store is a stage's tables.
type Store interface {
	store.Walker
	store.Store
}

// Wait waits between two polls. An error means that the person interrupted.
func Wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return problem.Wrap(problem.Canceled, ctx.Err(), "interrupted")
	case <-t.C:
		return nil
	}
}
