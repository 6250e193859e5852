"""{{.Name}}: an agent that asks a model by OpenAI's API, at OpenAI or at any server with that API.
Run it: OPENAI_API_KEY=KEY {{.Language.Start}} (PORT chooses another port). Test it: {{.Language.Test}}
"""

import json
import os
from urllib.request import Request, urlopen

from server import run

URL = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1")
KEY = os.environ.get("OPENAI_API_KEY", "")
MODEL = os.environ.get("OPENAI_MODEL", "gpt-5-mini")
INSTRUCTIONS = "You answer letters. Be brief."


def messages(question):
    """The conversation so far, and the question."""
    yield {"role": "system", "content": INSTRUCTIONS}
    for said in question.get("history", []):  # with `memory: on` in agent.md
        yield {"role": "user" if said["role"] == "caller" else "assistant", "content": said["text"]}
    yield {"role": "user", "content": question["message"]}


def answer(question):
    """Yield the pieces of the model's answer to question["message"], and then its tokens."""
    asked = {"model": MODEL, "messages": list(messages(question)), "stream": True, "stream_options": {"include_usage": True}}
    header = {"Authorization": "Bearer " + KEY, "Content-Type": "application/json"}
    request = Request(URL + "/chat/completions", json.dumps(asked).encode(), header)
    with urlopen(request, timeout=question.get("deadline_ms", 20_000) / 1000) as reply:
        for line in reply:
            data = line.decode().removeprefix("data:").strip()
            if data == "[DONE]":
                return
            if not data.startswith("{"):
                continue
            chunk = json.loads(data)
            for choice in chunk["choices"]:
                yield choice["delta"].get("content") or ""
            if used := chunk.get("usage"):
                yield {"input_tokens": used["prompt_tokens"], "output_tokens": used["completion_tokens"]}
    raise ConnectionError("the model's answer was interrupted")


if __name__ == "__main__":
    run(answer, {{.Port}})
