package vacants_test

import (
	"github.com/vacancy-host/vacancy/shared/host/substrate/resources"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/answer/hosttest"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/echo"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/event"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// A registry in a function of its own has no vault: it revokes the key and
// leaves the record. Revoking again at the host changes the record too.
func TestARecordFollowsARevocationThatARegistryWithoutAVaultTook(t *testing.T) {
	s, c := memory.New(), newClock()
	v := host(t, s, vault(t), c.now, hostURL)
	key := newKey(t)
	id := key.ID()
	must(t, errorOf(v.Create(t.Context(), vacants.CreateSpec{Name: "demo", Capability: "c", Substrate: "echo", Key: key})))
	must(t, errorOf2(v.Publish(t.Context(), id, vacants.PublishOptions{})))
	handler := hosttest.NewVacants(t, s, c.now, hostURL, vacants.Config{Resources: &resources.Resources{Substrates: substrate.Kinds{echo.Kind: echo.New}}})
	e := event.Event{Type: event.Revoke, Actor: id, Payload: event.RevokePayload(id, "lost"), IdempotencyKey: "r", Time: c.now().UnixMilli(), ActorSeq: 2}
	must(t, e.Sign(t.Context(), key))
	must(t, errorOf(handler.AcceptRevocation(t.Context(), registry.Revocation{ID: id, Reason: "lost", Time: e.Time, ActorSeq: 2, IdempotencyKey: "r", Signature: e.Signature})))
	if r, err := v.Get(t.Context(), vacants.OperatorAsker(), id); err != nil || r.State != lifecycle.Active {
		t.Fatalf("the record is %s, %v, want ACTIVE as before", r.State, err)
	}
	if gone, err := v.Registry.AreRevoked(t.Context(), id); err != nil || !gone[0] {
		t.Errorf("AreRevoked() = %v, %v, want that calls are refused", gone, err)
	}
	r, receipt, err := v.Revoke(t.Context(), id, "lost")
	if err != nil || !receipt.Replayed || r.State != lifecycle.Sunk {
		t.Errorf("Revoke() = %s, %+v, %v, want SUNK, and the receipt of then", r.State, receipt, err)
	}
	wantWhole(t, s, v, id)
}
