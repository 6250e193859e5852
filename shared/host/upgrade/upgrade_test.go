package upgrade_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/vacancy-host/vacancy/shared/host/answer/hosttest"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/sealed"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/tenant/quota"
	"github.com/vacancy-host/vacancy/shared/host/upgrade"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// tracked is a store that records its documents and ends its process after some commits.
type tracked struct {
	*memory.Store
	mu   sync.Mutex
	keys map[store.Key]bool
	left int // commits until the end; negative means no end
	// searched counts the reads that list tasks.
	searched atomic.Int64
}

func (s *tracked) Docs(ctx context.Context, r store.Range, n int, cursor string) ([]store.Doc, string, error) {
	if strings.HasPrefix(r.Partition, "tasks#") {
		s.searched.Add(1)
	}
	return s.Store.Docs(ctx, r, n, cursor)
}

var errEnded = errors.New("the process was killed")

func (s *tracked) Commit(ctx context.Context, writes ...store.Write) error {
	s.mu.Lock()
	if s.left == 0 {
		s.mu.Unlock()
		return errEnded
	}
	s.left--
	for _, w := range writes {
		switch w := w.(type) {
		case store.Put:
			s.keys[w.Key] = true
		case store.Add:
			s.keys[w.Key] = true
		}
	}
	s.mu.Unlock()
	return s.Store.Commit(ctx, writes...)
}

// all returns the documents without the version and without members that every commit changes.
func (s *tracked) all(t testing.TB) map[store.Key]store.Doc {
	t.Helper()
	docs := map[store.Key]store.Doc{}
	for k := range s.keys {
		d, err := s.Doc(t.Context(), k)
		if err != nil {
			t.Fatal(err)
		}
		if d.WriteID = (store.WriteID{}); d.Version > 0 && k != upgrade.VersionDocs.Key() {
			d.Version = 0
			docs[k] = d
		}
	}
	return docs
}

// host is a host with vacants of tenants.
type host struct {
	*hosttest.Fixture
	store *tracked
}

func newHost(t testing.TB) *host {
	s := &tracked{Store: memory.New(), keys: map[store.Key]bool{}, left: -1}
	h := &host{hosttest.New(t, s), s}
	for name, tenant := range map[string]string{"Shop": "acme", "clerk": "acme", "sold": "acme", "left": ""} {
		h.create(tenant, name)
	}
	// There are a tombstone with its name, and a tombstone whose name has another owner.
	for _, name := range []string{"sold", "left"} {
		r, err := h.Vacants.GetByName(h.Ctx, vacants.OperatorAsker(), name)
		h.Must(err)
		for _, change := range []func(context.Context, identity.ID) (vacants.Record, error){h.Vacants.Sink, h.Vacants.Archive, h.Vacants.Delete} {
			_, err = change(h.Ctx, r.ID)
			h.Must(err)
		}
	}
	h.create("", "left")
	clerk, err := h.Vacants.GetByName(h.Ctx, vacants.OperatorAsker(), "clerk")
	h.Must(err)
	_, err = h.Vacants.Update(h.Ctx, clerk.ID, vacants.Changes{Asker: vacants.OperatorAsker(), Agent: &definition.Agent{Provider: substrate.KindMock}})
	h.Must(err)
	_, _, err = h.Vacants.Publish(h.Ctx, clerk.ID, vacants.PublishOptions{})
	h.Must(err)
	return h
}

func (h *host) create(tenant, name string) vacants.Record {
	h.Helper()
	r, err := h.Vacants.Create(h.Ctx, vacants.CreateSpec{Asker: vacants.OperatorAsker(), Tenant: tenant, Name: name, Capability: "c", Substrate: "echo"})
	h.Must(err)
	return r
}

func (h *host) data() upgrade.Data {
	return upgrade.Data{Store: h.store, Vault: h.Vault, Texts: h.Texts, HasQueue: true, Program: "test", Log: slog.New(slog.DiscardHandler), Now: h.Now, Rand: rand.Reader}
}

// write replaces a document, or deletes it if it has no data and no number.
func (h *host) write(d store.Doc) {
	h.Helper()
	was, err := h.store.Doc(h.Ctx, d.Key)
	h.Must(err)
	if d.Data == nil && d.Number == 0 {
		if was.Version > 0 {
			h.Must(h.store.Commit(h.Ctx, store.Delete{Key: d.Key, IfVersion: was.Version}))
		}
		return
	}
	id := store.WriteID{}
	_, _ = rand.Read(id[:])
	h.Must(h.store.Commit(h.Ctx, store.Put{Key: d.Key, IfVersion: was.Version, WriteID: id, Data: d.Data, Number: d.Number, Index: d.Index, Expires: d.Expires}))
}

