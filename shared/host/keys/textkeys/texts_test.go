package textkeys

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/local"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
)

const hour = time.Hour

var noon = time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC) // of day 20579

// clock is a time that only tests move.
type clock struct{ ns atomic.Int64 }

func newClock(t time.Time) *clock {
	c := &clock{}
	c.set(t)
	return c
}

func (c *clock) now() time.Time  { return time.Unix(0, c.ns.Load()).UTC() }
func (c *clock) set(t time.Time) { c.ns.Store(t.UnixNano()) }

// faulty is a store that counts, and applies a test's faults to calls.
type faulty struct {
	store.Store
	docs, commits atomic.Int64
	onDoc         func(ctx context.Context) error
	onCommit      func(apply func() error) error
}

func (s *faulty) Doc(ctx context.Context, k store.Key) (store.Doc, error) {
	s.docs.Add(1)
	if s.onDoc != nil {
		if err := s.onDoc(ctx); err != nil {
			return store.Doc{}, err
		}
	}
	return s.Store.Doc(ctx, k)
}

func (s *faulty) Commit(ctx context.Context, writes ...store.Write) error {
	s.commits.Add(1)
	apply := func() error { return s.Store.Commit(ctx, writes...) }
	if s.onCommit != nil {
		return s.onCommit(apply)
	}
	return apply()
}

// fixture is a store and a vault that several hosts share.
type fixture struct {
	t     testing.TB
	store *faulty
	vault custody.Vault
}

func newWorld(t testing.TB) *fixture {
	t.Helper()
	return &fixture{t, &faulty{Store: memory.New()}, newVault(t)}
}

