package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/shared/front/admin"
)

// complete adds the completion of names that only this machine knows: vacants of
// the host, identities and stages.
func (a *app) complete(root *cobra.Command) {
	for _, c := range root.Commands() {
		a.complete(c)
		if c.Flags().Lookup("as") != nil {
			// The error is that of a flag that is not there.
			_ = c.RegisterFlagCompletionFunc("as", func(c *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
				return a.identityNames(c, nil, word)
			})
		}
		if c.Flags().Lookup("stage") != nil {
			_ = c.RegisterFlagCompletionFunc("stage", a.stageNames)
		}
		first, _, _ := strings.Cut(strings.TrimPrefix(c.Use, c.Name()), "...")
		first = strings.Trim(strings.TrimSpace(first), "[]")
		word, _, _ := strings.Cut(first, " ")
		switch strings.Trim(word, "[]") {
		case "VACANT", "TARGET", "PARENT", "CHILD":
			c.ValidArgsFunction = a.vacantNames
		case "NAME":
			if c.Name() == "use" || c.Name() == "id" {
				c.ValidArgsFunction = a.identityNames
			} else if c.Name() != "create" && c.Name() != "init" {
				c.ValidArgsFunction = a.vacantNames
			}
		case "FROM":
			c.ValidArgsFunction = a.chainEnds
		}
	}
}

func (a *app) vacantNames(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return a.hostedNames(cmd), cobra.ShellCompDirectiveDefault // a card file is a target, too
}

// hostedNames are the names of the vacants of the host that cmd's flags choose.
func (a *app) hostedNames(cmd *cobra.Command) (names []string) {
	var w where
	for flag, to := range map[string]*string{"host": &w.host, "stage": &w.stage, "data": &w.data} {
		if f := cmd.Flags().Lookup(flag); f != nil {
			*to = f.Value.String()
		}
	}
	plane := a.planeAt(w)
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
		names = append(names, page.Vacants[i].Name)
	}
	return names
}

func (a *app) identityNames(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	h, err := a.dataHome()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names, _ := h.Names()
	return names, cobra.ShellCompDirectiveNoFileComp
}

func (a *app) stageNames(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	records, err := a.stages()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names, _ := records.Names()
	return names, cobra.ShellCompDirectiveNoFileComp
}

// chainEnds completes a caller, then a vacant.
func (a *app) chainEnds(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 1 {
		return a.hostedNames(cmd), cobra.ShellCompDirectiveNoFileComp
	}
	return a.identityNames(cmd, args, word)
}
