package dynamo

import (
	"sync"

	"github.com/vacancy-host/vacancy/shared/store"
)

// maxGenerationStreams limits each of the two generations in knownTips. Both take about 5 MB.
const maxGenerationStreams = 1 << 14

// knownTips records the highest known position of each stream, which is never higher than the tip.
// Rows are never deleted, so a position remains valid until the table is restored from a backup
// (see Store.ClearCache). When young is full, it replaces old.
type knownTips struct {
	mu         sync.Mutex
	limit      int
	young, old map[store.Stream]uint64
}

func (t *knownTips) record(s store.Stream, p uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.setHighest(s, max(p, t.highest(s)))
}

func (t *knownTips) isKnown(s store.Stream, p uint64) bool {
	if p == 0 {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	tip := t.highest(s)
	if tip < p {
		return false
	}
	t.setHighest(s, tip)
	return true
}

func (t *knownTips) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.young, t.old = nil, nil
}

func (t *knownTips) highest(s store.Stream) uint64 { return max(t.young[s], t.old[s]) }

func (t *knownTips) setHighest(s store.Stream, p uint64) {
	if _, isYoung := t.young[s]; !isYoung && len(t.young) >= t.limit {
		t.young, t.old = nil, t.young
	}
	if t.young == nil {
		t.young = make(map[store.Stream]uint64)
	}
	t.young[s] = p
}
