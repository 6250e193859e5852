// An MCP server of the npm SDK with the tools look, which only reads, and write.
import { createServer } from "node:http";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";

function server() {
  const s = new McpServer({ name: "trial", version: "1" });
  for (const [name, reads] of [["look", true], ["write", false]]) {
    s.registerTool(name, { description: `Does ${name}`, annotations: { readOnlyHint: reads } }, async (extra) => ({
      content: [{ type: "text", text: `${name} by ${extra.sessionId ? "session" : "nothing"}` }],
    }));
  }
  return s;
}

const sessions = new Map();
const http = createServer(async (request, response) => {
  const id = request.headers["mcp-session-id"];
  let transport = sessions.get(id);
  if (!transport) {
    transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: () => crypto.randomUUID(),
      onsessioninitialized: (made) => sessions.set(made, transport),
    });
    await server().connect(transport);
  }
  await transport.handleRequest(request, response);
});
http.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${http.address().port}/mcp`));
