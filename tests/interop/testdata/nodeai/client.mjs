// Calls a host by Vercel's AI SDK and by LangChain: client.mjs URL KEY. Prints what it saw as JSON.
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { ChatOpenAI } from '@langchain/openai';
import { generateText, streamText } from 'ai';

const [url, apiKey] = process.argv.slice(2);
const got = {};
const words = (text) => text.slice(text.indexOf(': ') + 2);
const openai = createOpenAI({ baseURL: `${url}/v1`, apiKey });
const compatible = createOpenAICompatible({ name: 'vacancy', baseURL: `${url}/v/echo/v1`, apiKey });
const image = { type: 'image', image: 'data:image/png;base64,iVBORw0KGgo=' };

// The default of @ai-sdk/openai is Responses, and of a conversation it sends ids of earlier answers.
const first = await generateText({ model: openai('echo'), system: 'be brief', prompt: 'hi' });
got.ai = `${words(first.text)} ${first.finishReason} ${first.warnings?.length ?? 0}`;
const history = [{ role: 'user', content: 'hi' }, ...first.response.messages, { role: 'user', content: 'more' }];
got['ai conversation'] = words((await generateText({ model: openai('echo'), messages: history })).text);
const streamed = streamText({ model: openai('echo'), prompt: 'hi', onError: ({ error }) => { got['ai stream error'] = `${error}`; } });
got['ai stream'] = '';
for await (const piece of streamed.textStream) got['ai stream'] += piece;
got['ai stream'] = `${words(got['ai stream'])} ${await streamed.finishReason}`;
got['ai image'] = (await generateText({ model: openai('viewer'), messages: [{ role: 'user', content: [{ type: 'text', text: 'see' }, image] }] })).text;
got['ai chat'] = words((await generateText({ model: openai.chat('echo'), prompt: 'hi' })).text);
got['ai compatible'] = words((await generateText({ model: compatible('echo'), prompt: 'hi' })).text);
try {
  await generateText({ model: openai('failing'), prompt: 'hi', maxRetries: 0 });
} catch (e) {
  got['ai failing'] = `${e.statusCode} ${JSON.parse(e.responseBody).error.code}`;
}
got['ai key'] = words((await generateText({ model: openai('paid'), prompt: 'cut', headers: { 'Idempotency-Key': crypto.randomUUID() } })).text);
got['ai reset'] = (await generateText({ model: openai('pausing'), prompt: 'reset by ai' })).text;

const langchain = (more) => new ChatOpenAI({ model: 'echo', apiKey, configuration: { baseURL: `${url}/v1` }, ...more });
got.langchain = words((await langchain().invoke('hi')).content);
got['langchain responses'] = words((await langchain({ useResponsesApi: true }).invoke('hi')).text);
let text = '';
for await (const chunk of await langchain({ useResponsesApi: true }).stream('hi')) text += chunk.text;
got['langchain stream'] = words(text);
got['langchain key'] = words((await langchain({ model: 'paid' }).invoke('cut', { options: { headers: { 'Idempotency-Key': crypto.randomUUID() } } })).content);
got['langchain reset'] = (await langchain({ model: 'pausing' }).invoke('reset by langchain')).content;
console.log(JSON.stringify(got));
