//go:build unix

package lambda

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/host/fsck/canary"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/registry/registrytest"
	"github.com/vacancy-host/vacancy/shared/host/upgrade"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/tests/awshost"
)

func TestSweeperDestroysTheKeysWhoseTimeIsOver(t *testing.T) {
	host := awshost.New(t)
	ago := func(days int) func() time.Time {
		return func() time.Time { return time.Now().AddDate(0, 0, -days) }
	}
	for _, days := range []int{0, 1, 3, 4} {
		if err := host.Open(t, host.Store(host.Endpoint), ago(days), nil).Texts.Warm(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	f := run(t, "sweeper", host)
	for range 2 {
		if _, err := f.Invoke(t.Context(), sample(t, "sweeper-schedule.json")); err != nil {
			t.Fatalf("Invoke() = %v\n%s", err, f.Log())
		}
	}
	want := [][]any{{"ok", 2., "sweeper", true}, {"ok", 0., "sweeper", nil}}
	if diff := cmp.Diff(want, pick(lines(t, f), "done", "verdict", "days", "function", "cold")); diff != "" {
		t.Errorf("verdict, days, function, cold (-want +got):\n%s\n%s", diff, f.Log())
	}
}

// What a stranger has published at a server that does not answer is probed, and
// waits again.
func TestProberTriesWhatWaits(t *testing.T) {
	host := awshost.New(t)
	s := host.Store(host.Endpoint)
	r := host.Open(t, s, time.Now, nil).Registry
	p := registrytest.Publication(t, registrytest.Key(1), registrytest.Draft{Endpoint: "https://nobody.invalid/", At: time.Now()})
	if receipt, err := r.Publish(t.Context(), p); err != nil || !receipt.Unreached {
		t.Fatalf("Publish() = %+v, %v; want it unreached", receipt, err)
	}
	f := run(t, "prober", host)
	for range 2 {
		if _, err := f.Invoke(t.Context(), sample(t, "prober-schedule.json")); err != nil {
			t.Fatalf("Invoke() = %v\n%s", err, f.Log())
		}
	}
	want := [][]any{{"ok", 0., 1., false}, {"ok", 0., 0., false}}
	if diff := cmp.Diff(want, pick(lines(t, f), "done", "verdict", "listed", "silent", "more")); diff != "" {
		t.Errorf("verdict, listed, silent, more (-want +got):\n%s\n%s", diff, f.Log())
	}
	waiting, _, err := s.Docs(t.Context(), registry.UnreachedDocs.All(), store.MaxPage, "")
	if err != nil || len(waiting) != 1 || waiting[0].Key.Sort < registry.ChangeKeyAt(time.Now().Add(30*time.Second)) {
		t.Errorf("waiting: %v, %v; want it in a minute", waiting, err)
	}
}

// The schedule's event makes admin write a canary, which the detector tells of.
// A request cannot: its body is not the event.
func TestACanaryIsWrittenAndSeen(t *testing.T) {
	host := awshost.New(t)
	s := host.Store(host.Endpoint)
	f := run(t, "admin", host)
	if _, err := f.Invoke(t.Context(), sample(t, "admin-canary.json")); err != nil {
		t.Fatalf("Invoke() = %v\n%s", err, f.Log())
	}
	event, err := json.Marshal(map[string]any{"version": "2.0", "rawPath": "/v1/admin/host", "body": `{"canary":true}`,
		"requestContext": map[string]any{"http": map[string]any{"method": "POST", "path": "/v1/admin/host"}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Invoke(t.Context(), event); err != nil {
		t.Fatalf("Invoke() = %v\n%s", err, f.Log())
	}
	tip, err := s.Tip(t.Context(), canary.Stream())
	if err != nil || tip.Position != 1 {
		t.Errorf("Tip() = %d, %v; want one canary", tip.Position, err)
	}
	w := Start(t, bootstrap(t, "tamper"), Options{Env: []string{"VACANCY_STAGE=" + awshost.Stage}})
	if _, err := w.Invoke(t.Context(), sample(t, "tamper-canary.json")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([][]any{{1., "tamper"}}, pick(lines(t, w), "a canary was seen", "canaries", "function")); diff != "" {
		t.Errorf("canaries, function (-want +got):\n%s\n%s", diff, w.Log())
	}
}

// An event, which no request can be, makes admin upgrade the documents of an earlier program.
func TestAdminUpgradesDocuments(t *testing.T) {
	host := awshost.New(t)
	s := host.Store(host.Endpoint)
	_, err := host.Open(t, s, time.Now, nil).Vacants.Create(t.Context(), vacants.Spec{Name: "shop", Capability: "sells words", Substrate: "echo", Tenant: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	u := store.Updater{Store: s, Rand: rand.Reader}
	err = u.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		d, err := tx.Doc(ctx, vacants.NameKey("shop"))
		d.Index = store.Key{} // an earlier program listed no names by tenant
		tx.Put(d)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	f := run(t, "admin", host)
	for range 2 { // it may be sent again
		answer, err := f.Invoke(t.Context(), []byte(functions.UpgradeEvent))
		if err != nil {
			t.Fatalf("Invoke() = %v\n%s", err, f.Log())
		}
		var done functions.Upgraded
		if err := json.Unmarshal(answer, &done); err != nil || done != (functions.Upgraded{Version: upgrade.Current, Current: upgrade.Current}) {
			t.Errorf("admin answered %s, %v, expected version %d", answer, err, upgrade.Current)
		}
	}
	d, err := s.Doc(t.Context(), vacants.NameKey("shop"))
	if err != nil || d.Index.Partition == "" {
		t.Errorf("the name is in no index: %+v, %v", d, err)
	}
	if v, err := upgrade.Read(t.Context(), s); err != nil || v.Version != upgrade.Current {
		t.Errorf("the documents have version %d, %v", v.Version, err)
	}
}
