"""Asks a model by its provider's own client, and prints what that read as JSON.

client.py PROVIDER URL: the conversation is that of peers_test.go.
"""

import json
import sys

provider, url = sys.argv[1:]
KEY = "secret-of-a-test-0123456789"
SYSTEM = "You know things"
QUESTION = 'What is the "answer"?\n\u2028ü🦊'
SCHEMA = {"type": "object", "properties": {"for": {"type": "string"}}}
text, calls, usage = "", [], {}

if provider == "gemini":
    from google import genai
    from google.genai import types

    client = genai.Client(api_key=KEY, http_options=types.HttpOptions(base_url=url, api_version="v1"))
    part = types.Part
    stream = client.models.generate_content_stream(
        model="m",
        contents=[
            types.Content(role="user", parts=[part(text=QUESTION)]),
            types.Content(role="model", parts=[
                part(text="Let me see"),
                part(function_call=types.FunctionCall(id="c1", name="look", args={"for": "a"}), thought_signature=b"opaque"),
            ]),
            types.Content(role="user", parts=[
                part(function_response=types.FunctionResponse(id="c1", name="look", response={"output": "found"})),
            ]),
        ],
        config=types.GenerateContentConfig(
            system_instruction=SYSTEM,
            max_output_tokens=500,
            thinking_config=types.ThinkingConfig(thinking_level="LOW"),
            tools=[types.Tool(function_declarations=[
                types.FunctionDeclaration(name="look", description="Looks", parameters_json_schema=SCHEMA)])],
            automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        ),
    )
    for chunk in stream:
        for one in chunk.candidates[0].content.parts:
            if one.function_call:
                calls.append([one.function_call.name, one.function_call.args])
            elif not one.thought:
                text += one.text or ""
        if chunk.usage_metadata:
            u = chunk.usage_metadata
            usage = {"in": u.prompt_token_count, "out": u.candidates_token_count + u.thoughts_token_count,
                     "cached": u.cached_content_token_count}
elif provider == "anthropic":
    from anthropic import Anthropic

    client = Anthropic(api_key=KEY, base_url=url, max_retries=0)
    with client.messages.stream(
        model="m",
        max_tokens=500,
        system=SYSTEM,
        messages=[
            {"role": "user", "content": [{"type": "text", "text": QUESTION}]},
            {"role": "assistant", "content": [
                {"type": "text", "text": "Let me see"},
                {"type": "tool_use", "id": "c1", "name": "look", "input": {"for": "a"}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "found"}]},
        ],
        tools=[{"name": "look", "description": "Looks", "input_schema": SCHEMA}],
    ) as stream:
        message = stream.get_final_message()
    for block in message.content:
        if block.type == "tool_use":
            calls.append([block.name, block.input])
        elif block.type == "text":
            text += block.text
    cached = message.usage.cache_read_input_tokens or 0
    usage = {"in": message.usage.input_tokens + cached, "out": message.usage.output_tokens, "cached": cached}
else:
    from openai import OpenAI

    client = OpenAI(api_key=KEY, base_url=url + "/v1", max_retries=0)
    parts = {}
    stream = client.chat.completions.create(
        model="m",
        stream=True,
        stream_options={"include_usage": True},
        max_tokens=500,
        messages=[
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": QUESTION},
            {"role": "assistant", "content": "Let me see", "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"for":"a"}'}}]},
            {"role": "tool", "tool_call_id": "c1", "content": "found"},
        ],
        tools=[{"type": "function", "function": {"name": "look", "description": "Looks", "parameters": SCHEMA}}],
    )
    for chunk in stream:
        for choice in chunk.choices:
            text += choice.delta.content or ""
            for call in choice.delta.tool_calls or []:
                name, arguments = parts.get(call.index, ("", ""))
                parts[call.index] = (name + (call.function.name or ""), arguments + (call.function.arguments or ""))
        if chunk.usage:
            usage = {"in": chunk.usage.prompt_tokens, "out": chunk.usage.completion_tokens,
                     "cached": chunk.usage.prompt_tokens_details.cached_tokens}
    calls = [[name, json.loads(arguments)] for name, arguments in parts.values()]

print(json.dumps({"text": text, "calls": calls, "usage": usage}))
