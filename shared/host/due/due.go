// Package due stores reminders of work that is due at a certain time. A reminder is a document in a
// partition for the minute in which it is due. A sweep handles the due reminders.
//
// A reminder is handled again until its handler reports that it is finished, even if clocks differ
// or a write arrives late.
package due

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/vacancy-host/vacancy/shared/store"
)

const (
	// parts is the number of partitions for the reminders of a minute.
	parts = 16
	// lookBack is how far before its offset (see OffsetDocs) a sweep reads minutes again, because
	// clocks differ and a write may arrive late.
	lookBack = 10 * time.Minute
)

// Reminders reads and handles the reminders of one kind.
type Reminders struct {
	// Kind is the kind of the reminders. Its partition has two stars, for the minute and for one of
	// the minute's parts. Its sort key is the name of the reminder.
	Kind    store.Shape
	Updater store.Updater
	Now     func() time.Time
	// Delay is the minimum time from when a reminder is due until a sweep handles it.
	Delay time.Duration
}

func (r Reminders) updater() store.Updater { return r.Updater }

func minuteOf(t time.Time) int64 { return t.Unix() / 60 }

func (r Reminders) partOf(minute int64, part int) []string {
	return []string{strconv.FormatInt(minute, 10), strconv.Itoa(part)}
}

// Key returns the key of the reminder with a name that is due at a time.
func (r Reminders) Key(due time.Time, name string) store.Key {
	h := fnv.New32a()
	h.Write([]byte(name))
	return r.Kind.Key(append(r.partOf(minuteOf(due), int(h.Sum32()%parts)), name)...)
}

// OffsetDocs contains, for each kind of reminder, the last minute of which all reminders are finished.
var OffsetDocs = store.Kind[int64]{
	Shape: store.Shape{Name: "minute that is swept", Partition: "sweep", Sort: "*", Verify: store.VerifyNot},
	Codec: store.Count(),
}

func (r Reminders) offsetKey() store.Key {
	kind, _, _ := strings.Cut(r.Kind.Partition, "#")
	return OffsetDocs.Key(kind)
}

type SweepResult struct {
	Finished int // finished reminders, which were deleted
	Waiting  int // due reminders that are not finished
}

// Sweep calls handle for each due reminder. If handle returns true, Sweep deletes the reminder.
// After an error, Sweep continues with the other reminders. It returns all errors. Several
// processes may sweep at the same time.
func (r Reminders) Sweep(ctx context.Context, follow func(context.Context, store.Doc) (bool, error)) (s SweepResult, err error) {
	last := minuteOf(r.Now().Add(-r.Delay)) - 1
	d, err := r.updater().Store.Doc(ctx, r.offsetKey())
	if err != nil {
		return s, store.AsProblem(err)
	}
	first := d.Number
	if d.Version == 0 {
		first = last // the first sweep runs when the host starts, so no reminder was due earlier
	}
	// If another process's clock was ahead, the stored offset may be later than last. A sweep never
	// stores an offset after last, so that other processes still read these minutes.
	done := min(first, last)
	var failed []error
	whole := true
	for _, minute := range minutes(first, last) {
		waiting, err := r.minute(ctx, follow, minute, &s)
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
		id, err := r.updater().NewWriteID()
		if err == nil {
			err = r.updater().Commit(ctx, store.Put{Key: r.offsetKey(), IfVersion: d.Version, WriteID: id, Number: done})
		}
		if err != nil && !store.IsConflict(err) { // a conflict means that another sweep was faster
			failed = append(failed, store.AsProblem(err))
		}
	}
	return s, errors.Join(failed...)
}

// minutes returns the minutes that a sweep reads. Each minute is read once when it is due, and again
// after lookBack. If no minute after the offset is due, because another sweep was faster or a clock
// was ahead, the sweep reads all minutes of lookBack.
func minutes(offset, last int64) (list []int64) {
	const back = int64(lookBack / time.Minute)
	if offset >= last {
		for m := last - back; m <= last; m++ {
			list = append(list, m)
		}
		return list
	}
	for m := offset - back + 1; m <= last; m++ {
		if m <= last-back || m > offset {
			list = append(list, m)
		}
	}
	return list
}

func (r Reminders) minute(ctx context.Context, follow func(context.Context, store.Doc) (bool, error), minute int64, s *SweepResult) (waiting int, err error) {
	sweeps := make([]SweepResult, parts)
	failed := make([]error, parts)
	var g errgroup.Group
	g.SetLimit(partsAtOnce)
	for part := range parts {
		g.Go(func() error {
			failed[part] = r.part(ctx, follow, r.Kind.Range(r.partOf(minute, part)...), &sweeps[part])
			return nil
		})
	}
	_ = g.Wait() // failed contains the errors
	for _, sweep := range sweeps {
		s.Finished += sweep.Finished
		waiting += sweep.Waiting
	}
	s.Waiting += waiting
	return waiting, errors.Join(failed...)
}

func (r Reminders) part(ctx context.Context, follow func(context.Context, store.Doc) (bool, error), docRange store.Range, s *SweepResult) error {
	var failed []error
	for docs, err := range store.Pages(ctx, r.updater().Store, docRange, 100) {
		if err != nil {
			failed = append(failed, store.AsProblem(err))
		}
		for i, res := range r.page(ctx, follow, docs) {
			switch {
			case res.err != nil:
				failed = append(failed, fmt.Errorf("reminder %s: %w", docs[i].Key.Sort, res.err))
			case res.decided:
				s.Finished++
			default:
				s.Waiting++
			}
		}
	}
	return errors.Join(failed...)
}

type result struct {
	decided bool // whether the reminder was finished and deleted
	err     error
}

// partsAtOnce limits the partitions that are read concurrently, and atOnce limits the reminders of a
// partition that are handled concurrently. A busy minute has thousands of reminders, and the handler
// of each waits for the store.
const (
	partsAtOnce = 4
	atOnce      = 8
)

func (r Reminders) page(ctx context.Context, follow func(context.Context, store.Doc) (bool, error), docs []store.Doc) []result {
	results := make([]result, len(docs))
	var g errgroup.Group
	g.SetLimit(atOnce)
	for i, d := range docs {
		g.Go(func() error {
			results[i].decided, results[i].err = r.handle(ctx, follow, d)
			return nil
		})
	}
	_ = g.Wait() // the results contain the errors
	return results
}

func (r Reminders) handle(ctx context.Context, follow func(context.Context, store.Doc) (bool, error), d store.Doc) (decided bool, err error) {
	if decided, err = follow(ctx, d); err != nil || !decided {
		return false, err
	}
	err = r.updater().Commit(ctx, store.Delete{Key: d.Key, If: d.Version})
	if store.IsConflict(err) {
		err = nil // another sweep was faster
	}
	return err == nil, store.AsProblem(err)
}