func newVault(t testing.TB) custody.Vault {
	t.Helper()
	v, err := local.Open(filepath.Join(t.TempDir(), "seal.key"), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// host is a host with its clock at noon and empty caches.
func (w *fixture) host() (*Keys, *clock) {
	c := newClock(noon)
	return New(w.store, w.vault, c.now, rand.Reader, 0), c
}

func (w *fixture) doc(sort string) store.Doc {
	w.t.Helper()
	d, err := w.store.Store.Doc(w.t.Context(), store.Key{Partition: "textkey", Sort: sort})
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}

func (w *fixture) sealed(k *Keys, text string) Sealed {
	w.t.Helper()
	s, err := k.Seal(w.t.Context(), []byte("aad"), []byte(text))
	if err != nil {
		w.t.Fatalf("Seal() = %v", err)
	}
	return s
}

func (w *fixture) opens(k *Keys, s Sealed, want string) {
	w.t.Helper()
	got, err := k.Open(w.t.Context(), []byte("aad"), s)
	if err != nil || string(got) != want {
		w.t.Errorf("Open(day %d) = %q, %v, want %q", s.Day, got, err, want)
	}
}

func (w *fixture) gone(k *Keys, s Sealed) {
	w.t.Helper()
	if got, err := k.Open(w.t.Context(), []byte("aad"), s); !errors.Is(err, ErrDestroyed) || got != nil {
		w.t.Errorf("Open(day %d) = %q, %v, want ErrDestroyed", s.Day, got, err)
	}
}

func TestSealedTextOpensOnEveryHost(t *testing.T) {
	w := newWorld(t)
	k, _ := w.host()
	for _, text := range []string{"", "x", strings.Repeat("long ", 10000)} {
		s := w.sealed(k, text)
		if s.Day != 20579 || len(s.Box) != len(text)+Overhead {
			t.Errorf("Seal() = day %d, %d bytes, want 20579, %d", s.Day, len(s.Box), len(text)+Overhead)
		}
		if len(text) > 4 && bytes.Contains(s.Box, []byte(text[:4])) {
			t.Error("the box shows the text")
		}
		w.opens(k, s, text)
		other, _ := w.host()
		w.opens(other, s, text)
	}
	if bytes.Equal(w.sealed(k, "x").Box, w.sealed(k, "x").Box) {
		t.Error("two boxes of one text are equal")
	}
}

func TestAMACIsOfItsDayOnEveryHost(t *testing.T) {
	w := newWorld(t)
	k, clock := w.host()
	other, _ := w.host()
	mac := func(k *Keys, text string) [32]byte {
		t.Helper()
		sum, err := k.MAC(t.Context(), []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	first := mac(k, "192.0.2.1")
	if first != mac(other, "192.0.2.1") || first == mac(k, "192.0.2.2") {
		t.Error("MAC() is not one for each text")
	}
	clock.set(noon.Add(24 * time.Hour))
	if first == mac(k, "192.0.2.1") {
		t.Error("MAC() is the same on the next day")
	}
}

func TestADayHasOneDocumentAndItDoesNotShowTheKey(t *testing.T) {
	w := newWorld(t)
	k, _ := w.host()
	s := w.sealed(k, "x")
	d := w.doc("2026-05-06")
	if d.Version != 1 || len(d.Data) < 2 || d.Data[0] != format || d.Data[1] != stateLive {
		t.Fatalf("document = %+v", d)
	}
	key, err := w.vault.Open(t.Context(), "textkey:2026-05-06", d.Data[2:])
	if err != nil || len(key) != keySize {
		t.Fatalf("the vault opens it to %d bytes, %v", len(key), err)
	}
	if bytes.Contains(d.Data, key) || bytes.Contains(s.Box, key) {
		t.Error("the key is in the open")
	}
	if _, err := w.vault.Open(t.Context(), "textkey:2026-05-07", d.Data[2:]); err == nil {
		t.Error("the key opens as that of another day")
	}
}

func TestOnceWarmNothingIsReadOrMade(t *testing.T) {
	w := newWorld(t)
	k, _ := w.host()
	if err := k.Warm(t.Context()); err != nil {
		t.Fatal(err)
	}
	docs, commits := w.store.docs.Load(), w.store.commits.Load()
	for range 10 {
		if err := k.Warm(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.opens(k, w.sealed(k, "x"), "x")
	}
	if w.store.docs.Load() != docs || w.store.commits.Load() != commits || commits != 1 {
		t.Errorf("%d reads and %d writes once warm, want none", w.store.docs.Load()-docs, w.store.commits.Load()-commits)
	}
}

func TestHostsThatMakeAKeyAtOnceEndWithOne(t *testing.T) {
	w := newWorld(t)
	const hosts = 8
	// All hosts have seen that the key is missing before one of them creates it.
	var seen sync.WaitGroup
	seen.Add(hosts)
	w.store.onCommit = func(apply func() error) error {
		seen.Done()
		seen.Wait()
		return apply()
	}
	keys, boxes := make([]*Keys, hosts), make([]Sealed, hosts)
	var wg sync.WaitGroup
	for i := range hosts {
		keys[i], _ = w.host()
		wg.Go(func() { boxes[i] = w.sealed(keys[i], fmt.Sprint(i)) })
	}
	wg.Wait()
	for _, k := range keys {
		for i, s := range boxes {
			w.opens(k, s, fmt.Sprint(i))
		}
	}
	if d := w.doc("2026-05-06"); d.Version != 1 || w.store.commits.Load() != hosts {
		t.Errorf("document at version %d after %d writes, want 1 after %d", d.Version, w.store.commits.Load(), hosts)
	}
}

func TestCallsThatFindTheDayNewReadItsKeyOnce(t *testing.T) {
	w := newWorld(t)
	k, _ := w.host()
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() { w.opens(k, w.sealed(k, "x"), "x") })
	}
	wg.Wait()
	if w.store.docs.Load() != 1 || w.store.commits.Load() != 1 {
		t.Errorf("%d reads, %d writes, want one of each", w.store.docs.Load(), w.store.commits.Load())
	}
}

func TestAnUnknownOutcomeIsSettledByReading(t *testing.T) {
	lost := fmt.Errorf("connection reset: %w", store.ErrUnavailable)
	for name, tt := range map[string]struct {
		fault   func(apply func() error) error
		commits int64
	}{
		"applied, acknowledgement lost": {func(apply func() error) error { _ = apply(); return lost }, 1},
		"not applied":                   {func(func() error) error { return lost }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			k, _ := w.host()
			w.store.onCommit = tt.fault
			if s, err := k.Seal(t.Context(), nil, nil); !errors.Is(err, store.ErrUnavailable) || s.Box != nil {
				t.Fatalf("Seal() = %v, %v, want store.ErrUnavailable", s, err)
			}
			w.store.onCommit = nil
			s := w.sealed(k, "x")
			other, _ := w.host()
			w.opens(other, s, "x")
			if d := w.doc("2026-05-06"); d.Version != 1 || w.store.commits.Load() != tt.commits {
				t.Errorf("version %d after %d writes, want 1 after %d", d.Version, w.store.commits.Load(), tt.commits)
			}
		})
	}
}

func TestAWriteThatArrivesLateDoesNotReplaceTheKey(t *testing.T) {
	w := newWorld(t)
	k, _ := w.host()
	var late func() error
	w.store.onCommit = func(apply func() error) error {
		late = apply
		return store.ErrUnavailable
	}
	_ = k.Warm(t.Context())
	w.store.onCommit = nil
	s := w.sealed(k, "x")
	var conflict *store.ConflictError
	if err := late(); !errors.As(err, &conflict) {
		t.Errorf("the late write: %v, want a conflict", err)
	}
	other, _ := w.host()
	w.opens(other, s, "x")
}

func TestTheKeyChangesAtMidnightUTC(t *testing.T) {
	w := newWorld(t)
	k, c := w.host()
	midnight := time.Date(2026, 5, 7, 0, 0, 0, 0, time.UTC)
	c.set(midnight.Add(-1))
	before := w.sealed(k, "before")
	c.set(midnight)
	after := w.sealed(k, "after")
	if before.Day != 20579 || after.Day != 20580 {
		t.Errorf("days %d and %d, want 20579 and 20580", before.Day, after.Day)
	}
	w.opens(k, before, "before")
	w.opens(k, after, "after")
	c.set(midnight.Add(-time.Second)) // the clock is set back over midnight
	back := w.sealed(k, "back")
	w.opens(k, after, "after")
	if back.Day != 20579 || w.store.commits.Load() != 2 {
		t.Errorf("day %d after %d writes, want the key of 20579 and no third", back.Day, w.store.commits.Load())
	}
	swapped := Sealed{Day: before.Day, Box: after.Box}
	if _, err := k.Open(t.Context(), []byte("aad"), swapped); !errors.Is(err, ErrDamaged) {
		t.Errorf("Open(under the key of another day) = %v, want ErrDamaged", err)
	}
}

func TestAKeyIsDestroyedTheRetentionAfterItsDayAndNotBefore(t *testing.T) {
	w := newWorld(t)
	k, c := w.host()
	s := w.sealed(k, "x")
	end := time.Date(2026, 5, 8, 0, 0, 0, 0, time.UTC) // a day after the end of the 6th
	c.set(end.Add(-1))
	if n, err := k.Sweep(t.Context()); n != 0 || err != nil {
		t.Fatalf("Sweep(a nanosecond early) = %d, %v, want 0", n, err)
	}
	w.opens(k, s, "x")
	c.set(end)
	w.gone(k, s) // only by the clock, swept or not
	fresh, fc := w.host()
	fc.set(end)
	w.gone(fresh, s)
	if d := w.doc("2026-05-06"); d.Data[1] != stateLive {
		t.Fatal("the key was destroyed without a sweep")
	}
	w.warm(k)
	if n, err := k.Sweep(t.Context()); n != 1 || err != nil {
		t.Fatalf("Sweep() = %d, %v, want 1", n, err)
	}
	if d := w.doc("2026-05-06"); !bytes.Equal(d.Data, []byte{format, stateDestroyed}) {
		t.Errorf("after the sweep the document is %x, want a tombstone", d.Data)
	}
	w.gone(k, s)
	if n, err := k.Sweep(t.Context()); n != 0 || err != nil {
		t.Errorf("a second Sweep() = %d, %v, want 0", n, err)
	}
	if len(k.keys) != 1 {
		t.Errorf("%d keys in memory after the sweep, want that of the day", len(k.keys))
	}
}

func TestALongerRetentionIsKeptAndAShorterIsNot(t *testing.T) {
	for retention, want := range map[time.Duration]time.Duration{
		-hour: 24 * hour, 0: 24 * hour, hour: 24 * hour, 24 * hour: 24 * hour, 60 * hour: 60 * hour,
	} {
		w := newWorld(t)
		c := newClock(noon)
		k := New(w.store, w.vault, c.now, rand.Reader, retention)
		s := w.sealed(k, "x")
		c.set(time.Date(2026, 5, 7, 0, 0, 0, 0, time.UTC).Add(want - 1))
		w.opens(k, s, "x")
		c.set(c.now().Add(1))
		w.gone(k, s)
	}
}

func TestADestroyedKeyIsNeverMadeAgainEvenByAWrongClock(t *testing.T) {
	w := newWorld(t)
	k, c := w.host()
	s := w.sealed(k, "x")
	c.set(noon.Add(48 * hour))
	w.warm(k)
	if n, err := k.Sweep(t.Context()); n != 1 || err != nil {
		t.Fatalf("Sweep() = %d, %v, want 1", n, err)
	}
	commits := w.store.commits.Load()
	slow, _ := w.host() // its clock still shows the 6th
	for _, op := range map[string]func() error{
		"Warm": func() error { return slow.Warm(t.Context()) },
		"Seal": func() error { _, err := slow.Seal(t.Context(), nil, []byte("y")); return err },
	} {
		if err := op(); !problem.Is(err, problem.Unavailable) || !strings.Contains(err.Error(), "2026-05-06") {
			t.Errorf("on a day whose key is destroyed: %v, want unavailable", err)
		}
	}
	w.gone(slow, s)
	if d := w.doc("2026-05-06"); d.Data[1] != stateDestroyed || w.store.commits.Load() != commits {
		t.Errorf("the tombstone became %x after %d more writes", d.Data, w.store.commits.Load()-commits)
	}
}

func TestSweepersAtOnceDestroyEachKeyOnce(t *testing.T) {
	w := newWorld(t)
	k, c := w.host()
	days := 2*store.MaxPage + 7
	for i := range days {
		c.set(noon.Add(time.Duration(i) * 24 * hour))
		if err := k.Warm(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var total atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		other, oc := w.host()
		oc.set(c.now())
		wg.Go(func() {
			n, err := other.Sweep(t.Context())
			if err != nil {
				t.Errorf("Sweep() = %v", err)
			}
			total.Add(int64(n))
		})
	}
	wg.Wait()
	if want := int64(days - 2); total.Load() != want { // today's and yesterday's are still there
		t.Errorf("destroyed %d keys, want %d", total.Load(), want)
	}
	if len(k.keys) > maxCachedKeys {
		t.Errorf("%d keys in memory, want at most %d", len(k.keys), maxCachedKeys)
	}
}

func TestASweepThatFailsHalfWayIsDoneAgain(t *testing.T) {
	w := newWorld(t)
	k, c := w.host()
	for i := range 3 {
		c.set(noon.Add(time.Duration(i) * 24 * hour))
		if err := k.Warm(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	c.set(noon.Add(9 * 24 * hour))
	w.warm(k)
	left := 1
	w.store.onCommit = func(apply func() error) error {
		if left--; left < 0 {
			return store.ErrUnavailable
		}
		return apply()
	}
	if n, err := k.Sweep(t.Context()); n != 1 || !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Sweep() = %d, %v, want 1 and store.ErrUnavailable", n, err)
	}
	w.store.onCommit = nil
	if n, err := k.Sweep(t.Context()); n != 2 || err != nil {
		t.Errorf("the next Sweep() = %d, %v, want 2", n, err)
	}
}

func TestAPastDaysKeyIsReadOnceAndAnAbsentOneEveryTime(t *testing.T) {
	w := newWorld(t)
	k, _ := w.host()
	s := w.sealed(k, "x")
	other, c := w.host()
	c.set(noon.Add(24 * hour))
	reads := w.store.docs.Load()
	for range 3 {
		w.opens(other, s, "x")
	}
	if got := w.store.docs.Load() - reads; got != 1 {
		t.Errorf("%d reads, want 1", got)
	}
	absent := Sealed{Day: s.Day + 5, Box: s.Box} // another host's clock is ahead
	w.gone(other, absent)
	ahead, ac := w.host()
	ac.set(noon.Add(5 * 24 * hour))
	early := w.sealed(ahead, "early")
	w.opens(other, early, "early")
	if d := w.doc("2026-05-07"); d.Version != 0 {
		t.Error("opening made a key")
	}
}

func TestKeysInMemoryAreBounded(t *testing.T) {
	w := newWorld(t)
	c := newClock(noon)
	k := New(w.store, w.vault, c.now, rand.Reader, 1000*24*hour)
	var texts []Sealed
	for i := range maxCachedKeys + 10 {
		c.set(noon.Add(time.Duration(i) * 24 * hour))
		texts = append(texts, w.sealed(k, fmt.Sprint(i)))
	}
	for i, s := range texts {
		w.opens(k, s, fmt.Sprint(i))
	}
	reads := w.store.docs.Load()
	w.opens(k, w.sealed(k, "today"), "today")
	if len(k.keys) > maxCachedKeys || w.store.docs.Load() != reads {
		t.Errorf("%d keys in memory, want at most %d with today's among them", len(k.keys), maxCachedKeys)
	}
}

func TestATextThatWasTouchedIsDamaged(t *testing.T) {
	w := newWorld(t)
	k, _ := w.host()
	s := w.sealed(k, "text")
	damaged := func(aad string, s Sealed) {
		t.Helper()
		got, err := k.Open(t.Context(), []byte(aad), s)
		if !errors.Is(err, ErrDamaged) || !problem.Is(err, problem.Damaged) || got != nil {
			t.Errorf("Open(%q, %x) = %q, %v, want ErrDamaged", aad, s.Box, got, err)
		}
	}
	for i := range s.Box {
		broken := bytes.Clone(s.Box)
		broken[i] ^= 0x80
		damaged("aad", Sealed{s.Day, broken})
		damaged("aad", Sealed{s.Day, s.Box[:i]})
	}
	damaged("aad", Sealed{s.Day, append(bytes.Clone(s.Box), 0)})
	damaged("", s)
	damaged("aad ", s)
	damaged("aad", Sealed{lastDay + 1, s.Box})
	damaged("aad", Sealed{1<<32 - 1, s.Box})
	w.opens(k, s, "text")
}

func TestADocumentThatIsDamagedIsNeitherAKeyNorReplaced(t *testing.T) {
	tests := map[string]func(w *fixture, data []byte) []byte{
		"empty":           func(*fixture, []byte) []byte { return nil },
		"a later format":  func(_ *fixture, d []byte) []byte { d[0] = 9; return d },
		"another state":   func(_ *fixture, d []byte) []byte { d[1] = 9; return d },
		"a flipped byte":  func(_ *fixture, d []byte) []byte { d[len(d)-1] ^= 1; return d },
		"no box":          func(_ *fixture, d []byte) []byte { return d[:2] },
		"another vault's": func(w *fixture, d []byte) []byte { return reseal(w.t, newVault(w.t), make([]byte, keySize), d) },
		"a short key":     func(w *fixture, d []byte) []byte { return reseal(w.t, w.vault, make([]byte, 16), d) },
	}
	for name, damage := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.t = t
			first, _ := w.host()
			s := w.sealed(first, "x")
			d := w.doc("2026-05-06")
			data := damage(w, d.Data)
			if err := w.store.Store.Commit(t.Context(), store.Put{Key: d.Key, IfVersion: 1, WriteID: store.WriteID{1}, Data: data}); err != nil {
				t.Fatal(err)
			}
			k, _ := w.host()
			if err := k.Warm(t.Context()); !problem.Is(err, problem.Damaged) {
				t.Errorf("Warm() = %v, want damaged", err)
			}
			if _, err := k.Open(t.Context(), []byte("aad"), s); !problem.Is(err, problem.Damaged) || errors.Is(err, ErrDestroyed) {
				t.Errorf("Open() = %v, want damaged", err)
			}
			if now := w.doc("2026-05-06"); now.Version != 2 || !bytes.Equal(now.Data, data) {
				t.Errorf("the document became %x", now.Data)
			}
		})
	}
}

func reseal(t testing.TB, v custody.Vault, key, data []byte) []byte {
	t.Helper()
	box, err := v.Seal(t.Context(), "textkey:2026-05-06", key)
	if err != nil {
		t.Fatal(err)
	}
	return append(data[:2:2], box...)
}

func TestAStoreOutOfReachIsSaidAsSuch(t *testing.T) {
	w := newWorld(t)
	k, c := w.host()
	s := w.sealed(k, "x")
	if err := w.store.Store.Close(); err != nil {
		t.Fatal(err)
	}
	w.opens(k, s, "x") // the key is in memory
	c.set(noon.Add(24 * hour))
	cold, _ := w.host()
	for name, op := range map[string]func() error{
		"Warm":  func() error { return k.Warm(t.Context()) },
		"Seal":  func() error { _, err := k.Seal(t.Context(), nil, nil); return err },
		"Open":  func() error { _, err := cold.Open(t.Context(), []byte("aad"), s); return err },
		"Sweep": func() error { _, err := k.Sweep(t.Context()); return err },
	} {
		if err := op(); !errors.Is(err, store.ErrUnavailable) || errors.Is(err, ErrDestroyed) {
			t.Errorf("%s() = %v, want store.ErrUnavailable", name, err)
		}
	}
}

// away is a vault that cannot be reached.
type away struct{}

var errAway = problem.New(problem.Unavailable, "key service away")

func (away) Seal(context.Context, string, []byte) ([]byte, error) { return nil, errAway }
func (away) Open(context.Context, string, []byte) ([]byte, error) { return nil, errAway }

func TestAVaultOutOfReachIsNotDamage(t *testing.T) {
	w := newWorld(t)
	other, _ := w.host()
	k := New(w.store, away{}, newClock(noon).now, rand.Reader, 0)
	if err := k.Warm(t.Context()); !problem.Is(err, problem.Unavailable) || w.store.commits.Load() != 0 {
		t.Errorf("Warm(no key) = %v after %d writes, want unavailable and none", err, w.store.commits.Load())
	}
	s := w.sealed(other, "x")
	if _, err := k.Open(t.Context(), []byte("aad"), s); !problem.Is(err, problem.Unavailable) {
		t.Errorf("Open() = %v, want unavailable", err)
	}
}

func TestWaitForAKeyEndsWithTheCallersDeadline(t *testing.T) {
	w := newWorld(t)
	k, _ := w.host()
	reading, goOn := make(chan struct{}), make(chan struct{})
	w.store.onDoc = func(context.Context) error {
		close(reading)
		<-goOn
		return nil
	}
	var wg sync.WaitGroup
	wg.Go(func() { w.opens(k, w.sealed(k, "x"), "x") })
	<-reading
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := k.Warm(ctx); !errors.Is(err, context.Canceled) || !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Warm(canceled) = %v, want store.ErrUnavailable", err)
	}
	close(goOn)
	wg.Wait()
}

