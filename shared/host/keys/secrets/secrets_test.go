package secrets_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/local"
	"github.com/vacancy-host/vacancy/shared/host/keys/secrets"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/store/storetest"
)

const (
	canary = "canary-0123456789-abcdef"
	api    = "https://api.example.com/v1/chat"
)

// bench is the secrets of a host with a clock that tests set.
type bench struct {
	*secrets.Secrets
	store *flaky
	time  time.Time
}

// flaky is a store that fails on demand.
type flaky struct {
	store.Store
	err error
}

func (f *flaky) Doc(ctx context.Context, k store.Key) (store.Doc, error) {
	if f.err != nil {
		return store.Doc{}, f.err
	}
	return f.Store.Doc(ctx, k)
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{store: &flaky{Store: memory.New()}, time: time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)}
	vault, err := local.Open(filepath.Join(t.TempDir(), "seal.key"), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	b.Secrets = secrets.New(definition.SecretKind, b.store, vault, func() time.Time { return b.time }, rand.Reader)
	return b
}

func (b *bench) set(t *testing.T, tenant, name, value string, hosts ...string) secrets.Info {
	t.Helper()
	info, err := b.Set(t.Context(), tenant, name, hosts, []byte(value))
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func TestUseChecksTheHostOfEachURL(t *testing.T) {
	b := newBench(t)
	b.set(t, "", "key", canary, "api.example.com", "127.0.0.1:8080", "[::1]", "b.example.com", "plain.example.com:80", "localhost:80")
	for url, bound := range map[string]bool{
		api:                                    true,
		"https://API.Example.com./x":           true,
		"https://api.example.com:443/x":        true,
		"http://127.0.0.1:8080/v1":             true,
		"http://[::1]/v1":                      true,
		"http://localhost/v1":                  true,
		"http://localhost:80/v1":               true,
		"https://localhost/v1":                 false,
		"https://api.example.com:444/x":        false,
		"https://api.example.com.evil.example": false,
		"https://evil.example/api.example.com": false,
		"https://api.example.com@evil.example": false,
		"https://127.0.0.1:8081/v1":            false,
		// Plain HTTP is permitted on this machine only.
		"http://api.example.com/v1":    false,
		"http://plain.example.com:80/": false,
		"ftp://api.example.com/":       false,
		"":                             false,
	} {
		value, err := b.Use(t.Context(), "", "key", url)
		if bound != (err == nil) || bound != (value == canary) || !bound && !problem.Is(err, problem.Forbidden) {
			t.Errorf("Use(%q) = %q, %v; want that it is bound: %v", url, value, err, bound)
		}
		if err := b.Check(t.Context(), "", "key", url); bound != (err == nil) || !bound && !problem.Is(err, problem.Forbidden) {
			t.Errorf("Check(%q) = %v, want that it is bound: %v", url, err, bound)
		}
	}
	if _, err := b.Use(t.Context(), "", "key", api, "https://evil.example/"); !problem.Is(err, problem.Forbidden) {
		t.Errorf("Use(two URLs, one of them bound) = %v, want forbidden", err)
	}
}

func TestASecretIsItsTenantsAlone(t *testing.T) {
	b := newBench(t)
	b.set(t, "acme", "key", canary, "api.example.com")
	for _, tenant := range []string{"", "other", "acm", "Acme"} {
		if _, err := b.Use(t.Context(), tenant, "key", api); !problem.Is(err, problem.NotFound) {
			t.Errorf("Use by tenant %q = %v, want not found", tenant, err)
		}
		if all, err := b.List(t.Context(), tenant); err != nil || len(all) > 0 {
			t.Errorf("List(%q) = %v, %v; want none", tenant, all, err)
		}
		if err := b.Delete(t.Context(), tenant, "key"); !problem.Is(err, problem.NotFound) {
			t.Errorf("Delete by tenant %q = %v, want not found", tenant, err)
		}
	}
	// A box that is moved to another tenant or name does not open there.
	d, err := b.store.Doc(t.Context(), store.Key{Partition: "secret#acme", Sort: "key"})
	if err != nil {
		t.Fatal(err)
	}
	for _, to := range []struct{ tenant, name string }{{"other", "key"}, {"acme", "other"}, {"", "key"}} {
		data := strings.Replace(string(d.Data), `"name":"key"`, fmt.Sprintf(`"name":%q`, to.name), 1)
		moved := store.Put{Key: store.Key{Partition: "secret#" + to.tenant, Sort: to.name}, Data: []byte(data), WriteID: store.WriteID{1}}
		if err := b.store.Commit(t.Context(), moved); err != nil {
			t.Fatal(err)
		}
		if value, err := b.Use(t.Context(), to.tenant, to.name, api); err == nil || !strings.Contains(err.Error(), "does not open") {
			t.Errorf("Use(a box moved to %+v) = %q, %v; want that its box does not open", to, value, err)
		}
	}
}

func TestUseReturnsReplacedAndDeletedValuesForAtMostFresh(t *testing.T) {
	b := newBench(t)
	other := secrets.New(definition.SecretKind, b.store, nil, func() time.Time { return b.time }, rand.Reader) // of another process
	if info := b.set(t, "", "key", "one", "api.example.com"); info.Version != 1 || !info.Time.Equal(b.time) {
		t.Errorf("Set() = %+v, want version 1", info)
	}
	use := func(want string) {
		t.Helper()
		if value, err := b.Use(t.Context(), "", "key", api); value != want || (err == nil) != (want != "") {
			t.Errorf("Use() = %q, %v; want %q", value, err, want)
		}
	}
	use("one")
	b.time = b.time.Add(time.Second)
	if info := b.set(t, "", "key", "two"); info.Version != 2 || !slices.Equal(info.Hosts, []string{"api.example.com"}) || !info.Time.Equal(b.time) {
		t.Errorf("Set() = %+v, want version 2 with the hosts that it had", info)
	}
	use("two")
	if err := other.Delete(t.Context(), "", "key"); err != nil {
		t.Fatal(err)
	}
	b.time = b.time.Add(secrets.MaxCacheAge - 1)
	use("two")
	b.time = b.time.Add(1)
	use("")
	if _, err := b.Set(t.Context(), "", "key", nil, []byte("three")); problem.AsError(err).Field != "hosts" {
		t.Errorf("Set() of a deleted secret without hosts = %v, want the field hosts", err)
	}
	if err := other.Delete(t.Context(), "", "key"); !problem.Is(err, problem.NotFound) {
		t.Errorf("Delete() again = %v, want not found", err)
	}
	if all, err := b.List(t.Context(), ""); err != nil || len(all) > 0 {
		t.Errorf("List() after the deletion = %v, %v; want none", all, err)
	}
	if info := b.set(t, "", "key", "three", "b.example.com"); info.Version != 4 {
		t.Errorf("Set() after the deletion, version 3 = %+v, want version 4", info)
	}
	if _, err := b.Use(t.Context(), "", "key", api); !problem.Is(err, problem.Forbidden) {
		t.Errorf("Use() where it was bound before = %v, want forbidden", err)
	}
}

// counting counts what the vault opens, which costs money at a key service.
type counting struct {
	custody.Vault
	opened int
}

func (c *counting) Open(ctx context.Context, bound string, box []byte) ([]byte, error) {
	c.opened++
	return c.Vault.Open(ctx, bound, box)
}

func TestTheVaultOpensEachVersionOnce(t *testing.T) {
	vault, err := local.Open(filepath.Join(t.TempDir(), "seal.key"), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	b, c := newBench(t), &counting{Vault: vault}
	b.Secrets = secrets.New(definition.SecretKind, b.store, c, func() time.Time { return b.time }, rand.Reader)
	for i, value := range []string{"one", "two"} {
		b.set(t, "", "key", value, "api.example.com")
		for range 3 {
			if got, err := b.Use(t.Context(), "", "key", api); got != value || err != nil {
				t.Errorf("Use() = %q, %v; want %q", got, err, value)
			}
			b.time = b.time.Add(secrets.MaxCacheAge)
		}
		if c.opened != i+1 {
			t.Errorf("%d boxes were opened for %d versions", c.opened, i+1)
		}
	}
	// A changed list of hosts for the same value takes effect at once.
	b.set(t, "", "key", "two", "other.example.com")
	if _, err := b.Use(t.Context(), "", "key", api); !problem.Is(err, problem.Forbidden) {
		t.Errorf("Use() where it was bound before = %v, want forbidden", err)
	}
}

// A retry of the commit that created a secret may arrive after the deletion.
func TestALateRetryDoesNotRestoreADeletedSecret(t *testing.T) {
	b := newBench(t)
	late := true
	lossy := &storetest.Lossy{Store: b.store.Store, ChooseFault: func(op string, _ []store.Write) storetest.Fault {
		if op == "Commit" && late {
			late = false
			return storetest.Delayed
		}
		return storetest.NoFault
	}}
	b.store.Store = lossy
	b.set(t, "", "key", canary, "api.example.com") // the second delivery is applied first
	if err := b.Delete(t.Context(), "", "key"); err != nil {
		t.Fatal(err)
	}
	lossy.ApplyPending(t.Context())
	if value, err := b.Use(t.Context(), "", "key", api); !problem.Is(err, problem.NotFound) {
		t.Errorf("Use() = %q, %v; want not found", value, err)
	}
}

// After Fresh, the store must confirm that a secret still exists.
func TestUseFailsIfTheStoreCannotBeRead(t *testing.T) {
	b := newBench(t)
	b.set(t, "", "key", canary, "api.example.com")
	if _, err := b.Use(t.Context(), "", "key", api); err != nil {
		t.Fatal(err)
	}
	b.time, b.store.err = b.time.Add(secrets.MaxCacheAge), errors.New("the disk is gone")
	if value, err := b.Use(t.Context(), "", "key", api); value != "" || !problem.Is(err, problem.Unavailable) {
		t.Errorf("Use() = %q, %v; want unavailable", value, err)
	}
	b.store.err = nil
	for name, data := range map[string]string{"no JSON": "x", "another format": `{"format":2,"name":"key","hosts":["api.example.com"],"box":""}`,
		"another name": `{"format":1,"name":"other","hosts":["api.example.com"],"box":""}`, "no hosts": `{"format":1,"name":"key","box":""}`, "an empty box": `{"format":1,"name":"key","hosts":["api.example.com"],"box":""}`} {
		key := store.Key{Partition: "secret#", Sort: "key"}
		d, err := b.store.Doc(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.store.Commit(t.Context(), store.Put{Key: key, IfVersion: d.Version, Data: []byte(data), WriteID: store.WriteID([]byte(rand.Text()[:16]))}); err != nil {
			t.Fatal(err)
		}
		if value, err := b.Use(t.Context(), "", "key", api); value != "" || !problem.Is(err, problem.Damaged) {
			t.Errorf("%s: Use() = %q, %v; want damaged", name, value, err)
		}
	}
}

func TestSetNamesTheInvalidFieldAndHidesTheValue(t *testing.T) {
	b := newBench(t)
	for name, tt := range map[string]struct {
		tenant, name, value, field string
		hosts                      []string
	}{
		"no name":           {"", "", canary, "secret", nil},
		"a path":            {"", "a/b", canary, "secret", nil},
		"a long name":       {"", strings.Repeat("n", 65), canary, "secret", nil},
		"a flag":            {"", "--host", canary, "secret", []string{"a.example"}},
		"a tenant of words": {"a b", "key", canary, "tenant", nil},
		"a long tenant":     {strings.Repeat("t", 129), "key", canary, "tenant", nil},
		"no value":          {"", "key", "", "value", nil},
		"a line break":      {"", "key", canary + "\nX-Evil: 1", "value", []string{"a.example"}},
		"umlauts":           {"", "key", canary + "ä", "value", []string{"a.example"}},
		"a long value":      {"", "key", canary + strings.Repeat("x", secrets.MaxValueBytes), "value", []string{"a.example"}},
		"bound to nothing":  {"", "key", canary, "hosts", nil},
		"a URL":             {"", "key", canary, "hosts[0]", []string{"https://a.example"}},
		"a path of a host":  {"", "key", canary, "hosts[1]", []string{"a.example", "a.example/x"}},
		"everything":        {"", "key", canary, "hosts[0]", []string{"*"}},
		"an empty host":     {"", "key", canary, "hosts[0]", []string{""}},
		"a user":            {"", "key", canary, "hosts[0]", []string{"me@a.example"}},
		"many hosts":        {"", "key", canary, "hosts", slices.Repeat([]string{"a.example"}, secrets.MaxHosts+1)},
	} {
		_, err := b.Set(t.Context(), tt.tenant, tt.name, tt.hosts, []byte(tt.value))
		p := problem.AsError(err)
		if err == nil || p.Kind != problem.Malformed || p.Field != tt.field {
			t.Errorf("%s: Set() = %v, want malformed of %s", name, err, tt.field)
		}
		if strings.Contains(fmt.Sprintf("%v %+v %#v", err, p, p), canary) {
			t.Errorf("%s: the error shows the value", name)
		}
	}
	if all, err := b.List(t.Context(), ""); err != nil || len(all) > 0 {
		t.Errorf("List() = %v, %v; want none", all, err)
	}
}

func TestASecretNamedAfterAProviderIsBoundToItsServer(t *testing.T) {
	b := newBench(t)
	for name, want := range map[string]string{"anthropic": "api.anthropic.com", "gemini": "generativelanguage.googleapis.com", "mistral": "api.mistral.ai", "openai": "api.openai.com"} {
		if info := b.set(t, "acme", name, canary); !slices.Equal(info.Hosts, []string{want}) {
			t.Errorf("%s is bound to %s, want %s", name, info.Hosts, want)
		}
	}
	for _, name := range []string{"ollama", "mock", "http"} {
		if _, err := b.Set(t.Context(), "", name, nil, []byte(canary)); !problem.Is(err, problem.Malformed) {
			t.Errorf("Set(%s) = %v, want malformed", name, err)
		}
	}
	b.set(t, "", "openai", canary, "proxy.example", "API.Example.com:443", "proxy.example")
	if info := b.set(t, "", "openai", canary); !slices.Equal(info.Hosts, []string{"api.example.com", "proxy.example"}) {
		t.Errorf("replaced, openai is bound to %s, want the hosts that it had", info.Hosts)
	}
}

func TestASecretIsSealedAndNeverShown(t *testing.T) {
	b := newBench(t)
	b.set(t, "acme", "key", canary, "api.example.com")
	if _, err := b.Use(t.Context(), "acme", "key", api); err != nil { // it is in memory now
		t.Fatal(err)
	}
	d, err := b.store.Doc(t.Context(), store.Key{Partition: "secret#acme", Sort: "key"})
	if err != nil {
		t.Fatal(err)
	}
	all, err := b.List(t.Context(), "acme")
	if err != nil || len(all) != 1 || all[0].Name != "key" {
		t.Errorf("List() = %v, %v; want the key", all, err)
	}
	if shown := fmt.Sprintf("%s %v %+v %#v %v", d.Data, b.Secrets, b.Secrets, b.Secrets, all); strings.Contains(shown, canary) {
		t.Errorf("the value is shown in %s", shown)
	}
	if strings.Contains(string(d.Data), "Y2FuYXJ5LTAx") { // the value in base64
		t.Errorf("the document has the value in the clear: %s", d.Data)
	}
	var sealed, deleted struct{ Box []byte }
	if err := json.Unmarshal(d.Data, &sealed); err != nil || len(sealed.Box) == 0 {
		t.Errorf("the document is %s, %v", d.Data, err)
	}
	// After its deletion, the secret is neither in the store nor in the next backup.
	if err := b.Delete(t.Context(), "acme", "key"); err != nil {
		t.Fatal(err)
	}
	if d, err = b.store.Doc(t.Context(), d.Key); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(d.Data, &deleted); err != nil || len(deleted.Box) > 0 || strings.Contains(string(d.Data), base64.StdEncoding.EncodeToString(sealed.Box)) {
		t.Errorf("after the deletion the document is %s, %v", d.Data, err)
	}
}

func TestSecretsAreListedByPages(t *testing.T) {
	b := newBench(t)
	const n = 120
	for i := range n {
		b.set(t, "", fmt.Sprintf("key-%03d", i), canary, "api.example.com")
	}
	all, err := b.List(t.Context(), "")
	if err != nil || len(all) != n || !slices.IsSortedFunc(all, func(a, b secrets.Info) int { return strings.Compare(a.Name, b.Name) }) {
		t.Errorf("List() = %d secrets, %v; want %d in order", len(all), err, n)
	}
}

// Set makes one commit. After a failure the secret has either the old or the new value, and Set may
// be repeated.
func TestAFailedSetLeavesTheOldOrTheNewValue(t *testing.T) {
	for _, fate := range []storetest.Fault{storetest.Lost, storetest.Unacknowledged, storetest.Twice} {
		for _, op := range []string{"Doc", "Commit"} {
			t.Run(fmt.Sprint(op, " ", fate), func(t *testing.T) {
				b := newBench(t)
				b.set(t, "", "key", "one", "api.example.com")
				calls := 0
				b.store.Store = &storetest.Lossy{Store: b.store.Store, ChooseFault: func(called string, _ []store.Write) storetest.Fault {
					if called == op {
						if calls++; calls == 1 {
							return fate
						}
					}
					return storetest.NoFault
				}}
				_, err := b.Set(t.Context(), "", "key", nil, []byte("two"))
				if value, useErr := b.Use(t.Context(), "", "key", api); useErr != nil || err == nil && value != "two" || value != "one" && value != "two" {
					t.Errorf("Set() = %v, then Use() = %q, %v", err, value, useErr)
				}
				b.set(t, "", "key", "two")
				if value, err := b.Use(t.Context(), "", "key", api); value != "two" || err != nil {
					t.Errorf("Use() after a repetition = %q, %v; want two", value, err)
				}
			})
		}
	}
}
