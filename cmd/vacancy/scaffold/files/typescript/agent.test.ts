import assert from "node:assert/strict";
import type { AddressInfo } from "node:net";
import { test } from "node:test";

import { serve } from "./agent.ts";

test("answers", async () => {
  const server = await serve(0);
  try {
    // The request is as a host sends it.
    const question = { message: "Grüße", caller: "c".repeat(64), vacant: "d".repeat(64), context_id: null };
    const reply = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(question),
    });
    assert.equal(reply.status, 200);
    assert.deepEqual(await reply.json(), { text: "You wrote: Grüße" });
  } finally {
    server.close();
    server.closeAllConnections();
  }
});
