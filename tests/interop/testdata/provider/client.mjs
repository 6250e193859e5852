// Pays for calls of the vacant paid by tokens of a provider: node client.mjs HOST ISSUER. A program
// takes its tokens as a client of the provider, and ann logs in at the provider's forms. Prints what
// this client saw as JSON.
import { SendMessageRequest, Task } from '@a2a-js/sdk';
import { ClientFactory, ClientFactoryOptions, DefaultAgentCardResolver, JsonRpcTransportFactory, RestTransportFactory, createAuthenticatingFetchWithRetry } from '@a2a-js/sdk/client';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { UnauthorizedError } from '@modelcontextprotocol/sdk/client/auth.js';
import { ClientCredentialsProvider } from '@modelcontextprotocol/sdk/client/auth-extensions.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import OpenAI from 'openai';

console.debug = () => {};
const [host, issuer] = process.argv.slice(2);
const vacant = `${host}/v/paid`;
const got = {};
const words = (text) => text.slice(text.indexOf(': ') + 2);

async function tokenFor(resource) {
  const answer = await fetch(`${issuer}/token`, {
    method: 'POST', headers: { Authorization: `Basic ${btoa('robot:secret')}` }, body: new URLSearchParams({ grant_type: 'client_credentials', resource }),
  });
  return (await answer.json()).access_token;
}

// A2A: the client replaces a token that is refused.
let bearer = await tokenFor(host), refused = 0;
const authorized = createAuthenticatingFetchWithRetry(fetch, {
  headers: async () => ({ Authorization: `Bearer ${bearer}` }),
  shouldRetryWithHeaders: async (_, answer) => {
    if (answer.status !== 401 || !answer.headers.get('www-authenticate')?.includes('error="invalid_token"')) return undefined;
    refused++;
    bearer = await tokenFor(vacant);
    return { Authorization: `Bearer ${bearer}` };
  },
});
const options = { fetchImpl: authorized };
const a2a = await new ClientFactory(ClientFactoryOptions.createFrom(ClientFactoryOptions.default, {
  transports: [new JsonRpcTransportFactory(options), new RestTransportFactory(options)], cardResolver: new DefaultAgentCardResolver(options),
})).createFromUrl(`${vacant}/`);
const task = Task.toJSON(await a2a.sendMessage(SendMessageRequest.fromJSON({ message: { messageId: crypto.randomUUID(), role: 'ROLE_USER', parts: [{ text: 'hi' }] } })));
got.a2a = `${task.status.state} ${words(task.status.message.parts[0].text)}, ${refused} refused`;

// OpenAI's API, at the vacant and at the host.
const messages = [{ role: 'user', content: 'hi' }];
for (const [name, resource] of [['openai', vacant], ['openai of the host', host]]) {
  const client = new OpenAI({ baseURL: `${resource}/v1`, apiKey: await tokenFor(resource) });
  got[name] = words((await client.chat.completions.create({ model: 'paid', messages })).choices[0].message.content);
}
const elsewhere = new OpenAI({ baseURL: `${host}/v/echo/v1`, apiKey: await tokenFor(vacant) });
got['openai elsewhere'] = await elsewhere.chat.completions.create({ model: 'echo', messages }).then(() => 'answered', (e) => `${e.status} ${e.code}`);

// MCP: the client finds the provider by the challenge.
async function callTool(url, authProvider, name, args, options) {
  const transport = new StreamableHTTPClientTransport(new URL(url), { authProvider });
  const client = new Client({ name: 'interop', version: '1' });
  await client.connect(transport);
  try {
    const result = await client.callTool({ name, arguments: args }, undefined, options);
    return result.isError ? `refused ${result.structuredContent?.code}` : words(result.content[0].text);
  } catch (e) {
    if (!(e instanceof UnauthorizedError)) throw e;
    await transport.finishAuth(authProvider.code);
    return 'login';
  } finally {
    await client.close();
  }
}
const program = () => new ClientCredentialsProvider({ clientId: 'robot', clientSecret: 'secret', expectedIssuer: issuer });
got.mcp = await callTool(`${vacant}/mcp`, program(), 'ask', { message: 'hi' });
got['mcp as a stream'] = await callTool(`${vacant}/mcp`, program(), 'ask', { message: 'hi' }, { onprogress: () => {} });
got['mcp of the host'] = await callTool(`${host}/mcp`, program(), 'ask_agent', { agent: 'paid', message: 'hi' });

// person is a person with a browser, who logs in at the provider's forms and consents.
class Person {
  constructor(name) { this.name = name; }
  get redirectUrl() { return 'http://127.0.0.1:1/callback'; }
  get clientMetadata() {
    return { client_name: 'interop', redirect_uris: [this.redirectUrl], grant_types: ['authorization_code'], response_types: ['code'], token_endpoint_auth_method: 'none', application_type: 'native' };
  }
  clientInformation() { return this.client; }
  saveClientInformation(client) { this.client = client; }
  tokens() { return this.kept; }
  saveTokens(tokens) { this.kept = tokens; }
  saveCodeVerifier(verifier) { this.verifier = verifier; }
  codeVerifier() { return this.verifier; }
  async redirectToAuthorization(url) {
    const cookies = new Map();
    let at = url, form;
    for (let steps = 0; steps < 20; steps++) {
      const answer = await fetch(at, {
        redirect: 'manual', method: form ? 'POST' : 'GET', body: form, headers: { Cookie: [...cookies].map((c) => c.join('=')).join('; ') },
      });
      for (const c of answer.headers.getSetCookie()) {
        const [, name, value] = /^([^=]+)=([^;]*)/.exec(c);
        cookies.set(name, value);
      }
      const to = answer.headers.get('location');
      const page = await answer.text();
      if (to?.startsWith(this.redirectUrl)) {
        const back = new URL(to).searchParams;
        if (!back.get('code')) throw new Error(`the provider answered ${back}`);
        this.code = back.get('code');
        return;
      }
      const prompt = /name="prompt" value="(\w+)"/.exec(page)?.[1];
      if (!to && !prompt) throw new Error(`the provider showed ${answer.status} ${page}`);
      at = new URL(to ?? /action="([^"]+)"/.exec(page)[1], at);
      form = to ? undefined : new URLSearchParams({ prompt, login: this.name, password: 'any' });
    }
    throw new Error('the login has no end');
  }
}
const ann = new Person('ann');
got.login = await callTool(`${vacant}/mcp`, ann, 'ask', { message: 'hi' });
got['after the login'] = await callTool(`${vacant}/mcp`, ann, 'ask', { message: 'hi' });
const claims = JSON.parse(Buffer.from(ann.kept.access_token.split('.')[1], 'base64url'));
got['audience of the login'] = claims.aud.replace(host, '');
console.log(JSON.stringify(got));
