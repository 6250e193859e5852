package vacants

import (
	"context"
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// How long, and of how many ids, the directory remembers what it read: a
// paused vacant may answer for this long on other instances (PROTOCOL §6).
const (
	memoryTime  = time.Second
	memoryItems = 1024
)

// Vacant is call.Directory: the vacant as the pipeline needs it, its seed still
// sealed. ok is false if id is not hosted here; that is remembered too, since
// anybody may ask for any id.
func (v *Directory) Vacant(ctx context.Context, id identity.ID, fresh bool) (call.Vacant, bool, error) {
	m, err := v.lookup(ctx, id, fresh)
	if err != nil || !m.ok {
		return call.Vacant{}, false, err
	}
	key := v.signers.Key(id, m.record.seed)
	return call.Vacant{
		ID: id, State: m.record.State, Floor: m.record.Floor, Behaviour: m.behaviour, Signer: key, Ready: key.Ready,
		Parent: m.record.Parent, Closed: m.record.Closed, Reach: m.record.Reach, HasKin: m.record.Kin,
	}, true, nil
}

// Show returns id's record, at most a second old; ok is false if id is not
// hosted here.
func (v *Directory) Show(ctx context.Context, id identity.ID) (r Record, ok bool, err error) {
	m, err := v.lookup(ctx, id, false)
	return m.record, m.ok, err
}

// Open returns the ids of up to n vacants that are not closed, neither for good
// nor by a manifest, by name, at most a second old. Anybody may ask, and where
// many are closed the answer is many reads. The ids may not be changed.
func (v *Directory) Open(ctx context.Context, n int) ([]identity.ID, error) {
	began := v.Now()
	if ids, known := v.memory.opened(n, began); known {
		return ids, nil
	}
	generation := v.memory.now()
	ids, err := v.open(ctx, n)
	if err == nil {
		v.memory.putOpen(openIDs{ids: ids, n: n, until: began.Add(memoryTime)}, generation)
	}
	return ids, err
}

func (v *Directory) open(ctx context.Context, n int) ([]identity.ID, error) {
	var open []identity.ID
	for cursor, more := "", true; more; more = cursor != "" {
		page, next, err := v.names(ctx, cursor, MaxPage)
		if err != nil {
			return nil, err
		}
		for _, nm := range page {
			m, err := v.lookup(ctx, nm.id, false)
			if err != nil {
				return nil, err
			}
			if m.ok && !m.record.State.Closed() && !m.record.Closed {
				open = append(open, nm.id)
			}
			if len(open) == n {
				return open, nil
			}
		}
		cursor = next
	}
	return open, nil
}

// behaviour is what answers for r. A substrate that this host does not offer
// any more fails its calls, and nothing else of the vacant.
func (v *Directory) behaviour(r *Record) call.Behaviour {
	spec, err := substrate.Parse(r.Substrate)
	if err == nil {
		var s substrate.Substrate
		if s, err = v.Substrates.Open(spec); err == nil {
			return substrate.Behaviour(s)
		}
	}
	return func(context.Context, envelope.Envelope) (envelope.Message, error) {
		return envelope.Message{}, problem.Wrap(problem.BehaviourFailed, err, "the vacant's substrate is not available here")
	}
}

// lookup returns what is remembered of id, or reads it.
func (v *Directory) lookup(ctx context.Context, id identity.ID, fresh bool) (remembered, error) {
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
	if ok {
		m.behaviour = v.behaviour(&r)
	}
	v.memory.put(id, m, generation, began)
	return m, nil
}

// memory remembers records for a moment, counted from before they were read.
type memory struct {
	mu         sync.Mutex
	items      map[identity.ID]remembered
	open       openIDs
	generation uint64 // of this instance's own writes
	// reloaded are not remembered until a time: others are about to write them.
	reloaded map[identity.ID]time.Time
}

// openIDs are the first n vacants that Open looks for.
type openIDs struct {
	ids   []identity.ID
	n     int // asked for; 0: nothing is remembered
	until time.Time
}

type remembered struct {
	record    Record
	behaviour call.Behaviour
	ok        bool // hosted here
	until     time.Time
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

// putOpen is put for what Open found.
func (m *memory) putOpen(o openIDs, generation uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if generation == m.generation {
		m.open = o
	}
}

// put remembers what was read in a generation. If this instance has written
// since, the read may have come before the write, and is forgotten: after
// `pause` returns, no call is answered here by an older record.
func (m *memory) put(id identity.ID, r remembered, generation uint64, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if generation != m.generation || now.Before(m.reloaded[id]) {
		return
	}
	if m.items == nil {
		m.items = make(map[identity.ID]remembered)
	}
	if _, there := m.items[id]; !there && len(m.items) >= memoryItems {
		m.sweep(now)
	}
	m.items[id] = r
}

// sweep makes room: what is over goes, and if nothing is, any one.
func (m *memory) sweep(now time.Time) {
	for id, r := range m.items {
		if !now.Before(r.until) {
			delete(m.items, id)
		}
	}
	for id := range m.items {
		if len(m.items) < memoryItems {
			return
		}
		delete(m.items, id)
	}
}

// reloadKey forgets id, and remembers nothing of it until a time.
func (m *memory) reloadKey(id identity.ID, now, until time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for other, over := range m.reloaded {
		if !now.Before(over) {
			delete(m.reloaded, other)
		}
	}
	if m.reloaded == nil {
		m.reloaded = make(map[identity.ID]time.Time)
	}
	m.reloaded[id] = until
	delete(m.items, id)
}

// forget is called after every write of this instance.
func (m *memory) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.generation++
	m.open = openIDs{}
	clear(m.items)
}
