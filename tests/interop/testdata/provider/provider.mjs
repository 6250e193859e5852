// A provider of OpenID Connect on loopback: node provider.mjs. It prints its URL. The line
// "rotate" on standard input replaces the key that signs; "rotate without kid" does so, too, and no
// token names its key any more. Each line is answered by the count of the requests for keys. Every
// login counts, with every password.
import { generateKeyPairSync } from 'node:crypto';
import { createServer } from 'node:http';
import { createInterface } from 'node:readline';
import { Provider } from 'oidc-provider';

console.info = console.error; // notices of the provider are not answers
const program = (client_id) => ({
  client_id, client_secret: 'secret', grant_types: ['client_credentials'], response_types: [], redirect_uris: [], token_endpoint_auth_method: 'client_secret_basic',
});
let keys = 0, fetches = 0, named = true;

function provider(issuer) {
  const key = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ format: 'jwk' });
  const p = new Provider(issuer, {
    jwks: { keys: [{ ...key, kid: `key-${++keys}`, use: 'sig', alg: 'RS256' }] },
    scopes: ['openid', 'call'],
    formats: { customizers: { jwt: (_, token, structured) => { structured.header = named ? undefined : { kid: undefined }; } } },
    cookies: { keys: ['secret'] },
    clients: ['robot', 'brief', 'stranger'].map(program),
    findAccount: (_, accountId) => ({ accountId, claims: () => ({ sub: accountId }) }),
    extraTokenClaims: (_, token) => ({ org: token.clientId === 'stranger' ? 'evil' : 'acme' }),
    features: {
      clientCredentials: { enabled: true },
      registration: { enabled: true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (_, resource, client) => ({
          scope: 'call', audience: resource, accessTokenFormat: 'jwt', accessTokenTTL: client.clientId === 'brief' ? 1 : 3600,
        }),
      },
    },
  });
  p.use((ctx, next) => {
    if (ctx.path === '/jwks') fetches++;
    return next();
  });
  return p.callback();
}

const server = createServer();
server.listen(0, '127.0.0.1', () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  let serve = provider(issuer);
  server.on('request', (request, response) => serve(request, response));
  console.log(issuer);
  const input = createInterface({ input: process.stdin });
  input.on('line', (line) => {
    if (line === 'rotate without kid') named = false;
    if (line.startsWith('rotate')) serve = provider(issuer);
    console.log(fetches);
  });
  input.on('close', () => process.exit());
});
