package spawning_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/family/spawning"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func keyOf(t testing.TB, n byte) *identity.Key {
	t.Helper()
	key, err := identity.KeyFromSeed(bytes.Repeat([]byte{n}, identity.Size))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// asked returns a request of a parent with a nonce that ends in n.
func asked(t testing.TB, key *identity.Key, n int, name string, at time.Time) *composite.SpawnRequest {
	t.Helper()
	r := &composite.SpawnRequest{ParentID: key.ID(), BirthPath: "D2", Name: name, Nonce: fmt.Sprintf("%032x", n), Time: at}
	if err := r.Sign(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	return r
}

// desk accepts a host's requests with a store and a clock that tests set.
func desk(s store.Store) (*spawning.Requests, *time.Time) {
	now := start
	return &spawning.Requests{Store: s, Now: func() time.Time { return now }, Rand: rand.Reader,
		Wait: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }}, &now
}

func TestARequestIsOfNowAndOfItsParent(t *testing.T) {
	q, _ := desk(memory.New())
	parent := keyOf(t, 1)
	forged := asked(t, keyOf(t, 2), 1, "child", start)
	forged.ParentID = parent.ID()
	changed := asked(t, parent, 1, "child", start)
	changed.Name = "another"
	for name, c := range map[string]struct {
		r    *composite.SpawnRequest
		want problem.Kind
		ok   bool
	}{
		"now":               {asked(t, parent, 1, "child", start), 0, true},
		"300 s ago":         {asked(t, parent, 1, "child", start.Add(-spawning.MaxSkew)), 0, true},
		"in 300 s":          {asked(t, parent, 1, "child", start.Add(spawning.MaxSkew)), 0, true},
		"longer ago":        {asked(t, parent, 1, "child", start.Add(-spawning.MaxSkew-time.Microsecond)), problem.ClockSkew, false},
		"later":             {asked(t, parent, 1, "child", start.Add(spawning.MaxSkew+time.Microsecond)), problem.ClockSkew, false},
		"of somebody else":  {forged, problem.BadSignature, false},
		"signed for others": {changed, problem.BadSignature, false},
	} {
		if err := q.Check(c.r); c.ok != (err == nil) || !c.ok && !problem.Is(err, c.want) {
			t.Errorf("%s: Check() = %v, want ok %v, %v", name, err, c.ok, c.want)
		}
	}
}

func TestTheSameRequestIsTakenOnceAndItsNonceStandsForNoOther(t *testing.T) {
	q, now := desk(memory.New())
	parent := keyOf(t, 1)
	r := asked(t, parent, 1, "child", start)
	for range spawning.MaxRequests + 2 { // repeated, it does not count again
		if err := q.Accept(t.Context(), r, nobody); err != nil {
			t.Fatalf("Take() = %v, want nil", err)
		}
	}
	if err := q.Accept(t.Context(), asked(t, parent, 1, "another", start), nobody); !problem.Is(err, problem.Replay) {
		t.Errorf("Take() of another with its nonce = %v, want Replay", err)
	}
	// A request passes Check for a shorter time than its nonce is stored.
	*now = start.Add(2*spawning.MaxSkew - time.Second)
	late := asked(t, parent, 1, "another", *now)
	if err := q.Accept(t.Context(), late, nobody); !problem.Is(err, problem.Replay) {
		t.Errorf("Take() of another with its nonce, later = %v, want Replay", err)
	}
	if err := q.Accept(t.Context(), asked(t, keyOf(t, 2), 1, "child", *now), nobody); err != nil {
		t.Errorf("Take() of another parent's = %v, want nil", err)
	}
}

func TestAParentAsksForTenChildrenAnHour(t *testing.T) {
	q, now := desk(memory.New())
	parent := keyOf(t, 1)
	for i := range spawning.MaxRequests {
		if err := q.Accept(t.Context(), asked(t, parent, i, fmt.Sprint("child", i), start), nobody); err != nil {
			t.Fatal(err)
		}
	}
	eleventh := asked(t, parent, spawning.MaxRequests, "more", start)
	if err := q.Accept(t.Context(), eleventh, nobody); !problem.Is(err, problem.TooManyRequests) {
		t.Errorf("Take() of the eleventh = %v, want TooMany", err)
	}
	*now = start.Add(spawning.Window)
	if err := q.Accept(t.Context(), asked(t, parent, spawning.MaxRequests, "more", *now), nobody); err != nil {
		t.Errorf("Take() an hour later = %v, want nil", err)
	}
}

func TestManyAtOnceTakeNoMoreThanThereIs(t *testing.T) {
	q, _ := desk(memory.New())
	q.Wait = nil
	parent := keyOf(t, 1)
	var group sync.WaitGroup
	errs := make([]error, 2*spawning.MaxRequests)
	for i := range errs {
		r := asked(t, parent, i, fmt.Sprint("child", i), start)
		group.Go(func() { errs[i] = q.Accept(t.Context(), r, nobody) })
	}
	group.Wait()
	taken := 0
	for _, err := range errs {
		switch {
		case err == nil:
			taken++
		case !problem.Is(err, problem.TooManyRequests):
			t.Errorf("Take() = %v, want nil or TooMany", err)
		}
	}
	if taken != spawning.MaxRequests {
		t.Errorf("Take() took %d of %d, want %d", taken, len(errs), spawning.MaxRequests)
	}
}

