package e2e

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rogpeppe/go-internal/testscript"
)

// startMCP is the command: mcp, which starts an MCP server with the tools look, which
// only reads, and write, and sets $MCP to its URL. Both answer with their name and
// arguments.
func startMCP(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: mcp")
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
