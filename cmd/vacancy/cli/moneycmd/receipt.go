package moneycmd

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/agent/datadir"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/receipt"
)

func receiptCommand(a *kit.App) *cobra.Command {
	var where kit.HostFlags
	var identityName, checkFile, hostID string
	var position uint64
	cmd := &cobra.Command{
		Use:   "receipt TARGET | receipt --check FILE",
		Short: "Fetch the signed receipt of a paid call, or check one offline",
		Long: `Fetch and verify the receipt of your last answered call to TARGET that had a price, or of the call at
--position. The header Vacancy-Receipt of an answer ends with the position. In the receipt the host
signs the ids of caller and vacant, the hashes of request and answer, the price, the tokens and the
charge.

--check verifies a receipt in a file (- is standard input). It contacts no host, because the receipt
contains the host's certificate for the key that signed it. --by names the host that must have signed
the receipt. --json prints the receipt as the host signed it.`,
		Example: `  vacancy receipt clerk --as alice
  vacancy receipt clerk --as alice --json > receipt.json
  vacancy receipt --check receipt.json`,
		Args: kit.ArgumentCheck(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case checkFile == "" && len(args) == 0:
				return problem.New(problem.Usage, "expected TARGET, or --check FILE")
			case checkFile != "" && len(args) > 0:
				return problem.New(problem.Usage, "--check: not supported together with TARGET")
			case checkFile == "" && hostID != "":
				return problem.New(problem.Usage, "--by: not supported without --check")
			}
			var r receipt.Receipt
			var names kit.Names
			if checkFile != "" {
				b, err := datadir.ReadInput(checkFile, a.In)
				if err != nil {
					return err
				}
				if r, err = receipt.Parse(b); err != nil {
					return err
				}
				if hostID != "" {
					id, err := identity.ParseID(hostID)
					if err != nil {
						return problem.WithPlace(problem.Usage, "--by", err)
					}
					if id != r.Host {
						return problem.New(problem.Untrusted, "the receipt was signed by host %s, not by %s", r.Host, id)
					}
				}
				names = a.IdentityNames()
			} else {
				ctx, ref, transport := cmd.Context(), args[0], a.HTTPTransport(kit.CallTimeout)
				target, err := a.FindTarget(ctx, transport, ref, where)
				if err != nil {
					return err
				}
				self, err := a.ChooseExistingSigner(ctx, identityName)
				if err != nil {
					return err
				}
				r, err = a.FetchReceipt(ctx, transport, self, target, position)
				switch {
				case problem.Is(err, problem.NotFound) && position > 0:
					return kit.WithHint(problem.New(problem.NotFound, "call %d of %s by %s has no receipt: it was free, was not answered, or was never made", position, kit.EscapeLine(ref), self.Name), "vacancy receipt %s, for the last call with one", kit.ShellWord(ref))
				case problem.Is(err, problem.NotFound):
					return kit.WithHint(problem.New(problem.NotFound, "no answered call of %s by %s had a price, so there is no receipt", kit.EscapeLine(ref), self.Name), "--as NAME, if another identity called; vacancy id list")
				case err != nil:
					return err
				}
				names = a.IdentityNames()
				names[target.ID] = target.Name
			}
			if err := r.Verify(); err != nil {
				return problem.WithPlace(problem.Untrusted, fmt.Sprintf("the receipt of host %s does not verify", r.Host.Short()), err)
			}
			return a.PrintResult(receiptResult{r, names})
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&identityName, "as", "", "the identity that called (default $VACANCY_AS, else the only one)")
	fs.Uint64Var(&position, "position", 0, "the call's position (default the last answered call)")
	fs.StringVar(&checkFile, "check", "", "verify the receipt in a `FILE`, - for standard input")
	fs.StringVar(&hostID, "by", "", "with --check: the `ID` of the host that must have signed it")
	kit.AddHostFlags(fs, &where)
	return cmd
}

type receiptResult struct {
	receipt.Receipt
	names kit.Names
}

func (r receiptResult) Print(w io.Writer) {
	rcpt := r.Receipt
	fmt.Fprintf(w, "%s paid for call %d of %s by %s on %s\n", money.Amount(rcpt.Charge), rcpt.Position, r.names.NameOrID(rcpt.Vacant), r.names.NameOrID(rcpt.Caller), kit.FormatTime(rcpt.AnsweredAt()))
	kit.PrintFields(w, "price", fmt.Sprintf("%s (version %d)", rcpt.Price, rcpt.PriceVersion), "payment", rcpt.Payment,
		"tokens", kit.FormatIf(rcpt.TokensIn+rcpt.TokensOut > 0, "%d in, %d out", rcpt.TokensIn, rcpt.TokensOut), "answer cut", rcpt.CutReason, "vacant", rcpt.Vacant, "caller", rcpt.Caller,
		"request", rcpt.RequestHash, "answer", rcpt.ReplyHash, "signed by", fmt.Sprintf("host %s: verified", rcpt.Host))
}
