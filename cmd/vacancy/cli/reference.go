package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/front/operations"
	"github.com/vacancy-host/vacancy/shared/front/setting"
	"github.com/vacancy-host/vacancy/shared/host/a2a/push"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/booking"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/documents"
	"github.com/vacancy-host/vacancy/shared/host/keys/secrets"
	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/registry/search"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/plan"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/listing"
)

// referenceTopic returns the topic "vacancy help reference", which prints the tables from which
// commands, settings, operations and errors are built. The text is built on demand, because it
// names all commands.
func referenceTopic(root *cobra.Command) *cobra.Command {
	topic := &cobra.Command{Use: "reference", Short: "All commands, settings, operations, errors, documents and limits"}
	topic.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		var b strings.Builder
		b.WriteString("# Reference\n\nThe program prints this page: `vacancy help reference`. It is made of the tables that the program itself reads.\n")
		writeCommands(&b, root)
		writeSettings(&b)
		writeOperations(&b)
		writeErrors(&b)
		writeDocuments(&b)
		writeLimits(&b)
		fmt.Fprint(cmd.OutOrStdout(), b.String())
	})
	return topic
}

// hostFlags lists the flags that choose a host. The reference describes them only once.
var hostFlags = []string{"host", "stage", "ca", "data"}

func writeCommands(b *strings.Builder, root *cobra.Command) {
	b.WriteString("\n## Commands\n\nEvery command has `--json` and `--help`. Commands about a host choose it by these flags, which are not listed again:\n\n")
	list, _, err := root.Find([]string{"list"})
	if err != nil {
		panic(err)
	}
	for _, name := range hostFlags {
		writeFlag(b, "-", list.Flags().Lookup(name))
	}
	for _, g := range root.Groups() {
		fmt.Fprintf(b, "\n### %s\n\n", strings.TrimSuffix(g.Title, ":"))
		for _, c := range root.Commands() {
			if c.GroupID == g.ID {
				writeCommand(b, c)
			}
		}
	}
	b.WriteString("\n### Others\n\n")
	for _, c := range root.Commands() {
		if c.GroupID == "" && c.IsAvailableCommand() {
			writeCommand(b, c)
		}
	}
}

func writeCommand(b *strings.Builder, c *cobra.Command) {
	if c.HasAvailableSubCommands() && c.Args == nil {
		return
	}
	if c.Runnable() && !c.HasAvailableSubCommands() || c.HasAvailableLocalFlags() {
		fmt.Fprintf(b, "- `%s` %s\n", strings.TrimSuffix(c.UseLine(), " [flags]"), c.Short)
		c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" && !slices.Contains(hostFlags, f.Name) {
				writeFlag(b, "  -", f)
			}
		})
	}
	for _, sub := range c.Commands() {
		writeCommand(b, sub)
	}
}

func writeFlag(b *strings.Builder, bullet string, f *pflag.Flag) {
	kind, usage := pflag.UnquoteUsage(f)
	fmt.Fprintf(b, "%s `%s` %s", bullet, strings.TrimSpace("--"+f.Name+" "+kind), usage)
	if f.DefValue != "" && f.DefValue != "[]" && f.DefValue != "false" && f.DefValue != "0" && !strings.Contains(usage, "(default") {
		fmt.Fprintf(b, " (default %s)", f.DefValue)
	}
	b.WriteString("\n")
}

func writeTable(b *strings.Builder, head []string, rows [][]string) {
	fmt.Fprintf(b, "\n| %s |\n|%s\n", strings.Join(head, " | "), strings.Repeat("---|", len(head)))
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			if cells[i] = strings.ReplaceAll(cell, "|", `\|`); i == 0 {
				cells[i] = "`" + cell + "`"
			}
		}
		fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
	}
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}

func writeSettings(b *strings.Builder) {
	b.WriteString("\n## Settings of a host\n\nA flag is one of the command that runs the host. A context value is one of `vacancy deploy --context`, and functions read it as the variable.\n")
	var rows [][]string
	for _, s := range setting.Table() {
		if s.ByDeploy {
			continue
		}
		flag := ""
		if s.Flag != "" {
			flag = fmt.Sprintf("`--%s` of %s", s.Flag, s.Commands)
		}
		rows = append(rows, []string{cmp.Or(s.Context, s.Flag, s.Variable), strings.ReplaceAll(s.Help, "`", ""), s.Value, code(s.Default), flag, code(s.Variable)})
	}
	writeTable(b, []string{"Setting", "Meaning", "Value", "Default", "Flag", "Variable"}, rows)
}

func writeOperations(b *strings.Builder) {
	b.WriteString("\n## Operations\n\nThe operator may use all of them. Bodies, answers and errors: `vacancy openapi`, or `/v1/openapi.json` of a host.\n")
	all := operations.All()
	slices.SortFunc(all, func(x, y op.Spec) int {
		return cmp.Or(strings.Compare(x.Path, y.Path), strings.Compare(x.Method, y.Method))
	})
	var rows [][]string
	for _, s := range all {
		rows = append(rows, []string{s.Method + " " + s.Path, s.Doc, s.Access.Who()})
	}
	writeTable(b, []string{"Operation", "What it does", "Who may use it"}, rows)

	b.WriteString("\n## Scopes of keys\n")
	rows = nil
	for _, s := range billing.Scopes() {
		rows = append(rows, []string{string(s), s.Allows()})
	}
	writeTable(b, []string{"Scope", "Allows"}, rows)
}

