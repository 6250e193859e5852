package signingkey_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/local"
	"github.com/vacancy-host/vacancy/shared/host/keys/signingkey"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/store/storetest"
	"github.com/vacancy-host/vacancy/shared/vacant/certificate"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// world is the store of a host, and the instances over it.
type world struct {
	*testing.T
	store store.Store
	vault custody.Vault
	host  *identity.Key

	mu  sync.Mutex
	now time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	vault, err := local.FromHex(strings.Repeat("5a", 32), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, store: memory.New(), vault: vault, now: time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)}
	if w.host, err = identity.NewKey(rand.Reader); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// reader returns an instance without the host's identity.
func (w *world) reader() *signingkey.Keys {
	return signingkey.New(signingkey.Config{Store: w.store, Vault: w.vault, Now: w.clock, Rand: rand.Reader})
}

// maker returns an instance with the host's identity.
func (w *world) maker(s store.Store) *signingkey.Keys {
	return signingkey.New(signingkey.Config{Store: s, Vault: w.vault, Now: w.clock, Rand: rand.Reader,
		Identity: func(context.Context) (identity.Signer, error) { return w.host, nil }})
}

func (w *world) renew() {
	w.Helper()
	if err := w.maker(w.store).RenewIfDue(w.Context()); err != nil {
		w.Fatal(err)
	}
}

// signer returns the key for a time and checks that it signs and that its certificate covers the
// time.
func (w *world) signer(k *signingkey.Keys, at time.Time) certificate.Certificate {
	w.Helper()
	s, err := k.Signer(w.Context(), at)
	if err != nil {
		w.Fatal(err)
	}
	if err := s.Certificate.Verify(w.host.ID(), at); err != nil {
		w.Fatalf("the certificate for %s: %v", at, err)
	}
	sig, err := s.Sign(w.Context(), []byte("x"))
	if err != nil || !identity.Verify(s.Certificate.Key, []byte("x"), sig) {
		w.Fatalf("the key does not sign: %v", err)
	}
	return s.Certificate
}

// Before the host has a key, an instance without the identity creates none and returns Unavailable.
// The first key signs at once, also for bookings that waited for it.
func TestOnlyTheHostsIdentityMakesAKey(t *testing.T) {
	w := newWorld(t)
	reader, waiting := w.reader(), w.now
	for range 2 {
		if _, err := reader.Signer(t.Context(), w.now); !problem.Is(err, problem.Unavailable) {
			t.Fatalf("Signer() = %v, want unavailable", err)
		}
	}
	if d, err := w.store.Doc(t.Context(), signingkey.DocKey()); err != nil || d.Version != 0 {
		t.Fatalf("the document is %+v, %v", d, err)
	}
	w.pass(5 * time.Minute)
	w.renew()
	if now, before := w.signer(reader, w.now), w.signer(reader, waiting); now != before {
		t.Errorf("a booking that waited is signed by %s, want %s", before.Key.Short(), now.Key.Short())
	}
	if same := w.signer(w.maker(w.store), w.now); same != w.signer(reader, w.now) {
		t.Error("the maker has another key")
	}
}

// Over a year, all instances use the same key for a given time, regardless of the age of their
// caches, and also when a statement is signed again later.
func TestAllInstancesHaveOneKeyForATime(t *testing.T) {
	w := newWorld(t)
	w.renew()
	cached, keys := w.reader(), map[identity.ID]int{}
	type signed struct {
		at  time.Time
		key identity.ID
	}
	var earlier []signed
	for day := range 365 {
		w.pass(24*time.Hour - 3*time.Minute)
		w.signer(cached, w.now) // a fresh cache before the maker runs
		w.renew()
		w.pass(3 * time.Minute)
		one := w.signer(cached, w.now)
		if other := w.signer(w.reader(), w.now); other != one {
			t.Fatalf("day %d: instances sign by %s and %s", day, one.Key.Short(), other.Key.Short())
		}
		keys[one.Key]++
		earlier = append(earlier, signed{w.now, one.Key})
		for _, s := range earlier[max(0, len(earlier)-3):] {
			if again := w.signer(w.reader(), s.at); again.Key != s.key {
				t.Fatalf("what was signed at %s by %s is signed again by %s", s.at, s.key.Short(), again.Key.Short())
			}
		}
	}
	for key, days := range keys {
		if days > int(signingkey.Lifetime/(24*time.Hour)) {
			t.Errorf("%s signed for %d days", key.Short(), days)
		}
	}
	if len(keys) < 20 || len(keys) > 26 {
		t.Errorf("%d keys in a year, want one for each half of a lifetime", len(keys))
	}
}

