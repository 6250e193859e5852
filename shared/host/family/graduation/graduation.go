// Package graduation runs the gate on a host. The gate decides whether a closed child, which is
// hidden from all callers outside its tree, may become public. The package manages the attempts of
// children, runs the steps of gate.Steps, and records the outcomes.
//
// The same Service runs all steps in one process or each step as a task of a state machine. In both
// cases a small RunState is passed from step to step. The package guarantees:
//
//   - An attempt has one outcome, even if its steps run several times or in several processes.
//   - Only the commit step changes data other than the attempt itself. It does so in one
//     transaction, which also records the outcome, takes one of the parent's slots and repeats the
//     checks whose facts may have changed.
//   - An attempt is not committed after its due time.
//   - A child has at most one open attempt. An attempt that was not completed in time has failed,
//     so a crash does not block the child.
//   - A fault, for example unavailable storage, is never reported as a refusal.
//   - In an AttemptPeriod, a child begins at most MaxAttempts attempts, and all children of a parent
//     together at most MaxAttemptsOfParent. They are counted in the commit that begins an attempt.
//
// # Layout
//
// Stream grad#<child> has an immutable row per attempt with the request, the policy, the start and
// the due time. Document grad#<child>/<position, 16 hex digits> is the status, which Begin, commit
// and Record write. gradtry#<parent>/times contains the start times of attempts by the parent's
// children in the last day and is written only by Begin. gradwin#<parent>/window contains the times
// of their successes and is written only by commit, so a role that writes attempts cannot change
// the limit of successes. Each of these has its own partition, so that roles can be restricted to
// one. host/gate and host/gate#<tenant> are the policies.
//
// # Limits of a parent
//
// An attempt counts for the parent that the child's manifest names, regardless of who signed the
// request as the parent. Both parties have signed the manifest, and it cannot be changed. The
// holder of a parent's key can create any number of children, but all these children share one
// limit. An attacker who has only a child's key can use up at most MaxAttempts of this limit.
//
// # Repeated requests
//
// The reference implementation defines the form of a request, which contains neither a time nor a
// nonce. Anyone who has seen a request can therefore send it again. While the attempt is open, a
// repeated request returns the attempt. After acceptance it returns the outcome. After a refusal or
// a failure it begins another attempt, which counts for the limits and may succeed if the reason of
// the failure no longer exists. Consent does not expire. It covers only this capability text of
// this child under this parent, and it takes effect only once, because an open child is not opened
// again. To withdraw consent, one of the parties must revoke its key. While a party is paused,
// attempts cannot begin.
package graduation

import (
	"context"
	"io"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/retry"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Collector collects the evidence for the check of collusion.
type Collector interface {
	Collect(ctx context.Context, child, parent identity.ID) (gate.Evidence, error)
}

// Config configures a Service. Store, Vacants, Registry, Now and Rand are required.
type Config struct {
	Store    store.Store
	Vacants  *vacants.Directory
	Registry *registry.Registry
	// Evidence is required if this process runs the collusion step.
	Evidence Collector
	// Detector replaces the detectors that policies name. It may be nil.
	Detector gate.Detector
	Now      func() time.Time
	Rand     io.Reader // safe for concurrent use
	// RunningStep returns the step that a state machine is running for an open attempt, or "" if it
	// is not known. It may be nil.
	RunningStep func(ctx context.Context, a *Attempt) gate.StepName
	// Wait sleeps between tries and returns early if ctx ends. If it is nil, retry.Sleep is used.
	Wait func(ctx context.Context, d time.Duration) error
}

// Service is the gate of one host. It is safe for concurrent use, and several Services may share a
// store.
type Service struct{ Config }

func New(c Config) *Service {
	if c.Wait == nil {
		c.Wait = retry.Sleep
	}
	return &Service{c}
}

const (
	// AttemptTimeout limits the duration of an attempt.
	AttemptTimeout = 2 * time.Minute
	// MaxAttempts limits the attempts of one child per AttemptPeriod, and MaxAttemptsOfParent the
	// attempts of all children of one parent.
	MaxAttempts         = 32
	MaxAttemptsOfParent = 96
	AttemptPeriod       = gate.RateWindow // time for which an attempt counts
)

func (s *Service) detectorFor(p gate.Policy) (gate.Detector, error) {
	if s.Detector != nil {
		return s.Detector, nil
	}
	return gate.NewDetector(p)
}

func (s *Service) now() time.Time { return s.Now().UTC().Truncate(time.Microsecond) }

func (s *Service) updater() store.Updater {
	return store.Updater{Store: s.Store, Rand: s.Rand, Wait: s.Wait}
}

func faultError(err error) error {
	if store.IsConflict(err) {
		return problem.Wrap(problem.Unavailable, err, "other requests keep changing it; send the same request again")
	}
	return store.AsProblem(err)
}

func unknownChildError(child identity.ID) error {
	return problem.New(problem.NotFound, "unknown child %s", child.Short())
}
