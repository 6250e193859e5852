package cli

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/home"
)

func (a *app) exportCommand() *cobra.Command {
	var out string
	var sure bool
	cmd := &cobra.Command{
		Use:   "export NAME",
		Short: "Write an identity, its key included, to one file",
		Long: `Write key, card, logbook and the state of all chains to one file that must not
exist yet, readable by you only. The key is in it in the clear: whoever reads
the file is the vacant. Therefore it asks twice.

"vacancy verify FILE" checks an export, "vacancy init NAME --import FILE" and
"vacancy create NAME --import FILE" take it.`,
		Example: `  vacancy export alice
  vacancy export alice --out /media/stick/alice.json
  vacancy export alice --out backup.json --yes-i-know`,
		GroupID: groupSelf,
		Args:    arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			h, err := a.home()
			if err != nil {
				return err
			}
			id, err := a.openIdentity(h, args[0])
			if err != nil {
				return err
			}
			if out == "" {
				out = id.Name + ".vacancy.json"
			}
			if out, err = filepath.Abs(out); err != nil {
				return err
			}
			if !sure {
				if err := a.askForKey(cmd.Context(), id.Name, out); err != nil {
					return err
				}
			}
			return a.export(cmd.Context(), id, out)
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "the file to write (default NAME.vacancy.json here)")
	cmd.Flags().BoolVar(&sure, "yes-i-know", false, "do not ask; for scripts")
	return cmd
}

func (a *app) askForKey(ctx context.Context, name, out string) error {
	if err := a.ask(ctx, fmt.Sprintf("The file will hold the secret key of %[1]q. Type the name, %[1]s, to go on:", name), name); err != nil {
		return err
	}
	return a.ask(ctx, fmt.Sprintf("Whoever reads %s can sign as %s. Type yes to write it:", out, name), "yes")
}

func (a *app) export(ctx context.Context, id *home.Identity, out string) error {
	bundle, err := id.Bundle(ctx)
	if err != nil {
		return err
	}
	b := bundle.AppendExport(nil, id.Name, a.now())
	defer clear(b)
	if err := home.WriteNew(out, b); err != nil {
		return err
	}
	return a.show(exportResult{Name: id.Name, File: out, Bytes: len(b), Entries: len(bundle.Logbook), Chains: len(bundle.Chains)})
}

// exportResult is a written export.
type exportResult struct {
	Name    string `json:"name"`
	File    string `json:"file"`
	Bytes   int    `json:"bytes"`
	Entries int    `json:"logbook_entries"`
	Chains  int    `json:"chains"`
}

func (r exportResult) text(w io.Writer) {
	fmt.Fprintf(w, "%s is exported to %s\n  key, card if any, logbook entries: %d, targets of chains: %d\n", r.Name, r.File, r.Entries, r.Chains)
}
