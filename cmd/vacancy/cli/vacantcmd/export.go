package vacantcmd

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/agent/datadir"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func exportCommand(a *kit.App) *cobra.Command {
	var path string
	var yes bool
	var where kit.HostFlags
	cmd := &cobra.Command{
		Use:   "export NAME",
		Short: "Export an identity or a hosted vacant, with its key, to one file",
		Long: `Write the key, the card, the logbook and the state of all chains to a new file that only you can
read. The file contains the key unencrypted: whoever reads the file can sign as the vacant.
Therefore the command asks twice.

NAME is one of your identities. With --host or --data, NAME is a vacant of that host. --host local
is the host on this machine. $VACANCY_HOST is not used. The vacant stays on its host, and its
logbook records that its key left the host. Pause or sink the vacant before you use the key
elsewhere: two hosts that sign with one key fork its chains.

"vacancy verify FILE" checks an export. "vacancy init NAME --import FILE" and "vacancy create NAME
--import FILE" import it.`,
		Example: `  vacancy export alice
  vacancy export alice --out /media/stick/alice.json
  vacancy export alice --out backup.json --yes
  vacancy export demo --host local
  vacancy export demo --host aws --stage prod`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if where != (kit.HostFlags{}) {
				return a.WithAdmin(where, false, func(c *kit.AdminAPI) error {
					v, err := c.ShowVacant(cmd.Context(), args[0])
					if err != nil {
						return err
					}
					if v.DeletedAt != "" {
						return problem.New(problem.Gone, "%s was deleted; there is nothing to export", v.Name)
					}
					// Check the file before the export, because the logbook records every export.
					if path, err = confirmExport(a, cmd.Context(), v.Name, path, yes); err != nil {
						return err
					}
					if err := datadir.CheckNewFile(path); err != nil {
						return err
					}
					exported, err := c.Export(cmd.Context(), v.ID.String())
					if err != nil {
						return err
					}
					defer clear(exported)
					export, err := datadir.ParseExport(exported)
					if err != nil {
						return err
					}
					if export.ID != v.ID.String() || !datadir.AllOK(export.Check()) {
						return problem.New(problem.Untrusted, "the host's export of %s does not verify; nothing was written", v.Name)
					}
					if err := datadir.WriteNew(path, exported); err != nil {
						return err
					}
					a.PrintNote("Its key is in two places now: pause or sink %s before it is used elsewhere.", v.Name)
					return a.PrintResult(exportResult{Name: v.Name, File: path, Bytes: len(exported), Entries: len(export.Logbook), Chains: len(export.Chains)})
				})
			}
			home, err := a.IdentityDir()
			if err != nil {
				return err
			}
			self, err := a.OpenIdentity(home, args[0])
			if problem.Is(err, problem.NotFound) {
				return kit.WithHint(err, "vacancy export %s --host %s, if that host has it", args[0], cmp.Or(a.Env["VACANCY_HOST"], kit.HostLocal))
			}
			if err != nil {
				return err
			}
			if path, err = confirmExport(a, cmd.Context(), self.Name, path, yes); err != nil {
				return err
			}
			bundle, err := self.Bundle(cmd.Context())
			if err != nil {
				return err
			}
			exported := bundle.AppendExport(nil, self.Name, a.Now())
			defer clear(exported)
			if err := datadir.WriteNew(path, exported); err != nil {
				return err
			}
			return a.PrintResult(exportResult{Name: self.Name, File: path, Bytes: len(exported), Entries: len(bundle.Logbook), Chains: len(bundle.Chains)})
		},
	}
	cmd.Flags().StringVar(&path, "out", "", "the file to write (default NAME.vacancy.json here)")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask for confirmation")
	kit.AddHostFlags(cmd.Flags(), &where)
	return cmd
}

func confirmExport(a *kit.App, ctx context.Context, name, path string, yes bool) (string, error) {
	if path == "" {
		path = name + ".vacancy.json"
	}
	path, err := filepath.Abs(path)
	if err != nil || yes {
		return path, err
	}
	if err := a.AskToConfirm(ctx, fmt.Sprintf("The file will hold the secret key of %[1]q. Type the name, %[1]s, to go on:", name), name); err != nil {
		return path, err
	}
	return path, a.AskToConfirm(ctx, fmt.Sprintf("Whoever reads %s can sign as %s. Type yes to write it:", path, name), "yes")
}

type exportResult struct {
	Name    string `json:"name"`
	File    string `json:"file"`
	Bytes   int    `json:"bytes"`
	Entries int    `json:"logbook_entries"`
	Chains  int    `json:"chains"`
}

func (r exportResult) Print(w io.Writer) {
	fmt.Fprintf(w, "%s is exported to %s\n  key, card if any, logbook entries: %d, targets of chains: %d\n", r.Name, r.File, r.Entries, r.Chains)
}
