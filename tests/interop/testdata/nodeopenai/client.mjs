// Calls a host by OpenAI's SDK: client.mjs URL KEY. Prints what it saw as JSON.
import OpenAI from 'openai';

const [url, apiKey] = process.argv.slice(2);
const got = {};
const host = new OpenAI({ baseURL: `${url}/v1`, apiKey });
const echo = new OpenAI({ baseURL: `${url}/v/echo/v1`, apiKey });
const say = (content) => [{ role: 'system', content: 'be brief' }, { role: 'user', content }];
const words = (text) => text.slice(text.indexOf(': ') + 2);

const ids = [];
for await (const m of host.models.list()) ids.push(m.id);
got.models = ids.join(' ');
const answer = await host.chat.completions.create({ model: 'echo', messages: say('hi') });
got.unary = `${words(answer.choices[0].message.content)} ${answer.choices[0].finish_reason} ${answer.system_fingerprint.length}`;
let text = '', last;
for await (const c of await echo.chat.completions.create({ model: 'any', messages: say('hi'), stream: true, stream_options: { include_usage: true } })) {
  text += c.choices[0]?.delta.content ?? '';
  last = c;
}
got.stream = words(text);
got.usage = `${last.usage.total_tokens}`;
got.proof = Object.keys(last.vacancy).sort().join(' ');
const { data, response } = await host.chat.completions.create({ model: 'paid', messages: say('paid for') }).withResponse();
got.priced = `${words(data.choices[0].message.content)} ${response.headers.get('vacancy-receipt').slice(0, 21)}`;
got.cut = words((await host.chat.completions.create({ model: 'paid', messages: say('cut') })).choices[0].message.content);
const guest = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', defaultHeaders: { Authorization: null } });
got.guest = words((await guest.chat.completions.create({ model: 'echo', messages: say('hi') })).choices[0].message.content);
const failing = async (name, client, body, show) => {
  try {
    await client.chat.completions.create({ messages: say('hi'), ...body });
  } catch (e) {
    got[name] = show(e);
  }
};
const status = (e) => `${e.status} ${e.code}`;
const kind = (e) => `${e.constructor.name} ${e.code} ${e.param === null ? 'None' : e.param}`;
await failing('unpaid', new OpenAI({ baseURL: `${url}/v/paid/v1`, apiKey: 'none', defaultHeaders: { Authorization: null } }), { model: 'paid' }, status);
await failing('nobody', new OpenAI({ baseURL: `${url}/v1`, apiKey: 'sk-nobody' }), { model: 'paid' }, status);
await failing('missing', host, { model: 'nothere' }, kind);
await failing('failing', host, { model: 'failing' }, kind);
await failing('tools', host, { model: 'echo', tools: [{ type: 'function', function: { name: 'f' } }] }, kind);
const answered = await host.responses.create({ model: 'echo', input: 'hi', instructions: 'be brief' });
got.responses = `${words(answered.output_text)} ${answered.status}`;
let said = '', end;
for await (const event of await host.responses.create({ model: 'echo', input: [{ role: 'user', content: 'hi' }], stream: true })) {
  if (event.type === 'response.output_text.delta') said += event.delta;
  end = event;
}
got['responses stream'] = `${words(said)} ${end.type} ${words(end.response.output[0].content[0].text)}`;
try {
  await host.responses.retrieve(answered.id);
} catch (e) {
  got['responses retrieve'] = kind(e);
}
const dot = { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } };
const seen = await host.chat.completions.create({ model: 'viewer', messages: [{ role: 'user', content: [{ type: 'text', text: 'see' }, dot] }] });
got.image = seen.choices[0].message.content;
console.log(JSON.stringify(got));
