package export_test

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/front/export"
	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/host/answer/hosttest"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/registry/registrytest"
	"github.com/vacancy-host/vacancy/shared/host/substrate/models"
	"github.com/vacancy-host/vacancy/shared/host/substrate/spend"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func TestListsOfTheRegistryAreKeysInPages(t *testing.T) {
	a := hosttest.New(t, memory.New()).Caller()
	want := map[string][]store.Key{export.ListRegistry: nil, export.ListRevoked: nil}
	for _, name := range []string{"one", "two", "three"} {
		r, err := a.Vacants.Create(a.Ctx, vacants.Spec{Name: name, Capability: "c", Substrate: "echo"})
		a.Must(err)
		_, _, err = a.Vacants.Publish(a.Ctx, r.ID, vacants.PublishOptions{})
		a.Must(err)
		want[export.ListRegistry] = append(want[export.ListRegistry], registry.RegistrationKey(r.ID))
		if name == "two" {
			a.Time = a.Time.Add(1)
			_, _, err = a.Vacants.Revoke(a.Ctx, r.ID, "lost")
			a.Must(err)
			want[export.ListRevoked] = append(want[export.ListRevoked], registry.RevokedKey(r.ID))
		}
	}
	h := pagesOf(a)
	for list, want := range want {
		got := map[store.Key]bool{}
		for cursor, more := "", true; more; {
			var page export.DocsPage
			ask(t, h, "GET", "/v1/admin/export/docs?limit=1&list="+list+cursor, "", &page)
			for _, d := range page.Docs {
				if d.Data != nil || d.Version == 0 {
					t.Errorf("%s has %+v, want the key and its version alone", list, d)
				}
				got[store.Key{Partition: d.Partition, Sort: d.Sort}] = true
			}
			cursor, more = "&cursor="+page.Next, page.Next != ""
		}
		all := map[store.Key]bool{}
		for _, k := range want {
			all[k] = true
		}
		if diff := cmp.Diff(all, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", list, diff)
		}
	}
	for query, field := range map[string]string{
		"list=all": "list", "list=children": "of", "list=children&of=x": "of", "list=spend": "of",
		"list=names&of=" + strings.Repeat("ab", identity.Size): "of",
	} {
		var refusal httpapi.Refusal
		if w := ask(t, h, "GET", "/v1/admin/export/docs?"+query, "", &refusal); w.Code != problem.Malformed.Row().Status || refusal.Field != field {
			t.Errorf("%s = %d %s, want the field %s refused", query, w.Code, w.Body, field)
		}
	}
}

func TestDaysOfAVacantsSpendingAreListed(t *testing.T) {
	a := hosttest.New(t, memory.New()).Caller()
	paid := spend.New(store.Updater{Store: a.Store, Rand: rand.Reader}, a.Now, money.Dollar)
	for _, id := range []identity.ID{{1}, {2}} {
		for range 2 {
			c := paid.Begin(spend.Payer{Vacant: id, Daily: money.Dollar, Call: -1}, spend.Prices{Model: models.Price{In: money.Dollar}})
			if _, err := c.Reserve(a.Ctx, false, 30, 10); err != nil {
				t.Fatal(err)
			}
			a.Time = a.Time.Add(24 * time.Hour)
		}
	}
	var page export.DocsPage
	ask(t, pagesOf(a), "GET", "/v1/admin/export/docs?list=spend&of="+(identity.ID{2}).String(), "", &page)
	if len(page.Docs) != 2 || page.Docs[0].Number != 30 || page.Docs[1].Number != 30 || page.Docs[0].Sort >= page.Docs[1].Sort || page.Docs[0].Partition != "spend#"+(identity.ID{2}).String() {
		t.Errorf("the days are %+v", page.Docs)
	}
}

func TestEdgesOfOneParentAreListed(t *testing.T) {
	a := hosttest.New(t, memory.New()).Caller()
	parent, child, other := registrytest.Key(1), registrytest.Key(2), registrytest.Key(3)
	for _, k := range []*identity.Key{child, other} {
		a.Must(a.Vacants.AddManifest(a.Ctx, registrytest.Manifest(t, parent, k, false)))
	}
	h := pagesOf(a)
	for of, want := range map[identity.ID]int{parent.ID(): 2, child.ID(): 0} {
		var page export.DocsPage
		ask(t, h, "GET", "/v1/admin/export/docs?list=children&of="+of.String(), "", &page)
		if len(page.Docs) != want || page.Next != "" {
			t.Errorf("edges of %s = %+v, want %d", of.Short(), page, want)
		}
		for _, d := range page.Docs {
			if d.Data != nil || d.Partition != registry.Edges(of).Partition || d.Sort != child.ID().String() && d.Sort != other.ID().String() {
				t.Errorf("an edge of %s = %+v", of.Short(), d)
			}
		}
	}
}

func TestDocumentsOfTheRegistryAreExportedAndNothingElseOfItsPartitions(t *testing.T) {
	a := hosttest.New(t, memory.New()).Caller()
	_, _, err := a.Vacants.Publish(a.Ctx, a.Demo.ID, vacants.PublishOptions{})
	a.Must(err)
	h := pagesOf(a)
	id := a.Demo.ID
	for k, want := range map[store.Key]int{
		registry.RegistrationKey(id):                           http.StatusOK,
		registry.ManifestKey(id):                               http.StatusOK,
		registry.KinKey(id, id):                                http.StatusOK,
		registry.RevokedKey(id):                                http.StatusOK,
		registry.RevokedListKey():                              http.StatusOK,
		{Partition: "reg#" + id.String(), Sort: "secret"}:      http.StatusForbidden,
		{Partition: "unreached", Sort: "0#1#2"}:                http.StatusForbidden,
		{Partition: "registered#" + id.String(), Sort: "card"}: http.StatusForbidden,
	} {
		var body json.RawMessage
		if w := ask(t, h, "GET", "/v1/admin/export/doc?"+url.Values{"partition": {k.Partition}, "sort": {k.Sort}}.Encode(), "", &body); w.Code != want {
			t.Errorf("document %s = %d, want %d", k, w.Code, want)
		}
	}
}
