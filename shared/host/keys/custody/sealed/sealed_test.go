package sealed

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/local"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

const ttl = time.Minute

// clock is a time that only tests move.
type clock struct{ ns atomic.Int64 }

func (c *clock) now() time.Time                   { return time.Unix(0, c.ns.Load()) }
func (c *clock) pass(d time.Duration)             { c.ns.Add(int64(d)) }
func newClock() *clock                            { c := &clock{}; c.pass(time.Hour); return c }
func (c *clock) signers(v custody.Vault) *Signers { return Vacant.NewSigners(v, c.now, ttl) }

// counting counts the openings of a vault and can delay or fail them.
type counting struct {
	custody.Vault
	opens atomic.Int64
	hook  func(ctx context.Context) error
}

func (v *counting) Open(ctx context.Context, bound string, box []byte) ([]byte, error) {
	v.opens.Add(1)
	if v.hook != nil {
		if err := v.hook(ctx); err != nil {
			return nil, err
		}
	}
	return v.Vault.Open(ctx, bound, box)
}

// deaf is a vault that ignores its context.
type deaf struct{ custody.Vault }

func (v deaf) Seal(ctx context.Context, _ string, secret []byte) ([]byte, error) {
	return v.Vault.Seal(ctx, "", secret)
}

func (v deaf) Open(ctx context.Context, _ string, box []byte) ([]byte, error) {
	return v.Vault.Open(ctx, "", box)
}

func newVault(t *testing.T) *counting {
	t.Helper()
	v, err := local.Open(filepath.Join(t.TempDir(), "seal.key"), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &counting{Vault: v}
}

func newKey(t *testing.T, v custody.Vault) (identity.ID, []byte) {
	t.Helper()
	k, err := identity.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	box, err := Vacant.Seal(t.Context(), v, k)
	if err != nil {
		t.Fatal(err)
	}
	return k.ID(), box
}

func signs(t *testing.T, s identity.Signer) {
	t.Helper()
	msg := []byte("message")
	sig, err := s.Sign(t.Context(), msg)
	if err != nil || !identity.Verify(s.ID(), msg, sig) {
		t.Errorf("Sign() = %x, %v, want a signature of %s", sig, err, s.ID().Short())
	}
}

func TestASeedIsOpenedOnceUntilItsTimeIsOver(t *testing.T) {
	v, c := newVault(t), newClock()
	s := c.signers(v)
	id, box := newKey(t, v)
	for range 3 {
		k, err := s.Signer(t.Context(), id, box)
		if err != nil {
			t.Fatal(err)
		}
		signs(t, k)
		signs(t, k)
	}
	c.pass(ttl - 1)
	k, err := s.Signer(t.Context(), id, box)
	if err != nil || v.opens.Load() != 1 {
		t.Fatalf("within the time: %d openings, %v, want 1", v.opens.Load(), err)
	}
	c.pass(1)
	signs(t, k) // a signer that outlives the key opens it again
	if got := v.opens.Load(); got != 2 {
		t.Errorf("after the time: %d openings, want 2", got)
	}
}

func TestAKeyIsOpenedWhenItSignsAndNotBefore(t *testing.T) {
	v := newVault(t)
	s := newClock().signers(v)
	id, box := newKey(t, v)
	k := s.Key(id, box)
	if k.ID() != id || v.opens.Load() != 0 {
		t.Fatalf("Key() = key of %s after %d openings, want %s and none", k.ID().Short(), v.opens.Load(), id.Short())
	}
	if err := k.Ready(t.Context()); err != nil || v.opens.Load() != 1 {
		t.Fatalf("Ready() = %v after %d openings, want nil and 1", err, v.opens.Load())
	}
	signs(t, k)
	if v.opens.Load() != 1 {
		t.Errorf("a ready key was opened %d times, want 1", v.opens.Load())
	}
	if err := s.Key(id, []byte("no box")).Ready(t.Context()); err != nil {
		t.Errorf("Ready() with the key in memory = %v", err)
	}
	s.Forget(id)
	s.Forget(id)
	if err := s.Key(id, []byte("no box")).Ready(t.Context()); !problem.Is(err, problem.Damaged) {
		t.Errorf("Ready() after the key was forgotten, without its box = %v, want damaged", err)
	}
}

func TestAKeyWhoseTimeIsOverIsWiped(t *testing.T) {
	v, c := newVault(t), newClock()
	s := c.signers(v)
	id, box := newKey(t, v)
	tests := map[string]func(){
		"at a sweep":           s.Sweep,
		"when another signs":   func() { other, box := newKey(t, v); _, _ = s.Signer(t.Context(), other, box) },
		"when signers close":   s.Close,
		"when it is forgotten": func() { s.Forget(id) },
		"when it signs again":  func() { _, _ = (&Key{s, id, box}).Sign(t.Context(), nil) },
	}
	for name, then := range tests {
		t.Run(name, func(t *testing.T) {
			o, err := s.acquireKey(t.Context(), id, box)
			if err != nil {
				t.Fatal(err)
			}
			s.releaseKey(o)
			c.pass(ttl)
			then()
			if !wiped(o.key) {
				t.Error("the key still signs")
			}
		})
	}
}

func wiped(k *identity.Key) bool {
	sig, _ := k.Sign(context.Background(), []byte("m"))
	return !identity.Verify(k.ID(), []byte("m"), sig)
}

func TestAKeyInUseIsWipedWhenItsLastUserIsDone(t *testing.T) {
	v, c := newVault(t), newClock()
	s := c.signers(v)
	id, box := newKey(t, v)
	one, err := s.acquireKey(t.Context(), id, box)
	if err != nil {
		t.Fatal(err)
	}
	two, _ := s.acquireKey(t.Context(), id, box)
	c.pass(ttl)
	s.Sweep()
	if wiped(one.key) {
		t.Fatal("a key was wiped under a signature")
	}
	s.releaseKey(one)
	if wiped(two.key) {
		t.Fatal("a key was wiped under its second signature")
	}
	if after, err := s.acquireKey(t.Context(), id, box); err != nil || after == one {
		t.Errorf("after its time the old key was given out again, %v", err)
	}
	s.releaseKey(two)
	if !wiped(two.key) {
		t.Error("the key outlives its last user")
	}
}

func TestSignaturesNeverBreakWhileKeysExpire(t *testing.T) {
	v, c := newVault(t), newClock()
	s := c.signers(v)
	id, box := newKey(t, v)
	k, err := s.Signer(t.Context(), id, box)
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var ticking, signing sync.WaitGroup
	ticking.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				c.pass(ttl)
				s.Sweep()
			}
		}
	})
	for range 4 {
		signing.Go(func() {
			for range 200 {
				signs(t, k)
			}
		})
	}
	signing.Wait()
	close(stop)
	ticking.Wait()
}

