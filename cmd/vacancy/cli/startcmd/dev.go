// Package startcmd implements the commands that start a host or an agent: dev, serve, watch, new
// and a2a.
package startcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/origin"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/front/setting"
	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/host/substrate/mock"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Group contains the commands that start a host or an agent.
var Group = kit.Group{
	Title: "Start here:",
	Commands: func(a *kit.App) []*cobra.Command {
		return []*cobra.Command{
			devCommand(a), newCommand(a), watchCommand(a), serveCommand(a), a2aCommand(a),
		}
	},
}

// shutdownGrace limits the time that running calls get after an interrupt.
const shutdownGrace = 10 * time.Second

func devCommand(a *kit.App) *cobra.Command {
	var data string
	var o devOptions
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run a host on this machine",
		Long: `Run a host on one data file until Ctrl-C. The first start creates a vacant named demo, which echoes
its messages. Each start calls demo over HTTP and verifies the answer. A later start continues with
the same data. Data of an earlier version of vacancy is copied and upgraded first.

The host has a registry with search and a log ("vacancy publish", "vacancy search", "vacancy log").
It listens on loopback only. The operator's API is a socket in the data directory, which only the
owner of the directory can open.

The log has one line per call: time, caller, vacant, number, verdict, milliseconds, and
why the call failed. "vacancy logs" shows it later. "vacancy serve" runs a host that other
machines can reach.

The search index is in the data directory. For more than 200,000 cards, use an
OpenSearch cluster (--opensearch). The first start fills the index in the cluster. If the
cluster requires a user, set $VACANCY_OPENSEARCH_USER and $VACANCY_OPENSEARCH_PASSWORD.`,
		Example: `  vacancy dev
  vacancy dev --listen 127.0.0.1:0 --data ./try
  vacancy dev --opensearch https://search.example:9200/cards`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			settings, err := o.settings.parse()
			if err != nil {
				return err
			}
			if err := checkNotRunning(a, cmd.Context(), data); err != nil {
				return err
			}
			h, url, err := prepareDevHost(a, o, settings)
			if err != nil {
				return err
			}
			h.data = data
			err = runHost(a, cmd.Context(), h, func(ctx context.Context, host *standalone.Host, dir string) error {
				r, err := tryDemo(a, ctx, host, dir, url)
				if err != nil {
					return err
				}
				dataArg := ""
				if data != "" {
					dataArg = kit.DataArg(r.Data)
				}
				if r.Call != nil {
					r.Try = append(r.Try, a.FormatCommand(`call %s "hello yourself"%s`, r.Demo.Name, dataArg))
					if r.handout.Curl != "" {
						r.Try = append(r.Try, r.handout.Curl)
					}
				}
				if r.isNewDemo {
					r.Try = append(r.Try, a.FormatCommand("new fox"))
				}
				r.Try = append(r.Try, a.FormatCommand("list%s", dataArg))
				return a.PrintResult(r)
			})
			if err == nil {
				printHostEnded(a, data)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&o.listen, "listen", kit.DefaultListen, "a loopback address and port; port 0 picks a free one")
	kit.AddClusterFlag(cmd.Flags(), &o.cluster)
	addWitnessFlag(cmd.Flags(), &o.witnesses)
	a.AddLogFlag(cmd.Flags())
	addDataFlags(cmd.Flags(), &o.newHost, &o.noUpgrade)
	o.settings.register(cmd.Flags(), "dev")
	cmd.Flags().BoolVar(&o.testClock, "test-clock", false, "let requests set the host's clock with the header X-Dev-Now, for tests")
	kit.AddDataFlag(cmd.Flags(), &data)
	return cmd
}

type devOptions struct {
	listen    string
	cluster   string // URL, or "" for an index in the data directory
	witnesses []string
	newHost   bool
	noUpgrade bool
	settings  settingFlags
	testClock bool
}

func prepareDevHost(a *kit.App, o devOptions, settings setting.Host) (hostRun, string, error) {
	listener, err := listenLoopback(a, o.listen)
	if err != nil {
		return hostRun{}, "", err
	}
	url := "http://" + listener.Addr().String()
	return hostRun{
		cluster: o.cluster,
		config:  standalone.Config{URL: url, AllowLoopback: true, OwnMachine: true, Substrates: mock.Kinds(), AllowNew: o.newHost, NoUpgrade: o.noUpgrade, Host: settings, TestClock: o.testClock},
		runOptions: standalone.RunConfig{Public: listener, WrapPublic: func(next http.Handler) http.Handler {
			return serve.LoopbackOnly(&origin.Judge{Allowed: settings.AllowedOrigins}, next)
		}, Witnesses: o.witnesses, Grace: shutdownGrace},
	}, url, nil
}

// listenLoopback listens on loopback only, because dev has no rate limits and no accounts for
// callers on other machines.
func listenLoopback(a *kit.App, listen string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return nil, problem.New(problem.Usage, "--listen: expected ADDRESS:PORT, got %q", listen)
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return nil, kit.WithHint(problem.New(problem.Usage, "--listen: expected a loopback address, got %q; dev serves this machine only", host), "%s", a.CommandLineWithFlag("--listen", kit.DefaultListen))
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, kit.WithHint(problem.New(problem.Unavailable, "--listen: %s is in use by another program; port 0 picks a free port", listen), "%s", a.CommandLineWithFlag("--listen", "127.0.0.1:0"))
	}
	if err != nil {
		return nil, problem.Wrap(problem.Usage, err, "--listen %s", listen)
	}
	return l, nil
}

func (r devResult) Print(w io.Writer) {
	fmt.Fprintf(w, "%s shows your host; its data is in %s\n", r.Pages, kit.EscapeLine(r.Data))
	switch {
	case r.Call != nil && r.Call.Text != nil:
		fmt.Fprintf(w, "%s answered %q with %q: call %d, signed and verified in %.1f ms\n", r.Demo.Name, r.demoMessage, *r.Call.Text, r.callSeq, r.Call.Timing.DurationMS)
	case r.Error != "":
		fmt.Fprintf(w, "%s was not called: %s\n", r.Demo.Name, kit.EscapeLine(r.Error))
	}
	if !r.isNewDemo {
		fmt.Fprintf(w, "Ctrl-C ends the host. %s shows what is hosted. The log:\n", r.Try[len(r.Try)-1])
		return
	}
	fmt.Fprintln(w, "In another terminal:")
	for _, command := range r.Try {
		fmt.Fprintf(w, "  %s\n", command)
	}
	fmt.Fprintln(w, "Ctrl-C ends the host. The log:")
}
