package callcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/mcpclients"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func discoverCommand(a *kit.App) *cobra.Command {
	return a.ParentCommand(&cobra.Command{
		Use:     "discover",
		Short:   "Write files by which other programs find a vacant",
		Long:    `Write files for another program, so that the program finds a vacant and can call it by A2A.`,
		Example: "  vacancy discover gemini fox",
	}, discoverGeminiCommand(a))
}

type geminiFlags struct {
	root, authEnv                 string
	user, remove, disable, dryRun bool
	where                         kit.HostFlags
}

func discoverGeminiCommand(a *kit.App) *cobra.Command {
	var f geminiFlags
	cmd := &cobra.Command{
		Use:   "gemini [NAME|URL]",
		Short: "Write the files by which Gemini CLI finds an agent",
		Long: `Write .gemini/agents/NAME.md with the address of an agent's card, and set
experimental.enableAgents in .gemini/settings.json. Gemini CLI then loads the agent. NAME is a
vacant of the host on this machine, or of --host. URL is the URL of a vacant, or of another
A2A agent.

The files are in the folder --root, for the project in this folder. With --user they are in
your home directory, for all projects. All other settings and the comments stay. A file that
cannot be parsed is not changed. Before a file changes, it is copied to FILE.before-vacancy.
If you run the command again, nothing changes.

With --auth-env VAR, Gemini CLI sends the key in this environment variable. The files contain
no key. --remove deletes the agent's file. --disable sets experimental.enableAgents to false,
and needs no agent. --dry-run only prints the files.`,
		Example: `  vacancy discover gemini fox
  vacancy discover gemini https://agents.example.org/v/fox --auth-env VACANCY_KEY
  vacancy discover gemini fox --user --dry-run
  vacancy discover gemini fox --remove
  vacancy discover gemini --disable`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(a, cmd, kit.OptionalArgument(args))
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.root, "root", ".", "the `FOLDER` of the project")
	fs.BoolVar(&f.user, "user", false, "write into your home directory instead")
	fs.StringVar(&f.authEnv, "auth-env", "", "the environment variable `VAR` with the key that Gemini CLI sends")
	fs.BoolVar(&f.remove, "remove", false, "delete the agent's file")
	fs.BoolVar(&f.disable, "disable", false, "set experimental.enableAgents to false")
	fs.BoolVar(&f.dryRun, "dry-run", false, "print what would be written")
	kit.AddHostFlags(fs, &f.where)
	return cmd
}

// variableNamePattern matches names of environment variables. Keys of accounts do not match, because they have
// lowercase letters.
var variableNamePattern = regexp.MustCompile(`^[A-Z_][A-Z0-9_]*$`)

func (f *geminiFlags) check(hasRoot bool, hasAgent bool) error {
	switch {
	case f.user && hasRoot:
		return problem.New(problem.Usage, "--root: not supported together with --user")
	case f.remove && (f.disable || f.authEnv != ""):
		return problem.New(problem.Usage, "--disable and --auth-env: not supported together with --remove")
	case !hasAgent && (f.authEnv != "" || !f.disable):
		return problem.New(problem.Usage, "NAME: expected the name or the URL of an agent, for example fox, got none")
	case f.authEnv != "" && !variableNamePattern.MatchString(f.authEnv): // the value may be a key
		return problem.New(problem.Usage, "--auth-env: expected the name of an environment variable in upper case, for example %s, got another value", kit.AccountKeyEnv)
	}
	return nil
}

func (f *geminiFlags) run(a *kit.App, cmd *cobra.Command, target string) error {
	ctx := cmd.Context()
	if err := f.check(cmd.Flags().Changed("root"), target != ""); err != nil {
		return err
	}
	root, err := filepath.Abs(f.root)
	if f.user {
		if root = a.UserHome(); root == "" {
			err = problem.New(problem.Usage, "--user: the user has no home directory")
		}
	}
	if err != nil {
		return err
	}
	r := discoverResult{DryRun: f.dryRun}
	updateFile := func(path string, merge func([]byte) ([]byte, bool, error)) error {
		w, err := mcpclients.UpdateFile(path, f.dryRun, merge)
		if err != nil {
			return writeError(path, err)
		}
		r.addFile(path, w)
		return nil
	}
	name, file := "", []byte(nil)
	if target != "" {
		if name, file, err = f.buildAgentFile(a, ctx, target); err != nil {
			return err
		}
	}
	if !f.remove {
		if err := updateFile(filepath.Join(root, ".gemini", "settings.json"), func(old []byte) ([]byte, bool, error) {
			merged, replaced, err := mcpclients.GeminiAgents.Merge(old, mcpclients.Entry{Name: "enableAgents", Value: !f.disable})
			if err != nil {
				err = problem.Wrap(problem.Damaged, err, "%s", problem.AsError(err).Text())
			}
			return merged, replaced, err
		}); err != nil {
			return err
		}
	}
	if name != "" {
		if err := updateFile(filepath.Join(root, ".gemini", "agents", name+".md"), func(old []byte) ([]byte, bool, error) {
			if old != nil && !strings.Contains("\n"+string(old), "\n"+cardLine) {
				return nil, false, problem.New(problem.Usage, "expected the file of an A2A agent, with a line that begins with %q", strings.TrimSpace(cardLine))
			}
			return file, old != nil, nil
		}); err != nil {
			return err
		}
	}
	return a.PrintResult(r)
}

