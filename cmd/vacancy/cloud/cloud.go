// Package cloud defines [Cloud], the interface of the command line to an AWS account. It must not
// import the AWS SDK, which takes long to compile. Package awscloud implements Cloud with the SDK.
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

// OpenFunc opens an account with the credentials of the environment. The error is an *OpenError. If
// region is "", the environment selects the Region.
type OpenFunc func(ctx context.Context, region string) (Cloud, error)

type OpenError struct {
	CredentialProblem doctor.CredentialProblem
	Err               error
}

func (e *OpenError) Error() string { return e.Err.Error() }

func (e *OpenError) Unwrap() error { return e.Err }

func FactsFromOpenError(stage string, err error) doctor.Facts {
	var openErr *OpenError
	if !errors.As(err, &openErr) {
		openErr = &OpenError{doctor.Unreachable, err}
	}
	return doctor.Facts{Stage: stage, Account: doctor.Account{CredentialProblem: openErr.CredentialProblem, Err: openErr.Err}}
}

// Cloud is an AWS account in one Region. It is safe for concurrent use. All its errors are
// problems.
type Cloud interface {
	Region() string
	CallerIdentity(ctx context.Context) (CallerIdentity, error)

	// Stack returns a NotFound error if the stack does not exist or was deleted.
	Stack(ctx context.Context, name string) (Stack, error)
	Template(ctx context.Context, stack string) ([]byte, error)
	Resources(ctx context.Context, stack string) ([]Resource, error)
	TaggedResources(ctx context.Context, stage string) ([]Resource, error)
	// DeleteStack only starts the deletion.
	DeleteStack(ctx context.Context, stack string) error
	// WatchStacks returns a reader that skips the existing events.
	WatchStacks(ctx context.Context, stacks ...string) (EventReader, error)

	// Invoke returns no error if the function fails.
	Invoke(ctx context.Context, function string, event []byte) (InvokeResult, error)
	ReservedConcurrency(ctx context.Context, function string) (int, error)
	// SetReservedConcurrency prevents the function from running if n is zero.
	SetReservedConcurrency(ctx context.Context, function string, n int) error

	CurrentSecretVersion(ctx context.Context, secret string) (string, error)
	// PutSecretVersion creates a secret's next version, which PromoteSecretVersion makes current.
	PutSecretVersion(ctx context.Context, secret, version string) error
	PromoteSecretVersion(ctx context.Context, secret, version string) error

	// HasObjects and HasItems return false if the bucket or table does not exist. EmptyBucket then
	// returns nil. It also deletes old versions of objects.
	HasObjects(ctx context.Context, bucket string) (bool, error)
	HasItems(ctx context.Context, table string) (bool, error)
	EmptyBucket(ctx context.Context, bucket string, reportDeleted func(objects int)) error
	// OpenStore opens a host's tables. ConvertError converts the store's errors into problems.
	OpenStore(rows, docs string) store.Store
	ConvertError(err error) error
	// OpenTables opens tables whose reads use at most units read units per second. Zero means no
	// limit.
	OpenTables(ctx context.Context, stage string, units float64, now func() time.Time) (*Tables, error)

	MailSubscriptions(ctx context.Context, topic string) doctor.Mail

	LogGroups(ctx context.Context, prefix string) ([]string, error)
	TailLogs(groups []string, from time.Time) LogTail

	SimulatePolicies(ctx context.Context) *doctor.Simulation
	CollectFacts(ctx context.Context, stage string, now func() time.Time) doctor.Facts
	CollectAccountFacts(ctx context.Context, stage string) doctor.Facts
}

const Unreserved = -1

type CallerIdentity struct {
	Account string `json:"account"`
	ARN     string `json:"arn"`
}

type InvokeResult struct {
	Payload       []byte
	FunctionError string // "" or, for example, Unhandled
	Log           string
}

type LogLine struct {
	Group string
	Time  time.Time
	Text  string
}

// LogTail is for use by one goroutine.
type LogTail interface {
	// Next may be called again after an Unavailable error.
	Next(ctx context.Context, show func(LogLine) error) error
}

type Tables struct {
	TableStore
	Vault custody.Vault
	// Blobs may be nil.
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
		return problem.Wrap(problem.Canceled, ctx.Err(), "interrupted")
	case <-t.C:
		return nil
	}
}
