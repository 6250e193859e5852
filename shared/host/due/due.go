// Package due stores reminders of work that is due at a certain time. A reminder is handled again
// until its handler reports that it is finished.
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
	partsPerMinute = 16
	// lookBack is how long minutes are read again, because clocks differ and writes may arrive
	// late.
	lookBack = 10 * time.Minute
)

type Reminders struct {
	// Kind has a partition with two stars, for the minute and one of its parts.
	Kind    store.Shape
	Updater store.Updater
	Now     func() time.Time
	Delay   time.Duration
}

func (r Reminders) updater() store.Updater { return r.Updater }

func minuteOf(t time.Time) int64 { return t.Unix() / 60 }

func (r Reminders) partitionValues(minute int64, part int) []string {
	return []string{strconv.FormatInt(minute, 10), strconv.Itoa(part)}
}

func (r Reminders) Key(due time.Time, name string) store.Key {
	h := fnv.New32a()
	h.Write([]byte(name))
	return r.Kind.Key(append(r.partitionValues(minuteOf(due), int(h.Sum32()%partsPerMinute)), name)...)
}

// OffsetDocs contains the minute up to which all reminders of a kind are finished.
var OffsetDocs = store.DocKind[int64]{
	Shape: store.Shape{Name: "minute that is swept", Partition: "sweep", Sort: "*", Verify: store.VerifySkip},
	Codec: store.CountCodec(),
}

func (r Reminders) offsetKey() store.Key {
	kind, _, _ := strings.Cut(r.Kind.Partition, "#")
	return OffsetDocs.Key(kind)
}

type SweepResult struct {
	Finished int
	Waiting  int
}

// Sweep calls handle for each due reminder and deletes the reminder if handle returns true. Several
// processes may sweep at the same time.
func (r Reminders) Sweep(ctx context.Context, handle func(context.Context, store.Doc) (bool, error)) (s SweepResult, err error) {
	last := minuteOf(r.Now().Add(-r.Delay)) - 1
	offsetDoc, err := r.updater().Store.Doc(ctx, r.offsetKey())
	if err != nil {
		return s, store.AsProblem(err)
	}
	offset := offsetDoc.Number
	if offsetDoc.Version == 0 {
		offset = last // no reminder was due before the host's first start
	}
	// A sweep never stores an offset after last, because other processes must still read the
	// minutes after last.
	newOffset := min(offset, last)
	var errs []error
	allFinished := true
	for _, minute := range listMinutes(offset, last) {
		waiting, err := r.sweepMinute(ctx, handle, minute, &s)
		if err != nil {
			errs = append(errs, err)
		}
		if allFinished = allFinished && err == nil && waiting == 0; allFinished {
			newOffset = max(newOffset, minute)
		}
		if ctx.Err() != nil {
			break
		}
	}
	if newOffset > offsetDoc.Number || offsetDoc.Version == 0 {
		id, err := r.updater().NewWriteID()
		if err == nil {
			err = r.updater().Commit(ctx, store.Put{Key: r.offsetKey(), IfVersion: offsetDoc.Version, WriteID: id, Number: newOffset})
		}
		if err != nil && !store.IsConflict(err) { // a conflict means that another sweep was faster
			errs = append(errs, store.AsProblem(err))
		}
	}
	return s, errors.Join(errs...)
}

// listMinutes returns the minutes after offset up to last, and the earlier minutes that are read again.
func listMinutes(offset, last int64) (list []int64) {
	const lookBackMinutes = int64(lookBack / time.Minute)
	if offset >= last {
		for m := last - lookBackMinutes; m <= last; m++ {
			list = append(list, m)
		}
		return list
	}
	for m := offset - lookBackMinutes + 1; m <= last; m++ {
		if m <= last-lookBackMinutes || m > offset {
			list = append(list, m)
		}
	}
	return list
}

func (r Reminders) sweepMinute(ctx context.Context, handle func(context.Context, store.Doc) (bool, error), minute int64, s *SweepResult) (waiting int, err error) {
	partResults := make([]SweepResult, partsPerMinute)
	errs := make([]error, partsPerMinute)
	var g errgroup.Group
	g.SetLimit(maxConcurrentParts)
	for part := range partsPerMinute {
		g.Go(func() error {
			errs[part] = r.sweepPart(ctx, handle, r.Kind.Range(r.partitionValues(minute, part)...), &partResults[part])
			return nil
		})
	}
	_ = g.Wait() // errs contains the errors
	for _, partResult := range partResults {
		s.Finished += partResult.Finished
		waiting += partResult.Waiting
	}
	s.Waiting += waiting
	return waiting, errors.Join(errs...)
}

func (r Reminders) sweepPart(ctx context.Context, handle func(context.Context, store.Doc) (bool, error), docRange store.Range, s *SweepResult) error {
	var errs []error
	for docs, err := range store.Pages(ctx, r.updater().Store, docRange, 100) {
		if err != nil {
			errs = append(errs, store.AsProblem(err))
		}
		for i, res := range r.handlePage(ctx, handle, docs) {
			switch {
			case res.err != nil:
				errs = append(errs, fmt.Errorf("reminder %s: %w", docs[i].Key.Sort, res.err))
			case res.finished:
				s.Finished++
			default:
				s.Waiting++
			}
		}
	}
	return errors.Join(errs...)
}

type reminderResult struct {
	finished bool
	err      error
}

// A busy minute has thousands of reminders, and each handler waits for the store.
const (
	maxConcurrentParts     = 4
	maxConcurrentReminders = 8
)

func (r Reminders) handlePage(ctx context.Context, handle func(context.Context, store.Doc) (bool, error), docs []store.Doc) []reminderResult {
	results := make([]reminderResult, len(docs))
	var g errgroup.Group
	g.SetLimit(maxConcurrentReminders)
	for i, d := range docs {
		g.Go(func() error {
			results[i].finished, results[i].err = r.handleReminder(ctx, handle, d)
			return nil
		})
	}
	_ = g.Wait() // results contains the errors
	return results
}

func (r Reminders) handleReminder(ctx context.Context, handle func(context.Context, store.Doc) (bool, error), d store.Doc) (finished bool, err error) {
	if finished, err = handle(ctx, d); err != nil || !finished {
		return false, err
	}
	err = r.updater().Commit(ctx, store.Delete{Key: d.Key, IfVersion: d.Version})
	if store.IsConflict(err) {
		err = nil // another sweep was faster
	}
	return err == nil, store.AsProblem(err)
}
