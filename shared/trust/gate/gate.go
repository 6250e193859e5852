// Package gate judges graduations: whether a child may leave its parent's tree
// (PROTOCOL §13). It is a list of steps, each a check of given evidence; no
// step reads or writes anything.
//
// The invariants: the first refusal is the same in a process and in a state
// machine, because both run the steps in one order. Missing evidence is
// reported as missing and never as zero. An invalid strength fails the run and
// never passes it.
package gate

import (
	"fmt"
	"slices"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// StepName names a step, in records, in the state machine and for people.
type StepName string

// The steps.
const (
	Consent   StepName = "consent"
	RateLimit StepName = "rate_limit"
	Collusion StepName = "collusion"
	Commit    StepName = "commit"
)

// Step is one step of the gate.
type Step struct {
	Name StepName
	// Refuses lists the kinds of the step's refusals. Any other error is a
	// failure: of the store, the clock or the evidence.
	Refuses []problem.Kind
	// Says describes the step for a person.
	Says string
}

// Steps lists the steps in their order. Only the last one changes anything, and
// it repeats the checks whose facts may have changed.
func Steps() []Step {
	return []Step{
		{Consent, []problem.Kind{problem.NotFound, problem.Consent, problem.Revoked}, "parent and child have both signed, and neither key is revoked"},
		{RateLimit, []problem.Kind{problem.GraduationRate, problem.Graduated}, "the parent has a graduation left today, and the child is still closed"},
		{Collusion, []problem.Kind{problem.Collusion}, "the evidence says that the child is not its parent or a sibling under another name"},
		{Commit, []problem.Kind{problem.NotFound, problem.Consent, problem.Revoked, problem.GraduationRate, problem.Graduated}, "manifest, record, logbooks, card and registration change together"},
	}
}

type errorName struct {
	kind problem.Kind
	name string
}

// errorNames maps kinds to the names of errors in a state machine. Refusals
// have the names of the reference's exception classes.
func errorNames() []errorName {
	return []errorName{
		{problem.NotFound, "CompositeError"},
		{problem.Consent, "GraduationConsentError"},
		{problem.GraduationRate, "GraduationRateLimitError"},
		{problem.Graduated, "GraduationError"},
		{problem.Collusion, "GraduationCollusionError"},
		{problem.Revoked, "RevokedError"},
		{problem.Unavailable, "Unavailable"},
		{problem.Deadline, "Deadline"},
		{problem.Damaged, "Damaged"},
	}
}

// Failed is the name of any error that errorNames does not list.
const Failed = "Failed"

// ErrorName returns the name of a kind in a state machine.
func ErrorName(k problem.Kind) string {
	for _, e := range errorNames() {
		if e.kind == k {
			return e.name
		}
	}
	return Failed
}

// KindOf returns the kind of an error's name. It reports false for an unknown
// name.
func KindOf(name string) (problem.Kind, bool) {
	for _, e := range errorNames() {
		if e.name == name {
			return e.kind, true
		}
	}
	return problem.Internal, false
}

// Refuses reports whether an error of kind k is a refusal of the step, rather
// than a failure.
func Refuses(name StepName, k problem.Kind) bool {
	i := slices.IndexFunc(Steps(), func(s Step) bool { return s.Name == name })
	return i >= 0 && slices.Contains(Steps()[i].Refuses, k)
}

// CheckConsent is the first check: both must have signed the request, and the
// child's manifest must name the parent. m is the child's stored manifest, or
// nil if the child is unknown.
func CheckConsent(r *composite.Request, m *composite.Manifest) error {
	switch {
	case m == nil || m.ChildID != r.ChildID:
		return problem.New(problem.NotFound, "unknown child %s", r.ChildID.Short())
	case m.ParentID != r.ParentID:
		return problem.New(problem.Consent, "graduation parent_id %s does not match child's manifest parent %s", r.ParentID.Short(), m.ParentID.Short())
	}
	return r.Verify()
}

// CheckRate is the second check: it refuses a parent that has no graduation
// left today.
func CheckRate(parent identity.ID, w Window, now time.Time, p Policy) error {
	if taken := len(w.Within(now)); taken >= p.Limit {
		return problem.New(problem.GraduationRate, "parent %s hit graduation rate limit (%d in last 24h, limit %d)", parent.Short(), taken, p.Limit)
	}
	return nil
}

// CheckStillClosed refuses a child that is open already. It runs after the rate limit,
// so showing an old request again changes nothing (PROTOCOL §23 E2).
func CheckStillClosed(m *composite.Manifest) error {
	if m.ClosedByDefault {
		return nil
	}
	return problem.New(problem.Graduated, "child %s is open already", m.ChildID.Short())
}

// Day is the time for which a graduation counts against its parent.
const Day = 24 * time.Hour

// Window lists the times at which children of one parent graduated, in
// microseconds since 1970. The times need not be in order, because a clock may
// have gone back.
type Window []int64

// Within returns the entries of w that still count. An entry that is exactly a
// day old does not count.
func (w Window) Within(now time.Time) Window {
	floor := now.Add(-Day).UnixMicro()
	return slices.DeleteFunc(slices.Clone(w), func(t int64) bool { return t <= floor })
}

// Take returns the window after another graduation.
func (w Window) Take(now time.Time) Window { return append(w.Within(now), now.UnixMicro()) }

// Check refuses a window that is longer than the highest limit allows.
func (w Window) Check() error {
	if len(w) > MaxLimit {
		return problem.Invalid("window", fmt.Sprintf("at most %d", MaxLimit), fmt.Sprint(len(w)))
	}
	return nil
}
