package faults

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/registry/registrytest"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/dynamo"
	"github.com/vacancy-host/vacancy/shared/vacant/event"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/tests/dynamolocal"
	"github.com/vacancy-host/vacancy/tests/roundtrips"
)

func TestRegistryOverDynamoDBLocal(t *testing.T) {
	registrytest.Run(t, func(t testing.TB) store.Store { return dynamolocal.Store(t) })
}

// maxPublishUnits are the promised units of a publication, the index included.
const maxPublishUnits = 12

// The units that DynamoDB reports for the publication of a card of 1 KB, and
// the units of docs' index, which its answers do not contain: an entry is
// removed at its old place and added at its new one.
func TestAPublishOfOneKilobyteIsOneTransactionOfTwelveUnits(t *testing.T) {
	endpoint := dynamolocal.Start(t)
	counter := &roundtrips.Counter{}
	s := dynamo.New(dynamolocal.Client(endpoint, counter.Option), dynamolocal.Tables(t, endpoint))
	clock := registrytest.NewClock()
	r, k := registrytest.Open(s, clock), registrytest.Key(1)
	here, elsewhere := registrytest.HostURL+k.ID().String(), "https://away.example/v/"+k.ID().String() // of one length
	kilobyte := func(c string) string {
		size := len(registrytest.NewPublication(t, k, registrytest.Draft{Text: "x", Endpoint: here}).Card)
		return strings.Repeat(c, 1024-size+1)
	}
	// The first of a host makes the count of venues.
	if _, err := r.Publish(t.Context(), registrytest.NewPublication(t, registrytest.Key(2), registrytest.Draft{})); err != nil {
		t.Fatal(err)
	}
	before := 0
	var card identity.Hash
	for i, step := range []struct {
		fact string
		d    registrytest.Draft
		most float64
		// counts: it lists the vacant or removes it from search, which the count of venues
		// takes two units for.
		counts bool
	}{
		{"the first", registrytest.Draft{Text: kilobyte("a"), Endpoint: here}, maxPublishUnits, true},
		{"another visibility", registrytest.Draft{Text: kilobyte("a"), Endpoint: here, Visibility: lifecycle.Hidden}, maxPublishUnits, true},
		{"another card", registrytest.Draft{Text: kilobyte("b"), Endpoint: here}, maxPublishUnits, true},
		{"another card alone", registrytest.Draft{Text: kilobyte("c"), Endpoint: here}, maxPublishUnits, false},
		{"another host, which is probed", registrytest.Draft{Text: kilobyte("c"), Endpoint: elsewhere}, maxPublishUnits + 2, true},
	} {
		step.d.Seq = int64(i + 1)
		step.d.Key = event.ReplacesKeyAt(card, step.d.Seq)
		p := registrytest.NewPublication(t, k, step.d)
		if len(p.Card) != 1024 {
			t.Fatalf("the card has %d bytes, want 1024", len(p.Card))
		}
		counter.Reset()
		receipt, err := r.Publish(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		card = receipt.CardHash
		got := counter.Operations()
		slices.Sort(got)
		want := []string{"GetItem", "Query", "Query", "TransactWriteItems"}
		if step.counts {
			step.most += 2
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: requests (-want +got):\n%s", step.fact, diff)
		}
		entry, size := indexUnits(t, s, k.ID())
		units := counter.WriteUnits()
		t.Logf("%s: %v units in the transaction, and %d in the index; the item has %d bytes", step.fact, units, before+entry, size)
		if total := units + float64(before+entry); total > step.most {
			t.Errorf("%s: %v units, want at most %v", step.fact, total, step.most)
		}
		before = entry
	}
}

// indexUnits are the units of adding id's registration to the index, and the
// size of its item, all of which is in the index.
func indexUnits(t *testing.T, s store.Store, id identity.ID) (units, size int) {
	t.Helper()
	return entryUnits(t, s, registry.RegistrationKey(id))
}

// entryUnits are the units of adding a document to the index, or removing it.
func entryUnits(t *testing.T, s store.Store, k store.Key) (units, size int) {
	t.Helper()
	doc, err := s.Doc(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	text := func(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
	size = dynamo.ItemSize(map[string]types.AttributeValue{
		"pk": text(doc.Key.Partition), "sk": text(doc.Key.Sort), "xp": text(doc.Index.Partition), "xs": text(doc.Index.Sort),
		"v": &types.AttributeValueMemberN{Value: strconv.FormatUint(doc.Version, 10)},
		"a": &types.AttributeValueMemberB{Value: doc.WriteID[:]},
		"d": &types.AttributeValueMemberB{Value: doc.Data},
	})
	return dynamo.WriteUnits(size), size
}
