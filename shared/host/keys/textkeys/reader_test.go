package textkeys

import (
	"errors"
	"testing"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

func TestAReaderOpensWhatItsKeysOpenAndMakesNone(t *testing.T) {
	w := newWorld(t)
	k, c := w.host()
	s := w.sealed(k, "hello")
	at := noon
	r := NewReader(w.store, w.vault, c.now, 0)
	before := w.store.commits.Load()

	if got, err := r.Open(t.Context(), []byte("aad"), s); err != nil || string(got) != "hello" {
		t.Errorf("Open() = %q, %v, want hello", got, err)
	}
	if _, err := r.Open(t.Context(), []byte("other"), s); !errors.Is(err, ErrDamaged) {
		t.Errorf("Open(bound elsewhere) = %v, want ErrDamaged", err)
	}
	never := s
	for _, never.Day = range []uint32{s.Day + 1, s.Day - 1, s.Day - 1000} {
		if _, err := r.Open(t.Context(), []byte("aad"), never); !errors.Is(err, ErrNoKey) || !problem.Is(err, problem.Damaged) {
			t.Errorf("Open(day %d) = %v, want ErrNoKey", never.Day, err)
		}
	}
	never.Day = lastDay + 1
	if _, err := r.Open(t.Context(), []byte("aad"), never); !errors.Is(err, ErrDamaged) {
		t.Errorf("Open(no day) = %v, want ErrDamaged", err)
	}
	if n := w.store.commits.Load() - before; n != 0 {
		t.Errorf("a reader made %d commits", n)
	}

	c.set(at.AddDate(0, 0, 3))
	if _, err := r.Open(t.Context(), []byte("aad"), s); !errors.Is(err, ErrDestroyed) {
		t.Errorf("Open(after the retention) = %v, want ErrDestroyed", err)
	}
	if err := k.Warm(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.set(at)
	if _, err := NewReader(w.store, w.vault, c.now, 0).Open(t.Context(), []byte("aad"), s); !errors.Is(err, ErrDestroyed) {
		t.Errorf("Open(destroyed) = %v, want ErrDestroyed", err)
	}
}

func TestADamagedKeyIsNoDamagedText(t *testing.T) {
	w := newWorld(t)
	k, c := w.host()
	s := w.sealed(k, "hello")
	d := w.doc("2026-05-06")
	d.Data[len(d.Data)-1] ^= 1
	if err := w.store.Commit(t.Context(), store.Put{Key: d.Key, IfVersion: d.Version, WriteID: store.WriteID{1}, Data: d.Data}); err != nil {
		t.Fatal(err)
	}
	r := NewReader(w.store, w.vault, c.now, 0)
	for range 2 { // the second time from memory
		if _, err := r.Open(t.Context(), []byte("aad"), s); !errors.Is(err, ErrKeyDamaged) || errors.Is(err, ErrDamaged) {
			t.Errorf("Open() = %v, want ErrKeyDamaged", err)
		}
	}
}
