package vacantcmd

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vacancy-host/vacancy/cmd/vacancy/agentfile"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// AgentFlags contains the flags that select an agent's file.
type AgentFlags struct{ From, root string }

func (f *AgentFlags) Register(fs *pflag.FlagSet) {
	fs.StringVar(&f.From, "from", "", "the `FILE` of its agent (vacancy help agent-files)")
	fs.StringVar(&f.root, "root", "", "with --from: the `DIR` with instructions and rules of all agents")
}

// Read reads the agent's file. If substrate is not "", it replaces the substrate in the file. If
// --from is not set, Read returns the zero File.
func (f *AgentFlags) Read(substrate string) (agentfile.File, error) {
	switch {
	case f.From == "" && f.root != "":
		return agentfile.File{}, problem.New(problem.Usage, "--root: not supported without --from")
	case f.From == "":
		return agentfile.File{}, nil
	}
	return agentfile.Read(f.From, agentfile.Options{Root: f.root, Substrate: substrate})
}

func PrintWarnings(a *kit.App, name string, warnings []string) {
	for _, w := range warnings {
		a.PrintNote("warning: agent of %s: %s", name, kit.EscapeLine(kit.Truncate(w, kit.MaxShownCause)))
	}
}

// PrintVersionWarnings prints the warnings for the next version of an agent. It also warns if the
// description in the file differs from the vacant's capability. The capability is not changed,
// because it may be published.
func PrintVersionWarnings(a *kit.App, v *admin.Vacant, file agentfile.File) {
	PrintWarnings(a, v.Name, file.Agent.Warnings)
	if description := file.Agent.Description; description != "" && description != v.Capability {
		a.PrintNote("warning: the capability of %s is still %q, but its file says %q; to change it: %s", v.Name, kit.Truncate(v.Capability, kit.MaxShownCause), kit.Truncate(description, kit.MaxShownCause),
			a.FormatCommand("update %s %s", v.Name, kit.ShellWord("capability="+description)))
	}
}

type agentResult struct {
	Version  int                  `json:"version"`
	Agent    json.RawMessage      `json:"agent"`
	Settings []definition.Setting `json:"settings"`
}

func newAgentResult(a *admin.Agent) *agentResult { return &agentResult{a.Version, a.Agent, a.Settings} }

func fetchAgent(ctx context.Context, c *kit.AdminAPI, v *admin.Vacant) (*agentResult, error) {
	spec, err := substrate.Parse(v.Substrate)
	if v.DeletedAt != "" || err != nil || v.AgentVersion == 0 && !spec.IsModel() {
		return nil, nil
	}
	agent, err := admin.GetAgent.Call(ctx, c, admin.AgentRequest{VacantRef: admin.VacantRef{Vacant: v.ID.String()}})
	if problem.Is(err, problem.Conflict) { // the vacant answers by a plan
		return nil, nil
	}
	return newAgentResult(&agent), err
}