func writeErrors(b *strings.Builder) {
	b.WriteString("\n## Errors\n\nThe word is the member `code` of an answer, and of the error that a command prints with `--json`.\n")
	var rows [][]string
	for _, k := range problem.Kinds() {
		r := k.Row()
		rows = append(rows, []string{r.Code, fmt.Sprint(r.Status), fmt.Sprint(r.RPC), fmt.Sprint(r.Exit), r.Text})
	}
	writeTable(b, []string{"Code", "HTTP", "JSON-RPC", "Exit", "Meaning"}, rows)
	b.WriteString("\n## Exit codes\n")
	rows = nil
	for _, e := range problem.Exits() {
		rows = append(rows, []string{fmt.Sprint(e.Code), e.Meaning})
	}
	writeTable(b, []string{"Exit", "Meaning"}, rows)
}

func writeDocuments(b *strings.Builder) {
	b.WriteString("\n## Stored documents\n\nA key has a partition and a sort; a star stands for a part that differs. `verify` checks that a document reads, or compares it with rows and other documents. Documents that it does not check are secret, short-lived, or can be made again.\n")
	owners := map[store.Owner]string{store.OfHost: "the host", store.OfVacant: "a vacant", store.OfAccount: "an account", store.OfTenant: "a tenant"}
	checks := map[store.Verify]string{store.Unread: "", store.Alone: "reads it", store.Joined: "compares it"}
	var rows [][]string
	for _, k := range documents.All() {
		s := k.Describe()
		rows = append(rows, []string{s.Partition + " " + s.Sort, s.Name, owners[s.Of], checks[s.Verify]})
	}
	slices.SortStableFunc(rows, func(x, y []string) int { return strings.Compare(x[0], y[0]) })
	writeTable(b, []string{"Key", "Document", "Of", "verify"}, rows)
}

func writeLimits(b *strings.Builder) {
	b.WriteString("\n## Limits\n")
	limits := canon.DefaultLimits()
	var rows [][]string
	for _, l := range []struct {
		what string
		most any
	}{
		{"body of a request, unless its operation says less", size(limits.Bytes)},
		{"depth of a document", limits.Depth},
		{"members of an object", limits.Keys},
		{"parts of a message", envelope.MaxParts},
		{"contextId, messageId, idempotency key", size(envelope.MaxIDBytes)},
		{"difference between the time that is signed and the host's", call.MaxSkew},
		{"text that an agent answers", size(substrate.MaxText)},
		{"time of an answer, unless the host has another", call.DefaultWork},
		{"exchanges that an agent with memory is told", call.MaxExchanges},
		{"texts of these exchanges together", size(call.MaxRemembered)},
		{"time that texts can be read, at least", textkeys.MinRetention},
		{"name of a vacant", fmt.Sprintf("%d characters", registry.MaxName)},
		{"signed card", size(card.MaxBlob)},
		{"tags of a listing", listing.MaxTags},
		{"skills of a listing", listing.MaxSkills},
		{"summary of a listing", size(listing.MaxSummary)},
		{"search, as a query", size(search.MaxQuery)},
		{"results of a search", search.MaxLimit},
		{"settings of an agent", size(definition.MaxBlob)},
		{"turns of an agent's model in a call", definition.MaxTurns},
		{"vacants that an agent may ask", definition.MaxVacants},
		{"MCP servers of an agent", definition.MaxServers},
		{"secret", size(secrets.MaxValue)},
		{"hosts of a secret", secrets.MaxHosts},
		{"plan of a composite", size(plan.MaxBlob)},
		{"delegations of a plan", plan.MaxDelegations},
		{"nested composites in a call", plan.MaxDepth},
		{"calls made for one call of a composite", plan.MaxCalls},
		{"graduations of a parent in 24 hours that a policy may allow", gate.MaxLimit},
		{"price of a call", price.Max},
		{"price of a booking", price.MaxBooking},
		{"fee of a host, in basis points", price.MaxFee},
		{"payment by card, at least", billing.MinPayment},
		{"payment by card", billing.MaxPayment},
		{"time that a booking waits for its venue", booking.MaxPending},
		{"time that a booking is made ahead", booking.MaxAhead},
		{"events of an A2A task", task.MaxEvents},
		{"all events of an A2A task", size(task.MaxBytes)},
		{"tasks of a vacant in the background", task.MaxBackground},
		{"push notification configs of a task", task.MaxPushConfigs},
		{"push notifications of a task", push.MaxDeliveries},
	} {
		rows = append(rows, []string{limit(l.most), l.what})
	}
	writeTable(b, []string{"Limit", "Of"}, rows)
}

type size int

func limit(most any) string {
	switch n := most.(type) {
	case size:
		switch {
		case n >= 1<<20 && n%(1<<20) == 0:
			return fmt.Sprintf("%d MiB", n>>20)
		case n >= 1<<10 && n%(1<<10) == 0:
			return fmt.Sprintf("%d KiB", n>>10)
		}
		return fmt.Sprintf("%d bytes", n)
	case time.Duration:
		switch {
		case n >= 48*time.Hour:
			return fmt.Sprintf("%d days", n/(24*time.Hour))
		case n >= time.Hour:
			return fmt.Sprintf("%d hours", n/time.Hour)
		}
		return fmt.Sprintf("%d s", n/time.Second)
	}
	return fmt.Sprint(most)
}
