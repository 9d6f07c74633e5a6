"""The whole story of a session by the Python client.

A test plays the person and the machine: it is told where the story is, kills the daemon, and says when to go on. The last line
is what came of it.

    python story.py '{"dataDir": "…", "cwd": "…"}'
"""

import asyncio
import json
import sys
from typing import Any, Dict, List, Optional

from trunkline import Attachment, ClosedError, Hook, McpServer, McpTool, Record, Trunkline, TrunklineError, api
from trunkline.records import ResultMessage


def script(*steps: Dict[str, Any]) -> str:
    return f"SCRIPT:{json.dumps(steps)}:END"


def bash(command: str) -> Dict[str, Any]:
    return {"tool": "Bash", "input": {"command": command}}


def say(value: object) -> None:
    print(json.dumps(value), flush=True)


async def pause(at: str) -> None:
    say({"at": at})
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)


async def turn(attachment: Attachment, kept: List[Record]) -> ResultMessage:
    """Reads on until the next result."""
    async for record in attachment:
        kept.append(record)
        result = record.cli("result")
        if result:
            return result
    raise RuntimeError("the session ended")


async def story(trunkline: Trunkline, cwd: str) -> Dict[str, Any]:
    # Create, with a hook, a tool and decisions.
    asked: List[Any] = []
    hooked: List[str] = []
    errors: List[str] = []
    connections: List[bool] = []
    prompts: List[str] = []
    options = [{"label": label, "description": label} for label in ["Red", "Blue"]]
    question = {"question": "Which colour?", "header": "Colour", "multiSelect": False, "options": options}

    def decide(approval: api.Approval) -> api.DecisionRequest:
        asked.append([approval["kind"], approval["subject"]])
        if approval["kind"] == "question":
            return {"decision": "answer", "answers": {"Which colour?": "Blue"}}
        if approval["request"]["input"].get("command") == "touch asked.txt":
            return {"decision": "allow", "updated_input": {"command": "touch changed.txt"}}
        return {"decision": "allow"}

    def guard(input: Dict[str, Any]) -> Optional[Dict[str, Any]]:
        command = input["tool_input"]["command"]
        hooked.append(command)
        if command != "touch denied.txt":
            return None
        denial = {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "not on my watch"}
        return {"hookSpecificOutput": denial}

    async def add(arguments: Dict[str, Any]) -> str:
        return f"the sum is {arguments['a'] + 1}"

    schema = {"type": "object", "properties": {"a": {"type": "number"}}}
    calc = McpServer([McpTool("add", add, "Adds one.", schema, annotations={"readOnlyHint": True})])
    guarded = Hook("PreToolUse", guard, matcher="Bash")

    def failed(error: BaseException) -> None:
        errors.append(str(error))

    agent = await trunkline.start(
        {"cwd": cwd, "prompt": script(bash("touch asked.txt"), {"text": "Made."})},
        on_approval=decide,
        hooks=[guarded],
        mcp_servers={"calc": calc},
        on_error=failed,
        on_connection=connections.append,
    )
    session = agent.session
    records: List[Record] = []

    first = await turn(agent, records)
    await session.send(script({"tool": "AskUserQuestion", "input": {"questions": [question]}}, {"text": "Blue, then."}))
    await turn(agent, records)
    await session.send(script(bash("touch denied.txt"), {"tool": "mcp__calc__add", "input": {"a": 41}}, {"text": "Counted."}))
    await turn(agent, records)
    servers = await trunkline.rest.list_mcp_servers(session.id)

    # The daemon dies in the middle of a turn whose end is waited for.
    held = script({"text": "Held, and said to the end.", "wait": "held", "wait_at": 1})
    waiting = asyncio.ensure_future(session.ask(held))
    await pause("held")
    answer = await waiting
    await turn(agent, records)

    await session.send(script(bash("touch started; sleep 600"), {"text": "never"}))
    await pause("started")
    await session.interrupt()
    cut = await turn(agent, records)

    # A fork has the hooks and tools of its parent; another hook is added at run time.
    fork = await session.fork({"title": "the fork"})
    forked = fork.attach(
        after=0,
        client_id=agent.client_id,
        on_approval=decide,
        hooks=[guarded, Hook("UserPromptSubmit", lambda input: prompts.append(input["prompt"]))],
        mcp_servers={"calc": calc},
        on_error=failed,
    )
    await forked.ready()
    await fork.send(script(bash("touch forked.txt"), {"text": "From the fork."}))
    end = await turn(forked, [])

    usage = await trunkline.rest.get_usage(group_by="session")
    turns = await trunkline.rest.list_turns(session.id)
    unknown: Any = None
    try:
        await trunkline.session("01890a5d-ac96-774b-bcce-b302099a8057").view()
    except TrunklineError as error:
        unknown = [error.code, error.status, error.retryable]

    await fork.delete()
    deleted = None
    try:
        async for _ in forked:
            pass
    except ClosedError as error:
        deleted = error.code
    parent = await session.view()
    await session.stop()
    async for record in agent:
        records.append(record)
        state = record.note("state")
        if state and state["state"] == "stopped":
            break
    seen = list(connections)
    await agent.close()
    response: Any = servers["response"]
    return {
        "id": session.id,
        "fork": fork.id,
        "asked": asked,
        "hooked": hooked,
        "errors": errors,
        "connections": seen,
        "said": [record.said for record in records if record.said],
        "seqs": [record.seq for record in records],
        "first": [first["subtype"], first["result"]],
        "held": (answer.get("result") or {}).get("result"),
        "cut": cut["subtype"],
        "prompts": len(prompts),
        "end": end["result"],
        "tools": next(it["tools"] for it in response["mcpServers"] if it["name"] == "calc"),
        "isLive": parent["state"],
        "turns": len(turns["items"]),
        "cost": next(it["cost_usd"] for it in usage["items"] if it["key"] == session.id),
        "unknown": unknown,
        "deleted": deleted,
    }


async def main() -> None:
    setup = json.loads(sys.argv[1])
    async with await Trunkline.find(data_dir=setup["dataDir"]) as trunkline:
        say({"outcome": await story(trunkline, setup["cwd"])})


asyncio.run(main())
