"""Owns how a program on this machine finds the daemon: as the command line does, by ``daemon.json`` and the token's file."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

import httpx

from .errors import UnreachableError


@dataclass(frozen=True)
class Place:
    """Where the daemon is now."""

    url: str
    token: Optional[str]

    def __repr__(self) -> str:
        return f"Place({self.url!r}, …)"


async def find(data_dir: Optional[str] = None, url: Optional[str] = None, token_file: Optional[str] = None) -> Place:
    """Finds the daemon. An option that is left out is as for the command line."""
    directory = Path(data_dir or os.environ.get("TRUNKLINE_DATA_DIR") or default_dir())
    url = url or os.environ.get("TRUNKLINE_URL") or await url_of(directory)
    token_file = token_file or os.environ.get("TRUNKLINE_TOKEN_FILE") or str(directory / "token")
    try:
        token = Path(token_file).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise UnreachableError(f"cannot read the token: {error}") from error
    return Place(reachable(url), token)


def default_dir() -> Path:
    state = os.environ.get("XDG_STATE_HOME", "")
    return (Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state") / "trunkline"


async def url_of(directory: Path) -> str:
    """The address in ``daemon.json``. Behind a socket of a service manager the file is there once the daemon was asked."""

    def read() -> Optional[str]:
        try:
            return str(json.loads((directory / "daemon.json").read_text(encoding="utf-8"))["url"])
        except OSError:
            return None

    url = read()
    if url is None:
        listen = os.environ.get("TRUNKLINE_LISTEN", "127.0.0.1:7433")
        try:
            async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
                await client.get(reachable(f"http://{listen}") + "/healthz")
        except httpx.HTTPError:
            pass
        url = read()
    if url is None:
        raise UnreachableError(f"{directory} has no daemon.json: start the daemon with `trunkline serve`")
    return url


def reachable(url: str) -> str:
    """The URL of a daemon that listens on every address, by the one that it answers to."""
    return url.replace("//0.0.0.0", "//127.0.0.1").replace("//[::]", "//[::1]").rstrip("/")
