package discovery_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/client/discovery"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch/dispatchtest"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch/filebook"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch/memorybook"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func TestAnAddressThatLeadsToAnotherVacantIsReportedOnce(t *testing.T) {
	a, b := dispatchtest.NewKey(t, 10).ID(), dispatchtest.NewKey(t, 11).ID()
	var none identity.ID
	for name, m := range map[string]discovery.Memory{"files": &filebook.Book{Dir: t.TempDir()}, "memory": &memorybook.Book{}} {
		for i, step := range []struct {
			address string
			id      identity.ID
			want    identity.ID
		}{
			{"https://h.example/v/shop", a, none}, {"https://h.example/v/shop", a, none}, {"https://h.example/v/SHOP", b, none},
			{"https://h.example/v/shop", b, a}, {"https://h.example/v/shop", b, none}, {"https://h.example/v/shop", a, b},
			{"", b, none}, {"", a, none}, {"https://h.example/" + strings.Repeat("x", 2000), a, none}, {"https://h.example/" + strings.Repeat("x", 2000), b, none},
		} {
			got, err := discovery.RecordAddress(t.Context(), m, dispatch.Target{ID: step.id, Address: step.address}, time.Now())
			if got != step.want || err != nil {
				t.Errorf("%s: step %d: Revisit() = %s, %v, want %s", name, i, got.Short(), err, step.want.Short())
			}
		}
	}
}

func TestAddressesAreBoundedAndManyAtOnce(t *testing.T) {
	m, now := &memorybook.Book{}, time.Now()
	id := dispatchtest.NewKey(t, 10).ID()
	var all sync.WaitGroup
	for n := range 4100 {
		all.Go(func() {
			_, _ = discovery.RecordAddress(context.Background(), m, dispatch.Target{ID: id, Address: fmt.Sprint("https://h.example/v/", n)}, now.Add(time.Duration(n)))
		})
	}
	all.Wait()
	err := m.Change(t.Context(), identity.ID{}, func(r *discovery.SavedData) bool {
		if len(r.Addresses) != 4096 {
			t.Errorf("%d addresses are stored, want 4096", len(r.Addresses))
		}
		data, err := r.Encode()
		if err != nil {
			t.Error(err)
		}
		if back, err := discovery.DecodeSavedData(data); err != nil || len(back.Addresses) != 4096 {
			t.Errorf("DecodeSavedData() = %d addresses, %v", len(back.Addresses), err)
		}
		return false
	})
	if err != nil {
		t.Error(err)
	}
}

func TestAddressesOfTargets(t *testing.T) {
	id := dispatchtest.NewKey(t, 10).ID().String()
	for given, want := range map[string]string{
		"https://h.example/v/shop":                   "https://h.example/v/shop",
		"https://h.example/v/shop/":                  "https://h.example/v/shop",
		"https://h.example/v/shop/a2a/message/send":  "https://h.example/v/shop",
		"https://h.example":                          "https://h.example",
		"https://h.example/v/" + id:                  "",
		"https://h.example/v/" + id + "/a2a/message": "",
		"shop": "",
	} {
		if got := dispatch.AddressOf(given); got != want {
			t.Errorf("AddressOf(%s) = %q, want %q", given, got, want)
		}
	}
}
