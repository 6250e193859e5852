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
	"github.com/vacancy-host/vacancy/shared/host/upgrade"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/tests/awshost"
)

// The schedule's event makes admin write a canary, which the detector tells of.
// A request cannot: its body is not the event.
func TestACanaryIsWrittenAndSeen(t *testing.T) {
	host := awshost.New(t)
	s := host.Store(host.Endpoint)
	f := run(t, "admin", host)
	invoke(t, f, "admin-canary.json")
	event, err := json.Marshal(map[string]any{"version": "2.0", "rawPath": "/v1/admin/host", "body": `{"canary":true}`,
		"requestContext": map[string]any{"http": map[string]any{"method": "POST", "path": "/v1/admin/host"}}})
	must(t, err)
	if _, err := f.Invoke(t.Context(), event); err != nil {
		t.Fatalf("Invoke() = %v\n%s", err, f.Log())
	}
	tip, err := s.Tip(t.Context(), canary.Stream())
	if err != nil || tip.Position != 1 {
		t.Errorf("Tip() = %d, %v; want one canary", tip.Position, err)
	}
	w := Start(t, bootstrap(t, "tamper"), Options{Env: []string{"VACANCY_STAGE=" + awshost.Stage}})
	invoke(t, w, "tamper-canary.json")
	if diff := cmp.Diff([][]any{{1., "tamper"}}, pick(lines(t, w), "a canary was seen", "canaries", "function")); diff != "" {
		t.Errorf("canaries, function (-want +got):\n%s\n%s", diff, w.Log())
	}
}

// An event, which no request can be, makes admin upgrade the documents of an earlier program.
func TestAdminUpgradesDocuments(t *testing.T) {
	host := awshost.New(t)
	s := host.Store(host.Endpoint)
	_, err := host.Open(t, s, time.Now, nil).Vacants.Create(t.Context(), vacants.CreateSpec{Name: "shop", Capability: "sells words", Substrate: "echo", Tenant: "acme"})
	must(t, err)
	u := store.Updater{Store: s, Rand: rand.Reader}
	err = u.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		d, err := tx.Doc(ctx, vacants.NameKey("shop"))
		d.Index = store.Key{} // an earlier program listed no names by tenant
		tx.Put(d)
		return err
	})
	must(t, err)
	f := run(t, "admin", host)
	for range 2 { // it may be sent again
		answer, err := f.Invoke(t.Context(), []byte(functions.UpgradeEvent))
		if err != nil {
			t.Fatalf("Invoke() = %v\n%s", err, f.Log())
		}
		var done functions.Upgraded
		if err := json.Unmarshal(answer, &done); err != nil || done != (functions.Upgraded{Version: upgrade.CurrentVersion, Current: upgrade.CurrentVersion}) {
			t.Errorf("admin answered %s, %v, expected version %d", answer, err, upgrade.CurrentVersion)
		}
	}
	d, err := s.Doc(t.Context(), vacants.NameKey("shop"))
	if err != nil || d.Index.Partition == "" {
		t.Errorf("the name is in no index: %+v, %v", d, err)
	}
	if v, err := upgrade.ReadVersion(t.Context(), s); err != nil || v.Version != upgrade.CurrentVersion {
		t.Errorf("the documents have version %d, %v", v.Version, err)
	}
}
