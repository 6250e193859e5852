// Manages a team of agents by MCP, and prints what this client saw as JSON.
// node client.mjs PACKAGE BASE SECRET WAY COMMAND OWNER
// WAY is http, or stdio by the program COMMAND. OWNER is a key that creates an agent, by COMMAND.
import { execFile } from "node:child_process";
import { promisify } from "node:util";

const [of, base, secret, way, command, owner] = process.argv.slice(2);
let Client, Transport, Started, Changed, options;
if (of === "sdk") {
  ({ Client } = await import("@modelcontextprotocol/sdk/client/index.js"));
  ({ StreamableHTTPClientTransport: Transport } = await import("@modelcontextprotocol/sdk/client/streamableHttp.js"));
  ({ StdioClientTransport: Started } = await import("@modelcontextprotocol/sdk/client/stdio.js"));
  ({ ResourceListChangedNotificationSchema: Changed } = await import("@modelcontextprotocol/sdk/types.js"));
} else {
  ({ Client, StreamableHTTPClientTransport: Transport } = await import("@modelcontextprotocol/client"));
  ({ StdioClientTransport: Started } = await import("@modelcontextprotocol/client/stdio"));
  options = { versionNegotiation: { mode: "auto" } };
}

const client = new Client({ name: "interop", version: "1" }, options);
await client.connect(
  way === "http"
    ? new Transport(new URL(base + "/mcp"), { requestInit: { headers: { Authorization: `Bearer ${secret}` } } })
    : new Started({ command, args: ["mcp", "--host", base], env: { VACANCY_KEY: secret } }),
);
const seen = {};
const call = async (name, args = {}) => {
  const result = await client.callTool({ name, arguments: args });
  const text = result.content[0].text;
  if (result.isError) return { refused: text };
  if (JSON.stringify(JSON.parse(text)) !== JSON.stringify(result.structuredContent)) throw new Error(`${name}: the text and the structured content differ`);
  return result.structuredContent;
};
// end waits for the end of a turn.
const end = async ({ taskId }) => {
  for (;;) {
    const s = await call("get_task_status", { task_id: taskId });
    if (s.status !== "pending" && s.status !== "working") return `${s.status} ${s.question ?? s.result?.response.split(": ").pop()}`;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
};

const hints = (t) => ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"].filter((hint) => t.annotations[hint]).join(" ");
const team = ["list_agents", "dispatch_agent", "get_task_status", "cancel_task", "answer_task", "get_locks"];
for (const t of (await client.listTools()).tools.filter((t) => team.includes(t.name))) {
  seen[`tool ${t.name}`] = `${t.title} (${(t.inputSchema.required ?? []).join(" ")}) ${hints(t)}`.trim();
}
const agents = await call("list_agents", { unknown: 1 });
seen.agents = agents.agents.map((a) => `${a.name} ${a.tier} ${a.description}`).filter((a) => !a.startsWith("late")).sort().join(", ");
seen.resources = (await client.listResources()).resources.map((r) => r.uri).filter((uri) => !uri.includes("late")).sort().join(" ");
seen.templates = (await client.listResourceTemplates()).resourceTemplates.map((t) => t.uriTemplate).join(" ");
seen.read = JSON.parse((await client.readResource({ uri: "agents://writer" })).contents[0].text).default_mode;
seen["read unknown"] = await client.readResource({ uri: "agents://nobody" }).then(() => "read", () => "error");
const started = await call("dispatch_agent", { agent: "writer", task: "hi", mode: "read-only", model: null });
seen.dispatch = `${started.status} ${started.agent} ${started.mode}`;
seen.result = await end(started);
const asked = await call("dispatch_agent", { agent: "painter", task: "paint" });
seen.question = await end(asked);
seen.answer = (await call("answer_task", { task_id: asked.taskId, text: "blue" })).agent;
seen.answered = await end(asked);
const stopped = await call("dispatch_agent", { agent: "sleeper", task: "hi" });
seen.cancel = (await call("cancel_task", { task_id: stopped.taskId })).status;
seen["cancel again"] = (await call("cancel_task", { task_id: stopped.taskId })).status;
seen.locks = String((await call("get_locks")).count);
seen.refused = (await call("dispatch_agent", { agent: "nobody", task: "hi" })).refused;
if (of === "sdk" && way === "stdio") {
  const changed = new Promise((resolve) => client.setNotificationHandler(Changed, () => resolve("told")));
  const name = `late-${Math.random().toString(36).slice(2)}`;
  await promisify(execFile)(command, ["create", name, "--capability", "comes later", "--substrate", "echo", "--host", base, "--no-check"], { env: { ...process.env, VACANCY_KEY: owner } });
  seen.changed = await Promise.race([changed, new Promise((resolve) => setTimeout(() => resolve("not told within 6 s"), 6000))]);
  const { resources } = await client.listResources();
  seen["listed then"] = String(resources.some((r) => r.uri === `agents://${name}`));
}
console.log(JSON.stringify(seen));
process.exit(0);
