"""Records reach a loop in their order, each once, however slow it is."""

import asyncio
import unittest
from typing import Any, Dict, List, Optional, Tuple

from trunkline.backlog import MOST, Backlog
from trunkline.records import Record


def record(seq: int) -> Dict[str, Any]:
    return {"seq": seq, "ts": f"at {seq}", "src": "stderr", "data": ""}


class BacklogTest(unittest.IsolatedAsyncioTestCase):
    async def test_what_does_not_fit_is_read_from_the_journal(self) -> None:
        journal = [record(seq) for seq in range(1, MOST + 1201) if seq not in (MOST + 700, MOST + 701)]

        async def page(after: int, after_ts: Optional[str]) -> Tuple[List[Dict[str, Any]], int]:
            # Each page is asked for by the record before it, with its time.
            self.assertEqual(after_ts, f"at {after}")
            await asyncio.sleep(0)
            if after == MOST:
                backlog.push(Record.of(record(MOST + 1201)))  # It comes while older ones are read.
            found = [it for it in journal if it["seq"] > after][:500]
            return found, found[-1]["seq"]

        backlog = Backlog(page)
        backlog.begin(0)
        for it in journal:
            if it["seq"] == MOST + 702:
                backlog.skip(MOST + 701)
            backlog.push(Record.of(it))
        journal.append(record(MOST + 1201))
        given: List[int] = []
        while len(given) < len(journal):
            found = await backlog.next()
            assert found is not None
            given.append(found.seq)
        self.assertEqual(given, [it["seq"] for it in journal])
        # From here on they come as they are pushed again.
        backlog.push(Record.of(record(MOST + 1202)))
        found = await backlog.next()
        self.assertEqual(found and found.seq, MOST + 1202)

    async def test_a_loop_has_what_came_before_it_fails(self) -> None:
        async def page(after: int, after_ts: Optional[str]) -> Tuple[List[Dict[str, Any]], int]:
            raise AssertionError("nothing is missing")

        backlog = Backlog(page)
        backlog.begin(4)
        backlog.push(Record.of(record(5)))
        backlog.skip(9)
        backlog.push(Record.of(record(10)))
        backlog.end(ConnectionError("over"))
        self.assertEqual([getattr(await backlog.next(), "seq") for _ in range(2)], [5, 10])
        with self.assertRaises(ConnectionError):
            await backlog.next()


if __name__ == "__main__":
    unittest.main()
