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
directory NAME, or --dir. "vacancy watch" runs it. The program listens at a port that is free now. It
needs only the standard library of its language; TypeScript also needs npm, which fetches tsx. No
existing file is overwritten.`,
		Example: `  vacancy new fox --lang python
  vacancy new fox --lang go --dir agents/fox`,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := registry.CheckNewName(args[0]); err != nil {
				return err
			}
			if dir == "" {
				dir = args[0]
			}
			at, err := filepath.Abs(dir)
			if err != nil {
				return err
			}
			port := freePort(at, listens)
			l, err := scaffold.Write(dir, args[0], language, port)
			if err != nil {
				return err
			}
			r := newResult{Name: args[0], Dir: at, Language: l.Name, Program: l.Program, Start: l.Start, Test: l.Test, Port: port}
			r.watch = a.Command("watch %s%s", kit.ShellWord(at), r.nameFlag())
			r.call = a.Command(`call %s "hello"`, r.Name)
			r.check = a.Command("agents check http://127.0.0.1:%d", port)
			return a.Show(r)
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
	Port     int    `json:"port"` // where the program listens

	watch, call, check string // commands
}

// Ports of new agents: below those that systems give to clients, and without 9000, which
// examples have.
const (
	firstPort = 9001
	ports     = 999
)

// freePort chooses the port of an agent in a directory: each directory begins at another
// port, so that two agents that were written one after the other differ, and takes the
// first one at which nobody listens.
func freePort(dir string, taken func(port int) bool) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(dir)) // it never fails
	begin := int(h.Sum32() % ports)
	for i := range ports {
		if port := firstPort + (begin+i)%ports; !taken(port) {
			return port
		}
	}
	return firstPort + begin // "vacancy watch" refuses a port that is taken
}

// listens reports whether a program listens at a port of this machine.
func listens(port int) bool {
	c, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), dialTime)
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// dialTime bounds a connection to this machine.
const dialTime = time.Second

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
	fmt.Fprintf(w, "  %s\n  %s                # in another terminal\n  %s\n", r.watch, r.call, r.check)
}
