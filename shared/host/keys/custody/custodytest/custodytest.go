// Package custodytest tests implementations of custody.Vault. Its only requirements are the
// promises in the documentation of Vault.
package custodytest

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Run runs all tests. Each call of fresh must return a vault with its own key.
func Run(t *testing.T, fresh func(t *testing.T) custody.Vault) {
	t.Run("what was sealed opens, whatever its size", func(t *testing.T) { roundTrip(t, fresh(t)) })
	t.Run("two boxes of one secret differ", func(t *testing.T) { boxesDiffer(t, fresh(t)) })
	t.Run("a box opens under its own context only", func(t *testing.T) { proveBound(t, fresh(t)) })
	t.Run("a box with any byte changed, cut or added does not open", func(t *testing.T) { proveDamaged(t, fresh(t)) })
	t.Run("a box of another vault does not open", func(t *testing.T) { proveForeign(t, fresh(t), fresh(t)) })
	t.Run("nothing handed in is changed or kept", func(t *testing.T) { proveUntouched(t, fresh(t)) })
	t.Run("a secret that is too large is refused", func(t *testing.T) { tooLarge(t, fresh(t)) })
	t.Run("many goroutines seal and open at once", func(t *testing.T) { concurrent(t, fresh(t)) })
	t.Run("fmt shows the same for two vaults", func(t *testing.T) { proveSilent(t, fresh(t), fresh(t)) })
}

const (
	here = "vacant:here"
	hush = "hush-hush"
)

func seal(t *testing.T, v custody.Vault, bound string, secret []byte) []byte {
	t.Helper()
	box, err := v.Seal(t.Context(), bound, secret)
	if err != nil {
		t.Fatalf("Seal() = %v", err)
	}
	return box
}

func roundTrip(t *testing.T, v custody.Vault) {
	for _, n := range []int{0, 1, 32, 33, 1000, custody.MaxSecret} {
		secret := bytes.Repeat([]byte{0xa5}, n)
		box := seal(t, v, here, secret)
		if n >= 16 && bytes.Contains(box, secret[:16]) {
			t.Errorf("the box of %d bytes shows the secret", n)
		}
		got, err := v.Open(t.Context(), here, box)
		if err != nil || !bytes.Equal(got, secret) {
			t.Errorf("Open(Seal(%d bytes)) = %d bytes, %v", n, len(got), err)
		}
	}
}

func boxesDiffer(t *testing.T, v custody.Vault) {
	secret := []byte("the same secret")
	if bytes.Equal(seal(t, v, here, secret), seal(t, v, here, secret)) {
		t.Error("Seal() gave the same box twice")
	}
}

func proveBound(t *testing.T, v custody.Vault) {
	box := seal(t, v, here, []byte(hush))
	for _, other := range []string{"", "vacant:her", "vacant:here ", "vacant:there", "\x01vacant:here"} {
		wantRefused(t, v, other, box)
	}
}

func proveDamaged(t *testing.T, v custody.Vault) {
	box := seal(t, v, here, []byte(hush))
	for i := range box {
		broken := bytes.Clone(box)
		broken[i] ^= 1
		wantRefused(t, v, here, broken)
		wantRefused(t, v, here, box[:i])
	}
	wantRefused(t, v, here, append(bytes.Clone(box), 0))
	wantRefused(t, v, here, nil)
}

func proveForeign(t *testing.T, a, b custody.Vault) {
	wantRefused(t, b, here, seal(t, a, here, []byte(hush)))
}

func wantRefused(t *testing.T, v custody.Vault, bound string, box []byte) {
	t.Helper()
	got, err := v.Open(t.Context(), bound, box)
	if !problem.Is(err, problem.Damaged) || got != nil {
		t.Errorf("Open(%q, %x) = %q, %v, want an error of kind damaged", bound, box, got, err)
	}
	if err != nil && strings.Contains(err.Error(), hush) {
		t.Errorf("the error shows the secret: %v", err)
	}
}

func proveUntouched(t *testing.T, v custody.Vault) {
	secret := []byte(hush)
	box := seal(t, v, here, secret)
	if string(secret) != hush {
		t.Errorf("Seal() changed the secret to %q", secret)
	}
	clear(secret) // the caller wipes the secret; the box must not depend on it
	sealed := bytes.Clone(box)
	got, err := v.Open(t.Context(), here, box)
	if err != nil || string(got) != hush || !bytes.Equal(box, sealed) {
		t.Errorf("Open() = %q, %v; box changed: %t", got, err, !bytes.Equal(box, sealed))
	}
	clear(got)
	if again, err := v.Open(t.Context(), here, box); err != nil || string(again) != hush {
		t.Errorf("Open() after wiping = %q, %v", again, err)
	}
}

func tooLarge(t *testing.T, v custody.Vault) {
	if box, err := v.Seal(t.Context(), here, make([]byte, custody.MaxSecret+1)); !problem.Is(err, problem.TooLarge) {
		t.Errorf("Seal(MaxSecret + 1) = %d bytes, %v, want too large", len(box), err)
	}
}

func concurrent(t *testing.T, v custody.Vault) {
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 20 {
				secret, place := fmt.Sprintf("secret %d of %d", i, g), fmt.Sprintf("place %d", g)
				box, err := v.Seal(t.Context(), place, []byte(secret))
				if err != nil {
					t.Errorf("Seal() = %v", err)
					return
				}
				if got, err := v.Open(t.Context(), place, box); err != nil || string(got) != secret {
					t.Errorf("Open() = %q, %v, want %q", got, err, secret)
				}
			}
		})
	}
	wg.Wait()
}

// proveSilent compares the output of two vaults with different keys. If it is the same, it does not
// contain a key. Memory addresses would differ, so the output must not contain them either.
func proveSilent(t *testing.T, a, b custody.Vault) {
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		if x, y := fmt.Sprintf(verb, a), fmt.Sprintf(verb, b); x != y {
			t.Errorf("%s shows %q for one vault and %q for another", verb, x, y)
		}
	}
}
