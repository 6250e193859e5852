// Package graduation runs the gate at a host: attempts of closed children to
// become public, through gate.Steps, and their outcomes.
//
// The same service runs all steps in one process, or each step as a task of a
// state machine; both pass a small State from step to step. The invariants: an
// attempt has one outcome, even if its steps run several times, or in several
// processes. Only commit changes anything but the attempt itself, in one
// transaction with the outcome and the slot of the day, and it repeats the
// earlier checks under that transaction's conditions. Nothing is committed once
// an attempt is due. A child has at most one open attempt; an attempt that was
// not completed in time has failed, so a crash blocks nobody. A fault is never
// shown as a refusal. A child begins at most MaxAttempts in a Day, and all
// children of a parent together at most MaxOfParent, counted in the commit that
// begins an attempt.
//
// # Layout
//
// Stream grad#<child>: an immutable row for each attempt, with the request, the
// policy, and when it began and is due. Document grad#<child>/<position, 16 hex
// digits> is the status; Begin, commit and Record write it.
// gradtry#<parent>/times lists when children of the parent began attempts in
// the last day; only Begin writes it. gradwin#<parent>/window lists when they
// succeeded; only commit writes it, so a role that writes attempts cannot
// change the limit of successes. Each has its own partition, so roles can be
// limited to one of them. host/gate and host/gate#<tenant> are the policies.
//
// # Limits of a parent
//
// An attempt counts against the parent in the child's manifest, whoever signed
// the request as the parent: both signed the manifest, and it cannot be
// changed. The holder of a parent's key can make any number of children, but
// all together get no further than one parent. With only a child's key, an
// attacker can use up MaxAttempts of that.
//
// # Repeated requests
//
// A request has neither time nor nonce, because its form is the reference's.
// Anybody who saw its bytes can send them again. While its attempt is open,
// that joins it; once accepted, it returns the outcome. After a refusal or a
// failure it begins another attempt, which counts as one more of the day and
// may succeed if the obstacle is gone: consent does not expire. It covers this
// text of this child under this parent only, and takes effect once: an open
// child is not opened again. To withdraw consent, revoke one of the two keys;
// while either is paused, nothing begins.
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

// Collector collects the evidence for the collusion check.
type Collector interface {
	Collect(ctx context.Context, child, parent identity.ID) (gate.Evidence, error)
}

// Config configures a Service. Store, Vacants, Registry, Now and Rand are
// required.
type Config struct {
	Store    store.Store
	Vacants  *vacants.Directory
	Registry *registry.Registry
	// Evidence is required where the collusion step runs.
	Evidence Collector
	// Detector replaces the detector that a policy names, if not nil.
	Detector gate.Detector
	Now      func() time.Time
	Rand     io.Reader // safe for concurrent use
	// Running returns the step that a state machine runs for an open attempt,
	// or "" if unknown. With nil, it is always unknown.
	Running func(ctx context.Context, a *Attempt) gate.StepName
	// Wait sleeps between tries, or returns early when ctx ends; retry.Sleep if
	// nil.
	Wait func(ctx context.Context, d time.Duration) error
}

// Service is the gate of one host. It is safe for concurrent use, and any
// number of services may share a store.
type Service struct{ Config }

// New makes a Service.
func New(c Config) *Service {
	if c.Wait == nil {
		c.Wait = retry.Sleep
	}
	return &Service{c}
}

// Limits of attempts.
const (
	// DueAfter bounds the time of an attempt.
	DueAfter = 2 * time.Minute
	// MaxAttempts bounds the attempts of one child that begin in a Day, and
	// MaxOfParent the attempts of all children of one parent.
	MaxAttempts = 32
	MaxOfParent = 96
	Day         = gate.Day
)

// detector returns p's detector.
func (s *Service) detector(p gate.Policy) (gate.Detector, error) {
	if s.Detector != nil {
		return s.Detector, nil
	}
	return gate.DetectorOf(p)
}

// now is the time in stored precision.
func (s *Service) now() time.Time { return s.Now().UTC().Truncate(time.Microsecond) }

// updater changes the store with optimistic concurrency.
func (s *Service) updater() store.Updater {
	return store.Updater{Store: s.Store, Rand: s.Rand, Wait: s.Wait}
}

// fault gives an error of the store a kind. A conflict that outlasted all
// retries is Unavailable: the request can be sent again.
func fault(err error) error {
	if store.IsConflict(err) {
		return problem.Wrap(problem.Unavailable, err, "others keep changing it; send the same again")
	}
	return store.Problem(err)
}

// unknown is the refusal of a child that cannot graduate here.
func unknown(child identity.ID) error {
	return problem.New(problem.NotFound, "unknown child %s", child.Short())
}
