package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/datadir"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func (a *app) idCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "id NAME",
		Short:   "Show an identity's id, did:key and key file",
		Example: `  vacancy id alice`,
		GroupID: groupSelf,
		Args:    arguments(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			h, err := a.dataHome()
			if err != nil {
				return err
			}
			id, err := a.openIdentity(h, args[0])
			if err != nil {
				return err
			}
			return a.show(describe(id))
		},
	}
}

// idResult is an identity without its secret.
type idResult struct {
	Name    string      `json:"name"`
	ID      identity.ID `json:"vacant_id"`
	DID     string      `json:"did"`
	KeyFile string      `json:"key_file"`
}

func describe(id *datadir.Identity) idResult {
	return idResult{Name: id.Name, ID: id.ID(), DID: id.ID().DIDKey(), KeyFile: id.KeyFile()}
}

func (r idResult) text(w io.Writer) {
	fmt.Fprintf(w, "%s\n  id    %s\n  did   %s\n  key   %s\n", r.Name, r.ID, r.DID, r.KeyFile)
}
