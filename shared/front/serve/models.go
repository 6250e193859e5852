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

// modelList caches the published vacants of the host, which OpenAI clients list as models.
type modelList struct {
	server *Server
	limits modelLimits
	// lock is a channel instead of a mutex, so that a canceled request can stop waiting.
	lock      chan struct{}
	records   []vacants.Record
	expiresAt time.Time
}

type modelLimits struct {
	maxPages  int // pages of search.MaxLimit vacants
	cacheTime time.Duration
}

var (
	localModelLimits = modelLimits{10, 5 * time.Second}
	// On AWS, each vacant costs two read units, and an instance has only a few per second
	// (VACANCY_READS).
	queuedModelLimits = modelLimits{1, 5 * time.Minute}
)

// list returns the models by name. Concurrent requests share one read.
func (m *modelList) list(ctx context.Context, find FindFunc) (records []vacants.Record, err error) {
	select {
	case m.lock <- struct{}{}:
		defer func() { <-m.lock }()
	case <-ctx.Done():
		return nil, store.AsProblem(ctx.Err())
	}
	now := m.server.config.Now
	if find == nil || now().Before(m.expiresAt) {
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
	// A read may take longer than the cache time, so the cache time starts after the read.
	m.records, m.expiresAt = records, now().Add(m.limits.cacheTime)
	return records, nil
}
