package billing

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

const (
	// dueParts is in how many partitions the reminders of a minute are.
	dueParts = 16
	// sweepAfter is how long after it is due a call is voided.
	sweepAfter = time.Minute
	// lookBack is how far behind its offset a sweep looks: clocks differ, and a write may
	// arrive late.
	lookBack = 10 * time.Minute
)

// duePartition is where the reminders of a minute are.
func duePartition(minute int64, part int) string {
	return "due#" + strconv.FormatInt(minute, 10) + "#" + strconv.Itoa(part)
}

func minuteOf(t time.Time) int64 { return t.Unix() / 60 }

// reminder leads Sweep to a call.
func reminder(pair call.Pair, r *call.RequestRow) store.Write {
	h := fnv.New32a()
	h.Write(pair.Caller[:])
	h.Write(pair.Vacant[:])
	sort := fmt.Sprintf("%s#%s#%d", pair.Caller, pair.Vacant, r.Position)
	h.Write([]byte(sort))
	return store.Put{Key: store.Key{Partition: duePartition(minuteOf(r.Due), int(h.Sum32()%dueParts)), Sort: sort},
		WriteID: r.WriteID, Number: int64(r.Position), Data: append(append([]byte{}, pair.Caller[:]...), pair.Vacant[:]...)}
}

// offsetKey is the document of the first minute that is not swept yet.
func offsetKey() store.Key { return store.Key{Partition: "sweep", Sort: "due"} }

// Swept is what a Sweep did.
type Swept struct {
	Decided int // reminders of decided calls, which are deleted
	Waiting int // calls that nobody can decide yet
}

// Resolver decides overdue calls (call.Host).
type Resolver interface {
	ResolveOverdue(ctx context.Context, pair call.Pair, position uint64) (bool, error)
}

// Sweep follows the reminders of calls that are due, and voids those that are undecided a
// minute later. It goes on after the failure of one, and returns all failures. Several
// processes may sweep at once.
func (b *Billing) Sweep(ctx context.Context, calls Resolver) (s Swept, err error) {
	last := minuteOf(b.Now().Add(-sweepAfter)) - 1 // the last minute that is over for a minute
	d, err := b.Store.Doc(ctx, offsetKey())
	if err != nil {
		return s, store.Problem(err)
	}
	first := d.Number
	if d.Version == 0 {
		first = last // a host sweeps when it starts, so no call came before
	}
	// A clock that went ahead must not keep others from looking.
	done := min(first, last)
	var failed []error
	whole := true
	for minute := done - int64(lookBack/time.Minute); minute <= last; minute++ {
		waiting, err := b.sweepMinute(ctx, calls, minute, &s)
		if err != nil {
			failed = append(failed, err)
		}
		if whole = whole && err == nil && waiting == 0; whole {
			done = max(done, minute)
		}
		if ctx.Err() != nil {
			break
		}
	}
	if done > d.Number || d.Version == 0 {
		id, err := b.updater().NewWriteID()
		if err == nil {
			err = b.updater().Commit(ctx, store.Put{Key: offsetKey(), If: d.Version, WriteID: id, Number: done})
		}
		if err != nil && !store.IsConflict(err) { // another sweep was faster
			failed = append(failed, store.Problem(err))
		}
	}
	return s, errors.Join(failed...)
}

// sweepMinute follows the reminders of one minute, and returns how many wait.
func (b *Billing) sweepMinute(ctx context.Context, calls Resolver, minute int64, s *Swept) (waiting int, err error) {
	var failed []error
	for part := range dueParts {
		for cursor := ""; ; {
			docs, next, err := b.Store.Docs(ctx, store.Range{Partition: duePartition(minute, part)}, 100, cursor)
			if err != nil {
				return waiting, errors.Join(append(failed, store.Problem(err))...)
			}
			for _, d := range docs {
				decided, err := b.follow(ctx, calls, d)
				switch {
				case err != nil:
					failed = append(failed, err)
				case decided:
					s.Decided++
				default:
					waiting++
				}
			}
			if next == "" {
				break
			}
			cursor = next
		}
	}
	s.Waiting += waiting
	return waiting, errors.Join(failed...)
}

// follow decides the call of a reminder, and deletes the reminder.
func (b *Billing) follow(ctx context.Context, calls Resolver, d store.Doc) (decided bool, err error) {
	if len(d.Data) != 2*identity.Size || d.Number <= 0 {
		return false, problem.New(problem.Damaged, "reminder %s leads to no call", d.Key)
	}
	pair := call.Pair{Caller: identity.ID(d.Data[:identity.Size]), Vacant: identity.ID(d.Data[identity.Size:])}
	if decided, err = calls.ResolveOverdue(ctx, pair, uint64(d.Number)); err != nil || !decided {
		return false, err
	}
	err = b.updater().Commit(ctx, store.Delete{Key: d.Key, If: d.Version})
	if store.IsConflict(err) {
		err = nil // another sweep was faster
	}
	return err == nil, store.Problem(err)
}
