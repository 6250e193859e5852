package startcmd

import (
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/nearest"
	"github.com/vacancy-host/vacancy/cmd/vacancy/scaffold"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func newCommand(a *kit.App) *cobra.Command {
	var template, language, dir string
	basic := scaffold.Templates()[0]
	var templateTable strings.Builder
	for _, t := range scaffold.Templates() {
		fmt.Fprintf(&templateTable, "  %-11s%s\n", t.Name, t.About)
		if t.Needs != "" {
			fmt.Fprintf(&templateTable, "  %-11s(needs %s)\n", "", t.Needs)
		}
	}
	cmd := &cobra.Command{
		Use:   "new NAME",
		Short: "Write a new agent: a program, its agent.md, its test and a README",
		Long: `Write a new agent into the directory NAME or --dir: a program, its agent.md, its test and a README.
"vacancy watch" runs the program. The program listens at a port that is free now. Existing files are
not overwritten.

Templates:

` + templateTable.String() + `
All templates exist in Python, and basic also exists in the other languages. Unless the table says
more, a template needs only the standard library of its language. TypeScript also needs npm, which
fetches tsx.`,
		Example: `  vacancy new fox
  vacancy new fox --template stream
  vacancy new fox --lang go --dir agents/fox`,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := registry.CheckNewName(args[0]); err != nil {
				return err
			}
			if dir == "" {
				dir = args[0]
			}
			absDir, err := filepath.Abs(dir)
			if err != nil {
				return err
			}
			agent, err := scaffold.NewAgent(args[0], template, language, findFreePort(absDir, isListening))
			if p := problem.AsError(err); err != nil && p.Field == "--template" {
				if suggestion := nearest.Name(template, scaffold.TemplateNames()); suggestion != "" {
					return kit.WithHint(err, "vacancy new %s --template %s", args[0], suggestion)
				}
				return kit.WithHint(err, "vacancy new --help")
			}
			if err != nil {
				return err
			}
			if err := agent.Write(dir); err != nil {
				return err
			}
			commands, err := agent.Commands()
			if err != nil {
				return problem.Wrap(problem.Internal, err, "")
			}
			l, t := agent.Language, agent.Template
			r := newResult{Name: args[0], Dir: absDir, Template: t.Name, Language: l.Name, Program: l.Program, Start: l.Start, Test: l.Test, Port: agent.Port}
			r.templateInfo, r.watchLine = t, a.FormatCommand("watch %s%s", kit.ShellWord(absDir), kit.FormatIf(filepath.Base(absDir) != r.Name, " --name %s", r.Name))
			for _, c := range commands {
				if commandArgs, isVacancy := strings.CutPrefix(c, "vacancy "); isVacancy {
					c = a.FormatCommand("%s", commandArgs)
				}
				r.commands = append(r.commands, c)
			}
			return a.PrintResult(r)
		},
	}
	cmd.Flags().StringVar(&template, "template", basic.Name, "the template to start from: "+strings.Join(scaffold.TemplateNames(), ", "))
	cmd.Flags().StringVar(&language, "lang", "python", "the program's language: "+strings.Join(basic.LanguageNames(), ", "))
	cmd.Flags().StringVar(&dir, "dir", "", "the directory (default NAME)")
	_ = cmd.RegisterFlagCompletionFunc("lang", cobra.FixedCompletions(basic.LanguageNames(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("template", func(*cobra.Command, []string, string) (completions []string, _ cobra.ShellCompDirective) {
		for _, t := range scaffold.Templates() {
			completions = append(completions, t.Name+"\t"+t.About)
		}
		return completions, cobra.ShellCompDirectiveNoFileComp
	})
	return cmd
}

type newResult struct {
	Name     string `json:"name"`
	Dir      string `json:"dir"`
	Template string `json:"template"`
	Language string `json:"language"`
	Program  string `json:"program"`
	Start    string `json:"start"`
	Test     string `json:"test"`
	Port     int    `json:"port"`

	templateInfo scaffold.Template
	watchLine    string
	commands     []string
}

// Examples use port 9000, and operating systems assign much higher ports to clients.
const (
	firstPort = 9001
	portCount = 999
)

// findFreePort returns a free port for the agent in dir. The search starts at a hash of dir, so
// that agents usually get different ports even if none of them runs.
func findFreePort(dir string, isTaken func(port int) bool) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(dir))
	firstOffset := int(h.Sum32() % portCount)
	for i := range portCount {
		if port := firstPort + (firstOffset+i)%portCount; !isTaken(port) {
			return port
		}
	}
	return firstPort + firstOffset // watch reports that the port is taken
}

func isListening(port int) bool {
	c, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), time.Second)
	if err != nil {
		return false
	}
	c.Close()
	return true
}

func (r newResult) Print(w io.Writer) {
	fmt.Fprintf(w, "%s is in %s; write %s in %s\n\n", r.Name, kit.EscapeLine(r.Dir), r.templateInfo.Yours, r.Program)
	if r.templateInfo.Needs != "" {
		fmt.Fprintf(w, "It needs %s.\n\n", r.templateInfo.Needs)
	}
	if r.templateInfo.Set != "" {
		fmt.Fprintf(w, "%s.\n\n", r.templateInfo.Set)
	}
	for _, command := range []string{r.Test, r.Start} {
		fmt.Fprintf(w, "  (cd %s && %s)\n", kit.ShellWord(r.Dir), command)
	}
	fmt.Fprintf(w, "\nTo edit it while it answers calls (agent.md says what it does):\n\n  %s\n\nIn another terminal:\n\n", r.watchLine)
	for _, command := range r.commands {
		fmt.Fprintf(w, "  %s\n", command)
	}
}
