"""Uploads and downloads over TCP under any controller, as ``paceline alcc`` has them.

>>> from paceline import transfer
>>> with transfer.Server("kept") as server:
...     transfer.send("photo.jpg", server.address)
...     transfer.fetch("photo.jpg", server.address, "copy.jpg")

An upload continues where the same one stopped, and its file appears once its SHA-256 is right. Both ends may be in other processes, and
in another language: ``paceline alcc serve``, ``send`` and ``fetch``, and the Java library.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from types import TracebackType
from typing import Optional, Union

from . import _paceline
from ._real import Key, _secret

Path = Union[str, os.PathLike[str]]


@dataclass(frozen=True)
class Moved:
    """What a transfer left."""

    bytes: int
    """Of the file, that moved now."""
    resumed: int
    """The byte from which on."""
    seconds: float
    verified: bool
    """Whether both ends have the same SHA-256."""


@dataclass(frozen=True)
class Session:
    """A client's session at the server."""

    kind: Optional[str]
    """``put``, ``get``, ``stat``, ``discard`` or ``generate``; None where the client did not ask."""
    name: Optional[str]
    bytes: int
    status: str
    """``done``, or why not."""


class Server:
    """Takes uploads into the folder ``dir``, and gives its files under ``controller``, until it is closed.

    ``key`` is 32 bytes, or a file as ``paceline alcc serve --key`` takes it: then a client needs a :meth:`token`. Without it clients of
    this machine alone are served. A client that moves less than 1 KiB in ``timeout`` seconds is given up.

    Raises ValueError for a controller that cannot serve, and OSError where the folder or the address cannot be used.
    """

    def __init__(
        self,
        dir: Path,
        listen: str = "127.0.0.1:0",
        *,
        key: Optional[Key] = None,
        controller: str = "copa",
        timeout: float = 30.0,
    ) -> None:
        self._inner = _paceline.Uploads(os.fspath(dir), listen, _secret(key), controller, timeout)

    @property
    def address(self) -> str:
        """``HOST:PORT`` where it listens."""
        return self._inner.address

    @property
    def sessions(self) -> list[Session]:
        """Those that ended."""
        return [Session(*session) for session in self._inner.sessions()]

    def token(self, scope: str = "", days: Optional[int] = None) -> str:
        """What lets a client in: for names that begin with ``scope``, for so many days or without end."""
        return self._inner.token(scope, days)

    def close(self) -> None:
        """Takes no further sessions; those that run have 3 s."""
        self._inner.close()

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()


def send(
    path: Path,
    to: str,
    name: Optional[str] = None,
    *,
    controller: str = "copa",
    token: Optional[str] = None,
    timeout: float = 30.0,
) -> Moved:
    """Uploads a file to the server at ``HOST:PORT``, under ``name`` or its own.

    Raises OSError where the file, the network or the server refuses. Ctrl-C stops it; the same call continues where it stood.
    """
    name = os.path.basename(os.fspath(path)) if name is None else name
    return Moved(*_paceline.upload(os.fspath(path), to, name, controller, token, timeout))


def fetch(name: str, server: str, path: Optional[Path] = None, *, token: Optional[str] = None, timeout: float = 30.0) -> Moved:
    """Fetches a file from the server at ``HOST:PORT`` into ``path``, or into one of its name in the current folder.

    The server chooses the controller. Raises OSError as :func:`send` does, and continues as it does.
    """
    path = os.path.basename(name) if path is None else path
    return Moved(*_paceline.download(name, server, os.fspath(path), token, timeout))