// After a long pause, an instance creates a key whose validity starts at the end of the last key.
func TestAKeyThatComesLateLeavesNoGapAndNoOverlap(t *testing.T) {
	for _, tt := range []struct {
		name  string
		after time.Duration // of the first key, which begins a day earlier
	}{
		{"an hour before the end", signingkey.Lifetime - 25*time.Hour},
		{"an hour after the end", signingkey.Lifetime - 23*time.Hour},
		{"long after the end", 3 * signingkey.Lifetime},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.renew()
			first := w.signer(w.reader(), w.now)
			_, until, _ := first.Validity()
			w.pass(tt.after)
			w.renew()
			if w.now.Before(until) {
				if got := w.signer(w.reader(), until.Add(-time.Second)); got != first {
					t.Error("the last second of the first key has another")
				}
				w.pass(until.Sub(w.now))
			}
			second := w.signer(w.reader(), w.now)
			from, _, _ := second.Validity()
			if second == first || from.Before(until) || from.After(w.now) {
				t.Errorf("the next key is %s from %s, want another from %s on", second.Key.Short(), from, until)
			}
		})
	}
}

// A process with the identity creates keys when it signs, whatever its clock shows.
func TestAHostOfOneProcessNeedsNoJob(t *testing.T) {
	w := newWorld(t)
	k := w.maker(w.store)
	for _, by := range []time.Duration{0, 20 * 24 * time.Hour, 400 * 24 * time.Hour, -900 * 24 * time.Hour, 2000 * 24 * time.Hour, -time.Hour} {
		w.pass(by)
		w.signer(k, w.now)
		w.signer(w.reader(), w.now)
	}
}

// Of concurrent creators, one stores its key, and all use this key.
func TestMakersAtOnceMakeOneKey(t *testing.T) {
	w := newWorld(t)
	const makers = 16
	got := make([]certificate.Certificate, makers)
	var all sync.WaitGroup
	for i := range makers {
		all.Go(func() {
			if s, err := w.maker(w.store).Signer(t.Context(), w.clock()); err != nil {
				t.Errorf("Signer() = %v", err)
			} else {
				got[i] = s.Certificate
			}
		})
	}
	all.Wait()
	for _, c := range got {
		if c != got[0] {
			t.Fatalf("makers at once have the keys %s and %s", got[0].Key.Short(), c.Key.Short())
		}
	}
}

// Each store call of a renewal fails in each way. An instance never changes the key for a time, and
// the next renewal completes.
func TestARenewalBrokenOffAnywhere(t *testing.T) {
	for _, first := range []bool{true, false} {
		for at, op := range []string{"Doc", "Commit"} {
			for _, fate := range storetest.FaultsOf(op) {
				for _, crash := range []bool{false, true} {
					t.Run(fmt.Sprintf("first %t %s %s crash %t", first, op, fate, crash), func(t *testing.T) {
						w := newWorld(t)
						if !first {
							w.renew()
							w.pass(signingkey.Lifetime * 3 / 4)
						}
						calls := 0
						lossy := &storetest.Lossy{Store: w.store, ChooseFault: func(got string, _ []store.Write) storetest.Fault {
							calls++
							switch {
							case calls-1 == at && got == op:
								return fate
							case calls-1 > at && crash:
								return storetest.Lost
							}
							return storetest.NoFault
						}}
						if err := w.maker(lossy).RenewIfDue(t.Context()); err != nil && !problem.Is(err, problem.Unavailable) {
							t.Fatalf("Renew() = %v, want nothing or unavailable", err)
						}
						var before certificate.Certificate
						if s, err := w.reader().Signer(t.Context(), w.now); err == nil {
							before = s.Certificate
						} else if !first {
							t.Fatalf("Signer() = %v", err)
						}
						w.renew()
						lossy.ApplyPending(t.Context())
						w.renew()
						if after := w.signer(w.reader(), w.now); before != (certificate.Certificate{}) && after != before {
							t.Errorf("the key of the same time was %s and is %s", before.Key.Short(), after.Key.Short())
						}
						w.signer(w.reader(), w.now.Add(signingkey.Lifetime/2))
						d, err := w.store.Doc(t.Context(), signingkey.DocKey())
						if err != nil || signingkey.CheckCertificates(d, w.host.ID()) != nil || signingkey.CheckKeys(t.Context(), d, w.vault) != nil {
							t.Errorf("the document is not whole: %v", err)
						}
					})
				}
			}
		}
	}
}

