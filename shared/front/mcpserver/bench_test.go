package mcpserver_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// BenchmarkAsk compares a question by MCP and the plain message of A2A to the same echo over a memory
// store, without a network.
func BenchmarkAsk(b *testing.B) {
	w := newWorld(b)
	for name, tt := range map[string]struct{ path, body, want string }{
		"mcp": {"/v/echo/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask","arguments":{"message":"hello"}}}`, `"finish":"stop"`},
		"a2a": {"/v/echo", `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"role":"ROLE_USER","messageId":"m","parts":[{"text":"hello"}]}}}`, "TASK_STATE_COMPLETED"},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				q := httptest.NewRequest(http.MethodPost, tt.path, strings.NewReader(tt.body))
				q.Header.Set("Content-Type", "application/json")
				q.Header.Set("Accept", "application/json, text/event-stream")
				q.Header.Set("Mcp-Protocol-Version", "2025-11-25")
				out := httptest.NewRecorder()
				w.http.Config.Handler.ServeHTTP(out, q)
				if out.Code != http.StatusOK || !strings.Contains(out.Body.String(), tt.want) {
					b.Fatalf("%d %s", out.Code, out.Body)
				}
			}
		})
	}
}
