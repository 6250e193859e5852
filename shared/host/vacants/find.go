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
// it, the error is NotFound.
func (v *Directory) Get(ctx context.Context, asker Asker, id identity.ID) (Record, error) {
	r, ok, err := v.readRecord(ctx, id)
	if err == nil && (!ok || !asker.MayKnow(&r)) {
		return Record{}, asker.unknownError(id.String(), notHosted(id))
	}
	return r, err
}

func notHosted(id identity.ID) error {
	return problem.New(problem.NotFound, "vacant %s is not hosted here", id.Short())
}

func (v *Directory) getAsOperator(ctx context.Context, id identity.ID) (Record, error) {
	return v.Get(ctx, OperatorAsker(), id)
}

func (v *Directory) GetExisting(ctx context.Context, id identity.ID) (Record, error) {
	r, err := v.getAsOperator(ctx, id)
	if err == nil && r.IsDeleted() {
		err = deletedError(&r)
	}
	return r, err
}

func (v *Directory) GetByName(ctx context.Context, asker Asker, name string) (Record, error) {
	if err := registry.CheckName(name); err != nil {
		return Record{}, err
	}
	d, err := ReadNameDoc(ctx, v.Store, name)
	if err != nil {
		return Record{}, store.AsProblem(err)
	}
	missingErr := asker.unknownError(name, problem.New(problem.NotFound, "vacant %s is not hosted here", name))
	if d.Version == 0 {
		return Record{}, missingErr
	}
	id, err := NameDocs.Parse(d)
	if err != nil {
		return Record{}, err
	}
	r, err := v.Get(ctx, asker, id)
	if problem.Is(err, problem.NotFound) {
		err = missingErr
	}
	return r, err
}

// minPrefix is the minimum length of an id prefix that Find accepts, in hex digits.
const minPrefix = 4

// Find returns the record of a vacant that a person identified by an id, a name, or a prefix of an
// id. If the prefix matches several ids, the error names their vacants.
func (v *Directory) Find(ctx context.Context, asker Asker, query string) (Record, error) {
	r, err := v.findExact(ctx, asker, query)
	if _, ok := asker.AsTenant(); ok && problem.Is(err, problem.Malformed) {
		err = asker.unknownError(query, err)
	}
	if !problem.Is(err, problem.NotFound) || len(query) < minPrefix || len(query) >= 2*identity.Size || strings.Trim(query, "0123456789abcdef") != "" {
		return r, err
	}
	var matches []namedVacant
	_, listErr := v.forEachVacant(ctx, asker, func(n namedVacant) (bool, error) {
		if strings.HasPrefix(n.id.String(), query) {
			matches = append(matches, n)
		}
		return false, nil
	})
	switch {
	case listErr != nil:
		return Record{}, listErr
	case len(matches) == 0:
		return Record{}, err
	case len(matches) == 1:
		if r, err := v.Get(ctx, asker, matches[0].id); !problem.Is(err, problem.NotFound) {
			return r, err
		}
		return Record{}, err // the index may still list a vacant that has left the tenant
	}
	names := make([]string, len(matches))
	for i, n := range matches {
		names[i] = n.name + " (" + n.id.Short() + ")"
	}
	return Record{}, problem.Invalid("vacant", "the beginning of exactly one id", fmt.Sprintf("%s, which matches %s", query, strings.Join(names, ", ")))
}

func (v *Directory) findExact(ctx context.Context, asker Asker, nameOrID string) (Record, error) {
	if id, err := identity.ParseID(nameOrID); err == nil {
		return v.Get(ctx, asker, id)
	}
	return v.GetByName(ctx, asker, nameOrID)
}

// List returns a page of the vacants that the Asker knows and that are not deleted, ordered by
// name. It also returns the cursor of the next page, or "" after the last page. A page may be short
// or empty although more pages follow.
func (v *Directory) List(ctx context.Context, asker Asker, cursor string, n int) ([]Record, string, error) {
	return v.listRange(ctx, asker, asker.nameRange(), cursor, n, func(r *Record) bool { return !r.IsDeleted() })
}

func (v *Directory) Pages(ctx context.Context, asker Asker) iter.Seq2[[]Record, error] {
	return store.AllPages(func(cursor string) ([]Record, string, error) { return v.List(ctx, asker, cursor, MaxPage) })
}

// ListAll works like List, but includes tombstones.
func (v *Directory) ListAll(ctx context.Context, asker Asker, cursor string, n int) ([]Record, string, error) {
	acceptAll := func(*Record) bool { return true }
	docRange := asker.nameRange()
	if docRange.Index {
		docRange.End = reservedSortPrefix
		return v.listRange(ctx, asker, docRange, cursor, n, acceptAll)
	}
	start, err := store.ParseCursor(cursor)
	if err == nil && start.Key.Partition == NamelessTombstoneDocs.Partition {
		return v.listRange(ctx, asker, NamelessTombstoneDocs.Range(), cursor, n, acceptAll)
	}
	records, next, err := v.listRange(ctx, asker, docRange, cursor, n, acceptAll)
	if err == nil && next == "" {
		next = store.Cursor{Key: NamelessTombstoneDocs.Key(minSortKey)}.String()
	}
	return records, next, err
}

func (v *Directory) listRange(ctx context.Context, asker Asker, docRange store.Range, cursor string, n int, accept func(*Record) bool) ([]Record, string, error) {
	entries, next, err := v.listNames(ctx, docRange, cursor, n)
	if err != nil {
		return nil, "", err
	}
	records := make([]Record, 0, len(entries))
	for _, n := range entries {
		r, err := v.getAsOperator(ctx, n.id)
		if err != nil {
			return nil, "", err
		}
		if asker.MayKnow(&r) && accept(&r) {
			records = append(records, r)
		}
	}
	return records, next, nil
}

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

type namedVacant struct {
	name string
	id   identity.ID
}

func (v *Directory) listNames(ctx context.Context, docRange store.Range, cursor string, n int) ([]namedVacant, string, error) {
	if err := checkPage(cursor, n); err != nil {
		return nil, "", err
	}
	if docRange.Partition == "" {
		return nil, "", nil
	}
	docs, next, err := v.Store.Docs(ctx, docRange, n, cursor)
	if err != nil {
		return nil, "", store.AsProblem(err)
	}
	page := make([]namedVacant, len(docs))
	for i, d := range docs {
		id, err := NameDocs.Parse(d)
		if err != nil {
			return nil, "", err
		}
		page[i] = namedVacant{d.Index.Sort, id}
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

// forEachVacant calls fn for all vacants that the Asker knows and returns the number of vacants for
// which fn returns true.
func (v *Directory) forEachVacant(ctx context.Context, asker Asker, fn func(namedVacant) (bool, error)) (count int, err error) {
	var errs []error
	pages := store.AllPages(func(cursor string) ([]namedVacant, string, error) {
		return v.listNames(ctx, asker.nameRange(), cursor, MaxPage)
	})
	for n, err := range store.Flatten(pages) {
		if err != nil {
			return count, errors.Join(append(errs, err)...)
		}
		isCounted, err := fn(n)
		if isCounted {
			count++
		}
		errs = append(errs, err)
	}
	return count, errors.Join(errs...)
}
