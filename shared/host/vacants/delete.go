package vacants

import (
	"context"
	"math"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/vacancy-host/vacancy/shared/host/registry/callstats"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

// Delete destroys the seed, the card, the imported chains and the call statistics of an ARCHIVED
// vacant. Its rows, its logbook and a tombstone remain, and its id and name stay reserved.
// Repeating the call completes an interrupted deletion. A parent with children on this host cannot
// be deleted, because the children could never graduate.
func (v *Directory) Delete(ctx context.Context, id identity.ID) (Record, error) {
	r, err := v.getAsOperator(ctx, id)
	if err == nil && !r.IsDeleted() {
		err = checkDeletable(&r)
	}
	if err != nil || r.IsDeleted() {
		return r, err
	}
	if err := v.checkChildless(ctx, &r); err != nil {
		return Record{}, err
	}
	// The vault is checked first, because its failure would leave a partly deleted vacant.
	if err := v.signers.Key(id, r.sealedSeed).Ready(ctx); err != nil {
		return Record{}, err
	}
	recordKey := RecordKey(id)
	for d, err := range store.Documents(ctx, v.Store, store.Range{Partition: recordKey.Partition}) {
		if err != nil {
			return Record{}, store.AsProblem(err)
		}
		if d.Key == recordKey {
			continue
		}
		if err := v.destroy(ctx, d); err != nil {
			return Record{}, err
		}
	}
	if r.HasKin {
		d, err := v.Store.Doc(ctx, callstats.CallsKey(id))
		if err == nil && d.Version > 0 {
			err = v.destroy(ctx, d)
		}
		if err != nil {
			return Record{}, store.AsProblem(err)
		}
	}
	// The record with the seed is changed last, because the deletion is signed with the seed. If the
	// process dies before, a repeated Delete continues.
	if _, err = v.changeRecord(ctx, id, func(r *Record) (*entry, error) {
		if r.IsDeleted() {
			return nil, nil
		}
		if err := checkDeletable(r); err != nil {
			return nil, err
		}
		r.DeletedAt = v.now()
		return &entry{logbook.KindDeleted, logbook.DeletedPayload(r.Name, r.ID)}, nil
	}); err != nil {
		return Record{}, err
	}
	v.signers.Forget(id)
	return v.getAsOperator(ctx, id)
}

func checkDeletable(r *Record) error {
	if r.State != lifecycle.Archived {
		return problem.New(problem.Conflict, "vacant %s is %s; only a vacant that is %s can be deleted", r.Name, r.State, lifecycle.Archived)
	}
	return nil
}

func (v *Directory) checkChildless(ctx context.Context, r *Record) error {
	if !r.HasKin {
		return nil
	}
	listByEdge := func(ctx context.Context, cursor string) ([]identity.ID, string, error) {
		return v.Registry.ListChildIDs(ctx, r.ID, cursor, MaxPage)
	}
	names, isComplete, err := v.listChildNames(ctx, r, listByEdge, maxEdges)
	if err == nil && !isComplete && len(names) == 0 {
		names, _, err = v.listChildNames(ctx, r, v.listIDsByName, math.MaxInt)
	}
	if err != nil || len(names) == 0 {
		return err
	}
	if len(names) > maxNamedChildren {
		names = append(names[:maxNamedChildren], "others")
	}
	return problem.New(problem.Conflict, "vacant %s has children here: %s; delete them first", r.Name, strings.Join(names, ", "))
}

const (
	// maxEdges limits the parent-child links in the registry that are followed. The holder of the
	// parent's key can create any number of links to children that do not exist.
	maxEdges           = 1000
	maxNamedChildren   = 3
	maxConcurrentReads = 16
)

type idLister func(ctx context.Context, cursor string) (ids []identity.ID, next string, err error)

func (v *Directory) listIDsByName(ctx context.Context, cursor string) ([]identity.ID, string, error) {
	page, next, err := v.listNames(ctx, OperatorAsker().nameRange(), cursor, MaxPage)
	ids := make([]identity.ID, len(page))
	for i, n := range page {
		ids[i] = n.id
	}
	return ids, next, err
}

// listChildNames returns the names of parent's children among the ids that list returns. isComplete
// reports whether it has read all ids.
func (v *Directory) listChildNames(ctx context.Context, parent *Record, list idLister, limit int) (names []string, isComplete bool, err error) {
	if v.Registry == nil {
		return nil, true, nil
	}
	readCount := 0
	for cursor := ""; ; {
		ids, next, err := list(ctx, cursor)
		if err != nil {
			return nil, false, err
		}
		records := make([]Record, len(ids))
		g, gctx := errgroup.WithContext(ctx)
		g.SetLimit(maxConcurrentReads)
		for i, id := range ids {
			g.Go(func() (err error) {
				records[i], _, err = v.readRecord(gctx, id)
				return err
			})
		}
		if err := g.Wait(); err != nil {
			return nil, false, err
		}
		for _, r := range records {
			if r.Parent != nil && *r.Parent == parent.ID && !r.IsDeleted() {
				names = append(names, r.nameVisibleTo(parent))
			}
		}
		readCount += len(ids)
		if next == "" || readCount >= limit || len(names) > maxNamedChildren {
			return names, next == "", nil
		}
		cursor = next
	}
}

func (v *Directory) destroy(ctx context.Context, d store.Doc) error {
	isRetry := false
	return store.AsProblem(v.updater().Update(ctx, func(ctx context.Context, tx *store.Tx) (err error) {
		if isRetry {
			d, err = tx.Doc(ctx, d.Key)
		}
		isRetry = true
		if err == nil && d.Version > 0 {
			tx.AddWrites(store.Delete{Key: d.Key, IfVersion: d.Version})
		}
		return err
	}))
}

func deletedError(r *Record) error {
	return problem.New(problem.Gone, "vacant %s (%s) was deleted; its id is never used again", r.Name, r.ID.Short())
}
