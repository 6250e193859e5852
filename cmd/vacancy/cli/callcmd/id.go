package callcmd

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/agent/datadir"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func idCommand(a *kit.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "id NAME | id list | id use NAME",
		Short: "Show your identities, or choose the default",
		Long: `Show an identity: its id, did:key and key file. "id list" lists all identities. "id use NAME"
makes an identity the default. The default identity signs calls without --as.`,
		Example: `  vacancy id alice
  vacancy id list
  vacancy id use alice`,
		Args: kit.ArgumentCheck(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			h, err := a.IdentityDir()
			if err != nil {
				return err
			}
			id, err := a.OpenIdentity(h, args[0])
			if err != nil {
				return err
			}
			return a.PrintResult(newIDResult(id))
		},
	}
	cmd.AddCommand(&cobra.Command{
		Use: "list", Short: "List your identities", Example: "  vacancy id list",
		RunE: func(*cobra.Command, []string) error { return listIdentities(a) },
	}, &cobra.Command{
		Use: "use NAME", Short: "Make an identity the default", Example: "  vacancy id use alice",
		RunE: func(_ *cobra.Command, args []string) error {
			h, err := a.IdentityDir()
			if err != nil {
				return err
			}
			id, err := a.OpenIdentity(h, args[0])
			if err != nil {
				return err
			}
			if err := h.SetDefault(id.Name, true); err != nil {
				return err
			}
			return listIdentities(a)
		},
	})
	return cmd
}

func listIdentities(a *kit.App) error {
	h, err := a.IdentityDir()
	if err != nil {
		return err
	}
	names, err := h.Names()
	if err != nil {
		return err
	}
	defaultName, _, err := h.Default()
	if err != nil {
		return err
	}
	if defaultName == "" && len(names) == 1 {
		defaultName = names[0]
	}
	result := idsResult{Identities: []idResult{}, Default: defaultName}
	for _, name := range names {
		id, err := h.Open(name)
		if err != nil {
			a.PrintNote("%s: %s", name, kit.EscapeLine(problem.AsError(err).Text()))
			continue
		}
		result.Identities = append(result.Identities, newIDResult(id))
	}
	return a.PrintResult(result)
}

type idsResult struct {
	Identities []idResult `json:"identities"`
	Default    string     `json:"default,omitempty"`
}

func (r idsResult) Print(w io.Writer) {
	kit.PrintTable(w, "no identities", r.Identities, func(id idResult) []any {
		return []any{id.Name, id.ID, kit.FormatIf(id.Name == r.Default, "default")}
	})
}

type idResult struct {
	Name    string      `json:"name"`
	ID      identity.ID `json:"vacant_id"`
	DID     string      `json:"did"`
	KeyFile string      `json:"key_file"`
}

func newIDResult(id *datadir.Identity) idResult {
	return idResult{Name: id.Name, ID: id.ID(), DID: id.ID().DIDKey(), KeyFile: id.KeyFile()}
}

func (r idResult) Print(w io.Writer) {
	fmt.Fprintf(w, "%s\n  id    %s\n  did   %s\n  key   %s\n", r.Name, r.ID, r.DID, r.KeyFile)
}
