package vacants

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

// MaxPage is the maximum page length of List and Logbook.
const MaxPage = 100

// Get returns the record of id from the store. If id is not hosted here or the Asker may not know
// it, the error is of kind NotFound.
func (v *Directory) Get(ctx context.Context, by Asker, id identity.ID) (Record, error) {
	r, ok, err := v.read(ctx, id)
	if err == nil && (!ok || !by.MayKnow(&r)) {
		return Record{}, by.unknownError(id.String(), notHosted(id))
	}
	return r, err
}

func notHosted(id identity.ID) error {
	return problem.New(problem.NotFound, "vacant %s is not hosted here", id.Short())
}

func (v *Directory) get(ctx context.Context, id identity.ID) (Record, error) {
	return v.Get(ctx, Operator(), id)
}

func (v *Directory) GetExisting(ctx context.Context, id identity.ID) (Record, error) {
	r, err := v.get(ctx, id)
	if err == nil && r.IsDeleted() {
		err = deletedError(&r)
	}
	return r, err
}

func (v *Directory) ByName(ctx context.Context, by Asker, name string) (Record, error) {
	if err := registry.CheckName(name); err != nil {
		return Record{}, err
	}
	d, err := NameDoc(ctx, v.Store, name)
	if err != nil {
		return Record{}, store.AsProblem(err)
	}
	missing := by.unknownError(name, problem.New(problem.NotFound, "vacant %s is not hosted here", name))
	if d.Version == 0 {
		return Record{}, missing
	}
	id, err := NameDocs.Parse(d)
	if err != nil {
		return Record{}, err
	}
	r, err := v.Get(ctx, by, id)
	if problem.Is(err, problem.NotFound) {
		err = missing
	}
	return r, err
}

// minPrefix is the minimum length of a prefix of an id, in hex digits, that Find accepts.
const minPrefix = 4

// Find returns the record of a vacant that a person identified by a name, an id, or a prefix of an
// id, tried in this order. A prefix is compared only with vacants that the Asker knows. If it
// matches several ids, the error names their vacants.
func (v *Directory) Find(ctx context.Context, by Asker, what string) (Record, error) {
	r, err := v.exactly(ctx, by, what)
	if _, ok := by.OfTenant(); ok && problem.Is(err, problem.Malformed) {
		err = by.unknownError(what, err)
	}
	if !problem.Is(err, problem.NotFound) || len(what) < minPrefix || len(what) >= 2*identity.Size || strings.Trim(what, "0123456789abcdef") != "" {
		return r, err
	}
	var found []named
	_, listed := v.each(ctx, by, func(n named) (bool, error) {
		if strings.HasPrefix(n.id.String(), what) {
			found = append(found, n)
		}
		return false, nil
	})
	switch {
	case listed != nil:
		return Record{}, listed
	case len(found) == 0:
		return Record{}, err
	case len(found) == 1:
		if r, err := v.Get(ctx, by, found[0].id); !problem.Is(err, problem.NotFound) {
			return r, err
		}
		return Record{}, err // the index may still list a vacant that has left the tenant
	}
	names := make([]string, len(found))
	for i, n := range found {
		names[i] = n.name + " (" + n.id.Short() + ")"
	}
	return Record{}, problem.Invalid("vacant", "the beginning of exactly one id", fmt.Sprintf("%s, which matches %s", what, strings.Join(names, ", ")))
}

func (v *Directory) exactly(ctx context.Context, by Asker, what string) (Record, error) {
	if id, err := identity.ParseID(what); err == nil {
		return v.Get(ctx, by, id)
	}
	return v.ByName(ctx, by, what)
}

// List returns a page of the records of vacants that the Asker knows and that are not deleted,
// ordered by name, and the cursor of the next page, or "" after the last page. A page may be short
// or empty although more pages follow. A tenant's page may lack vacants that were created within
// the last second.
func (v *Directory) List(ctx context.Context, by Asker, cursor string, n int) ([]Record, string, error) {
	return v.list(ctx, by, by.names(), cursor, n, func(r *Record) bool { return !r.IsDeleted() })
}

func (v *Directory) Pages(ctx context.Context, by Asker) iter.Seq2[[]Record, error] {
	return store.AllPages(func(cursor string) ([]Record, string, error) { return v.List(ctx, by, cursor, MaxPage) })
}

