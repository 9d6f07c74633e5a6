"""Owns the records of a journal: those kinds that programs use are typed, and all others pass as they are.

The payload is the CLI's, byte for byte as JSON has it. Kinds and members may be added at any time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Literal, Optional, TypedDict, Union, overload


class ContentBlock(TypedDict, total=False):
    """A block of a message's content."""

    type: str
    text: str
    id: str
    name: str
    input: Dict[str, Any]
    tool_use_id: str
    content: Any
    is_error: bool


class Said(TypedDict, total=False):
    """The words of a message."""

    id: str
    role: str
    model: str
    content: List[ContentBlock]
    stop_reason: Optional[str]
    usage: Dict[str, Any]


class AssistantMessage(TypedDict, total=False):
    type: str
    message: Said
    #: The call of the sub-agent that says it; ``None`` for the main one.
    parent_tool_use_id: Optional[str]
    uuid: str


class Typed(TypedDict, total=False):
    """The words to the agent."""

    role: str
    content: Union[str, List[ContentBlock]]


class UserMessage(TypedDict, total=False):
    type: str
    message: Typed
    parent_tool_use_id: Optional[str]
    tool_use_result: Any
    uuid: str


class ResultMessage(TypedDict, total=False):
    type: str
    #: ``success``, ``error_during_execution``, …
    subtype: str
    is_error: bool
    result: str
    duration_ms: int
    num_turns: int
    total_cost_usd: float
    usage: Dict[str, Any]
    structured_output: Any
    uuid: str


class SystemMessage(TypedDict, total=False):
    type: str
    #: ``init``, ``status``, ``compact_boundary``, …
    subtype: str
    uuid: str


class StreamEvent(TypedDict, total=False):
    type: str
    event: Dict[str, Any]
    parent_tool_use_id: Optional[str]


class CliRequest(TypedDict, total=False):
    """The request of a ``control_request`` of the CLI."""

    subtype: str
    callback_id: str
    input: Dict[str, Any]
    tool_name: str
    tool_use_id: str
    server_name: str
    message: Dict[str, Any]


class ControlRequest(TypedDict, total=False):
    type: str
    request_id: str
    request: CliRequest


class ControlCancelRequest(TypedDict, total=False):
    type: str
    request_id: str


class StateNote(TypedDict, total=False):
    type: str
    #: ``starting``, ``idle``, ``busy``, ``waiting``, ``stopping``, ``stopped``, ``failed``, ``parked``, …
    state: str
    reason: Dict[str, Any]


class ApprovalNote(TypedDict, total=False):
    type: str
    approval_id: str
    request_id: str
    seq: int
    kind: str
    subject: str


class DecisionNote(TypedDict, total=False):
    type: str
    approval_id: str
    state: str
    by: str


class RunNote(TypedDict, total=False):
    type: str
    run_id: str
    code: Optional[int]
    signal: Optional[int]
    killed: bool


class Notice(TypedDict, total=False):
    type: str
    code: str
    detail: str


@dataclass(frozen=True)
class Record:
    """One record of a session's journal."""

    #: Its number: contiguous from 1.
    seq: int
    #: When it was written, in RFC 3339.
    ts: str
    #: Where it comes from: ``cli``, ``client``, ``daemon``, ``stdout_text``, ``stderr``; more may be added.
    src: str
    #: A message of the CLI or to it, a note of the daemon, or a text. :meth:`cli` and :meth:`note` give it its type.
    data: Any
    #: The author of a line to the CLI, such as ``rest`` or ``ws:<client id>``.
    by: Optional[str] = None

    @classmethod
    def of(cls, record: Dict[str, Any]) -> Record:
        return cls(record["seq"], record["ts"], record["src"], record.get("data"), record.get("by"))

    @overload
    def cli(self, kind: Literal["assistant"]) -> Optional[AssistantMessage]: ...
    @overload
    def cli(self, kind: Literal["user"]) -> Optional[UserMessage]: ...
    @overload
    def cli(self, kind: Literal["result"]) -> Optional[ResultMessage]: ...
    @overload
    def cli(self, kind: Literal["system"]) -> Optional[SystemMessage]: ...
    @overload
    def cli(self, kind: Literal["stream_event"]) -> Optional[StreamEvent]: ...
    @overload
    def cli(self, kind: Literal["control_request"]) -> Optional[ControlRequest]: ...
    @overload
    def cli(self, kind: Literal["control_cancel_request"]) -> Optional[ControlCancelRequest]: ...
    @overload
    def cli(self, kind: str) -> Optional[Any]: ...
    def cli(self, kind: str) -> Any:
        """The message of the CLI, if it is one of this type."""
        return self._data("cli", kind)

    @overload
    def note(self, kind: Literal["state"]) -> Optional[StateNote]: ...
    @overload
    def note(self, kind: Literal["approval"]) -> Optional[ApprovalNote]: ...
    @overload
    def note(self, kind: Literal["decision"]) -> Optional[DecisionNote]: ...
    @overload
    def note(self, kind: Literal["run_started", "run_exited", "run_lost"]) -> Optional[RunNote]: ...
    @overload
    def note(self, kind: Literal["notice"]) -> Optional[Notice]: ...
    @overload
    def note(self, kind: str) -> Optional[Any]: ...
    def note(self, kind: str) -> Any:
        """The note of the daemon, if it is one of this type."""
        return self._data("daemon", kind)

    @property
    def said(self) -> str:
        """The text that the agent says in it; empty where it says none."""
        message = self.cli("assistant")
        blocks = message["message"]["content"] if message else []
        return "".join(block.get("text", "") for block in blocks if block.get("type") == "text")

    def _data(self, src: str, kind: str) -> Any:
        is_it = self.src == src and isinstance(self.data, dict) and self.data.get("type") == kind
        return self.data if is_it else None
