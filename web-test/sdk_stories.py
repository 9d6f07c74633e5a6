"""Runs stories with the official Python SDK, unmodified, and prints all that each story was given: a line of JSON per story.

    python sdk_stories.py '{"way": "direct", "claude": …, "dir": …, "api": …}'
"""

import asyncio
import dataclasses
import json
import pathlib
import sys
import urllib.request

from claude_agent_sdk import (
    ClaudeAgentOptions,
    ClaudeSDKClient,
    HookMatcher,
    PermissionResultAllow,
    PermissionResultDeny,
    ResultMessage,
    UserMessage,
    create_sdk_mcp_server,
    query,
    tool,
)

SETUP = json.loads(sys.argv[1])
# So many stories run side by side.
ABREAST = 2


def script(*steps):
    return f"SCRIPT:{json.dumps(steps)}:END"


def bash(command, **more):
    return {"tool": "Bash", "input": {"command": command}, **more}


def plain(value):
    """Data as JSON has it; the class of a message is its kind."""
    if dataclasses.is_dataclass(value):
        fields = {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {"class": type(value).__name__, **fields}
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else type(value).__name__


class Told:
    """All that one story was given."""

    def __init__(self, name):
        self.name = name
        self.dir = pathlib.Path(SETUP["dir"]) / name
        self.dir.mkdir(parents=True, exist_ok=True)
        self.gate = f"{SETUP.get('name', SETUP['way'])}-{name}"
        self.messages, self.calls, self.notes = [], [], {}

    def options(self, **options):
        program = SETUP["claude"] if SETUP["way"] == "direct" else SETUP["standIn"]
        return ClaudeAgentOptions(cli_path=program, cwd=self.dir, **options)

    async def ask(self, *steps, **options):
        """One prompt, up to the end of its stream; the session's id."""
        async for message in query(prompt=script(*steps), options=self.options(**options)):
            self.messages.append(plain(message))
        return self.messages[-1].get("session_id")

    def client(self, **options):
        return ClaudeSDKClient(self.options(**options))

    async def until(self, client, kind):
        async for message in client.receive_messages():
            self.messages.append(plain(message))
            if isinstance(message, kind):
                return

    async def turn(self, client, *steps):
        await client.query(script(*steps))
        await self.until(client, ResultMessage)

    async def at_gate(self):
        url = f"{SETUP['api']}/control/gates/{self.gate}?timeout_ms=30000"
        await asyncio.to_thread(lambda: urllib.request.urlopen(url).read())

    def files(self, *names):
        self.notes["files"] = [name for name in names if (self.dir / name).exists()]


async def story_plain(told):
    await told.ask({"text": "Hello."})


async def story_streaming_input(told):
    async def prompts():
        for steps in ([{"text": "Hello."}], [bash("echo again"), {"text": "And again."}]):
            yield {
                "type": "user",
                "message": {"role": "user", "content": script(*steps)},
                "parent_tool_use_id": None,
                "session_id": "default",
            }
            await results.get()

    # The second prompt is said when the first is answered.
    results = asyncio.Queue()
    async for message in query(prompt=prompts(), options=told.options()):
        told.messages.append(plain(message))
        if isinstance(message, ResultMessage):
            results.put_nowait(True)


async def story_partial_messages(told):
    thinking = {"thinking": "Let me see.", "text": "Piece by piece.", **bash("echo pieces")}
    await told.ask(thinking, {"text": "All of them."}, include_partial_messages=True)


async def story_permissions(told):
    async def can_use_tool(name, given, context):
        told.calls.append({"name": name, "input": given, "tool_use_id": context.tool_use_id})
        if name == "AskUserQuestion":
            return PermissionResultAllow(updated_input={**given, "answers": {"Which colour?": "Blue"}})
        if "denied" in given["command"]:
            return PermissionResultDeny(message="not this one")
        return PermissionResultAllow(updated_input={**given, "command": "touch changed.txt"})

    choices = [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}]
    question = {"question": "Which colour?", "header": "Colour", "multiSelect": False, "options": choices}
    ask = {"tool": "AskUserQuestion", "input": {"questions": [question]}}
    async with told.client(can_use_tool=can_use_tool) as client:
        await told.turn(client, bash("touch asked.txt"), bash("touch denied.txt"), ask, {"text": "done"})
    told.files("asked.txt", "changed.txt", "denied.txt")


