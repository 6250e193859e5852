package vacants

import (
	"context"
	"errors"
	"strings"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/plan"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Vacant implements call.Directory: the vacant as the pipeline needs it, with
// its seed still sealed. ok is false if id is not hosted here; this is cached
// too, because anybody may ask for any id.
func (v *Directory) Vacant(ctx context.Context, id identity.ID, fresh bool) (call.Vacant, bool, error) {
	m, err := v.lookup(ctx, id, fresh)
	if err != nil || !m.ok {
		return call.Vacant{}, false, err
	}
	key := v.signers.Key(id, m.record.seed)
	ready := func(ctx context.Context) error {
		if err := v.checkBudget(ctx, &m.record); err != nil {
			return err
		}
		return key.Ready(ctx)
	}
	return call.Vacant{
		ID: id, State: m.record.State, Floor: m.record.Floor, Behaviour: v.behaviour(&m.record), Signer: key, Ready: ready,
		Parent: m.record.Parent, Closed: m.record.Closed, Reach: m.record.Reach, HasKin: m.record.Kin,
		Tenant: m.record.Tenant, Price: m.record.Price,
	}, true, nil
}

// Open returns the ids of up to n vacants that are neither terminal nor closed
// children, by name, at most a second old. Its cost does not grow with closed
// children and tombstones. Callers must not change the ids.
func (v *Directory) Open(ctx context.Context, n int) ([]identity.ID, error) {
	began := v.Now()
	if ids, known := v.memory.opened(n, began); known {
		return ids, nil
	}
	generation := v.memory.now()
	ids, err := v.open(ctx, n)
	if err == nil {
		v.memory.putOpen(openIDs{ids: ids, n: n, until: began.Add(memoryTime)}, generation)
	}
	return ids, err
}

func (v *Directory) open(ctx context.Context, n int) ([]identity.ID, error) {
	docs, _, err := v.Store.Docs(ctx, store.Range{Partition: openPartition, Index: true}, n, "")
	if err != nil {
		return nil, store.Problem(err)
	}
	var open []identity.ID
	for _, d := range docs {
		id, err := identity.ParseID(strings.TrimPrefix(d.Key.Partition, recordPartition))
		if err != nil {
			return nil, problem.New(problem.Damaged, "%.80s is listed as an open vacant", d.Key)
		}
		if m, err := v.lookup(ctx, id, false); err != nil {
			return nil, err
		} else if m.ok && m.record.isOpen() { // the index may lag behind
			open = append(open, id)
		}
	}
	return open, nil
}

// behaviour answers by r's substrate and agent, whatever becomes of r meanwhile. A
// substrate that this host no longer offers fails the vacant's calls.
func (v *Directory) behaviour(r *Record) call.Behaviour {
	then := *r
	return func(ctx context.Context, calls *call.Host, e envelope.Envelope) (envelope.Message, error) {
		s, memory, err := v.openAgent(ctx, &then, calls)
		switch {
		case problem.Is(err, problem.Unavailable):
			return envelope.Message{}, problem.Within(problem.SubstrateUnavailable, "its agent cannot be read now", err)
		case err != nil:
			return envelope.Message{}, problem.Wrap(problem.SubstrateMisconfigured, err, "the vacant's substrate is not available here")
		}
		var before []substrate.Turn
		if memory {
			if before, err = v.remember(ctx, calls, &e); err != nil {
				return envelope.Message{}, problem.Within(problem.SubstrateUnavailable, "what it remembers", err)
			}
		}
		return substrate.Behaviour(s, before...)(ctx, calls, e)
	}
}

// openSubstrate opens the substrate whose text form is text. calls is nil if the
// substrate is only checked.
func (v *Directory) openSubstrate(text string, calls *call.Host) (substrate.Spec, substrate.Substrate, error) {
	spec, err := substrate.Parse(text)
	if err != nil {
		return spec, nil, err
	}
	if v.Composites == nil || spec.Kind != plan.Kind {
		s, err := v.Substrates.Open(spec)
		return spec, s, err
	}
	if spec.Argument != "" {
		return spec, nil, problem.Invalid("substrate", plan.Kind+" alone", "an argument")
	}
	return spec, substrate.Func(planned{v, calls}.answer), nil
}

// planned is the substrate of vacants with a plan.
type planned struct {
	vacants *Directory
	calls   *call.Host
}

// answer fails with the kinds with which agents fail, so that callers cannot tell
// composites from other vacants.
func (c planned) answer(ctx context.Context, q substrate.Request) (string, error) {
	text, err := c.vacants.Composites(ctx, c.vacants, c.calls, q)
	if err == nil || problem.Is(err, problem.Deadline) || problem.Of(err).Kind.IsFailure() {
		return text, err
	}
	if known := new(problem.Error); errors.As(err, &known) {
		return "", problem.Within(problem.SubstrateUnavailable, "its plan failed", err)
	}
	return "", err
}
