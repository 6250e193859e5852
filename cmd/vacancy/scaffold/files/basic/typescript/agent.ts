// {{.Name}}: an agent that answers for a vacant (vacancy help agent-contract).

import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer, type IncomingHttpHeaders, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { pathToFileURL } from "node:url";

/** What a host asks. context_id is the caller's thread, or null; id is the call's. */
export interface Question {
  message: string;
  caller: string;
  vacant: string;
  context_id: string | null;
  id: string;
  deadline_ms: number;
}

/** A question to the caller, whose reply is the next question of the same thread. */
export interface Ask {
  text: string;
  state: "input-required";
}

/** Returns the text for a question, or a question to the caller. */
export async function answer(question: Question): Promise<string | Ask> {
  return "You wrote: " + question.message;
}

/** Whether the body was signed with the secret in the last five minutes. */
function signed(secret: string, header: string | string[] | undefined, body: Buffer): boolean {
  const parts = /^t=([0-9]{1,12}),v1=([0-9a-f]{64})$/.exec(String(header));
  if (!parts || Math.abs(Date.now() / 1000 - Number(parts[1])) > 300) return false;
  const want = createHmac("sha256", secret).update(`${parts[1]}.`).update(body).digest();
  return timingSafeEqual(want, Buffer.from(parts[2]!, "hex"));
}

/**
 * Why a request is refused, as status and text; undefined for a host's. Any web page that a browser on this machine
 * shows can send requests here, but not with this Content-Type, or under its own name, and never with a signature.
 */
function refusal(secret: string, headers: IncomingHttpHeaders, body: Buffer): [number, string] | undefined {
  if (headers["content-type"]?.split(";")[0]?.trim().toLowerCase() !== "application/json") {
    return [415, "Content-Type: expected application/json"];
  }
  if (secret !== "") {
    return signed(secret, headers["vacancy-signature"], body) ? undefined : [401, "not signed with AGENT_SECRET"];
  }
  if (headers.origin !== undefined || !/^(127\.0\.0\.1|localhost|\[::1\])(:[0-9]+)?$/.test(headers.host ?? "")) {
    return [403, "Host: expected 127.0.0.1 or localhost, and no web page; requests of others need AGENT_SECRET"];
  }
  return undefined;
}

/**
 * A server on this machine; port 0 picks a free one. The secret signs the requests of the host; "vacancy watch" makes
 * one. Without it, requests to this machine's own names are accepted.
 */
export async function serve(port: number, secret = process.env.AGENT_SECRET ?? ""): Promise<Server> {
  const server = createServer(async (request, response) => {
    let status = 200;
    let body: object;
    try {
      const parts: Buffer[] = [];
      for await (const part of request) parts.push(part as Buffer);
      const question = Buffer.concat(parts);
      const refused = refusal(secret, request.headers, question);
      if (refused) {
        status = refused[0];
        body = { error: refused[1] };
      } else {
        const answered = await answer(JSON.parse(question.toString("utf8")));
        body = typeof answered === "string" ? { text: answered } : answered;
      }
    } catch (error) {
      // The host's operator sees it in `vacancy logs --failed`.
      status = 500;
      body = { error: String(error) };
    }
    response.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(body));
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, "127.0.0.1", resolve);
  });
  return server;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const server = await serve(Number(process.env.PORT ?? "{{.Port}}"));
  console.log(`listening at http://127.0.0.1:${(server.address() as AddressInfo).port}`);
}