// buildAgentFile returns the name and the content of an agent's file. The content is nil if
// --remove is set.
func (f *geminiFlags) buildAgentFile(a *kit.App, ctx context.Context, target string) (slug string, file []byte, err error) {
	s, err := findVacantOrHost(a, ctx, target, f.where)
	if err != nil {
		return "", nil, err
	}
	name := s.vacantName
	if f.remove && name != "" {
		slug, err = toGeminiName(name)
		return slug, nil, err
	}
	card, err := fetchAgentCard(a, ctx, s)
	if err != nil {
		return "", nil, err
	}
	name = cmp.Or(name, card.Name)
	if slug, err = toGeminiName(name); err != nil || f.remove {
		return slug, nil, err
	}
	if f.authEnv == "" && (card.MaxCharge > 0 || !card.AcceptsGuests) {
		a.PrintNote("%s answers only callers with a key: add --auth-env %s, the variable that contains the key", kit.EscapeLine(card.Name), kit.AccountKeyEnv)
	}
	return slug, formatGeminiAgent(name, slug, s.agentURL(), card.Description, f.authEnv), nil
}

func writeError(path string, err error) error {
	if errors.As(err, new(*problem.Error)) {
		return err
	}
	return problem.Wrap(problem.Usage, err, "%s cannot be written: %s", path, err)
}

const maxGeminiName = 100

// toGeminiName returns the name of an agent in Gemini CLI, which skips files whose names begin with
// _.
func toGeminiName(name string) (string, error) {
	slug := strings.Trim(regexp.MustCompile(`[^a-z0-9_-]+`).ReplaceAllString(strings.ToLower(name), "-"), "-_")
	if strings.ContainsAny(name, `/\`) || strings.Contains(name, "..") || slug == "" || len(slug) > maxGeminiName {
		return "", &problem.Error{Kind: problem.Usage, Field: "NAME", Want: "the name of an agent, which consists of letters, digits, _ and -", Got: fmt.Sprintf("%.80q", name)}
	}
	return slug, nil
}

// cardLine begins the line with the card's address in an agent's file.
const cardLine = "agent_card_url: "

func formatGeminiAgent(name, slug, url, description, authEnv string) []byte {
	auth := ""
	if authEnv != "" {
		auth = "auth:\n  type: http\n  scheme: Bearer\n  token: $" + authEnv + "\n"
	}
	text := strings.TrimSpace(kit.EscapeControls(description, "\n"))
	return fmt.Appendf(nil, "---\nkind: remote\nname: %s\n%s%s/.well-known/agent-card.json\n%s---\n\n# %s\n\n%s\n",
		slug, cardLine, url, auth, kit.EscapeLine(name), cmp.Or(text, "An agent that answers by A2A."))
}

type discoverResult struct {
	Files  []fileChange `json:"files"`
	DryRun bool         `json:"dry_run,omitempty"`
}

type fileChange struct {
	Path    string `json:"path"`
	Change  string `json:"change"` // made, changed, unchanged, removed or missing
	Content string `json:"content,omitempty"`
	Backup  string `json:"backup,omitempty"`
}

func (r *discoverResult) addFile(path string, written mcpclients.WriteResult) {
	f := fileChange{Path: path, Change: "changed", Backup: written.Backup}
	switch {
	case written.Content == nil && written.Unchanged:
		f.Change = "missing"
	case written.Content == nil:
		f.Change = "removed"
	case written.Unchanged:
		f.Change = "unchanged"
	case written.Created:
		f.Change = "made"
	}
	if r.DryRun {
		f.Content = string(written.Content)
	}
	r.Files = append(r.Files, f)
}

func (r discoverResult) Print(w io.Writer) {
	for _, f := range r.Files {
		prefix := kit.FormatIf(r.DryRun && f.Change != "unchanged" && f.Change != "missing", "would be ")
		fmt.Fprintf(w, "%-10s %s\n", prefix+f.Change, kit.EscapeLine(f.Path))
		if f.Backup != "" {
			fmt.Fprintf(w, "           the previous version is in %s\n", kit.EscapeLine(f.Backup))
		}
		if f.Content != "" {
			fmt.Fprintf(w, "\n%s\n", kit.EscapeControls(f.Content, "\n\t"))
		}
	}
}
