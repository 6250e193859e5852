// Package answer answers calls to the vacants of this host by an agent, by the plan of a composite,
// or by a bare substrate. It implements call.Directory.
//
// A call is answered by the version of the agent with which it began. A secret is sent only to the
// hosts that it is bound to. An entry with the hash of a model's answer is signed into the vacant's
// logbook before the answer ends.
package answer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/answer/delegation"
	"github.com/vacancy-host/vacancy/shared/host/answer/filetools"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/loop"
	"github.com/vacancy-host/vacancy/shared/host/substrate/plan"
	"github.com/vacancy-host/vacancy/shared/host/substrate/resources"
	"github.com/vacancy-host/vacancy/shared/host/substrate/worker"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Config configures an Answerer. Vacants is required.
type Config struct {
	Vacants *vacants.Directory
	// Guard decides whether a vacant may call a vacant that is not its child. If Guard is nil, all
	// calls are allowed.
	Guard outbound.EndpointGuard
	// ReplyMargin is the part of a call's time that the pipeline needs. The default is
	// call.DefaultReplyMargin.
	ReplyMargin time.Duration
	// If Workers is nil, CheckAgent does not check workers.
	Workers *worker.Broker
}

// Answerer answers calls to the vacants of one host. It is safe for concurrent use.
type Answerer struct {
	vacants          *vacants.Directory
	resources        *resources.Resources
	delegationRunner *delegation.Runner
	fileTools        filetools.Config
	workers          *worker.Broker
}

func New(c Config) *Answerer {
	v := c.Vacants
	return &Answerer{vacants: v, resources: v.Resources, workers: c.Workers, delegationRunner: delegation.New(delegation.Config{
		Store: v.Store, Substrates: v.Resources.Substrates, Now: v.Now, Rand: v.Rand, Guard: c.Guard, Wait: v.Wait, ReplyMargin: c.ReplyMargin,
	})}
}

// OfferFiles gives agents the tools for files. It must be called before the first call.
func (a *Answerer) OfferFiles(c filetools.Config) { a.fileTools = c }

func (a *Answerer) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "answer.Answerer") }

// Vacant implements call.Directory. If id is not hosted here, ok is false.
func (a *Answerer) Vacant(ctx context.Context, id identity.ID, fresh bool) (call.Vacant, bool, error) {
	r, ok, err := a.vacants.Lookup(ctx, id, fresh)
	if err != nil || !ok {
		return call.Vacant{}, false, err
	}
	key := a.vacants.Key(&r)
	checkReady := func(ctx context.Context) error {
		// Errors of the agent itself are reported by the call.
		if spec, err := substrate.Parse(r.Substrate); err == nil && spec.IsModel() && a.resources.Budgets != nil {
			if def, err := a.vacants.Agent(ctx, &r, 0); err == nil {
				if err := a.resources.CheckBudget(ctx, r.ID, r.Tenant, &def); err != nil {
					return err
				}
			}
		}
		return key.Ready(ctx)
	}
	return call.Vacant{
		ID: id, State: r.State, Floor: r.Floor, RestoredAt: r.RestoredAt, Behaviour: a.behaviour(r), Signer: key, Ready: checkReady,
		Parent: r.Parent, IsClosedChild: r.Closed, Reachability: r.Reachability, HasKin: r.HasKin, Tenant: r.Tenant, Price: r.Price, CallTimeout: r.CallTimeout,
	}, true, nil
}

