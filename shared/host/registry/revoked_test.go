package registry_test

import (
	"context"
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/registry/registrytest"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/event"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// asked counts the document reads.
type asked struct {
	store.Store
	docs int
}

func (a *asked) Doc(ctx context.Context, k store.Key) (store.Doc, error) {
	a.docs++
	return a.Store.Doc(ctx, k)
}

func TestCheckingManyRevocationsIsOneRead(t *testing.T) {
	home := &asked{Store: memory.New()}
	r := open(home, newClock())
	bad, good, other := key(1), key(2), key(3)
	want := func(reads int, revoked ...bool) {
		t.Helper()
		home.docs = 0
		got, err := r.AreRevoked(t.Context(), bad.ID(), good.ID(), other.ID())
		if diff := cmp.Diff(revoked, got); err != nil || diff != "" || home.docs != reads {
			t.Errorf("AreRevoked() = %v, %d reads, want %d (-want +got):\n%s", err, home.docs, reads, diff)
		}
	}
	want(1, false, false, false)
	must(t, errorOf(registrytest.Revoke(t.Context(), r, revocationPut(t, bad, 1, "lost", event.RevokePayload))))
	want(2, true, false, false)
	must(t, errorOf(registrytest.Revoke(t.Context(), r, revocationPut(t, other, 1, "lost", event.RevokePayload))))
	want(3, true, false, true)
	all, next, err := r.ListRevocations(t.Context(), "", 10)
	if err != nil || len(all) != 2 || next != "" {
		t.Errorf("ListRevocations() = %d, %v, want the two and not their list", len(all), err)
	}
}

// An id with the same prefix as a revoked id is looked up itself. A long list becomes a filter.
func TestAListOfRevocationsOnlyEverLeavesOpenWhatItIsNotSureOf(t *testing.T) {
	inner := memory.New()
	r := open(inner, newClock())
	bad := key(1)
	must(t, errorOf(registrytest.Revoke(t.Context(), r, revocationPut(t, bad, 1, "lost", event.RevokePayload))))
	alike := bad.ID()
	alike[31] ^= 1
	if got, err := r.AreRevoked(t.Context(), alike, bad.ID()); err != nil || got[0] || !got[1] {
		t.Errorf("AreRevoked() of one alike and of it = %v, %v, want false, true", got, err)
	}
	id := bad.ID()
	full := append([]byte{1, 0}, id[:8]...)
	for i := range uint64(399) {
		full = binary.BigEndian.AppendUint64(full, i)
	}
	d, err := inner.Doc(t.Context(), registry.RevokedListKey())
	must(t, err)
	must(t, inner.Commit(t.Context(), store.Put{Key: d.Key, IfVersion: d.Version, WriteID: store.WriteID{1}, Data: full}))
	for n := byte(2); n <= 3; n++ { // the one that makes the list too long, and one more
		must(t, errorOf(registrytest.Revoke(t.Context(), r, revocationPut(t, key(n), 1, "lost", event.RevokePayload))))
	}
	d, err = inner.Doc(t.Context(), registry.RevokedListKey())
	if err != nil || len(d.Data) != 2+3584 {
		t.Errorf("a list of many has %d bytes, %v, want 3586", len(d.Data), err)
	}
	got, err := r.AreRevoked(t.Context(), key(2).ID(), key(3).ID(), bad.ID(), key(4).ID())
	if diff := cmp.Diff([]bool{true, true, true, false}, got); err != nil || diff != "" {
		t.Errorf("AreRevoked() = %v (-want +got):\n%s", err, diff)
	}
	// The filter still rules out almost all other ids. Otherwise every call would pay for another
	// read.
	list, err := registry.RevokedListDocs.Parse(d)
	must(t, err)
	open := 0
	for i := range 10_000 {
		if list.MayContain(identity.ID(identity.Sum(binary.BigEndian.AppendUint64(nil, uint64(i))))) {
			open++
		}
	}
	if open > 10 {
		t.Errorf("402 revocations leave %d of 10,000 others open, want at most 10", open)
	}
}

func TestAListOfRevocationsThatIsDamagedAcceptsNobody(t *testing.T) {
	for name, data := range map[string][]byte{
		"empty": {}, "a newer format": {2, 0}, "no kind": {1, 2}, "half an id": {1, 0, 9, 9}, "a filter cut off": append([]byte{1, 1}, make([]byte, 3583)...),
	} {
		inner := memory.New()
		must(t, inner.Commit(t.Context(), store.Put{Key: registry.RevokedListKey(), WriteID: store.WriteID{1}, Data: data}))
		if got, err := open(inner, newClock()).AreRevoked(t.Context(), identity.ID{9}); err == nil {
			t.Errorf("AreRevoked() by a list that is %s = %v, want an error", name, got)
		}
	}
}
