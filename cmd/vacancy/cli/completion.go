package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/echo"
	"github.com/vacancy-host/vacancy/shared/host/substrate/plan"
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
		for flag, known := range flagValues {
			if c.Flags().Lookup(flag) != nil {
				_ = c.RegisterFlagCompletionFunc(flag, known)
			}
		}
		first, _, _ := strings.Cut(strings.TrimPrefix(c.Use, c.Name()), "...")
		first = strings.Trim(strings.TrimSpace(first), "[]")
		word, _, _ := strings.Cut(first, " ")
		word, _, _ = strings.Cut(word, "|")
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

// flagValues are the completions of flags of several commands whose values are in a table.
var flagValues = map[string]cobra.CompletionFunc{"substrate": substrateKinds, "scope": listed(billing.Scopes())}

// substrateKinds completes a kind; most kinds go on with a model or a URL.
func substrateKinds(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	kinds := standalone.SubstrateKinds()
	for i, kind := range kinds {
		if kind != echo.Kind && kind != plan.Kind && kind != substrate.KindMock {
			kinds[i] += ":"
		}
	}
	return kinds, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// listed completes the last value of a list with commas.
func listed[T ~string](known []T) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, word string) (values []string, _ cobra.ShellCompDirective) {
		before := word[:strings.LastIndexByte(word, ',')+1]
		for _, one := range known {
			if !slices.Contains(strings.Split(before, ","), string(one)) {
				values = append(values, before+string(one))
			}
		}
		return values, cobra.ShellCompDirectiveNoFileComp
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
	if n.Begin(cmd) != nil {
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
