package registry

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// viewer is the reader of a request. It looks up the reader's parent at most once.
type viewer struct {
	registry       *Registry
	id             *identity.ID // id that the reader has proved, or nil for an anonymous reader
	isParentLoaded bool         // whether parent has been looked up
	parent         *identity.ID
}

func (r *Registry) newViewer(caller *identity.ID) *viewer { return &viewer{registry: r, id: caller} }

// canSee reports whether the viewer may see g. Anyone may see a vacant that is not hidden. The
// vacant itself and its proven parent may always see it, and the siblings of a closed child may see
// the child.
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
