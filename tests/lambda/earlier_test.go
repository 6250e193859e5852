//go:build unix

package lambda

import (
	"crypto/rand"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/infra/bundle"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/tests/awshost"
)

// earlier is the last release whose functions do not know the version of the documents.
const earlier = "401b3b9c"

// buildEarlier builds a function of that release from the repository's history.
func buildEarlier(t *testing.T, name string) string {
	t.Helper()
	source, out := t.TempDir(), filepath.Join(t.TempDir(), "bootstrap")
	top := filepath.Join("..", "..")
	if err := exec.CommandContext(t.Context(), "git", "-C", top, "cat-file", "-e", earlier+"^{commit}").Run(); err != nil {
		t.Skipf("the repository here has no commit %s: %v", earlier, err)
	}
	archive := exec.CommandContext(t.Context(), "sh", "-c", `git -C "$1" archive "$2" | tar -x -C "$3"`, "sh", top, earlier, source)
	if text, err := archive.CombinedOutput(); err != nil {
		t.Fatalf("git archive: %v\n%s", err, text)
	}
	must(t, bundle.BuildPrograms(t.Context(), source, runtime.GOARCH, out, os.Environ(), "./functions/"+name))
	return out
}

// Functions of a release without a version of documents serve upgraded documents, and break their
// rules: two names that differ by case only, of two tenants. So a deploy keeps them from running before
// it upgrades.
func TestEarlierFunctionsBreakUpgradedDocuments(t *testing.T) {
	before := buildEarlier(t, "admin")
	host := awshost.New(t)
	key := host.OperatorKey(t, rand.Reader)
	s := host.Store(host.Endpoint)
	today := run(t, "admin", host)
	must(t, errorOf(today.Invoke(t.Context(), []byte(functions.UpgradeEvent))))
	_, err := host.Open(t, s, time.Now, nil).Vacants.Create(t.Context(), vacants.CreateSpec{Name: "shop", Capability: "sells words", Substrate: "echo", Tenant: "acme"})
	must(t, err)
	create := func(f *Function) int {
		t.Helper()
		e := NewEvent("/v1/admin/vacants", []byte(`{"name":"SHOP","capability":"takes the name","substrate":"echo"}`))
		e.Headers["authorization"] = "Bearer " + key
		event, err := json.Marshal(e)
		must(t, err)
		answer, err := f.Invoke(t.Context(), event)
		if err != nil {
			t.Fatalf("Invoke() = %v\n%s", err, f.Log())
		}
		var r struct{ StatusCode int }
		must(t, json.Unmarshal(answer, &r))
		return r.StatusCode
	}
	if status := create(today); status != 409 {
		t.Errorf("today's admin answers %d, expected 409", status)
	}
	old := Start(t, before, Options{Env: host.Env(host.Endpoint)})
	if status := create(old); status/100 != 2 {
		t.Errorf("the admin of %s answers %d; if it refuses, deploy need not pause for it", earlier, status)
	}
}
