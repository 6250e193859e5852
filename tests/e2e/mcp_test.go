package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rogpeppe/go-internal/testscript"
)

// startMCP is the command: mcp, which starts an MCP server with the tools look, which
// only reads, and write, and sets $MCP to its URL. Both answer with their name and
// arguments. The server of: mcp hostile has 1,000 tools with control characters in their names,
// and one that answers with 10 MB.
func startMCP(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 1 || len(args) == 1 && args[0] != "hostile" {
		ts.Fatalf("usage: mcp [hostile]")
	}
	if len(args) == 1 {
		server := httptest.NewServer(http.HandlerFunc(hostileMCP))
		ts.Defer(func() {
			server.CloseClientConnections()
			server.Close()
		})
		ts.Setenv("MCP", server.URL)
		return
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "trial", Version: "1"}, nil)
	for name, reads := range map[string]bool{"look": true, "write": false} {
		s.AddTool(&mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`), Annotations: &mcp.ToolAnnotations{ReadOnlyHint: reads}},
			func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: name + " " + string(r.Params.Arguments)}}}, nil
			})
	}
	server := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil))
	ts.Defer(func() {
		server.CloseClientConnections()
		server.Close()
	})
	ts.Setenv("MCP", server.URL)
	ts.Setenv("LOOK", "mcp:"+server.URL+"#look") // # begins a comment in a script
}

// hostileMCP is an MCP server by hand, because the library's servers refuse such tools.
func hostileMCP(w http.ResponseWriter, r *http.Request) {
	var q struct {
		ID     json.RawMessage
		Method string
		Params struct{ Name string }
	}
	if json.NewDecoder(r.Body).Decode(&q) != nil || q.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	result := `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"trial","version":"1"}}`
	switch q.Method {
	case "tools/list":
		tools := []string{`{"name":"much","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`}
		for i := range 999 {
			tools = append(tools, fmt.Sprintf(`{"name":"t%d\u001b[2J\n\u202eevil","description":"\u001b[31m","inputSchema":{"type":"object"}}`, i))
		}
		result = `{"tools":[` + strings.Join(tools, ",") + `]}`
	case "tools/call":
		text, _ := json.Marshal(strings.Repeat("x\x1b[2J", 2<<20))
		result = fmt.Sprintf(`{"content":[{"type":"text","text":%s}]}`, text)
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, q.ID, result)
}
