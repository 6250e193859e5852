package callcmd

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/teamcmd"
	"github.com/vacancy-host/vacancy/shared/front/mcpserver/mcprelay"
	"github.com/vacancy-host/vacancy/shared/front/message"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func mcpCommand(a *kit.App) *cobra.Command {
	var where kit.HostFlags
	var identityName string
	cmd := &cobra.Command{
		Use:   "mcp [NAME|URL]",
		Short: "Serve a vacant to an editor or assistant by MCP",
		Long: `Serve the MCP server of a vacant or of its host on standard input and output, for MCP clients
that start a program. NAME is a vacant of the host on this machine, or of --host. URL is the
URL of a vacant or of a host. If neither is given, the server is the host's, and its tools
find and ask all published vacants.

For the operator of the host, and for a key with the scope agents, the host's server also has
the tools of "vacancy run" and "vacancy task". They dispatch tasks to your own agents. If a
task names a Markdown file below the working directory, the text of the file replaces the
name.

The caller is a guest, or the account of the key in $VACANCY_KEY. The key is sent only to the
host of --host or $VACANCY_HOST, or to this machine. With --as the identity signs each call,
and each answer is verified, as by "vacancy call". Only one signed call of a vacant is made at
a time, and stop_task is refused.

Logs go to standard error. When the input ends, the program waits up to ten seconds for
running requests, and then ends. If the client cancels a question, the question is stopped at
the host. A signed question is not stopped; ask it again to get its answer.

"vacancy mcp config" prints the configuration for a client.`,
		Example: `  vacancy mcp demo
  vacancy mcp https://agents.example.org/v/clerk
  vacancy mcp demo --as alice
  vacancy mcp --host https://agents.example.org`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			s, err := findVacantOrHost(a, ctx, kit.OptionalArgument(args), where)
			if err != nil {
				return err
			}
			if !a.Piped {
				a.PrintNote("serving %s by MCP on standard input and output; a client should start this command; Ctrl-C ends it", kit.EscapeLine(s.mcpURL()))
			}
			if identityName != "" {
				return serveSigned(a, ctx, s, identityName, where)
			}
			relay, err := s.newRelay(a, ctx, where)
			if err != nil {
				return err
			}
			if s.vacantName != "" || len(args) > 0 { // a URL may belong to another host than the flags
				return relay.Serve(ctx, a.In, a.Out)
			}
			err = teamcmd.WithClient(ctx, a, where, func(c op.Client) error {
				team := teamcmd.NewStdioTeam(c)
				if _, err := team.Agents(ctx); isNoTeamError(err) { // other errors, such as an unreachable host, may be temporary
					return err
				}
				relay.Team = team
				return relay.Serve(ctx, a.In, a.Out)
			})
			if relay.Team == nil && isNoTeamError(err) {
				a.PrintNote("the tools for a team of agents are not served: %s", kit.EscapeLine(problem.AsError(err).Text()))
				return relay.Serve(ctx, a.In, a.Out)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&identityName, "as", "", "the identity that signs each call (default: calls are not signed)")
	kit.AddHostFlags(cmd.Flags(), &where)
	cmd.AddCommand(mcpConfigCommand(a))
	return cmd
}

// isNoTeamError reports whether the client may not dispatch tasks to agents.
func isNoTeamError(err error) bool {
	return problem.Is(err, problem.ScopeRequired) || problem.Is(err, problem.Unauthorized) || problem.Is(err, problem.Forbidden) || problem.Is(err, problem.NotFound)
}

// vacantOrHost is the host or vacant that the argument NAME or URL names.
type vacantOrHost struct {
	hostURL    string
	vacantName string // name or id of the vacant; "" for the host's server
}

func findVacantOrHost(a *kit.App, ctx context.Context, target string, where kit.HostFlags) (vacantOrHost, error) {
	if kit.IsURL(target) { // URL of a vacant, a host, or the MCP server of either
		u, err := dispatch.ParseURL(target)
		if err != nil {
			return vacantOrHost{}, err
		}
		if u.RawQuery != "" {
			return vacantOrHost{}, &problem.Error{Kind: problem.Usage, Field: "url", Want: "a URL without ?", Got: fmt.Sprintf("%.80q", target)}
		}
		path, name, _ := strings.Cut(u.EscapedPath(), "/v/")
		name, rest, _ := strings.Cut(name, "/")
		path = strings.TrimRight(path, "/")
		if name == "" {
			path = strings.TrimSuffix(path, message.MCPPath)
		}
		if name, err = url.PathUnescape(name); err != nil || strings.Trim("/"+rest, "/") != "" && "/"+strings.Trim(rest, "/") != message.MCPPath && rest != "a2a/message/send" {
			return vacantOrHost{}, &problem.Error{Kind: problem.Usage, Field: "url", Want: "the URL of a vacant, such as https://agents.example.org/v/clerk, or of a host", Got: fmt.Sprintf("%.120q", target)}
		}
		return vacantOrHost{hostURL: u.Scheme + "://" + u.Host + path, vacantName: name}, nil
	}
	if target != "" && registry.CheckName(target) != nil {
		if _, err := identity.ParseID(target); err != nil {
			return vacantOrHost{}, problem.New(problem.Usage, "%.80q is not a URL or the name of a vacant", target)
		}
	}
	base, err := a.AgentURL(ctx, where)
	return vacantOrHost{strings.TrimRight(base, "/"), target}, err
}

func (s vacantOrHost) vacantURL() string { return s.hostURL + "/v/" + url.PathEscape(s.vacantName) }

// agentURL returns the URL of the vacant, or of the host's own agent.
func (s vacantOrHost) agentURL() string {
	if s.vacantName == "" {
		return s.hostURL
	}
	return s.vacantURL()
}

func (s vacantOrHost) mcpURL() string {
	if s.vacantName == "" {
		return s.hostURL + message.MCPPath
	}
	return s.vacantURL() + message.MCPPath
}

// newRelay returns a relay that sends the account key for the host, if there is one.
func (s vacantOrHost) newRelay(a *kit.App, ctx context.Context, where kit.HostFlags) (*mcprelay.Relay, error) {
	key, err := a.AccountKeyFor(ctx, where, s.hostURL)
	if err != nil {
		return nil, err
	}
	u, err := dispatch.ParseURL(s.hostURL)
	if err != nil {
		return nil, err
	}
	if key != "" && kit.IsInsecureURL(u) {
		return nil, problem.New(problem.Usage, "the account's key would be sent to %s without encryption: use https", u.Host)
	}
	return &mcprelay.Relay{URL: s.mcpURL(), Key: key, Transport: a.HTTPTransport(0), StopTasks: true, Logf: a.PrintNote}, nil
}
