package store

import (
	"context"
	"iter"
)

func AllPages[T any](readPage func(cursor string) (items []T, next string, err error)) iter.Seq2[[]T, error] {
	return func(yield func([]T, error) bool) {
		for cursor, more := "", true; more; more = cursor != "" {
			items, next, err := readPage(cursor)
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
				var zero T
				yield(zero, err)
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

type Lister interface {
	Docs(ctx context.Context, r Range, n int, cursor string) ([]Doc, string, error)
}

func Pages(ctx context.Context, lister Lister, r Range, n int) iter.Seq2[[]Doc, error] {
	return AllPages(func(cursor string) ([]Doc, string, error) { return lister.Docs(ctx, r, n, cursor) })
}

func Documents(ctx context.Context, lister Lister, r Range) iter.Seq2[Doc, error] {
	return Flatten(Pages(ctx, lister, r, MaxPage))
}

func Streams(ctx context.Context, v View, prefix Stream) iter.Seq2[Stream, error] {
	return Flatten(AllPages(func(cursor string) ([]Stream, string, error) { return v.Streams(ctx, prefix, MaxPage, cursor) }))
}
