package registry_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/registry/registrytest"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/listing"
)

// maxDocument is the size of the largest registration. It limits a publication to 132 write units,
// and to half as many for each side of the index.
const maxDocument = 64 << 10

func TestTheLargestPublicationIsBounded(t *testing.T) {
	home, k := &registrytest.CommitRecorder{Store: memory.New()}, key(1)
	r := open(home, newClock())
	size := len(publication(t, k, draft{Text: "x"}).Card)
	l := signedListing(t, k, listing.MaxVersion, func(l *listing.Listing) {
		l.Summary = strings.Repeat(`"`, listing.MaxSummaryBytes)
		for n := range listing.MaxSkills {
			l.Skills = append(l.Skills, strings.Repeat(`"`, listing.MaxSkillBytes-1)+string(rune('A'+n)))
		}
	})
	p := publication(t, k, draft{Text: strings.Repeat("x", card.MaxBlob-size+1), BeforeSign: func(p *registry.Publication) {
		claim := text(strings.Repeat("\x01", registry.MaxClaimBytes))
		p.BaseModel, p.Family, p.Owner, p.Version, p.Listing = claim, claim, claim, claim, &l
		p.DeclaredCapabilities = slices.Repeat([]string{strings.Repeat("d", 254)}, 32)
	}})
	must(t, errorOf(r.Publish(t.Context(), p)))
	for _, w := range home.LastWrites {
		switch w := w.(type) {
		case store.Put:
			if len(w.Data) > maxDocument {
				t.Errorf("the registration takes %d bytes, want at most %d", len(w.Data), maxDocument)
			}
			t.Logf("the registration takes %d bytes", len(w.Data))
		case store.Append:
			if len(w.Data) > 2<<10 {
				t.Errorf("a row takes %d bytes, want at most 2 KB", len(w.Data))
			}
		}
	}
}
