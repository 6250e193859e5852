package vacants

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

// MaxPage is the longest page of List and Logbook.
const MaxPage = 100

// Get returns the record of id, read from the store; a problem of kind
// NotFound if id is not hosted here.
func (v *Directory) Get(ctx context.Context, id identity.ID) (Record, error) {
	r, ok, err := v.read(ctx, id)
	if err == nil && !ok {
		err = notHosted(id)
	}
	return r, err
}

func notHosted(id identity.ID) error {
	return problem.New(problem.NotFound, "vacant %s is not hosted here", id.Short())
}

// ByName returns the record of the vacant with a name.
func (v *Directory) ByName(ctx context.Context, name string) (Record, error) {
	if err := registry.CheckName(name); err != nil {
		return Record{}, err
	}
	d, err := v.Store.Doc(ctx, NameKey(name))
	if err != nil {
		return Record{}, store.Problem(err)
	}
	if d.Version == 0 {
		return Record{}, problem.New(problem.NotFound, "no vacant named %s is hosted here", name)
	}
	id, err := DecodeName(d)
	if err != nil {
		return Record{}, err
	}
	return v.Get(ctx, id)
}

// minPrefix is the shortest prefix of an id, in hex digits, that Find accepts.
const minPrefix = 4

// Find returns the record for what a person typed: a name, an id, or a prefix
// of an id, tried in this order. A prefix of several ids is refused and the
// refusal names the vacants.
func (v *Directory) Find(ctx context.Context, what string) (Record, error) {
	if id, err := identity.ParseID(what); err == nil {
		return v.Get(ctx, id)
	}
	r, err := v.ByName(ctx, what)
	if !problem.Is(err, problem.NotFound) || len(what) < minPrefix || len(what) >= 2*identity.Size || strings.Trim(what, "0123456789abcdef") != "" {
		return r, err
	}
	var found []named
	_, listed := v.each(ctx, func(n named) (bool, error) {
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
		return v.Get(ctx, found[0].id)
	}
	names := make([]string, len(found))
	for i, n := range found {
		names[i] = n.name + " (" + n.id.Short() + ")"
	}
	return Record{}, problem.Invalid("vacant", "the beginning of one id", fmt.Sprintf("%s, which fits %s", what, strings.Join(names, ", ")))
}

// List returns a page of the records of vacants that are not deleted, by name,
// and the cursor of the next page, "" after the last. A page may be short or
// empty although more pages follow.
func (v *Directory) List(ctx context.Context, cursor string, n int) ([]Record, string, error) {
	return v.list(ctx, namePartition, cursor, n, func(r *Record) bool { return !r.IsDeleted() })
}

// ListAll is List with tombstones: at last those whose names belong to others by
// now, by id.
func (v *Directory) ListAll(ctx context.Context, cursor string, n int) ([]Record, string, error) {
	all := func(*Record) bool { return true }
	at, err := store.ParseCursor(cursor)
	if err == nil && at.Key.Partition == formerPartition {
		return v.list(ctx, formerPartition, cursor, n, all)
	}
	records, next, err := v.list(ctx, namePartition, cursor, n, all)
	if err == nil && next == "" {
		next = store.Cursor{Key: store.Key{Partition: formerPartition, Sort: beforeIDs}}.String()
	}
	return records, next, err
}

// list is a page of the records in a partition that have keep.
func (v *Directory) list(ctx context.Context, partition, cursor string, n int, keep func(*Record) bool) ([]Record, string, error) {
	ids, next, err := v.ids(ctx, partition, cursor, n)
	if err != nil {
		return nil, "", err
	}
	records := make([]Record, 0, len(ids))
	for _, n := range ids {
		r, err := v.Get(ctx, n.id)
		if err != nil {
			return nil, "", err
		}
		if keep(&r) {
			records = append(records, r)
		}
	}
	return records, next, nil
}

// Placed is a logbook entry and its position, from 1.
type Placed struct {
	Position uint64
	Entry    logbook.Entry
}

// Logbook returns up to n entries of id's logbook, from position from on.
func (v *Directory) Logbook(ctx context.Context, id identity.ID, from uint64, n int) ([]Placed, error) {
	if n < 1 || n > MaxPage {
		return nil, problem.Invalid("limit", fmt.Sprintf("1 to %d", MaxPage), fmt.Sprint(n))
	}
	rows, err := v.Store.Rows(ctx, store.StreamOf(store.KindLogbook, id), max(from, 1), n, store.Ascending)
	if err != nil {
		return nil, store.Problem(err)
	}
	entries := make([]Placed, len(rows))
	for i, row := range rows {
		e, err := decodeEntry(id, row)
		if err != nil {
			return nil, err
		}
		entries[i] = Placed{row.Position, *e}
	}
	return entries, nil
}

// named is a name and the id of its vacant.
type named struct {
	name string
	id   identity.ID
}

// names returns a page of all names, strongly consistent.
func (v *Directory) names(ctx context.Context, cursor string, n int) ([]named, string, error) {
	return v.ids(ctx, namePartition, cursor, n)
}

// ids is names for a partition of documents with ids.
func (v *Directory) ids(ctx context.Context, partition, cursor string, n int) ([]named, string, error) {
	if err := checkPage(cursor, n); err != nil {
		return nil, "", err
	}
	docs, next, err := v.Store.Docs(ctx, store.Range{Partition: partition}, n, cursor)
	if err != nil {
		return nil, "", store.Problem(err)
	}
	page := make([]named, len(docs))
	for i, d := range docs {
		id, err := DecodeName(d)
		if err != nil {
			return nil, "", err
		}
		page[i] = named{d.Key.Sort, id}
	}
	return page, next, nil
}

func checkPage(cursor string, n int) error {
	if n < 1 || n > MaxPage {
		return problem.Invalid("limit", fmt.Sprintf("1 to %d", MaxPage), fmt.Sprint(n))
	}
	if _, err := store.ParseCursor(cursor); err != nil {
		return problem.Invalid("cursor", "the next of an earlier page", clip(cursor))
	}
	return nil
}

// each calls fn for every vacant in the order of names and counts those for
// which fn returns true. It continues after errors of fn and returns them
// joined.
func (v *Directory) each(ctx context.Context, fn func(named) (bool, error)) (count int, err error) {
	var failed []error
	for cursor, more := "", true; more; more = cursor != "" {
		page, next, err := v.names(ctx, cursor, MaxPage)
		if err != nil {
			return count, errors.Join(append(failed, err)...)
		}
		for _, n := range page {
			yes, err := fn(n)
			if yes {
				count++
			}
			failed = append(failed, err)
		}
		cursor = next
	}
	return count, errors.Join(failed...)
}
