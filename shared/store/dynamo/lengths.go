package dynamo

import (
	"sync"

	"github.com/vacancy-host/vacancy/shared/store"
)

// knownStreams bounds memory: twice as many streams at about 150 bytes are 5
// MB. A stream that is dropped costs one read at its next append, unless its
// tip is read anyway.
const knownStreams = 1 << 14

// lengths remembers, for each stream, the highest position known to exist. Rows
// are never deleted, so it stays true until the table comes back from a backup
// (Forget); it may be behind, never ahead. Two
// generations bound it: when the young one is full it becomes the old one, and
// unused streams of the old one are dropped.
type lengths struct {
	mu         sync.Mutex
	most       int
	young, old map[store.Stream]uint64
}

// saw records that position p of s exists.
func (l *lengths) saw(s store.Stream, p uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.note(s, max(p, l.at(s)))
}

// reaches reports whether position p of s is known to exist. Position 0 always
// is.
func (l *lengths) reaches(s store.Stream, p uint64) bool {
	if p == 0 {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	highest := l.at(s)
	if highest < p {
		return false
	}
	l.note(s, highest)
	return true
}

func (l *lengths) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.young, l.old = nil, nil
}

func (l *lengths) at(s store.Stream) uint64 { return max(l.young[s], l.old[s]) }

func (l *lengths) note(s store.Stream, p uint64) {
	if _, in := l.young[s]; !in && len(l.young) >= l.most {
		l.young, l.old = nil, l.young
	}
	if l.young == nil {
		l.young = make(map[store.Stream]uint64)
	}
	l.young[s] = p
}
