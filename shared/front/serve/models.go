package serve

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/registry/search"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store"
)

// modelList caches the published vacants of the host, which OpenAI clients list as models. They are
// read from the search index, so the cost of a list does not grow with the number of unpublished
// vacants.
type modelList struct {
	server *Server
	limits modelLimits
	// turn is a mutex that protects all and until. It is a channel, so that a canceled request can
	// stop waiting.
	turn  chan struct{}
	all   []vacants.Record
	until time.Time // expiry of the cached list
}

// modelLimits limits the list of models. Stock clients of OpenAI's API read one page and ignore
// has_more, so the list has no second page.
type modelLimits struct {
	pages int           // pages of search.MaxLimit vacants
	keep  time.Duration // how long a list is cached
}

var (
	localModels = modelLimits{10, 5 * time.Second}
	// On AWS, each vacant costs two read units. An instance has only a few read units per second
	// (VACANCY_READS). The search index may be as old as the cached list.
	queuedModels = modelLimits{1, 5 * time.Minute}
)

// list returns the models by name. Concurrent requests share one read. If find is nil, the list is
// empty.
func (m *modelList) list(ctx context.Context, find Find) (records []vacants.Record, err error) {
	select {
	case m.turn <- struct{}{}:
		defer func() { <-m.turn }()
	case <-ctx.Done():
		return nil, store.AsProblem(ctx.Err())
	}
	now := m.server.config.Now
	if find == nil || now().Before(m.until) {
		return m.all, nil
	}
	request := search.Request{Limit: search.MaxLimit}
	for range m.limits.pages {
		page, err := find(ctx, request)
		if err != nil {
			return nil, err
		}
		for i := range page.Matches {
			if !page.Matches[i].Registration.Hosted {
				continue
			}
			r, ok, err := m.server.Vacants.Show(ctx, page.Matches[i].Registration.ID)
			if err != nil {
				return nil, err
			}
			if ok && !r.Closed && !r.IsDeleted() {
				records = append(records, r)
			}
		}
		if request.Cursor = page.Next; page.Next == "" {
			break
		}
	}
	slices.SortFunc(records, func(a, b vacants.Record) int { return strings.Compare(a.Name, b.Name) })
	// The cache time starts after the read. If it started before a read that takes longer than the
	// cache time, each request would read again.
	m.all, m.until = records, now().Add(m.limits.keep)
	return records, nil
}
