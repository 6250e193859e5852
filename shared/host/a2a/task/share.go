package task

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/store"
)

// Share bounds turns in the background: of the turns with the same Key at most Max run at once.
type Share struct {
	Key string
	Max int
}

// ErrFull means that a share of the turn has no room. A turn that ends sends the message of a turn
// that waits for its room; the queue delivers the message again later, too, until the turn has waited
// for call.MaxQueued.
var ErrFull = errors.New("as many turns run as may")

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

// countIn returns the writes that count a turn which begins now in its shares, and their keys. If a
// share has no room, the turn is noted as waiting there, and the error is ErrFull. The writes fail by
// their bounds if a share has lost its room since.
func (e *Engine) countIn(ctx context.Context, r Ref, h *head, now time.Time) (writes []store.Write, keys []string, err error) {
	if e.Shares == nil {
		return nil, nil, nil
	}
	shares, err := e.Shares(ctx, r, h.Sender)
	if err != nil {
		return nil, nil, store.Problem(err)
	}
	for noted := []string{}; ; {
		writes, keys = nil, nil
		full := ""
		for _, s := range shares {
			add, ok, err := e.room(ctx, s, now)
			switch {
			case err != nil:
				return nil, nil, err
			case ok:
				writes, keys = append(writes, add), append(keys, s.Key)
			case full == "":
				full = s.Key
			}
		}
		switch {
		case full == "":
			return writes, keys, nil
		case slices.Contains(noted, full):
			e.offerRoom(ctx, keys) // in which others may wait
			return nil, nil, ErrFull
		}
		// A turn that ended before this one was noted did not find it: look once more.
		if err := e.noteWaiting(ctx, full, r, h); err != nil {
			return nil, nil, err
		}
		noted = append(noted, full)
	}
}

// room returns the write that counts a turn in a share, and whether the share has room for it.
func (e *Engine) room(ctx context.Context, s Share, now time.Time) (add store.Add, ok bool, err error) {
	day := dayOf(now)
	add = store.Add{Key: runningKey(s.Key, day), Delta: 1, Max: int64(s.Max), Expires: day.Add(keptCounts)}
	if now.Sub(day) < longestTurn { // turns of the day before may still run; no more begin
		n, _, err := RunningDocs.Get(ctx, e.Store, runningKey(s.Key, day.AddDate(0, 0, -1)))
		if err != nil {
			return add, false, store.Problem(err)
		}
		add.Max -= n
	}
	n, _, err := RunningDocs.Get(ctx, e.Store, add.Key) // it costs less than a refused transaction
	return add, add.Fits(n), store.Problem(err)
}

// noteWaiting stores that a turn waits for room in a share.
func (e *Engine) noteWaiting(ctx context.Context, share string, r Ref, h *head) error {
	id, err := e.updater().NewWriteID()
	if err != nil {
		return err
	}
	sort := h.Changed.UTC().Format("20060102T150405.000000") + "#" + r.ID
	put := store.Put{Key: WaitDocs.Key(share, sort), WriteID: id, Data: []byte(r.message()), Expires: e.Now().Add(call.MaxQueued).UTC().Truncate(time.Second)}
	if err := e.updater().Commit(ctx, put); err != nil && !store.IsConflict(err) { // it may be noted already
		return store.Problem(err)
	}
	return nil
}

// offerRoom sends the message of the turn that has waited longest, for each share that has room. If
// that fails, the message comes again later.
func (e *Engine) offerRoom(ctx context.Context, shares []string) {
	for _, share := range shares {
		if err := e.sendWaiting(ctx, share); err != nil {
			e.Log.WarnContext(ctx, "a turn that waits for room comes late", "cause", err.Error())
		}
	}
}

// sendWaiting removes the notes of a share up to the first of a turn that still waits, and sends the
// message of that turn. Only the process that removed the note sends the message.
func (e *Engine) sendWaiting(ctx context.Context, share string) error {
	for d, err := range store.All(ctx, e.Store, WaitDocs.All(share)) {
		if err != nil {
			return store.Problem(err)
		}
		switch err := e.updater().Commit(ctx, store.Delete{Key: d.Key, If: d.Version}); {
		case store.IsConflict(err):
			continue
		case err != nil:
			return store.Problem(err)
		}
		r, err := ParseMessage(string(d.Data))
		if err != nil {
			return err
		}
		h, _, err := HeadDocs.Get(ctx, e.Store, r.headKey())
		if err != nil {
			return store.Problem(err)
		}
		if h.State != Submitted {
			continue
		}
		settle, err := e.Queue.Send(ctx, r.message(), h.Sender)
		if err == nil {
			settle(ctx, true)
		}
		return err
	}
	return nil
}

// countOut returns the writes that count the turn of h no more.
func (h *head) countOut() (writes []store.Write) {
	for _, key := range h.Shares { // Changed is the time at which the turn began
		day := dayOf(h.Changed)
		writes = append(writes, store.Add{Key: runningKey(key, day), Delta: -1, Max: math.MaxInt64, Expires: day.Add(keptCounts)})
	}
	return writes
}
