package admin

import (
	"context"
	"encoding/hex"

	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/host/family/graduation"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Gate is the part of the graduation gate that the API uses.
type Gate interface {
	Status(ctx context.Context, child identity.ID, position uint64) (graduation.Status, error)
	Latest(ctx context.Context, child identity.ID) (graduation.Status, bool, error)
	Policy(ctx context.Context, tenant string) (p gate.Policy, from string, err error)
	SetPolicy(ctx context.Context, tenant string, p gate.Policy) error
}

// GatePolicy is the policy for graduations and its source: "tenant", "host" or "default".
type GatePolicy struct {
	Tenant string      `json:"tenant,omitempty"`
	Source string      `json:"from"`
	Policy gate.Policy `json:"policy"`
}

// signGraduation signs a graduation request for a hosted parent or child. The gate decides later
// whether the child graduates.
func (d *api) signGraduation(ctx context.Context, in VacantRequest[GraduationRequest]) (out GraduationSignature, err error) {
	b := &in.Body
	req := composite.GraduationRequest{ParentID: b.ParentID, ChildID: b.ChildID, CapabilityText: b.CapabilityText}
	if err := req.Check(); err != nil {
		return out, err
	}
	rec, err := d.findVacant(ctx, in.Vacant)
	if err != nil {
		return out, err
	}
	out.ID = rec.ID
	sign := func(s identity.Signer) error { return req.SignParent(ctx, s) }
	switch rec.ID {
	case req.ParentID:
		out.Party = "parent"
	case req.ChildID:
		out.Party = "child"
		sign = func(s identity.Signer) error { return req.SignChild(ctx, s) }
	default:
		return out, problem.Invalid("vacant", "the parent or the child of the request", rec.Name)
	}
	if err := d.Vacants.WithSigner(ctx, rec.ID, sign); err != nil {
		return out, err
	}
	// One of the signatures is empty.
	out.Signature = hex.EncodeToString(append(req.SignatureParent, req.SignatureChild...))
	return out, nil
}

type GraduationRequest struct {
	ParentID       identity.ID `json:"parent_id"`
	ChildID        identity.ID `json:"child_id"`
	CapabilityText string      `json:"capability_text"`
}

func (d *api) graduation(ctx context.Context, in AttemptRef) (v graduation.View, err error) {
	child, err := d.childOf(ctx, in.Vacant)
	if err != nil {
		return v, err
	}
	if in.Position > 0 {
		st, err := d.Gate.Status(ctx, child, in.Position)
		if err != nil {
			return v, err
		}
		return st.View(), nil
	}
	st, ok, err := d.Gate.Latest(ctx, child)
	if err == nil && !ok {
		err = problem.New(problem.NotFound, "vacant %s has not asked to graduate", child.Short())
	}
	if err != nil {
		return v, err
	}
	return st.View(), nil
}

// childOf returns the id of a child. For the operator, the child may be on another host.
func (d *api) childOf(ctx context.Context, ref string) (identity.ID, error) {
	if id, err := identity.ParseID(ref); err == nil && askerOf(ctx) == vacants.OperatorAsker() {
		return id, nil
	}
	rec, err := d.findVacant(ctx, ref)
	return rec.ID, err
}

func (d *api) gatePolicy(ctx context.Context, in TenantRef) (GatePolicy, error) {
	p, source, err := d.Gate.Policy(ctx, in.Tenant)
	return GatePolicy{in.Tenant, source, p}, err
}

func (d *api) setGatePolicy(ctx context.Context, in TenantRequest[op.Raw[gate.Policy]]) (GatePolicy, error) {
	p, err := gate.ParsePolicy(in.Body)
	if err == nil {
		err = d.Gate.SetPolicy(ctx, in.Tenant, p)
	}
	if err != nil {
		return GatePolicy{}, err
	}
	return d.gatePolicy(ctx, in.TenantRef)
}

const GraduationsPath = "/v1/graduations"