var (
	formatOfRecord = regexp.MustCompile(`^\{"format":5`)
	storedBytes    = regexp.MustCompile(`,"stored":\d+`)
)

// age converts the documents to the form of an earlier version of the program.
func (h *host) age(format int) {
	h.Helper()
	for k, d := range h.store.all(h) {
		switch {
		case vacants.RecordDocs.Matches(k):
			of := format
			if of == 1 && bytes.Contains(d.Data, []byte(`"agent":`)) {
				of = 2
			}
			d.Data = formatOfRecord.ReplaceAll(d.Data, fmt.Appendf(nil, `{"format":%d`, of))
			d.Data = storedBytes.ReplaceAll(d.Data, nil)
			d.Index = store.Key{}
			h.write(d)
		case vacants.NameDocs.Matches(k):
			h.write(store.Doc{Key: k})
			d.Key.Sort, d.Index = d.Index.Sort, store.Key{}
			h.write(d)
		case vacants.NamelessTombstoneDocs.Matches(k):
			d.Index = store.Key{}
			h.write(d)
		case vacants.NameOwnerDocs.Matches(k), k == registry.ListedCountKey(), quota.UsageDocs.Matches(k):
			h.write(store.Doc{Key: k})
		case k == vacants.HostIdentityKey():
			d.Data = h.sealAs(d, sealed.Host, sealed.Vacant)
			h.write(d)
		}
	}
}

// sealAs returns the host's identity, sealed with another kind.
func (h *host) sealAs(d store.Doc, from, to sealed.Kind) []byte {
	h.Helper()
	id, err := vacants.CheckHostIdentity(h.Ctx, d, h.Vault)
	h.Must(err)
	seed := regexp.MustCompile(`"seed":"([^"]*)"`)
	box, err := base64.StdEncoding.DecodeString(string(seed.FindSubmatch(d.Data)[1]))
	h.Must(err)
	key, err := from.Open(h.Ctx, h.Vault, id, box)
	h.Must(err)
	box, err = to.Seal(h.Ctx, h.Vault, key)
	h.Must(err)
	return seed.ReplaceAll(d.Data, []byte(`"seed":"`+base64.StdEncoding.EncodeToString(box)+`"`))
}

// same compares documents. Boxes differ each time they are sealed, and the next new vacant of a
// tenant counts its vacants.
var same = cmp.Options{
	cmpopts.EquateEmpty(),
	cmpopts.IgnoreMapEntries(func(k store.Key, _ store.Doc) bool {
		return k == vacants.HostIdentityKey() || quota.UsageDocs.Matches(k) && k.Sort == string(quota.Vacants)
	}),
}

func TestDocumentsOfEarlierProgramsGetTodaysForm(t *testing.T) {
	for format := 1; format <= 5; format++ {
		h := newHost(t)
		want := h.store.all(t)
		h.age(format)
		v, err := upgrade.Run(t.Context(), h.data())
		if err != nil {
			t.Fatal(err)
		}
		if v.Version != upgrade.CurrentVersion || v.Previous != 1 || v.Program != "test" || v.ReachedAt.IsZero() {
			t.Errorf("Run() = %+v", v)
		}
		if diff := cmp.Diff(want, h.store.all(t), same); diff != "" {
			t.Errorf("format %d (-want +got):\n%s", format, diff)
		}
		h.works()
		before := h.store.all(t)
		if again, err := upgrade.Run(t.Context(), h.data()); err != nil || again != v {
			t.Errorf("Run() again = %+v, %v", again, err)
		}
		if diff := cmp.Diff(before, h.store.all(t)); diff != "" {
			t.Errorf("Run() again changed (-want +got):\n%s", diff)
		}
	}
}

