package vacants

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// ListOpen returns the ids of up to n open vacants (neither terminal nor closed children), ordered
// by name. The result may be a second old. Callers must not change the slice.
func (v *Directory) ListOpen(ctx context.Context, n int) ([]identity.ID, error) {
	start := v.Now()
	if ids, isCached := v.cache.getOpenIDs(n, start); isCached {
		return ids, nil
	}
	generation := v.cache.currentGeneration()
	ids, err := v.loadOpenIDs(ctx, n)
	if err == nil {
		v.cache.putOpenIDs(openIDs{ids: ids, n: n, expires: start.Add(cacheTTL)}, generation)
	}
	return ids, err
}

func (v *Directory) loadOpenIDs(ctx context.Context, n int) (ids []identity.ID, err error) {
	docs, _, err := v.Store.Docs(ctx, RecordDocs.IndexRange(), n, "")
	if err != nil {
		return nil, store.AsProblem(err)
	}
	for _, d := range docs {
		parts, ok := RecordDocs.Parts(d.Key)
		if !ok {
			return nil, problem.New(problem.Damaged, "%.80s is listed as an open vacant", d.Key)
		}
		id, err := identity.ParseID(parts[0])
		if err != nil {
			return nil, problem.New(problem.Damaged, "%.80s is listed as an open vacant", d.Key)
		}
		if m, err := v.lookupRecord(ctx, id, false); err != nil {
			return nil, err
		} else if m.ok && m.record.isOpen() { // the index may lag behind
			ids = append(ids, id)
		}
	}
	return ids, nil
}
