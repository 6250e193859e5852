package callcmd

import (
	"errors"
	"strings"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// addCallHint adds a hint to the error of a call. Only the operator of the vacant's host gets
// operator commands.
func addCallHint(a *kit.App, err error, f callFlags, t dispatch.Target, paymentOptions []string) error {
	if h := new(kit.HintedError); errors.As(err, &h) {
		return err
	}
	kind := problem.AsError(err).Kind
	switch {
	case errors.Is(err, dispatch.ErrBusy):
		return kit.WithHint(err, "%s", a.CommandLineWithFlag("--as", "OTHER"))
	case kind == problem.PaymentRequired:
		return addPayHint(a, err, f, t, paymentOptions)
	case !isOwnVacant(a, f.where, t):
		return err
	case kind == problem.Misdirected:
		return kit.WithHint(err, `vacancy graduate %s --capability "TEXT"    # if it is a closed child: only its parent and the parent's other children may call it`, t.Name)
	// The setting work changes only the limits whose errors end in "the time that the host allows"
	// or "that the vacant allows".
	case kind == problem.DeadlineExceeded && strings.Contains(problem.AsError(err).Text(), " allows"):
		return kit.WithHint(err, "vacancy update %s work=TIME    # for example 2m, at most 14m", t.Name)
	case !f.where.IsLocal(a):
		return err
	case kind.IsFailure() || kind == problem.DeadlineExceeded:
		return kit.WithHint(err, "vacancy logs %s --failed    # and for a composite: vacancy children %s", t.Name, t.Name)
	case kind == problem.Pending || kind == problem.Unavailable:
		return kit.WithHint(err, "vacancy status    # shows whether the host's disk is full")
	}
	return err
}

// isOwnVacant reports whether the user named a vacant by its name on a host that the user operates.
func isOwnVacant(a *kit.App, where kit.HostFlags, t dispatch.Target) bool {
	_, public := a.PublicVacantURL(where, t.Name)
	return !public && t.Address != "" && a.IsOperator(where)
}
