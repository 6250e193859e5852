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

// newPayerCheck returns a check of the target of a signed call. Signed calls do not carry the key
// in $VACANCY_KEY. The check therefore refuses a paid call unless the key's account is linked to
// self. The call would otherwise fail, use up free calls, or charge another account.
func newPayerCheck(a *kit.App, f callFlags, self kit.Signer, httpClient *dispatch.HTTP) func(context.Context, dispatch.Target) error {
	return func(ctx context.Context, t dispatch.Target) error {
		c, err := a.AccountClientFor(ctx, f.where, t.URL)
		if err != nil || c == nil {
			return err
		}
		payer, err := account.ShowAccount.Call(ctx, c, account.Ref{})
		isPayer := slices.ContainsFunc(payer.Links, func(l billing.Link) bool { return l.Caller == self.ID() })
		if isPayer || problem.Is(err, problem.NotFound) { // a host without accounts does not charge
			return nil
		}
		if price, isKnown, priceErr := fetchPrice(ctx, httpClient, t); priceErr != nil || isKnown && price == 0 {
			return priceErr
		}
		hint := keyAssignment + "vacancy call " + kit.ShellWord(strings.TrimSuffix(t.URL, "/a2a/message/send")) + " TEXT --stream    # the key pays for streams"
		switch {
		case problem.Is(err, problem.Unauthorized):
			hint = "env -u " + kit.AccountKeyEnv + " " + a.CommandLine()
		case err == nil && (payer.Key == nil || payer.Key.CanLink()):
			hint = linkCommand(t.URL)
		}
		if err != nil {
			err = problem.Wrap(problem.AsError(err).Kind, err, "could not check whether the key in $%s pays for signed calls of %s: %s; nothing was sent", kit.AccountKeyEnv, self.Name, problem.AsError(err).Text())
		} else {
			err = problem.New(problem.PaymentRequired, "the account of the key in $%s does not pay for signed calls of %s; nothing was sent", kit.AccountKeyEnv, self.Name)
		}
		return kit.WithHint(err, "%s", hint)
	}
}

// linkCommand returns the command by which an account begins to pay for the caller's signed calls.
func linkCommand(rawURL string) string {
	return keyAssignment + "vacancy account link --host " + kit.ShellWord(kit.VacantHostURL(rawURL))
}

// keyAssignment begins each suggested command that needs an account key, because the user may have
// set the variable only for this run.
const keyAssignment = kit.AccountKeyEnv + "=KEY "

// addPayHint adds a hint to a 402 error. Only the operator of the host gets an operator's command.
func addPayHint(a *kit.App, err error, f callFlags, t dispatch.Target, paymentOptions []string) error {
	lacksCredit, isOperator := slices.Contains(paymentOptions, "credit"), isOwnVacant(a, f.where, t)
	switch {
	case lacksCredit && isOperator:
		return kit.WithHint(err, "vacancy credit TENANT DOLLARS")
	case isOperator:
		return kit.WithHint(err, "vacancy account link TENANT")
	case lacksCredit:
		return addCreditHint(err, t.URL)
	}
	return kit.WithHint(err, "%s", linkCommand(t.URL))
}

// addCreditHint suggests two ways to add money, because only the host knows whether it accepts
// payments by card.
func addCreditHint(err error, address string) error {
	return kit.WithHint(err, "%svacancy account pay DOLLARS --host %s    # if the host accepts cards; otherwise ask its operator for credit", keyAssignment, kit.ShellWord(kit.VacantHostURL(address)))
}

// addKeyHint adds a hint to the error of an A2A call if the host requires payment, or if it does
// not accept the key in $VACANCY_KEY.
func addKeyHint(a *kit.App, ctx context.Context, err error, f callFlags, address string) error {
	var rpcErr *a2awire.RPCError
	if !errors.As(err, &rpcErr) {
		return err
	}
	reason, members := rpcErr.Info()
	key, keyErr := a.AccountKeyFor(ctx, f.where, address)
	hasKey, retryCommand := keyErr == nil && key != "", a.CommandLine()
	if f.where.Host == "" {
		retryCommand = a.CommandLineWithFlag("--host", kit.VacantHostURL(address))
	}
	switch {
	case members["code"] == problem.PaymentRequired.String() && !hasKey:
		return kit.WithHint(refusalError(problem.PaymentRequired, rpcErr, address), "%s%s", keyAssignment, retryCommand)
	case members["code"] == problem.PaymentRequired.String(): // the account of the key has too little money
		return addCreditHint(refusalError(problem.PaymentRequired, rpcErr, address), address)
	case reason == "UNAUTHORIZED" && hasKey:
		err = problem.New(problem.Unauthorized, "%s does not accept the key in $%s (401): %s", kit.EscapeLine(kit.VacantHostURL(address)), kit.AccountKeyEnv, kit.EscapeLine(kit.Truncate(rpcErr.Message, maxRefusalChars)))
		return kit.WithHint(err, "%s%s    # with a key of an account of this host; or without a key: env -u %s %s", keyAssignment, a.CommandLine(), kit.AccountKeyEnv, a.CommandLine())
	}
	return err
}

func refusalError(kind problem.Kind, rpcErr *a2awire.RPCError, address string) error {
	return problem.New(kind, "%s refused the call (%d): %s", kit.EscapeLine(address), kind.Forms().HTTPStatus, kit.EscapeLine(kit.Truncate(rpcErr.Message, maxRefusalChars)))
}

const maxRefusalChars = 600
