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

// referenceTopic returns the topic "vacancy help reference". Its text is built on demand, because
// it names all commands.
func referenceTopic(root *cobra.Command) *cobra.Command {
	topic := &cobra.Command{Use: "reference", Short: "All commands, settings, operations, errors, documents and limits"}
	topic.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		var b strings.Builder
		b.WriteString("# Reference\n\n`vacancy help reference` prints this page, which is generated from the tables of the program.\n")
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
	b.WriteString("\n## Commands\n\nEvery command has `--json` and `--help`. Commands that use a host also have these flags, which are not listed again:\n\n")
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
	valueName, usage := pflag.UnquoteUsage(f)
	fmt.Fprintf(b, "%s `%s` %s", bullet, strings.TrimSpace("--"+f.Name+" "+valueName), usage)
	if f.DefValue != "" && f.DefValue != "[]" && f.DefValue != "false" && f.DefValue != "0" && !strings.Contains(usage, "(default") {
		fmt.Fprintf(b, " (default %s)", f.DefValue)
	}
	b.WriteString("\n")
}

func writeTable(b *strings.Builder, header []string, rows [][]string) {
	fmt.Fprintf(b, "\n| %s |\n|%s\n", strings.Join(header, " | "), strings.Repeat("---|", len(header)))
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

func formatCode(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}

func writeSettings(b *strings.Builder) {
	b.WriteString("\n## Settings of a host\n\nA flag belongs to the command that runs the host. On AWS, `vacancy deploy --context SETTING=VALUE` sets the value, and the functions read it from the variable.\n")
	var rows [][]string
	for _, s := range setting.Table() {
		if s.DeployOnly {
			continue
		}
		flag := ""
		if s.Flag != "" {
			flag = fmt.Sprintf("`--%s` of %s", s.Flag, s.Commands)
		}
		rows = append(rows, []string{cmp.Or(s.Context, s.Flag, s.Variable), strings.ReplaceAll(s.Help, "`", ""), s.ValueForm, formatCode(s.Default), flag, formatCode(s.Variable)})
	}
	writeTable(b, []string{"Setting", "Meaning", "Value", "Default", "Flag", "Variable"}, rows)
}

func writeOperations(b *strings.Builder) {
	b.WriteString("\n## Operations\n\nThe operator may use all operations. `vacancy openapi`, and `/v1/openapi.json` of a host, describe their bodies, answers and errors.\n")
	specs := operations.All()
	slices.SortFunc(specs, func(x, y op.Spec) int {
		return cmp.Or(strings.Compare(x.Path, y.Path), strings.Compare(x.Method, y.Method))
	})
	var rows [][]string
	for _, s := range specs {
		rows = append(rows, []string{s.Method + " " + s.Path, s.Doc, s.Access.Describe()})
	}
	writeTable(b, []string{"Operation", "What it does", "Who may use it"}, rows)

	b.WriteString("\n## Scopes of keys\n")
	rows = nil
	for _, s := range billing.Scopes() {
		rows = append(rows, []string{string(s), s.Description()})
	}
	writeTable(b, []string{"Scope", "Allows"}, rows)
}

func writeErrors(b *strings.Builder) {
	b.WriteString("\n## Errors\n\nAn error has its code in the member `code`. This is true of errors in answers, and of errors that a command prints with `--json`.\n")
	var rows [][]string
	for _, k := range problem.Kinds() {
		r := k.Forms()
		rows = append(rows, []string{r.Code, fmt.Sprint(r.HTTPStatus), fmt.Sprint(r.RPCCode), fmt.Sprint(r.ExitCode), r.DefaultMessage})
	}
	writeTable(b, []string{"Code", "HTTP", "JSON-RPC", "Exit", "Meaning"}, rows)
	b.WriteString("\n## Exit codes\n")
	rows = nil
	for _, e := range problem.ExitCodes() {
		rows = append(rows, []string{fmt.Sprint(e.Code), e.Meaning})
	}
	writeTable(b, []string{"Exit", "Meaning"}, rows)
}

func writeDocuments(b *strings.Builder) {
	b.WriteString("\n## Stored documents\n\nA key consists of a partition and a sort key; a star stands for a variable part. The last column shows what the command `verify` does. If the column says \"reads it\", `verify` checks that the document can be decoded. If it says \"compares it\", `verify` compares the document with rows and other documents. `verify` skips documents that are secret, that are short-lived, or that can be rebuilt.\n")
	owners := map[store.OwnerKind]string{store.OwnedByHost: "the host", store.OwnedByVacant: "a vacant", store.OwnedByAccount: "an account", store.OwnedByTenant: "a tenant"}
	checks := map[store.Verification]string{store.VerifySkip: "", store.VerifyParse: "reads it", store.VerifyWithRows: "compares it"}
	var rows [][]string
	for _, k := range documents.All() {
		s := k.Describe()
		rows = append(rows, []string{s.Partition + " " + s.Sort, s.Name, owners[s.Owner], checks[s.Verify]})
	}
	slices.SortStableFunc(rows, func(x, y []string) int { return strings.Compare(x[0], y[0]) })
	writeTable(b, []string{"Key", "Document", "Owner", "verify"}, rows)
}

func writeLimits(b *strings.Builder) {
	b.WriteString("\n## Limits\n")
	limits := canon.DefaultLimits()
	var rows [][]string
	for _, l := range []struct {
		what string
		most any
	}{
		{"body of a request, unless its operation has a lower limit", byteSize(limits.Bytes)},
		{"depth of a document", limits.Depth},
		{"members of an object", limits.Keys},
		{"parts of a message", envelope.MaxParts},
		{"contextId, messageId, idempotency key", byteSize(envelope.MaxIDBytes)},
		{"difference between a signed time and the host's time", call.MaxSkew},
		{"text of an agent's answer", byteSize(substrate.MaxText)},
		{"time of an answer, unless the host or the vacant has another limit", call.DefaultCallTimeout},
		{"earlier exchanges that an agent with memory receives", call.MaxExchanges},
		{"total text size of the exchanges that an agent with memory receives", byteSize(call.MaxThreadBytes)},
		{"minimum time for which texts can be read", textkeys.MinRetention},
		{"name of a vacant", fmt.Sprintf("%d characters", registry.MaxNameBytes)},
		{"signed card", byteSize(card.MaxBlob)},
		{"tags of a listing", listing.MaxTags},
		{"skills of a listing", listing.MaxSkills},
		{"summary of a listing", byteSize(listing.MaxSummaryBytes)},
		{"query of a search", byteSize(search.MaxQueryBytes)},
		{"results of a search", search.MaxLimit},
		{"settings of an agent", byteSize(definition.MaxBlobBytes)},
		{"turns of an agent's model in a call", definition.MaxTurns},
		{"vacants that an agent may ask", definition.MaxVacants},
		{"MCP servers of an agent", definition.MaxServers},
		{"secret", byteSize(secrets.MaxValueBytes)},
		{"hosts of a secret", secrets.MaxHosts},
		{"plan of a composite", byteSize(plan.MaxBlobBytes)},
		{"delegations of a plan", plan.MaxDelegations},
		{"nested composites in a call", plan.MaxDepth},
		{"calls that one call of a composite causes", plan.MaxCalls},
		{"graduations of a parent in 24 hours that a policy may allow", gate.MaxDailyLimit},
		{"price of a call", price.MaxPrice},
		{"price of a booking", price.MaxBookingPrice},
		{"fee of a host, in basis points", price.MaxFeeBasisPoints},
		{"minimum payment by card", billing.MinPayment},
		{"payment by card", billing.MaxPayment},
		{"time for which a booking waits for its venue", booking.MaxPendingTime},
		{"time between a booking and its start", booking.MaxLeadTime},
		{"events of an A2A task", task.MaxEvents},
		{"total size of the events of an A2A task", byteSize(task.MaxBytes)},
		{"tasks of a vacant in the background", task.MaxBackground},
		{"push notification configs of a task", task.MaxPushConfigs},
		{"push notifications of a task", push.MaxDeliveries},
	} {
		rows = append(rows, []string{formatLimit(l.most), l.what})
	}
	writeTable(b, []string{"Limit", "Applies to"}, rows)
}

type byteSize int

func formatLimit(value any) string {
	switch n := value.(type) {
	case byteSize:
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
	return fmt.Sprint(value)
}
