"""Owns a client of one session: records in their order, each once, and answers by callbacks, over a socket that comes back."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import random
import re
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Awaitable, Callable, Coroutine, Dict, List, Mapping, Optional, Sequence, Tuple, TypedDict, Union, cast
from urllib.parse import urlencode

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.typing import Subprotocol

from .backlog import Backlog
from .errors import ClosedError, HistoryDiffersError, TrunklineError, UnreachableError, as_place_refused
from .mcp import McpServer
from .records import Record

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from . import api
    from .client import Session

logger = logging.getLogger("trunkline")

#: The pause before the first try to come back, and the longest one.
FIRST_PAUSE = 0.2
LONGEST_PAUSE = 10.0
#: A socket that does not answer a ping for so long is dead.
PING = 20.0
#: After these closes nothing is better the next time.
FINAL_CLOSES = frozenset({1002, 1003, 1009, 1011, 4400, 4401, 4403, 4410})
#: Somebody else was first, or the CLI asks no longer.
LATE = frozenset({"already_decided", "approval_not_pending", "approval_not_found", "request_not_pending", "request_not_owned"})
#: No process is there to be told of hooks; the next one will be.
NO_PROCESS = frozenset({"session_not_live", "session_stopping", "session_ended", "request_cancelled"})

HookOutput = Optional[Dict[str, Any]]
Decide = Callable[["api.Approval"], Union["Optional[api.DecisionRequest]", "Awaitable[Optional[api.DecisionRequest]]"]]


@dataclass(frozen=True)
class Hook:
    """Something that the CLI asks before or after what it does."""

    #: The event, as the CLI names it: ``PreToolUse``, ``UserPromptSubmit``, ``Stop``, …
    event: str
    #: Answers its input: a hook output, as the CLI takes it. ``None`` is no opinion.
    call: Callable[[Dict[str, Any]], Union[HookOutput, Awaitable[HookOutput]]]
    #: Which of its occurrences, such as a tool's name or ``Edit|Write``. Default: all.
    matcher: Optional[str] = None
    #: How long the CLI waits for the answer. Default: 60 s.
    timeout_ms: Optional[int] = None


class AttachOptions(TypedDict, total=False):
    """How a session is followed."""

    #: The records after this number come first. Default: only new ones come.
    after: Optional[int]
    #: The time of that record, as :attr:`Attachment.ts` had it: a session whose record is another one is refused.
    after_ts: Optional[str]
    #: How this program names itself, so that it can come back after it was started again. Default: a name of its own.
    client_id: Optional[str]
    #: Decides what the agent asks. With ``None`` the approval waits for somebody else.
    on_approval: Optional[Decide]
    #: Hooks that this program answers.
    hooks: Sequence[Hook]
    #: MCP servers that run in this program, by their names.
    mcp_servers: Mapping[str, McpServer]
    #: Sees every frame that is no record, such as the news that records are missing, and why.
    on_frame: Optional[Callable[[Dict[str, Any]], None]]
    #: Told when the socket is there (``True``) and when it is lost.
    on_connection: Optional[Callable[[bool], None]]
    #: Told what a callback raised, and what of its answers was not taken. Default: it is logged.
    on_error: Optional[Callable[[BaseException], None]]


class Attachment:
    """A client of one session. Iterate over it for the records; callbacks are served whether or not somebody does.

    Leaving a loop does not end it: :meth:`close` and ``async with`` do. A callback whose answer is no longer wanted, as somebody
    else decided, is cancelled. An error that a callback raises goes to ``on_error``, which by default logs it.
    """

    def __init__(self, session: Session, **options: Unpack[AttachOptions]) -> None:
        #: The session.
        self.session = session
        #: The name under which it is attached.
        self.client_id = options.get("client_id") or new_client_id()
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", self.client_id):
            raise ValueError(f"{self.client_id} is no name of a client")
        self._on_approval = options.get("on_approval")
        self._hooks = list(options.get("hooks") or ())
        self._servers = dict(options.get("mcp_servers") or {})
        self._on_frame = options.get("on_frame")
        self._on_connection = options.get("on_connection")
        self._on_error = options.get("on_error")
        self._backlog = Backlog(self._page)
        self._hooks_by_id: Dict[str, Hook] = {}
        # The work that callbacks are busy with: by request id, and approvals by theirs.
        self._busy: Dict[str, asyncio.Task[None]] = {}
        self._offered: Dict[str, asyncio.Task[None]] = {}
        # Approvals whose decision is on its way.
        self._sent: "set[str]" = set()
        # Open calls of tools, by server and id, with the requests that they came in.
        self._calls: Dict[Tuple[str, Any], str] = {}
        # Answers that are not in the journal yet, by request id.
        self._answers: Dict[str, str] = {}
        self._socket: Optional[ClientConnection] = None
        # The last record that came, and the last one that is history of this connection; before the snapshot all are.
        self._cursor = options.get("after")
        # The time of that record, by which the daemon knows that its history is the one that this client has.
        self._cursor_ts = options.get("after_ts")
        self._head: float = float("inf")
        self._registration: Optional[Dict[str, Any]] = None
        self._registration_id: Optional[str] = None
        self._return_after: Optional[float] = None
        self._is_closed = False
        self._tasks: "set[asyncio.Task[Any]]" = set()
        self._initial: "asyncio.Future[None]" = asyncio.get_running_loop().create_future()
        self._initial.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._run_task = self._spawn(self._run())

    async def ready(self) -> None:
        """Waits until it is attached and the CLI knows its hooks and servers."""
        await asyncio.shield(self._initial)

    @property
    def seq(self) -> Optional[int]:
        """The number of the last record that the loop was given: ``after`` for the next time."""
        return self._backlog.given

    @property
    def ts(self) -> Optional[str]:
        """The time of that record: ``after_ts`` for the next time. ``None`` where it did not come itself, such as before the first one."""
        return self._backlog.given_ts

    def __aiter__(self) -> Attachment:
        return self

    async def __anext__(self) -> Record:
        record = await self._backlog.next()
        if record is None:
            raise StopAsyncIteration
        return record

    async def close(self) -> None:
        """Leaves the session, which goes on. The loop ends."""
        self._end(None)
        # A callback may be what closes it.
        others = self._tasks - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def __aenter__(self) -> Attachment:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    def _end(self, error: Optional[BaseException]) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        for task in [*self._busy.values(), *self._offered.values()]:
            if task is not asyncio.current_task():
                task.cancel()
        self._backlog.end(error)
        if not self._initial.done():
            self._initial.set_exception(error or ClosedError(1000, "closed by this program"))

    def _tell(self, listener: Optional[Callable[[Any], None]], news: Any) -> None:
        """Calls what only listens."""
        try:
            if listener:
                listener(news)
        except Exception as error:
            self._report(error)

    def _report(self, error: BaseException) -> None:
        if self._on_error:
            self._on_error(error)
        else:
            logger.error("%s", error, exc_info=error)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _page(self, after: int, after_ts: Optional[str] = None) -> Tuple[List[Dict[str, Any]], int]:
        """A page of the journal. A daemon that is away is waited for, as the socket does."""
        while True:
            try:
                page = await self.session.trunkline.rest.list_events(self.session.id, limit=500, **_place(after, after_ts))
                return cast("List[Dict[str, Any]]", page["items"]), page["next_after"]
            except (UnreachableError, TrunklineError) as error:
                if isinstance(error, TrunklineError) and not error.retryable:
                    raise as_place_refused(error, after_ts is not None) from None
                if self._is_closed:
                    raise
            await asyncio.sleep(FIRST_PAUSE)

    # Connections.

    async def _run(self) -> None:
        failures, is_again = 0, False
        while not self._is_closed:
            try:
                # A daemon that comes back may be elsewhere.
                if await self._connection(is_again):
                    failures = 0
            except Exception as error:
                self._end(error)
                return
            is_again = True
            longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(failures, 10))
            failures += 1
            # Some of it by chance, so that clients do not come back all at once.
            pause = longest * random.uniform(0.5, 1) if self._return_after is None else self._return_after
            self._return_after = None
            await asyncio.sleep(pause)

    async def _connection(self, is_again: bool) -> bool:
        """One connection, from its beginning to its end; whether it came about. Raises what is final."""
        query = {"client_id": self.client_id, **_place(self._cursor, self._cursor_ts)}
        self._head = float("inf")
        has_come = False
        try:
            place = await self.session.trunkline.place(is_again)
            url = f"{place.url.replace('http', 'ws', 1)}/v1/sessions/{self.session.id}/ws?{urlencode(query)}"
            headers = {} if place.token is None else {"authorization": f"Bearer {place.token}"}
            socket = await connect(
                url, subprotocols=[Subprotocol("trunkline.v1")], additional_headers=headers, user_agent_header=None, proxy=None,
                max_size=None, ping_interval=PING, ping_timeout=PING, open_timeout=30, close_timeout=2,
            )
        except InvalidHandshake:
            await self._refused()
            return False
        except (OSError, asyncio.TimeoutError):
            return False
        try:
            self._socket = socket
            async for text in socket:
                if not has_come:
                    self._tell(self._on_connection, True)
                has_come = True
                if not await self._on_text(text):
                    break
        except ConnectionClosed:
            pass
        finally:
            self._socket = None
            if has_come:
                self._tell(self._on_connection, False)
            # At the end of the program nobody waits for the daemon's goodbye.
            if self._is_closed or socket.close_code is None:
                await socket.close()
        if socket.close_code in FINAL_CLOSES:
            raise ClosedError(socket.close_code or 0, socket.close_reason or "")
        return has_come

    async def _refused(self) -> None:
        """A route that is refused for the same reasons says why."""
        try:
            await self.session.trunkline.rest.list_events(self.session.id, limit=1, **_place(self._cursor, self._cursor_ts))
        except TrunklineError as error:
            if not error.retryable:
                raise as_place_refused(error, self._cursor_ts is not None) from None
        except Exception:
            pass

    async def _send(self, text: str) -> None:
        if self._socket is None:
            return
        try:
            await self._socket.send(text)
        except ConnectionClosed:
            pass  # It is sent again once the socket is back.

    # The words of the daemon.

    async def _on_text(self, text: Union[str, bytes]) -> bool:
        """Takes a frame; whether the socket is still good."""
        frame: Dict[str, Any] = json.loads(text)
        kind = frame.get("type")
        if kind is None:
            return await self._on_record(Record.of(frame), len(text))
        if kind == "trunkline.snapshot":
            await self._on_snapshot(frame)
        elif kind == "trunkline.gap":
            self._cursor, self._cursor_ts = frame["last_seq"], None
            self._backlog.skip(frame["last_seq"])
        elif kind == "trunkline.shutdown":
            self._return_after = frame["reconnect_after_ms"] / 1000
        elif kind == "trunkline.ack":
            self._answers.pop(frame.get("request_id", ""), None)
        elif kind == "trunkline.error":
            self._on_refusal(frame)
        elif kind == "control_response":
            self._on_response(frame["response"])
        self._tell(self._on_frame, frame)
        return not self._is_closed

    async def _on_snapshot(self, snapshot: Dict[str, Any]) -> None:
        if self._cursor is None:
            self._cursor = snapshot["after"]
        self._backlog.begin(self._cursor or 0, self._cursor_ts)
        self._head = snapshot["head_seq"]
        await self._register(snapshot["session"]["options"])
        # Anything that is not open any more was taken back, or answered by others, while this client was away.
        requests = {pending["request_id"] for pending in snapshot["pending_requests"]}
        if snapshot["waiting_requests"] == 0:
            self._forget(lambda id: id not in requests)
        for id, line in list(self._answers.items()):
            if id in requests:
                await self._send(line)
        for pending in snapshot["pending_requests"]:
            if pending["client_id"] == self.client_id:
                self._spawn(self._on_pending(pending))
        approvals = {approval["id"] for approval in snapshot["pending_approvals"]}
        for id in list(self._offered):
            if id not in approvals and snapshot["session"]["waiting_approvals"] == 0:
                self._decided(id)
        for id in approvals:
            self._offer(id)

    async def _on_record(self, record: Record, characters: int) -> bool:
        cursor = self._cursor
        if cursor is not None and record.seq <= cursor:
            return True
        if cursor is not None and record.seq != cursor + 1:
            return False  # A record is missing on the way: it is asked for again.
        self._cursor, self._cursor_ts = record.seq, record.ts
        self._backlog.push(record, characters)
        # The open requests of the history are in the snapshot.
        if record.seq <= self._head:
            return True
        request = record.cli("control_request")
        if request:
            self._on_request(request["request_id"], dict(request["request"]))
        cancelled = record.cli("control_cancel_request")
        if cancelled:
            gone = cancelled["request_id"]
            self._forget(lambda id: id == gone)
        approval = record.note("approval")
        if approval:
            self._offer(approval["approval_id"])
        decision = record.note("decision")
        if decision:
            self._decided(decision["approval_id"])
        if record.note("run_exited") or record.note("run_lost"):
            self._forget(lambda id: True)
        if record.note("run_started"):
            await self._send_registration()
        return True

    def _on_refusal(self, frame: Dict[str, Any]) -> None:
        error = TrunklineError.of(0, frame)
        request_id = frame.get("request_id")
        if request_id is not None and request_id == self._registration_id:
            if error.code in NO_PROCESS:
                self._registered(None)
            else:
                self._registered(error)
            return
        self._answers.pop(request_id or "", None)
        if isinstance(error, HistoryDiffersError):
            self._end(error)
        elif error.code not in LATE:
            self._report(error)

    def _on_response(self, response: Dict[str, Any]) -> None:
        if response["request_id"] == self._registration_id:
            is_good = response["subtype"] == "success"
            self._registered(None if is_good else RuntimeError(f"the CLI refused the registration: {response.get('error')}"))

    def _registered(self, error: Optional[BaseException]) -> None:
        if error is not None:
            self._report(error)
        if self._initial.done():
            return
        if error is None:
            self._initial.set_result(None)
        else:
            self._initial.set_exception(error)

    # Hooks and servers.

    async def _register(self, launch: Dict[str, Any]) -> None:
        """Tells the CLI of the hooks and servers that the session was not made with."""
        ours = [hook if self._is_ours(hook.get("target")) else None for hook in launch.get("hooks") or []]
        hooks: Dict[str, List[Dict[str, Any]]] = {}
        self._hooks_by_id.clear()
        for index, hook in enumerate(self._hooks):
            same = (it for it, has in enumerate(ours) if has and (has["event"], has.get("matcher")) == (hook.event, hook.matcher))
            place = next(same, None)
            if place is not None:
                ours[place] = None
                self._hooks_by_id[f"trunkline/{place}"] = hook
                continue
            self._hooks_by_id[f"{self.client_id}/hook_{index}"] = hook
            matcher: Dict[str, Any] = {"hookCallbackIds": [f"hook_{index}"]}
            if hook.matcher is not None:
                matcher["matcher"] = hook.matcher
            if hook.timeout_ms is not None:
                matcher["timeout"] = hook.timeout_ms / 1000
            hooks.setdefault(hook.event, []).append(matcher)
        declared = launch.get("sdk_mcp_servers") or {}
        servers = [name for name in self._servers if not self._is_ours((declared.get(name) or {}).get("target"))]
        request: Dict[str, Any] = {"subtype": "initialize"}
        if hooks:
            request["hooks"] = hooks
        if servers:
            request["sdkMcpServers"] = servers
        self._registration = request if len(request) > 1 else None
        if self._registration is None:
            self._registered(None)
        else:
            await self._send_registration()

    def _is_ours(self, target: Optional[Dict[str, Any]]) -> bool:
        return target is not None and target.get("type") == "client" and target.get("client_id") == self.client_id

    async def _send_registration(self) -> None:
        """A later process is told again."""
        if self._registration is not None:
            self._registration_id = str(uuid.uuid4())
            await self._send(json.dumps({"type": "control_request", "request_id": self._registration_id, "request": self._registration}))

    async def _on_pending(self, pending: Dict[str, Any]) -> None:
        request = pending["request"]
        if pending["request_truncated"]:
            try:
                records, _ = await self._page(pending["seq"] - 1)
            except Exception as error:
                self._report(error)
                return
            request = records[0]["data"]["request"]
        self._on_request(pending["request_id"], request)

    def _on_request(self, id: str, request: Dict[str, Any]) -> None:
        if id in self._busy or id in self._answers:
            return
        hook = self._hooks_by_id.get(request.get("callback_id", "")) if request["subtype"] == "hook_callback" else None
        if hook is not None:
            self._busy[id] = self._spawn(self._answer(id, _hooked(hook, request.get("input") or {})))
            return
        name = request.get("server_name", "") if request["subtype"] == "mcp_message" else ""
        server = self._servers.get(name)
        if server is None:
            return
        message = request.get("message") or {}
        if message.get("method") == "notifications/cancelled":
            called = self._calls.get((name, (message.get("params") or {}).get("requestId")))
            if called in self._busy:
                self._busy.pop(called).cancel()
        self._calls[name, message.get("id")] = id
        task = self._spawn(self._answer(id, _served(name, server, message)))
        task.add_done_callback(lambda _: self._calls.pop((name, message.get("id")), None))
        self._busy[id] = task

    async def _answer(self, id: str, work: Awaitable[Dict[str, Any]]) -> None:
        def as_line(**response: Any) -> str:
            return json.dumps({"type": "control_response", "response": {"request_id": id, **response}})

        try:
            line = as_line(subtype="success", response=await work)
        except Exception as error:
            self._report(error)
            line = as_line(subtype="error", error=str(error) or type(error).__name__)
        self._busy.pop(id, None)
        self._answers[id] = line
        # Before its snapshot a connection has nothing to be answered; the snapshot says what is.
        if self._head != float("inf"):
            await self._send(line)

    def _forget(self, is_gone: Callable[[str], bool]) -> None:
        for id in [id for id in self._busy if is_gone(id)]:
            self._busy.pop(id).cancel()
        for id in [id for id in self._answers if is_gone(id)]:
            del self._answers[id]

    # Approvals.

    def _offer(self, id: str) -> None:
        """Gives an approval to the callback, once, and sends what it decides."""
        if self._on_approval is not None and id not in self._offered:
            self._offered[id] = self._spawn(self._decide(id, self._on_approval))

    def _decided(self, id: str) -> None:
        task = self._offered.pop(id, None)
        if task is not None and id not in self._sent:
            task.cancel()

    async def _decide(self, id: str, decide: Decide) -> None:
        try:
            # The snapshot and the record have parts of a large one only.
            approval = await self.session.trunkline.rest.get_approval(self.session.id, id)
            if approval["state"] != "pending":
                return
            made = decide(approval)
            decision = await made if inspect.isawaitable(made) else made
            if decision is not None:
                self._sent.add(id)
                await self.session.decide(id, decision)
        except Exception as error:
            if isinstance(error, TrunklineError) and error.code in LATE:
                return
            # The next connection offers it again.
            self._offered.pop(id, None)
            self._report(error)
        finally:
            self._sent.discard(id)


def _place(after: Optional[int], after_ts: Optional[str]) -> Dict[str, Any]:
    """A place in a journal as the routes take it. The time alone, or that of no record, says nothing."""
    if not after or after_ts is None:
        return {} if after is None else {"after": after}
    return {"after": after, "after_ts": after_ts}


async def _hooked(hook: Hook, input: Dict[str, Any]) -> Dict[str, Any]:
    made = hook.call(input)
    output = await made if inspect.isawaitable(made) else made
    if output is not None and not isinstance(output, dict):
        raise TypeError(f"the hook of {hook.event} gave no dict")
    return output or {}


async def _served(name: str, server: McpServer, message: Dict[str, Any]) -> Dict[str, Any]:
    return {"mcp_response": await server.respond(name, message)}


def new_client_id() -> str:
    """A name that no other client has."""
    return f"py-{uuid.uuid4()}"


def as_launch_options(launch: Mapping[str, Any], client_id: str, options: AttachOptions) -> Dict[str, Any]:
    """Launch options with which the hooks and servers of a client are there from the first process on."""
    target = {"type": "client", "client_id": client_id}
    hooks: List[Dict[str, Any]] = list(launch.get("hooks") or [])
    for hook in options.get("hooks") or ():
        given = {"matcher": hook.matcher, "timeout_ms": hook.timeout_ms}
        hooks.append({"event": hook.event, "target": target, **{name: it for name, it in given.items() if it is not None}})
    servers = {**(launch.get("sdk_mcp_servers") or {}), **{name: {"target": target} for name in options.get("mcp_servers") or {}}}
    return {**launch, **({"hooks": hooks} if hooks else {}), **({"sdk_mcp_servers": servers} if servers else {})}
