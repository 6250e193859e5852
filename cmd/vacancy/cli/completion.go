package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/admin"
)

// names completes the names that only this machine knows.
type names struct{ *kit.App }

// complete adds the completion of names that only this machine knows: vacants of
// the host, identities and stages.
func complete(a *kit.App, root *cobra.Command) {
	n := names{a}
	for _, c := range root.Commands() {
		complete(a, c)
		if c.Flags().Lookup("as") != nil {
			// It fails only for flags that do not exist.
			_ = c.RegisterFlagCompletionFunc("as", func(c *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
				return n.identityNames(c, nil, word)
			})
		}
		if c.Flags().Lookup("stage") != nil {
			_ = c.RegisterFlagCompletionFunc("stage", n.stageNames)
		}
		first, _, _ := strings.Cut(strings.TrimPrefix(c.Use, c.Name()), "...")
		first = strings.Trim(strings.TrimSpace(first), "[]")
		word, _, _ := strings.Cut(first, " ")
		switch strings.Trim(word, "[]") {
		case "VACANT", "TARGET", "PARENT", "CHILD":
			c.ValidArgsFunction = n.vacantNames
		case "NAME":
			if c.Name() == "use" || c.Name() == "id" {
				c.ValidArgsFunction = n.identityNames
			} else if c.Name() != "create" && c.Name() != "init" {
				c.ValidArgsFunction = n.vacantNames
			}
		case "FROM":
			c.ValidArgsFunction = n.chainEnds
		}
	}
}

func (n names) vacantNames(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return n.hostedNames(cmd), cobra.ShellCompDirectiveDefault // a card file is a target, too
}

// hostedNames are the names of the vacants of the host that cmd's flags choose.
func (n names) hostedNames(cmd *cobra.Command) (hosted []string) {
	var w kit.Where
	for flag, to := range map[string]*string{"host": &w.Host, "stage": &w.Stage, "data": &w.Data} {
		if f := cmd.Flags().Lookup(flag); f != nil {
			*to = f.Value.String()
		}
	}
	if n.ReadCA(cmd) != nil {
		return nil
	}
	plane := n.AdminAt(w)
	if plane == nil {
		return nil
	}
	ctx := cmd.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	page, err := admin.ListVacants.Call(ctx, plane, admin.VacantList{Cursor: "", All: false})
	if err != nil {
		return nil
	}
	for i := range page.Vacants {
		hosted = append(hosted, page.Vacants[i].Name)
	}
	return hosted
}

func (n names) identityNames(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	h, err := n.DataHome()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	known, _ := h.Names()
	return known, cobra.ShellCompDirectiveNoFileComp
}

func (n names) stageNames(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	records, err := n.Stages()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	known, _ := records.Names()
	return known, cobra.ShellCompDirectiveNoFileComp
}

// chainEnds completes a caller, then a vacant.
func (n names) chainEnds(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 1 {
		return n.hostedNames(cmd), cobra.ShellCompDirectiveNoFileComp
	}
	return n.identityNames(cmd, args, word)
}
