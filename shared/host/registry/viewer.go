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
func (v *viewer) canSee(ctx context.Context, reg *Registration) (bool, error) {
	if reg.IsVisibleTo(v.id) {
		return true, nil
	}
	if v.id == nil || !reg.Closed {
		return false, nil
	}
	if !v.isParentLoaded {
		m, ok, err := v.registry.Manifest(ctx, *v.id)
		if err != nil {
			return false, err
		}
		if v.isParentLoaded = true; ok {
			v.parent = &m.Manifest.ParentID
		}
	}
	return v.parent != nil && *v.parent == *reg.Parent, nil
}
