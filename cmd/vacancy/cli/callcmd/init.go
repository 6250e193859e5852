package callcmd

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/agent/datadir"
)

func initCommand(a *kit.App) *cobra.Command {
	var capability, importPath, seed string
	cmd := &cobra.Command{
		Use:   "init NAME",
		Short: "Create or import an identity",
		Long: `Create an identity: a new key that only you can read, and a logbook that begins with a signed
GENESIS entry. An existing identity is never overwritten. Your first identity becomes the
default, which signs calls without --as. "vacancy id use NAME" changes the default.

--import imports a key. PATH is one of
  a seed            a file of 64 hex digits or of 32 bytes, or - for standard input
  a reference home  the directory ~/.vacant/NAME of the Python reference: key, logbook
                    and envelope_state.json, so that the next call continues the chain
  an export         a file made by "vacancy export"`,
		Example: `  vacancy init alice
  vacancy init translator --capability "translate ZH to EN"
  vacancy init alice --import ~/.vacant/alice
  keyring get vacant.cli alice | vacancy init alice --import ~/.vacant/alice --seed -`,
		RunE: func(cmd *cobra.Command, args []string) error {
			h, err := a.IdentityDir()
			if err != nil {
				return err
			}
			if err := datadir.CheckNewName(args[0]); err != nil {
				return err
			}
			bundle, source, err := a.ImportOrCreateBundle(importPath, seed)
			if err != nil {
				return err
			}
			if capability != "" {
				if err := bundle.SignCard(cmd.Context(), capability); err != nil {
					return err
				}
			}
			existing, err := h.Names()
			if err != nil {
				return err
			}
			id, err := h.Create(cmd.Context(), args[0], bundle)
			if err != nil {
				return err
			}
			if len(existing) == 0 {
				if err := h.SetDefault(id.Name, false); err != nil {
					return err
				}
			}
			result := initResult{idResult: newIDResult(id), Source: source, Capability: capability, Chains: len(bundle.Chains)}
			return a.PrintResult(result)
		},
	}
	cmd.Flags().StringVar(&capability, "capability", "", "also create a card, which describes what the vacant can do")
	cmd.Flags().StringVar(&importPath, "import", "", "import a seed, a home directory of the Python reference or an export, instead of creating a key")
	cmd.Flags().StringVar(&seed, "seed", "", "the seed, as a file or - for standard input; needed if --import names a home whose key is in the OS keyring")
	return cmd
}

type initResult struct {
	idResult
	Source     datadir.Source `json:"source"`
	Capability string         `json:"capability,omitempty"`
	Chains     int            `json:"chains"`
}

func (r initResult) Print(w io.Writer) {
	r.idResult.Print(w)
	switch r.Source {
	case datadir.FromSeed:
		fmt.Fprintln(w, "  from  a seed; the logbook starts again")
	case datadir.FromReference, datadir.FromExport:
		fmt.Fprintf(w, "  from  %s; targets of chains: %d\n", r.Source, r.Chains)
	}
}
