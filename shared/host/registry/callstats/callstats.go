// Package callstats counts the calls of a vacant that has a parent or children. It records in which
// hours the vacant was called from outside its tree (its parent, siblings and children), and the
// positions of its last answers. The gate, which decides whether a child may become public, uses
// these statistics as evidence.
//
// The package stores no texts. It cannot fail a call and delays it only within the time that the
// call pipeline allows. Each vacant has one document. A process writes it at most once per
// WriteInterval, and only to change it. Counts since the last write are lost if the process ends,
// and so are counts whose write fails. Evidence may therefore be missing, but it is never invented.
package callstats

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

const (
	// WriteInterval is the minimum time between two writes of a process for one vacant.
	WriteInterval = 10 * time.Second

	tries      = 3           // attempts to write after conflicts
	maxVacants = 1024        // vacants in memory
	maxCallers = 4096        // callers in memory
	callerTime = time.Minute // time for which a caller's parent is cached
)

// Manifests returns the manifests of children. *registry.Registry implements it.
type Manifests interface {
	Manifest(ctx context.Context, child identity.ID) (registry.ManifestDocument, bool, error)
}

type Config struct {
	Store     store.Store
	Manifests Manifests
	Now       func() time.Time
	Rand      io.Reader // safe for concurrent use
}

// Observer records the observations of call.Host. It is safe for concurrent use.
type Observer struct {
	Config
	mu      sync.Mutex
	vacants map[identity.ID]*vacant
	callers map[identity.ID]caller
}

func New(c Config) *Observer {
	return &Observer{Config: c, vacants: make(map[identity.ID]*vacant), callers: make(map[identity.ID]caller)}
}

// pendingCounts contains observations that are not written yet.
type pendingCounts struct {
	counts map[int64]uint32 // indexed by hour
	refs   []Reference      // oldest first
}

func (n *pendingCounts) add(later pendingCounts) {
	if n.counts == nil {
		n.counts = make(map[int64]uint32)
	}
	for hour, count := range later.counts {
		if len(n.counts) < MaxHours || n.counts[hour] > 0 {
			n.counts[hour] += count
		}
	}
	n.refs = append(n.refs, later.refs...)
	n.refs = slices.Clone(n.refs[max(len(n.refs)-MaxReferences, 0):])
}

// vacant contains the observations of a process about one vacant, and the document as it was last
// written. Only the current writer uses calls, version and known.
type vacant struct {
	noted   pendingCounts
	tried   time.Time // start of the last write
	writing bool      // whether a write is in progress

	known   bool // whether calls and version match the stored document, as far as this process knows
	calls   Calls
	version uint64
}

// caller is a cached parent of a caller. The parent is zero if the caller has none.
type caller struct {
	parent identity.ID
	until  time.Time // time until which parent is used
}

// Observe implements the Observe function of call.Config. It counts answers to callers from outside
// the tree. The vacant's parent, the parent's other children and the vacant's own children are
// inside the tree. Answers to the parent are not referenced.
func (o *Observer) Observe(ctx context.Context, seen call.Observation) {
	n := pendingCounts{counts: map[int64]uint32{hourOf(seen.Time): 0}}
	if seen.Parent == nil || *seen.Parent != seen.Pair.Caller {
		n.refs = []Reference{{seen.Pair.Caller, seen.Position}}
		// If the caller's parent cannot be read, missing evidence is better than wrong evidence.
		parent, ok := o.parentOf(ctx, seen.Pair.Caller)
		if ok && parent != seen.Pair.Vacant && (seen.Parent == nil || parent != *seen.Parent) {
			n.counts[hourOf(seen.Time)] = 1
		}
	}
	v, due := o.addPending(seen.Pair.Vacant, n)
	if v == nil {
		return
	}
	lost := o.write(ctx, seen.Pair.Vacant, v, due)
	o.mu.Lock()
	defer o.mu.Unlock()
	v.writing = false
	if !lost {
		return
	}
	due.add(v.noted)
	v.noted = due
}

// addPending adds n to the pending observations of id. If a write is due and no other write is in
// progress, it returns the vacant and the observations that the caller must write. Otherwise v is
// nil.
func (o *Observer) addPending(id identity.ID, n pendingCounts) (v *vacant, due pendingCounts) {
	now := o.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	v = o.vacants[id]
	if v == nil {
		for other, candidate := range o.vacants {
			if len(o.vacants) < maxVacants {
				break
			}
			if !candidate.writing {
				delete(o.vacants, other) // an arbitrary vacant, whose pending observations are lost
			}
		}
		v = &vacant{}
		o.vacants[id] = v
	}
	v.noted.add(n)
	if since := now.Sub(v.tried); v.writing || since >= 0 && since < WriteInterval {
		return nil, pendingCounts{}
	}
	v.writing, v.tried = true, now
	due, v.noted = v.noted, pendingCounts{}
	return v, due
}

// write adds due to the document if this changes it. For example, a closed child that only its
// parent calls causes a single write. If the write certainly failed, lost is true, and the caller
// must keep due. After an unknown outcome the observations are dropped, because calls could
// otherwise be counted twice.
func (o *Observer) write(ctx context.Context, id identity.ID, v *vacant, due pendingCounts) (lost bool) {
	var writeID store.WriteID
	if _, err := io.ReadFull(o.Rand, writeID[:]); err != nil {
		return true
	}
	for range tries {
		if !v.known {
			calls, d, err := read(ctx, o.Store, id)
			if err != nil && !problem.Is(err, problem.Damaged) {
				return true
			}
			v.calls, v.version, v.known = calls, d.Version, true // a damaged document is replaced
		}
		if v.calls.wouldChange(due) {
			return false
		}
		next := v.calls
		next.refs = slices.Clone(next.refs)
		next.add(due)
		err := o.Store.Commit(ctx, store.Put{Key: Key(id), IfVersion: v.version, WriteID: writeID, Data: next.encode()})
		if err == nil {
			v.calls, v.version = next, v.version+1
			return false
		}
		v.known = false
		if !store.IsConflict(err) {
			return errors.Is(err, store.ErrNotApplied)
		}
	}
	return true
}

// parentOf returns id's parent, or the zero id if id has no parent. It returns false if the
// manifest cannot be read.
func (o *Observer) parentOf(ctx context.Context, id identity.ID) (identity.ID, bool) {
	now := o.Now()
	o.mu.Lock()
	c, isCached := o.callers[id]
	o.mu.Unlock()
	if isCached && now.Before(c.until) {
		return c.parent, true
	}
	m, ok, err := o.Manifests.Manifest(ctx, id)
	if err != nil {
		return identity.ID{}, false
	}
	c = caller{until: now.Add(callerTime)}
	if ok {
		c.parent = m.Manifest.ParentID
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for other := range o.callers {
		if len(o.callers) < maxCallers {
			break
		}
		delete(o.callers, other)
	}
	o.callers[id] = c
	return c.parent, true
}