func TestWithoutRandomnessNothingIsSealedOrMade(t *testing.T) {
	for name, r := range map[string]io.Reader{
		"none at all":        iotest.ErrReader(io.ErrUnexpectedEOF),
		"a key, no attempt":  bytes.NewReader(make([]byte, keySize)),
		"a key, no nonce":    bytes.NewReader(bytes.Repeat([]byte{1}, keySize+16)),
		"half of a key only": bytes.NewReader(make([]byte, keySize/2)),
	} {
		w := newWorld(t)
		k := New(w.store, w.vault, newClock(noon).now, r, 0)
		if s, err := k.Seal(t.Context(), nil, []byte("x")); !problem.Is(err, problem.Unavailable) || s.Box != nil {
			t.Errorf("%s: Seal() = %v, %v, want unavailable", name, s, err)
		}
	}
}

func TestAClockThatShowsNoDayIsRefused(t *testing.T) {
	w := newWorld(t)
	for _, at := range []time.Time{{}, time.Unix(-1, 0), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)} {
		k := New(w.store, w.vault, func() time.Time { return at }, rand.Reader, 0)
		if err := k.Warm(t.Context()); !problem.Is(err, problem.Unavailable) {
			t.Errorf("Warm() at %v = %v, want unavailable", at, err)
		}
	}
	last := New(w.store, w.vault, func() time.Time { return time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC) }, rand.Reader, 0)
	if s := w.sealed(last, "x"); s.Day != lastDay {
		t.Errorf("day of 9999-12-31 = %d, want %d", s.Day, lastDay)
	}
}

