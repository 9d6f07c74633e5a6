"""Owns how a request is sent: errors are raised, and lost connections made good."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any, Awaitable, Callable, Dict, Optional
from urllib.parse import quote

import httpx

from .errors import TrunklineError, UnreachableError
from .reach import Place

#: The pauses in seconds before a request is sent again; the daemon may be starting.
PAUSES = (0.1, 0.3, 1.0, 2.0, 4.0, 8.0)
#: These say that the same request, with the same key, is to come again.
COME_AGAIN = frozenset({"shutting_down", "idempotency_in_progress"})


class Calls:
    """Sends requests to the daemon that ``place`` names; it is asked again when nobody answers."""

    def __init__(self, place: Callable[[bool], Awaitable[Place]]) -> None:
        self.place = place
        # A turn takes as long as it takes; a connection does not. A decision never waits until one of many turns has ended.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
        self.http = httpx.AsyncClient(trust_env=False, timeout=httpx.Timeout(None, connect=10), limits=limits)

    @staticmethod
    def quoted(part: str) -> str:
        return quote(part, safe="")

    async def call(self, method: str, path: str, body: Any = None, query: Optional[Dict[str, Any]] = None) -> Any:
        headers = {"idempotency-key": str(uuid.uuid4())} if method == "POST" else {}
        given = {name: value for name, value in (query or {}).items() if value is not None}
        is_lost = False
        for wait in (*PAUSES, None):
            place = await self.place(is_lost)
            if place.token is not None:
                headers["authorization"] = f"Bearer {place.token}"
            try:
                response = await self.http.request(method, place.url + path, params=given, json=body, headers=headers)
            except httpx.TransportError as error:
                if wait is None:
                    raise UnreachableError(f"no daemon answers at {place.url}") from error
                is_lost = True
                await asyncio.sleep(wait)
                continue
            kind = response.headers.get("content-type", "").split(";")[0].strip()
            # Lines of JSON are text.
            is_json = kind == "application/json" or kind.endswith("+json")
            if response.is_success:
                return response.json() if is_json else response.text or None
            problem = TrunklineError.of(response.status_code, response.json() if is_json else None)
            if wait is None or problem.code not in COME_AGAIN:
                raise problem
            await asyncio.sleep(wait)