// behaviour returns a function that answers with r's substrate and agent, even if the vacant has
// changed since.
func (a *Answerer) behaviour(r vacants.Record) call.Behaviour {
	return func(ctx context.Context, calls *call.Host, e envelope.Envelope) (envelope.Message, error) {
		s, hasMemory, err := a.openSubstrate(ctx, &r, calls)
		switch {
		case problem.Is(err, problem.Unavailable):
			return envelope.Message{}, problem.WithPlace(problem.SubstrateUnavailable, "its agent cannot be read now", err)
		case err != nil:
			return envelope.Message{}, problem.Wrap(problem.SubstrateMisconfigured, err, "the vacant's substrate is not available here")
		}
		var history []substrate.Turn
		reported, hasReported := task.ReportedMessagesOf(ctx, &e)
		for _, t := range reported {
			history = append(history, substrate.Turn{Role: substrate.RoleCaller, ClaimedRole: t.Role, Text: t.Text})
		}
		if hasMemory && !hasReported {
			if history, err = a.recallTurns(ctx, calls, &e); err != nil {
				return envelope.Message{}, problem.WithPlace(problem.SubstrateUnavailable, "its memory", err)
			}
		}
		var files []substrate.File
		if len(r.Input) > 0 {
			for _, p := range task.NonTextPartsOf(ctx, &e) {
				f := substrate.File{Name: p.Filename, MediaType: p.NormalizedMediaType(), Data: p.Content()}
				if p.Kind == task.URL {
					f.URL, f.Data = p.Text, nil
				}
				if r.AcceptsFile(&f) { // otherwise, the text still names the file
					files = append(files, f)
				}
			}
		}
		return substrate.BehaviourWithFiles(s, files, history...)(ctx, calls, e)
	}
}

func (a *Answerer) recallTurns(ctx context.Context, calls *call.Host, e *envelope.Envelope) (turns []substrate.Turn, err error) {
	if e.Payload.ContextID == nil {
		return nil, nil
	}
	forgottenUntil, err := a.vacants.ForgottenUntil(ctx, e.To, e.From, *e.Payload.ContextID)
	if err != nil {
		return nil, err
	}
	exchanges, err := calls.ReadThread(ctx, e, forgottenUntil)
	for _, x := range exchanges {
		turns = append(turns, substrate.Turn{Role: substrate.RoleCaller, Text: x.Question}, substrate.Turn{Role: substrate.RoleAgent, Text: x.CutReason.AppendRemark(x.Answer)})
	}
	return turns, err
}

// openSubstrate opens the plan or agent that answers for r. If calls is nil, the agent gets no
// tools.
func (a *Answerer) openSubstrate(ctx context.Context, r *vacants.Record, calls *call.Host) (s substrate.Substrate, hasMemory bool, err error) {
	spec, err := substrate.Parse(r.Substrate)
	switch {
	case err != nil:
		return nil, false, err
	case spec.Kind == plan.Kind:
		// The tenant may have changed the plan after r.Chooser chose the settings in r.
		return substrateWithChooser{substrate.Func(compositeSubstrate{a, calls}.answer), vacants.ChooserOf(r.Tenant, outbound.Tenant)}, false, nil
	case r.AgentVersion == 0 && !spec.IsModel():
		s, err := a.resources.Substrates.Open(spec)
		return substrateWithChooser{s, r.Chooser}, false, err
	}
	def, err := a.vacants.Agent(ctx, r, 0)
	if err != nil {
		return nil, false, err
	}
	applyTaskLimits(ctx, r, &def)
	openedAgent, err := a.openAgentVersion(r, r.AgentVersion, &def)
	if err != nil {
		return nil, false, err
	}
	openedAgent.calls = calls
	for _, idText := range def.Vacants {
		id, err := identity.ParseID(idText)
		if err != nil {
			return nil, false, problem.Wrap(problem.Damaged, err, "the agent of vacant %s lists an invalid vacant id", r.ID.Short())
		}
		openedAgent.askableVacants = append(openedAgent.askableVacants, id)
	}
	return openedAgent, def.Memory || def.Ask, nil // a model that may ask a question must remember it when the answer comes
}

// readOnlyKey is the context key of a bool that reports whether a read-only agent makes the calls.
type readOnlyKey struct{}

