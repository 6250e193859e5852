package call

import (
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/chain"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

type facts struct {
	vacant            Vacant
	signerErr         error // refuses new calls but not resends
	revocationChecked bool
	revokedCallerErr  error
	vacantKeyRevoked  bool
	notRelated        bool
	plan              PaymentPlan
	paymentRefusal    error // returned only if authorization and state permit the call
}

type verdict struct {
	refusal     error
	floor       time.Time
	mayBeResend bool
}

// decide checks a call in the order of PROTOCOL §6.2.
func decide(f facts, pair Pair, e *envelope.Envelope, tip RequestRow) verdict {
	chainErr := tip.Tip().CheckNext(e)
	v := verdict{refusal: f.refusal(pair, e, chainErr), mayBeResend: chainErr != nil}
	if v.refusal != nil && (v.refusal == chainErr || problem.Is(v.refusal, problem.BelowFloor)) {
		v.floor = f.floor(tip)
	}
	return v
}

func (f facts) refusal(pair Pair, e *envelope.Envelope, chainErr error) error {
	if err := f.authorize(pair); err != nil {
		return err
	}
	if err := checkState(f.state()); err != nil {
		return err
	}
	if f.paymentRefusal != nil {
		return f.paymentRefusal
	}
	if chainErr == nil && e.IsReset() {
		// A reset that is sent as a call would fit an empty chain, but must not run or be charged.
		return problem.Invalid("parts", "a reset at …/a2a/chain/reset", envelope.ResetText)
	}
	if floor := f.vacant.Floor; chainErr == nil && !floor.IsZero() && !e.Time.After(floor) {
		return chain.Tip{Floor: floor}.FloorError(e)
	}
	return chainErr
}

func decideReset(f facts, pair Pair, e *envelope.Envelope, tip RequestRow) verdict {
	// The order of the checks is the order of PROTOCOL §9.
	if err := f.authorize(pair); err != nil {
		return verdict{refusal: err}
	}
	if f.state().IsRetired() {
		return verdict{refusal: checkState(f.state())}
	}
	if floor := f.floor(tip); tip.Position > 0 || !f.vacant.Floor.IsZero() {
		if err := (chain.Tip{Floor: floor}).CheckReset(e); err != nil {
			return verdict{refusal: err, floor: floor}
		}
	}
	return verdict{}
}

// A closed child is also concealed from a caller with a revoked key, because someone else may hold
// the key.
func (f facts) isConcealed() bool {
	return f.vacant.IsClosedChild && (f.notRelated || f.revokedCallerErr != nil)
}

func (f facts) authorize(pair Pair) error {
	if !f.notRelated {
		return nil
	}
	return problem.New(problem.TreeOnly, "%s may not call %s: endpoint_reachability %s admits its parent and siblings only",
		pair.Caller.Short(), pair.Vacant.Short(), f.vacant.Reachability)
}

// state also uses the revocation that was read, because the vacant's record may not show it yet.
func (f facts) state() lifecycle.State {
	if f.vacantKeyRevoked && !f.vacant.State.IsRetired() {
		return lifecycle.Sunk
	}
	return f.vacant.State
}

func (f facts) floor(tip RequestRow) time.Time {
	if f.vacant.Floor.After(tip.Floor) {
		return f.vacant.Floor
	}
	return tip.Floor
}

func checkState(s lifecycle.State) error {
	switch {
	case s.CanBeCalled():
		return nil
	case s.IsRetired():
		return problem.New(problem.Gone, "vacant is %s; calls permanently rejected", s)
	}
	return problem.New(problem.NotAccepting, "vacant is %s; not accepting calls", s)
}
