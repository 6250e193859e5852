// Package egress decides which endpoints a hosted vacant may reach (PROTOCOL §14). A child reaches
// only what its own signed manifest allows.
package egress

import (
	"context"
	"net/url"
	"strings"

	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

type Vacants interface {
	FindCached(ctx context.Context, id identity.ID) (r vacants.Record, ok bool, err error)
}

// Manifests reads with strong consistency.
type Manifests interface {
	Manifest(ctx context.Context, child identity.ID) (registry.ManifestDocument, bool, error)
}

// Guard is safe for concurrent use. Its method CheckPermission is an outbound.EndpointGuard.
type Guard struct {
	Vacants   Vacants
	Manifests Manifests
}

func (g Guard) CheckPermission(ctx context.Context, actor outbound.Actor, url string) error {
	id, _ := actor.Vacant()
	r, ok, err := g.Vacants.FindCached(ctx, id)
	switch {
	case err != nil:
		return err
	case !ok:
		return problem.New(problem.Forbidden, "vacant %s is not hosted here, and may not send requests from this host", id.Short())
	}
	callee := actor.Callee()
	if callee != nil {
		if err := checkCalleeEndpoint(callee, url); err != nil {
			return err
		}
	}
	if r.Parent == nil {
		return nil
	}
	d, ok, err := g.Manifests.Manifest(ctx, id)
	m := &d.Manifest
	switch {
	case err != nil:
		return err
	case !ok:
		return problem.New(problem.Damaged, "the manifest of %s is missing, so it may not reach any endpoint", id.Short())
	case callee == nil:
		return m.CheckOutboundURL(url)
	}
	siblings, err := g.findSiblings(ctx, m, callee.VacantID)
	if err != nil {
		return err
	}
	if err := m.CheckTreeOnly(callee.VacantID, siblings); err != nil {
		return err
	}
	return m.CheckOutboundCall(callee.VacantID, siblings)
}

func (g Guard) findSiblings(ctx context.Context, m *composite.Manifest, callee identity.ID) ([]identity.ID, error) {
	if callee == m.ParentID || callee == m.ChildID {
		return nil, nil
	}
	// The callee's own manifest decides. Otherwise a child could present any vacant as a sibling.
	calleeManifest, ok, err := g.Manifests.Manifest(ctx, callee)
	if err != nil || !ok || calleeManifest.Manifest.ParentID != m.ParentID {
		return nil, err
	}
	return []identity.ID{callee}, nil
}

func checkCalleeEndpoint(callee *card.Card, target string) error {
	// If the card were not checked, a child could present any server as its parent's endpoint.
	if !callee.Verify() {
		return problem.New(problem.Untrusted, "the card of %s does not verify", callee.VacantID.Short())
	}
	if target == callee.Endpoint {
		return nil
	}
	targetBase, err := baseURL(target)
	if err != nil {
		return err
	}
	calleeBase, err := baseURL(callee.Endpoint)
	if err != nil || targetBase != calleeBase {
		return problem.Wrap(problem.Untrusted, err, "%s does not accept calls at this URL: its card names another endpoint", callee.VacantID.Short())
	}
	return nil
}

func baseURL(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil {
		return "", problem.Invalid("url", "a URL", "something else")
	}
	// A host answers calls to a vacant at these paths (PROTOCOL §6.1).
	for _, handler := range []string{"/a2a/message/send", "/a2a/message/ask", "/a2a/chain/reset"} {
		if strings.HasSuffix(strings.TrimRight(u.EscapedPath(), "/"), handler) {
			return outbound.ReplaceSuffix(u, handler, "").String(), nil
		}
	}
	return outbound.ReplaceSuffix(u, "", "").String(), nil
}
