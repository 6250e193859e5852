package childcmd

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
)

func manifestCommand(a *kit.App) *cobra.Command {
	var w kit.Where
	var file string
	cmd := &cobra.Command{
		Use:   "manifest CHILD",
		Short: "Show or store the manifest of a child",
		Long: `Show the manifest of a child that is hosted, or of one of your identities whose manifest
a host stores: both signatures, verified on this machine, and what each field allows.

--take FILE stores a manifest that both parties have signed elsewhere.`,
		Example: `  vacancy manifest reviewer
  vacancy manifest reviewer --json > reviewer.manifest.json
  vacancy manifest reviewer --take reviewer.manifest.json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			var given *composite.Manifest
			if file != "" {
				m, err := readManifest(file)
				if err != nil {
					return err
				}
				given = &m
			}
			return a.WithAdmin(w, false, func(c *kit.AdminAPI) (err error) {
				var kept admin.Manifest
				if given != nil {
					kept, err = admin.StoreManifest.Call(cmd.Context(), c, admin.ForVacant(args[0], op.Raw[composite.ManifestDocument](given.Blob())))
				} else {
					kept, err = manifestNamed(a, cmd.Context(), c, args[0])
				}
				if err != nil {
					return err
				}
				m, err := kept.Open()
				if err != nil {
					return err
				}
				return a.Show(manifestResult{kept, m, args[0]})
			})
		},
	}
	cmd.Flags().StringVar(&file, "take", "", "a `FILE` with a manifest that both have signed")
	kit.HostFlags(cmd.Flags(), &w)
	return cmd
}

// manifestNamed returns the manifest of a child that the host stores. name is the name or id of a
// hosted vacant, or the name of a local identity.
func manifestNamed(a *kit.App, ctx context.Context, c *kit.AdminAPI, name string) (admin.Manifest, error) {
	kept, err := admin.GetManifest.Call(ctx, c, admin.VacantRequest{Vacant: name})
	if !problem.Is(err, problem.NotFound) {
		return kept, err
	}
	if _, showErr := c.Show(ctx, name); !problem.Is(showErr, problem.NotFound) {
		return kept, err
	}
	h, homeErr := a.DataHome()
	if homeErr != nil {
		return kept, err
	}
	own, openErr := h.Open(name)
	if openErr != nil {
		return kept, err
	}
	return admin.GetManifest.Call(ctx, c, admin.VacantRequest{Vacant: own.ID().String()})
}

func readManifest(path string) (composite.Manifest, error) {
	f, err := os.Open(path)
	if err != nil {
		return composite.Manifest{}, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 4*composite.MaxBlob))
	if err != nil {
		return composite.Manifest{}, err
	}
	var page struct { // output of "vacancy manifest --json"
		Manifest json.RawMessage `json:"manifest"`
	}
	if json.Unmarshal(b, &page) == nil && page.Manifest != nil {
		b = page.Manifest
	}
	m, err := composite.ParseManifest(b)
	if err != nil {
		return m, problem.New(problem.Usage, "%s is not a manifest: %s", path, problem.AsError(err).Text())
	}
	return m, nil
}

// manifestResult is a manifest with verified signatures.
type manifestResult struct {
	admin.Manifest
	manifest composite.Manifest
	name     string
}

func (r manifestResult) Print(w io.Writer) {
	m := &r.manifest
	fmt.Fprintf(w, "%s is a child of %s, by %s\n", kit.Printable(r.name), m.ParentID.Short(), m.BirthPath)
	line := func(field, value, meaning string) {
		fmt.Fprintf(w, "  %-22s %s", field, value)
		if meaning != "" {
			fmt.Fprintf(w, "\n  %-22s   %s", "", meaning)
		}
		fmt.Fprintln(w)
	}
	line("child", m.ChildID.String(), "signed it, verified: "+hex.EncodeToString(m.SignatureChild))
	line("parent", m.ParentID.String(), "signed it, verified: "+hex.EncodeToString(m.SignatureParent))
	closed := "the tree limits neither its calls nor its listing"
	if m.ClosedByDefault {
		closed = "it may call, and be called by, only its parent and the parent's other children; it is not listed"
	}
	reach := "its parent and the parent's other children may call it"
	if m.Reachability == composite.PublicA2A && !m.ClosedByDefault {
		reach = "anybody may call it"
	}
	outbound := "it calls anybody"
	switch {
	case m.Outbound == composite.NoExternal:
		outbound = "it calls its parent and the parent's other children"
	case m.Outbound == composite.ParentPermitted && m.ClosedByDefault:
		outbound = "it calls its parent and the parent's other children, and the endpoints that its tools name"
	case m.Outbound == composite.ParentPermitted:
		outbound = "it calls its parent, the parent's other children, and what its tools name"
	case m.ClosedByDefault:
		outbound = "it calls its parent, the parent's other children and any endpoint that answers for it"
	}
	signs := "every field above"
	if m.Schema == composite.V1 {
		reach, outbound = "not signed, and not enforced", "not signed, and not enforced"
		signs = "every field but endpoint_reachability and outbound_policy, which have their defaults"
	}
	line("closed_by_default", fmt.Sprint(m.ClosedByDefault), closed)
	line("endpoint_reachability", string(m.Reachability), reach)
	line("outbound_policy", string(m.Outbound), outbound)
	line("tools", orNone(m.Tools()), fmt.Sprintf("inherited: %s; added: %s; removed: %s", orNone(m.Inherited), orNone(m.Added), orNone(m.Removed)))
	line("schema_version", string(m.Schema), "signs "+signs)
	if r.Graduated {
		line("graduated", "yes", "the gate has opened it; the previous manifest is stored")
	}
}

func orNone(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return kit.Printable(strings.Join(list, ", "))
}
