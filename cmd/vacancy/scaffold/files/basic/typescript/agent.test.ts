import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import type { AddressInfo } from "node:net";
import { test } from "node:test";

import { serve } from "./agent.ts";

/** What the agent answers to the request that a host with a secret sends. */
async function ask(agentSecret: string, hostSecret: string): Promise<Response> {
  const server = await serve(0, agentSecret);
  try {
    const question = { message: "Grüße", caller: "c".repeat(64), vacant: "d".repeat(64), context_id: null };
    const body = JSON.stringify(question);
    const at = Math.floor(Date.now() / 1000);
    const sum = createHmac("sha256", hostSecret).update(`${at}.${body}`).digest("hex");
    const reply = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, {
      method: "POST",
      headers: { "Content-Type": "application/json", "Vacancy-Signature": `t=${at},v1=${sum}` },
      body,
    });
    return new Response(await reply.text(), { status: reply.status });
  } finally {
    server.close();
    server.closeAllConnections();
  }
}

test("answers", async () => {
  const reply = await ask("", "");
  assert.equal(reply.status, 200);
  const { text } = (await reply.json()) as { text: unknown };
  assert.equal(typeof text, "string");
  assert.notEqual(text, ""); // whatever your answer says; test more of it here
});

test("refuses unsigned requests", async () => {
  assert.equal((await ask("a secret of a test", "a secret of a test")).status, 200);
  assert.equal((await ask("a secret of a test", "another")).status, 401);
});
