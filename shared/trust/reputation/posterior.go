package reputation

import (
	"math"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// Posterior is a Beta distribution over the quality of a vacant in one
// dimension.
type Posterior struct {
	Alpha    float64 `json:"alpha"`
	Beta     float64 `json:"beta"`
	Alpha0   float64 `json:"alpha0"` // of the prior; Alpha decays towards it
	Beta0    float64 `json:"beta0"`
	Evidence float64 `json:"n_eff"`          // the decayed weight of all signals
	Updated  float64 `json:"last_update_ts"` // Unix seconds
	HalfLife float64 `json:"half_life_days"`
}

// Prior is the distribution in d before the first signal.
func Prior(d Dimension, at time.Time) Posterior {
	p := priors[d]
	return Posterior{Alpha: p.alpha, Beta: p.beta, Alpha0: p.alpha, Beta0: p.beta, Updated: seconds(at), HalfLife: p.halfLife}
}

// seconds converts t to the reference's unit, Unix seconds as a float.
func seconds(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

// Decay returns p decayed to the time at. A time before the last update changes
// nothing.
func (p Posterior) Decay(at time.Time) Posterior {
	days := (seconds(at) - p.Updated) / 86400
	if days <= 0 {
		return p
	}
	left := math.Exp(-math.Ln2 * days / p.HalfLife)
	p.Alpha = p.Alpha0 + left*(p.Alpha-p.Alpha0)
	p.Beta = p.Beta0 + left*(p.Beta-p.Beta0)
	p.Evidence *= left
	p.Updated = seconds(at)
	return p
}

// Update decays p to the time at and adds a signal from 0 (bad) to 1 (good)
// with a weight. An invalid signal is refused as Malformed, in the reference's
// words.
func (p Posterior) Update(signal, weight float64, at time.Time) (Posterior, error) {
	// Written so that NaN is refused too.
	if !(signal >= 0 && signal <= 1) {
		return p, problem.New(problem.Malformed, "signal must be in [0, 1], got %s", number(signal))
	}
	if !(weight >= 0) || math.IsInf(weight, 1) {
		return p, problem.New(problem.Malformed, "weight must be >= 0, got %s", number(weight))
	}
	p = p.Decay(at)
	p.Alpha += weight * signal
	p.Beta += weight * (1 - signal)
	p.Evidence += weight
	return p, nil
}

// Mean is the expected quality.
func (p Posterior) Mean() float64 { return p.Alpha / (p.Alpha + p.Beta) }

// Variance is the uncertainty of Mean.
func (p Posterior) Variance() float64 {
	n := p.Alpha + p.Beta
	return p.Alpha * p.Beta / (n * n * (n + 1))
}

// check refuses parameters that no sequence of signals can produce from the
// prior of d. Without this check, a posterior from another registry could score
// above 1 or be NaN.
func (p Posterior) check(d Dimension) error {
	switch {
	case !finite(p.Alpha) || !finite(p.Beta) || !finite(p.Evidence) || !finite(p.Updated):
		return problem.Invalid(d.String(), "finite numbers", "others")
	case p.Alpha0 <= 0 || p.Beta0 <= 0 || !finite(p.Alpha0) || !finite(p.Beta0):
		return problem.Invalid(d.String(), "a prior above 0", number(p.Alpha0)+", "+number(p.Beta0))
	case p.Alpha < p.Alpha0 || p.Beta < p.Beta0:
		return problem.Invalid(d.String(), "alpha and beta not below the prior's", number(p.Alpha)+", "+number(p.Beta))
	case p.Evidence < 0:
		return problem.Invalid(d.String(), "n_eff >= 0", number(p.Evidence))
	case p.HalfLife <= 0 || !finite(p.HalfLife):
		return problem.Invalid(d.String(), "a half-life above 0", number(p.HalfLife))
	}
	return nil
}
