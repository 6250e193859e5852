package admin

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/host/family/spawning"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/plan"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// ChildrenPath reports whether path is the route where a parent requests
// children by its own signature. Besides it, others than the operator have the routes of
// Tenants.
func ChildrenPath(path string) bool {
	rest, ok := strings.CutPrefix(path, "/v1/admin/vacants/")
	name, tail, _ := strings.Cut(rest, "/")
	return ok && name != "" && tail == "children"
}

// SignedChildren serves POST /v1/admin/vacants/{vacant}/children for a parent
// that signed its request. A request whose signature does not verify costs no
// read. A parent that is not hosted here gets the refusal that a call to it
// would get, so the route does not reveal which vacants exist.
func SignedChildren(c Config, asked *spawning.Requests) http.Handler {
	d := &api{c}
	return d.guard(d.http().Mux(map[string]httpapi.Methods{"/v1/admin/vacants/{vacant}/children": {http.MethodPost: func(w http.ResponseWriter, r *http.Request) error {
		body, err := httpapi.Body(w, r, composite.MaxRequest)
		if err != nil {
			return err
		}
		q, err := composite.ParseSpawnRequest(body)
		if err != nil {
			return err
		}
		if r.PathValue("vacant") != q.ParentID.String() {
			return problem.Invalid("parent_id", fmt.Sprintf("the id of the vacant in the path, %.64q", r.PathValue("vacant")), q.ParentID.String())
		}
		if err := asked.Check(&q); err != nil {
			return err
		}
		if q.SecondaryID != nil {
			// This host would sign for the second parent, which has not been asked.
			return problem.New(problem.Forbidden, "with: only the operator may create a child of two parents, because one parent does not sign for the other")
		}
		parent, err := d.Vacants.Get(r.Context(), vacants.Operator(), q.ParentID) // it has signed for itself
		if err != nil {
			return err
		}
		if err := thinks(&q, &parent); err != nil {
			return err
		}
		name, err := childName(q.ParentID, q.Name)
		if err != nil {
			return err
		}
		isDeleted := func(ctx context.Context, spawnRequest string) (bool, error) {
			name, err := childName(q.ParentID, spawnRequest)
			if err != nil {
				return false, err
			}
			child, err := d.Vacants.ByName(ctx, vacants.Operator(), name)
			if problem.Is(err, problem.NotFound) {
				return true, nil
			}
			return child.IsDeleted(), err
		}
		if err := asked.Take(r.Context(), &q, isDeleted); err != nil {
			return err
		}
		made, err := d.makeChild(r.Context(), vacants.SpawnSpec{
			Parent: q.ParentID, Path: q.Path, Name: name, Capability: q.Capability, Substrate: q.Substrate,
			Tools: q.Tools, Rule: q.Rule, With: q.SecondaryID, Reach: q.Reach, Outbound: q.Outbound,
		})
		if err != nil {
			return err
		}
		return httpapi.Answer(w, http.StatusCreated, made)
	}}}))
}

// thinks refuses another substrate than the parent's. The host would call it
// from its own network, which reaches further than the holder of the parent's
// key; and the tools of a manifest are the signer's words.
func thinks(q *composite.SpawnRequest, parent *vacants.Record) error {
	if q.Substrate == "" {
		return nil
	}
	spec, err := substrate.Parse(q.Substrate)
	if err != nil {
		return err
	}
	if s := spec.String(); s == defaultSubstrate || s == parent.Substrate && s != plan.Kind {
		return nil
	}
	return problem.New(problem.Forbidden, "substrate: expected none, for the parent's, or %s; got %s; only the operator may choose others",
		defaultSubstrate, clip(q.Substrate))
}

// childName is the name of a child that its parent requested: the requested
// name with the parent's id. So a parent can neither take a name from another's
// child nor learn such names.
func childName(parent identity.ID, spawnRequest string) (string, error) {
	if err := registry.CheckName(spawnRequest); err != nil {
		return "", err
	}
	name := spawnRequest + "-" + parent.Short()
	if len(name) > registry.MaxName {
		return "", problem.Invalid("name", fmt.Sprintf("at most %d letters, as the host puts -%s behind it", registry.MaxName-len(name)+len(spawnRequest), parent.Short()), strconv.Itoa(len(spawnRequest)))
	}
	return name, nil
}