func TestKeysAreNotPrinted(t *testing.T) {
	w := newWorld(t)
	k := New(w.store, w.vault, newClock(noon).now, constant(0xab), 0)
	s := w.sealed(k, "a private text")
	var out strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d"} {
		fmt.Fprintf(&out, verb+"\n", k)
		fmt.Fprintf(&out, verb+"\n", struct{ K *Keys }{k})
	}
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "keys", k)
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "keys", k)
	s.Box[20] ^= 1
	_, err := k.Open(t.Context(), []byte("aad"), s)
	fmt.Fprintf(&out, "%+v %#v", err, err)
	for _, trace := range []string{"abab", "ABAB", "171 171", "0xab", `\xab`, "private"} {
		if strings.Contains(out.String(), trace) {
			t.Errorf("printing shows %q:\n%s", trace, out.String())
		}
	}
}

// constant is a source without randomness.
type constant byte

func (c constant) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(c)
	}
	return len(p), nil
}

func TestDaysAndTheirNames(t *testing.T) {
	type row struct {
		Day  uint32
		Sort string
	}
	got := map[string]row{}
	for _, at := range []string{"1970-01-01T00:00:00Z", "2026-05-06T23:59:59Z", "2026-05-07T00:00:00Z", "2026-05-07T01:00:00+02:00"} {
		moment, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		day, err := dayOf(moment)
		if err != nil {
			t.Fatal(err)
		}
		got[at] = row{day, formatDay(day)}
	}
	want := map[string]row{
		"1970-01-01T00:00:00Z":      {0, "1970-01-01"},
		"2026-05-06T23:59:59Z":      {20579, "2026-05-06"},
		"2026-05-07T00:00:00Z":      {20580, "2026-05-07"},
		"2026-05-07T01:00:00+02:00": {20579, "2026-05-06"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("days (-want +got):\n%s", diff)
	}
}

// BenchmarkSealAndOpen measures the cost of a call's text of 500 bytes, and for
// comparison the cost of only AES-GCM, a nonce and the two buffers.
func BenchmarkSealAndOpen(b *testing.B) {
	w := newWorld(b)
	k := New(w.store, w.vault, time.Now, rand.Reader, 0)
	if err := k.Warm(b.Context()); err != nil {
		b.Fatal(err)
	}
	aad, plain := make([]byte, 100), make([]byte, 500)
	b.Run("texts", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s, err := k.Seal(b.Context(), aad, plain)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := k.Open(b.Context(), aad, s); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("bare", func(b *testing.B) {
		aead, err := newDayKey(make([]byte, keySize))
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			box := make([]byte, nonceSize, len(plain)+Overhead)
			_, _ = rand.Read(box)
			box = aead.Seal(box, box, plain, aad)
			if _, err := aead.Open(nil, box[:nonceSize], box[nonceSize:], aad); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func (w *fixture) warm(k *Keys) {
	w.t.Helper()
	if err := k.Warm(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// A clock that is fast destroys neither today's key nor yesterday's, whose texts are still
// promised.
func TestAClockThatIsAheadDestroysNoKey(t *testing.T) {
	w := newWorld(t)
	k, c := w.host()
	yesterday := w.sealed(k, "yesterday")
	c.set(noon.Add(24 * hour))
	today := w.sealed(k, "today")
	ahead, ac := w.host()
	for _, by := range []time.Duration{48 * hour, 72 * hour, 24 * 365 * hour} {
		ac.set(c.now().Add(by))
		n, err := ahead.Sweep(t.Context())
		var leap *ClockLeapError
		if n != 0 || !errors.As(err, &leap) || leap.Newest != "2026-05-07" {
			t.Errorf("Sweep() by a clock %v ahead = %d, %v; want a refusal", by, n, err)
		}
	}
	cold, cc := w.host()
	cc.set(c.now())
	w.opens(cold, yesterday, "yesterday")
	w.opens(cold, today, "today")
	// After a key of the later day was created, the older keys are destroyed.
	c.set(noon.Add(5 * 24 * hour))
	w.warm(k)
	if n, err := k.Sweep(t.Context()); n != 2 || err != nil {
		t.Errorf("Sweep() = %d, %v, want 2", n, err)
	}
	empty := newWorld(t)
	fresh, _ := empty.host()
	if n, err := fresh.Sweep(t.Context()); n != 0 || err != nil {
		t.Errorf("Sweep() of nothing = %d, %v", n, err)
	}
}

// The key of the next day exists before the day starts.
func TestTheNextDaysKeyIsMadeAhead(t *testing.T) {
	w := newWorld(t)
	k, c := w.host()
	w.warm(k)
	commits := func() int64 { return w.store.commits.Load() }
	before := commits()
	midnight := time.Date(2026, 5, 7, 0, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		at   time.Time
		want int64
	}{
		{noon, 0},
		{midnight.Add(-6*hour - 1), 0},
		{midnight.Add(-6 * hour), 1},
		{midnight.Add(-hour), 1},
	} {
		c.set(tt.at)
		if err := k.CreateNext(t.Context()); err != nil || commits()-before != tt.want {
			t.Errorf("Ahead() at %v = %v, %d keys made, want %d", tt.at, err, commits()-before, tt.want)
		}
	}
	// Another process loads the key too. While the store accepts no writes, the process tries once
	// a minute.
	other, oc := w.host()
	w.store.onCommit = func(func() error) error { return store.ErrUnavailable }
	oc.set(midnight.Add(18 * hour))
	tries := func() int64 { return w.store.docs.Load() }
	count := tries()
	for i, want := range []int64{1, 1, 2} {
		oc.set(midnight.Add(18*hour + time.Duration(i)*40*time.Second))
		_ = other.CreateNext(t.Context())
		if got := tries() - count; got != want {
			t.Errorf("try %d: the store was read %d times, want %d", i+1, got, want)
		}
	}
	// A store that accepts no writes at midnight does not block calls.
	w.store.onCommit = func(func() error) error { return store.ErrUnavailable }
	c.set(midnight)
	w.warm(k)
}

// The MAC key differs from the key of texts, because it is derived under its own label.
func TestTheKeyOfMACsIsDerivedUnderItsLabel(t *testing.T) {
	key := bytes.Repeat([]byte{7}, keySize)
	day, err := newDayKey(key)
	if err != nil {
		t.Fatal(err)
	}
	want := hmac.New(sha256.New, key)
	want.Write([]byte("vacancy:day-mac:v1"))
	if !bytes.Equal(day.mac, want.Sum(nil)) {
		t.Errorf("the key of MACs is %x, want that of the label", day.mac)
	}
}
