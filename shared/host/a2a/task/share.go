package task

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/vacancy-host/vacancy/shared/store"
)

// Share bounds turns in the background: at most Max turns with the same Key run at once.
type Share struct {
	Key string
	Max int
}

// strangerTurns limits the turns of a stranger's address. Sixteen addresses are needed for the share of
// all strangers on a host that runs 64 turns.
const strangerTurns = 2

// Shares returns the shares of a turn on a host that runs the given number of turns at once. Each turn in
// the background may last for MaxWork, whatever its vacant is, so all turns have the same shares. A
// stranger has no account. Accounts come first: all strangers have half of the turns together, and accounts
// may use all.
func Shares(r Ref, sender Sender, stranger bool, turns int) []Share {
	quarter, half := max(1, turns/4), max(1, turns/2)
	vacant, key := Share{"vacant " + r.Vacant.String(), quarter}, "sender "+string(sender)
	if !stranger {
		return []Share{vacant, {key, quarter}}
	}
	return []Share{vacant, {key, min(quarter, strangerTurns)}, {"strangers", half}}
}

// ErrFull means that a share of the turn has no room. The queue delivers the message again until the
// turn begins, or has waited for call.MaxQueued and fails.
var ErrFull = errors.New("a limit of running turns is reached")

// ErrWaiting is the error for a dispatched task whose turn cannot begin yet. The queue delivers its message until the
// task begins or fails.
var ErrWaiting = errors.New("the task waits for its first turn")

// ErrAccountFull is ErrFull for the turn of an account.
var ErrAccountFull = fmt.Errorf("an account waits: %w", ErrFull)

// ErrUndecided means that the answer of a turn waits for its payment. Others decide the call, and do not
// know of the task, so the message comes again, ends the task and counts it out.
var ErrUndecided = errors.New("the payment of the answer is not certain yet")

// A count of running turns is of the UTC day on which they began, and is removed days later,
// because its key may contain the hash of a client's address.
const (
	// longestTurn is the time after which a turn has ended, or has lost its lease.
	longestTurn = MaxWork + 2*lease
	// keptCounts is longer than the tasks that were counted are kept.
	keptCounts = MaxAge + Kept + 48*time.Hour
)

func dayOf(t time.Time) time.Time { return t.UTC().Truncate(24 * time.Hour) }

func runningKey(share string, day time.Time) store.Key {
	return RunningDocs.Key(share, day.Format(time.DateOnly))
}

// countIn returns the writes that count a turn which begins now in its shares, and their keys. The error
// is ErrFull if a share has no room. The writes fail by their bounds if a share has lost its room since.
func (e *Engine) countIn(ctx context.Context, r Ref, sender Sender, now time.Time) (writes []store.Write, keys []string, err error) {
	if e.Turns == 0 {
		return nil, nil, nil
	}
	day := dayOf(now)
	for _, s := range Shares(r, sender, !sender.IsAccount(), e.Turns) {
		add := store.Add{Key: runningKey(s.Key, day), Delta: 1, Max: int64(s.Max), Expires: day.Add(keptCounts)}
		if now.Sub(day) < longestTurn { // turns of the day before may still run; no more begin
			n, _, err := RunningDocs.Get(ctx, e.Store, runningKey(s.Key, day.AddDate(0, 0, -1)))
			if err != nil {
				return nil, nil, store.Problem(err)
			}
			add.Max -= n
		}
		n, _, err := RunningDocs.Get(ctx, e.Store, add.Key) // it costs less than a refused transaction
		switch {
		case err != nil:
			return nil, nil, store.Problem(err)
		case !add.Fits(n) && sender.IsAccount():
			return nil, nil, ErrAccountFull
		case !add.Fits(n):
			return nil, nil, ErrFull
		}
		writes, keys = append(writes, add), append(keys, s.Key)
	}
	return writes, keys, nil
}

// countOut returns the writes that count the turn of h no more.
func (h *head) countOut() (writes []store.Write) {
	for _, key := range h.Shares { // Changed is the time at which the turn began
		day := dayOf(h.Changed)
		writes = append(writes, store.Add{Key: runningKey(key, day), Delta: -1, Max: math.MaxInt64, Expires: day.Add(keptCounts)})
	}
	return writes
}
