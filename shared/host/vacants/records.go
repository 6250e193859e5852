package vacants

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// cacheTTL and maxCacheItems limit the cache of records. A paused vacant may still answer on other
// instances for cacheTTL (PROTOCOL §6).
const (
	cacheTTL      = time.Second
	maxCacheItems = 1024
)

// Records reads the records of the vacants on this host. It does not depend on the registry, so the
// registry can use it. It is safe for concurrent use.
type Records struct {
	Store store.Store
	Now   func() time.Time
	// URL is the host's base URL, for example http://127.0.0.1:8080. If it is "", cards cannot be
	// signed until SetURL has stored the URL.
	URL string
	// ClearCaches clears this process's caches of the store after a restore from a backup. It may
	// be nil.
	ClearCaches func()

	startedAt time.Time
	cache     recordCache
}

func NewRecords(s store.Store, now func() time.Time, url string) (*Records, error) {
	if url != "" {
		u, err := normalizeURL(url)
		if err != nil {
			return nil, err
		}
		url = u
	}
	return &Records{Store: s, Now: now, URL: url, startedAt: now()}, nil
}

func (v *Records) readRecord(ctx context.Context, id identity.ID) (r Record, ok bool, err error) {
	r, d, err := RecordDocs.Get(ctx, v.Store, RecordKey(id))
	if err != nil || d.Version == 0 {
		return Record{}, false, store.AsProblem(err)
	}
	v.observeFloor(r.Floor)
	return r, true, nil
}

// observeFloor calls ClearCaches if a record's floor shows that the store was restored from a
// backup. A restore sets floors to call.MaxSkew in the future. A floor that is later than all
// floors seen so far therefore indicates a restore, unless it was set before this process started.
func (v *Records) observeFloor(floor time.Time) {
	const maxClockDifference = time.Minute
	if v.ClearCaches == nil || floor.Add(maxClockDifference-call.MaxSkew).Before(v.startedAt) || !v.cache.raiseLatestFloor(floor) {
		return
	}
	v.ClearCaches()
}

// FindCached returns id's record, which may be a second old. If id is not hosted here, ok is false.
func (v *Records) FindCached(ctx context.Context, id identity.ID) (r Record, ok bool, err error) {
	return v.Lookup(ctx, id, false)
}

func (v *Records) Lookup(ctx context.Context, id identity.ID, fresh bool) (r Record, ok bool, err error) {
	// If fresh is set, the cache is not read.
	m, err := v.lookupRecord(ctx, id, fresh)
	return m.record, m.ok, err
}

// WorkerTenant returns the tenant whose workers run the turns of a vacant. A closed child that
// belongs to another tenant than its parent has no workers.
func (v *Records) WorkerTenant(ctx context.Context, id identity.ID) (tenant string, err error) {
	r, ok, err := v.FindCached(ctx, id)
	if err == nil && ok && r.Closed && r.Parent != nil {
		var parent Record
		if parent, ok, err = v.FindCached(ctx, *r.Parent); err == nil && ok && parent.Tenant != r.Tenant {
			return "", problem.New(problem.SubstrateMisconfigured, "a closed child has no workers, because it belongs to another tenant than its parent")
		}
	}
	if err == nil && !ok {
		err = notHosted(id)
	}
	return r.Tenant, err
}

// FindCachedByName works like FindCached, but takes a name. It reads as much for an unused name as
// for a used name, so that the duration does not reveal closed children.
func (v *Records) FindCachedByName(ctx context.Context, name string) (r Record, ok bool, err error) {
	if registry.CheckName(name) != nil {
		return Record{}, false, nil
	}
	// No vacant has this id, so names and ids can share one cache.
	key := identity.ID(sha256.Sum256([]byte("name\x00" + name)))
	start := v.Now()
	if m, isCached := v.cache.get(key, start); isCached {
		return m.record, m.ok, nil
	}
	generation := v.cache.currentGeneration()
	d, err := ReadNameDoc(ctx, v.Store, name)
	if err != nil {
		return Record{}, false, store.AsProblem(err)
	}
	id := key
	if d.Version > 0 {
		if id, err = NameDocs.Parse(d); err != nil {
			return Record{}, false, err
		}
	}
	if r, ok, err = v.readRecord(ctx, id); err != nil {
		return Record{}, false, err
	}
	v.cache.put(key, cachedRecord{record: r, ok: ok, expires: start.Add(cacheTTL)}, generation)
	return r, ok, nil
}

func (v *Records) IsEndpoint(ctx context.Context, id identity.ID, address string) (bool, error) {
	base, err := v.BaseURL(ctx)
	if err != nil || base == "" || address != cardEndpoint(base, id) {
		return false, err
	}
	r, ok, err := v.readRecord(ctx, id)
	return ok && !r.IsDeleted(), err
}

// BaseURL returns the host's base URL, or "" if the URL has not been set.
func (v *Records) BaseURL(ctx context.Context) (string, error) {
	if v.URL != "" {
		return v.URL, nil
	}
	u, _, err := URLDocs.Get(ctx, v.Store, URLKey())
	return u.URL, store.AsProblem(err)
}

func (v *Records) lookupRecord(ctx context.Context, id identity.ID, fresh bool) (cachedRecord, error) {
	start := v.Now()
	if !fresh {
		if m, isCached := v.cache.get(id, start); isCached {
			return m, nil
		}
	}
	generation := v.cache.currentGeneration()
	r, ok, err := v.readRecord(ctx, id)
	if err != nil {
		return cachedRecord{}, err
	}
	m := cachedRecord{record: r, ok: ok, expires: start.Add(cacheTTL)}
	v.cache.put(id, m, generation)
	return m, nil
}

type recordCache struct {
	mu          sync.Mutex
	items       map[identity.ID]cachedRecord
	openVacants openIDs
	generation  uint64
	latestFloor time.Time
}

func (m *recordCache) raiseLatestFloor(floor time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	isLater := floor.After(m.latestFloor)
	if isLater {
		m.latestFloor = floor
	}
	return isLater
}

type openIDs struct {
	ids     []identity.ID
	n       int
	expires time.Time
}

type cachedRecord struct {
	record  Record
	ok      bool
	expires time.Time
}

func (m *recordCache) currentGeneration() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.generation
}

func (m *recordCache) get(id identity.ID, now time.Time) (cachedRecord, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.items[id]
	return r, ok && now.Before(r.expires)
}

func (m *recordCache) getOpenIDs(n int, now time.Time) ([]identity.ID, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.openVacants.ids, m.openVacants.n == n && now.Before(m.openVacants.expires)
}

func (m *recordCache) putOpenIDs(o openIDs, generation uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if generation == m.generation {
		m.openVacants = o
	}
}

// put caches a record that was read in a generation. If this instance has written since then, the
// record is not cached. Otherwise, a paused vacant could still answer after the pause command has
// returned.
func (m *recordCache) put(id identity.ID, r cachedRecord, generation uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if generation != m.generation {
		return
	}
	if m.items == nil {
		m.items = make(map[identity.ID]cachedRecord)
	}
	if _, isCached := m.items[id]; !isCached && len(m.items) >= maxCacheItems {
		now := r.expires.Add(-cacheTTL)
		for id, r := range m.items {
			if !now.Before(r.expires) {
				delete(m.items, id)
			}
		}
		for id := range m.items {
			if len(m.items) < maxCacheItems {
				break
			}
			delete(m.items, id)
		}
	}
	m.items[id] = r
}

func (m *recordCache) invalidate() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.generation++
	m.openVacants = openIDs{}
	clear(m.items)
}
