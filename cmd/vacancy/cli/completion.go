package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	accounts "github.com/vacancy-host/vacancy/shared/front/account"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/echo"
	"github.com/vacancy-host/vacancy/shared/host/substrate/plan"
)

// names completes names that are stored on this machine or on a host.
type names struct{ *kit.App }

// complete registers the completion of names: vacants of the host, identities and stages.
func complete(a *kit.App, root *cobra.Command) {
	n := names{a}
	for _, c := range root.Commands() {
		complete(a, c)
		if c.Flags().Lookup("as") != nil {
			// The only error is that the flag does not exist.
			_ = c.RegisterFlagCompletionFunc("as", func(c *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
				return n.identityNames(c, nil, word)
			})
		}
		if c.Flags().Lookup("stage") != nil {
			_ = c.RegisterFlagCompletionFunc("stage", n.stageNames)
		}
		for flag, completion := range flagValues {
			if c.Flags().Lookup(flag) != nil {
				_ = c.RegisterFlagCompletionFunc(flag, completion)
			}
		}
		first, _, _ := strings.Cut(strings.TrimPrefix(c.Use, c.Name()), "...")
		first = strings.Trim(strings.TrimSpace(first), "[]")
		word, _, _ := strings.Cut(first, " ")
		word, _, _ = strings.Cut(word, "|")
		switch strings.Trim(word, "[]") {
		case "VACANT", "TARGET", "PARENT", "CHILD", "AGENT":
			c.ValidArgsFunction = n.vacantNames
		case "NAME":
			if c.Name() == "use" || c.Name() == "id" {
				c.ValidArgsFunction = n.identityNames
			} else if c.Name() != "create" && c.Name() != "init" {
				c.ValidArgsFunction = n.vacantNames
			}
		case "TENANT":
			if c.Name() == "revoke" {
				c.ValidArgsFunction = n.completeKeyIDs
			}
		case "FROM":
			c.ValidArgsFunction = n.chainEnds
		}
	}
}

// flagValues completes flags of several commands whose values come from a table.
var flagValues = map[string]cobra.CompletionFunc{"substrate": substrateKinds, "scope": completeList(billing.Scopes())}

func substrateKinds(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	kinds := standalone.SubstrateKinds()
	for i, kind := range kinds {
		if kind != echo.Kind && kind != plan.Kind && kind != substrate.KindMock {
			kinds[i] += ":" // a model or a URL follows
		}
	}
	return kinds, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

func completeList[T ~string](candidates []T) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, word string) (values []string, _ cobra.ShellCompDirective) {
		before := word[:strings.LastIndexByte(word, ',')+1]
		for _, candidate := range candidates {
			if !slices.Contains(strings.Split(before, ","), string(candidate)) {
				values = append(values, before+string(candidate))
			}
		}
		return values, cobra.ShellCompDirectiveNoFileComp
	}
}

func (n names) vacantNames(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return n.hostedNames(cmd), cobra.ShellCompDirectiveDefault // a card file is also a target
}

func whereOf(cmd *cobra.Command) (w kit.Where) {
	for flag, to := range map[string]*string{"host": &w.Host, "stage": &w.Stage, "data": &w.Data} {
		if f := cmd.Flags().Lookup(flag); f != nil {
			*to = f.Value.String()
		}
	}
	return w
}

func contextOf(cmd *cobra.Command) context.Context {
	if ctx := cmd.Context(); ctx != nil {
		return ctx
	}
	return context.Background()
}

// completeKeyIDs completes the unrevoked keys of TENANT's account, or of the account of the key in
// the environment.
func (n names) completeKeyIDs(cmd *cobra.Command, args []string, _ string) (ids []string, _ cobra.ShellCompDirective) {
	if len(args) < 2 && n.Begin(cmd) == nil {
		// If the account cannot be read, ids stays empty.
		_ = n.WithAccount(contextOf(cmd), whereOf(cmd), kit.OptionalArgument(args), func(c op.Client, ref accounts.One) error {
			keys, err := accounts.ListKeys.Call(contextOf(cmd), c, ref)
			for i := range keys.Keys {
				if k := &keys.Keys[i]; k.Revoked.IsZero() {
					ids = append(ids, k.ID+"\t"+k.Name)
				}
			}
			return err
		})
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}

func (n names) hostedNames(cmd *cobra.Command) (hosted []string) {
	if n.Begin(cmd) != nil {
		return nil
	}
	c, err := n.RunningAdmin(whereOf(cmd))
	if err != nil {
		return nil
	}
	page, err := admin.ListVacants.Call(contextOf(cmd), c, admin.VacantList{})
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
	identities, _ := h.Names()
	return identities, cobra.ShellCompDirectiveNoFileComp
}

func (n names) stageNames(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	records, err := n.Stages()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	stages, _ := records.Names()
	return stages, cobra.ShellCompDirectiveNoFileComp
}

func (n names) chainEnds(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 1 {
		return n.hostedNames(cmd), cobra.ShellCompDirectiveNoFileComp
	}
	return n.identityNames(cmd, args, word)
}
