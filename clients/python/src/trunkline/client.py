"""Owns the entry: a daemon, its sessions, and the short ways to the routes that programs use most."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING, Awaitable, Callable, Optional, TypeVar, Union, cast

from .attachment import Attachment, as_launch_options, new_client_id
from .errors import TrunklineError, UnreachableError
from .reach import Place, find, reachable
from .rest import Rest

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from . import api
    from .attachment import AttachOptions

T = TypeVar("T")

#: These leave open what came of a request.
NOT_KNOWN = frozenset({"wait_timeout", "outcome_unknown", "shutting_down", "idempotency_in_progress"})


class Trunkline:
    """A daemon. Use it with ``async with``, or end it with :meth:`close`."""

    def __init__(self, url: str, token: Optional[str] = None, *, place: Optional[Callable[[bool], Awaitable[Place]]] = None) -> None:
        """A daemon whose address is known. :meth:`find` looks for the one of this machine."""
        fixed = Place(reachable(url), token)

        async def stays(is_lost: bool) -> Place:
            return fixed

        self.place = place or stays
        #: Every route of the API, typed.
        self.rest = Rest(self.place)

    @classmethod
    async def find(cls, *, data_dir: Optional[str] = None, url: Optional[str] = None, token_file: Optional[str] = None) -> Trunkline:
        """The daemon of this machine, found as the command line finds it.

        One that was started again, at another address, is found again.
        """
        last = await find(data_dir, url, token_file)

        async def place(is_lost: bool) -> Place:
            nonlocal last
            if is_lost:
                try:
                    last = await find(data_dir, url, token_file)
                except UnreachableError:
                    pass  # Between two lives of a daemon there is no file.
            return last

        return cls(last.url, place=place)

    async def create(self, request: api.CreateRequest) -> Session:
        """Makes a session. It works in the directory ``cwd``, and a ``prompt`` is its first message."""
        made = await self.rest.create_session(request)
        return self.session(made["id"])

    async def start(self, request: api.CreateRequest, **options: Unpack[AttachOptions]) -> Attachment:
        """Makes a session and attaches to it from its first record on.

        Hooks and MCP servers are there from its beginning, at every later process and in every fork.
        """
        options["client_id"] = client_id = options.get("client_id") or new_client_id()
        options.setdefault("after", 0)
        launch = as_launch_options(request.get("options") or {}, client_id, options)
        session = await self.create({**request, "options": cast("api.LaunchOptions", launch)})
        return session.attach(**options)

    def session(self, id: str) -> Session:
        """A session by its id. Nothing is asked yet."""
        return Session(self, id)

    async def close(self) -> None:
        """Ends the connections. Attachments are ended by their own ``close``."""
        await self.rest.http.aclose()

    async def __aenter__(self) -> Trunkline:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()


class Session:
    """A session of a daemon."""

    def __init__(self, trunkline: Trunkline, id: str) -> None:
        #: The daemon.
        self.trunkline = trunkline
        #: Its id.
        self.id = id

    async def view(self) -> api.Session:
        """The session as it is now."""
        return await self.trunkline.rest.get_session(self.id)

    def attach(self, **options: Unpack[AttachOptions]) -> Attachment:
        """Follows the session over a socket that comes back by itself."""
        return Attachment(self, **options)

    async def send(self, message: Union[str, api.SendRequest]) -> api.SendReply:
        """Says something to the agent. It is said once, also when the connection breaks in the middle."""
        body = _with_id(message)
        return await _until_known(lambda: self.trunkline.rest.send_message(self.id, body))

    async def ask(self, message: Union[str, api.SendRequest]) -> api.SendReply:
        """As :meth:`send`, and waits for the end of its turn: ``turn`` has the cost, ``result`` what the CLI said."""
        body = _with_id(message)
        return await _until_known(lambda: self.trunkline.rest.send_message(self.id, body, wait="result"))

    async def interrupt(self) -> None:
        """Interrupts the turn."""
        await self.trunkline.rest.interrupt_session(self.id)

    async def decide(self, approval_id: str, decision: api.DecisionRequest) -> api.Approval:
        """Decides an approval by its id. Somebody else may be first: ``already_decided`` says who, and what."""
        return await _until_known(lambda: self.trunkline.rest.decide_approval(self.id, approval_id, decision))

    async def fork(self, request: Optional[api.ForkRequest] = None) -> Session:
        """A new session that begins as a copy of this one; with ``at`` up to the message with this id."""
        made = await self.trunkline.rest.fork_session(self.id, request)
        return self.trunkline.session(made["id"])

    async def stop(self) -> api.Session:
        """Ends the process; the session can be resumed."""
        return await self.trunkline.rest.stop_session(self.id)

    async def resume(self) -> api.Session:
        """Starts a process that goes on with the conversation."""
        return await self.trunkline.rest.resume_session(self.id)

    async def delete(self) -> None:
        """Deletes the session and all that is kept of it."""
        await self.trunkline.rest.delete_session(self.id)


async def _until_known(send: Callable[[], Awaitable[T]]) -> T:
    """Sends a request until its end is known, for what is done once however often it is sent.

    A message has its id, and an approval ends once. Each try has a key of its own, as a key would keep the first answer.
    """
    while True:
        try:
            return await send()
        except TrunklineError as error:
            if error.code not in NOT_KNOWN:
                raise
        await asyncio.sleep(0.1)


def _with_id(message: Union[str, api.SendRequest]) -> api.SendRequest:
    text = {"text": message} if isinstance(message, str) else message
    return cast("api.SendRequest", {"uuid": str(uuid.uuid4()), **text})
