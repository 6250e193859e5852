package calltest

import (
	"context"
	"strings"

	"github.com/vacancy-host/vacancy/shared/store"
)

// Op is one store call.
type Op struct {
	// Name is the method and its subject: "Tip req", "Rows rsp", "Doc textkey", "Commit req",
	// "Commit balance". A commit is named after its first write.
	Name    string
	Subject string
	Writes  []store.Write // writes of a commit
}

// Intercept wraps a store and calls Handle for each store call. Handle may call do, which makes the
// real call, any number of times.
type Intercept struct {
	store.Store
	Handle func(ctx context.Context, op Op, do func(context.Context) error) error
}

func (i *Intercept) Tip(ctx context.Context, s store.Stream) (row store.Row, err error) {
	err = i.Handle(ctx, Op{Name: "Tip " + s.Kind(), Subject: s.String()}, func(ctx context.Context) (err error) {
		row, err = i.Store.Tip(ctx, s)
		return err
	})
	return row, err
}

func (i *Intercept) Rows(ctx context.Context, s store.Stream, from uint64, n int, d store.Direction) (rows []store.Row, err error) {
	err = i.Handle(ctx, Op{Name: "Rows " + s.Kind(), Subject: s.String()}, func(ctx context.Context) (err error) {
		rows, err = i.Store.Rows(ctx, s, from, n, d)
		return err
	})
	return rows, err
}

func (i *Intercept) Doc(ctx context.Context, k store.Key) (doc store.Doc, err error) {
	err = i.Handle(ctx, Op{Name: "Doc " + partitionKind(k), Subject: k.String()}, func(ctx context.Context) (err error) {
		doc, err = i.Store.Doc(ctx, k)
		return err
	})
	return doc, err
}

func (i *Intercept) Docs(ctx context.Context, r store.Range, n int, cursor string) (docs []store.Doc, next string, err error) {
	err = i.Handle(ctx, Op{Name: "Docs " + partitionKind(store.Key{Partition: r.Partition}), Subject: r.Partition}, func(ctx context.Context) (err error) {
		docs, next, err = i.Store.Docs(ctx, r, n, cursor)
		return err
	})
	return docs, next, err
}

func (i *Intercept) Commit(ctx context.Context, writes ...store.Write) error {
	kind, subject := describeFirstWrite(writes)
	return i.Handle(ctx, Op{Name: "Commit " + kind, Subject: subject, Writes: writes}, func(ctx context.Context) error {
		return i.Store.Commit(ctx, writes...)
	})
}

func describeFirstWrite(writes []store.Write) (kind, subject string) {
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
	return partitionKind(k), k.String()
}

// partitionKind returns a partition's name without its id.
func partitionKind(k store.Key) string {
	kind, _, _ := strings.Cut(k.Partition, "#")
	return kind
}
