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

// maxStrangerTurns limits the concurrent turns of one client address that has no account. On a host
// that runs 64 turns, sixteen such addresses together can fill the share of all strangers.
const maxStrangerTurns = 2

// Shares returns the shares of a turn on a host that runs at most maxTurns turns concurrently. A
// stranger is a sender without an account. All strangers together may use half of the turns,
// whereas accounts may use all turns. Each vacant has an equal share, because every background turn
// may last for MaxTurnTime.
func Shares(r Ref, sender Sender, isStranger bool, maxTurns int) []Share {
	quarter, half := max(1, maxTurns/4), max(1, maxTurns/2)
	vacant, key := Share{"vacant " + r.Vacant.String(), quarter}, "sender "+string(sender)
	if !isStranger {
		return []Share{vacant, {key, quarter}}
	}
	return []Share{vacant, {key, min(quarter, maxStrangerTurns)}, {"strangers", half}}
}

// ErrFull means that a share of the turn has no room. The queue redelivers the message until the
// turn begins, or until it has waited for call.MaxQueued and fails.
var ErrFull = errors.New("a limit of running turns is reached")

// ErrWaiting means that the turn of a dispatched task cannot begin yet. The queue redelivers its
// message until the task begins or fails.
var ErrWaiting = errors.New("the task waits for its first turn")

// ErrFullForAccount is returned instead of ErrFull for the turn of an account.
var ErrFullForAccount = fmt.Errorf("an account waits: %w", ErrFull)

// ErrUndecided means that a turn has an answer whose payment is not certain yet. Another process
// will decide the call, but that process does not know the task. The queue therefore redelivers the
// message, and a worker then ends the task and stops counting it.
var ErrUndecided = errors.New("the payment of the answer is not certain yet")

// Running turns are counted under the UTC day on which they began. A count is removed days later,
// because its key may contain the hash of a client's address.
const (
	// longestTurn is the time after which a turn has ended or has lost its lease.
	longestTurn = MaxTurnTime + 2*leaseDuration
	// countRetention is the time from the beginning of a day to the removal of its counts. It exceeds
	// the lifetime of the tasks that were counted.
	countRetention = MaxAge + Retention + 48*time.Hour
)

func dayOf(t time.Time) time.Time { return t.UTC().Truncate(24 * time.Hour) }

func runningKey(share string, day time.Time) store.Key {
	return RunningCountDocs.Key(share, day.Format(time.DateOnly))
}

// takeShareWrites returns the writes that count a turn in its shares when it begins, and the keys of
// the shares. If a share has no room, the error is ErrFull. If a share becomes full before the
// commit, the commit fails with a *store.BoundsError.
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
		n, _, err := RunningCountDocs.Get(ctx, e.Store, add.Key) // cheaper than a failed transaction
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
	for _, key := range h.Shares { // StatusTime is the time at which the turn began
		day := dayOf(h.StatusTime)
		writes = append(writes, store.Add{Key: runningKey(key, day), Delta: -1, Max: math.MaxInt64, Expires: day.Add(countRetention)})
	}
	return writes
}
