package callcmd

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/mcpclients"
	"github.com/vacancy-host/vacancy/shared/host/client/agents"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func mcpConfigCommand(a *kit.App) *cobra.Command {
	return newConfigCommand(a, &cobra.Command{
		Use:   "config [NAME|URL] --client CLIENT",
		Short: "Print, or write, a client's configuration for an MCP server",
		Long: `Print the entry of the MCP server of a vacant, or of its host, for the configuration file of a client, an
editor or an assistant: ` + strings.Join(mcpclients.MCP.Names(), ", ") + `. NAME and URL have the meaning that they have for "vacancy mcp".

--write merges the entry into the file of the client. An entry of the same name is replaced. Comments,
the mode of the file and all other settings stay. FILE.before-vacancy is the previous version. A
symbolic link is not followed. A file that cannot be parsed is not changed.

An entry contains no key. If callers must pay, or if $VACANCY_KEY is set, the entry names this
variable, which must then be in the environment of the client. If the entry of a client cannot name
variables, the command prints a note. If possible, clients ask the server by HTTP. They start "vacancy
mcp" if they cannot use HTTP, with --as, and for your own host without a key.`,
		Example: `  vacancy mcp config demo --client claude-code
  vacancy mcp config https://agents.example.org/v/clerk --client cursor --write
  vacancy mcp config --host https://agents.example.org --client codex`,
	}, mcpclients.MCP, func(ctx context.Context, target string, s vacantOrHost, identityName string, where kit.HostFlags) (mcpclients.Entry, string, error) {
		e, err := newClientEntry(a, ctx, s, identityName, where)
		if err == nil && target == "" && identityName == "" && e.KeyVariable == "" && where.IsLocal(a) { // only a program on this machine has the operator's rights
			var data string
			data, err = a.DataDir(where.Data)
			e.URL, e.Args = "", []string{"mcp", "--data", data}
		}
		return e, s.mcpURL(), err
	})
}

// newConfigCommand completes cmd, which prints or writes an entry for a client's configuration
// file.
func newConfigCommand(a *kit.App, cmd *cobra.Command, clients mcpclients.Clients, buildEntry func(ctx context.Context, target string, s vacantOrHost, identityName string, where kit.HostFlags) (mcpclients.Entry, string, error)) *cobra.Command {
	var where kit.HostFlags
	var identityName, clientName string
	var write bool
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if clientName == "" {
			err := &problem.Error{Kind: problem.Usage, Field: "--client", Want: strings.Join(clients.Names(), ", "), Got: "none"}
			return kit.WithHint(err, "%s", a.CommandLineWithFlag("--client", clients.Names()[0]))
		}
		client, err := clients.Find(clientName)
		if err != nil {
			return err
		}
		s, err := findVacantOrHost(a, cmd.Context(), kit.OptionalArgument(args), where)
		if err != nil {
			return err
		}
		e, url, err := buildEntry(cmd.Context(), kit.OptionalArgument(args), s, identityName, where)
		if err != nil {
			return err
		}
		dir, err := os.Getwd()
		if err != nil {
			return err
		}
		home := a.UserHome()
		if home == "" {
			return problem.New(problem.Usage, "the user has no home directory, but clients store their files in it")
		}
		r := configResult{
			Client: client.Name, Server: url, Name: e.Name, File: client.Path(mcpclients.PathParams{OS: runtime.GOOS, WorkingDir: dir, HomeDir: home, Env: a.Env, EntryName: e.Name}), Scope: client.Scope,
			FileText: client.FormatFile(e), Variable: e.KeyVariable, NamesVariable: e.KeyVariable != "" && client.NamesVariable(e),
		}
		if write {
			if r.WriteResult, err = client.Write(r.File, e); err != nil {
				return writeError(r.File, err)
			}
			r.IsWritten = true
		} else {
			a.PrintNote("the entry belongs in %s, for %s; --write merges it", kit.EscapeLine(r.File), r.Scope)
		}
		switch {
		case r.Variable == "":
		case r.NamesVariable:
			a.PrintNote("the key of an account is read from $%s in the environment of %s", r.Variable, r.Client)
		case client.StartsServer(e):
			a.PrintNote("an entry of %s cannot name a variable: start %s with an account key in the environment variable $%s, which the program inherits", r.Client, r.Client, r.Variable)
		}
		return a.PrintResult(r)
	}
	fs := cmd.Flags()
	fs.StringVar(&clientName, "client", "", "the client: "+strings.Join(clients.Names(), ", "))
	// The only error is that the flag does not exist.
	_ = cmd.RegisterFlagCompletionFunc("client", cobra.FixedCompletions(clients.Names(), cobra.ShellCompDirectiveNoFileComp))
	fs.StringVar(&identityName, "as", "", "the identity that signs each call; the client then starts a program")
	fs.BoolVar(&write, "write", false, "merge the entry into the client's file")
	kit.AddHostFlags(fs, &where)
	return cmd
}

