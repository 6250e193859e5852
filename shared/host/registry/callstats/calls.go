package callstats

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

const (
	MaxHours      = 168 // seven days
	MaxReferences = 50
)

// Reference is the position of an answer in the responses of a pair. It is not verified, so readers
// must check the row at this position.
type Reference struct {
	Caller   identity.ID
	Position uint64
}

// Calls contains the statistics of one vacant.
type Calls struct {
	firstHour  int64            // start of the observation, in hours since 1970
	newestHour int64            // hour of counts[0]
	counts     [MaxHours]uint32 // calls from outside the tree per hour, newest hour first
	refs       []Reference      // positions of the last answers, newest first
}

func Read(ctx context.Context, r store.Reader, id identity.ID) (Calls, error) {
	c, _, err := readDocument(ctx, r, id)
	return c, err
}

func readDocument(ctx context.Context, r store.Reader, id identity.ID) (c Calls, d store.Doc, err error) {
	if d, err = r.Doc(ctx, CallsKey(id)); err != nil {
		return c, d, problem.Wrap(problem.Unavailable, err, "storage is unavailable; observations of %s cannot be read", id.Short())
	}
	if d.Version > 0 {
		c, err = CallsDocs.Parse(d)
	}
	return c, d, err
}

func (c *Calls) References() []Reference { return slices.Clone(c.refs) }

// Activity returns the calls from outside the tree in each of the last MaxHours hours, oldest
// first. If the counts do not suffice as evidence, series is nil.
func (c *Calls) Activity(now time.Time) (series []float64, missingReason string) {
	if c.firstHour == 0 {
		return nil, "it was never observed"
	}
	currentHour := hourOf(now)
	if observedHours := currentHour - c.firstHour; observedHours < MaxHours {
		return nil, fmt.Sprintf("it was observed for %d hours, want %d", max(observedHours, 0), MaxHours)
	}
	series = make([]float64, MaxHours)
	hasCalls := false
	for i, n := range c.counts {
		index := MaxHours - 1 - (currentHour - (c.newestHour - int64(i)))
		if index >= 0 && index < MaxHours && n > 0 {
			series[index], hasCalls = float64(n), true
		}
	}
	if !hasCalls {
		return nil, fmt.Sprintf("it had no call from outside its tree in %d hours", MaxHours)
	}
	return series, ""
}

func hourOf(t time.Time) int64 { return t.Unix() / 3600 }

func (c *Calls) add(pending pendingObservations) {
	for _, hour := range slices.Sorted(maps.Keys(pending.counts)) {
		c.shiftTo(hour)
		i := c.newestHour - hour
		c.counts[i] = uint32(min(uint64(c.counts[i])+uint64(pending.counts[hour]), math.MaxUint32))
	}
	for _, r := range pending.refs { // oldest first
		if index := slices.Index(c.refs, r); index >= 0 {
			c.refs = slices.Delete(c.refs, index, index+1)
		}
		c.refs = slices.Insert(c.refs, 0, r)
	}
	c.refs = c.refs[:min(len(c.refs), MaxReferences)]
}

func (c *Calls) isUnchangedBy(pending pendingObservations) bool {
	if c.firstHour == 0 || len(pending.refs) > 0 {
		return false
	}
	for hour, count := range pending.counts {
		if count > 0 || hour < c.firstHour || c.newestHour-hour >= MaxHours {
			return false
		}
	}
	return true
}

func (c *Calls) shiftTo(hour int64) {
	// If hour is before all counted hours, a clock was wrong, and the counts are reset. Otherwise
	// no calls would be counted until the time that the wrong clock showed.
	if c.firstHour == 0 || c.newestHour-hour >= MaxHours {
		c.firstHour, c.newestHour, c.counts = hour, hour, [MaxHours]uint32{}
		return
	}
	c.firstHour = min(c.firstHour, hour)
	shift := hour - c.newestHour
	if shift <= 0 {
		return
	}
	var shifted [MaxHours]uint32
	if shift < MaxHours {
		copy(shifted[shift:], c.counts[:])
	}
	c.newestHour, c.counts = hour, shifted
}

const format = 1

func (c *Calls) encode() []byte {
	b := binary.AppendUvarint([]byte{format}, uint64(c.firstHour))
	b = binary.AppendUvarint(b, uint64(c.newestHour-c.firstHour))
	for i := 0; i < MaxHours; {
		b = binary.AppendUvarint(b, uint64(c.counts[i]))
		if c.counts[i] > 0 {
			i++
			continue
		}
		zerosStart := i
		for i < MaxHours && c.counts[i] == 0 {
			i++
		}
		b = binary.AppendUvarint(b, uint64(i-zerosStart))
	}
	var callers []identity.ID
	for _, r := range c.refs {
		if !slices.Contains(callers, r.Caller) {
			callers = append(callers, r.Caller)
		}
	}
	b = append(b, byte(len(callers)))
	for _, id := range callers {
		b = append(b, id[:]...)
	}
	b = append(b, byte(len(c.refs)))
	for _, r := range c.refs {
		b = append(b, byte(slices.Index(callers, r.Caller)))
		b = binary.AppendUvarint(b, r.Position)
	}
	return b
}

func decode(b []byte) (Calls, error) {
	d := &decoder{rest: b}
	if err := store.CheckFormat(format, int(d.readByte())); err != nil {
		return Calls{}, err
	}
	var c Calls
	c.firstHour = int64(d.readUvarint(maxHour))
	c.newestHour = c.firstHour + int64(d.readUvarint(maxHour))
	d.readCounts(&c.counts)
	d.readReferences(&c)
	if d.invalid || len(d.rest) > 0 || c.firstHour == 0 {
		return Calls{}, problem.New(problem.Damaged, "expected hourly counts and references, got %d invalid bytes", len(b))
	}
	return c, nil
}

const maxHour = 253402300799 / 3600

type decoder struct {
	rest    []byte
	invalid bool
}

func (d *decoder) readByte() byte {
	if d.invalid = d.invalid || len(d.rest) == 0; d.invalid {
		return 0
	}
	v := d.rest[0]
	d.rest = d.rest[1:]
	return v
}

func (d *decoder) readUvarint(limit uint64) uint64 {
	v, n := binary.Uvarint(d.rest)
	if d.invalid = d.invalid || n <= 0 || v > limit; d.invalid {
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) readCounts(counts *[MaxHours]uint32) {
	for i := 0; i < MaxHours && !d.invalid; {
		if counts[i] = uint32(d.readUvarint(math.MaxUint32)); counts[i] > 0 {
			i++
			continue
		}
		zeros := int(d.readUvarint(uint64(MaxHours - i)))
		d.invalid = d.invalid || zeros == 0
		i += zeros
	}
}

func (d *decoder) readReferences(c *Calls) {
	callers := make([]identity.ID, min(int(d.readByte()), MaxReferences))
	for i := range callers {
		if d.invalid = d.invalid || len(d.rest) < identity.Size; d.invalid {
			return
		}
		d.rest = d.rest[copy(callers[i][:], d.rest):]
	}
	n := int(d.readByte())
	d.invalid = d.invalid || n > MaxReferences
	for range n {
		index, position := int(d.readByte()), d.readUvarint(math.MaxInt64)
		if d.invalid = d.invalid || index >= len(callers); d.invalid {
			return
		}
		r := Reference{callers[index], position}
		d.invalid = slices.Contains(c.refs, r)
		c.refs = append(c.refs, r)
	}
}
