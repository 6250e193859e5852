package interop

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/front/a2a"
	"github.com/vacancy-host/vacancy/shared/front/account"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/front/openapi"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/tests/installed"
)

// pushConfig is the id of the push configuration of endedTask.
const pushConfig = "mine"

// endedTask is a task of a key at the vacant echo, with a push configuration.
func endedTask(t *testing.T, public, secret string) string {
	t.Helper()
	post := func(path, body string, into any) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, public+"/v/echo/"+path, strings.NewReader(body))
		must(t, err)
		r.Header.Set("Authorization", "Bearer "+secret)
		r.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(r)
		must(t, err)
		defer resp.Body.Close()
		if err := json.NewDecoder(resp.Body).Decode(into); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s, %v", path, resp.Status, err)
		}
	}
	var sent a2a.Sent
	post("message:send", `{"message":{"messageId":"m1","role":"ROLE_USER","parts":[{"text":"hi"}]}}`, &sent)
	var config a2a.PushConfig
	post("tasks/"+sent.Task.ID+"/pushNotificationConfigs", `{"id":"`+pushConfig+`","url":"http://127.0.0.1:1/hook"}`, &config)
	return sent.Task.ID
}

// A stock validator accepts the OpenAPI document, and a stock fuzzer finds no answer of a host that
// is not in it, nor a fault: as the operator, through a proxy to the admin socket, and with a key.
func TestNoAnswerIsOutsideTheOpenAPIDocument(t *testing.T) {
	if *at != "" {
		t.Skip("only a throw-away host is asked for everything")
	}
	python := filepath.Join(installed.Python(t, files, "openapi"), "env", "bin", "python")
	document := filepath.Join(t.TempDir(), "openapi.json")
	must(t, os.WriteFile(document, openapi.JSON, 0o600))
	run := func(t *testing.T, program string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), python, append([]string{"-m", program}, args...)...)
		cmd.Dir = t.TempDir()
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
	run(t, "openapi_spec_validator", document)
	data := filepath.Join(t.TempDir(), "host")
	public := hostIn(t, data, nil)
	client, base, err := serve.DialAdmin(data)
	must(t, err)
	c := admin.Client{HTTP: client, URL: base}
	must(t, errorOf(account.OpenAccount.Call(t.Context(), c, op.NewBody(account.Opening{Tenant: "acme", Shards: 1}))))
	scopes := []billing.Scope{billing.ScopeRead, billing.ScopeManage, billing.ScopeVacants, billing.ScopeCall, billing.ScopeAGP}
	key, err := account.MakeKey.Call(t.Context(), c, account.NewRequest(account.Ref{Account: "acme"}, billing.KeyOptions{Tier: billing.Enterprise, Scopes: scopes}))
	must(t, err)
	socket, err := url.Parse(base)
	must(t, err)
	proxy := httptest.NewServer(&httputil.ReverseProxy{Transport: client.Transport, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(socket) }})
	defer proxy.Close()
	const operators = "^/v1/admin/"
	// The fuzzer asks A2A for what it cannot guess: a vacant, and an ended task of the key. It adds no
	// credentials of its own, which would hide all behind 401. Few leases are asked for, because each waits up to 20 s.
	config := filepath.Join(t.TempDir(), "schemathesis.toml")
	if err := os.WriteFile(config, fmt.Appendf(nil, `
[generation]
with-security-parameters = false

[[operations]]
include-path-regex = "^/v/"

[operations.parameters]
"path.vacant" = "echo"
"path.id" = %q
"path.config" = %q
"header.A2A-Version" = "1.0"

[[operations]]
include-path = "/v1/admin/work/lease"
request-timeout = 30
generation.max-examples = 2
phases.coverage.enabled = false
`, endedTask(t, public, key.Secret), pushConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	// The fuzzer uses ids that it has seen: it finds its own key to revoke, and as the operator its account.
	const revoke = "revokeKeyOfAccount"
	withKey := []string{"--url", public, "--header", "Authorization: Bearer " + key.Secret}
	for _, as := range []struct {
		name string
		args []string
	}{
		{"key", append(slices.Clone(withKey), "--exclude-path-regex", operators, "--exclude-operation-id", revoke)},
		{"revoke", append(slices.Clone(withKey), "--include-operation-id", revoke)},
		{"operator", []string{"--url", proxy.URL, "--include-path-regex", operators}},
	} {
		t.Run(as.name, func(t *testing.T) {
			run(t, "schemathesis.cli", append([]string{
				"--config-file", config, "run", document, "--checks", "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance",
				"--phases", "examples,coverage,fuzzing", "--max-examples", "10", "--seed", "1", "--continue-on-failure", "--no-color",
			}, as.args...)...)
		})
	}
}
