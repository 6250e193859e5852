package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// exitCodesTopic is "vacancy help exit-codes": the table of package problem.
func exitCodesTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "exit-codes",
		Short: "Exit codes",
		Long:  exitCodes(),
	}
}

// exitCodes renders the table: each code, its meaning, and its values of "code"
// in errors.
func exitCodes() string {
	words := map[int][]string{}
	for _, k := range problem.Kinds() {
		exit := k.Row().Exit
		words[exit] = append(words[exit], k.String())
	}
	var b strings.Builder
	b.WriteString("A command ends with one of these codes. With --json an error also carries the\nword in its member \"code\".\n")
	for _, e := range problem.Exits() {
		fmt.Fprintf(&b, "\n%5d  %s\n", e.Code, e.Meaning)
		if len(words[e.Code]) > 0 {
			fmt.Fprintf(&b, "       %s\n", strings.Join(words[e.Code], ", "))
		}
	}
	return b.String()
}
