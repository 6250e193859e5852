package registry

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// asker is the reader of registrations. Its parent is read at most once.
type asker struct {
	registry *Registry
	id       *identity.ID // the id that the reader proved; nil if anonymous
	known    bool
	parent   *identity.ID
}

func (r *Registry) askerOf(caller *identity.ID) *asker { return &asker{registry: r, id: caller} }

// may reports whether the asker may see g: if g is public, if the asker is g
// itself or its parent, or if g is a closed child and the asker its sibling.
func (a *asker) may(ctx context.Context, g *Registration) (bool, error) {
	if g.ReadableBy(a.id) {
		return true, nil
	}
	if a.id == nil || !g.Closed {
		return false, nil
	}
	if !a.known {
		m, ok, err := a.registry.Manifest(ctx, *a.id)
		if err != nil {
			return false, err
		}
		if a.known = true; ok {
			a.parent = &m.Manifest.ParentID
		}
	}
	return a.parent != nil && *a.parent == *g.Parent, nil
}
