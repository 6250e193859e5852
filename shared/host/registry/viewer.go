package registry

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

type viewer struct {
	registry       *Registry
	id             *identity.ID // proved id, or nil for an anonymous reader
	isParentLoaded bool
	parent         *identity.ID
}

func (r *Registry) newViewer(caller *identity.ID) *viewer { return &viewer{registry: r, id: caller} }

// canSee works like IsVisibleTo, but lets the siblings of a closed child see the child.
func (a *viewer) canSee(ctx context.Context, g *Registration) (bool, error) {
	if g.IsVisibleTo(a.id) {
		return true, nil
	}
	if a.id == nil || !g.Closed {
		return false, nil
	}
	if !a.isParentLoaded {
		m, ok, err := a.registry.Manifest(ctx, *a.id)
		if err != nil {
			return false, err
		}
		if a.isParentLoaded = true; ok {
			a.parent = &m.Manifest.ParentID
		}
	}
	return a.parent != nil && *a.parent == *g.Parent, nil
}
