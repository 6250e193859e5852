package admin

import (
	"context"
	"encoding/hex"
	"net/http"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/host/family/graduation"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Gate is the part of the gate that the handler uses; it begins no attempts.
type Gate interface {
	Status(ctx context.Context, child identity.ID, position uint64) (graduation.Status, error)
	Latest(ctx context.Context, child identity.ID) (graduation.Status, bool, error)
	Policy(ctx context.Context, tenant string) (p gate.Policy, from string, err error)
	SetPolicy(ctx context.Context, tenant string, p gate.Policy) error
}

// GatePolicy is the policy for graduations and its source: "tenant", "host" or
// "default".
type GatePolicy struct {
	Tenant string      `json:"tenant,omitempty"`
	From   string      `json:"from"`
	Policy gate.Policy `json:"policy"`
}

// signGraduation lets a hosted vacant sign a graduation request, as the party
// that it is. The signature says only that the operator wants it; the gate
// decides.
func (d *api) signGraduation(w http.ResponseWriter, r *http.Request) error {
	b, err := read[GraduationRequest](w, r)
	if err != nil {
		return err
	}
	q := composite.Request{ParentID: b.ParentID, ChildID: b.ChildID, CapabilityText: b.CapabilityText}
	if err := q.Check(); err != nil {
		return err
	}
	rec, err := d.find(r.Context(), r.PathValue("vacant"))
	if err != nil {
		return err
	}
	out := GraduationSignature{ID: rec.ID}
	sign := func(s identity.Signer) error { return q.SignParent(r.Context(), s) }
	switch rec.ID {
	case q.ParentID:
		out.Party = "parent"
	case q.ChildID:
		out.Party = "child"
		sign = func(s identity.Signer) error { return q.SignChild(r.Context(), s) }
	default:
		return problem.Invalid("vacant", "the parent or the child of the request", rec.Name)
	}
	if err := d.Vacants.Sign(r.Context(), rec.ID, sign); err != nil {
		return err
	}
	out.Signature = hex.EncodeToString(append(q.SignatureParent, q.SignatureChild...)) // one of them is empty
	return httpapi.Answer(w, http.StatusOK, out)
}

// GraduationRequest is the request that a party of a graduation signs.
type GraduationRequest struct {
	ParentID       identity.ID `json:"parent_id"`
	ChildID        identity.ID `json:"child_id"`
	CapabilityText string      `json:"capability_text"`
}

// graduation answers with an attempt of a child and all its evidence: the
// latest, or the one at ?position=.
func (d *api) graduation(w http.ResponseWriter, r *http.Request) error {
	position, err := number(r.URL.Query(), "position", 0)
	if err != nil {
		return err
	}
	child, err := d.childOf(r)
	if err != nil {
		return err
	}
	if position > 0 {
		st, err := d.Gate.Status(r.Context(), child, position)
		if err != nil {
			return err
		}
		return httpapi.Answer(w, http.StatusOK, st.View())
	}
	st, ok, err := d.Gate.Latest(r.Context(), child)
	if err == nil && !ok {
		err = problem.New(problem.NotFound, "vacant %s has not asked to graduate", child.Short())
	}
	if err != nil {
		return err
	}
	return httpapi.Answer(w, http.StatusOK, st.View())
}

// childOf is the child that the path names; for the operator by id also one that runs
// elsewhere.
func (d *api) childOf(r *http.Request) (identity.ID, error) {
	if id, err := identity.ParseID(r.PathValue("vacant")); err == nil && askerOf(r.Context()) == vacants.Operator() {
		return id, nil
	}
	rec, err := d.find(r.Context(), r.PathValue("vacant"))
	return rec.ID, err
}

func (d *api) policy(w http.ResponseWriter, r *http.Request) error {
	tenant := r.URL.Query().Get("tenant")
	p, from, err := d.Gate.Policy(r.Context(), tenant)
	if err != nil {
		return err
	}
	return httpapi.Answer(w, http.StatusOK, GatePolicy{tenant, from, p})
}

// setPolicy sets the policy of a tenant (?tenant=) or of the host.
func (d *api) setPolicy(w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	p, err := gate.ParsePolicy(body)
	if err != nil {
		return err
	}
	if err := d.Gate.SetPolicy(r.Context(), r.URL.Query().Get("tenant"), p); err != nil {
		return err
	}
	return d.policy(w, r)
}
