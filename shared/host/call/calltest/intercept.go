package calltest

import (
	"context"
	"strings"

	"github.com/vacancy-host/vacancy/shared/store"
)

// Op is one store call, as an Intercept gets it.
type Op struct {
	// Name is the method and its subject: "Tip req", "Rows rsp", "Doc textkey",
	// "Commit req", "Commit balance". A commit is named by its first write.
	Name string
	// Subject names the stream, document or partition that the call is about.
	Subject string
	Writes  []store.Write // of a commit
}

// Intercept wraps a store. It calls Around instead of each method; do makes the
// real call, any number of times, at once or later. The caller gets the error
// that Around returns, and the rows and documents of the last do.
type Intercept struct {
	store.Store
	Around func(ctx context.Context, op Op, do func(context.Context) error) error
}

// Tip calls the store through Around.
func (i *Intercept) Tip(ctx context.Context, s store.Stream) (row store.Row, err error) {
	err = i.Around(ctx, Op{Name: "Tip " + s.Kind(), Subject: s.String()}, func(ctx context.Context) (err error) {
		row, err = i.Store.Tip(ctx, s)
		return err
	})
	return row, err
}

// Rows calls the store through Around.
func (i *Intercept) Rows(ctx context.Context, s store.Stream, from uint64, n int, d store.Direction) (rows []store.Row, err error) {
	err = i.Around(ctx, Op{Name: "Rows " + s.Kind(), Subject: s.String()}, func(ctx context.Context) (err error) {
		rows, err = i.Store.Rows(ctx, s, from, n, d)
		return err
	})
	return rows, err
}

// Doc calls the store through Around.
func (i *Intercept) Doc(ctx context.Context, k store.Key) (doc store.Doc, err error) {
	err = i.Around(ctx, Op{Name: "Doc " + kindOf(k), Subject: k.String()}, func(ctx context.Context) (err error) {
		doc, err = i.Store.Doc(ctx, k)
		return err
	})
	return doc, err
}

// Docs calls the store through Around.
func (i *Intercept) Docs(ctx context.Context, r store.Range, n int, cursor string) (docs []store.Doc, next string, err error) {
	err = i.Around(ctx, Op{Name: "Docs " + kindOf(store.Key{Partition: r.Partition}), Subject: r.Partition}, func(ctx context.Context) (err error) {
		docs, next, err = i.Store.Docs(ctx, r, n, cursor)
		return err
	})
	return docs, next, err
}

// Commit calls the store through Around.
func (i *Intercept) Commit(ctx context.Context, writes ...store.Write) error {
	kind, subject := target(writes)
	return i.Around(ctx, Op{Name: "Commit " + kind, Subject: subject, Writes: writes}, func(ctx context.Context) error {
		return i.Store.Commit(ctx, writes...)
	})
}

// target is the kind of what a commit writes first, and which one it is.
func target(writes []store.Write) (kind, subject string) {
	if len(writes) == 0 {
		return "nothing", ""
	}
	var k store.Key
	switch w := writes[0].(type) {
	case store.Append:
		return w.Stream.Kind(), w.Stream.String()
	case store.Put:
		k = w.Key
	case store.Delete:
		k = w.Key
	case store.Add:
		k = w.Key
	}
	return kindOf(k), k.String()
}

// kindOf returns a partition's name without the id in it.
func kindOf(k store.Key) string {
	kind, _, _ := strings.Cut(k.Partition, "#")
	return kind
}
