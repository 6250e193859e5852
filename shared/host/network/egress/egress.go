// Package egress decides what a hosted vacant may reach. It is the guard of
// network/outbound (PROTOCOL §14).
//
// The invariants: a vacant without a parent is not limited. A child reaches
// what its own signed manifest allows, and nothing if the manifest cannot be
// read. A vacant is called only at an address in its own card. Each refusal
// names the rule. Siblings are determined by the callee's own manifest, so no
// list can be forged.
package egress

import (
	"context"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Vacants tells whom the host hosts, at most a second ago; *vacants.Directory does.
type Vacants interface {
	Show(ctx context.Context, id identity.ID) (r vacants.Record, ok bool, err error)
}

// Manifests returns the parent and manifest of vacants, strongly consistent;
// *registry.Registry implements it.
type Manifests interface {
	Manifest(ctx context.Context, child identity.ID) (registry.ManifestDocument, bool, error)
}

// Guard is the guard of a host's vacants. Its zero value refuses all until it is
// bound: clients are made before the host that they are for. It is safe for
// concurrent use.
type Guard struct {
	bound atomic.Pointer[books]
}

type books struct {
	vacants   Vacants
	manifests Manifests
}

// Bind says where to look vacants and manifests up, once.
func (g *Guard) Bind(v Vacants, m Manifests) { g.bound.Store(&books{v, m}) }

// Permit is outbound.Guard. A vacant without a parent costs no read but that of
// its record, which is remembered; a child one of its manifest and, to call who
// is not its parent, one of the callee's.
func (g *Guard) Permit(ctx context.Context, as outbound.Actor, url string) error {
	b := g.bound.Load()
	if b == nil {
		return problem.New(problem.Unavailable, "the host is not open yet")
	}
	id, _ := as.Vacant()
	r, ok, err := b.vacants.Show(ctx, id)
	switch {
	case err != nil:
		return err
	case !ok:
		return problem.New(problem.Forbidden, "vacant %s is not hosted here, and reaches nothing from here", id.Short())
	}
	callee := as.Callee()
	if callee != nil {
		if err := atItsEndpoint(callee, url); err != nil {
			return err
		}
	}
	if r.Parent == nil {
		return nil
	}
	d, ok, err := b.manifests.Manifest(ctx, id)
	m := &d.Manifest
	switch {
	case err != nil:
		return err
	case !ok:
		return problem.New(problem.Damaged, "the manifest of %s is not there: it reaches nothing", id.Short())
	case callee == nil:
		return m.CheckEndpoint(url)
	}
	siblings, err := b.siblings(ctx, m, callee.VacantID)
	if err != nil {
		return err
	}
	if err := m.CheckCall(callee.VacantID, siblings); err != nil {
		return err
	}
	return m.CheckPolicy(callee.VacantID, siblings)
}

// siblings is callee if it is a sibling of m's child, and nobody else.
func (b *books) siblings(ctx context.Context, m *composite.Manifest, callee identity.ID) ([]identity.ID, error) {
	if callee == m.ParentID || callee == m.ChildID {
		return nil, nil
	}
	its, ok, err := b.manifests.Manifest(ctx, callee)
	if err != nil || !ok || its.Manifest.ParentID != m.ParentID {
		return nil, err
	}
	return []identity.ID{callee}, nil
}

// callPaths are the paths that a host answers calls of a vacant at (PROTOCOL §6.1).
func callPaths() []string {
	return []string{"/a2a/message/send", "/a2a/message/ask", "/a2a/chain/reset"}
}

// atItsEndpoint reports whether target is an endpoint of the callee's own card.
// Any other address under a parent's name would be an escape.
func atItsEndpoint(callee *card.Card, target string) error {
	if !callee.Verify() {
		return problem.New(problem.Untrusted, "the card of %s does not verify", callee.VacantID.Short())
	}
	if target == callee.Endpoint {
		return nil
	}
	at, err := base(target)
	if err != nil {
		return err
	}
	its, err := base(callee.Endpoint)
	if err != nil || at != its {
		return problem.Wrap(problem.Untrusted, err, "%s takes no calls there: its card names another endpoint", callee.VacantID.Short())
	}
	return nil
}

// base is a URL without the handler that it ends in.
func base(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil {
		return "", problem.Invalid("url", "a URL", "something else")
	}
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), ""
	for _, handler := range callPaths() {
		if rest, ok := strings.CutSuffix(u.Path, handler); ok {
			u.Path = strings.TrimRight(rest, "/")
			break
		}
	}
	return u.String(), nil
}
