package serve_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/plain"
	"github.com/vacancy-host/vacancy/shared/front/protocol"
	"github.com/vacancy-host/vacancy/shared/front/serve"
)

// named is a handler that returns its name.
func named(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, name) })
}

func TestThePublicListenerLeadsEachPathToItsHandler(t *testing.T) {
	servers := plain.Protocol{Protocol: &protocol.MCP, Serve: func(x *plain.Exchange) error {
		x.HandOver(named("mcp"))
		return nil
	}}
	all := serve.Handlers{Message: named("message"), Registry: named("registry"), Search: named("search"),
		Gate: named("gate"), Children: named("children"), Account: named("account"), Plain: plain.New(plain.Config{Now: time.Now}), Protocols: []plain.Protocol{servers}}.Public()
	calls := serve.Public(named("message"))
	for path, want := range map[string]struct{ all, calls string }{
		"/":                              {"message", "message"},
		"/a2a/message/send":              {"message", "message"},
		"/v/ab/card":                     {"message", "message"},
		"/health":                        {"message", "message"},
		"/mcp":                           {"mcp", "message"},
		"/mcp/server-card":               {"mcp", "message"},
		"/v/ab/mcp":                      {"mcp", "message"},
		"/v/ab//mcp/":                    {"mcp", "message"},
		"/v/ab/mcp/server-card":          {"mcp", "message"},
		"/v/ab/mcp/a2a/message/send":     {"message", "message"}, // clients append this path to a base URL
		"/v/mcp":                         {"message", "message"},
		"/v1/halo":                       {"registry", "message"},
		"/v1/capability_card/ab":         {"registry", "message"},
		"/v1/checkpoint":                 {"registry", "message"},
		"/v1/search":                     {"search", "message"},
		"/v1/search_capability":          {"search", "message"},
		"/v1/query_capability":           {"search", "message"},
		"/v1/searching":                  {"registry", "message"},
		"/v1/log/leaves":                 {"registry", "message"},
		"/v1/halo/a2a/message/send":      {"message", "message"}, // clients append this path to a base URL
		"/v1/search/a2a/chain/reset":     {"message", "message"},
		"/v1/account":                    {"account", "message"},
		"/v1/account/receipts/a/b/1":     {"account", "message"},
		"/v1/accounts":                   {"registry", "message"},
		"/v1/keys":                       {"account", "message"},
		"/v1/keys/ab":                    {"account", "message"},
		"/v1/usage":                      {"account", "message"},
		"/v1/admin/accounts":             {"404", "404"},
		"/v1/admin/usage":                {"404", "404"},
		"/v1/graduations":                {"gate", "message"},
		"/v1/graduations/ab-1":           {"gate", "message"},
		"/v1/graduationsx":               {"registry", "message"},
		"/v1/admin/vacants/ab/children":  {"children", "404"},
		"/v1/admin/vacants/ab/children/": {"404", "404"},
		"/v1/admin/vacants/ab/manifest":  {"404", "404"},
		"/v1/admin/gate":                 {"404", "404"},
		"/v1/admin/gate?tenant=a":        {"404", "404"},
		"/v1/admin/vacants":              {"404", "404"},
		"/v1/admin/secrets":              {"404", "404"},
		"/v1/admin/secrets/key":          {"404", "404"},
		"/v1/admin/models":               {"404", "404"},
		"/v1/admin/budgets":              {"404", "404"},
		"/v1/admin/vacants/x/publish":    {"404", "404"},
		"/v1/admin/listings/ab":          {"404", "404"},
		"/v1/admin/log/seal":             {"404", "404"},
		"/v1/admin/a2a/message/send":     {"404", "404"},
		"/v1/admin/host":                 {"404", "404"},
	} {
		for who, h := range map[string]struct {
			http.Handler
			want string
		}{"all handlers": {all, want.all}, "calls alone": {calls, want.calls}} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest("POST", path, nil))
			if got := w.Body.String(); got != h.want && !(h.want == "404" && w.Code == 404 && strings.Contains(got, "no such path")) {
				t.Errorf("%s: %s leads to %q (%d), want %s", who, path, got, w.Code, h.want)
			}
		}
	}
}