// ListAll works like List, but includes tombstones. The last pages contain the tombstones whose
// names now belong to other vacants or were released, ordered by id.
func (v *Directory) ListAll(ctx context.Context, by Asker, cursor string, n int) ([]Record, string, error) {
	acceptAll := func(*Record) bool { return true }
	within := by.names()
	if within.Index {
		within.Last = reserved // tombstones without a name are in the same partition
		return v.list(ctx, by, within, cursor, n, acceptAll)
	}
	start, err := store.ParseCursor(cursor)
	if err == nil && start.Key.Partition == FormerDocs.Partition {
		return v.list(ctx, by, FormerDocs.Range(), cursor, n, acceptAll)
	}
	records, next, err := v.list(ctx, by, within, cursor, n, acceptAll)
	if err == nil && next == "" {
		next = store.Cursor{Key: FormerDocs.Key(beforeIDs)}.String()
	}
	return records, next, err
}

func (v *Directory) list(ctx context.Context, by Asker, within store.Range, cursor string, n int, keep func(*Record) bool) ([]Record, string, error) {
	ids, next, err := v.ids(ctx, within, cursor, n)
	if err != nil {
		return nil, "", err
	}
	records := make([]Record, 0, len(ids))
	for _, n := range ids {
		r, err := v.get(ctx, n.id)
		if err != nil {
			return nil, "", err
		}
		if by.MayKnow(&r) && keep(&r) {
			records = append(records, r)
		}
	}
	return records, next, nil
}

// PositionedEntry is a logbook entry and its position, which starts at 1.
type PositionedEntry struct {
	Position uint64
	Entry    logbook.Entry
}

func (v *Directory) Logbook(ctx context.Context, id identity.ID, from uint64, n int) ([]PositionedEntry, error) {
	if n < 1 || n > MaxPage {
		return nil, problem.Invalid("limit", fmt.Sprintf("1 to %d", MaxPage), fmt.Sprint(n))
	}
	rows, err := v.Store.Rows(ctx, store.StreamOf(store.KindLogbook, id), max(from, 1), n, store.Ascending)
	if err != nil {
		return nil, store.AsProblem(err)
	}
	entries := make([]PositionedEntry, len(rows))
	for i, row := range rows {
		e, err := decodeEntry(id, row)
		if err != nil {
			return nil, err
		}
		entries[i] = PositionedEntry{row.Position, *e}
	}
	return entries, nil
}

type named struct {
	name string
	id   identity.ID
}

func (v *Directory) ids(ctx context.Context, within store.Range, cursor string, n int) ([]named, string, error) {
	if err := checkPage(cursor, n); err != nil {
		return nil, "", err
	}
	if within.Partition == "" {
		return nil, "", nil // the asker knows no vacants
	}
	docs, next, err := v.Store.Docs(ctx, within, n, cursor)
	if err != nil {
		return nil, "", store.AsProblem(err)
	}
	page := make([]named, len(docs))
	for i, d := range docs {
		id, err := NameDocs.Parse(d)
		if err != nil {
			return nil, "", err
		}
		page[i] = named{d.Index.Sort, id}
	}
	return page, next, nil
}

func checkPage(cursor string, n int) error {
	if n < 1 || n > MaxPage {
		return problem.Invalid("limit", fmt.Sprintf("1 to %d", MaxPage), fmt.Sprint(n))
	}
	_, err := store.ParseCursor(cursor)
	return err
}

// each calls fn for all vacants that the Asker knows, in the order of their names, and returns the
// number of vacants for which fn returns true. After an error of fn, it continues with the next
// vacant, and returns all errors.
func (v *Directory) each(ctx context.Context, by Asker, fn func(named) (bool, error)) (count int, err error) {
	var failed []error
	pages := store.AllPages(func(cursor string) ([]named, string, error) { return v.ids(ctx, by.names(), cursor, MaxPage) })
	for n, err := range store.Flatten(pages) {
		if err != nil {
			return count, errors.Join(append(failed, err)...)
		}
		yes, err := fn(n)
		if yes {
			count++
		}
		failed = append(failed, err)
	}
	return count, errors.Join(failed...)
}
