// Asks the MCP servers of a host, and prints what this client saw as JSON.
// node client.mjs PACKAGE BASE KEY WAY COMMAND
// WAY is http, or stdio or signed by the program COMMAND.
const [of, base, key, way, command] = process.argv.slice(2);
let Client, Transport, Started, options;
if (of === "sdk") {
  ({ Client } = await import("@modelcontextprotocol/sdk/client/index.js"));
  ({ StreamableHTTPClientTransport: Transport } = await import("@modelcontextprotocol/sdk/client/streamableHttp.js"));
  ({ StdioClientTransport: Started } = await import("@modelcontextprotocol/sdk/client/stdio.js"));
} else {
  ({ Client, StreamableHTTPClientTransport: Transport } = await import("@modelcontextprotocol/client"));
  ({ StdioClientTransport: Started } = await import("@modelcontextprotocol/client/stdio"));
  options = { versionNegotiation: { mode: "auto" } };
}

async function connect(path, secret) {
  const client = new Client({ name: "interop", version: "1" }, options);
  const requestInit = secret ? { headers: { Authorization: `Bearer ${secret}` } } : {};
  const transport = way === "http" ? new Transport(new URL(base + path), { requestInit }) : new Started(program(path, secret));
  if (way !== "http") transport.setProtocolVersion = (version) => { transport.protocolVersion = version; };
  await client.connect(transport);
  return [client, transport];
}

// program starts the server of a path: a guest's, or a payer's.
function program(path, secret) {
  const args = ["mcp", ...(path === "/mcp" ? [] : [path.split("/")[2]]), "--host", base];
  if (way === "signed") args.push("--as", secret ? "payer" : "guest");
  return { command, args, env: way === "stdio" && secret ? { VACANCY_KEY: secret } : {} };
}

function text(result) {
  const said = result.content?.[0]?.text ?? "";
  return result.isError ? `refused ${result.structuredContent?.code}` : said.slice(said.indexOf(": ") + 1).trim();
}

const seen = {};

async function ask(name, agent, args, { tool = "ask", secret = "", pieces, on } = {}) {
  try {
    const client = on ?? (await connect(agent ? `/v/${agent}/mcp` : "/mcp", secret))[0];
    const call = { name: tool, arguments: args };
    const more = pieces ? { onprogress: (p) => pieces.push(p.message) } : {};
    const result = of === "sdk" ? await client.callTool(call, undefined, more) : await client.callTool(call, more);
    seen[name] = text(result);
    if (!on) await client.close();
    return result;
  } catch (e) {
    seen[name] = `error ${String(e.message).match(/no such server|Authorization/)?.[0] ?? e.message}`;
  }
}

const [client, transport] = await connect("/v/echo/mcp");
seen.tools = (await client.listTools()).tools.map((t) => t.name).sort().join(" ");
const resources = way === "signed" ? [] : (await client.listResources()).resources;
seen.card = resources.length ? JSON.parse((await client.readResource({ uri: resources[0].uri })).contents[0].text).name : "none";
seen.era = String(transport.protocolVersion);
await client.close();
const [host] = await connect("/mcp");
seen.host = (await host.listTools()).tools.map((t) => t.name).sort().join(" ");
await host.close();
const first = await ask("ask", "echo", { message: "hi" });
await ask("follow", "echo", { message: "again", context: first.structuredContent.context });
const pieces = [];
await ask("slow", "slow", { message: "hi" }, { pieces });
seen.pieces = pieces.join("|");
await ask("refused", "failing", { message: "hi" });
await ask("unpaid", "priced", { message: "hi" });
const paid = await ask("paid", "priced", { message: "hi" }, { secret: key });
seen.price = String(paid?.structuredContent.price);
if (way !== "signed") {
  await ask("bad key", "echo", { message: "hi" }, { secret: "nobody" });
  await ask("unknown", "nobody", { message: "hi" });
}
const found = await ask("search", "", { query: "Netz" }, { tool: "search_agents" });
seen.search = found?.structuredContent.agents.map((a) => a.agent).sort().join(" ");
await ask("ask agent", "", { agent: "priced", message: "hi" }, { tool: "ask_agent", secret: key });
const [on] = await connect("/v/late/mcp");
const late = (await ask("late", "late", { message: "hi" }, { on })).structuredContent;
seen.late = late.state;
await ask("fetched", "late", { task: late.task, wait: 20 }, { tool: "get_task", on });
await on.close();
console.log(JSON.stringify(seen));
process.exit(0);
