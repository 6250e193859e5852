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
	var where kit.HostFlags
	var file string
	cmd := &cobra.Command{
		Use:   "manifest CHILD",
		Short: "Show or store the manifest of a child",
		Long: `Show the manifest of a hosted child, or of one of your identities if a host stores its manifest. The
output contains what each field allows, and both signatures, which this machine verifies.

--take FILE stores a manifest that both parties have already signed.`,
		Example: `  vacancy manifest reviewer
  vacancy manifest reviewer --json > reviewer.manifest.json
  vacancy manifest reviewer --take reviewer.manifest.json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			var newManifest *composite.Manifest
			if file != "" {
				m, err := readManifest(file)
				if err != nil {
					return err
				}
				newManifest = &m
			}
			return a.WithAdmin(where, false, func(c *kit.AdminAPI) (err error) {
				var stored admin.Manifest
				if newManifest != nil {
					stored, err = admin.StoreManifest.Call(cmd.Context(), c, admin.NewVacantRequest(args[0], op.Raw[composite.ManifestDocument](newManifest.Blob())))
				} else {
					stored, err = findManifest(a, cmd.Context(), c, args[0])
				}
				if err != nil {
					return err
				}
				m, err := stored.Open()
				if err != nil {
					return err
				}
				return a.PrintResult(manifestResult{stored, m, args[0]})
			})
		},
	}
	cmd.Flags().StringVar(&file, "take", "", "a `FILE` with a manifest that both parties have signed")
	kit.AddHostFlags(cmd.Flags(), &where)
	return cmd
}

// findManifest returns the manifest of a hosted child or of a local identity.
func findManifest(a *kit.App, ctx context.Context, c *kit.AdminAPI, name string) (admin.Manifest, error) {
	stored, err := admin.GetManifest.Call(ctx, c, admin.VacantRef{Vacant: name})
	if !problem.Is(err, problem.NotFound) {
		return stored, err
	}
	if _, showErr := c.ShowVacant(ctx, name); !problem.Is(showErr, problem.NotFound) {
		return stored, err
	}
	dir, homeErr := a.IdentityDir()
	if homeErr != nil {
		return stored, err
	}
	local, openErr := dir.Open(name)
	if openErr != nil {
		return stored, err
	}
	return admin.GetManifest.Call(ctx, c, admin.VacantRef{Vacant: local.ID().String()})
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
	var output struct { // output of "vacancy manifest --json"
		Manifest json.RawMessage `json:"manifest"`
	}
	if json.Unmarshal(b, &output) == nil && output.Manifest != nil {
		b = output.Manifest
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
	opened composite.Manifest
	name   string
}

func (r manifestResult) Print(w io.Writer) {
	m := &r.opened
	fmt.Fprintf(w, "%s is a child of %s, by %s\n", kit.EscapeLine(r.name), m.ParentID.Short(), m.BirthPath)
	printField := func(field, value, meaning string) {
		fmt.Fprintf(w, "  %-22s %s", field, value)
		if meaning != "" {
			fmt.Fprintf(w, "\n  %-22s   %s", "", meaning)
		}
		fmt.Fprintln(w)
	}
	printField("child", m.ChildID.String(), "signed it, verified: "+hex.EncodeToString(m.SignatureChild))
	printField("parent", m.ParentID.String(), "signed it, verified: "+hex.EncodeToString(m.SignatureParent))
	closedMeaning := "the tree limits neither its calls nor its listing"
	if m.ClosedByDefault {
		closedMeaning = "it may call, and be called by, only its parent and the parent's other children; it is not listed"
	}
	reachMeaning := "its parent and the parent's other children may call it"
	if m.Reachability == composite.PublicA2A && !m.ClosedByDefault {
		reachMeaning = "anybody may call it"
	}
	outboundMeaning := "it calls anybody"
	switch {
	case m.OutboundPolicy == composite.NoExternal:
		outboundMeaning = "it calls its parent and the parent's other children"
	case m.OutboundPolicy == composite.ParentPermitted && m.ClosedByDefault:
		outboundMeaning = "it calls its parent and the parent's other children, and the endpoints that its tools name"
	case m.OutboundPolicy == composite.ParentPermitted:
		outboundMeaning = "it calls its parent, the parent's other children, and what its tools name"
	case m.ClosedByDefault:
		outboundMeaning = "it calls its parent, the parent's other children and any endpoint that answers for it"
	}
	signedFields := "every field above"
	if m.SchemaVersion == composite.SchemaV1 {
		reachMeaning, outboundMeaning = "not signed, and not enforced", "not signed, and not enforced"
		signedFields = "every field but endpoint_reachability and outbound_policy, which have their defaults"
	}
	printField("closed_by_default", fmt.Sprint(m.ClosedByDefault), closedMeaning)
	printField("endpoint_reachability", string(m.Reachability), reachMeaning)
	printField("outbound_policy", string(m.OutboundPolicy), outboundMeaning)
	printField("tools", joinOrNone(m.Tools()), fmt.Sprintf("inherited: %s; added: %s; removed: %s", joinOrNone(m.InheritedTools), joinOrNone(m.AddedTools), joinOrNone(m.RemovedTools)))
	printField("schema_version", string(m.SchemaVersion), "signs "+signedFields)
	if r.Graduated {
		printField("graduated", "yes", "the gate has opened it; the previous manifest is stored")
	}
}

func joinOrNone(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return kit.EscapeLine(strings.Join(list, ", "))
}
