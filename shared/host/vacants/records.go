package vacants

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// How long, and of how many vacants, records are cached: a paused vacant may
// answer for this long on other instances (PROTOCOL §6).
const (
	memoryTime  = time.Second
	memoryItems = 1024
)

// Records reads the records of the vacants that are hosted here, and the host's
// base URL. It needs no keys, substrates or registry, so all of these can be
// built on it. It is safe for concurrent use.
type Records struct {
	Store store.Store
	Now   func() time.Time
	// URL is the host's base URL, as callers reach it: http://127.0.0.1:8080.
	// "" means the URL that SetURL keeps in the store, for a host that learns
	// its URL only when it is deployed; until then no card can be signed.
	URL string
	// Forget drops this process's caches of the store. It is called if the store
	// came back from a backup while the process kept running, because the store
	// then lacks some cached documents. With nil, only records are cached.
	Forget func()

	began  time.Time
	memory memory
}

// NewRecords returns the records in s. The error is a problem of kind Usage for
// a URL that callers cannot use.
func NewRecords(s store.Store, now func() time.Time, url string) (*Records, error) {
	if url != "" {
		u, err := cleanURL(url)
		if err != nil {
			return nil, err
		}
		url = u
	}
	return &Records{Store: s, Now: now, URL: url, began: now()}, nil
}

// read returns id's record from the store, strongly consistent; ok is false if
// id is not hosted here.
func (v *Records) read(ctx context.Context, id identity.ID) (r Record, ok bool, err error) {
	r, d, err := RecordDocs.Get(ctx, v.Store, RecordKey(id))
	if err != nil || d.Version == 0 {
		return Record{}, false, store.Problem(err)
	}
	v.bounded(r.Floor)
	return r, true, nil
}

// bounded calls Forget if a record's bound is newer than all that this process
// has seen. It was set, MaxSkew ahead, when the store came back from a backup;
// a process that began well after that remembers nothing older.
func (v *Records) bounded(floor time.Time) {
	const clocks = time.Minute // between the two processes
	if v.Forget == nil || floor.Add(clocks-call.MaxSkew).Before(v.began) || !v.memory.bounded(floor) {
		return
	}
	v.Forget()
}

// Show returns id's record, at most a second old; ok is false if id is not
// hosted here.
func (v *Records) Show(ctx context.Context, id identity.ID) (r Record, ok bool, err error) {
	return v.Lookup(ctx, id, false)
}

// Lookup is Show; if fresh is set, the record is read from the store, strongly consistent.
func (v *Records) Lookup(ctx context.Context, id identity.ID, fresh bool) (r Record, ok bool, err error) {
	m, err := v.lookup(ctx, id, fresh)
	return m.record, m.ok, err
}

// ShowNamed is Show by name. It reads as much for an unused name as for the name
// of a vacant, so that the time of an answer does not reveal closed children.
func (v *Records) ShowNamed(ctx context.Context, name string) (r Record, ok bool, err error) {
	if registry.CheckName(name) != nil {
		return Record{}, false, nil
	}
	// No key has this id, so names and ids share one cache.
	key := identity.ID(sha256.Sum256([]byte("name\x00" + name)))
	began := v.Now()
	if m, known := v.memory.get(key, began); known {
		return m.record, m.ok, nil
	}
	generation := v.memory.now()
	d, err := NameDoc(ctx, v.Store, name)
	if err != nil {
		return Record{}, false, store.Problem(err)
	}
	id := key
	if d.Version > 0 {
		if id, err = NameDocs.Parse(d); err != nil {
			return Record{}, false, err
		}
	}
	if r, ok, err = v.read(ctx, id); err != nil {
		return Record{}, false, err
	}
	v.memory.put(key, remembered{record: r, ok: ok, until: began.Add(memoryTime)}, generation)
	return r, ok, nil
}

// IsEndpoint reports whether id is hosted here and called at endpoint at.
func (v *Records) IsEndpoint(ctx context.Context, id identity.ID, at string) (bool, error) {
	base, err := v.Base(ctx)
	if err != nil || base == "" || at != endpoint(base, id) {
		return false, err
	}
	r, ok, err := v.read(ctx, id)
	return ok && !r.IsDeleted(), err
}

// Base is the host's base URL; "" if it is kept in the store and nobody has
// set it yet.
func (v *Records) Base(ctx context.Context) (string, error) {
	if v.URL != "" {
		return v.URL, nil
	}
	u, _, err := URLDocs.Get(ctx, v.Store, URLKey())
	return u.URL, store.Problem(err)
}

// lookup returns id's cached record, or reads it.
func (v *Records) lookup(ctx context.Context, id identity.ID, fresh bool) (remembered, error) {
	began := v.Now()
	if !fresh {
		if m, known := v.memory.get(id, began); known {
			return m, nil
		}
	}
	generation := v.memory.now()
	r, ok, err := v.read(ctx, id)
	if err != nil {
		return remembered{}, err
	}
	m := remembered{record: r, ok: ok, until: began.Add(memoryTime)}
	v.memory.put(id, m, generation)
	return m, nil
}

// memory caches records for memoryTime, counted from before they were read.
type memory struct {
	mu         sync.Mutex
	items      map[identity.ID]remembered
	open       openIDs
	generation uint64    // counts this instance's own writes
	bound      time.Time // newest Floor of a record
}

// bounded reports whether floor is the newest of all, and keeps it.
func (m *memory) bounded(floor time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	newer := floor.After(m.bound)
	if newer {
		m.bound = floor
	}
	return newer
}

// openIDs caches the result of Open for one n.
type openIDs struct {
	ids   []identity.ID
	n     int // zero if nothing is cached
	until time.Time
}

type remembered struct {
	record Record
	ok     bool // hosted here
	until  time.Time
}

func (m *memory) now() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.generation
}

func (m *memory) get(id identity.ID, now time.Time) (remembered, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.items[id]
	return r, ok && now.Before(r.until)
}

func (m *memory) opened(n int, now time.Time) ([]identity.ID, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.open.ids, m.open.n == n && now.Before(m.open.until)
}

// putOpen is put for the result of Open.
func (m *memory) putOpen(o openIDs, generation uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if generation == m.generation {
		m.open = o
	}
}

// put caches a record that was read in a generation. If this instance has
// written since, the read may be older than the write and is dropped: after
// `pause` returns, this instance answers no call by the older record.
func (m *memory) put(id identity.ID, r remembered, generation uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if generation != m.generation {
		return
	}
	if m.items == nil {
		m.items = make(map[identity.ID]remembered)
	}
	if _, there := m.items[id]; !there && len(m.items) >= memoryItems {
		// Make room: remove expired items, or any item if none has expired.
		now := r.until.Add(-memoryTime)
		for id, r := range m.items {
			if !now.Before(r.until) {
				delete(m.items, id)
			}
		}
		for id := range m.items {
			if len(m.items) < memoryItems {
				break
			}
			delete(m.items, id)
		}
	}
	m.items[id] = r
}

// forget drops everything, after every write of this instance.
func (m *memory) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.generation++
	m.open = openIDs{}
	clear(m.items)
}
