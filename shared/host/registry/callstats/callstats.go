// Package callstats counts the calls of a vacant from outside its tree (its parent, siblings and
// children), and records the positions of its last answers. The gate, which decides whether a child
// may become public, uses these statistics as evidence.
//
// The package cannot fail a call. If the process ends before counts are written, the counts are
// lost. Evidence may therefore be missing, but it is never invented.
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

	maxTries        = 3
	maxVacants      = 1024
	maxCallers      = 4096
	parentCacheTime = time.Minute
)

// Manifests is implemented by *registry.Registry.
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
	vacants map[identity.ID]*vacantState
	parents map[identity.ID]cachedParent
}

func New(c Config) *Observer {
	return &Observer{Config: c, vacants: make(map[identity.ID]*vacantState), parents: make(map[identity.ID]cachedParent)}
}

type pendingObservations struct {
	counts map[int64]uint32 // indexed by hour
	refs   []Reference      // oldest first
}

func (p *pendingObservations) add(newer pendingObservations) {
	if p.counts == nil {
		p.counts = make(map[int64]uint32)
	}
	for hour, count := range newer.counts {
		if len(p.counts) < MaxHours || p.counts[hour] > 0 {
			p.counts[hour] += count
		}
	}
	p.refs = append(p.refs, newer.refs...)
	p.refs = slices.Clone(p.refs[max(len(p.refs)-MaxReferences, 0):])
}

// vacantState contains the observations of one vacant. Only the current writer uses isCurrent,
// calls and version.
type vacantState struct {
	pending   pendingObservations
	lastWrite time.Time // start of the last write
	isWriting bool

	isCurrent bool // whether calls and version match the stored document
	calls     Calls
	version   uint64
}

type cachedParent struct {
	parent  identity.ID
	expires time.Time
}

// Observe counts an answer if its caller is outside the tree. It references all answers except
// answers to the parent.
func (o *Observer) Observe(ctx context.Context, observation call.Observation) {
	pending := pendingObservations{counts: map[int64]uint32{hourOf(observation.Time): 0}}
	if observation.Parent == nil || *observation.Parent != observation.Pair.Caller {
		pending.refs = []Reference{{observation.Pair.Caller, observation.Position}}
		// If the caller's parent cannot be read, missing evidence is better than wrong evidence.
		parent, ok := o.findParent(ctx, observation.Pair.Caller)
		if ok && parent != observation.Pair.Vacant && (observation.Parent == nil || parent != *observation.Parent) {
			pending.counts[hourOf(observation.Time)] = 1
		}
	}
	v, due := o.addPending(observation.Pair.Vacant, pending)
	if v == nil {
		return
	}
	failed := o.write(ctx, observation.Pair.Vacant, v, due)
	o.mu.Lock()
	defer o.mu.Unlock()
	v.isWriting = false
	if !failed {
		return
	}
	due.add(v.pending)
	v.pending = due
}

// addPending adds observations. If v is not nil, the caller must write due now.
func (o *Observer) addPending(id identity.ID, pending pendingObservations) (v *vacantState, due pendingObservations) {
	now := o.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	v = o.vacants[id]
	if v == nil {
		for other, candidate := range o.vacants {
			if len(o.vacants) < maxVacants {
				break
			}
			if !candidate.isWriting {
				delete(o.vacants, other) // the pending observations of this vacant are lost
			}
		}
		v = &vacantState{}
		o.vacants[id] = v
	}
	v.pending.add(pending)
	if elapsed := now.Sub(v.lastWrite); v.isWriting || elapsed >= 0 && elapsed < WriteInterval {
		return nil, pendingObservations{}
	}
	v.isWriting, v.lastWrite = true, now
	due, v.pending = v.pending, pendingObservations{}
	return v, due
}

// write returns true if the write certainly failed, and the caller must then keep due. After an
// unknown outcome due is dropped, because calls could otherwise be counted twice.
func (o *Observer) write(ctx context.Context, id identity.ID, v *vacantState, due pendingObservations) (failed bool) {
	var writeID store.WriteID
	if _, err := io.ReadFull(o.Rand, writeID[:]); err != nil {
		return true
	}
	for range maxTries {
		if !v.isCurrent {
			calls, d, err := readDocument(ctx, o.Store, id)
			if err != nil && !problem.Is(err, problem.Damaged) {
				return true
			}
			v.calls, v.version, v.isCurrent = calls, d.Version, true // a damaged document is replaced
		}
		if v.calls.isUnchangedBy(due) {
			return false
		}
		next := v.calls
		next.refs = slices.Clone(next.refs)
		next.add(due)
		err := o.Store.Commit(ctx, store.Put{Key: CallsKey(id), IfVersion: v.version, WriteID: writeID, Data: next.encode()})
		if err == nil {
			v.calls, v.version = next, v.version+1
			return false
		}
		v.isCurrent = false
		if !store.IsConflict(err) {
			return errors.Is(err, store.ErrNotApplied)
		}
	}
	return true
}

func (o *Observer) findParent(ctx context.Context, id identity.ID) (identity.ID, bool) {
	now := o.Now()
	o.mu.Lock()
	c, isCached := o.parents[id]
	o.mu.Unlock()
	if isCached && now.Before(c.expires) {
		return c.parent, true
	}
	m, ok, err := o.Manifests.Manifest(ctx, id)
	if err != nil {
		return identity.ID{}, false
	}
	c = cachedParent{expires: now.Add(parentCacheTime)}
	if ok {
		c.parent = m.Manifest.ParentID
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for other := range o.parents {
		if len(o.parents) < maxCallers {
			break
		}
		delete(o.parents, other)
	}
	o.parents[id] = c
	return c.parent, true
}
