package registry_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/event"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// walkable is a store whose streams can be listed.
type walkable interface {
	store.Store
	store.Walker
}

// everything is all that lies in home, by name.
func everything(t testing.TB, home walkable) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := home.Walk(context.Background(), func(v store.View) error {
		streams, _, err := v.Streams(context.Background(), "", store.MaxPage, "")
		if err != nil {
			return err
		}
		for _, s := range streams {
			rows, err := v.Rows(context.Background(), s, 1, store.MaxPage, store.Ascending)
			if err != nil {
				return err
			}
			for _, row := range rows {
				all[fmt.Sprintf("%s %d", s, row.Position)] = string(row.Data)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for cursor := ""; ; {
		docs, next, err := home.Docs(t.Context(), store.Range{Partition: registry.FeedPartition, Index: true}, store.MaxPage, cursor)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range docs {
			all[fmt.Sprintf("%s at %d, %s", d.Key, d.Version, d.Index.Sort)] = string(d.Data)
		}
		if cursor = next; cursor == "" {
			return all
		}
	}
}

// wantWhole checks the package's invariant over everything in home: one chain
// of events without a gap, whose every event is its actor's next and signed;
// every registration is what its vacant's last event says; nothing follows a
// revocation, which has its document.
func wantWhole(t testing.TB, home walkable) {
	t.Helper()
	ctx := context.Background()
	last := map[identity.ID]registry.Logged{}
	joined := map[identity.ID]uint64{}
	var prev identity.Hash
	rows, err := home.Rows(ctx, registry.EventStream(), 1, store.MaxPage, store.Ascending)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		leaf, err := registry.DecodeEventRow(row)
		if err != nil {
			t.Fatal(err)
		}
		own, err := home.Rows(ctx, registry.ActorStream(leaf.Actor), uint64(leaf.ActorSeq), 1, store.Ascending)
		if err != nil || len(own) != 1 {
			t.Fatalf("event %d is not its actor's: %d, %v", leaf.Seq, len(own), err)
		}
		l, err := registry.DecodeActorRow(leaf.Actor, own[0])
		if err != nil {
			t.Fatal(err)
		}
		if l.Seq != leaf.Seq || l.Hash != leaf.Hash || l.Prev != prev || leaf.Prev != prev || !l.Verify() {
			t.Errorf("event %d is not the next of the chain", leaf.Seq)
		}
		if was := last[l.Actor]; l.ActorSeq != was.ActorSeq+1 || was.Type == event.Revoke {
			t.Errorf("event %d of %s follows its event %d of type %s", l.ActorSeq, l.Actor.Short(), was.ActorSeq, was.Type)
		}
		if last[l.Actor] = l; joined[l.Actor] == 0 {
			joined[l.Actor] = l.Seq
		}
		prev = leaf.Hash
	}
	for id, l := range last {
		wantFits(t, home, id, l, joined[id])
	}
}

func wantFits(t testing.TB, home walkable, id identity.ID, l registry.Logged, joined uint64) {
	t.Helper()
	ctx := context.Background()
	rows, err := home.Rows(ctx, registry.ActorStream(id), 1, store.MaxPage, store.Ascending)
	if err != nil || int64(len(rows)) != l.ActorSeq {
		t.Errorf("%s has %d events, %d of them in the chain: %v", id.Short(), len(rows), l.ActorSeq, err)
	}
	gone, err := home.Doc(ctx, registry.RevokedKey(id))
	if err != nil || (gone.Version > 0) != (l.Type == event.Revoke) {
		t.Errorf("%s: revocation at version %d, its last event is %s: %v", id.Short(), gone.Version, l.Type, err)
	}
	d, err := home.Doc(ctx, registry.RegistrationKey(id))
	if err != nil {
		t.Fatal(err)
	}
	if d.Version == 0 && l.Type == event.Revoke && l.ActorSeq == 1 {
		return
	}
	g, err := registry.DecodeRegistration(id, d)
	if err != nil {
		t.Fatal(err)
	}
	if g.LastSeq != l.Seq || g.ActorSeq != l.ActorSeq || g.Joined != joined || (g.Status == registry.StatusRevoked) != (l.Type == event.Revoke) {
		t.Errorf("registration of %s = last %d, count %d, joined %d, %s; its last event is %+v", id.Short(), g.LastSeq, g.ActorSeq, g.Joined, g.Status, l)
	}
	if l.Type != event.Register {
		return
	}
	said, err := l.Registered()
	if err != nil || said.Card != g.CardHash || said.Visibility != g.Signed || g.Closed && g.Visibility != lifecycle.Hidden {
		t.Errorf("registration of %s = %s, %s, its event says %+v, %v", id.Short(), g.CardHash, g.Visibility, said, err)
	}
}
