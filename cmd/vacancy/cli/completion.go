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

// nameCompleter completes names that are stored on this machine or on a host.
type nameCompleter struct{ *kit.App }

func registerCompletion(a *kit.App, root *cobra.Command) {
	n := nameCompleter{a}
	for _, c := range root.Commands() {
		registerCompletion(a, c)
		if c.Flags().Lookup("as") != nil {
			// The only error is that the flag does not exist.
			_ = c.RegisterFlagCompletionFunc("as", func(c *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
				return n.completeIdentities(c, nil, word)
			})
		}
		if c.Flags().Lookup("stage") != nil {
			_ = c.RegisterFlagCompletionFunc("stage", n.completeStages)
		}
		for flag, completion := range flagCompletions {
			if c.Flags().Lookup(flag) != nil {
				_ = c.RegisterFlagCompletionFunc(flag, completion)
			}
		}
		firstArg, _, _ := strings.Cut(strings.TrimPrefix(c.Use, c.Name()), "...")
		firstArg = strings.Trim(strings.TrimSpace(firstArg), "[]")
		word, _, _ := strings.Cut(firstArg, " ")
		word, _, _ = strings.Cut(word, "|")
		switch strings.Trim(word, "[]") {
		case "VACANT", "TARGET", "PARENT", "CHILD", "AGENT":
			c.ValidArgsFunction = n.completeVacants
		case "NAME":
			if c.Name() == "use" || c.Name() == "id" {
				c.ValidArgsFunction = n.completeIdentities
			} else if c.Name() != "create" && c.Name() != "init" {
				c.ValidArgsFunction = n.completeVacants
			}
		case "TENANT":
			if c.Name() == "revoke" {
				c.ValidArgsFunction = n.completeKeyIDs
			}
		case "FROM":
			c.ValidArgsFunction = n.completeChainArguments
		}
	}
}

var flagCompletions = map[string]cobra.CompletionFunc{"substrate": completeSubstrates, "scope": completeList(billing.Scopes())}

func completeSubstrates(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
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
		prefix := word[:strings.LastIndexByte(word, ',')+1]
		for _, candidate := range candidates {
			if !slices.Contains(strings.Split(prefix, ","), string(candidate)) {
				values = append(values, prefix+string(candidate))
			}
		}
		return values, cobra.ShellCompDirectiveNoFileComp
	}
}

func (n nameCompleter) completeVacants(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return n.listHostedNames(cmd), cobra.ShellCompDirectiveDefault // a card file is also a target
}

func readHostFlags(cmd *cobra.Command) (where kit.HostFlags) {
	for flag, target := range map[string]*string{"host": &where.Host, "stage": &where.Stage, "data": &where.Data} {
		if f := cmd.Flags().Lookup(flag); f != nil {
			*target = f.Value.String()
		}
	}
	return where
}

func commandContext(cmd *cobra.Command) context.Context {
	if ctx := cmd.Context(); ctx != nil {
		return ctx
	}
	return context.Background()
}

// completeKeyIDs completes the unrevoked keys of TENANT's account, or of the account of the key in
// the environment.
func (n nameCompleter) completeKeyIDs(cmd *cobra.Command, args []string, _ string) (ids []string, _ cobra.ShellCompDirective) {
	if len(args) < 2 && n.PrepareCommand(cmd) == nil {
		// If the account cannot be read, ids stays empty.
		_ = n.WithAccount(commandContext(cmd), readHostFlags(cmd), kit.OptionalArgument(args), func(c op.Client, ref accounts.Ref) error {
			keys, err := accounts.ListKeys.Call(commandContext(cmd), c, ref)
			for i := range keys.Keys {
				if k := &keys.Keys[i]; k.RevokedAt.IsZero() {
					ids = append(ids, k.ID+"\t"+k.Name)
				}
			}
			return err
		})
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}

func (n nameCompleter) listHostedNames(cmd *cobra.Command) (names []string) {
	if n.PrepareCommand(cmd) != nil {
		return nil
	}
	c, err := n.DialAdmin(readHostFlags(cmd))
	if err != nil {
		return nil
	}
	page, err := admin.ListVacants.Call(commandContext(cmd), c, admin.ListVacantsRequest{})
	if err != nil {
		return nil
	}
	for i := range page.Vacants {
		names = append(names, page.Vacants[i].Name)
	}
	return names
}

func (n nameCompleter) completeIdentities(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	h, err := n.IdentityDir()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	identities, _ := h.Names()
	return identities, cobra.ShellCompDirectiveNoFileComp
}

func (n nameCompleter) completeStages(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	records, err := n.StageRecords()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	stages, _ := records.Names()
	return stages, cobra.ShellCompDirectiveNoFileComp
}

func (n nameCompleter) completeChainArguments(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 1 {
		return n.listHostedNames(cmd), cobra.ShellCompDirectiveNoFileComp
	}
	return n.completeIdentities(cmd, args, word)
}