// newCommandEntry returns an entry that makes the client start this program, with a command that serves s.
func newCommandEntry(a *kit.App, s vacantOrHost, command, identityName string) (mcpclients.Entry, error) {
	e := mcpclients.Entry{Name: mcpclients.SafeEntryName(cmp.Or(s.vacantName, "vacancy")), Args: []string{command}}
	if s.vacantName != "" {
		e.Args = append(e.Args, s.vacantName)
	}
	e.Args = append(e.Args, "--host", s.hostURL)
	isInstalled := false
	if e.Command, isInstalled = a.Executable(); !isInstalled && a.Seams.Program != "" {
		a.PrintNote("clients start this program as \"vacancy\" from their PATH; to install it: go install ./cmd/vacancy")
	}
	if identityName == "" {
		return e, nil
	}
	h, err := a.IdentityDir()
	if err != nil {
		return e, err
	}
	if _, err := a.OpenIdentity(h, identityName); err != nil {
		return e, err
	}
	if e.Args = append(e.Args, "--as", identityName); a.Env["VACANCY_HOME"] != "" {
		e.Env = []mcpclients.Variable{{Name: "VACANCY_HOME", Value: filepath.Dir(h.Dir)}}
	}
	return e, nil
}

func newClientEntry(a *kit.App, ctx context.Context, s vacantOrHost, identityName string, where kit.HostFlags) (mcpclients.Entry, error) {
	e, err := newCommandEntry(a, s, "mcp", identityName)
	if err != nil || identityName != "" {
		return e, err
	}
	e.URL = s.mcpURL()
	relay, err := s.newRelay(a, ctx, where)
	if err != nil {
		return e, err
	}
	tools, err := relay.ListTools(ctx)
	switch {
	case err != nil:
		return e, err
	case s.vacantName != "" && !slices.Contains(tools, "ask"):
		return e, kit.WithHint(problem.New(problem.Forbidden, "%s answers only signed calls", kit.EscapeLine(s.vacantName)), "%s", a.CommandLineWithFlag("--as", "IDENTITY"))
	case relay.Key != "":
		e.KeyVariable = kit.AccountKeyEnv
	case s.vacantName != "":
		card, err := agents.FetchCard(ctx, a.HTTPTransport(0), s.vacantURL())
		if err != nil {
			return e, err
		}
		if card.MaxCharge > 0 {
			e.KeyVariable = kit.AccountKeyEnv
		}
	}
	return e, nil
}

// configResult is an entry in a client's configuration file.
type configResult struct {
	Client        string `json:"client"`
	Server        string `json:"server"`
	Name          string `json:"name"`
	File          string `json:"file"`
	Scope         string `json:"scope"` // users of the file
	FileText      string `json:"entry"` // complete file that contains the entry
	Variable      string `json:"variable,omitempty"`
	NamesVariable bool   `json:"variable_named"` // the entry contains the variable's name
	IsWritten     bool   `json:"written"`
	mcpclients.WriteResult
}

func (r configResult) Print(w io.Writer) {
	if !r.IsWritten {
		fmt.Fprint(w, r.FileText)
		return
	}
	switch {
	case r.Unchanged:
		fmt.Fprintf(w, "%s has the entry %s already\n", kit.EscapeLine(r.File), r.Name)
	case r.Replaced:
		fmt.Fprintf(w, "replaced the entry %s in %s\n", r.Name, kit.EscapeLine(r.File))
	default:
		fmt.Fprintf(w, "wrote the entry %s into %s\n", r.Name, kit.EscapeLine(r.File))
	}
	if r.Backup != "" {
		fmt.Fprintf(w, "the previous version is in %s\n", kit.EscapeLine(r.Backup))
	}
}
