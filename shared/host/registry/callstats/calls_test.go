package callstats

import (
	"bytes"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

var start = time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)

func at(hours int) time.Time { return start.Add(time.Duration(hours) * time.Hour) }

func one(hours int, refs ...Reference) pendingObservations {
	return pendingObservations{counts: map[int64]uint32{hourOf(at(hours)): 1}, refs: refs}
}

func TestActivityIsWhatTheLastSevenDaysSaw(t *testing.T) {
	for name, tt := range map[string]struct {
		hours   []int // of calls
		now     int
		want    map[int]float64 // by hour
		missing string
	}{
		"never observed":         {nil, 0, nil, "never observed"},
		"for an hour":            {[]int{0}, 0, nil, "for 0 hours, want 168"},
		"for all but an hour":    {[]int{0, 167}, 167, nil, "for 167 hours, want 168"},
		"for seven days":         {[]int{0, 1, 168, 168}, 168, map[int]float64{1: 1, 168: 2}, ""},
		"a week ago":             {[]int{0, 1}, 200, nil, "no call from outside"},
		"once, long ago":         {[]int{0}, 10_000, nil, "no call from outside"},
		"again after a pause":    {[]int{0, 500}, 501, map[int]float64{500: 1}, ""},
		"the first of the week":  {[]int{0, 200, 367}, 367, map[int]float64{200: 1, 367: 1}, ""},
		"late word of before":    {[]int{0, 180, 170}, 180, map[int]float64{170: 1, 180: 1}, ""},
		"a clock ahead":          {[]int{0, 200, 201}, 200, map[int]float64{200: 1}, ""},
		"a clock that went back": {[]int{0, 5000, 10}, 200, map[int]float64{}, "no call from outside"}, // everything restarts at 10
	} {
		t.Run(name, func(t *testing.T) {
			var c Calls
			for _, h := range tt.hours {
				c.add(one(h))
			}
			series, missing := c.Activity(at(tt.now))
			if (tt.missing == "") != (missing == "") || !strings.Contains(missing, tt.missing) {
				t.Fatalf("Activity() is missing since %q, want %q", missing, tt.missing)
			}
			if tt.missing != "" {
				if series != nil {
					t.Errorf("Activity() = %v and is missing", series)
				}
				return
			}
			want := make([]float64, MaxHours)
			for hour, n := range tt.want {
				want[MaxHours-1-(tt.now-hour)] = n
			}
			if diff := cmp.Diff(want, series); diff != "" {
				t.Errorf("Activity() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCallsRecogniseAddsWithoutEffect(t *testing.T) {
	var c Calls
	c.add(one(100))
	c.add(one(300))
	for name, tt := range map[string]struct {
		hour  int
		count uint32
		refs  []Reference
		want  bool
	}{
		"an hour that is known":      {200, 0, nil, true},
		"a later hour":               {1000, 0, nil, true},
		"a call":                     {300, 1, nil, false},
		"a reference":                {300, 0, []Reference{{identity.ID{1}, 1}}, false},
		"an earlier hour":            {99, 0, nil, false},
		"a clock that was far ahead": {101, 0, nil, false}, // everything restarts
	} {
		n := pendingObservations{counts: map[int64]uint32{hourOf(at(tt.hour)): tt.count}, refs: tt.refs}
		if got := c.isUnchangedBy(n); got != tt.want {
			t.Errorf("%s: has() = %v, want %v", name, got, tt.want)
		}
	}
	if (&Calls{}).isUnchangedBy(pendingObservations{}) {
		t.Error("has() of what was never observed = true, want false")
	}
}

func TestReferencesAreTheLastAndNoneTwice(t *testing.T) {
	var c Calls
	for i := range uint64(60) {
		c.add(one(0, Reference{identity.ID{byte(i % 3)}, i + 1}))
	}
	c.add(one(0, Reference{identity.ID{1}, 59})) // seen again
	got := c.References()
	if len(got) != MaxReferences || got[0] != (Reference{identity.ID{1}, 59}) || got[1] != (Reference{identity.ID{2}, 60}) {
		t.Fatalf("References() = %d, first %v, %v", len(got), got[0], got[1])
	}
	seen := map[Reference]bool{}
	for _, r := range got {
		if seen[r] {
			t.Errorf("%v is there twice", r)
		}
		seen[r] = true
	}
}

func TestEncodedCallsAreSmallAndDecode(t *testing.T) {
	few, many := Calls{}, Calls{}
	for i := range 400 {
		few.add(one(i*3, Reference{identity.ID{1}, uint64(i + 1)}))
		many.add(pendingObservations{counts: map[int64]uint32{hourOf(at(i)): 70_000}, refs: []Reference{{identity.ID{byte(i), byte(i >> 8)}, math.MaxInt64}}})
	}
	var most Calls
	most.add(pendingObservations{counts: map[int64]uint32{hourOf(start): math.MaxUint32}})
	most.add(one(0)) // stays at the maximum
	for _, tt := range []struct {
		calls Calls
		bytes int
	}{{few, 600}, {many, 2700}, {most, 64}} {
		b := tt.calls.encode()
		got, err := decode(b)
		if diff := cmp.Diff(tt.calls, got, cmp.AllowUnexported(Calls{}), cmpopts.EquateEmpty()); diff != "" || err != nil {
			t.Errorf("decode(encode()) = %v (-want +got):\n%s", err, diff)
		}
		if len(b) > tt.bytes {
			t.Errorf("encode() = %d bytes, want at most %d", len(b), tt.bytes)
		}
	}
	if most.counts[0] != math.MaxUint32 {
		t.Errorf("the fullest bucket = %d, want %d", most.counts[0], uint32(math.MaxUint32))
	}
}

func TestUndecodableCallsAreDamaged(t *testing.T) {
	var c Calls
	c.add(one(0, Reference{identity.ID{1}, 1}, Reference{identity.ID{2}, 2}))
	good := c.encode()
	twice := Calls{firstHour: c.firstHour, newestHour: c.newestHour, refs: []Reference{{identity.ID{1}, 1}, {identity.ID{1}, 1}}}
	bad := [][]byte{nil, {}, {2}, append([]byte{2}, good[1:]...), append(bytes.Clone(good), 0), {format, 0, 0, 0, 168, 1, 0, 0}, twice.encode()}
	for i := range good {
		bad = append(bad, good[:i])
	}
	for _, b := range bad {
		if _, err := decode(b); !problem.Is(err, problem.Damaged) {
			t.Errorf("decode(%x) = %v, want it damaged", b, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	var c Calls
	for range 30 {
		c.add(one(r.IntN(300), Reference{identity.ID{byte(r.IntN(5))}, r.Uint64N(1000) + 1}))
		f.Add(c.encode())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := decode(b)
		if err != nil {
			return
		}
		again, err := decode(c.encode())
		if diff := cmp.Diff(c, again, cmp.AllowUnexported(Calls{}), cmpopts.EquateEmpty()); diff != "" || err != nil {
			t.Errorf("decode(encode()) = %v (-want +got):\n%s", err, diff)
		}
		c.Activity(start)
		c.add(one(0))
	})
}
