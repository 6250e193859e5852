# Calls a host by OpenAI's SDK, and by LangChain on top of it: client.py URL KEY. Prints what it saw as JSON.
import json
import sys

import openai
from langchain_openai import ChatOpenAI

url, key = sys.argv[1:]
got = {}
host = openai.OpenAI(base_url=url + "/v1", api_key=key)
echo = openai.OpenAI(base_url=url + "/v/echo/v1", api_key=key)


def say(text):
    return [{"role": "system", "content": "be brief"}, {"role": "user", "content": text}]


def words(text):
    return text.partition(": ")[2]


got["models"] = " ".join(m.id for m in host.models.list())
answer = host.chat.completions.create(model="echo", messages=say("hi"))
got["unary"] = f"{words(answer.choices[0].message.content)} {answer.choices[0].finish_reason} {len(answer.system_fingerprint)}"
chunks = list(echo.chat.completions.create(model="any", messages=say("hi"), stream=True, stream_options={"include_usage": True}))
got["stream"] = words("".join(c.choices[0].delta.content or "" for c in chunks if c.choices))
got["usage"] = str(chunks[-1].usage.total_tokens)
got["proof"] = " ".join(sorted(chunks[-1].vacancy))
raw = host.chat.completions.with_raw_response.create(model="paid", messages=say("paid for"))
got["priced"] = words(raw.parse().choices[0].message.content) + " " + raw.headers["vacancy-receipt"][:21]
got["cut"] = words(host.chat.completions.create(model="paid", messages=say("cut")).choices[0].message.content)
guest = openai.OpenAI(base_url=url + "/v1", api_key="none")
answer = guest.chat.completions.create(model="echo", messages=say("hi"), extra_headers={"Authorization": openai.Omit()})
got["guest"] = words(answer.choices[0].message.content)
for name, header in [("unpaid", openai.Omit()), ("nobody", "Bearer sk-nobody")]:
    try:
        host.chat.completions.create(model="paid", messages=say("hi"), extra_headers={"Authorization": header})
    except openai.APIStatusError as e:
        got[name] = f"{e.status_code} {e.code}"
for name, more in [("missing", {"model": "nothere"}), ("failing", {"model": "failing"}), ("tools", {"model": "echo", "tools": [{"type": "function", "function": {"name": "f"}}]})]:
    try:
        host.chat.completions.create(messages=say("hi"), **more)
    except openai.APIStatusError as e:
        got[name] = f"{type(e).__name__} {e.code} {e.param}"
response = host.responses.create(model="echo", input="hi", instructions="be brief")
got["responses"] = f"{words(response.output_text)} {response.status}"
events = list(host.responses.create(model="echo", input=[{"role": "user", "content": "hi"}], stream=True))
said = "".join(e.delta for e in events if e.type == "response.output_text.delta")
got["responses stream"] = f"{words(said)} {events[-1].type} {words(events[-1].response.output_text)}"
try:
    host.responses.retrieve(response.id)
except openai.NotFoundError as e:
    got["responses retrieve"] = f"{type(e).__name__} {e.code} {e.param}"

dot = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
seen = host.chat.completions.create(model="viewer", messages=[{"role": "user", "content": [{"type": "text", "text": "see"}, dot]}])
got["image"] = seen.choices[0].message.content
chat = ChatOpenAI(base_url=url + "/v/echo/v1", api_key=key, model="echo")
reply = chat.invoke([("system", "be brief"), ("human", "before"), ("ai", "yes"), ("human", "hi")])
got["langchain"] = words(reply.content) + " " + reply.response_metadata["finish_reason"]
got["langchain stream"] = words("".join(c.content for c in chat.stream("hi")))
chat = ChatOpenAI(base_url=url + "/v1", api_key=key, model="echo", use_responses_api=True)
got["langchain responses"] = words(chat.invoke([("system", "be brief"), ("human", "before"), ("ai", "yes"), ("human", "hi")]).text)
got["langchain responses stream"] = words("".join(c.text for c in chat.stream("hi")))
print(json.dumps(got))
