package calltest

import (
	"context"
	"strings"

	"github.com/vacancy-host/vacancy/shared/store"
)

// Op is one call to a store, as an Intercept sees it.
type Op struct {
	// Name is the method and what it is about: "Tip req", "Rows rsp",
	// "Doc textkey", "Commit req", "Commit balance". Of several writes the first
	// names the commit.
	Name   string
	Writes []store.Write // of a commit
}

// Intercept stands before a store. Around is called instead of each call; do
// makes the call, any number of times, now or later. What Around returns is
// what the caller hears; rows and documents come from the last do.
type Intercept struct {
	store.Store
	Around func(ctx context.Context, op Op, do func(context.Context) error) error
}

// Tip is the store's, as Around lets it be.
func (i *Intercept) Tip(ctx context.Context, s store.Stream) (row store.Row, err error) {
	err = i.Around(ctx, Op{Name: "Tip " + s.Kind()}, func(ctx context.Context) (err error) {
		row, err = i.Store.Tip(ctx, s)
		return err
	})
	return row, err
}

// Rows are the store's, as Around lets them be.
func (i *Intercept) Rows(ctx context.Context, s store.Stream, from uint64, n int, d store.Direction) (rows []store.Row, err error) {
	err = i.Around(ctx, Op{Name: "Rows " + s.Kind()}, func(ctx context.Context) (err error) {
		rows, err = i.Store.Rows(ctx, s, from, n, d)
		return err
	})
	return rows, err
}

// Doc is the store's, as Around lets it be.
func (i *Intercept) Doc(ctx context.Context, k store.Key) (doc store.Doc, err error) {
	err = i.Around(ctx, Op{Name: "Doc " + kindOf(k)}, func(ctx context.Context) (err error) {
		doc, err = i.Store.Doc(ctx, k)
		return err
	})
	return doc, err
}

// Docs are the store's, as Around lets them be.
func (i *Intercept) Docs(ctx context.Context, r store.Range, n int, cursor string) (docs []store.Doc, next string, err error) {
	err = i.Around(ctx, Op{Name: "Docs " + kindOf(store.Key{Partition: r.Partition})}, func(ctx context.Context) (err error) {
		docs, next, err = i.Store.Docs(ctx, r, n, cursor)
		return err
	})
	return docs, next, err
}

// Commit is the store's, as Around lets it be.
func (i *Intercept) Commit(ctx context.Context, writes ...store.Write) error {
	return i.Around(ctx, Op{Name: "Commit " + target(writes), Writes: writes}, func(ctx context.Context) error {
		return i.Store.Commit(ctx, writes...)
	})
}

func target(writes []store.Write) string {
	if len(writes) == 0 {
		return "nothing"
	}
	switch w := writes[0].(type) {
	case store.Append:
		return w.Stream.Kind()
	case store.Put:
		return kindOf(w.Key)
	case store.Delete:
		return kindOf(w.Key)
	case store.Add:
		return kindOf(w.Key)
	}
	return "unknown"
}

// kindOf is a partition without the id in it.
func kindOf(k store.Key) string {
	kind, _, _ := strings.Cut(k.Partition, "#")
	return kind
}