// works checks that the host finds its vacants and its identity and accepts calls and changes.
func (h *host) works() {
	h.Helper()
	h.OpenHost("http://127.0.0.1:8080")
	if _, err := h.Vacants.HostSigner(h.Ctx); err != nil {
		h.Errorf("the host's identity: %v", err)
	}
	records, _, err := h.Vacants.List(h.Ctx, vacants.TenantAsker("acme"), "", 10)
	if err != nil || len(records) != 2 {
		h.Errorf("tenant acme has %v, %v, want clerk and Shop", records, err)
	}
	for name, want := range map[string]bool{"Shop": true, "clerk": true, "left": true, "shop": false} {
		if _, err := h.Vacants.GetByName(h.Ctx, vacants.OperatorAsker(), name); (err == nil) != want {
			h.Errorf("GetByName(%s) = %v", name, err)
		}
	}
	if _, err := h.Vacants.Create(h.Ctx, vacants.CreateSpec{Asker: vacants.TenantAsker("eve"), Tenant: "eve", Name: "SOLD", Capability: "c", Substrate: "echo"}); !problem.Is(err, problem.Conflict) {
		h.Errorf("another tenant takes the name of a deleted vacant: %v", err)
	}
}

func TestAnUpgradeGoesOnAfterEachOfItsCommits(t *testing.T) {
	for n := 0; ; n++ {
		h := newHost(t)
		want := h.store.all(t)
		h.age(2)
		h.store.left = n
		_, killed := upgrade.Run(t.Context(), h.data())
		h.store.left = -1
		if killed != nil && !errors.Is(killed, errEnded) {
			t.Fatal(killed)
		}
		if _, err := upgrade.Run(t.Context(), h.data()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, h.store.all(t), same); diff != "" {
			t.Errorf("killed at commit %d (-want +got):\n%s", n+1, diff)
		}
		h.works()
		if killed == nil {
			if n < 15 {
				t.Errorf("the upgrade has %d commits, want more", n)
			}
			return
		}
	}
}

// Tasks are searched per vacant and account, which needs many reads.
func TestOnlyTasksOfProgramsWithFormerOwnersAreSearched(t *testing.T) {
	for format, want := range map[int]bool{2: true, 5: false} {
		h := newHost(t)
		h.write(store.Doc{Key: billing.TenantDocs.Key("acme"), Data: []byte("account")})
		h.age(format)
		if _, err := upgrade.Run(t.Context(), h.data()); err != nil {
			t.Fatal(err)
		}
		if got := h.store.searched.Load() > 0; got != want {
			t.Errorf("format %d: tasks were searched: %t, want %t", format, got, want)
		}
	}
}

func TestNamesThatDifferByCaseLeadWhereTheyLed(t *testing.T) {
	for _, names := range [][]string{{"SHOP", "Shop", "shoP"}, {"Shop", "shop"}, {"shop", "SHOP", "Shop"}} {
		h := newHost(t)
		_, err := h.Vacants.ReleaseName(h.Ctx, "none")
		if !problem.Is(err, problem.NotFound) {
			t.Fatal(err)
		}
		r, err := h.Vacants.GetByName(h.Ctx, vacants.OperatorAsker(), "Shop")
		h.Must(err)
		before := map[string]identity.ID{}
		for i, name := range names {
			h.Time = h.Time.Add(1)
			r = h.create(fmt.Sprint("tenant", i), fmt.Sprint("x", i))
			before[name] = r.ID
		}
		h.age(4)
		shop := vacants.NameDocs.Key("Shop")
		h.write(store.Doc{Key: shop}) // the one of newHost
		for i, name := range names {
			old := vacants.NameDocs.Key(fmt.Sprint("x", i))
			d, err := h.store.Doc(h.Ctx, old)
			h.Must(err)
			h.write(store.Doc{Key: old})
			h.write(store.Doc{Key: vacants.NameDocs.Key(name), Data: d.Data})
			rec, err := h.store.Doc(h.Ctx, vacants.RecordKey(before[name]))
			h.Must(err)
			rec.Data = bytes.Replace(rec.Data, fmt.Appendf(nil, `"name":"x%d"`, i), []byte(`"name":"`+name+`"`), 1)
			h.write(rec)
		}
		if _, err := upgrade.Run(t.Context(), h.data()); err != nil {
			t.Fatal(err)
		}
		h.OpenHost("http://127.0.0.1:8080")
		for name, id := range before {
			if r, err := h.Vacants.GetByName(h.Ctx, vacants.OperatorAsker(), name); err != nil || r.ID != id {
				t.Errorf("%v: GetByName(%s) = %s, %v, want %s", names, name, r.ID, err, id)
			}
			if r, ok, err := h.Vacants.FindCachedByName(h.Ctx, name); err != nil || !ok || r.ID != id {
				t.Errorf("%v: FindCachedByName(%s) = %s, %t, %v", names, name, r.ID, ok, err)
			}
		}
		for _, name := range []string{"SHOp", "shop", "Shop"} {
			if _, err := h.Vacants.Create(h.Ctx, vacants.CreateSpec{Asker: vacants.OperatorAsker(), Name: name, Capability: "c", Substrate: "echo"}); !problem.Is(err, problem.Conflict) {
				t.Errorf("%v: Create(%s) = %v, want a conflict", names, name, err)
			}
		}
		// Each name is changed, so that the operator can then assign it.
		for i, name := range names {
			r, err := h.Vacants.GetByName(h.Ctx, vacants.OperatorAsker(), name)
			h.Must(err)
			to := fmt.Sprint("y", i)
			_, err = h.Vacants.Update(h.Ctx, r.ID, vacants.Changes{Asker: vacants.OperatorAsker(), Name: &to})
			h.Must(err)
		}
		for i := range names {
			tenant := fmt.Sprint("tenant", i)
			if _, err := h.Vacants.Create(h.Ctx, vacants.CreateSpec{Asker: vacants.TenantAsker(tenant), Tenant: tenant, Name: "shop", Capability: "c", Substrate: "echo"}); !problem.Is(err, problem.Conflict) {
				t.Errorf("%v: %s takes the name of three tenants: %v", names, tenant, err)
			}
		}
		if r := h.create("tenant0", "Shop"); r.Name != "Shop" {
			t.Errorf("the operator cannot give the name away")
		}
	}
}

