// Package doctor finds problems of a stage, of the machine that deploys it, or of a local host. Its
// checks are pure functions of [Facts], and report the cause and the remedy of each failure.
// Package cloud collects the facts about AWS. A check never reports success if its facts are
// missing.
package doctor

import (
	"fmt"

	"github.com/vacancy-host/vacancy/shared/problem"
)

type Verdict string

const (
	OK            Verdict = "ok"
	Warn          Verdict = "warn"
	Fail          Verdict = "FAIL"
	NotApplicable Verdict = "not applicable"
)

// Check is one line of a report. Fix is a command or an instruction, or "" if the check did not
// fail or warn.
type Check struct {
	Name    string  `json:"check"`
	Verdict Verdict `json:"verdict"`
	Detail  string  `json:"detail"`
	Fix     string  `json:"fix,omitempty"`
}

type Report struct {
	Stage  string  `json:"stage,omitempty"`
	Data   string  `json:"data,omitempty"` // data directory of a local host
	OK     bool    `json:"ok"`             // no check failed
	Checks []Check `json:"checks"`
}

func (r Report) Find(name string) Check {
	for _, c := range r.Checks {
		if c.Name == name {
			return c
		}
	}
	return Check{}
}

func (r Report) Count(v Verdict) (n int) {
	for _, c := range r.Checks {
		if c.Verdict == v {
			n++
		}
	}
	return n
}

func Examine(f Facts) Report { return examine(f, checkRows()) }

func examine(f Facts, rows []checkRow) Report {
	r := Report{Stage: f.Stage}
	for _, row := range rows {
		c := Check{Verdict: NotApplicable}
		if row.skipReason != nil {
			c.Detail = row.skipReason(f)
		}
		if c.Detail == "" {
			c = row.check(f)
		}
		c.Name = row.name
		r.Checks = append(r.Checks, c)
	}
	r.OK = r.Count(Fail) == 0
	return r
}

func pass(detail string, args ...any) Check {
	return Check{Verdict: OK, Detail: fmt.Sprintf(detail, args...)}
}

func skip(reason string, args ...any) Check {
	return Check{Verdict: NotApplicable, Detail: fmt.Sprintf(reason, args...)}
}

func warn(fix, cause string, args ...any) Check {
	return Check{Verdict: Warn, Detail: fmt.Sprintf(cause, args...), Fix: fix}
}

func fail(fix, cause string, args ...any) Check {
	for i, arg := range args {
		if err, ok := arg.(error); ok {
			args[i] = problem.PlainMessage(err)
		}
	}
	return Check{Verdict: Fail, Detail: fmt.Sprintf(cause, args...), Fix: fix}
}

func failUnread(err error) Check {
	return fail("aws sts get-caller-identity    # these credentials need permission to read it", "it cannot be read: %s", err)
}

// warnUnchecked returns a warning about unread facts. It is not a failure, because a deployment may
// succeed without the permission to read them.
func warnUnchecked(err error) Check {
	return warn("aws sts get-caller-identity    # these credentials need permission to read it", "it was not checked: %s", problem.PlainMessage(err))
}
