"""A client that comes back says which record it had, and tells the program when the session has another history."""

import json
import unittest
from http import HTTPStatus
from typing import Any, Dict, List, Optional
from urllib.parse import parse_qs, urlsplit

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.http11 import Request, Response

from trunkline import HistoryDiffersError, Trunkline, TrunklineError

ID = "01890a5d-ac96-774b-bcce-b302099a8057"
TIMES = ["2026-01-02T03:04:05.000001Z", "2026-01-02T03:04:05.000002Z"]


class Restored:
    """A daemon that is restored from a copy once so many upgrades were taken; it remembers what it is asked."""

    def __init__(self, code: str, *, taken: int = 1, says: str = "records") -> None:
        self.asked: List[str] = []
        self.problem = {"code": code, "title": code, "detail": "", "retryable": False, "side_effect_possible": False}
        self.taken, self.says = taken, says

    async def __aenter__(self) -> Trunkline:
        self.server: Server = await serve(self.attached, "127.0.0.1", 0, process_request=self.asks)
        port = next(iter(self.server.sockets)).getsockname()[1]
        return Trunkline(f"http://127.0.0.1:{port}", "token")

    async def __aexit__(self, *error: object) -> None:
        self.server.close()
        await self.server.wait_closed()

    def asks(self, connection: ServerConnection, request: Request) -> Optional[Response]:
        self.asked.append(request.path)
        if len(self.asked) <= self.taken:
            return None
        response = connection.respond(HTTPStatus.CONFLICT, json.dumps({"status": 409, **self.problem}))
        del response.headers["Content-Type"]
        response.headers["Content-Type"] = "application/problem+json"
        return response

    async def attached(self, connection: ServerConnection) -> None:
        session: Dict[str, Any] = {"options": {}, "waiting_approvals": 0}
        snapshot: Dict[str, Any] = {"type": "trunkline.snapshot", "after": 0, "head_seq": 2, "session": session}
        snapshot.update(pending_requests=[], waiting_requests=0, pending_approvals=[])
        await connection.send(json.dumps(snapshot))
        if self.says == "error":
            await connection.send(json.dumps({"type": "trunkline.error", **self.problem}))
            await connection.wait_closed()
            return
        for seq, ts in enumerate(TIMES, 1):
            await connection.send(json.dumps({"seq": seq, "ts": ts, "src": "stderr", "data": ""}))
        await connection.close(1001)


class HistoryTest(unittest.IsolatedAsyncioTestCase):
    async def fails(self, daemon: Restored, **options: Any) -> TrunklineError:
        """Follows to the failure, which ends the tries to come back."""
        async with daemon as trunkline:
            attachment = trunkline.session(ID).attach(**options)
            with self.assertRaises(TrunklineError) as failed:
                async for record in attachment:
                    self.assertEqual((attachment.seq, attachment.ts), (record.seq, record.ts))
            await attachment.close()
            await trunkline.close()
        return failed.exception

    async def test_it_says_at_each_return_which_record_it_had(self) -> None:
        daemon = Restored("history_differs")
        error = await self.fails(daemon, after=0)
        self.assertIsInstance(error, HistoryDiffersError)
        self.assertEqual((error.code, error.status), ("history_differs", 409))
        asked = [parse_qs(urlsplit(path).query) for path in daemon.asked]
        self.assertEqual([it.get("after") for it in asked], [["0"], ["2"], ["2"]])
        self.assertEqual([it.get("after_ts") for it in asked], [None, [TIMES[1]], [TIMES[1]]])

    async def test_a_session_that_has_not_come_as_far_is_another_one(self) -> None:
        error = await self.fails(Restored("seq_beyond_head"), after=0)
        self.assertIsInstance(error, HistoryDiffersError)
        self.assertEqual(error.code, "seq_beyond_head")

    async def test_a_number_that_nobody_gave_says_nothing_of_the_history(self) -> None:
        error = await self.fails(Restored("seq_beyond_head", taken=0), after=7)
        self.assertNotIsInstance(error, HistoryDiffersError)

    async def test_a_program_that_was_started_again_gives_the_time_itself(self) -> None:
        daemon = Restored("history_differs", taken=0)
        error = await self.fails(daemon, after=2, after_ts=TIMES[1])
        self.assertIsInstance(error, HistoryDiffersError)
        self.assertEqual(parse_qs(urlsplit(daemon.asked[0]).query)["after_ts"], [TIMES[1]])

    async def test_a_frame_that_says_so_ends_it_too(self) -> None:
        daemon = Restored("history_differs", says="error")
        self.assertIsInstance(await self.fails(daemon), HistoryDiffersError)
        self.assertEqual(len(daemon.asked), 1)


if __name__ == "__main__":
    unittest.main()
