// Package graduation keeps the gate at a host: attempts of closed children to
// become public, walked through gate.Steps, and what has come of them.
//
// The same service stands behind a walk in one process and behind the tasks of
// a state machine; both hand a small State from step to step. The invariants:
// of one attempt there is one outcome, however often and wherever its steps
// run; only commit changes anything but the attempt itself, in one transaction
// with the attempt's outcome and its slot of the day, and all that the steps
// before have checked it checks again under that transaction's conditions;
// nothing is committed once an attempt is due; a child has at most one attempt
// open, and one that nobody ended counts as failed when it is due, so that a
// crash blocks nobody; a fault is never shown as a refusal; a child begins at
// most MaxAttempts in a Day, and all children of a parent together at most
// MaxOfParent, counted in the commit that begins one.
//
// # Where things lie
//
// Stream grad#<child>: a row for each attempt, which never changes: what was
// asked, the policy it is judged by, when it began and is due. Document
// grad#<child>/<position, 16 hex digits> is what has come of it; Begin, commit
// and whoever ends an attempt write it. gradtry#<parent>/times holds when
// children of the parent began attempts of the last day, which Begin alone
// writes; gradwin#<parent>/window when they succeeded, which commit alone
// writes: who can write attempts has no say on the limit of successes. Each has
// a partition of its own, so that a role can be let write one and not the
// other. host/gate and host/gate#<tenant> are the policies that were set.
//
// # Who counts
//
// An attempt counts against the parent that the child's manifest names, whoever
// signed the request as the parent: the manifest cannot be changed, and both
// have signed it. So whoever has a parent's key makes as many children as it
// likes, and all of them get no further than one parent. What a child's key
// alone can use up is MaxAttempts of that.
//
// # A request shown again
//
// A request has no time and no nonce: its form is the reference's. Whoever saw
// its bytes can send them again. While its attempt is open that joins it, and
// once accepted it is told the outcome. After a refusal or a failure it begins
// another attempt, which counts as one more of the day and which may succeed,
// if what was in the way is gone: a consent does not expire. It is for these
// words of this child under this parent alone, and does its work once: a child
// that is open is not opened again. Who thinks better of it revokes one of the
// two keys; while either is paused nothing begins.
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

// Collector brings the evidence that the collusion check judges by.
type Collector interface {
	Collect(ctx context.Context, child, parent identity.ID) (gate.Evidence, error)
}

// Config is what a Service is made of. Store, Vacants, Registry, Now and Rand
// are needed.
type Config struct {
	Store    store.Store
	Vacants  *vacants.Directory
	Registry *registry.Registry
	// Evidence is needed where the collusion step runs.
	Evidence Collector
	// Detector takes the place of the one that a policy names; nil: none does.
	Detector gate.Detector
	Now      func() time.Time
	Rand     io.Reader // safe for concurrent use
	// Running says at which step the run of an open attempt is that goes on
	// elsewhere, "" where that cannot be said; nil: nobody knows.
	Running func(ctx context.Context, a *Attempt) gate.StepName
	// Wait sleeps between tries, or ends early with ctx; retry.Sleep if nil.
	Wait func(ctx context.Context, d time.Duration) error
}

// Service is the gate of one host. It is safe for concurrent use, and any
// number of them may share a store.
type Service struct{ Config }

// New makes a Service.
func New(c Config) *Service {
	if c.Wait == nil {
		c.Wait = retry.Sleep
	}
	return &Service{c}
}

// The limits of attempts.
const (
	// DueAfter is how long an attempt may take.
	DueAfter = 2 * time.Minute
	// MaxAttempts is how many attempts of one child a Day takes, and MaxOfParent
	// how many of all children of one parent.
	MaxAttempts = 32
	MaxOfParent = 96
	Day         = gate.Day
)

// detector is what judges by p.
func (s *Service) detector(p gate.Policy) (gate.Detector, error) {
	if s.Detector != nil {
		return s.Detector, nil
	}
	return gate.DetectorOf(p)
}

// now is the time as it is kept.
func (s *Service) now() time.Time { return s.Now().UTC().Truncate(time.Microsecond) }

// updater changes the store with optimistic concurrency.
func (s *Service) updater() store.Updater {
	return store.Updater{Store: s.Store, Rand: s.Rand, Wait: s.Wait}
}

// fault gives an error of the store a kind. A conflict that outlasted all
// retries is Unavailable: the same request may be sent again.
func fault(err error) error {
	if store.IsConflict(err) {
		return problem.Wrap(problem.Unavailable, err, "others keep changing it; send the same again")
	}
	return store.Problem(err)
}

// unknown is the refusal of a child that nobody can graduate here.
func unknown(child identity.ID) error {
	return problem.New(problem.NotFound, "unknown child %s", child.Short())
}