func TestBytesOfBeforeCountInTheTenantsQuota(t *testing.T) {
	h := newHost(t)
	used := func() int64 {
		d, err := h.store.Doc(h.Ctx, quota.UsageDocs.Key("acme", string(quota.Megabytes)))
		h.Must(err)
		return d.Number
	}
	want := used()
	h.age(2)
	if _, err := upgrade.Run(t.Context(), h.data()); err != nil || want == 0 || used() != want {
		t.Errorf("Run() = %v, then tenant acme uses %d bytes, want %d", err, used(), want)
	}
}

func TestDamagedDocumentsAreLeftForVerify(t *testing.T) {
	h := newHost(t)
	h.age(2)
	r := h.Demo
	h.write(store.Doc{Key: vacants.RecordKey(r.ID), Data: []byte(`{"format":2`)})
	h.write(store.Doc{Key: vacants.NameDocs.Key("Broken"), Data: []byte{1, 2}})
	var log strings.Builder
	data := h.data()
	data.Log = slog.New(slog.NewTextHandler(&log, nil))
	if _, err := upgrade.Run(t.Context(), data); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(log.String(), "was not upgraded"); got < 2 {
		t.Errorf("the log has %d damaged documents:\n%s", got, log.String())
	}
	h.OpenHost("http://127.0.0.1:8080")
	if _, err := h.Vacants.GetByName(h.Ctx, vacants.OperatorAsker(), "clerk"); err != nil {
		t.Errorf("another vacant: %v", err)
	}
}

func TestAnIdentityOfAnotherKeyEndsTheUpgradeBeforeAnyChange(t *testing.T) {
	h, other := newHost(t), newHost(t)
	h.age(2)
	before := h.store.all(t)
	data := h.data()
	data.Vault = other.Vault
	if _, err := upgrade.Run(t.Context(), data); !problem.Is(err, problem.Damaged) || !strings.Contains(err.Error(), "restore the files that belong together") {
		t.Errorf("Run() = %v, want damage that says what helps", err)
	}
	if diff := cmp.Diff(before, h.store.all(t)); diff != "" {
		t.Errorf("it changed (-want +got):\n%s", diff)
	}
}

func TestNewerDocumentsAreRefused(t *testing.T) {
	h := newHost(t)
	h.write(store.Doc{Key: upgrade.VersionDocs.Key(), Data: fmt.Appendf(nil, `{"format":1,"version":%d,"at":"2026-05-06T00:00:00Z"}`, upgrade.CurrentVersion+1)})
	if _, err := upgrade.Run(t.Context(), h.data()); !problem.Is(err, problem.Conflict) || !strings.Contains(err.Error(), "use a newer vacancy") {
		t.Errorf("Run() = %v, want a conflict that says what helps", err)
	}
}
