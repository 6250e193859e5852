// Package doctor finds what is wrong with a stage, with the machine that deploys
// it, or with a local host: named checks, each with its cause and the command that mends it.
//
// The checks are pure functions of Facts, which are collected elsewhere (Visit
// and Look here, the AWS facts in package cloud). The invariants: nothing is
// changed. A check without its facts never says ok. Every check is in every
// report, in the same order.
package doctor

import (
	"fmt"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// Verdict is the result of a check.
type Verdict string

// The verdicts.
const (
	OK            Verdict = "ok"
	Warn          Verdict = "warn"
	Fail          Verdict = "FAIL"
	NotApplicable Verdict = "not applicable"
)

// Check is one line of a report. Fix is a command, or what to do before one;
// only failing checks have it.
type Check struct {
	Name    string  `json:"check"`
	Verdict Verdict `json:"verdict"`
	Detail  string  `json:"detail"`
	Fix     string  `json:"fix,omitempty"`
}

// Report is all checks of a stage, or of a local host.
type Report struct {
	Stage  string  `json:"stage,omitempty"`
	Data   string  `json:"data,omitempty"` // the data directory of a local host
	OK     bool    `json:"ok"`             // no check says FAIL
	Checks []Check `json:"checks"`
}

// Find returns the check of a name; the zero Check if there is none.
func (r Report) Find(name string) Check {
	for _, c := range r.Checks {
		if c.Name == name {
			return c
		}
	}
	return Check{}
}

// Count is the number of checks with a verdict.
func (r Report) Count(v Verdict) (n int) {
	for _, c := range r.Checks {
		if c.Verdict == v {
			n++
		}
	}
	return n
}

// Examine judges the facts.
func Examine(f Facts) Report { return examine(f, table()) }

func examine(f Facts, rows []row) Report {
	r := Report{Stage: f.Stage}
	for _, row := range rows {
		c := Check{Verdict: NotApplicable}
		if row.needs != nil {
			c.Detail = row.needs(f)
		}
		if c.Detail == "" {
			c = row.judge(f)
		}
		c.Name = row.name
		r.Checks = append(r.Checks, c)
	}
	r.OK = r.Count(Fail) == 0
	return r
}

func ok(detail string, args ...any) Check {
	return Check{Verdict: OK, Detail: fmt.Sprintf(detail, args...)}
}

func none(why string, args ...any) Check {
	return Check{Verdict: NotApplicable, Detail: fmt.Sprintf(why, args...)}
}

func warn(fix, cause string, args ...any) Check {
	return Check{Verdict: Warn, Detail: fmt.Sprintf(cause, args...), Fix: fix}
}

func fail(fix, cause string, args ...any) Check {
	for i, arg := range args {
		if err, ok := arg.(error); ok {
			args[i] = problem.Plain(err)
		}
	}
	return Check{Verdict: Fail, Detail: fmt.Sprintf(cause, args...), Fix: fix}
}

// unread is a check whose facts AWS did not return.
func unread(err error) Check {
	return fail("aws sts get-caller-identity    # these credentials need leave to read it", "it cannot be read: %s", err)
}

// unanswered is a check of the account whose facts AWS did not return. It is only a warning, because a
// deployment may succeed without the right to read them.
func unanswered(err error) Check {
	return warn("aws sts get-caller-identity    # these credentials need leave to read it", "it was not checked: %s", problem.Plain(err))
}
