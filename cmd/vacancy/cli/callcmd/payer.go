package callcmd

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/account"
	"github.com/vacancy-host/vacancy/shared/host/a2a/a2awire"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// checkPayer returns a check of a signed call's target. The key in $VACANCY_KEY does not
// come with a signed call, so the check refuses a call that costs money unless the account
// of the key is linked to self. Without this check, whoever set the key would learn only by a
// 402, by lost free calls or by another account's charge, that the key does not pay.
func checkPayer(a *kit.App, f callFlags, self kit.Signer, web *dispatch.HTTP) func(context.Context, dispatch.Target) error {
	return func(ctx context.Context, t dispatch.Target) error {
		c, err := a.AccountAt(ctx, f.where, t.URL)
		if err != nil || c == nil {
			return err
		}
		payer, err := account.ShowAccount.Call(ctx, c, account.One{})
		pays := slices.ContainsFunc(payer.Links, func(l billing.Link) bool { return l.Caller == self.ID() })
		if pays || problem.Is(err, problem.NotFound) { // a host without accounts charges nobody
			return nil
		}
		if most, known, priceErr := priceOf(ctx, web, t); priceErr != nil || known && most == 0 {
			return priceErr
		}
		hint := keyed + "vacancy call " + kit.ShellWord(strings.TrimSuffix(t.URL, "/a2a/message/send")) + " TEXT --stream    # the key pays for streams"
		switch {
		case problem.Is(err, problem.Unauthorized):
			hint = "env -u " + kit.AccountKeyEnv + " " + a.Again()
		case err == nil && (payer.Key == nil || payer.Key.MayLink()):
			hint = linkCommand(t.URL)
		}
		if err != nil {
			err = problem.Wrap(problem.Of(err).Kind, err, "it is not known whether the key in $%s pays for signed calls of %s: %s; nothing was sent", kit.AccountKeyEnv, self.Name, problem.Of(err).Text())
		} else {
			err = problem.New(problem.PaymentRequired, "the account of the key in $%s does not pay for signed calls of %s; nothing was sent", kit.AccountKeyEnv, self.Name)
		}
		return kit.WithHint(err, "%s", hint)
	}
}

// linkCommand is the command with which a caller links an account at the vacant's host, so
// that the account pays for the caller's signed calls.
func linkCommand(at string) string {
	return keyed + "vacancy account link --host " + kit.ShellWord(kit.HostOf(at))
}

// keyed begins a command that needs the key of an account. The key of this run may have been set
// for this run only, so each such command sets one.
const keyed = kit.AccountKeyEnv + "=KEY "

// payHint adds a hint to a 402: an operator's command for the operator of the host, otherwise
// a caller's. ways are the host's ways to pay (dispatch.Result.Pay).
func payHint(a *kit.App, err error, f callFlags, t dispatch.Target, ways []string) error {
	short, operator := slices.Contains(ways, "credit"), isOwnVacant(a, f.where, t)
	switch {
	case short && operator:
		return kit.WithHint(err, "vacancy credit TENANT DOLLARS")
	case operator:
		return kit.WithHint(err, "vacancy account link TENANT")
	case short:
		return shortHint(err, t.URL)
	}
	return kit.WithHint(err, "%s", linkCommand(t.URL))
}

// shortHint adds to the refusal of a call, whose account is short, how it gets money. Only the
// host knows whether it takes cards.
func shortHint(err error, at string) error {
	return kit.WithHint(err, "%svacancy account pay DOLLARS --host %s    # if the host takes cards; otherwise ask its operator for credit", keyed, kit.ShellWord(kit.HostOf(at)))
}

// keyHint adds a hint to a refusal of a call by A2A, which the key in $VACANCY_KEY pays for: if
// the call costs money and nobody pays, or if the host does not know the key.
func keyHint(a *kit.App, ctx context.Context, err error, f callFlags, at string) error {
	var refused *a2awire.RPCError
	if !errors.As(err, &refused) {
		return err
	}
	reason, members := refused.Info()
	key, keyErr := a.AccountKeyFor(ctx, f.where, at)
	sent, again := keyErr == nil && key != "", a.Again()
	if f.where.Host == "" {
		again = a.AgainWith("--host", kit.HostOf(at))
	}
	switch {
	case members["code"] == problem.PaymentRequired.String() && !sent:
		return kit.WithHint(refusedCall(problem.PaymentRequired, refused, at), "%s%s", keyed, again)
	case members["code"] == problem.PaymentRequired.String(): // the account of the key is short
		return shortHint(refusedCall(problem.PaymentRequired, refused, at), at)
	case reason == "UNAUTHORIZED" && sent:
		err = problem.New(problem.Unauthorized, "%s does not accept the key in $%s (401): %s", kit.Printable(kit.HostOf(at)), kit.AccountKeyEnv, kit.Printable(kit.Clip(refused.Message, maxRefusal)))
		return kit.WithHint(err, "%s%s, with a key of an account of this host, or without a key: env -u %s %s", keyed, a.Again(), kit.AccountKeyEnv, a.Again())
	}
	return err
}

// refusedCall is a refusal in the words of a signed call's.
func refusedCall(kind problem.Kind, refused *a2awire.RPCError, at string) error {
	return problem.New(kind, "%s refused the call (%d): %s", kit.Printable(at), kind.Row().Status, kit.Printable(kit.Clip(refused.Message, maxRefusal)))
}

// maxRefusal bounds the characters of a host's refusal that are printed.
const maxRefusal = 600