// applyTaskLimits applies the settings of a dispatched task to r's agent. An agent in mode
// read-only must not write through another agent of its account, so the other agent becomes
// read-only, too.
func applyTaskLimits(ctx context.Context, r *vacants.Record, def *definition.Agent) {
	d := task.DispatchOf(ctx, r.ID)
	if d == nil {
		isReadOnly, _ := ctx.Value(readOnlyKey{}).(bool)
		if w := task.WorkerTurnOf(ctx); w != nil && w.Mode == string(definition.ReadOnly) { // a plan does not set the key
			isReadOnly = true
		}
		if isReadOnly && call.IsOwnTaskWork(ctx) {
			def.Mode = definition.ReadOnly
		}
		return
	}
	if !d.IsOwn { // other tenants can only reduce the limits in the agent's file
		if d.Mode == string(definition.ReadOnly) {
			def.Mode = definition.ReadOnly
		}
		if d.MaxTurns > 0 {
			def.MaxTurns = min(d.MaxTurns, def.TurnLimit())
		}
		return
	}
	def.Mode = definition.Mode(d.Mode)
	def.MaxTurns = cmp.Or(d.MaxTurns, def.MaxTurns)
	def.Effort = cmp.Or(substrate.Effort(d.Effort), def.Effort)
	def.OutputFormat = cmp.Or(definition.Format(d.OutputFormat), def.OutputFormat)
	if d.Model != "" {
		def.Model, def.Tier = d.Model, ""
	}
}

type substrateWithChooser struct {
	substrate.Substrate
	chooser outbound.URLChooser
}

func (c substrateWithChooser) Infer(ctx context.Context, r substrate.Request) iter.Seq2[substrate.Event, error] {
	r.Chooser = c.chooser
	return c.Substrate.Infer(ctx, r)
}

type compositeSubstrate struct {
	*Answerer
	calls *call.Host
}

func (c compositeSubstrate) answer(ctx context.Context, q substrate.Request) (string, error) {
	// Errors have the same kinds as those from agents, so that callers cannot recognize composites.
	text, err := c.delegationRunner.Answer(ctx, c.vacants, c.calls, q)
	if err == nil || problem.Is(err, problem.DeadlineExceeded) || problem.AsError(err).Kind.IsFailure() {
		return text, err
	}
	if problemErr := new(problem.Error); errors.As(err, &problemErr) {
		return "", problem.WithPlace(problem.SubstrateUnavailable, "its plan failed", err)
	}
	return "", err
}

// Offer returns the tools that id's agent would be offered in a call now, and the tools that would
// be left out.
func (a *Answerer) Offer(ctx context.Context, id identity.ID) (loop.Offer, error) {
	r, err := a.vacants.Get(ctx, vacants.OperatorAsker(), id)
	if err != nil {
		return loop.Offer{}, err
	}
	s, _, err := a.openSubstrate(ctx, &r, nil)
	if err != nil {
		return loop.Offer{}, err
	}
	t, ok := s.(*agent)
	if !ok { // only agents have tools
		return loop.Offer{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	_, offer, closeTools, err := t.offerTools(ctx, id)
	if err != nil {
		return loop.Offer{}, err
	}
	closeTools()
	return offer.AllowedFor(&t.config.Agent), nil
}

const CheckText = "Are you there? Your host asks this once when a vacant is created or changed, and does not store the answer."

// checkTimeout lets CheckAgent and Offer end within an operator's request.
const checkTimeout = 10 * time.Second

// CheckAgent asks the agent at the URL of id's substrate one question, and returns the reason why a
// call would fail now. For a worker, it only checks whether the worker is connected.
func (a *Answerer) CheckAgent(ctx context.Context, id identity.ID) error {
	r, err := a.vacants.Get(ctx, vacants.OperatorAsker(), id)
	if err != nil {
		return err
	}
	spec, err := substrate.Parse(r.Substrate)
	if err != nil {
		return err
	}
	s, _, err := a.openSubstrate(ctx, &r, nil)
	if err == nil && spec.Kind == substrate.KindWorker && a.workers != nil {
		return a.workers.CheckConnected(ctx, id)
	}
	if err != nil || spec.Endpoint() == "" {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	_, err = substrate.ReadAnswer(s.Infer(ctx, substrate.NewTextRequest(id, id, CheckText)))
	if _, _, ok := spec.Model(); ok && problem.Is(err, problem.DeadlineExceeded) {
		return nil // the model exists, but loading it for the first question may take long
	}
	return err
}
