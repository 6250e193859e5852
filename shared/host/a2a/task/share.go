package task

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/vacancy-host/vacancy/shared/store"
)

// Share limits background turns. At most Max turns with the same Key run at the same time.
type Share struct {
	Key string
	Max int
}

// maxStrangerTurns limits one client address. On a host that runs 64 turns, sixteen addresses can
// fill the share of all strangers.
const maxStrangerTurns = 2

// Shares returns the shares that count a background turn. The limits of strangers, who have no
// account, are stricter.
func Shares(r Ref, sender Sender, isStranger bool, maxTurns int) []Share {
	quarter, half := max(1, maxTurns/4), max(1, maxTurns/2)
	vacant, key := Share{"vacant " + r.Vacant.String(), quarter}, "sender "+string(sender)
	if !isStranger {
		return []Share{vacant, {key, quarter}}
	}
	return []Share{vacant, {key, min(quarter, maxStrangerTurns)}, {"strangers", half}}
}

var ErrFull = errors.New("a limit of running turns is reached")

var ErrWaiting = errors.New("the task waits for its first turn")

var ErrFullForAccount = fmt.Errorf("an account waits: %w", ErrFull)

// ErrUndecided means that the payment of an answer is not certain yet. The redelivered message ends
// the task later.
var ErrUndecided = errors.New("the payment of the answer is not certain yet")

// Turns are counted under the UTC day on which they began. A count is removed days later, because
// its key may contain the hash of a client's address.
const (
	longestTurn = MaxTurnTime + 2*leaseDuration
	// countRetention exceeds the lifetime of the counted tasks.
	countRetention = MaxAge + Retention + 48*time.Hour
)

func dayOf(t time.Time) time.Time { return t.UTC().Truncate(24 * time.Hour) }

func runningKey(share string, day time.Time) store.Key {
	return RunningCountDocs.Key(share, day.Format(time.DateOnly))
}

// takeShareWrites returns the writes that count a turn in its shares. If a share becomes full
// before the commit, the commit fails with a *store.BoundsError.
func (e *Engine) takeShareWrites(ctx context.Context, r Ref, sender Sender, now time.Time) (writes []store.Write, keys []string, err error) {
	if e.MaxRunningTurns == 0 {
		return nil, nil, nil
	}
	day := dayOf(now)
	for _, s := range Shares(r, sender, !sender.IsAccount(), e.MaxRunningTurns) {
		add := store.Add{Key: runningKey(s.Key, day), Delta: 1, Max: int64(s.Max), Expires: day.Add(countRetention)}
		if now.Sub(day) < longestTurn { // turns of the previous day may still be running, but no more of them begin
			n, _, err := RunningCountDocs.Get(ctx, e.Store, runningKey(s.Key, day.AddDate(0, 0, -1)))
			if err != nil {
				return nil, nil, store.AsProblem(err)
			}
			add.Max -= n
		}
		n, _, err := RunningCountDocs.Get(ctx, e.Store, add.Key)
		switch {
		case err != nil:
			return nil, nil, store.AsProblem(err)
		case !add.Fits(n) && sender.IsAccount():
			return nil, nil, ErrFullForAccount
		case !add.Fits(n):
			return nil, nil, ErrFull
		}
		writes, keys = append(writes, add), append(keys, s.Key)
	}
	return writes, keys, nil
}

func (h *head) releaseShareWrites() (writes []store.Write) {
	for _, key := range h.Shares {
		day := dayOf(h.StatusTime) // start of the turn
		writes = append(writes, store.Add{Key: runningKey(key, day), Delta: -1, Max: math.MaxInt64, Expires: day.Add(countRetention)})
	}
	return writes
}
