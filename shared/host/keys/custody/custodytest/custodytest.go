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

// Run runs all tests. Each call of newVault must return a vault with its own key.
func Run(t *testing.T, newVault func(t *testing.T) custody.Vault) {
	t.Run("what was sealed opens, whatever its size", func(t *testing.T) { testRoundTrip(t, newVault(t)) })
	t.Run("two boxes of one secret differ", func(t *testing.T) { testBoxesDiffer(t, newVault(t)) })
	t.Run("a box opens under its own context only", func(t *testing.T) { testContextBinding(t, newVault(t)) })
	t.Run("a box with any byte changed, cut or added does not open", func(t *testing.T) { testDamagedBoxes(t, newVault(t)) })
	t.Run("a box of another vault does not open", func(t *testing.T) { testForeignBox(t, newVault(t), newVault(t)) })
	t.Run("nothing handed in is changed or kept", func(t *testing.T) { testNoSharedMemory(t, newVault(t)) })
	t.Run("a secret that is too large is refused", func(t *testing.T) { testTooLarge(t, newVault(t)) })
	t.Run("many goroutines seal and open at once", func(t *testing.T) { testConcurrency(t, newVault(t)) })
	t.Run("fmt shows the same for two vaults", func(t *testing.T) { testFormatHidesKey(t, newVault(t), newVault(t)) })
}

const (
	testContext = "vacant:here"
	secretText  = "hush-hush"
)

func mustSeal(t *testing.T, v custody.Vault, boundContext string, secret []byte) []byte {
	t.Helper()
	box, err := v.Seal(t.Context(), boundContext, secret)
	if err != nil {
		t.Fatalf("Seal() = %v", err)
	}
	return box
}

func testRoundTrip(t *testing.T, v custody.Vault) {
	for _, n := range []int{0, 1, 32, 33, 1000, custody.MaxSecretBytes} {
		secret := bytes.Repeat([]byte{0xa5}, n)
		box := mustSeal(t, v, testContext, secret)
		if n >= 16 && bytes.Contains(box, secret[:16]) {
			t.Errorf("the box of %d bytes shows the secret", n)
		}
		got, err := v.Open(t.Context(), testContext, box)
		if err != nil || !bytes.Equal(got, secret) {
			t.Errorf("Open(Seal(%d bytes)) = %d bytes, %v", n, len(got), err)
		}
	}
}

func testBoxesDiffer(t *testing.T, v custody.Vault) {
	secret := []byte("the same secret")
	if bytes.Equal(mustSeal(t, v, testContext, secret), mustSeal(t, v, testContext, secret)) {
		t.Error("Seal() gave the same box twice")
	}
}

func testContextBinding(t *testing.T, v custody.Vault) {
	box := mustSeal(t, v, testContext, []byte(secretText))
	for _, other := range []string{"", "vacant:her", "vacant:here ", "vacant:there", "\x01vacant:here"} {
		wantDamagedError(t, v, other, box)
	}
}

func testDamagedBoxes(t *testing.T, v custody.Vault) {
	box := mustSeal(t, v, testContext, []byte(secretText))
	for i := range box {
		damagedBox := bytes.Clone(box)
		damagedBox[i] ^= 1
		wantDamagedError(t, v, testContext, damagedBox)
		wantDamagedError(t, v, testContext, box[:i])
	}
	wantDamagedError(t, v, testContext, append(bytes.Clone(box), 0))
	wantDamagedError(t, v, testContext, nil)
}

func testForeignBox(t *testing.T, a, b custody.Vault) {
	wantDamagedError(t, b, testContext, mustSeal(t, a, testContext, []byte(secretText)))
}

func wantDamagedError(t *testing.T, v custody.Vault, boundContext string, box []byte) {
	t.Helper()
	got, err := v.Open(t.Context(), boundContext, box)
	if !problem.Is(err, problem.Damaged) || got != nil {
		t.Errorf("Open(%q, %x) = %q, %v, want an error of kind damaged", boundContext, box, got, err)
	}
	if err != nil && strings.Contains(err.Error(), secretText) {
		t.Errorf("the error shows the secret: %v", err)
	}
}

func testNoSharedMemory(t *testing.T, v custody.Vault) {
	secret := []byte(secretText)
	box := mustSeal(t, v, testContext, secret)
	if string(secret) != secretText {
		t.Errorf("Seal() changed the secret to %q", secret)
	}
	clear(secret) // the caller wipes the secret; the box must not depend on it
	originalBox := bytes.Clone(box)
	got, err := v.Open(t.Context(), testContext, box)
	if err != nil || string(got) != secretText || !bytes.Equal(box, originalBox) {
		t.Errorf("Open() = %q, %v; box changed: %t", got, err, !bytes.Equal(box, originalBox))
	}
	clear(got)
	if reopened, err := v.Open(t.Context(), testContext, box); err != nil || string(reopened) != secretText {
		t.Errorf("Open() after wiping = %q, %v", reopened, err)
	}
}

func testTooLarge(t *testing.T, v custody.Vault) {
	if box, err := v.Seal(t.Context(), testContext, make([]byte, custody.MaxSecretBytes+1)); !problem.Is(err, problem.TooLarge) {
		t.Errorf("Seal(MaxSecret + 1) = %d bytes, %v, want too large", len(box), err)
	}
}

func testConcurrency(t *testing.T, v custody.Vault) {
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := range 20 {
				secret, boundContext := fmt.Sprintf("secret %d of %d", i, worker), fmt.Sprintf("place %d", worker)
				box, err := v.Seal(t.Context(), boundContext, []byte(secret))
				if err != nil {
					t.Errorf("Seal() = %v", err)
					return
				}
				if got, err := v.Open(t.Context(), boundContext, box); err != nil || string(got) != secret {
					t.Errorf("Open() = %q, %v, want %q", got, err, secret)
				}
			}
		})
	}
	wg.Wait()
}

// testFormatHidesKey compares the output of two vaults with different keys. If it is the same, it
// does not contain a key. Memory addresses would differ, so the output must not contain them
// either.
func testFormatHidesKey(t *testing.T, a, b custody.Vault) {
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		if x, y := fmt.Sprintf(verb, a), fmt.Sprintf(verb, b); x != y {
			t.Errorf("%s shows %q for one vault and %q for another", verb, x, y)
		}
	}
}
