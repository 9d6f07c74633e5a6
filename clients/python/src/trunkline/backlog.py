"""Owns the records between the socket and the loop: a bounded queue. The overflow is read again from the journal."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Awaitable, Callable, Deque, Dict, List, Optional, Tuple

from .records import Record

#: Records that wait for a loop that is slower than the session, and their characters in JSON.
MOST = 4096
MOST_CHARACTERS = 16 * 1024 * 1024

#: Reads a page of the journal after a record, whose time is told where it is known, and tells after which record the next one begins.
Page = Callable[[int, Optional[str]], Awaitable[Tuple[List[Dict[str, Any]], int]]]


class Backlog:
    """The queue of one attachment."""

    def __init__(self, page: Page) -> None:
        #: The last record that the loop was given.
        self.given: Optional[int] = None
        #: Its time; ``None`` where it did not come itself.
        self.given_ts: Optional[str] = None
        self._page = page
        self._waiting: Deque[Tuple[Record, int]] = deque()
        self._characters = 0
        # The last record that is in the queue or went through it, and the last one that there is.
        self._queued: Optional[int] = None
        self._queued_ts: Optional[str] = None
        self._head = 0
        self._is_over = False
        self._error: Optional[BaseException] = None
        self._wake = asyncio.Event()
        # One of several that wait for a record reads for all.
        self._reading = asyncio.Lock()

    def begin(self, after: int, after_ts: Optional[str] = None) -> None:
        """The first record will be the one after this."""
        if self._queued is None:
            self.given = self._queued = after
            self.given_ts = self._queued_ts = after_ts

    def push(self, record: Record, characters: int = 0) -> None:
        self._head = record.seq
        queued = self._queued
        if queued is not None and record.seq <= queued:
            return
        # After one that did not fit, none does: their order would be lost.
        is_next = queued is None or record.seq == queued + 1
        has_room = len(self._waiting) < MOST and self._characters + characters <= MOST_CHARACTERS
        if is_next and (has_room or not self._waiting):
            self._queued = record.seq
            self._queued_ts = record.ts
            self._waiting.append((record, characters))
            self._characters += characters
        self._wake.set()

    def skip(self, seq: int) -> None:
        """The records up to this one are missing."""
        # Where some did not fit before, the journal tells of the gap again.
        if (self._queued is None or self._queued >= self._head) and seq > (self._queued or 0):
            self._queued = seq
            self._queued_ts = None
        self._head = max(self._head, seq)

    def end(self, error: Optional[BaseException]) -> None:
        """No more comes. With an error the loop fails once it has what is here."""
        self._is_over = True
        self._error = error
        if error is None:
            self._waiting.clear()
        self._wake.set()

    async def next(self) -> Optional[Record]:
        """The next record; nothing at the end."""
        while True:
            if self._waiting:
                record, characters = self._waiting.popleft()
                self._characters -= characters
                self.given = record.seq
                self.given_ts = record.ts
                return record
            if self._is_over:
                if self._error is not None:
                    raise self._error
                return None
            if self._is_behind():
                async with self._reading:
                    await self._read()
            else:
                self._wake.clear()
                await self._wake.wait()

    def _is_behind(self) -> bool:
        return not self._waiting and self._queued is not None and self._queued < self._head

    async def _read(self) -> None:
        if self._queued is None or not self._is_behind():
            return
        try:
            records, after = await self._page(self._queued, self._queued_ts)
        except Exception:
            if self._is_over:
                return
            raise
        if not self._is_over:
            # The daemon bounds the size of a page.
            self._waiting.extend((Record.of(record), 0) for record in records)
            self._queued = max(self._queued, after)
            is_last = bool(records) and records[-1]["seq"] == self._queued
            self._queued_ts = records[-1]["ts"] if is_last else None
