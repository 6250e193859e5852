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
	// maxTurns limits the concurrent turns.
	maxTurns = 16
	// agentTime limits the time of an answer. The host's deadline for a turn is shorter.
	agentTime = 15 * time.Minute
)

// remoteWatch connects a watched agent to the host of --host.
type remoteWatch struct {
	vacants op.Client                  // API of that host
	client  *outbound.Client           // calls the agent on this machine
	local   atomic.Pointer[localAgent] // nil until setAtHost succeeds
}

// localAgent is the address of the agent on this machine, with the secret that signs the requests
// to the agent. Both may change when the agent's file changes.
type localAgent struct {
	url    string
	port   int
	secret substrate.Secret
}

// watchAtHost runs an agent on this machine as the worker of a vacant at another host.
func watchAtHost(a *kit.App, ctx context.Context, what string, o watchOptions) error {
	w, err := newWatching(a, what, o, a.CommandLine()+" --name NAME")
	if err != nil {
		return err
	}
	anybody := func(context.Context, outbound.Actor, string) error { return nil } // any address is allowed, because the user chose it
	w.remote = &remoteWatch{client: outbound.New(outbound.Options{AllowLoopback: true, Guard: anybody, Timeout: agentTime})}
	if err := w.checkLocal(); err != nil {
		return err
	}
	if w.command() != "" && w.taken(w.port) {
		return w.portTaken()
	}
	return a.WithWork(ctx, o.at, func(work *workclient.Worker, vacants op.Client) error {
		w.remote.vacants = vacants
		if err := w.hostAgent(ctx); err != nil {
			return err
		}
		for _, line := range w.handout.Lines() {
			w.say("%s", line)
		}
		w.say("Ctrl-C ends the program and the connection. Its turns:")
		seen, program := w.snapshotFiles(), w.begin()
		w.awaitStart(ctx, program)
		work.Vacant, work.Turns, work.Handle, work.Observe = w.name, maxTurns, w.answer, w.WorkStatus(w.name, w.say)
		ctx, end := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() {
			ended <- work.Run(ctx)
			close(ended)
		}()
		err := w.run(ctx, nil, ended, seen, program)
		end()
		return errors.Join(err, <-ended)
	})
}

// checkLocal returns an error unless the agent is a program on this machine.
func (w *watching) checkLocal() error {
	if w.port == 0 || w.from != "base_url" || w.agent.Agent.Provider != substrate.KindHTTP {
		return problem.New(problem.Usage, "%s: base_url: expected an agent on this machine, such as http://127.0.0.1:9000, because --host runs the agent here; to run a model at the host: vacancy create NAME --from FILE --host URL", filepath.Join(w.dir, w.file))
	}
	if w.agent.Agent.Secret != "" && w.secret == "" {
		return problem.New(problem.Usage, "%s: secret: expected none with --host, because the watch signs the questions with the secret in the variable AGENT_SECRET, got %s", filepath.Join(w.dir, w.file), w.agent.Agent.Secret)
	}
	return nil
}

// setAtHost creates the vacant at the host, or the next version of its agent. It returns an error
// if the existing vacant does not have the substrate worker, or belongs to a tenant while the
// client is the operator's.
func (w *watching) setAtHost(ctx context.Context) error {
	if err := w.checkLocal(); err != nil {
		return err
	}
	file, err := agentfile.Read(filepath.Join(w.dir, w.file), agentfile.Options{Root: w.root, Substrate: substrate.KindWorker})
	if err != nil {
		return err
	}
	c := w.remote.vacants
	_, _, err = w.install(ctx, c, &file, "at "+kit.Printable(cmp.Or(w.at.Host, "aws")), func() error {
		v, err := admin.ShowVacant.Call(ctx, c, admin.VacantRequest{Vacant: w.name})
		spec, failed := substrate.Parse(v.Substrate)
		_, isOperator := c.(*kit.AdminAPI)
		switch {
		case problem.Is(err, problem.NotFound):
			err = problem.New(problem.Conflict, "%s: expected a name that is free at the host, got a name that is already taken", w.name)
		case err != nil:
			return err
		case isOperator && v.Tenant != "":
			err = problem.New(problem.Conflict, "%s: expected a vacant without a tenant, got one of tenant %s; use a key of that tenant in $%s", w.name, v.Tenant, kit.AccountKeyEnv)
		case failed != nil || spec.Kind != substrate.KindWorker:
			err = problem.New(problem.Conflict, "%s: expected a vacant with the substrate worker, got one with %s", w.name, kit.Clip(v.Substrate, kit.MaxShownCause))
		default:
			file.Agent.Model = spec.Argument // keeps the vacant's argument, for example redo=1
			return nil
		}
		return kit.WithHint(err, "%s --name NAME", w.CommandLine())
	})
	if err == nil {
		w.remote.local.Store(&localAgent{w.agent.Agent.BaseURL, w.port, substrate.NewSecret(w.secret)})
	}
	return err
}

// answer asks the agent on this machine for the answer of a turn.
func (w *watching) answer(ctx context.Context, t *workclient.Turn, emit func(workclient.Event)) (a workclient.Answer, err error) {
	agent := w.remote.local.Load()
	for began := time.Now(); !w.taken(agent.port) && time.Since(began) < startTime && ctx.Err() == nil; { // the program may be restarting
		time.Sleep(watchPause)
	}
	client := w.remote.client.As(outbound.VacantActor(t.Vacant, outbound.Operator))
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
			emit(workclient.Event{Type: worker.TypeAsks})
		case substrate.Usage:
			a.Usage = &worker.Usage{In: int64(e.In), Out: int64(e.Out), Cached: int64(e.Cached)}
		}
	}
	return a, nil
}
