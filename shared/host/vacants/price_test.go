package vacants_test

import (
	"context"
	"sync"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

func TestAPriceIsAVersionInRecordListingAndLogbook(t *testing.T) {
	v := fresh(t)
	v.FeeBasisPoints = 250
	id := create(t, v, "demo").ID
	set := func(p price.Price) vacants.Record {
		t.Helper()
		r, err := v.SetPrice(t.Context(), id, p)
		must(t, err)
		return r
	}
	version := func(n uint64) price.Price {
		t.Helper()
		p, err := price.Get(t.Context(), v.Store, id, n)
		must(t, err)
		return p
	}
	if r := set(price.Price{}); r.Price != nil {
		t.Errorf("a price of 0 on a vacant without one = %+v, want nothing done", r.Price)
	}
	r := set(price.Price{Flat: 2000, Version: 7, FeeBasisPoints: 9999})
	if r.Price.Version != 1 || r.Price.FeeBasisPoints != 250 || version(1) != *r.Price {
		t.Errorf("SetPrice() = %+v, kept %+v", r.Price, version(1))
	}
	if again := set(price.Price{Flat: 2000}); *again.Price != *r.Price || !again.ChangedAt.Equal(r.ChangedAt) {
		t.Errorf("the same again = %+v, want nothing done", again.Price)
	}
	if kinds := story(t, v, id); kinds[len(kinds)-1] != logbook.KindPriced+` {"most":2000,"version":1}` {
		t.Errorf("the logbook ends with %s", kinds[len(kinds)-1])
	}
	// A publication lists the price, and a change of it changes the listing in its commit.
	must(t, errorOf2(v.Publish(t.Context(), id, vacants.PublishOptions{Listing: &vacants.ListingOptions{Tags: []string{"t"}}})))
	if l := registration(t, v, id).Listing; l == nil || l.Price != 2000 || !l.Verify() {
		t.Errorf("listed: %+v", l)
	}
	r = set(price.Price{InputPrice: money.Dollar, MaxCharge: 500})
	if l := registration(t, v, id).Listing; l.Price != 500 || len(l.Tags) != 1 || !l.Verify() || r.Price.Version != 2 {
		t.Errorf("listed: %+v of version %d", l, r.Price.Version)
	}
	before := registration(t, v, id)
	if set(price.Price{InputPrice: money.Dollar, MaxCharge: 500, FreePerSigner: 3}); registration(t, v, id).ActorSeq != before.ActorSeq {
		t.Error("free calls, which no listing has, made another publication")
	}
	r = set(price.Price{})
	if l := registration(t, v, id).Listing; l.Price != 0 || r.Price.Version != 4 || !r.Price.IsFree() {
		t.Errorf("listed: %+v of %+v", l, r.Price)
	}
	if version(1).Flat != 2000 || version(2).MaxCharge != 500 {
		t.Error("a version was changed")
	}
	got, ok, err := answering(v).Vacant(t.Context(), id, true)
	if err != nil || !ok || !got.Price.IsFree() {
		t.Errorf("Vacant() = %+v, %v", got.Price, err)
	}
}

func TestPricesSetAtOnceAreVersionsOfTheirOwn(t *testing.T) {
	v := fresh(t)
	id := create(t, v, "demo").ID
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			if _, err := v.SetPrice(context.Background(), id, price.Price{Flat: money.Amount(i + 1)}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	r, err := v.Get(t.Context(), vacants.OperatorAsker(), id)
	if err != nil || r.Price.Version != 8 {
		t.Errorf("Get() = version %d, %v; want 8", r.Price.Version, err)
	}
}

func TestPricesThatAreRefused(t *testing.T) {
	v := fresh(t)
	id, sunk := create(t, v, "demo").ID, create(t, v, "sunk").ID
	do(t, v, sunk, "sink")
	for _, tt := range []struct {
		id   identity.ID
		p    price.Price
		want problem.Kind
	}{
		{id, price.Price{Flat: -1}, problem.Malformed},
		{id, price.Price{InputPrice: 1}, problem.Malformed},
		{sunk, price.Price{Flat: 1}, problem.Conflict},
		{identity.ID{9}, price.Price{Flat: 1}, problem.NotFound},
	} {
		_, err := v.SetPrice(t.Context(), tt.id, tt.p)
		wantKind(t, "SetPrice()", err, tt.want)
	}
}
