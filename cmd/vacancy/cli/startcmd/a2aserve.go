package startcmd

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/vacantcmd"
	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/host/substrate/echo"
	"github.com/vacancy-host/vacancy/shared/host/substrate/mock"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
)

const defaultA2APort = 10010

func a2aCommand(a *kit.App) *cobra.Command {
	return a.ParentCommand(&cobra.Command{
		Use:     "a2a",
		Short:   "Run an agent for A2A clients",
		Example: "  vacancy a2a serve --substrate ollama:llama3.2",
	}, a2aServeCommand(a))
}

func a2aServeCommand(a *kit.App) *cobra.Command {
	var substrate, name, capability string
	var port int
	var agentFlags vacantcmd.AgentFlags
	var hostFlags settingFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve one agent to A2A clients on this machine, in memory only",
		Long: `Serve an agent at / to clients of A2A 1.0 and 0.3 on this machine, with its card at
/.well-known/agent-card.json. The agent's key, tasks and conversations are in memory
only. They are lost when the command ends.

--substrate chooses the agent as in "vacancy create"; --from reads it from a file. With
--substrate conformance (or conformance:0.3) the agent answers as the conformance kits
of A2A require.`,
		Example: `  vacancy a2a serve --substrate ollama:llama3.2
  vacancy a2a serve --from agents/sage.md --port 0
  vacancy a2a serve --substrate conformance`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			hostSettings, err := hostFlags.parse()
			if err != nil {
				return err
			}
			if port < 0 || port > 65535 {
				return problem.New(problem.Usage, "--port: expected 0 to 65535, got %d", port)
			}
			file, err := agentFlags.Read(substrate)
			if err != nil {
				return err
			}
			spec := vacants.CreateSpec{Name: cmp.Or(name, file.Name, "agent"), Capability: capability, Substrate: cmp.Or(substrate, echo.Kind)}
			if file.Name != "" {
				spec.Agent, spec.Substrate, spec.Capability = &file.Agent, "", cmp.Or(spec.Capability, file.Agent.Description)
			}
			spec.Capability = cmp.Or(spec.Capability, "answers messages as "+spec.Name)
			listener, err := listenLoopback(a, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
			if err != nil {
				return err
			}
			url := "http://" + listener.Addr().String() + "/"
			logHandler, _, err := a.NewLogHandler()
			if err != nil {
				return errors.Join(err, listener.Close())
			}
			s := standalone.MemoryHost{Listener: listener, VacantSpec: spec, Substrates: mock.Kinds(), Host: hostSettings, Log: slog.New(logHandler)}
			return s.Run(cmd.Context(), func(r vacants.Record) error {
				return a.PrintResult(a2aServeResult{Name: r.Name, ID: r.ID.String(), URL: url, Card: url + ".well-known/agent-card.json"})
			})
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&substrate, "substrate", "", "the agent's substrate, as in \"vacancy create\" (default echo)")
	fs.StringVar(&name, "name", "", "the agent's name (default: the file's name, else agent)")
	fs.StringVar(&capability, "capability", "", "what the agent can do, for its card")
	fs.IntVar(&port, "port", defaultA2APort, "the port on 127.0.0.1; 0 picks a free one")
	agentFlags.Register(fs)
	a.AddLogFlag(fs)
	hostFlags.register(fs, "a2a serve")
	return cmd
}

// a2aServeResult is printed when the agent is ready.
type a2aServeResult struct {
	Name string `json:"name"`
	ID   string `json:"vacant_id"`
	URL  string `json:"url"`
	Card string `json:"card"`
}

func (r a2aServeResult) Print(w io.Writer) {
	fmt.Fprintf(w, "%s answers A2A clients at %s\n  its card is %s\n\nCtrl-C ends it. The log:\n\n", r.Name, r.URL, r.Card)
}
