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
	MaxHours      = 168 // hourly counts: seven days
	MaxReferences = 50  // positions of the last answers
)

// Reference is the position of an answer in the responses of a pair. It is not verified, so readers
// must check the row at this position.
type Reference struct {
	Caller   identity.ID
	Position uint64
}

// Calls contains the statistics of one vacant. The zero Calls means that the vacant was never
// observed.
type Calls struct {
	since  int64            // first hour of the observation, in hours since 1970
	newest int64            // hour of counts[0]
	counts [MaxHours]uint32 // calls from outside the tree per hour, newest hour first
	refs   []Reference      // positions of the last answers, newest first, distinct, at most MaxReferences
}

func Read(ctx context.Context, from store.Reader, id identity.ID) (Calls, error) {
	c, _, err := read(ctx, from, id)
	return c, err
}

func read(ctx context.Context, from store.Reader, id identity.ID) (c Calls, d store.Doc, err error) {
	if d, err = from.Doc(ctx, Key(id)); err != nil {
		return c, d, problem.Wrap(problem.Unavailable, err, "storage is unavailable; observations of %s cannot be read", id.Short())
	}
	if d.Version > 0 {
		c, err = CallsDocs.Parse(d)
	}
	return c, d, err
}

func (c *Calls) References() []Reference { return slices.Clone(c.refs) }

// Activity returns the calls from outside the tree in each of the last MaxHours hours, oldest
// first. If the vacant was observed for less time or had no such call, the counts are not evidence.
// series is then nil, and missing contains the reason.
func (c *Calls) Activity(now time.Time) (series []float64, missing string) {
	if c.since == 0 {
		return nil, "it was never observed"
	}
	last := hourOf(now)
	if span := last - c.since; span < MaxHours {
		return nil, fmt.Sprintf("it was observed for %d hours, want %d", max(span, 0), MaxHours)
	}
	series = make([]float64, MaxHours)
	any := false
	for i, n := range c.counts {
		index := MaxHours - 1 - (last - (c.newest - int64(i)))
		if index >= 0 && index < MaxHours && n > 0 {
			series[index], any = float64(n), true
		}
	}
	if !any {
		return nil, fmt.Sprintf("no call from outside its tree came in %d hours", MaxHours)
	}
	return series, ""
}

func hourOf(t time.Time) int64 { return t.Unix() / 3600 }

func (c *Calls) add(n pendingCounts) {
	for _, hour := range slices.Sorted(maps.Keys(n.counts)) {
		c.shiftTo(hour)
		i := c.newest - hour
		c.counts[i] = uint32(min(uint64(c.counts[i])+uint64(n.counts[hour]), math.MaxUint32))
	}
	for _, r := range n.refs { // oldest first
		if index := slices.Index(c.refs, r); index >= 0 {
			c.refs = slices.Delete(c.refs, index, index+1)
		}
		c.refs = slices.Insert(c.refs, 0, r)
	}
	c.refs = c.refs[:min(len(c.refs), MaxReferences)]
}

func (c *Calls) wouldChange(n pendingCounts) bool {
	if c.since == 0 || len(n.refs) > 0 {
		return false
	}
	for hour, count := range n.counts {
		if count > 0 || hour < c.since || c.newest-hour >= MaxHours {
			return false
		}
	}
	return true
}

func (c *Calls) shiftTo(hour int64) {
	// If hour is before all counted hours, a clock is or was wrong. All counts are then reset.
	// Otherwise no call could be counted before the time that the wrong clock showed.
	if c.since == 0 || c.newest-hour >= MaxHours {
		c.since, c.newest, c.counts = hour, hour, [MaxHours]uint32{}
		return
	}
	c.since = min(c.since, hour)
	later := hour - c.newest
	if later <= 0 {
		return
	}
	var moved [MaxHours]uint32
	if later < MaxHours {
		copy(moved[later:], c.counts[:])
	}
	c.newest, c.counts = hour, moved
}

const format = 1

func (c *Calls) encode() []byte {
	// The stored form has about 2 KB for 50 callers with one answer each, and a few hundred bytes
	// for few callers.
	b := binary.AppendUvarint([]byte{format}, uint64(c.since))
	b = binary.AppendUvarint(b, uint64(c.newest-c.since))
	for i := 0; i < MaxHours; {
		b = binary.AppendUvarint(b, uint64(c.counts[i]))
		if c.counts[i] > 0 {
			i++
			continue
		}
		run := i
		for i < MaxHours && c.counts[i] == 0 {
			i++
		}
		b = binary.AppendUvarint(b, uint64(i-run))
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
	d := &decoder{b: b}
	if err := store.CheckFormat(format, int(d.byte())); err != nil {
		return Calls{}, err
	}
	var c Calls
	c.since = int64(d.uvarint(maxHour))
	c.newest = c.since + int64(d.uvarint(maxHour))
	d.counts(&c.counts)
	d.references(&c)
	if d.bad || len(d.b) > 0 || c.since == 0 {
		return Calls{}, problem.New(problem.Damaged, "expected buckets and references, got %d bytes of something else", len(b))
	}
	return c, nil
}

// maxHour is an hour in the year 9999.
const maxHour = 253402300799 / 3600

type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) byte() byte {
	if d.bad = d.bad || len(d.b) == 0; d.bad {
		return 0
	}
	v := d.b[0]
	d.b = d.b[1:]
	return v
}

func (d *decoder) uvarint(limit uint64) uint64 {
	v, n := binary.Uvarint(d.b)
	if d.bad = d.bad || n <= 0 || v > limit; d.bad {
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) counts(into *[MaxHours]uint32) {
	for i := 0; i < MaxHours && !d.bad; {
		if into[i] = uint32(d.uvarint(math.MaxUint32)); into[i] > 0 {
			i++
			continue
		}
		run := int(d.uvarint(uint64(MaxHours - i)))
		d.bad = d.bad || run == 0
		i += run
	}
}

func (d *decoder) references(c *Calls) {
	callers := make([]identity.ID, min(int(d.byte()), MaxReferences))
	for i := range callers {
		if d.bad = d.bad || len(d.b) < identity.Size; d.bad {
			return
		}
		d.b = d.b[copy(callers[i][:], d.b):]
	}
	n := int(d.byte())
	d.bad = d.bad || n > MaxReferences
	for range n {
		index, position := int(d.byte()), d.uvarint(math.MaxInt64)
		if d.bad = d.bad || index >= len(callers); d.bad {
			return
		}
		r := Reference{callers[index], position}
		d.bad = slices.Contains(c.refs, r)
		c.refs = append(c.refs, r)
	}
}
