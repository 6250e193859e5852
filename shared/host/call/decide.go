package call

import (
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/chain"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// facts are the inputs of decide other than the envelope and the chain's tip. They come from the
// store or from caches.
type facts struct {
	vacant            Vacant
	signerErr         error // reason for which the signer is not ready
	revocationChecked bool  // whether the revocation of both keys was read
	revokedCallerErr  error // refusal if the caller's key is revoked
	vacantKeyRevoked  bool  // whether the vacant's key is revoked
	// notRelated is set if the vacant admits only its parent and siblings and the caller is
	// neither.
	notRelated     bool
	plan           PaymentPlan
	paymentRefusal error // refusal of the payment (402, 403, 429), returned only if authorization and state permit the call
}

// verdict is the decision about an envelope. If refusal is nil, the envelope's row is appended
// after the tip.
type verdict struct {
	refusal error
	// floor is the time after which a new envelope must be signed. It is set only if signing a new
	// envelope can avoid the refusal.
	floor time.Time
	// mayBeResend is set if the envelope does not fit the chain. It may then be an earlier envelope
	// whose stored outcome the caller should get.
	mayBeResend bool
}

// decide checks a call in the order of PROTOCOL §6.2. It is a pure function of its arguments.
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
		// A reset that is sent as a call would fit an empty chain. It must not run or be charged as a
		// call.
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

// isConcealed reports whether the vacant is a closed child that must look to the caller as if it
// were not hosted. Callers with a revoked key are included, because such a key does not prove who
// holds it.
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

// state returns the vacant's state. Another process may have revoked the vacant's key before the
// record shows it. A vacant with a revoked key is therefore SUNK, unless its record has a terminal
// state.
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