async def story_hooks(told):
    def noted(answer):
        async def hook(given, tool_use_id, _context):
            told.calls.append({"input": given, "tool_use_id": tool_use_id})
            return answer

        return [hook]

    context = {"hookEventName": "UserPromptSubmit", "additionalContext": "It is Sunday."}
    deny = {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "not on my watch"}
    hooks = {
        "UserPromptSubmit": [HookMatcher(hooks=noted({"hookSpecificOutput": context}))],
        "PreToolUse": [HookMatcher(matcher="Bash", hooks=noted({"hookSpecificOutput": deny}))],
        "PostToolUse": [HookMatcher(matcher="Write", hooks=noted({}))],
        "Stop": [HookMatcher(hooks=noted({}))],
    }
    write = {"tool": "Write", "input": {"file_path": str(told.dir / "made.txt"), "content": "made"}}
    async with told.client(hooks=hooks, allowed_tools=["Write"]) as client:
        await told.turn(client, bash("touch denied.txt"), write, {"text": "done"})
    told.files("denied.txt", "made.txt")


async def story_mcp_tool(told):
    @tool("add", "Adds one.", {"a": int})
    async def add(given):
        told.calls.append({"input": given})
        return {"content": [{"type": "text", "text": f"the sum is {given['a'] + 1}"}]}

    servers = {"calc": create_sdk_mcp_server(name="calc", version="1.0.0", tools=[add])}
    async with told.client(mcp_servers=servers, allowed_tools=["mcp__calc__add"]) as client:
        await told.turn(client, {"tool": "mcp__calc__add", "input": {"a": 41}}, {"text": "done"})
        told.notes["servers"] = plain(await client.get_mcp_status())


async def story_interrupt(told):
    async with told.client() as client:
        await client.query(script({"text": "A moment.", **bash("true")}, {"text": "never", "wait": told.gate}))
        await told.at_gate()
        await client.interrupt()
        await told.until(client, ResultMessage)
        await told.turn(client, {"text": "Something else."})


async def story_controls(told):
    async with told.client(model="sonnet") as client:
        await told.turn(client, {"text": "With one model."})
        await client.set_model("opus")
        await client.set_permission_mode("acceptEdits")
        write = {"tool": "Write", "input": {"file_path": str(told.dir / "made.txt"), "content": "made"}}
        await told.turn(client, write, {"text": "With another."})
        told.notes["info"] = plain(await client.get_server_info())
    told.files("made.txt")


async def story_resume_and_fork(told):
    first = await told.ask({"text": "Something to remember."})
    again = await told.ask({"text": "I remember."}, resume=first)
    fork = await told.ask({"text": "So do I."}, resume=first, fork_session=True)
    told.notes["sessions"] = [first == again, first == fork]


async def story_structured_output(told):
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    }
    answer = {"tool": "StructuredOutput", "input": {"city": "Ulm"}}
    await told.ask(answer, {"text": "done"}, output_format={"type": "json_schema", "schema": schema})


async def story_close(told):
    async with told.client() as client:
        await client.query(script({"text": "A moment.", **bash("true")}, {"text": "never", "wait": told.gate}))
        await told.until(client, UserMessage)
        await told.at_gate()


async def story_failure(told):
    try:
        await told.ask({"text": "never"}, resume="00000000-0000-4000-8000-000000000000")
    except Exception as error:  # noqa: BLE001 — its class is compared
        told.notes["error"] = [type(error).__name__, str(error)]


STORIES = {name.removeprefix("story_"): story for name, story in list(globals().items()) if name.startswith("story_")}


async def play(name):
    told = Told(name)
    given = {"messages": told.messages, "calls": told.calls, "notes": told.notes}
    try:
        await STORIES[name](told)
    except Exception as error:  # noqa: BLE001 — the test reports it
        given["failed"] = f"{type(error).__name__}: {error}"
    print(json.dumps({"story": name, "dir": str(told.dir), **given}), flush=True)


async def main():
    names = list(SETUP.get("stories") or STORIES)

    async def player():
        while names:
            await play(names.pop(0))

    await asyncio.gather(*(player() for _ in range(ABREAST)))


asyncio.run(main())
