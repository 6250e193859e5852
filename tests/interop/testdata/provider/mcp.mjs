// Pays for calls of the vacant paid by MCP, with tokens of a provider that the client finds by the
// challenge: node mcp.mjs PACKAGE NAME HOST ISSUER. A program takes its tokens as a client of the
// provider, and NAME logs in at the provider's forms. Prints what this client saw as JSON.
const [of, name, host, issuer] = process.argv.slice(2);
let Client, UnauthorizedError, ClientCredentialsProvider, StreamableHTTPClientTransport, forms;
if (of === 'sdk') {
  ({ Client } = await import('@modelcontextprotocol/sdk/client/index.js'));
  ({ UnauthorizedError } = await import('@modelcontextprotocol/sdk/client/auth.js'));
  ({ ClientCredentialsProvider } = await import('@modelcontextprotocol/sdk/client/auth-extensions.js'));
  ({ StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js'));
} else {
  ({ Client, UnauthorizedError, ClientCredentialsProvider, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client'));
  forms = { versionNegotiation: { mode: 'auto' } };
}
const vacant = `${host}/v/paid`;
const got = {};
const words = (text) => text.slice(text.indexOf(': ') + 2);

async function callTool(url, authProvider, name, args, options) {
  const transport = new StreamableHTTPClientTransport(new URL(url), { authProvider });
  const client = new Client({ name: 'interop', version: '1' }, forms);
  await client.connect(transport);
  try {
    const call = { name, arguments: args };
    const result = await (of === 'sdk' ? client.callTool(call, undefined, options) : client.callTool(call, options));
    return result.isError ? `refused ${result.structuredContent?.code}` : words(result.content[0].text);
  } catch (e) {
    if (!(e instanceof UnauthorizedError)) throw e;
    await transport.finishAuth(of === 'sdk' ? authProvider.back.get('code') : authProvider.back);
    return 'login';
  } finally {
    await client.close();
  }
}
const program = () => new ClientCredentialsProvider({ clientId: 'robot', clientSecret: 'secret', expectedIssuer: issuer });
got.program = await callTool(`${vacant}/mcp`, program(), 'ask', { message: 'hi' });
got['program with progress'] = await callTool(`${vacant}/mcp`, program(), 'ask', { message: 'hi' }, { onprogress: () => {} });
got['program at the host'] = await callTool(`${host}/mcp`, program(), 'ask_agent', { agent: 'paid', message: 'hi' });

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
  discoveryState() { return this.discovered; }
  saveDiscoveryState(state) { this.discovered = state; }
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
        this.back = new URL(to).searchParams;
        if (!this.back.get('code')) throw new Error(`the provider answered ${this.back}`);
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
const ann = new Person(name);
got.login = await callTool(`${vacant}/mcp`, ann, 'ask', { message: 'hi' });
got['after the login'] = await callTool(`${vacant}/mcp`, ann, 'ask', { message: 'hi' });
const claims = JSON.parse(Buffer.from(ann.kept.access_token.split('.')[1], 'base64url'));
got['audience of the login'] = claims.aud.replace(host, '');
console.log(JSON.stringify(got));
