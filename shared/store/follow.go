package store

import (
	"context"
	"iter"
)

// AllPages returns all pages, following their cursors. It ends after the last page or after the first
// error.
func AllPages[T any](page func(cursor string) (items []T, next string, err error)) iter.Seq2[[]T, error] {
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

func Flatten[T any](pages iter.Seq2[[]T, error]) iter.Seq2[T, error] {
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

// Lister lists documents, for example a Store.
type Lister interface {
	Docs(ctx context.Context, r Range, n int, cursor string) ([]Doc, string, error)
}

func Pages(ctx context.Context, from Lister, r Range, n int) iter.Seq2[[]Doc, error] {
	return AllPages(func(cursor string) ([]Doc, string, error) { return from.Docs(ctx, r, n, cursor) })
}

func Documents(ctx context.Context, from Lister, r Range) iter.Seq2[Doc, error] {
	return Flatten(Pages(ctx, from, r, MaxPage))
}

func Streams(ctx context.Context, v View, prefix Stream) iter.Seq2[Stream, error] {
	return Flatten(AllPages(func(cursor string) ([]Stream, string, error) { return v.Streams(ctx, prefix, MaxPage, cursor) }))
}
