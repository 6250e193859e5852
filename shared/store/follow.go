package store

import (
	"context"
	"iter"
)

// Follow returns the pages that cursors lead through, from the first on. It ends after the
// last page, or after the first error.
func Follow[T any](page func(cursor string) (items []T, next string, err error)) iter.Seq2[[]T, error] {
	return func(yield func([]T, error) bool) {
		for cursor, more := "", true; more; more = cursor != "" {
			items, next, err := page(cursor)
			if !yield(items, err) || err != nil {
				return
			}
			cursor = next
		}
	}
}

// Items returns what pages have, one by one.
func Items[T any](pages iter.Seq2[[]T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for page, err := range pages {
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range page {
				if !yield(item, nil) {
					return
				}
			}
		}
	}
}

// Lister lists documents: a Store.
type Lister interface {
	Docs(ctx context.Context, r Range, n int, cursor string) ([]Doc, string, error)
}

// Pages returns the documents of a range in order, up to n at a time.
func Pages(ctx context.Context, from Lister, r Range, n int) iter.Seq2[[]Doc, error] {
	return Follow(func(cursor string) ([]Doc, string, error) { return from.Docs(ctx, r, n, cursor) })
}

// All returns the documents of a range in order.
func All(ctx context.Context, from Lister, r Range) iter.Seq2[Doc, error] {
	return Items(Pages(ctx, from, r, MaxPage))
}

// Streams returns the names of the streams that begin with a prefix, each once.
func Streams(ctx context.Context, v View, prefix Stream) iter.Seq2[Stream, error] {
	return Items(Follow(func(cursor string) ([]Stream, string, error) { return v.Streams(ctx, prefix, MaxPage, cursor) }))
}
