package registry_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/registry/registrytest"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// follow reads the feed from since in pages of n.
func follow(t *testing.T, r *registry.Registry, since string, n int) []registry.Registration {
	t.Helper()
	var all []registry.Registration
	for cursor := ""; ; {
		page, next, err := r.Changes(t.Context(), since, n, cursor)
		if err != nil {
			t.Fatalf("Changes() = %v", err)
		}
		all = append(all, page...)
		if cursor = next; cursor == "" {
			return all
		}
	}
}

func TestTheFeedShowsEachRegistrationAtItsLastChange(t *testing.T) {
	inner, c := memory.New(), newClock()
	r := open(inner, c)
	for n := byte(1); n <= 5; n++ {
		mustPublish(t, r, key(n), draft{})
		c.Advance(time.Second)
	}
	mustPublish(t, r, key(2), draft{Seq: 2, Visibility: lifecycle.Hidden})
	if err := registrytest.AddManifest(t.Context(), r, manifest(t, key(1), key(9), false)); err != nil {
		t.Fatal(err) // one that is not registered: in no feed
	}
	names := func(all []registry.Registration) (out []string) {
		for _, g := range all {
			out = append(out, fmt.Sprintf("%s %s %d", g.ID.Short(), g.Visibility, g.DocVersion))
		}
		return out
	}
	var want []string
	for _, n := range []byte{1, 3, 4, 5} {
		want = append(want, fmt.Sprintf("%s PUBLIC 2", key(n).ID().Short()))
	}
	want = append(want, fmt.Sprintf("%s NONE 3", key(2).ID().Short()))
	for _, size := range []int{1, 2, 100} {
		if diff := cmp.Diff(want, names(follow(t, r, "", size))); diff != "" {
			t.Errorf("Changes() from the start in pages of %d (-want +got):\n%s", size, diff)
		}
	}
	since := get(t, r, key(4).ID()).ChangeKey
	if diff := cmp.Diff(want[2:], names(follow(t, r, since, 10))); diff != "" {
		t.Errorf("Changes() since the fourth (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want[1:], names(follow(t, r, registry.ChangeKeyBefore(since, time.Second), 10))); diff != "" {
		t.Errorf("Changes() from a second before the fourth (-want +got):\n%s", diff)
	}
}

func TestAClockThatGoesBackMovesNoChangeBack(t *testing.T) {
	c, k := newClock(), key(1)
	r := open(memory.New(), c)
	mustPublish(t, r, k, draft{})
	was := get(t, r, k.ID()).ChangeKey
	c.Advance(-time.Hour)
	mustPublish(t, r, k, draft{Seq: 2, SignedAt: c.Now(), Visibility: lifecycle.Hidden})
	if g := get(t, r, k.ID()); g.ChangeKey != was || g.DocVersion != 3 {
		t.Errorf("changed at %s, version %d, want %s and 3", g.ChangeKey, g.DocVersion, was)
	}
}

func TestPlacesInTheFeedSortLikeTimes(t *testing.T) {
	last := ""
	for _, at := range []time.Time{time.UnixMicro(0), time.UnixMicro(1), start, start.Add(time.Microsecond), start.AddDate(100, 0, 0)} {
		if got := registry.FormatChangeKey(at); got <= last || len(got) != 16 {
			t.Errorf("FormatChangeKey(%v) = %s, want one above %s", at, got, last)
		} else {
			last = got
		}
	}
	for _, tt := range []struct {
		key  string
		back time.Duration
		want string
	}{
		{registry.FormatChangeKey(start), time.Minute, registry.FormatChangeKey(start.Add(-time.Minute))},
		{registry.FormatChangeKey(time.UnixMicro(5)), time.Second, ""},
		{"", time.Second, ""},
		{"nonsense", time.Second, ""},
	} {
		if got := registry.ChangeKeyBefore(tt.key, tt.back); got != tt.want {
			t.Errorf("ChangeKeyBefore(%q, %v) = %q, want %q", tt.key, tt.back, got, tt.want)
		}
	}
}

func TestADamagedRegistrationStopsNeitherFeedNorList(t *testing.T) {
	inner, c := memory.New(), newClock()
	r := open(inner, c)
	for n := byte(1); n <= 3; n++ {
		mustPublish(t, r, key(n), draft{})
		c.Advance(time.Second)
	}
	bad := key(2).ID()
	d, err := inner.Doc(t.Context(), registry.RegistrationKey(bad))
	must(t, err)
	other, err := inner.Doc(t.Context(), registry.RegistrationKey(key(3).ID()))
	must(t, err)
	must(t, inner.Commit(t.Context(), store.Put{Key: d.Key, IfVersion: d.Version, WriteID: store.WriteID{9}, Data: other.Data, Index: d.Index}))
	all := follow(t, r, "", 10)
	if len(all) != 3 || all[1].ID != bad || all[1].Visibility != lifecycle.Hidden || all[1].Card != nil || all[1].DocVersion != 3 || all[1].IsListed() {
		t.Errorf("Changes() = %d, the damaged one %+v", len(all), all[1])
	}
	many, err := r.GetMany(t.Context(), []identity.ID{key(3).ID(), bad, key(9).ID(), key(1).ID()})
	if err != nil || len(many) != 4 || many[0].FirstSeq != 3 || many[1].FirstSeq != 0 || many[2].FirstSeq != 0 || many[3].FirstSeq != 1 {
		t.Errorf("GetMany() = %+v, %v", many, err)
	}
	if _, _, err := r.Get(t.Context(), bad); !problem.Is(err, problem.Damaged) {
		t.Errorf("Get() of the damaged one = %v, want damaged", err)
	}
}

func TestEventsAreReadFromAnywhereInTheChain(t *testing.T) {
	r := open(memory.New(), newClock())
	a, b := key(1), key(2)
	visibility := []lifecycle.Visibility{lifecycle.Public, lifecycle.Restricted}
	for n := int64(1); n <= 9; n++ { // a has the odd seqs, b the even ones
		for _, k := range []*identity.Key{a, b} {
			mustPublish(t, r, k, draft{Seq: n, Visibility: visibility[n%2]})
		}
	}
	for _, tt := range []struct {
		after uint64
		n     int
		want  []uint64
	}{
		{0, 3, []uint64{1, 3, 5}}, {1, 2, []uint64{3, 5}}, {2, 2, []uint64{3, 5}}, {14, 10, []uint64{15, 17}},
		{16, 10, []uint64{17}}, {17, 10, nil}, {18, 10, nil}, {1000, 10, nil}, {math.MaxUint64, 10, nil},
	} {
		got, err := r.Events(t.Context(), a.ID(), nil, tt.after, tt.n)
		var seqs []uint64
		for _, l := range got {
			seqs = append(seqs, l.Seq)
			if !l.Verify() {
				t.Errorf("event %d does not verify", l.Seq)
			}
			one, err := r.Event(t.Context(), l.Seq, nil)
			if diff := cmp.Diff(l, one); diff != "" || err != nil {
				t.Errorf("Event(%d) = %v (-log +event):\n%s", l.Seq, err, diff)
			}
		}
		if diff := cmp.Diff(tt.want, seqs); diff != "" || err != nil {
			t.Errorf("Events() after %d = %v (-want +got):\n%s", tt.after, err, diff)
		}
	}
	for _, seq := range []uint64{0, 19, math.MaxInt64, math.MaxUint64} {
		if _, err := r.Event(t.Context(), seq, nil); !problem.Is(err, problem.NotFound) || problem.AsError(err).Text() != fmt.Sprintf("event seq=%d not found", seq) {
			t.Errorf("Event(%d) = %v, want not found", seq, err)
		}
	}
	if got, err := r.Events(t.Context(), key(9).ID(), nil, 0, 10); len(got) != 0 || err != nil {
		t.Errorf("Events() of a stranger = %d, %v, want none", len(got), err)
	}
	for id, want := range map[identity.ID]int64{a.ID(): 10, key(9).ID(): 1} {
		if got, err := r.NextActorSeq(t.Context(), id); got != want || err != nil {
			t.Errorf("NextActorSeq() = %d, %v, want %d", got, err, want)
		}
	}
}
