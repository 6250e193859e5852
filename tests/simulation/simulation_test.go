package simulation

import (
	"flag"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var (
	schedules = flag.Int("schedules", 20000, "how many schedules to run")
	first     = flag.Uint64("first", 1, "seed of the first")
	seed      = flag.Uint64("seed", 0, "run only this one, and print its trace with -v")
	broken    = flag.String("mutant", "", "with -seed: run it with this rule broken")
)

// play runs one world and returns it.
func play(t *testing.T, seed uint64, m mutant, trace bool) (w *world) {
	synctest.Test(t, func(t *testing.T) {
		w = newWorld(t, seed, m)
		w.trace = trace
		w.say("seed %d: %v", seed, w.cfg)
		w.run()
	})
	return w
}

// hunted is the result of a series of worlds.
type hunted struct {
	mu    sync.Mutex
	wrong *world // the first with a broken invariant, if any
	ran   int
	met   map[string]int
}

// hunt runs worlds from the first seed on, on all processors, until an
// invariant breaks or n have run.
func hunt(t *testing.T, first uint64, n int, m mutant) *hunted {
	h := &hunted{met: map[string]int{}}
	var next atomic.Int64
	t.Run("schedules", func(t *testing.T) {
		for range runtime.GOMAXPROCS(0) {
			t.Run("worker", func(t *testing.T) {
				t.Parallel()
				for more := true; more; {
					i := next.Add(1) - 1
					if i >= int64(n) {
						return
					}
					more = h.add(play(t, first+uint64(i), m, false))
				}
			})
		}
	})
	return h
}

// add counts a world, and reports whether another should run.
func (h *hunted) add(w *world) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ran++
	for what, n := range w.seen.met {
		h.met[what] += n
	}
	if len(w.wrong) > 0 && (h.wrong == nil || w.seed < h.wrong.seed) {
		h.wrong = w
	}
	return h.wrong == nil
}

// show plays a seed again and returns its trace.
func show(t *testing.T, seed uint64, m mutant) string {
	w := play(t, seed, m, true)
	return strings.Join(w.log, "\n")
}

func TestNoScheduleBreaksAnInvariant(t *testing.T) {
	if *seed > 0 {
		w := play(t, *seed, mutantNamed(t, *broken), true)
		t.Logf("\n%s", strings.Join(w.log, "\n"))
		if len(w.wrong) > 0 {
			t.Errorf("%v", w.wrong)
		}
		return
	}
	began := time.Now()
	n := *schedules
	if testing.Short() {
		n /= 10
	}
	h := hunt(t, *first, n, mutant{})
	t.Logf("%d schedules in %v: %v", h.ran, time.Since(began).Round(time.Millisecond), h.met)
	if w := h.wrong; w != nil {
		t.Fatalf("seed %d: %v\n%s\nagain: go test ./tests/simulation -run %s -seed %d -v",
			w.seed, w.wrong, show(t, w.seed, mutant{}), t.Name(), w.seed)
	}
	for _, what := range wanted {
		if h.met[what] == 0 && n >= 2000 {
			t.Errorf("%d schedules never met %q", h.ran, what)
		}
	}
}

func TestOneSeedIsOneSchedule(t *testing.T) {
	for s := uint64(1); s <= 200; s++ {
		a, b := show(t, s, mutant{}), show(t, s, mutant{})
		if a != b {
			t.Fatalf("seed %d: two runs differ:\n%s\n\n%s", s, a, b)
		}
	}
}

func mutantNamed(t *testing.T, name string) mutant {
	if name == "" {
		return mutant{}
	}
	for _, m := range append(mutants, moneyMutants...) {
		if m.name == name {
			return m
		}
	}
	t.Fatalf("no mutant is named %q", name)
	return mutant{}
}
