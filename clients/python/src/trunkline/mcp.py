"""Owns the in-process MCP servers: their tools run in this program, and the CLI calls them through the daemon."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import Any, Awaitable, Callable, Dict, List, Optional, Union

ToolResult = Union[str, Dict[str, Any]]


@dataclass(frozen=True)
class McpTool:
    """A tool."""

    #: Its name; the CLI knows it as ``mcp__<server>__<name>``.
    name: str
    #: Does it with the call's arguments. A text is a result with this text; what is raised is a result that is an error.
    call: Callable[[Dict[str, Any]], Union[ToolResult, Awaitable[ToolResult]]]
    #: The description of its work, for the model.
    description: str = ""
    #: The JSON Schema of its arguments.
    input_schema: Dict[str, Any] = field(default_factory=lambda: {"type": "object"})
    #: Hints, as MCP names them: ``{"readOnlyHint": True}``. The CLI heeds them, as when it plans.
    annotations: Optional[Dict[str, Any]] = None

    def described(self) -> Dict[str, Any]:
        shown: Dict[str, Any] = {"name": self.name, "description": self.description, "inputSchema": self.input_schema}
        if self.annotations is not None:
            shown["annotations"] = self.annotations
        return shown


@dataclass(frozen=True)
class McpServer:
    """A server."""

    #: Its tools.
    tools: List[McpTool]
    #: Its version, for the CLI.
    version: str = "0"
    #: The words that the model is told about it.
    instructions: Optional[str] = None

    async def respond(self, name: str, message: Dict[str, Any]) -> Dict[str, Any]:
        """The answer to a message, as the CLI takes it."""
        if message.get("id") is None:
            # The official SDK answers a notification in this way.
            return {"jsonrpc": "2.0", "result": {}, "id": 0}
        answer: Dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        try:
            return {**answer, "result": await self._result(name, message.get("method"), message.get("params") or {})}
        except _RpcError as error:
            return {**answer, "error": {"code": error.code, "message": str(error)}}

    async def _result(self, name: str, method: Optional[str], params: Dict[str, Any]) -> Dict[str, Any]:
        if method == "initialize":
            result: Dict[str, Any] = {
                "protocolVersion": params.get("protocolVersion"),
                "capabilities": {"tools": {}},
                "serverInfo": {"name": name, "version": self.version},
            }
            if self.instructions is not None:
                result["instructions"] = self.instructions
            return result
        if method == "ping":
            return {}
        if method == "tools/list":
            return {"tools": [tool.described() for tool in self.tools]}
        if method != "tools/call":
            raise _RpcError(-32601, f"there is no method {method}")
        for tool in self.tools:
            if tool.name == params.get("name"):
                return await _called(tool, params.get("arguments") or {})
        raise _RpcError(-32602, f"there is no tool {params.get('name')}")


async def _called(tool: McpTool, arguments: Dict[str, Any]) -> Dict[str, Any]:
    try:
        made = tool.call(arguments)
        result = await made if inspect.isawaitable(made) else made
        if not isinstance(result, (str, dict)):
            raise TypeError(f"the tool {tool.name} gave neither a text nor a result")
    except Exception as error:
        return {"content": [{"type": "text", "text": str(error) or type(error).__name__}], "isError": True}
    return {"content": [{"type": "text", "text": result}]} if isinstance(result, str) else result


class _RpcError(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
