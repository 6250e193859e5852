package registry_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/registry/registrytest"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/bolt"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/listing"
)

// stores are the stores of one process.
func stores(b *testing.B) map[string]store.Store {
	disk, err := bolt.Open(filepath.Join(b.TempDir(), "store.db"), bolt.Options{})
	must(b, err)
	b.Cleanup(func() { _ = disk.Close() })
	return map[string]store.Store{"memory": memory.New(), "bolt": disk}
}

// The work of a search before it shows a page.
func BenchmarkReadingTwentyRegistrations(b *testing.B) {
	for name, inner := range stores(b) {
		b.Run(name, func(b *testing.B) {
			r := open(inner, newClock())
			var ids []identity.ID
			for n := range 20 {
				k := registrytest.Key(n)
				mustPublish(b, r, k, draft{BeforeSign: func(p *registry.Publication) {
					l := signedListing(b, k, 1, func(l *listing.Listing) { l.Skills, l.Summary = []string{"a", "b"}, "what it can do, in a sentence" })
					p.Listing, p.DeclaredCapabilities = &l, []string{"translate", "summarise"}
				}})
				ids = append(ids, k.ID())
			}
			b.ReportAllocs()
			for b.Loop() {
				all, err := r.GetMany(b.Context(), ids)
				if err != nil || all[19].FirstSeq == 0 {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkPublish(b *testing.B) {
	for name, inner := range stores(b) {
		b.Run(name, func(b *testing.B) {
			r := open(inner, newClock())
			publications := make([]registry.Publication, b.N)
			for n := range publications {
				publications[n] = publication(b, registrytest.Key(n), draft{Text: fmt.Sprintf("vacant number %d", n)})
			}
			b.ResetTimer()
			for n := range publications {
				must(b, errorOf(r.Publish(b.Context(), publications[n])))
			}
		})
	}
}

func BenchmarkDecodeRegistration(b *testing.B) {
	inner, id := kept(b)
	d := doc(b, inner, registry.RegistrationKey(id))
	b.ReportAllocs()
	for b.Loop() {
		must(b, errorOf(registry.RegistrationDocs.Parse(d)))
	}
}
