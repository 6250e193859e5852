package export_test

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/front/export"
	"github.com/vacancy-host/vacancy/shared/host/answer/hosttest"
	"github.com/vacancy-host/vacancy/shared/host/billing"
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
	const listed, revoked = "index=registry", "partition=revoked"
	want := map[string][]store.Key{listed: nil, revoked: {registry.RevokedListKey()}}
	for _, name := range []string{"one", "two", "three"} {
		r, err := a.Vacants.Create(a.Ctx, vacants.CreateSpec{Name: name, Capability: "c", Substrate: "echo"})
		a.Must(err)
		_, _, err = a.Vacants.Publish(a.Ctx, r.ID, vacants.PublishOptions{})
		a.Must(err)
		want[listed] = append(want[listed], registry.RegistrationKey(r.ID))
		if name == "two" {
			a.Time = a.Time.Add(1)
			_, _, err = a.Vacants.Revoke(a.Ctx, r.ID, "lost")
			a.Must(err)
			want[revoked] = append(want[revoked], registry.RevokedKey(r.ID))
		}
	}
	h := pagesOf(a)
	for list, want := range want {
		got := map[store.Key]bool{}
		for cursor, more := "", true; more; {
			var page export.DocsPage
			ask(t, h, "GET", "/v1/admin/export/docs?limit=1&"+list+cursor, "", &page)
			for _, d := range page.Docs {
				if (d.Data == nil) != (list == listed) || d.Version == 0 {
					t.Errorf("%s has %+v, want of an index the key and its version alone", list, d)
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
}

// No range exports secrets, hashes of keys or texts of tasks.
func TestOnlyKindsThatVerifyReadsAreListed(t *testing.T) {
	h := pagesOf(hosttest.New(t, memory.New()).Caller())
	id := strings.Repeat("ab", identity.Size)
	for query, want := range map[string]problem.Kind{
		"": problem.Malformed, "index=registry&partition=name": problem.Malformed, "list=names": problem.Malformed,
		"partition=host": problem.Forbidden, "partition=secret%23": problem.Forbidden, "partition=v%23" + id: problem.Forbidden,
		"partition=acct%23" + id: problem.Forbidden, "partition=acct%23" + id + "&first=key%23&last=key%24": problem.Forbidden,
		"partition=name&first=a": problem.Forbidden, "partition=nowhere": problem.Forbidden, "index=pushes": problem.Forbidden,
		"partition=acct%23" + id + "&first=link%23&last=link%24": 0, "partition=v%23" + id + "&first=forget%23&last=forget%24": 0,
		"partition=spend%23host": problem.Forbidden, "partition=spend%23tenant%23acme": problem.Forbidden, "partition=spend%23" + id: 0,
		"partition=name": 0, "index=open": 0,
	} {
		var answer json.RawMessage
		status := http.StatusOK
		if want != 0 {
			status = want.Forms().HTTPStatus
		}
		if w := ask(t, h, "GET", "/v1/admin/export/docs?"+query, "", &answer); w.Code != status {
			t.Errorf("%s = %d %s, want %d", query, w.Code, w.Body, status)
		}
	}
}

// A page has a megabyte of documents at most, and its cursor continues after them.
func TestAPageOfLargeDocumentsIsShort(t *testing.T) {
	a := hosttest.New(t, memory.New()).Caller()
	account := strings.Repeat("ab", identity.Size)
	for i := range 5 {
		k := billing.LinkedDocs.Key(account, strconv.Itoa(i))
		a.Must(a.Store.Commit(a.Ctx, store.Put{Key: k, WriteID: store.WriteID{byte(i) + 1}, Data: make([]byte, store.MaxData)}))
	}
	h, got, pages := pagesOf(a), "", 0
	for cursor, more := "", true; more; pages++ {
		var page export.DocsPage
		ask(t, h, "GET", "/v1/admin/export/docs?partition=acct%23"+account+"&first=link%23&last=link%24"+cursor, "", &page)
		for _, d := range page.Docs {
			got += strings.TrimPrefix(d.Sort, "link#")
		}
		cursor, more = "&cursor="+page.Next, page.Next != ""
	}
	if got != "01234" || pages != 3 {
		t.Errorf("%d pages of documents %s, want each once in three", pages, got)
	}
}

func TestDaysOfAVacantsSpendingAreListed(t *testing.T) {
	a := hosttest.New(t, memory.New()).Caller()
	paid := spend.New(store.Updater{Store: a.Store, Rand: rand.Reader}, a.Now, money.Dollar)
	for _, id := range []identity.ID{{1}, {2}} {
		for range 2 {
			c := paid.BeginCall(spend.Payer{Vacant: id, DailyBudget: money.Dollar, CallBudget: -1}, spend.Prices{Model: models.Price{InputPrice: money.Dollar}})
			if _, err := c.Reserve(a.Ctx, false, 30, 10); err != nil {
				t.Fatal(err)
			}
			a.Time = a.Time.Add(24 * time.Hour)
		}
	}
	var page export.DocsPage
	ask(t, pagesOf(a), "GET", "/v1/admin/export/docs?partition=spend%23"+(identity.ID{2}).String(), "", &page)
	if len(page.Docs) != 2 || page.Docs[0].Number != 30 || page.Docs[1].Number != 30 || page.Docs[0].Sort >= page.Docs[1].Sort || page.Docs[0].Partition != "spend#"+(identity.ID{2}).String() {
		t.Errorf("the days are %+v", page.Docs)
	}
}

func TestEdgesOfOneParentAreListed(t *testing.T) {
	a := hosttest.New(t, memory.New()).Caller()
	parent, child, other := registrytest.Key(1), registrytest.Key(2), registrytest.Key(3)
	for _, k := range []*identity.Key{child, other} {
		a.Must(a.Vacants.AddManifest(a.Ctx, registrytest.NewManifest(t, parent, k, false)))
	}
	h := pagesOf(a)
	for of, want := range map[identity.ID]int{parent.ID(): 2, child.ID(): 0} {
		var page export.DocsPage
		ask(t, h, "GET", "/v1/admin/export/docs?partition=kin%23"+of.String(), "", &page)
		if len(page.Docs) != want || page.Next != "" {
			t.Errorf("edges of %s = %+v, want %d", of.Short(), page, want)
		}
		for _, d := range page.Docs {
			if d.Partition != "kin#"+of.String() || d.Sort != child.ID().String() && d.Sort != other.ID().String() {
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
		registry.ChildEdgeKey(id, id):                          http.StatusOK,
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
