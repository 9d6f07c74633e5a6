"""Owns the errors that programs see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from .api import Problem


class TrunklineError(Exception):
    """The daemon refused a request, with a problem (RFC 9457) or a frame of a socket that says the same."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"{problem['code']}: {problem.get('detail') or problem['title']}")
        #: All that the daemon said.
        self.problem = problem
        #: The stable code. Codes may be added: treat an unknown one by its ``status``.
        self.code: str = problem["code"]
        #: The HTTP status; 0 for a frame of a socket.
        self.status: int = problem.get("status", 0)
        #: Whether the same request may succeed later.
        self.retryable: bool = problem["retryable"]
        #: Whether it may have had an effect all the same.
        self.side_effect_possible: bool = problem["side_effect_possible"]

    @classmethod
    def of(cls, status: int, body: Any) -> TrunklineError:
        """The error of an answer that is no success."""
        title = f"the answer has the status {status}"
        problem = {
            "type": "about:blank",
            "title": title,
            "status": status,
            "code": "internal",
            "detail": title,
            "retryable": status >= 500,
            "side_effect_possible": True,
            **(body if isinstance(body, dict) else {}),
        }
        kind = HistoryDiffersError if problem["code"] == "history_differs" else cls
        return kind(cast("Problem", problem))


class HistoryDiffersError(TrunklineError):
    """The session has another history than the one that this program has read.

    Its data directory was restored from a copy, and went its own way. Begin anew, without ``after``. The ``code`` is
    ``history_differs``, or ``seq_beyond_head`` where the restored session has not come as far as the record that this program had.
    """


def as_place_refused(error: TrunklineError, had_record: bool) -> TrunklineError:
    """The refusal to go on after a record; ``had_record``: this program got that record itself."""
    is_other = had_record and error.code == "seq_beyond_head"
    return HistoryDiffersError(error.problem) if is_other else error


class UnreachableError(Exception):
    """No daemon answers."""


class ClosedError(Exception):
    """A socket ended for good: the session was deleted, or what this client said was not taken."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"the socket was closed with {code}" + (f": {reason}" if reason else ""))
        #: The close code, as the protocol page lists them.
        self.code = code
        #: The daemon's words.
        self.reason = reason
