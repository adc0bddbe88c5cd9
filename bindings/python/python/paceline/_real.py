"""Transfers over UDP in real time."""

from __future__ import annotations

import os
from dataclasses import dataclass
from types import TracebackType
from typing import Optional, Union

from . import _paceline

Key = Union[bytes, str, os.PathLike[str]]


@dataclass(frozen=True)
class Sent:
    """What a transfer left at its sender."""

    peer: str
    controller: str
    bytes: int
    """Payload that the receiver has."""
    seconds: float
    mbps: float
    cpu_s: float
    """Of the sender's thread, the controller included."""
    packets_sent: int
    retransmits: int
    packets_lost: int
    timeouts: int
    ce_packets: int
    rtt_ms_p50: Optional[float]
    rtt_ms_p95: Optional[float]
    rtt_ms_p99: Optional[float]


@dataclass(frozen=True)
class Session:
    """What a transfer left at its receiver."""

    peer: str
    bytes: int
    seconds: float


def send(
    to: str,
    controller: str = "copa",
    *,
    bytes: Optional[int] = None,
    seconds: Optional[float] = None,
    key: Optional[Key] = None,
    timeout: float = 10.0,
) -> Sent:
    """Sends bytes that mean nothing over UDP to ``HOST:PORT``, where :class:`Server` or ``paceline serve`` listens, in real time.

    ``controller`` may be one written in Python: it runs in this process, in a thread of its own that takes the interpreter's lock for each
    event. ``bytes`` or ``seconds`` ends the transfer, whichever comes first. ``key`` is 32 bytes, or a file as ``paceline serve --key``
    takes it; only loopback works without. The peer is given up when it is silent for ``timeout`` seconds.

    Raises OSError where the network or the peer fails, and RuntimeError where the controller does: with what it raised as the cause, or
    where a call takes longer than 3 s. Ctrl-C stops it.
    """
    return Sent(**_paceline.send(to, controller, bytes, seconds, _secret(key), timeout))


class Server:
    """Takes what :func:`send` and ``paceline send`` send, and drops it.

    >>> with paceline.Server() as server:
    ...     print(paceline.send(server.address, "cubic", seconds=1).mbps)
    """

    def __init__(self, listen: str = "127.0.0.1:0", *, key: Optional[Key] = None, timeout: float = 10.0) -> None:
        self._inner = _paceline.Server(listen, _secret(key), timeout)

    @property
    def address(self) -> str:
        """``HOST:PORT`` where it listens."""
        return self._inner.address

    @property
    def sessions(self) -> list[Session]:
        """Those that reached their end."""
        return [Session(*session) for session in self._inner.sessions()]

    @property
    def problems(self) -> list[str]:
        """What ended the others, one line each."""
        return self._inner.problems()

    def close(self) -> None:
        """Takes no further sessions, and waits for the end of those that run: a silent one takes ``timeout``."""
        self._inner.close()

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()


def _secret(key: Optional[Key]) -> Optional[bytes]:
    if key is None or isinstance(key, bytes):
        return key
    with open(key, "rb") as file:
        if os.fstat(file.fileno()).st_mode & 0o077:
            raise PermissionError(f"{os.fspath(key)}: others may read or write the key; run: chmod 600 {os.fspath(key)}")
        return file.read(4096)
