// Runs the scenarios with @a2a-js/sdk of A2A 1.0 and prints what it saw as JSON.
import { ListTasksRequest, SendMessageRequest, StreamResponse, Task, verifyAgentCardSignature } from '@a2a-js/sdk';
import { ClientFactory, ClientFactoryOptions } from '@a2a-js/sdk/client';
import { importJWK } from 'jose';

console.debug = () => {};
const [url, binding] = process.argv.slice(2);
let keys = 0;
const verify = verifyAgentCardSignature(async (kid, jku) => {
  const jwk = (await (await fetch(jku)).json()).keys[0];
  if (jwk.kid !== kid) throw new Error(`key ${jwk.kid} for ${kid}`);
  return importJWK(jwk, 'EdDSA');
});
const factory = new ClientFactory(ClientFactoryOptions.createFrom(ClientFactoryOptions.default, { preferredTransports: [binding] }));
const client = async (name) => {
  const c = await factory.createFromUrl(`${url}/v/${name}/`);
  await verify(await c.getAgentCard());
  keys++;
  return c;
};
const say = (text, more = {}, configuration) =>
  SendMessageRequest.fromJSON({ message: { messageId: crypto.randomUUID(), role: 'ROLE_USER', parts: [{ text }], ...more }, configuration });
const state = (s) => s.replace('TASK_STATE_', '').toLowerCase().replaceAll('_', '-');
const shown = (parts) => {
  const s = parts.map((p) => p.text).join('');
  return s.startsWith('echo from ') ? 'echo: ' + s.slice(s.indexOf(': ') + 2) : s;
};
const status = (s) => `${state(s.state)} ${s.message ? shown(s.message.parts) : ''}`.trim();
const result = (t) => status(Task.toJSON(t).status);
const event = (e) => {
  const j = StreamResponse.toJSON(e);
  if (j.task) return status(j.task.status);
  return j.statusUpdate ? status(j.statusUpdate.status) : `artifact ${shown(j.artifactUpdate.artifact.parts)}`;
};
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
got.send = result(task);
got.get = result(await echo.getTask({ id: task.id }));
if (!process.env.A2A_UNARY) got['follow unknown'] = await failure(echo.resubscribeTask({ id: 'none' }).next());
got['get unknown'] = await failure(echo.getTask({ id: 'none' }));
got['cancel ended'] = await failure(echo.cancelTask({ id: task.id }));
got['send to ended'] = await failure(echo.sendMessage(say('more', { taskId: task.id })));
got.fail = result(await failing.sendMessage(say('hi')));
got['no text'] = await failure(echo.sendMessage(say('', { parts: [{ data: { a: 1 } }] })));
const unary = process.env.A2A_UNARY; // without streams
if (!unary) {
  const files = [{ text: 'see' }, { raw: 'iVBORw0KGgo=', filename: 'a.png', mediaType: 'image/png' }, { data: { a: 'b' } }];
  got.files = result(await (await client('viewer')).sendMessage(say('', { parts: files })));
  got.stream = await events(slow.sendMessageStream(say('hi')));
  got['stream of echo'] = await events(echo.sendMessageStream(say('hi')));
}
const first = await slow.sendMessage(say('hi', {}, { returnImmediately: true }));
let read;
for (let i = 0; i < 100; i++) {
  read = await slow.getTask({ id: first.id });
  if (Task.toJSON(read).status.state === 'TASK_STATE_COMPLETED') break;
  await new Promise((done) => setTimeout(done, 50));
}
got.immediately = `${result(first)}, then ${result(read)}`;
if (!unary) {
  for await (const e of slower.sendMessageStream(say('hi'))) {
    const begun = StreamResponse.toJSON(e).task;
    const ended = Task.toJSON(await slower.cancelTask({ id: begun.id }));
    got.cancel = `${state(begun.status.state)}, then ${state(ended.status.state)}`;
    break;
  }
  for await (const e of slow.sendMessageStream(say('hi'))) {
    const chunk = StreamResponse.toJSON(e).artifactUpdate;
    if (!chunk) continue;
    got.subscribe = await events(slow.resubscribeTask({ id: chunk.taskId }));
    break;
  }
}
if (!unary) {
  const conformance = await factory.createFromUrl(`${url}/v/conformance/`);
  const asked = await conformance.sendMessage(say('one', { messageId: `tck-input-required-${crypto.randomUUID()}` }));
  const seen = [];
  for await (const e of conformance.resubscribeTask({ id: asked.id })) {
    if (!seen.length) await conformance.sendMessage(say('two', { taskId: asked.id }));
    seen.push(event(e));
  }
  got.waiting = seen.join('; ');
}
const one = await echo.sendMessage(say('one'));
await echo.sendMessage(say('two', { contextId: one.contextId }));
const page = await echo.listTasks(ListTasksRequest.fromJSON({ contextId: one.contextId }));
got.list = `${page.tasks.length} of ${page.totalSize}`;
got.signatures = `${keys} keys verified`;
console.log(JSON.stringify(got));
