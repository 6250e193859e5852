// Pays for calls of the vacant paid by A2A and by OpenAI's API, with tokens of a provider: node
// client.mjs HOST ISSUER. Prints what this client saw as JSON.
import { SendMessageRequest, Task } from '@a2a-js/sdk';
import { ClientFactory, ClientFactoryOptions, DefaultAgentCardResolver, JsonRpcTransportFactory, RestTransportFactory, createAuthenticatingFetchWithRetry } from '@a2a-js/sdk/client';
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

// A guest of A2A finds the login by the challenge: the metadata, the provider, and the scope.
const login = async (challenge) => {
  const part = (name) => new RegExp(`${name}="([^"]*)"`).exec(challenge)[1];
  const metadata = await (await fetch(part('resource_metadata'))).json();
  const { token_endpoint } = await (await fetch(`${metadata.authorization_servers[0]}/.well-known/openid-configuration`)).json();
  const answer = await fetch(token_endpoint, {
    method: 'POST', headers: { Authorization: `Basic ${btoa('robot:secret')}` }, body: new URLSearchParams({ grant_type: 'client_credentials', resource: metadata.resource, scope: part('scope') }),
  });
  return { Authorization: `Bearer ${(await answer.json()).access_token}` };
};
for (const [name, Transport] of [['JSONRPC', JsonRpcTransportFactory], ['HTTP+JSON', RestTransportFactory]]) {
  const fetchImpl = createAuthenticatingFetchWithRetry(fetch, {
    headers: async () => ({}),
    shouldRetryWithHeaders: async (_, answer) => (answer.status === 401 ? login(answer.headers.get('www-authenticate')) : undefined),
  });
  const guest = await new ClientFactory(ClientFactoryOptions.createFrom(ClientFactoryOptions.default, {
    transports: [new Transport({ fetchImpl })], preferredTransports: [name], cardResolver: new DefaultAgentCardResolver({ fetchImpl }),
  })).createFromUrl(`${vacant}/`);
  const led = Task.toJSON(await guest.sendMessage(SendMessageRequest.fromJSON({ message: { messageId: crypto.randomUUID(), role: 'ROLE_USER', parts: [{ text: 'hi' }] } })));
  got[`a2a guest ${name}`] = `${led.status.state} ${words(led.status.message.parts[0].text)}`;
}

// OpenAI's API, at the vacant and at the host.
const messages = [{ role: 'user', content: 'hi' }];
for (const [name, resource] of [['openai', vacant], ['openai of the host', host]]) {
  const client = new OpenAI({ baseURL: `${resource}/v1`, apiKey: await tokenFor(resource) });
  got[name] = words((await client.chat.completions.create({ model: 'paid', messages })).choices[0].message.content);
}
const elsewhere = new OpenAI({ baseURL: `${host}/v/echo/v1`, apiKey: await tokenFor(vacant) });
got['openai elsewhere'] = await elsewhere.chat.completions.create({ model: 'echo', messages }).then(() => 'answered', (e) => `${e.status} ${e.code}`);

const guest = new OpenAI({ baseURL: `${vacant}/v1`, apiKey: 'none', defaultHeaders: { Authorization: null } });
got['openai guest'] = await guest.chat.completions.create({ model: 'paid', messages }).then(() => 'answered', (e) => `${e.status} ${e.message.includes('the price is $0.002') && e.message.includes(`log in at ${issuer}`)}`);

console.log(JSON.stringify(got));
