"""Follows a session until the daemon says that its history is another one, and begins anew. The last line is what came of it.

    python follow.py '{"dataDir": "…", "id": "…", "until": 12}'
"""

import asyncio
import json
import sys
from typing import Any, Dict

from trunkline import HistoryDiffersError, Session, Trunkline


def say(value: object) -> None:
    print(json.dumps(value), flush=True)


async def end_of(session: Session, until: int, **options: Any) -> Dict[str, Any]:
    """How an attachment ends, and the last record that it gave."""
    attachment = session.attach(**options)
    try:
        async for record in attachment:
            if record.seq == until:
                say({"at": "read"})
    except HistoryDiffersError as error:
        return {"code": error.code, "status": error.status, "seq": attachment.seq, "ts": attachment.ts}
    finally:
        await attachment.close()
    raise RuntimeError("the session ended")


async def main() -> None:
    setup = json.loads(sys.argv[1])
    async with await Trunkline.find(data_dir=setup["dataDir"]) as trunkline:
        session = trunkline.session(setup["id"])
        first = await end_of(session, setup["until"], after=0)
        again = await end_of(session, 0, after=first["seq"], after_ts=first["ts"])
        async with session.attach(after=0) as anew:
            count = 0
            async for _ in anew:
                count += 1
                if count == setup["until"]:
                    break
        say({"outcome": {"first": [first["code"], first["status"], first["seq"]], "again": again["code"], "anew": count}})


asyncio.run(main())