// nobody is a Gone for a host where all requested children exist.
func nobody(context.Context, string) (bool, error) { return false, nil }

// fill makes parent request n children, ten per hour. It returns the time one hour after the last
// request.
func fill(t *testing.T, q *spawning.Requests, now *time.Time, parent *identity.Key, n int) {
	t.Helper()
	for i := range n {
		if i%spawning.MaxRequests == 0 {
			*now = now.Add(spawning.Window)
		}
		if err := q.Accept(t.Context(), asked(t, parent, i, fmt.Sprint("child", i), *now), nobody); err != nil {
			t.Fatal(err)
		}
	}
	*now = now.Add(spawning.Window)
}

func TestAParentHasAHundredChildrenByItsRequests(t *testing.T) {
	q, now := desk(memory.New())
	parent, looks := keyOf(t, 1), 0
	fill(t, q, now, parent, spawning.MaxChildren)
	over := ""
	gone := func(_ context.Context, name string) (bool, error) {
		looks++
		return name == over, nil
	}
	ask := func(n int, name string) error { return q.Accept(t.Context(), asked(t, parent, n, name, *now), gone) }
	for range 3 {
		if err := ask(200, "more"); !problem.Is(err, problem.TooManyRequests) {
			t.Errorf("Take() of one too many = %v, want TooMany", err)
		}
	}
	if looks != spawning.MaxChildren {
		t.Errorf("Take() looked for %d children within a minute, want %d", looks, spawning.MaxChildren)
	}
	if err := ask(201, "child7"); err != nil {
		t.Errorf("Take() of one that there is = %v, want nil", err)
	}
	if err := q.Accept(t.Context(), asked(t, keyOf(t, 2), 200, "more", *now), nobody); err != nil {
		t.Errorf("Take() of another parent's = %v, want nil", err)
	}
	// The operator deletes one child, which frees one place.
	over, *now = "child5", now.Add(spawning.RecountInterval)
	if err := ask(202, "more"); err != nil {
		t.Errorf("Take() in the place of one that is gone = %v, want nil", err)
	}
	*now = now.Add(spawning.RecountInterval)
	if err := ask(203, "another"); !problem.Is(err, problem.TooManyRequests) {
		t.Errorf("Take() of one too many again = %v, want TooMany", err)
	}
}

// A child that was just requested may not exist yet.
func TestAChildThatIsAboutToBeBornKeepsItsPlace(t *testing.T) {
	q, now := desk(memory.New())
	parent, looks := keyOf(t, 1), 0
	const old = spawning.MaxChildren - spawning.MaxRequests + 1
	fill(t, q, now, parent, old)
	for i := old; i < spawning.MaxChildren; i++ {
		if err := q.Accept(t.Context(), asked(t, parent, i, fmt.Sprint("child", i), *now), nobody); err != nil {
			t.Fatal(err)
		}
	}
	err := q.Accept(t.Context(), asked(t, parent, 200, "more", *now), func(context.Context, string) (bool, error) {
		looks++
		return false, nil
	})
	if !problem.Is(err, problem.TooManyRequests) || looks != old {
		t.Errorf("Take() of one too many = %v after %d looks, want TooMany after %d", err, looks, old)
	}
}

func TestUnknownStateOfAChildKeepsItsPlace(t *testing.T) {
	q, now := desk(memory.New())
	parent, away := keyOf(t, 1), problem.New(problem.Unavailable, "away")
	fill(t, q, now, parent, spawning.MaxChildren)
	more := asked(t, parent, 200, "more", *now)
	if err := q.Accept(t.Context(), more, func(context.Context, string) (bool, error) { return true, away }); !problem.Is(err, problem.Unavailable) {
		t.Errorf("Take() = %v, want Unavailable", err)
	}
	if err := q.Accept(t.Context(), more, func(context.Context, string) (bool, error) { return true, nil }); err != nil {
		t.Errorf("Take() of the same later = %v, want nil", err)
	}
}

// broken is a store that fails.
type broken struct {
	store.Store
	doc store.Doc
	err error
}

func (b broken) Doc(context.Context, store.Key) (store.Doc, error) { return b.doc, b.err }
func (b broken) Commit(context.Context, ...store.Write) error      { return store.ErrUnavailable }

func TestAFaultIsNoRefusal(t *testing.T) {
	parent := keyOf(t, 1)
	r := asked(t, parent, 1, "child", start)
	for name, c := range map[string]struct {
		store broken
		want  problem.Kind
	}{
		"no read":        {broken{err: errors.New("away")}, problem.Unavailable},
		"no write":       {broken{}, problem.Unavailable},
		"another's data": {broken{doc: store.Doc{Version: 1, Data: []byte("{")}}, problem.Damaged},
		"a later format": {broken{doc: store.Doc{Version: 1, Data: []byte(`{"format":2}`)}}, problem.Damaged},
	} {
		q, _ := desk(c.store)
		if err := q.Accept(t.Context(), r, nobody); !problem.Is(err, c.want) {
			t.Errorf("%s: Take() = %v, want %v", name, err, c.want)
		}
	}
}
