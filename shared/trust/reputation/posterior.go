package reputation

import (
	"math"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// Posterior is a Beta distribution of a vacant's quality in one dimension.
type Posterior struct {
	Alpha        float64 `json:"alpha"`
	Beta         float64 `json:"beta"`
	Alpha0       float64 `json:"alpha0"`
	Beta0        float64 `json:"beta0"`
	Evidence     float64 `json:"n_eff"` // decayed weight of all signals
	UpdatedUnix  float64 `json:"last_update_ts"`
	HalfLifeDays float64 `json:"half_life_days"`
}

func NewPosterior(d Dimension, t time.Time) Posterior {
	p := priors[d]
	return Posterior{Alpha: p.alpha, Beta: p.beta, Alpha0: p.alpha, Beta0: p.beta, UpdatedUnix: unixSeconds(t), HalfLifeDays: p.halfLife}
}

func unixSeconds(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

func (p Posterior) Decay(t time.Time) Posterior {
	days := (unixSeconds(t) - p.UpdatedUnix) / 86400
	if days <= 0 {
		return p
	}
	decayFactor := math.Exp(-math.Ln2 * days / p.HalfLifeDays)
	p.Alpha = p.Alpha0 + decayFactor*(p.Alpha-p.Alpha0)
	p.Beta = p.Beta0 + decayFactor*(p.Beta-p.Beta0)
	p.Evidence *= decayFactor
	p.UpdatedUnix = unixSeconds(t)
	return p
}

// Update decays p to the time t and adds a signal from 0 (bad) to 1 (good).
func (p Posterior) Update(signal, weight float64, t time.Time) (Posterior, error) {
	// The comparison is false for NaN, so NaN is also refused.
	if !(signal >= 0 && signal <= 1) {
		return p, problem.New(problem.Malformed, "signal must be in [0, 1], got %s", formatFloat(signal))
	}
	if !(weight >= 0) || math.IsInf(weight, 1) {
		return p, problem.New(problem.Malformed, "weight must be >= 0, got %s", formatFloat(weight))
	}
	p = p.Decay(t)
	p.Alpha += weight * signal
	p.Beta += weight * (1 - signal)
	p.Evidence += weight
	return p, nil
}

func (p Posterior) Mean() float64 { return p.Alpha / (p.Alpha + p.Beta) }

func (p Posterior) Variance() float64 {
	n := p.Alpha + p.Beta
	return p.Alpha * p.Beta / (n * n * (n + 1))
}

// check refuses invalid posteriors of other registries, whose mean could exceed 1.
func (p Posterior) check(d Dimension) error {
	switch {
	case !isFinite(p.Alpha) || !isFinite(p.Beta) || !isFinite(p.Evidence) || !isFinite(p.UpdatedUnix):
		return problem.Invalid(d.String(), "finite numbers", "an infinity or NaN")
	case p.Alpha0 <= 0 || p.Beta0 <= 0 || !isFinite(p.Alpha0) || !isFinite(p.Beta0):
		return problem.Invalid(d.String(), "a prior above 0", formatFloat(p.Alpha0)+", "+formatFloat(p.Beta0))
	case p.Alpha < p.Alpha0 || p.Beta < p.Beta0:
		return problem.Invalid(d.String(), "alpha and beta not below the prior's", formatFloat(p.Alpha)+", "+formatFloat(p.Beta))
	case p.Evidence < 0:
		return problem.Invalid(d.String(), "n_eff >= 0", formatFloat(p.Evidence))
	case p.HalfLifeDays <= 0 || !isFinite(p.HalfLifeDays):
		return problem.Invalid(d.String(), "a half-life above 0", formatFloat(p.HalfLifeDays))
	}
	return nil
}
