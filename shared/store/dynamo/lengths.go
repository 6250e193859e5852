package dynamo

import (
	"sync"

	"github.com/vacancy-host/vacancy/shared/store"
)

// maxGenerationStreams limits the streams of each of the two generations in knownTips. At about 150 bytes per
// stream, both take 5 MB. A dropped stream costs one read at its next append, unless the caller reads
// its tip anyway.
const maxGenerationStreams = 1 << 14

// knownTips records the highest known position of each stream. Rows are never deleted, so a recorded
// position remains valid until the table is restored from a backup (see Store.Forget). It may be lower
// than the tip, but is never higher. Two generations limit the number of streams: when young is full,
// it replaces old, and the streams that were only in old are dropped.
type knownTips struct {
	mu         sync.Mutex
	limit      int
	young, old map[store.Stream]uint64
}

func (l *knownTips) record(s store.Stream, p uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.setHighest(s, max(p, l.highest(s)))
}

func (l *knownTips) isKnown(s store.Stream, p uint64) bool {
	if p == 0 {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	tip := l.highest(s)
	if tip < p {
		return false
	}
	l.setHighest(s, tip)
	return true
}

func (l *knownTips) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.young, l.old = nil, nil
}

func (l *knownTips) highest(s store.Stream) uint64 { return max(l.young[s], l.old[s]) }

func (l *knownTips) setHighest(s store.Stream, p uint64) {
	if _, isYoung := l.young[s]; !isYoung && len(l.young) >= l.limit {
		l.young, l.old = nil, l.young
	}
	if l.young == nil {
		l.young = make(map[store.Stream]uint64)
	}
	l.young[s] = p
}
