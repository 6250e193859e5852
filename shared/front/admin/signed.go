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

// IsChildrenPath reports whether path is the route on which a parent requests children with its own
// signature.
func IsChildrenPath(path string) bool {
	rest, ok := strings.CutPrefix(path, "/v1/admin/vacants/")
	name, tail, _ := strings.Cut(rest, "/")
	return ok && name != "" && tail == "children"
}

// SignedChildrenHandler serves POST /v1/admin/vacants/{vacant}/children for a parent that signed
// its request. It checks the signature before it reads stored data. The route must not reveal which
// vacants exist, so requests and calls to an unknown parent get the same refusal.
func SignedChildrenHandler(c Config, requests *spawning.Requests) http.Handler {
	d := &api{c}
	return d.guard(d.httpAPI().Mux(map[string]httpapi.Methods{"/v1/admin/vacants/{vacant}/children": {http.MethodPost: func(w http.ResponseWriter, r *http.Request) error {
		body, err := httpapi.ReadBody(w, r, composite.MaxRequestBytes)
		if err != nil {
			return err
		}
		req, err := composite.ParseSpawnRequest(body)
		if err != nil {
			return err
		}
		if r.PathValue("vacant") != req.ParentID.String() {
			return problem.Invalid("parent_id", fmt.Sprintf("the id of the vacant in the path, %.64q", r.PathValue("vacant")), req.ParentID.String())
		}
		if err := requests.Check(&req); err != nil {
			return err
		}
		if req.SecondParentID != nil {
			// The host would have to sign for the second parent, which has not consented.
			return problem.New(problem.Forbidden, "with: only the operator may create a child of two parents, because one parent does not sign for the other")
		}
		// The parent signed the request, so its record is read with the operator's access.
		parent, err := d.Vacants.Get(r.Context(), vacants.OperatorAsker(), req.ParentID)
		if err != nil {
			return err
		}
		if err := checkSubstrate(&req, &parent); err != nil {
			return err
		}
		name, err := childName(req.ParentID, req.Name)
		if err != nil {
			return err
		}
		isMissing := func(ctx context.Context, requestedName string) (bool, error) {
			name, err := childName(req.ParentID, requestedName)
			if err != nil {
				return false, err
			}
			child, err := d.Vacants.GetByName(ctx, vacants.OperatorAsker(), name)
			if problem.Is(err, problem.NotFound) {
				return true, nil
			}
			return child.IsDeleted(), err
		}
		if err := requests.Accept(r.Context(), &req, isMissing); err != nil {
			return err
		}
		spawned, err := d.createChild(r.Context(), vacants.SpawnSpec{
			Parent: req.ParentID, Path: req.BirthPath, Name: name, Capability: req.Capability, Substrate: req.Substrate,
			Tools: req.Tools, Rule: req.Rule, SecondParent: req.SecondParentID, Reachability: req.Reachability, OutboundPolicy: req.OutboundPolicy,
		})
		if err != nil {
			return err
		}
		return httpapi.SendJSON(w, http.StatusCreated, spawned)
	}}}))
}

// checkSubstrate allows only the default substrate, and the parent's own unless it is a plan. The
// host calls substrates from its own network, so the parent could otherwise reach servers that it
// cannot reach itself.
func checkSubstrate(req *composite.SpawnRequest, parent *vacants.Record) error {
	if req.Substrate == "" {
		return nil
	}
	spec, err := substrate.Parse(req.Substrate)
	if err != nil {
		return err
	}
	if s := spec.String(); s == defaultSubstrate || s == parent.Substrate && s != plan.Kind {
		return nil
	}
	return problem.New(problem.Forbidden, "substrate: expected none (the parent's substrate) or %s, got %s; only the operator may choose another one",
		defaultSubstrate, quoteTruncated(req.Substrate))
}

// childName appends the parent's id to the requested name. A parent can therefore neither take a
// name from another vacant's child nor learn such names.
func childName(parent identity.ID, requestedName string) (string, error) {
	if err := registry.CheckName(requestedName); err != nil {
		return "", err
	}
	name := requestedName + "-" + parent.Short()
	if len(name) > registry.MaxNameBytes {
		return "", problem.Invalid("name", fmt.Sprintf("at most %d characters, because the host appends -%s", registry.MaxNameBytes-len(name)+len(requestedName), parent.Short()), strconv.Itoa(len(requestedName)))
	}
	return name, nil
}
