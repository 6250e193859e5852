// Drives "vacancy acp" as an editor does, and prints what this client saw as JSON.
// node client.mjs BASE KEY COMMAND FOLDER
import * as acp from "@agentclientprotocol/sdk/unstable";
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";

const [base, key, command, cwd] = process.argv.slice(2);
const { agent: agentMethods, client: clientMethods } = acp.methods;
const seen = {};

// connect starts the program for a vacant and runs op with a context and the texts of the updates by kind.
async function connect(vacant, op) {
  const program = spawn(command, ["acp", vacant, "--host", base], { stdio: ["pipe", "pipe", "inherit"], env: { ...process.env, VACANCY_KEY: key } });
  const texts = {};
  const app = acp.client({ name: "interop" }).onNotification(clientMethods.session.update, ({ params }) => {
    const kind = params.update.sessionUpdate;
    texts[kind] = (texts[kind] ?? "") + (params.update.content?.text ?? "");
  });
  const stream = acp.ndJsonStream(Writable.toWeb(program.stdin), Readable.toWeb(program.stdout));
  const result = await app.connectWith(stream, (ctx) => op(ctx, texts));
  program.stdin.end();
  return result;
}

async function code(promise) {
  try {
    return JSON.stringify(await promise);
  } catch (e) {
    return String(e.code);
  }
}

const initialize = (ctx) => ctx.request(agentMethods.initialize, { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: {} });
const folder = { cwd, mcpServers: [] };
const prompt = (sessionId, text) => ({ sessionId, prompt: [{ type: "text", text }] });

const id = await connect("writer", async (ctx, texts) => {
  const me = await initialize(ctx);
  const sessions = Object.keys(me.agentCapabilities.sessionCapabilities).sort().join(" ");
  seen.initialize = `${me.protocolVersion} ${me.agentInfo.name} ${me.agentCapabilities.loadSession} ${sessions}`;
  const { sessionId, modes } = await ctx.request(agentMethods.session.new, folder);
  seen.modes = `${modes.currentModeId} of ${modes.availableModes.map((m) => m.id).join(" ")}`;
  const { stopReason } = await ctx.request(agentMethods.session.prompt, prompt(sessionId, "hi"));
  seen.prompt = `${stopReason} ${texts.agent_message_chunk.split(": ").pop()}`;
  await ctx.request(agentMethods.session.setMode, { sessionId, modeId: "read-only" });
  seen.mode = "current_mode_update" in texts ? "told" : "not told";
  seen["wrong mode"] = await code(ctx.request(agentMethods.session.setMode, { sessionId, modeId: "yolo" }));
  const changed = await ctx.request(agentMethods.session.setConfigOption, { sessionId, configId: "model", value: "large" });
  seen.model = changed.configOptions[0].currentValue;
  seen.unknown = await code(ctx.request("_x/y", {}));
  seen.verify = String((await ctx.request("_vacant/verify", { sessionId })).verified);
  seen["no session"] = await code(ctx.request(agentMethods.session.prompt, prompt("nobody", "hi")));
  return sessionId;
});
await connect("writer", async (ctx, texts) => {
  await initialize(ctx);
  const { sessions } = await ctx.request(agentMethods.session.list, { cwd });
  seen.list = String(sessions.some((s) => s.sessionId === id && s.title === "hi"));
  await ctx.request(agentMethods.session.load, { sessionId: id, ...folder });
  seen.load = `${texts.user_message_chunk} ${texts.agent_message_chunk.split(": ").pop()}`;
  const fork = await ctx.request(agentMethods.session.fork, { sessionId: id, ...folder });
  seen.fork = String(fork.sessionId !== id);
  await ctx.request(agentMethods.session.resume, { sessionId: id, ...folder });
  seen.foreign = await code(ctx.request(agentMethods.session.load, { sessionId: "acp-00000000-X", ...folder }));
});
await connect("sleeper", async (ctx) => {
  await initialize(ctx);
  const { sessionId } = await ctx.request(agentMethods.session.new, folder);
  const running = ctx.request(agentMethods.session.prompt, prompt(sessionId, "sleep"));
  setTimeout(() => ctx.notify(agentMethods.session.cancel, { sessionId }), 500);
  seen.cancel = (await running).stopReason;
});
console.log(JSON.stringify(seen));
process.exit(0);