func TestManyWhoNeedOneKeyOpenItOnce(t *testing.T) {
	v, c := newVault(t), newClock()
	s := c.signers(v)
	id, box := newKey(t, v)
	hold := make(chan struct{})
	v.hook = func(context.Context) error { <-hold; return nil }
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			k, err := s.Signer(t.Context(), id, box)
			if err != nil {
				t.Errorf("Signer() = %v", err)
				return
			}
			signs(t, k)
		})
	}
	close(hold)
	wg.Wait()
	if got := v.opens.Load(); got != 1 {
		t.Errorf("%d openings, want 1", got)
	}
}

func TestAnOpeningThatFailsFailsOnlyItsCaller(t *testing.T) {
	v, c := newVault(t), newClock()
	s := c.signers(v)
	id, box := newKey(t, v)
	begun := make(chan struct{})
	v.hook = func(ctx context.Context) error {
		if v.opens.Load() > 1 {
			return nil
		}
		close(begun)
		<-ctx.Done()
		return ctx.Err()
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := s.Signer(ctx, id, box); !errors.Is(err, context.Canceled) {
			t.Errorf("the canceled caller: Signer() = %v", err)
		}
	})
	<-begun
	impatient, stop := context.WithCancel(t.Context())
	stop()
	if _, err := s.Signer(impatient, id, box); !problem.Is(err, problem.Unavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("a caller who does not wait: Signer() = %v, want unavailable", err)
	}
	wg.Go(func() {
		if _, err := s.Signer(t.Context(), id, box); err != nil {
			t.Errorf("the patient caller: Signer() = %v", err)
		}
	})
	cancel()
	wg.Wait()
}

func TestASeedOpensForItsOwnIdOnly(t *testing.T) {
	v, c := newVault(t), newClock()
	id, box := newKey(t, v)
	other, _ := newKey(t, v)
	if k, err := c.signers(v).Signer(t.Context(), other, box); !problem.Is(err, problem.Damaged) || k != nil {
		t.Errorf("Signer(another id) = %v, %v, want damaged", k, err)
	}
	broken := deaf{v.Vault}
	_, box = newKey(t, broken)
	_, err := c.signers(broken).Signer(t.Context(), id, box)
	if want := "sealed seed of vacant " + id.Short() + " belongs to another id"; err == nil || err.Error() != want {
		t.Errorf("Signer(under a vault that ignores the context) = %v, want %s", err, want)
	}
}

