// Package graduation runs the gate on a host. The gate decides whether a closed child, which is
// hidden from all callers outside its tree, may become public. A Service runs the steps of
// gate.Steps in one process or as tasks of a state machine, and passes a RunState from step to
// step.
//
// An attempt has one outcome, even if its steps run several times or in several processes. Only the
// commit step changes data other than the attempt, in one transaction that also records the
// outcome. An attempt that was not completed in time has failed, so a crash does not block the
// child. A fault, for example unavailable storage, is never reported as a refusal.
//
// # Limits of a parent
//
// An attempt counts for the parent that the child's signed manifest names, regardless of who signed
// the request. All children of a parent share one limit, because a parent can create any number of
// children. An attacker who has only a child's key can use up at most MaxAttempts of this limit.
//
// # Repeated requests
//
// A request contains neither a time nor a nonce, because the reference implementation defines its
// form. Anyone who has seen a request can send it again. After a refusal or a failure, the repeated
// request begins another attempt. Consent takes effect only once, but it does not expire. To
// withdraw consent, one of the parties must revoke its key.
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
	// Detector replaces the detectors of policies. It may be nil.
	Detector gate.Detector
	Now      func() time.Time
	Rand     io.Reader // safe for concurrent use
	// RunningStep returns the step that a state machine is running, or "". It may be nil.
	RunningStep func(ctx context.Context, a *Attempt) gate.StepName
	// Wait sleeps between tries. If it is nil, retry.Sleep is used.
	Wait func(ctx context.Context, d time.Duration) error
}

// Service is the gate of one host. It is safe for concurrent use.
type Service struct{ Config }

func New(c Config) *Service {
	if c.Wait == nil {
		c.Wait = retry.Sleep
	}
	return &Service{c}
}

const (
	AttemptTimeout = 2 * time.Minute
	// MaxAttempts limits the attempts of one child per AttemptPeriod.
	MaxAttempts         = 32
	MaxAttemptsOfParent = 96
	AttemptPeriod       = gate.RateWindow
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
