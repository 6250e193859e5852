package registry_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/registry/registrytest"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/listing"
)

const hostURL = registrytest.HostURL

var start = registrytest.Start

type draft = registrytest.Draft

func newClock() *registrytest.Clock { return registrytest.NewClock() }

func open(s store.Store, c *registrytest.Clock, change ...func(*registry.Config)) *registry.Registry {
	return registrytest.Open(s, c, change...)
}

func key(n byte) *identity.Key { return registrytest.Key(int(n)) }

// idOf returns the id of key n, or nil for 0.
func idOf(n byte) *identity.ID {
	if n == 0 {
		return nil
	}
	id := key(n).ID()
	return &id
}

func idsOf(keys ...byte) (ids []identity.ID) {
	for _, n := range keys {
		ids = append(ids, key(n).ID())
	}
	return ids
}

func publication(t testing.TB, k *identity.Key, d draft) registry.Publication {
	t.Helper()
	return registrytest.NewPublication(t, k, d)
}

func revocationPut(t testing.TB, k *identity.Key, seq int64, reason string, payload func(identity.ID, string) []byte) registry.Revocation {
	t.Helper()
	return registrytest.NewRevocation(t, k, seq, reason, payload)
}

func manifest(t testing.TB, parent, child *identity.Key, closed bool) composite.Manifest {
	t.Helper()
	return registrytest.NewManifest(t, parent, child, closed)
}

func signedListing(t testing.TB, k *identity.Key, version int64, change func(*listing.Listing)) listing.Listing {
	t.Helper()
	return registrytest.NewListing(t, k, version, change)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// errorOf returns the error of a call that returns a value, too.
func errorOf[T any](_ T, err error) error { return err }

// mustPublish publishes d and returns the receipt.
func mustPublish(t testing.TB, r *registry.Registry, k *identity.Key, d draft) registry.Receipt {
	t.Helper()
	receipt, err := r.Publish(t.Context(), publication(t, k, d))
	if err != nil {
		t.Fatalf("Publish() = %v", err)
	}
	if receipt.AwaitsProbe {
		registrytest.ProbeEndpoints(t, r)
		receipt.AwaitsProbe = false
	}
	return receipt
}

// get returns the registration of id, which must exist.
func get(t testing.TB, r *registry.Registry, id identity.ID) registry.Registration {
	t.Helper()
	g, ok, err := r.Get(t.Context(), id)
	if err != nil || !ok {
		t.Fatalf("Get(%s) = %t, %v", id.Short(), ok, err)
	}
	return g
}

func wantWhole(t testing.TB, s store.Store) {
	t.Helper()
	for _, err := range registrytest.Check(t.Context(), s) {
		t.Error(err)
	}
}

func text(s string) *string { return &s }

// asKept compares the exported fields of registrations and all fields of listings.
var asKept = cmp.Options{
	cmpopts.IgnoreUnexported(registry.Registration{}),
	cmp.Comparer(func(a, b *listing.Listing) bool {
		return a == b || a != nil && b != nil && bytes.Equal(a.Blob(), b.Blob())
	}),
}

// walkable is a store whose streams can be listed.
type walkable interface {
	store.Store
	store.Walker
}

// everything returns the contents of inner by name: the rows and the documents of the feed.
func everything(t testing.TB, home walkable) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := home.Walk(t.Context(), func(v store.View) error { return rowsOf(t.Context(), v, all) })
	must(t, err)
	for cursor := ""; ; {
		docs, next, err := home.Docs(t.Context(), registry.RegistrationDocs.IndexRange(), store.MaxPage, cursor)
		must(t, err)
		for _, d := range docs {
			all[fmt.Sprintf("%s at %d, %s", d.Key, d.Version, d.Index.Sort)] = string(d.Data)
		}
		if cursor = next; cursor == "" {
			return all
		}
	}
}

func rowsOf(ctx context.Context, v store.View, all map[string]string) error {
	streams, _, err := v.Streams(ctx, "", store.MaxPage, "")
	if err != nil {
		return err
	}
	for _, s := range streams {
		rows, err := v.Rows(ctx, s, 1, store.MaxPage, store.Ascending)
		if err != nil {
			return err
		}
		for _, row := range rows {
			all[fmt.Sprintf("%s %d", s, row.Position)] = string(row.Data)
		}
	}
	return nil
}
