"""Drives "vacancy acp" as an editor does, and prints what this client saw as JSON.

client.py BASE KEY COMMAND FOLDER
"""
import asyncio
import json
import os
import sys

from acp import PROTOCOL_VERSION, RequestError, spawn_agent_process, text_block

base, key, command, cwd = sys.argv[1:5]
seen = {}


class Editor:
    def __init__(self):
        self.texts = {}

    async def session_update(self, session_id, update, **_):
        kind = update.session_update
        text = getattr(getattr(update, "content", None), "text", "")
        self.texts[kind] = self.texts.get(kind, "") + text

    async def request_permission(self, options, session_id, tool_call, **_):
        raise RequestError.method_not_found("session/request_permission")

    def on_connect(self, conn):
        pass


def connect(editor, vacant):
    env = {**os.environ, "VACANCY_KEY": key}
    return spawn_agent_process(editor, command, "acp", vacant, "--host", base, env=env, use_unstable_protocol=True)


async def code(call):
    try:
        return str(await call)
    except RequestError as e:
        return str(e.code)


async def main():
    editor = Editor()
    async with connect(editor, "writer") as (agent, _):
        me = await agent.initialize(protocol_version=PROTOCOL_VERSION)
        has = me.agent_capabilities.session_capabilities.model_dump(exclude_none=True)
        seen["initialize"] = f"{me.protocol_version} {me.agent_info.name} {str(me.agent_capabilities.load_session).lower()} {' '.join(sorted(has))}"
        made = await agent.new_session(cwd=cwd, mcp_servers=[])
        session = made.session_id
        seen["modes"] = f"{made.modes.current_mode_id} of {' '.join(m.id for m in made.modes.available_modes)}"
        answer = await agent.prompt(session_id=session, prompt=[text_block("hi")])
        seen["prompt"] = f"{answer.stop_reason} {editor.texts['agent_message_chunk'].split(': ')[-1]}"
        await agent.set_session_mode(session_id=session, mode_id="read-only")
        seen["mode"] = "told" if "current_mode_update" in editor.texts else "not told"
        seen["wrong mode"] = await code(agent.set_session_mode(session_id=session, mode_id="yolo"))
        changed = await agent.set_config_option(config_id="model", session_id=session, value="large")
        seen["model"] = changed.config_options[0].current_value
        seen["unknown"] = await code(agent.ext_method("x/y", {}))
        seen["verify"] = str((await agent.ext_method("vacant/verify", {"sessionId": session}))["verified"]).lower()
        seen["no session"] = await code(agent.prompt(session_id="nobody", prompt=[text_block("hi")]))
    editor = Editor()
    async with connect(editor, "writer") as (agent, _):
        await agent.initialize(protocol_version=PROTOCOL_VERSION)
        listed = (await agent.list_sessions(cwd=cwd)).sessions
        seen["list"] = str(any(s.session_id == session and s.title == "hi" for s in listed)).lower()
        await agent.load_session(cwd=cwd, session_id=session, mcp_servers=[])
        await asyncio.sleep(0.2)
        seen["load"] = f"{editor.texts['user_message_chunk']} {editor.texts['agent_message_chunk'].split(': ')[-1]}"
        fork = await agent.fork_session(session_id=session, cwd=cwd)
        seen["fork"] = str(fork.session_id != session).lower()
        await agent.resume_session(session_id=session, cwd=cwd)
        seen["foreign"] = await code(agent.load_session(cwd=cwd, session_id="acp-00000000-X", mcp_servers=[]))
    async with connect(Editor(), "sleeper") as (agent, _):
        await agent.initialize(protocol_version=PROTOCOL_VERSION)
        session = (await agent.new_session(cwd=cwd, mcp_servers=[])).session_id
        running = asyncio.create_task(agent.prompt(session_id=session, prompt=[text_block("sleep")]))
        await asyncio.sleep(0.5)
        await agent.cancel(session_id=session)
        seen["cancel"] = (await running).stop_reason


asyncio.run(main())
print(json.dumps(seen))
