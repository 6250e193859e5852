// Package gate decides whether a child may graduate, which means that it leaves its parent's tree
// (PROTOCOL §13). It defines the steps of this decision, and their checks neither read nor write
// stored data. All hosts run the same [Steps] in the same order.
package gate

import (
	"fmt"
	"slices"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

type StepName string

const (
	StepConsent   StepName = "consent"
	StepRateLimit StepName = "rate_limit"
	StepCollusion StepName = "collusion"
	StepCommit    StepName = "commit"
)

type Step struct {
	Name StepName
	// RefusalKinds lists the error kinds that refuse the graduation. Other errors are failures.
	RefusalKinds []problem.Kind
	Description  string
}

// Steps returns the steps in their order. Only the last step changes stored data. It repeats the
// checks whose facts may have changed since the earlier steps.
func Steps() []Step {
	return []Step{
		{StepConsent, []problem.Kind{problem.NotFound, problem.ConsentRequired, problem.Revoked}, "parent and child have both signed, and neither key is revoked"},
		{StepRateLimit, []problem.Kind{problem.GraduationRateExceeded, problem.AlreadyGraduated}, "the parent has not reached its daily limit of graduations, and the child is still closed"},
		{StepCollusion, []problem.Kind{problem.CollusionFound}, "according to the evidence, the child is independent of its parent and its siblings"},
		{StepCommit, []problem.Kind{problem.NotFound, problem.ConsentRequired, problem.Revoked, problem.GraduationRateExceeded, problem.AlreadyGraduated}, "manifest, record, logbooks, card and registration change together"},
	}
}

type kindName struct {
	kind problem.Kind
	name string
}

// errorNames names refusals like the exception classes of the Python reference implementation.
func errorNames() []kindName {
	return []kindName{
		{problem.NotFound, "CompositeError"},
		{problem.ConsentRequired, "GraduationConsentError"},
		{problem.GraduationRateExceeded, "GraduationRateLimitError"},
		{problem.AlreadyGraduated, "GraduationError"},
		{problem.CollusionFound, "GraduationCollusionError"},
		{problem.Revoked, "RevokedError"},
		{problem.Unavailable, "Unavailable"},
		{problem.DeadlineExceeded, "Deadline"},
		{problem.Damaged, "Damaged"},
	}
}

const OtherErrorName = "Failed"

func ErrorName(k problem.Kind) string {
	for _, e := range errorNames() {
		if e.kind == k {
			return e.name
		}
	}
	return OtherErrorName
}

func ParseErrorName(name string) (problem.Kind, bool) {
	for _, e := range errorNames() {
		if e.name == name {
			return e.kind, true
		}
	}
	return problem.Internal, false
}

func IsRefusal(name StepName, k problem.Kind) bool {
	i := slices.IndexFunc(Steps(), func(s Step) bool { return s.Name == name })
	return i >= 0 && slices.Contains(Steps()[i].RefusalKinds, k)
}

// CheckConsent returns an error unless both parties have signed r and m names the parent. If the
// child is unknown, m is nil.
func CheckConsent(r *composite.GraduationRequest, m *composite.Manifest) error {
	switch {
	case m == nil || m.ChildID != r.ChildID:
		return problem.New(problem.NotFound, "unknown child %s", r.ChildID.Short())
	case m.ParentID != r.ParentID:
		return problem.New(problem.ConsentRequired, "graduation parent_id %s does not match child's manifest parent %s", r.ParentID.Short(), m.ParentID.Short())
	}
	return r.Verify()
}

func CheckRateLimit(parent identity.ID, w Window, now time.Time, p Policy) error {
	if graduations := len(w.Recent(now)); graduations >= p.DailyLimit {
		return problem.New(problem.GraduationRateExceeded, "parent %s hit graduation rate limit (%d in last 24h, limit %d)", parent.Short(), graduations, p.DailyLimit)
	}
	return nil
}

// CheckStillClosed returns an error if the child is already open, so that a replayed request has no
// effect (PROTOCOL §23 E2).
func CheckStillClosed(m *composite.Manifest) error {
	if m.ClosedByDefault {
		return nil
	}
	return problem.New(problem.AlreadyGraduated, "child %s is open already", m.ChildID.Short())
}

const RateWindow = 24 * time.Hour

// Window contains the times at which children of one parent graduated, in Unix microseconds. A
// clock can go back, so the times may be out of order.
type Window []int64

// Recent returns the times of w within the last 24 hours.
func (w Window) Recent(now time.Time) Window {
	cutoff := now.Add(-RateWindow).UnixMicro()
	return slices.DeleteFunc(slices.Clone(w), func(t int64) bool { return t <= cutoff })
}

func (w Window) Add(now time.Time) Window { return append(w.Recent(now), now.UnixMicro()) }

func (w Window) Check() error {
	if len(w) > MaxDailyLimit {
		return problem.Invalid("window", fmt.Sprintf("at most %d", MaxDailyLimit), fmt.Sprint(len(w)))
	}
	return nil
}
