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

func (f *AgentFlags) Add(fs *pflag.FlagSet) {
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

// WarnOf prints the warnings of an agent's file.
func WarnOf(a *kit.App, name string, warnings []string) {
	for _, w := range warnings {
		a.Note("warning: agent of %s: %s", name, kit.Printable(kit.Clip(w, kit.MaxShownCause)))
	}
}

// WarnOfVersion prints the warnings for the next version of an agent. It also warns if the
// description in the file differs from the vacant's capability. The capability is not changed,
// because it may be published.
func WarnOfVersion(a *kit.App, v *admin.Vacant, file agentfile.File) {
	WarnOf(a, v.Name, file.Agent.Warnings)
	if description := file.Agent.Description; description != "" && description != v.Capability {
		a.Note("warning: the capability of %s is still %q, but its file says %q; to change it: %s", v.Name, kit.Clip(v.Capability, kit.MaxShownCause), kit.Clip(description, kit.MaxShownCause),
			a.Command("update %s %s", v.Name, kit.ShellWord("capability="+description)))
	}
}

// shownAgent is the output for a vacant's agent.
type shownAgent struct {
	Version  int                  `json:"version"`
	Agent    json.RawMessage      `json:"agent"`
	Settings []definition.Setting `json:"settings"`
}

func newShownAgent(a *admin.Agent) *shownAgent { return &shownAgent{a.Version, a.Agent, a.Settings} }

func agentOf(ctx context.Context, c *kit.AdminAPI, v *admin.Vacant) (*shownAgent, error) {
	spec, err := substrate.Parse(v.Substrate)
	if v.Deleted != "" || err != nil || v.Agent == 0 && !spec.IsModel() {
		return nil, nil
	}
	got, err := admin.GetAgent.Call(ctx, c, admin.AgentVersion{VacantRequest: admin.VacantRequest{Vacant: v.ID.String()}})
	if problem.Is(err, problem.Conflict) { // the vacant answers by a plan
		return nil, nil
	}
	return newShownAgent(&got), err
}

func agentsImportCommand(a *kit.App) *cobra.Command {
	var w kit.Where
	var f AgentFlags
	var substrate, tenant string
	cmd := &cobra.Command{
		Use:   "import DIR|FILE",
		Short: "Host a vacant for each agent file in a folder",
		Long: `Host a vacant for each file NAME.md in DIR, or for FILE, with the file's description as its
capability. An existing vacant is not changed; "vacancy update NAME --from FILE" changes it.
A file that cannot be read is reported; the other files are hosted, and the exit code is 1.

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
			return a.WithAdmin(w, true, func(c *kit.AdminAPI) error {
				r := importResult{OK: true}
				for _, path := range files {
					f.From = path
					agent := importedAgent{File: path}
					file, err := f.Read(substrate)
					if err == nil && file.Agent.Description == "" {
						err = problem.New(problem.Usage, "%s: description: expected a description of what the agent can do, got none", path)
					}
					if err == nil {
						agent.Name = file.Name
						var made admin.Vacant
						made, err = admin.CreateVacant.Call(cmd.Context(), c, op.Of(admin.Creation{Name: file.Name, Capability: file.Agent.Description, Agent: file.Agent.Blob(), Tenant: tenant}))
						agent.ID, agent.Warnings = made.ID.String(), file.Agent.Warnings
					}
					if problem.Is(err, problem.Conflict) {
						if there, showErr := c.Show(cmd.Context(), file.Name); showErr == nil && there.Name == file.Name {
							agent.ID, agent.There, agent.Warnings, err = there.ID.String(), true, nil, nil
						}
					}
					if err != nil {
						agent.ID, agent.Problem = "", problem.AsError(err).Text()
					} else {
						WarnOf(a, agent.Name, agent.Warnings)
					}
					if err := cmd.Context().Err(); err != nil {
						return err
					}
					r.OK = r.OK && agent.Problem == ""
					r.Agents = append(r.Agents, agent)
				}
				if err := a.Show(r); err != nil || r.OK {
					return err
				}
				return &kit.Reported{}
			})
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.root, "root", "", "the `DIR` with instructions and rules of all agents")
	fs.StringVar(&substrate, "substrate", "", "KIND:MODEL for all, instead of the substrates in the files")
	fs.StringVar(&tenant, "tenant", "", "the tenant that they are hosted for (default: you)")
	kit.HostFlags(fs, &w)
	return cmd
}

type importedAgent struct {
	File     string   `json:"file"`
	Name     string   `json:"name,omitempty"`
	ID       string   `json:"vacant_id,omitempty"`
	There    bool     `json:"was_there,omitempty"`
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
			fmt.Fprintf(w, "%s  %s\n", kit.Verdict(w, false, "FAIL"), kit.Printable(text))
		case agent.There:
			fmt.Fprintf(w, "      %s (%.12s) already exists\n", agent.Name, agent.ID)
		default:
			fmt.Fprintf(w, "%s  %s (%.12s) of %s\n", kit.Verdict(w, true, "ok  "), agent.Name, agent.ID, kit.Printable(agent.File))
		}
	}
}

// onlyAgentSettings reports whether all arguments KEY=VALUE are settings of an agent. It returns an
// error if only some are.
func onlyAgentSettings(settings []string) (bool, error) {
	is := func(s string) bool { return strings.Contains(s, "=") && agentfile.IsSetting(settingKey(s)) }
	if !slices.ContainsFunc(settings, is) {
		return false, nil
	}
	for _, s := range settings {
		if !is(s) {
			return false, problem.New(problem.Usage, "%.40q is not a setting of the vacant's agent; change the vacant and its agent with two commands", settingKey(s))
		}
	}
	return true, nil
}
