package startcmd

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/scaffold"
	"github.com/vacancy-host/vacancy/shared/host/registry"
)

func newCommand(a *kit.App) *cobra.Command {
	var language, dir string
	names := []string{}
	for _, l := range scaffold.Languages() {
		names = append(names, l.Name)
	}
	cmd := &cobra.Command{
		Use:   "new NAME",
		Short: "Write a new agent: a program, its agent.md, its test and a README",
		Long: `Write a program that answers for a vacant, with its agent.md, its test and a README, into the
directory NAME, or --dir. "vacancy watch" runs it. The program needs only the standard library
of its language; TypeScript also needs npm, which fetches tsx. No existing file is overwritten.`,
		Example: `  vacancy new fox --lang python
  vacancy new fox --lang go --dir agents/fox`,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := registry.CheckNewName(args[0]); err != nil {
				return err
			}
			if dir == "" {
				dir = args[0]
			}
			l, err := scaffold.Write(dir, args[0], language)
			if err != nil {
				return err
			}
			at, err := filepath.Abs(dir)
			if err != nil {
				at = dir
			}
			return a.Show(newResult{Name: args[0], Dir: at, Language: l.Name, Program: l.Program, Start: l.Start, Test: l.Test})
		},
	}
	cmd.Flags().StringVar(&language, "lang", "python", "the program's language: "+strings.Join(names, ", "))
	cmd.Flags().StringVar(&dir, "dir", "", "the directory (default NAME)")
	return cmd
}

// newResult is an agent that was written.
type newResult struct {
	Name     string `json:"name"`
	Dir      string `json:"dir"`
	Language string `json:"language"`
	Program  string `json:"program"`
	Start    string `json:"start"`
	Test     string `json:"test"`
}

// nameFlag names the vacant for watch, if its folder is called otherwise.
func (r newResult) nameFlag() string {
	if filepath.Base(r.Dir) == r.Name {
		return ""
	}
	return " --name " + r.Name
}

func (r newResult) Print(w io.Writer) {
	fmt.Fprintf(w, "%s is in %s; the function answer in %s is yours to write\n\n", r.Name, kit.Printable(r.Dir), r.Program)
	for _, command := range []string{r.Test, r.Start} {
		fmt.Fprintf(w, "  (cd %s && %s)\n", kit.ShellWord(r.Dir), command)
	}
	fmt.Fprintf(w, "\nTo write it while it answers calls; agent.md says what it does:\n\n")
	fmt.Fprintf(w, "  vacancy watch %s%s\n", kit.ShellWord(r.Dir), r.nameFlag())
	fmt.Fprintf(w, "  vacancy call %s \"hello\"                # in another terminal\n", r.Name)
	fmt.Fprintf(w, "  vacancy agents check http://127.0.0.1:9000\n")
}
