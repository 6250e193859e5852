package interop

import (
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/vacancy-host/vacancy/shared/front/account"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/front/openapi"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/tests/installed"
)

// A stock validator accepts the OpenAPI document, and a stock fuzzer finds no answer of a host that
// is not in it, nor a fault: as the operator, through a proxy to the admin socket, and with a key.
func TestNoAnswerIsOutsideTheOpenAPIDocument(t *testing.T) {
	if *at != "" {
		t.Skip("only a throw-away host is asked for everything")
	}
	python := filepath.Join(installed.Python(t, files, "openapi"), "env", "bin", "python")
	document := filepath.Join(t.TempDir(), "openapi.json")
	if err := os.WriteFile(document, openapi.JSON, 0o600); err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	c := admin.Client{HTTP: client, URL: base}
	if _, err := account.OpenAccount.Call(t.Context(), c, op.Of(account.Opening{Tenant: "acme", Shards: 1})); err != nil {
		t.Fatal(err)
	}
	scopes := []billing.Scope{billing.ScopeRead, billing.ScopeManage, billing.ScopeVacants, billing.ScopeCall, billing.ScopeAGP}
	key, err := account.MakeKey.Call(t.Context(), c, account.About(account.One{Account: "acme"}, billing.KeyOptions{Tier: billing.Pro, Scopes: scopes}))
	if err != nil {
		t.Fatal(err)
	}
	socket, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(&httputil.ReverseProxy{Transport: client.Transport, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(socket) }})
	defer proxy.Close()
	const operators = "^/v1/admin/"
	for name, args := range map[string][]string{
		"operator": {"--url", proxy.URL, "--include-path-regex", operators},
		"key":      {"--url", public, "--header", "Authorization: Bearer " + key.Secret, "--exclude-path-regex", operators},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, "schemathesis.cli", append([]string{
				"run", document, "--checks", "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance",
				"--phases", "examples,coverage,fuzzing", "--max-examples", "10", "--seed", "1", "--continue-on-failure", "--no-color",
			}, args...)...)
		})
	}
}
