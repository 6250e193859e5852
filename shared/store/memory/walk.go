package memory

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/vacancy-host/vacancy/shared/store"
)

// view is a snapshot of the store. Only the lists are copied, because rows and documents never
// change.
type view struct {
	names   []store.Stream // in byte order
	streams map[store.Stream][]store.Row
	docs    map[store.Key]*store.Doc
}

// Walk implements store.Walker. Commits wait while the lists are copied, but not while fn runs.
func (s *Store) Walk(ctx context.Context, fn func(store.View) error) error {
	if err := ctx.Err(); err != nil {
		return store.NotAppliedError(err)
	}
	v, err := s.newView()
	if err != nil {
		return err
	}
	return fn(v)
}

func (s *Store) newView() (*view, error) {
	v := &view{streams: map[store.Stream][]store.Row{}}
	for i := range s.shards {
		s.shards[i].mu.Lock()
		defer s.shards[i].mu.Unlock()
	}
	s.docs.mu.RLock()
	defer s.docs.mu.RUnlock()
	if s.docs.closed {
		return nil, store.NotAppliedError(store.ErrClosed)
	}
	for i := range s.shards {
		for name, st := range s.shards[i].streams {
			v.streams[name] = st.rows
		}
	}
	v.docs = maps.Clone(s.docs.byKey)
	v.names = slices.Sorted(maps.Keys(v.streams))
	return v, nil
}

func (v *view) Rows(ctx context.Context, name store.Stream, from uint64, n int, d store.Direction) ([]store.Row, error) {
	if err := store.CheckPage(n); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, store.NotAppliedError(err)
	}
	return copyPage(v.streams[name], from, n, d), nil
}

func (v *view) Doc(ctx context.Context, k store.Key) (store.Doc, error) {
	if err := ctx.Err(); err != nil {
		return store.Doc{}, store.NotAppliedError(err)
	}
	if doc := v.docs[k]; doc != nil {
		c := *doc
		c.Data = slices.Clone(doc.Data)
		return c, nil
	}
	return store.Doc{Key: k}, nil
}

// Streams implements store.View, in byte order.
func (v *view) Streams(ctx context.Context, prefix store.Stream, n int, cursor string) ([]store.Stream, string, error) {
	if err := store.CheckPage(n); err != nil {
		return nil, "", err
	}
	last, err := store.ParseStreamCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	if err := ctx.Err(); err != nil {
		return nil, "", store.NotAppliedError(err)
	}
	i, found := slices.BinarySearch(v.names, max(last, prefix))
	if found && cursor != "" && v.names[i] == last {
		i++
	}
	var page []store.Stream
	for _, name := range v.names[i:] {
		if !strings.HasPrefix(string(name), string(prefix)) {
			break
		}
		if len(page) == n {
			return page, store.StreamCursor(page[n-1]), nil
		}
		page = append(page, name)
	}
	return page, "", nil
}
