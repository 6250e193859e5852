package startcmd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/vacancy-host/vacancy/cmd/vacancy/agentfile"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/vacantcmd"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/front/workclient"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/httpagent"
	"github.com/vacancy-host/vacancy/shared/host/substrate/worker"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

const (
	// defaultTurns is the default limit of turns at once.
	defaultTurns = 4
	// agentTime limits an answer of the agent. The deadline of a turn is shorter.
	agentTime = 15 * time.Minute
)

// remoteWatch is the host of --host.
type remoteWatch struct {
	vacants op.Client
	client  *outbound.Client // for the agent on this machine
	local   atomic.Pointer[localAgent]

	shown workclient.Status // last status, for Observe
	last  string            // last failure of the connection
}

// localAgent is the agent on this machine, which a changed file may move.
type localAgent struct {
	url    string
	port   int
	secret substrate.Secret
}

// watchAtHost runs an agent on this machine as the worker of a vacant at another host.
func watchAtHost(a *kit.App, ctx context.Context, what string, o watchOptions) error {
	if o.turns < 1 || o.turns > 64 {
		return &problem.Error{Kind: problem.Usage, Field: "--turns", Want: "1 to 64", Got: fmt.Sprint(o.turns)}
	}
	w, err := newWatching(a, what, o, a.Again()+" --name NAME")
	if err != nil {
		return err
	}
	anybody := func(context.Context, outbound.Actor, string) error { return nil } // the person chooses the address
	w.remote = &remoteWatch{client: outbound.New(outbound.Options{AllowLoopback: true, Guard: anybody, Timeout: agentTime})}
	if err := w.checkLocal(); err != nil {
		return err
	}
	if w.command() != "" && w.taken(w.port) {
		return w.portTaken()
	}
	return a.WithWork(ctx, o.at, func(work workclient.Client, vacants op.Client) error {
		w.remote.vacants = vacants
		if err := w.set(ctx); err != nil {
			return err
		}
		for _, line := range w.handout.Lines() {
			w.say("%s", line)
		}
		w.say("Ctrl-C ends the program and the connection. Its turns:")
		seen, program := w.look(), w.begin()
		w.await(ctx, program)
		ctx, end := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() {
			ended <- (&workclient.Worker{Client: work, Vacant: w.name, Turns: o.turns, Handle: w.answer, Observe: w.showStatus}).Run(ctx)
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
		return problem.New(problem.Usage, "%s: base_url: expected an agent on this machine, such as http://127.0.0.1:9000, because --host runs it here; a model runs at the host: vacancy create NAME --from FILE --host URL", filepath.Join(w.dir, w.file))
	}
	if w.agent.Agent.Secret != "" && w.secret == "" {
		return problem.New(problem.Usage, "%s: secret: expected none with --host, because the watch signs the questions with the variable AGENT_SECRET, got %s", filepath.Join(w.dir, w.file), w.agent.Agent.Secret)
	}
	return nil
}

// setAtHost makes the vacant at the host, or the next version of its agent. It changes only a vacant that has workers.
func (w *watching) setAtHost(ctx context.Context) error {
	if err := w.checkLocal(); err != nil {
		return err
	}
	file, err := agentfile.Read(filepath.Join(w.dir, w.file), agentfile.Options{Root: w.root, Substrate: substrate.KindWorker})
	if err != nil {
		return err
	}
	c := w.remote.vacants
	made, err := admin.CreateVacant.Call(ctx, c, op.Of(admin.Creation{Name: w.name, Capability: file.Agent.Description, Agent: file.Agent.Blob()}))
	said := "%s is hosted at %s now, and runs here"
	if problem.Is(err, problem.Conflict) {
		made, said, err = w.setNext(ctx, file.Agent, err)
	}
	if err != nil {
		return err
	}
	w.short, w.handout = made.ID.Short(), kit.HandoutOf(&made)
	w.remote.local.Store(&localAgent{w.agent.Agent.BaseURL, w.port, substrate.NewSecret(w.secret)})
	w.out.Lock()
	defer w.out.Unlock()
	vacantcmd.WarnOfVersion(w.App, &made, file)
	if said != "" {
		w.Note(said, made.Name, kit.Printable(cmp.Or(w.at.Host, "aws")))
	}
	return nil
}

// setNext makes the next version of the agent of an existing vacant. taken is the refusal of a new vacant.
func (w *watching) setNext(ctx context.Context, agent definition.Agent, taken error) (v admin.Vacant, said string, err error) {
	other := func(why string) error {
		return kit.WithHint(problem.New(problem.Conflict, "%s: %s", w.name, why), "%s --name NAME", w.Again())
	}
	c := w.remote.vacants
	v, err = admin.ShowVacant.Call(ctx, c, admin.One{Vacant: w.name})
	switch {
	case problem.Is(err, problem.NotFound):
		return v, "", other("expected a name that is free at the host, got one of somebody else")
	case err != nil:
		return v, "", errors.Join(err, taken)
	}
	spec, err := substrate.Parse(v.Substrate)
	_, isOperator := c.(*kit.AdminAPI)
	switch {
	case err == nil && isOperator && v.Tenant != "":
		return v, "", other(fmt.Sprintf("expected a vacant without a tenant, got one of tenant %s; use a key of that tenant in $%s", v.Tenant, kit.AccountKeyEnv))
	case err != nil || spec.Kind != substrate.KindWorker:
		return v, "", other(fmt.Sprintf("expected a vacant with the substrate worker, got one with %s", kit.Clip(v.Substrate, kit.MaxShownCause)))
	}
	agent.Model = spec.Argument // redo=1 stays
	now, err := admin.GetAgent.Call(ctx, c, admin.AgentVersion{One: admin.One{Vacant: v.ID.String()}})
	if err != nil {
		return v, "", err
	}
	after, err := admin.SetAgent.Call(ctx, c, admin.AgentAfter(&now, agent.Blob()))
	if err != nil {
		return v, "", err
	}
	if after.Version == now.Version {
		return after.Vacant, "", nil
	}
	return after.Vacant, fmt.Sprintf("%%s answers at %%s by version %d of its agent", after.Version), nil
}

// answer lets the agent on this machine do a turn.
func (w *watching) answer(ctx context.Context, t *workclient.Turn, emit func(workclient.Event)) (a workclient.Answer, err error) {
	at := w.remote.local.Load()
	for began := time.Now(); !w.taken(at.port) && time.Since(began) < startTime && ctx.Err() == nil; { // it may be starting again
		time.Sleep(watchPause)
	}
	client := w.remote.client.As(outbound.Vacant(t.Vacant, outbound.Operator))
	for e, err := range httpagent.Ask(ctx, client, at.url, at.secret, t.Question) {
		if err != nil {
			return a, err
		}
		switch e := e.(type) {
		case substrate.Text:
			emit(workclient.Event{Type: worker.TypeText, Text: string(e)})
		case substrate.Thought:
			emit(workclient.Event{Type: worker.TypeThought, Text: string(e)})
		case substrate.Asks:
			emit(workclient.Event{Type: worker.TypeAsks})
		case substrate.Usage:
			a.Usage = &worker.Usage{In: int64(e.In), Out: int64(e.Out), Cached: int64(e.Cached)}
		}
	}
	return a, nil
}

// showStatus prints what has changed: the connection, and the end of each turn with the number of turns that still run.
func (w *watching) showStatus(s workclient.Status) {
	was := w.remote.shown
	w.remote.shown = s
	switch {
	case !s.Connected && s.Err != nil:
		if text := problem.Of(s.Err).Text(); text != w.remote.last {
			w.remote.last = text
			w.say("%s is not connected: %s; connecting again", w.name, kit.Printable(text))
		}
		return
	case s.Connected && !was.Connected:
		w.remote.last = ""
		w.say("%s is connected", w.name)
	}
	if !s.Ended || s.Turn == nil {
		return
	}
	verdict := "answered"
	if s.Failure != nil {
		verdict = "failed: " + kit.Printable(kit.Clip(problem.Plain(s.Failure), kit.MaxShownCause))
	}
	w.say("%s  %s  %s  %s; %d running", w.Now().Local().Format(time.TimeOnly), w.name, callerOf(s.Turn), verdict, s.Running)
}

// callerOf returns the short id of a turn's caller.
func callerOf(t *workclient.Turn) string {
	var question struct {
		Caller identity.ID `json:"caller"`
	}
	if json.Unmarshal(t.Question, &question) != nil {
		return "?"
	}
	return question.Caller.Short()
}
