package guests_test

import (
	"crypto/rand"
	"fmt"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/keys/custody/local"
	"github.com/vacancy-host/vacancy/shared/host/keys/guests"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func keysOver(t *testing.T, s store.Store, seal string) *guests.Keys {
	t.Helper()
	vault, err := local.FromHex(strings.Repeat(seal, 32), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return guests.New(store.Updater{Store: s, Rand: rand.Reader}, vault, rand.Reader)
}

func TestEveryInstanceDerivesTheSameKeys(t *testing.T) {
	s := memory.New()
	a, b := keysOver(t, s, "5a"), keysOver(t, s, "5a")
	one, other := identity.ID{1}, identity.ID{2}
	id := func(k *guests.Keys, vacant identity.ID, conversation string) identity.ID {
		t.Helper()
		key, err := k.DeriveKey(t.Context(), vacant, conversation)
		if err != nil {
			t.Fatal(err)
		}
		return key.ID()
	}
	first := id(a, one, "x")
	if id(b, one, "x") != first {
		t.Error("two instances derive two keys for one guest")
	}
	if id(a, other, "x") == first || id(a, one, "y") == first {
		t.Error("guests of two vacants or contexts share a key")
	}
	if elsewhere := keysOver(t, memory.New(), "5a"); id(elsewhere, one, "x") == first {
		t.Error("two hosts derive the same key")
	}
}

func TestOnlyTheHostMakesItsContexts(t *testing.T) {
	s := memory.New()
	k := keysOver(t, s, "5a")
	vacant := identity.ID{1}
	made, err := k.NewContextID(t.Context(), vacant)
	if err != nil {
		t.Fatal(err)
	}
	again, _ := k.NewContextID(t.Context(), vacant)
	if made == again {
		t.Fatal("two contexts are the same")
	}
	if ok, err := keysOver(t, s, "5a").IsHostContextID(t.Context(), vacant, made); !ok || err != nil {
		t.Errorf("Own(%q) on another instance = %v, %v", made, ok, err)
	}
	flipped := []byte(made)
	flipped[len(flipped)-4] ^= 1
	for name, c := range map[string]string{
		"none": "", "a chosen one": "my-chat", "a changed one": string(flipped), "a short one": made[:len(made)-2],
		"another prefix": "CTX-" + made[4:], "a spelling of the same": made + "=", "a long one": made + "AAAA",
	} {
		if ok, err := k.IsHostContextID(t.Context(), vacant, c); ok || err != nil {
			t.Errorf("%s: Own(%q) = %v, %v", name, c, ok, err)
		}
	}
	if ok, _ := k.IsHostContextID(t.Context(), identity.ID{2}, made); ok {
		t.Error("a context of one vacant is one of another's")
	}
}

func TestAKeyThatDoesNotOpenIsAnError(t *testing.T) {
	s := memory.New()
	if _, err := keysOver(t, s, "5a").DeriveKey(t.Context(), identity.ID{1}, "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := keysOver(t, s, "6b").DeriveKey(t.Context(), identity.ID{1}, "x"); err == nil {
		t.Error("another host's key opens the secret")
	}
	if s := fmt.Sprintf("%v %+v", keysOver(t, s, "5a"), keysOver(t, s, "5a")); strings.Contains(s, "0x") || strings.Contains(s, "[") {
		t.Errorf("printed: %s", s)
	}
}
