package admin_test

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/local"
	"github.com/vacancy-host/vacancy/shared/host/keys/secrets"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// newKeeper is a host that keeps secrets.
func newKeeper(t *testing.T) *testServer {
	t.Helper()
	vault, err := local.Open(filepath.Join(t.TempDir(), "seal.key"), rand.Reader)
	must(t, err)
	return newTestServer(t, func(c *admin.Config) {
		c.Vacants.Resources.Secrets = secrets.New(definition.SecretKind, c.Vacants.Store, vault, func() time.Time { return at }, rand.Reader)
	})
}

const canary = "canary-0123456789-abcdef"

func TestSecretsThroughTheHandler(t *testing.T) {
	h := newKeeper(t)
	set := func(path, body string) secrets.Info {
		t.Helper()
		w := h.ask("PUT", path, body)
		if w.Code != http.StatusOK || strings.Contains(w.Body.String(), canary) {
			t.Fatalf("PUT %s = %d %s", path, w.Code, w.Body)
		}
		return decode[secrets.Info](t, w)
	}
	if got := set("/v1/admin/secrets/key", `{"value":"`+canary+`","hosts":["api.example.com"]}`); got.Name != "key" || got.Version != 1 || len(got.Hosts) != 1 || !got.Time.Equal(at) {
		t.Errorf("PUT = %+v", got)
	}
	if got := set("/v1/admin/secrets/key", `{"value":"`+canary+`"}`); got.Version != 2 || len(got.Hosts) != 1 {
		t.Errorf("PUT again = %+v", got)
	}
	set("/v1/admin/secrets/anthropic?tenant=acme", `{"value":"`+canary+`"}`)
	for path, want := range map[string]string{"/v1/admin/secrets": "key", "/v1/admin/secrets?tenant=acme": "anthropic", "/v1/admin/secrets?tenant=other": ""} {
		w := h.ask("GET", path, "")
		all := decode[admin.Secrets](t, w)
		if names := fmt.Sprint(len(all.Secrets)); w.Code != http.StatusOK || (want == "") != (names == "0") || want != "" && all.Secrets[0].Name != want || strings.Contains(w.Body.String(), "canary") {
			t.Errorf("GET %s = %d %s, want %q", path, w.Code, w.Body, want)
		}
	}
	if w := h.ask("DELETE", "/v1/admin/secrets/key", ""); w.Code != http.StatusNoContent {
		t.Errorf("DELETE = %d %s", w.Code, w.Body)
	}
	for _, tt := range []struct {
		method, path, body string
		kind               problem.Kind
		field              string
	}{
		{"DELETE", "/v1/admin/secrets/key", "", problem.NotFound, ""},
		{"DELETE", "/v1/admin/secrets/anthropic", "", problem.NotFound, ""},
		{"DELETE", "/v1/admin/secrets/anthropic?tenant=acme", "{}", problem.Malformed, "body"},
		{"GET", "/v1/admin/secrets?tenant=a%20b", "", problem.Malformed, "tenant"},
		{"GET", "/v1/admin/secrets/anthropic", "", problem.MethodNotAllowed, ""},
		{"PUT", "/v1/admin/secrets/a%20b", `{"value":"` + canary + `"}`, problem.Malformed, "secret"},
		{"PUT", "/v1/admin/secrets/key", `{"value":"` + canary + `"}`, problem.Malformed, "hosts"},
		{"PUT", "/v1/admin/secrets/key", `{"value":"` + canary + `","hosts":["https://a.example"]}`, problem.Malformed, "hosts[0]"},
		{"PUT", "/v1/admin/secrets/key", `{"value":"` + canary + `","hosts":"a.example"}`, problem.Malformed, "hosts"},
		{"PUT", "/v1/admin/secrets/key", `{"value":"` + canary + `","hosts":[7]}`, problem.Malformed, "hosts[0]"},
		{"PUT", "/v1/admin/secrets/key", `{"value":["` + canary + `"]}`, problem.Malformed, "value"},
		{"PUT", "/v1/admin/secrets/key", `{"value":"` + canary + `\ud800"}`, problem.Malformed, "value"},
		{"PUT", "/v1/admin/secrets/key", `{"value":"` + canary + `","for":[]}`, problem.Malformed, "for"},
		{"PUT", "/v1/admin/secrets/key", `{"value":"` + canary + `","value":"` + canary + `"}`, problem.Malformed, "value"},
		{"PUT", "/v1/admin/secrets/key", `{"value":"` + canary, problem.Malformed, "value"},
		{"PUT", "/v1/admin/secrets/key", `{"hosts":["a.example"]}`, problem.Malformed, "value"},
		{"PUT", "/v1/admin/secrets/key", canary, problem.NotJSON, ""},
		{"PUT", "/v1/admin/secrets/key", `{"value":"` + strings.Repeat("x", 70<<10) + `"}`, problem.TooLarge, ""},
	} {
		w := h.ask(tt.method, tt.path, tt.body)
		wantRefusal(t, w, tt.kind, tt.field)
		if strings.Contains(w.Body.String(), "canary") {
			t.Errorf("%s %.60s: the refusal shows the value: %s", tt.method, tt.body, w.Body)
		}
	}
	if strings.Contains(h.log.String(), "canary") {
		t.Error("the log shows the value")
	}
	for _, method := range []string{"GET", "PUT"} {
		path := map[string]string{"GET": "/v1/admin/secrets", "PUT": "/v1/admin/secrets/key"}[method]
		wantRefusal(t, newTestServer(t).ask(method, path, ""), problem.NotFound, "")
	}
	if got := fmt.Sprintf("%v %+v %#v", admin.SecretSetting{Value: canary}, &admin.SecretSetting{Value: canary}, []any{admin.SecretSetting{Value: canary}}); strings.Contains(got, "canary") {
		t.Errorf("a setting is printed as %s", got)
	}
}