// A document of another host, for example from a restored table, is replaced.
func TestKeysOfAnotherHostAreReplaced(t *testing.T) {
	w := newWorld(t)
	w.renew()
	d, err := w.store.Doc(t.Context(), signingkey.DocKey())
	if err != nil {
		t.Fatal(err)
	}
	if w.host, err = identity.NewKey(rand.Reader); err != nil {
		t.Fatal(err)
	}
	if err := signingkey.CheckCertificates(d, w.host.ID()); !problem.Is(err, problem.Damaged) {
		t.Errorf("CheckCertificates() = %v, want damaged", err)
	}
	w.renew()
	w.signer(w.reader(), w.now)
}

func TestDamageIsNamedAndSignsNothing(t *testing.T) {
	w := newWorld(t)
	w.renew()
	whole, err := w.store.Doc(t.Context(), signingkey.DocKey())
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		old, new     string
		cert, opened bool
	}{
		"nothing":          {"{", "{", true, true},
		"a cut document":   {"}", "", false, false},
		"a newer format":   {`"format":1`, `"format":2`, false, false},
		"a longer time":    {`"until":"2026-`, `"until":"2036-`, false, true},
		"a time that ends": {`"from":"2026-`, `"from":"2046-`, false, true},
		"another box":      {`"seed":"`, `"seed":"AAAA`, true, false},
	} {
		d := whole
		d.Data = []byte(strings.Replace(string(whole.Data), tt.old, tt.new, 1))
		if err := signingkey.CheckCertificates(d, w.host.ID()); (err == nil) != tt.cert || err != nil && !problem.Is(err, problem.Damaged) {
			t.Errorf("%s: CheckCertificates() = %v, want right: %t", name, err, tt.cert)
		}
		if err := signingkey.CheckKeys(t.Context(), d, w.vault); (err == nil) != tt.opened || err != nil && !problem.Is(err, problem.Damaged) {
			t.Errorf("%s: CheckKeys() = %v, want right: %t", name, err, tt.opened)
		}
		other := newWorld(t)
		other.vault, other.host = w.vault, w.host
		if err := other.store.Commit(t.Context(), store.Put{Key: d.Key, WriteID: store.WriteID{1}, Data: d.Data}); err != nil {
			t.Fatal(err)
		}
		if _, err := other.reader().Signer(t.Context(), w.now); (err == nil) != (tt.cert && tt.opened) {
			t.Errorf("%s: Signer() = %v", name, err)
		}
	}
}

func TestKeysPrintNoSecret(t *testing.T) {
	w := newWorld(t)
	w.renew()
	k := w.reader()
	s, err := k.Signer(t.Context(), w.now)
	if err != nil {
		t.Fatal(err)
	}
	if out := fmt.Sprintf("%v %+v %#v", k, k, s.Signer); strings.Contains(out, "0x") || strings.Contains(out, "[") {
		t.Errorf("printed: %s", out)
	}
}

// If the clock was far ahead once, a key with a future validity exists. The current key stays in
// use.
func TestAClockThatWasAheadLosesNoKey(t *testing.T) {
	for _, days := range []int{1, 20, 31, 40, 90} {
		w := newWorld(t)
		w.renew()
		w.pass(time.Duration(days) * 24 * time.Hour)
		w.renew()
		w.pass(-time.Duration(days) * 24 * time.Hour)
		for range 40 {
			at, first := w.now, w.signer(w.reader(), w.now)
			w.pass(time.Minute)
			w.renew()
			if again := w.signer(w.reader(), at); again != first {
				t.Fatalf("%d days ahead: a time is signed by %s and again by %s", days, first.Key.Short(), again.Key.Short())
			}
			w.signer(w.reader(), w.now)
			w.pass(24 * time.Hour)
		}
	}
}

// A process that cannot renew uses the current key until it expires.
func TestAKeySignsOnIfItsRenewalFails(t *testing.T) {
	w := newWorld(t)
	w.renew()
	broken := signingkey.New(signingkey.Config{Store: w.store, Vault: w.vault, Now: w.clock, Rand: rand.Reader,
		Identity: func(context.Context) (identity.Signer, error) { return nil, errors.New("the key service is away") }})
	first := w.signer(broken, w.now)
	w.pass(signingkey.Lifetime * 3 / 4)
	if now := w.signer(broken, w.now); now != first {
		t.Errorf("signed by %s, want %s", now.Key.Short(), first.Key.Short())
	}
	w.pass(signingkey.Lifetime / 4)
	if _, err := broken.Signer(t.Context(), w.now); err == nil {
		t.Error("a key that has ended signs on")
	}
}
