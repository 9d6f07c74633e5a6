"""A client of Trunkline: the whole API with its types, and a socket that comes back by itself."""

from . import api
from .attachment import Attachment, AttachOptions, Hook
from .client import Session, Trunkline
from .errors import ClosedError, HistoryDiffersError, TrunklineError, UnreachableError
from .mcp import McpServer, McpTool
from .records import Record

__all__ = [
    "AttachOptions",
    "Attachment",
    "ClosedError",
    "HistoryDiffersError",
    "Hook",
    "McpServer",
    "McpTool",
    "Record",
    "Session",
    "Trunkline",
    "TrunklineError",
    "UnreachableError",
    "api",
]
