package vacantcmd

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/admin"
)

func namesCommand(a *kit.App) *cobra.Command {
	return a.ParentCommand(&cobra.Command{
		Use:   "names",
		Short: "Manage the reserved names of vacants",
		Long: `Manage the reserved names of vacants. A name belongs to the tenant whose vacant had it first. After
that vacant was renamed or deleted, only that tenant and the operator may use the name again, in
upper or lower case. Therefore callers that know a vacant by its name never reach a vacant of
another tenant. The slug of a venue stays with its tenant in the same way. A reserved name counts
as one of its tenant's vacants.`,
		Example: `  vacancy names list --tenant acme
  vacancy names release shop`,
	},
		kit.Operation[admin.NamesRequest, admin.Names]{
			Use:     "list",
			Short:   "List reserved names",
			Example: "  vacancy names list\n  vacancy names list --tenant acme",
			Op:      admin.ListNames,
			API:     kit.NewTenantAPI("the tenant whose names are listed (default: the operator's own)"),
			Request: func(q kit.Request) (admin.NamesRequest, error) {
				return admin.NamesRequest{TenantRef: q.TenantRef()}, nil
			},
			AppendPage: func(in *admin.NamesRequest, list *admin.Names, page admin.Names) bool {
				list.Names, list.Count, in.Cursor = append(list.Names, page.Names...), page.Count, page.Next
				return page.Next != ""
			},
			JSONObject: func(list admin.Names) any { return namesResult{list.Names, list.Count} },
			Print: func(w io.Writer, r admin.Names) {
				for _, n := range r.Names {
					reason := "given up by a rename"
					if n.Deleted != nil {
						reason = "of deleted vacant " + n.Deleted.Short()
					}
					fmt.Fprintf(w, "%-24s  %s\n", n.Name, reason)
				}
				fmt.Fprintf(w, "%s; %d together with the names of vacants\n", kit.Plural(len(r.Names), "reserved name"), r.Count)
			},
		}.Command(a),
		kit.Operation[admin.NameRef, admin.Name]{
			Use:   "release NAME",
			Short: "Let every tenant use a reserved name",
			Long: `Let every tenant use a reserved name. Callers that still know the name will reach the next vacant
with that name. To give the name to one tenant, do not release it: create a vacant with that name
for the tenant.`,
			Example: "  vacancy names release shop",
			Op:      admin.ReleaseName,
			Request: func(q kit.Request) (admin.NameRef, error) { return admin.NameRef{Name: q.Args[0]}, nil },
			Print: func(w io.Writer, r admin.Name) {
				fmt.Fprintf(w, "the name %s%s is released; every tenant may use it\n", r.Name, tenantSuffix(r.Tenant))
			},
		}.Command(a),
	)
}

type namesResult struct {
	Names []admin.Name `json:"names"`
	Count int          `json:"count"`
}
