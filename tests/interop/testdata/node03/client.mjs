// Runs the scenarios with @a2a-js/sdk of A2A 0.3 and prints what it saw as JSON.
import { ClientFactory } from '@a2a-js/sdk/client';

const [url] = process.argv.slice(2);
const client = (name) => new ClientFactory().createFromUrl(`${url}/v/${name}/`);
const say = (text, more = {}, configuration) =>
  ({ message: { kind: 'message', messageId: crypto.randomUUID(), role: 'user', parts: [{ kind: 'text', text }], ...more }, configuration });
const shown = (parts) => {
  const s = parts.map((p) => p.text).join('');
  return s.startsWith('echo from ') ? 'echo: ' + s.slice(s.indexOf(': ') + 2) : s;
};
const status = (s) => `${s.state} ${s.message ? shown(s.message.parts) : ''}`.trim();
const event = (e) => (e.kind === 'artifact-update' ? `artifact ${shown(e.artifact.parts)}` : status(e.status));
const events = async (all) => {
  const seen = [];
  for await (const e of all) seen.push(event(e));
  return seen.join('; ');
};
const names = { TaskNotFoundError: 'task not found', TaskNotCancelableError: 'task not cancelable',
  UnsupportedOperationError: 'unsupported operation', ContentTypeNotSupportedError: 'content type not supported' };
const codes = { '-32001': 'task not found' };
const failure = (promise) => promise.then((r) => `no error: ${JSON.stringify(r)}`, (e) => names[e.name] ?? names[e.constructor.name] ?? codes[/Code: (-\d+)/.exec(e.message)?.[1]] ?? `${e.name}: ${e.message}`);

const [echo, slow, slower, failing] = await Promise.all(['echo', 'slow', 'slower', 'failing'].map(client));
const got = {};
const task = await echo.sendMessage(say('hi'));
got.send = status(task.status);
got.get = status((await echo.getTask({ id: task.id })).status);
if (!process.env.A2A_UNARY) got['follow unknown'] = await failure(echo.resubscribeTask({ id: 'none' }).next());
got['get unknown'] = await failure(echo.getTask({ id: 'none' }));
got['cancel ended'] = await failure(echo.cancelTask({ id: task.id }));
got['send to ended'] = await failure(echo.sendMessage(say('more', { taskId: task.id })));
got.fail = status((await failing.sendMessage(say('hi'))).status);
got['no text'] = await failure(echo.sendMessage(say('', { parts: [{ kind: 'data', data: { a: 1 } }] })));
const unary = process.env.A2A_UNARY; // without streams
if (!unary) {
  const files = [{ kind: 'text', text: 'see' }, { kind: 'file', file: { name: 'a.png', mimeType: 'image/png', bytes: 'iVBORw0KGgo=' } }, { kind: 'data', data: { a: 'b' } }];
  got.files = status((await (await client('viewer')).sendMessage(say('', { parts: files }))).status);
  got.stream = await events(slow.sendMessageStream(say('hi')));
  got['stream of echo'] = await events(echo.sendMessageStream(say('hi')));
}
const first = await slow.sendMessage(say('hi', {}, { blocking: false }));
let read;
for (let i = 0; i < 100; i++) {
  read = await slow.getTask({ id: first.id });
  if (read.status.state === 'completed') break;
  await new Promise((done) => setTimeout(done, 50));
}
got.immediately = `${status(first.status)}, then ${status(read.status)}`;
if (!unary) {
  for await (const e of slower.sendMessageStream(say('hi'))) {
    const ended = await slower.cancelTask({ id: e.id });
    got.cancel = `${e.status.state}, then ${ended.status.state}`;
    break;
  }
  for await (const e of slow.sendMessageStream(say('hi'))) {
    if (e.kind !== 'artifact-update') continue;
    got.subscribe = await events(slow.resubscribeTask({ id: e.taskId }));
    break;
  }
}
console.log(JSON.stringify(got));
