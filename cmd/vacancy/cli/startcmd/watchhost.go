package startcmd

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/vacancy-host/vacancy/cmd/vacancy/agentfile"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/front/workclient"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/httpagent"
	"github.com/vacancy-host/vacancy/shared/host/substrate/worker"
	"github.com/vacancy-host/vacancy/shared/problem"
)

const (
	maxTurns = 16
	// agentTimeout limits the time of an answer. The host's deadline for a turn is shorter.
	agentTimeout = 15 * time.Minute
)

type remoteHost struct {
	api         op.Client
	agentClient *outbound.Client           // for calls of the agent on this machine
	agent       atomic.Pointer[localAgent] // nil until installRemote succeeds
}

// localAgent is the address of the agent on this machine, with the secret for its requests.
type localAgent struct {
	url    string
	port   int
	secret substrate.Secret
}

func runRemoteWatch(a *kit.App, ctx context.Context, path string, o watchOptions) error {
	w, err := newWatcher(a, path, o, a.CommandLine()+" --name NAME")
	if err != nil {
		return err
	}
	allowAny := func(context.Context, outbound.Actor, string) error { return nil } // the user chose the address
	w.remote = &remoteHost{agentClient: outbound.New(outbound.Options{AllowLoopback: true, Guard: allowAny, Timeout: agentTimeout})}
	if err := w.checkLocal(); err != nil {
		return err
	}
	if w.programCommand() != "" && w.isPortTaken(w.port) {
		return w.portTakenError()
	}
	return a.WithWorker(ctx, o.where, func(work *workclient.Worker, api op.Client) error {
		w.remote.api = api
		if err := w.hostAgent(ctx); err != nil {
			return err
		}
		for _, line := range w.handout.Lines() {
			w.printf("%s", line)
		}
		w.printf("Ctrl-C ends the program and the connection. Its turns:")
		snapshot, program := w.snapshotFiles(), w.startProgram()
		w.waitForStart(ctx, program)
		work.Vacant, work.MaxTurns, work.Handle, work.Observe = w.name, maxTurns, w.answerTurn, w.WorkStatusPrinter(w.name, w.printf)
		ctx, cancel := context.WithCancel(ctx)
		workerDone := make(chan error, 1)
		go func() {
			workerDone <- work.Run(ctx)
			close(workerDone)
		}()
		err := w.run(ctx, nil, workerDone, snapshot, program)
		cancel()
		return errors.Join(err, <-workerDone)
	})
}

func (w *watcher) checkLocal() error {
	if w.port == 0 || w.portSetting != "base_url" || w.agent.Agent.Provider != substrate.KindHTTP {
		return problem.New(problem.Usage, "%s: base_url: expected the URL of an agent on this machine, for example http://127.0.0.1:9000, because the watch runs the agent on this machine; to run a model at the host: vacancy create NAME --from FILE --host URL", filepath.Join(w.dir, w.file))
	}
	if w.agent.Agent.Secret != "" && w.secret == "" {
		return problem.New(problem.Usage, "%s: secret: expected none with --host, because the watch signs its requests with the secret in the variable AGENT_SECRET, got %s", filepath.Join(w.dir, w.file), w.agent.Agent.Secret)
	}
	return nil
}

// installRemote creates the vacant at the host, or the next version of its agent. It refuses an
// existing vacant that does not have the substrate worker. For the operator, it also refuses a
// vacant of a tenant.
func (w *watcher) installRemote(ctx context.Context) error {
	if err := w.checkLocal(); err != nil {
		return err
	}
	file, err := agentfile.Read(filepath.Join(w.dir, w.file), agentfile.Options{Root: w.root, Substrate: substrate.KindWorker})
	if err != nil {
		return err
	}
	c := w.remote.api
	_, _, err = w.createOrUpdateVacant(ctx, c, &file, "at "+kit.EscapeLine(cmp.Or(w.where.Host, "aws")), func() error {
		v, err := admin.ShowVacant.Call(ctx, c, admin.VacantRef{Vacant: w.name})
		spec, specErr := substrate.Parse(v.Substrate)
		_, isOperator := c.(*kit.AdminAPI)
		switch {
		case problem.Is(err, problem.NotFound):
			err = problem.New(problem.Conflict, "%s: expected a name that is free at the host, got a name that is already taken", w.name)
		case err != nil:
			return err
		case isOperator && v.Tenant != "":
			err = problem.New(problem.Conflict, "%s: expected a vacant without a tenant, got one of tenant %s; use a key of that tenant in $%s", w.name, v.Tenant, kit.AccountKeyEnv)
		case specErr != nil || spec.Kind != substrate.KindWorker:
			err = problem.New(problem.Conflict, "%s: expected a vacant with the substrate worker, got one with %s", w.name, kit.Truncate(v.Substrate, kit.MaxShownCause))
		default:
			file.Agent.Model = spec.Argument // keep the argument, for example redo=1
			return nil
		}
		return kit.WithHint(err, "%s --name NAME", w.CommandLine())
	})
	if err == nil {
		w.remote.agent.Store(&localAgent{w.agent.Agent.BaseURL, w.port, substrate.NewSecret(w.secret)})
	}
	return err
}

func (w *watcher) answerTurn(ctx context.Context, t *workclient.Turn, emit func(workclient.Event)) (a workclient.Answer, err error) {
	agent := w.remote.agent.Load()
	for waitStart := time.Now(); !w.isPortTaken(agent.port) && time.Since(waitStart) < startTimeout && ctx.Err() == nil; { // the program may be restarting
		time.Sleep(pollInterval)
	}
	client := w.remote.agentClient.ForActor(outbound.VacantActor(t.Vacant, outbound.Operator))
	for e, err := range httpagent.Ask(ctx, client, agent.url, agent.secret, t.Question) {
		if err != nil {
			return a, err
		}
		switch e := e.(type) {
		case substrate.Text:
			emit(workclient.Event{Type: worker.TypeText, Text: string(e)})
		case substrate.Thought:
			emit(workclient.Event{Type: worker.TypeThought, Text: string(e)})
		case substrate.Question:
			emit(workclient.Event{Type: worker.TypeQuestion})
		case substrate.Usage:
			a.Usage = &worker.Usage{InputTokens: int64(e.InputTokens), OutputTokens: int64(e.OutputTokens), CachedTokens: int64(e.CachedTokens)}
		}
	}
	return a, nil
}