func agentsImportCommand(a *kit.App) *cobra.Command {
	var where kit.HostFlags
	var agentFlags AgentFlags
	var substrate, tenant string
	cmd := &cobra.Command{
		Use:   "import DIR|FILE",
		Short: "Host a vacant for each agent file in a folder",
		Long: `Host a vacant for each file NAME.md in DIR, or for FILE. The file's description becomes the
vacant's capability. An existing vacant is not changed; "vacancy update NAME --from FILE" changes
it. If a file cannot be imported, the command reports it and continues with the next file. The exit
code is then 1.

"vacancy help agent-files" describes these files.`,
		Example: "  vacancy agents import ./agents --root . --substrate ollama:llama3.2",
		RunE: func(cmd *cobra.Command, args []string) error {
			info, err := os.Stat(args[0])
			if err != nil {
				return err
			}
			files := args
			if info.IsDir() {
				if files, err = filepath.Glob(filepath.Join(args[0], "*.md")); err != nil {
					return problem.New(problem.Usage, "%s: expected the name of a folder", args[0])
				}
				if len(files) == 0 {
					return problem.New(problem.NotFound, "%s: there is no file NAME.md", args[0])
				}
			}
			return a.WithAdmin(where, true, func(c *kit.AdminAPI) error {
				r := importResult{OK: true}
				for _, path := range files {
					agentFlags.From = path
					imported := importedAgent{File: path}
					file, err := agentFlags.Read(substrate)
					if err == nil && file.Agent.Description == "" {
						err = problem.New(problem.Usage, "%s: description: expected a description of what the agent can do, got none", path)
					}
					if err == nil {
						imported.Name = file.Name
						var vacant admin.Vacant
						vacant, err = admin.CreateVacant.Call(cmd.Context(), c, op.NewBody(admin.Creation{Name: file.Name, Capability: file.Agent.Description, Agent: file.Agent.Blob(), Tenant: tenant}))
						imported.ID, imported.Warnings = vacant.ID.String(), file.Agent.Warnings
					}
					if problem.Is(err, problem.Conflict) {
						if existing, showErr := c.ShowVacant(cmd.Context(), file.Name); showErr == nil && existing.Name == file.Name {
							imported.ID, imported.Existed, imported.Warnings, err = existing.ID.String(), true, nil, nil
						}
					}
					if err != nil {
						imported.ID, imported.Problem = "", problem.AsError(err).Text()
					} else {
						PrintWarnings(a, imported.Name, imported.Warnings)
					}
					if err := cmd.Context().Err(); err != nil {
						return err
					}
					r.OK = r.OK && imported.Problem == ""
					r.Agents = append(r.Agents, imported)
				}
				if err := a.PrintResult(r); err != nil || r.OK {
					return err
				}
				return &kit.ReportedError{}
			})
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&agentFlags.root, "root", "", "the `DIR` with instructions and rules of all agents")
	fs.StringVar(&substrate, "substrate", "", "KIND:MODEL for all, instead of the substrates in the files")
	fs.StringVar(&tenant, "tenant", "", "the tenant that they are hosted for (default: you)")
	kit.AddHostFlags(fs, &where)
	return cmd
}

type importedAgent struct {
	File     string   `json:"file"`
	Name     string   `json:"name,omitempty"`
	ID       string   `json:"vacant_id,omitempty"`
	Existed  bool     `json:"was_there,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	Problem  string   `json:"problem,omitempty"`
}

type importResult struct {
	OK     bool            `json:"ok"`
	Agents []importedAgent `json:"agents"`
}

func (r importResult) Print(w io.Writer) {
	for _, agent := range r.Agents {
		switch {
		case agent.Problem != "":
			text := agent.Problem
			if !strings.HasPrefix(text, agent.File) { // errors of the host do not name the file
				text = agent.File + ": " + text
			}
			fmt.Fprintf(w, "%s  %s\n", kit.PaintVerdict(w, false, "FAIL"), kit.EscapeLine(text))
		case agent.Existed:
			fmt.Fprintf(w, "      %s (%.12s) already exists\n", agent.Name, agent.ID)
		default:
			fmt.Fprintf(w, "%s  %s (%.12s) from %s\n", kit.PaintVerdict(w, true, "ok  "), agent.Name, agent.ID, kit.EscapeLine(agent.File))
		}
	}
}

// areAgentSettings reports whether the arguments KEY=VALUE are settings of an agent. It returns an
// error if only some of them are.
func areAgentSettings(settings []string) (bool, error) {
	isAgentSetting := func(s string) bool { return strings.Contains(s, "=") && agentfile.CanSet(settingKey(s)) }
	if !slices.ContainsFunc(settings, isAgentSetting) {
		return false, nil
	}
	for _, s := range settings {
		if !isAgentSetting(s) {
			return false, problem.New(problem.Usage, "%.40q is not a setting of the vacant's agent; change the vacant and its agent with two commands", settingKey(s))
		}
	}
	return true, nil
}
