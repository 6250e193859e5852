// Package callstats keeps what the host itself sees of a vacant that has kin:
// in which hours it was called from outside its tree, and where its last
// answers lie. The gate judges by it.
//
// The invariants: it keeps no text; it fails no call, and a call waits for it
// no longer than the pipeline lets it; a vacant costs one document, written by
// each process at most every Every, and only where it changes. What a process
// noted since its last write is lost with it, and so is what could not be
// written: evidence may be missing, and is never made up.
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
	// Every is how often a process writes what it noted of one vacant at most.
	Every = 10 * time.Second

	tries      = 3
	maxVacants = 1024
	maxCallers = 4096
	callerTime = time.Minute
)

// Manifests returns the parents of vacants; *registry.Registry implements it.
type Manifests interface {
	Manifest(ctx context.Context, child identity.ID) (registry.ManifestDocument, bool, error)
}

// Config is what an Observer is made of.
type Config struct {
	Store     store.Store
	Manifests Manifests
	Now       func() time.Time
	Rand      io.Reader // safe for concurrent use
}

// Observer notes what call.Host tells it. It is safe for concurrent use.
type Observer struct {
	Config
	mu      sync.Mutex
	vacants map[identity.ID]*vacant
	callers map[identity.ID]caller
}

// New makes an Observer.
func New(c Config) *Observer {
	return &Observer{Config: c, vacants: make(map[identity.ID]*vacant), callers: make(map[identity.ID]caller)}
}

// noted is what is not written yet.
type noted struct {
	counts map[int64]uint32 // by hour
	refs   []Reference      // the oldest first
}

// add takes the later note into n.
func (n *noted) add(later noted) {
	if n.counts == nil {
		n.counts = make(map[int64]uint32)
	}
	for hour, count := range later.counts {
		if len(n.counts) < Hours || n.counts[hour] > 0 {
			n.counts[hour] += count
		}
	}
	n.refs = append(n.refs, later.refs...)
	n.refs = slices.Clone(n.refs[max(len(n.refs)-MaxReferences, 0):])
}

// vacant is what a process knows of one: what it noted, and the document as it
// last wrote it, which only who is writing looks at.
type vacant struct {
	noted   noted
	tried   time.Time
	writing bool

	known   bool // calls and version are those of the store, if nobody else wrote
	calls   Calls
	version uint64
}

// caller is whose child a caller is, if it is one.
type caller struct {
	parent identity.ID
	until  time.Time
}

// Note is call.Config's Observe. It counts the answers to callers from outside
// the tree, which is the vacant's parent, the parent's other children and the
// vacant's own; answers to the parent are found without a reference.
func (o *Observer) Note(ctx context.Context, seen call.Observation) {
	n := noted{counts: map[int64]uint32{hourOf(seen.Time): 0}}
	if o.outside(ctx, seen) {
		n.counts[hourOf(seen.Time)] = 1
	}
	if seen.Parent == nil || *seen.Parent != seen.Pair.Caller {
		n.refs = []Reference{{seen.Pair.Caller, seen.Position}}
	}
	v, due := o.keep(seen.Pair.Vacant, n)
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

// keep adds n to what is to be written of id. Where that is due, and nobody is
// at it, it is the caller's to write: v is not nil then.
func (o *Observer) keep(id identity.ID, n noted) (v *vacant, due noted) {
	now := o.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	v = o.vacants[id]
	if v == nil {
		for other, one := range o.vacants {
			if len(o.vacants) < maxVacants {
				break
			}
			if !one.writing {
				delete(o.vacants, other) // any one: what it noted is lost
			}
		}
		v = &vacant{}
		o.vacants[id] = v
	}
	v.noted.add(n)
	if since := now.Sub(v.tried); v.writing || since >= 0 && since < Every {
		return nil, noted{}
	}
	v.writing, v.tried = true, now
	due, v.noted = v.noted, noted{}
	return v, due
}

// write adds due to the document, if that says anything new: a closed child that
// only its parent calls costs one write in all. It reports whether that certainly was not
// done, so that it can be tried later; what may have been done is not tried
// again: it would be counted twice.
func (o *Observer) write(ctx context.Context, id identity.ID, v *vacant, due noted) (lost bool) {
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
			v.calls, v.version, v.known = calls, d.Version, true // damaged: begun again
		}
		if v.calls.has(due) {
			return false
		}
		next := v.calls
		next.refs = slices.Clone(next.refs)
		next.add(due)
		err := o.Store.Commit(ctx, store.Put{Key: Key(id), If: v.version, WriteID: writeID, Data: next.Encode()})
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

// outside reports whether the caller is from outside the vacant's tree. Where
// that cannot be read it counts as inside: no evidence is better than wrong.
func (o *Observer) outside(ctx context.Context, seen call.Observation) bool {
	if seen.Parent != nil && *seen.Parent == seen.Pair.Caller {
		return false
	}
	parent, ok := o.parentOf(ctx, seen.Pair.Caller)
	return ok && parent != seen.Pair.Vacant && (seen.Parent == nil || parent != *seen.Parent)
}

// parentOf is whose child id is, zero if it is nobody's; false if that cannot be
// read.
func (o *Observer) parentOf(ctx context.Context, id identity.ID) (identity.ID, bool) {
	now := o.Now()
	o.mu.Lock()
	c, known := o.callers[id]
	o.mu.Unlock()
	if known && now.Before(c.until) {
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
