package startcmd

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/spf13/pflag"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/host/registry/translog"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
)

type hostRun struct {
	data, cluster string
	config        standalone.Config
	runOptions    standalone.RunConfig
	programs      []*agentProgram
}

// runHost runs a host until ctx ends, and calls ready when the host answers. It always closes the
// listener.
func runHost(a *kit.App, ctx context.Context, h hostRun, ready func(context.Context, *standalone.Host, string) error) (err error) {
	defer h.runOptions.Public.Close()
	dir, err := a.DataDir(h.data)
	if err != nil {
		return err
	}
	// These checks come first, because a host that cannot start must not be created.
	if _, err := translog.New(translog.Config{WitnessKeys: h.runOptions.Witnesses}); err != nil {
		return err
	}
	if h.cluster != "" {
		if h.runOptions.Index, err = a.OpenClusterIndex(ctx, h.cluster); err != nil {
			return err
		}
	}
	// Opening a large index may take seconds.
	a.PrintNote("Starting a host in %s …", dir)
	log, err := a.OpenHostLog(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	h.config.Dir, h.config.Log = dir, log.Logger
	host, err := a.OpenHostWith(h.config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, host.Close()) }()
	defer startPrograms(h.programs, log.Logger)() // the programs must end before the host closes
	h.runOptions.WrapEndpoints = a.Seams.WrapEndpoints
	agentsHosted := make(chan struct{})
	if wrap := h.runOptions.WrapPublic; len(h.programs) > 0 {
		h.runOptions.WrapPublic = func(next http.Handler) http.Handler {
			return wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				select {
				case <-agentsHosted:
				case <-r.Context().Done():
				}
				next.ServeHTTP(w, r)
			}))
		}
	}
	// The reads of the log bypass Config.WrapStore, because a wrapper may count the reads of the
	// host.
	log.SetVacants(vacants.New(vacants.Config{Records: &vacants.Records{Store: host.Store, Now: a.Now}}))
	return host.Run(ctx, h.runOptions, func(ctx context.Context) error {
		err := hostAgents(ctx, h.programs)
		if close(agentsHosted); err != nil {
			return err
		}
		return ready(ctx, host, dir)
	})
}

func checkNotRunning(a *kit.App, ctx context.Context, data string) error {
	dir, err := a.DataDir(data)
	if err != nil {
		return err
	}
	client, baseURL, err := serve.DialAdmin(dir)
	if err != nil {
		return nil // if the cause also prevents this start, the start reports it
	}
	location := ""
	if s, err := admin.GetStatus.Call(ctx, admin.Client{HTTP: client, URL: baseURL}, op.None{}); err == nil {
		location = fmt.Sprintf(" at %s (pid %d)", kit.EscapeLine(s.URL), s.PID)
	}
	err = problem.New(problem.Conflict, "a host is already running%s in %s: use it, stop it with Ctrl-C in its terminal, or choose another data directory with --data", location, dir)
	return kit.WithHint(err, "vacancy list%s", kit.DataArg(data))
}

func printHostEnded(a *kit.App, data string) {
	if dir, err := a.DataDir(data); err == nil {
		a.PrintNote("The host has ended. Its data is in %s. To start it again: %s", kit.EscapeLine(dir), a.CommandLine())
	}
}

func addDataFlags(fs *pflag.FlagSet, newHost, noUpgrade *bool) {
	kit.AddNoUpgradeFlag(fs, noUpgrade)
	fs.BoolVar(newHost, "new", false, "create a new host even if the data file of the previous one is missing or empty")
}

func addWitnessFlag(fs *pflag.FlagSet, keys *[]string) {
	fs.StringArrayVar(keys, "witness", nil, "the verifier key of an unregistered witness that may cosign the log; may be repeated")
}
