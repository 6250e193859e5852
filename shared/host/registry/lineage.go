package registry

import (
	"context"
	"slices"
	"strconv"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

type Direction string

const (
	Ancestors   Direction = "ancestors"
	Descendants Direction = "descendants"
)

const (
	MaxDepth      = 32 // steps from child to parent
	MaxLineageIDs = 250
	maxReadBytes  = 256 << 10
)

// readBudget limits the reads of a lineage, because strangers may request lineages and can create
// families of any size.
type readBudget struct{ ids, bytes int }

// Lineage returns the ancestors or descendants of id, nearest first. It follows only proven edges,
// because anyone can claim a parent. It omits vacants that caller may not see, and all vacants that
// are reachable only through them.
func (r *Registry) Lineage(ctx context.Context, id identity.ID, caller *identity.ID, d Direction, depth int) ([]identity.ID, error) {
	if depth < 1 || depth > MaxDepth {
		return nil, schemaError("depth", "1 to "+strconv.Itoa(MaxDepth), strconv.Itoa(depth))
	}
	var relativesOf func(context.Context, *Registration, int) ([]identity.ID, error)
	switch d {
	case Ancestors:
		relativesOf = func(_ context.Context, reg *Registration, _ int) ([]identity.ID, error) {
			return reg.provenParents(), nil
		}
	case Descendants:
		relativesOf = r.readChildIDs
	default:
		return nil, schemaError("direction", "ancestors or descendants", quoteTruncated(string(d)))
	}
	reg, err := r.View(ctx, id, caller)
	if err != nil {
		return nil, err
	}
	seen := map[identity.ID]bool{id: true}
	var chain []identity.ID
	budget, v := readBudget{MaxLineageIDs, maxReadBytes}, r.newViewer(caller)
	for level := []Registration{reg}; len(level) > 0 && depth > 0; depth-- {
		var ids []identity.ID
		for i := range level {
			relatives, err := relativesOf(ctx, &level[i], budget.ids-len(ids))
			if err != nil {
				return nil, err
			}
			for _, relative := range relatives {
				if !seen[relative] && len(ids) < budget.ids {
					seen[relative] = true
					ids = append(ids, relative)
				}
			}
		}
		found, err := r.loadVisible(ctx, ids, v, &budget)
		if err != nil {
			return nil, err
		}
		if d == Descendants {
			// The edge of a replaced manifest may remain, so the child's own registration decides.
			parents := make(map[identity.ID]bool, len(level))
			for i := range level {
				parents[level[i].ID] = true
			}
			found = slices.DeleteFunc(found, func(reg Registration) bool {
				if reg.ParentProven && parents[*reg.Parent] {
					return false
				}
				delete(seen, reg.ID) // its valid edge may be further down
				return true
			})
		}
		level = found
		for i := range level {
			chain = append(chain, level[i].ID)
		}
	}
	return chain, nil
}

func (g *Registration) provenParents() []identity.ID {
	if !g.ParentProven {
		return nil
	}
	return []identity.ID{*g.Parent}
}

func (r *Registry) loadVisible(ctx context.Context, ids []identity.ID, v *viewer, budget *readBudget) ([]Registration, error) {
	var out []Registration
	for batch := range slices.Chunk(ids, maxConcurrentReads) {
		candidates, err := r.GetMany(ctx, batch)
		if err != nil {
			return nil, err
		}
		budget.ids -= len(batch)
		for _, reg := range candidates {
			budget.bytes -= len(reg.Card)
			if reg.FirstSeq == 0 {
				continue
			}
			isVisible, err := v.canSee(ctx, &reg)
			if err != nil {
				return nil, err
			}
			if isVisible {
				out = append(out, reg)
			}
		}
		if budget.bytes <= 0 {
			budget.ids = 0
			break
		}
	}
	return out, nil
}

func (r *Registry) readChildIDs(ctx context.Context, reg *Registration, limit int) ([]identity.ID, error) {
	var ids []identity.ID
	for cursor := ""; len(ids) < limit; {
		page, nextCursor, err := r.ListChildIDs(ctx, reg.ID, cursor, min(limit-len(ids), store.MaxPage))
		if err != nil {
			return nil, err
		}
		ids = append(ids, page...)
		if cursor = nextCursor; cursor == "" {
			break
		}
	}
	return ids, nil
}

// ListChildIDs returns a page of ids (1 to store.MaxPage) to which parent has an edge, and the next
// cursor, or "". An edge may be outdated. Only the child's manifest is authoritative.
func (r *Registry) ListChildIDs(ctx context.Context, parent identity.ID, cursor string, limit int) ([]identity.ID, string, error) {
	docs, next, err := r.Store.Docs(ctx, ChildEdgeDocs.Range(parent.String()), limit, cursor)
	if err != nil {
		return nil, "", WrapStoreError(err)
	}
	ids := make([]identity.ID, len(docs))
	for i, d := range docs {
		if ids[i], err = identity.ParseID(d.Key.Sort); err != nil {
			return nil, "", problem.Wrap(problem.Damaged, err, "%s is an edge to an invalid id", quoteTruncated(d.Key.String()))
		}
	}
	return ids, next, nil
}

func (r *Registry) IsChild(ctx context.Context, parent, child identity.ID) (bool, error) {
	m, ok, err := r.Manifest(ctx, child)
	return ok && m.Manifest.ParentID == parent, err
}