func TestInvalidSeedIsRefused(t *testing.T) {
	v, c := newVault(t), newClock()
	id, _ := newKey(t, v)
	short, err := v.Seal(t.Context(), Vacant.vaultContext(id), []byte("top secret"))
	if err != nil {
		t.Fatal(err)
	}
	for name, box := range map[string][]byte{"short": short, "garbage": []byte("garbage"), "nothing": nil} {
		_, err := c.signers(v).Signer(t.Context(), id, box)
		if !problem.Is(err, problem.Damaged) || strings.Contains(err.Error(), "top secret") {
			t.Errorf("%s: Signer() = %v, want damaged", name, err)
		}
	}
}

func TestAVaultOutOfReachIsNotDamage(t *testing.T) {
	v, c := newVault(t), newClock()
	id, box := newKey(t, v)
	v.hook = func(context.Context) error { return problem.New(problem.Unavailable, "key service away") }
	if _, err := c.signers(v).Signer(t.Context(), id, box); !problem.Is(err, problem.Unavailable) {
		t.Errorf("Signer() = %v, want unavailable", err)
	}
}

func TestOpenKeysAreBounded(t *testing.T) {
	v, c := newVault(t), newClock()
	s := c.signers(v)
	first, box := newKey(t, v)
	o, err := s.acquireKey(t.Context(), first, box)
	if err != nil {
		t.Fatal(err)
	}
	s.releaseKey(o)
	for range maxOpenKeys {
		c.pass(1)
		id, box := newKey(t, v)
		if _, err := s.Signer(t.Context(), id, box); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.keys) != maxOpenKeys || s.keys[first] != nil || !wiped(o.key) {
		t.Errorf("%d keys open, want %d without the oldest", len(s.keys), maxOpenKeys)
	}
}

func TestKeysAreNotPrinted(t *testing.T) {
	v, c := newVault(t), newClock()
	s := c.signers(v)
	seed := []byte(strings.Repeat("\xab", identity.Size))
	key, err := identity.KeyFromSeed(seed)
	if err != nil {
		t.Fatal(err)
	}
	box, err := Vacant.Seal(t.Context(), v, key)
	if err != nil {
		t.Fatal(err)
	}
	k, err := s.Signer(t.Context(), key.ID(), box)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d"} {
		fmt.Fprintf(&out, verb+"\n", s)
		fmt.Fprintf(&out, verb+"\n", k)
		fmt.Fprintf(&out, verb+"\n", struct {
			S *Signers
			K identity.Signer
		}{s, k})
	}
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "signers", s, "signer", k)
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "signers", s, "signer", k)
	for _, trace := range []string{"abab", "ABAB", "171 171", "0xab", `\xab`} {
		if strings.Contains(out.String(), trace) {
			t.Errorf("printing shows %q:\n%s", trace, out.String())
		}
	}
	if !strings.Contains(out.String(), key.ID().Short()) {
		t.Errorf("a signer does not say whose it is:\n%s", out.String())
	}
}

func BenchmarkSignWithAKeyInMemory(b *testing.B) {
	v, err := local.Open(filepath.Join(b.TempDir(), "seal.key"), rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	key, err := identity.NewKey(rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	box, err := Vacant.Seal(b.Context(), v, key)
	if err != nil {
		b.Fatal(err)
	}
	s := Vacant.NewSigners(v, time.Now, time.Hour)
	msg := make([]byte, 500)
	for _, bench := range []struct {
		name string
		by   func() (identity.Signer, error)
	}{
		{"bare", func() (identity.Signer, error) { return key, nil }},
		{"sealed", func() (identity.Signer, error) { return s.Signer(b.Context(), key.ID(), box) }},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				k, err := bench.by()
				if err != nil {
					b.Fatal(err)
				}
				if _, err := k.Sign(b.Context(), msg); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// The kind is part of the context, so a role that may open seeds of vacants cannot open other
// seeds.
func TestASeedOpensAsItsOwnKindOnly(t *testing.T) {
	v := newVault(t)
	kinds := []Kind{Vacant, Host, SigningKey}
	key, err := identity.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, sealedAs := range kinds {
		box, err := sealedAs.Seal(t.Context(), v, key)
		if err != nil {
			t.Fatal(err)
		}
		for _, openedAs := range kinds {
			k, err := openedAs.Open(t.Context(), v, key.ID(), box)
			if (err == nil) != (openedAs == sealedAs) || err != nil && (!problem.Is(err, problem.Damaged) || k != nil) {
				t.Errorf("a seed of %s opened as %s: %v", sealedAs, openedAs, err)
			}
		}
	}
}
