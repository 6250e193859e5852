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
	// lock is a mutex that protects records and expires. It is a channel, so that a canceled request
	// can stop waiting.
	lock    chan struct{}
	records []vacants.Record
	expires time.Time // expiry of the cached list
}

// modelLimits limits the list of models. Stock clients of OpenAI's API read one page and ignore
// has_more, so the list has no second page.
type modelLimits struct {
	maxPages  int           // pages of search.MaxLimit vacants
	cacheTime time.Duration // how long a list is cached
}

var (
	localModels = modelLimits{10, 5 * time.Second}
	// On AWS, each vacant costs two read units. An instance has only a few read units per second
	// (VACANCY_READS). A cached list does no harm, because the search index may be equally old.
	queuedModels = modelLimits{1, 5 * time.Minute}
)

// list returns the models by name. Concurrent requests share one read. If find is nil, the list is
// empty.
func (m *modelList) list(ctx context.Context, find FindFunc) (records []vacants.Record, err error) {
	select {
	case m.lock <- struct{}{}:
		defer func() { <-m.lock }()
	case <-ctx.Done():
		return nil, store.AsProblem(ctx.Err())
	}
	now := m.server.config.Now
	if find == nil || now().Before(m.expires) {
		return m.records, nil
	}
	request := search.Request{Limit: search.MaxLimit}
	for range m.limits.maxPages {
		page, err := find(ctx, request)
		if err != nil {
			return nil, err
		}
		for i := range page.Matches {
			if !page.Matches[i].Registration.Hosted {
				continue
			}
			r, ok, err := m.server.Vacants.FindCached(ctx, page.Matches[i].Registration.ID)
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
	m.records, m.expires = records, now().Add(m.limits.cacheTime)
	return records, nil
}
