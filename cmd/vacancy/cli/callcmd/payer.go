package callcmd

import (
	"context"
	"errors"
	"slices"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/account"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/host/a2a/a2awire"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// checkPayer returns a check of a signed call's target. The key in $VACANCY_KEY does not
// come with a signed call, so the check refuses a call that costs money unless the account
// of the key is linked to self. Without this check, whoever set the key would learn only by a
// 402, or by lost free calls, that the key does not pay. typed is the target as the person
// named it.
func checkPayer(a *kit.App, f callFlags, self kit.Signer, web *dispatch.HTTP, typed string) func(context.Context, dispatch.Target) error {
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
		const nothing = "; nothing was sent"
		switch {
		case problem.Is(err, problem.Scope):
			err := problem.New(problem.PaymentRequired, "the key in $%s does not have the scope read, so it cannot be known whether its account pays for signed calls of %s%s", kit.AccountKeyEnv, self.Name, nothing)
			return kit.WithHint(err, "%s", streamedByKey(a, typed, t))
		case problem.Is(err, problem.TestKey):
			err := problem.Wrap(problem.TestKey, err, "a test key, such as the one in $%s, pays for no signed calls of %s%s", kit.AccountKeyEnv, self.Name, nothing)
			return kit.WithHint(err, "%s", streamedByKey(a, typed, t))
		case problem.Is(err, problem.Unauthorized):
			err := problem.Wrap(problem.Unauthorized, err, "the key in $%s: %s%s", kit.AccountKeyEnv, problem.Of(err).Text(), nothing)
			return kit.WithHint(err, "env -u %s %s", kit.AccountKeyEnv, a.Again())
		case err != nil:
			return problem.Wrap(problem.Of(err).Kind, err, "the account of the key in $%s cannot be read: %s%s", kit.AccountKeyEnv, problem.Of(err).Text(), nothing)
		}
		err = problem.New(problem.PaymentRequired, "the account of the key in $%s does not pay for signed calls of %s%s", kit.AccountKeyEnv, self.Name, nothing)
		if payer.Key != nil && !payer.Key.MayLink() {
			return kit.WithHint(err, "%s", streamedByKey(a, typed, t))
		}
		return kit.WithHint(err, "%s", linkCommand(a, f, t.URL))
	}
}

// streamedByKey is the command that makes the call as a stream, which the key pays for.
func streamedByKey(a *kit.App, typed string, t dispatch.Target) string {
	url := kit.HostOf(t.URL) + "/v/" + t.ID.String() + "/"
	if kit.IsURL(typed) {
		url = typed
	}
	return keyed + a.AgainFor(typed, url) + " --stream"
}

// linkCommand is the command with which a caller links an account at the vacant's host, so
// that the account pays for the caller's signed calls.
func linkCommand(a *kit.App, f callFlags, at string) string {
	as := ""
	if f.as != "" {
		as = " --as " + kit.ShellWord(f.as)
	}
	return keyed + "vacancy account link --host " + kit.ShellWord(kit.HostOf(at)) + as + a.CAArg()
}

// keyed begins a command that needs the key of an account. The key of this run may have been set
// for this run only, so each such command sets one.
const keyed = kit.AccountKeyEnv + "=KEY "

// payHint adds a hint to a 402: an operator's command for the operator of the host, otherwise
// a caller's. ways are the host's ways to pay (dispatch.Result.Pay).
func payHint(a *kit.App, ctx context.Context, err error, f callFlags, id identity.ID, at string, ways []string) error {
	short := slices.Contains(ways, "credit")
	if plane := a.AdminAt(f.where); plane != nil {
		if _, showErr := admin.ShowVacant.Call(ctx, plane, admin.One{Vacant: id.String()}); showErr == nil {
			if short {
				return kit.WithHint(err, "vacancy credit TENANT DOLLARS%s", f.where.Args())
			}
			as := ""
			if f.as != "" {
				as = " --as " + kit.ShellWord(f.as)
			}
			return kit.WithHint(err, "vacancy account link TENANT%s%s", as, f.where.Args())
		}
	}
	if short {
		return shortHint(a, err, at)
	}
	return kit.WithHint(err, "%s", linkCommand(a, f, at))
}

// shortHint adds to the refusal of a call, whose account is short, how it gets money. Only the
// host knows whether it takes cards.
func shortHint(a *kit.App, err error, at string) error {
	host := kit.HostOf(at)
	return kit.WithHint(err, "ask the operator of %s for credit, or if it takes cards: %svacancy account pay DOLLARS --host %s%s", kit.Printable(host), keyed, kit.ShellWord(host), a.CAArg())
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
	sent := keyErr == nil && key != ""
	host := ""
	if f.where.Host == "" {
		host = " --host " + kit.ShellWord(kit.HostOf(at))
	}
	switch {
	case members["code"] == problem.PaymentRequired.String() && !sent:
		return kit.WithHint(refusedCall(problem.PaymentRequired, refused, at), "%s%s%s", keyed, a.Again(), host)
	case members["code"] == problem.PaymentRequired.String(): // the account of the key is short
		return shortHint(a, refusedCall(problem.PaymentRequired, refused, at), at)
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
