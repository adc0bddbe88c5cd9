"""Controllers written in Python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Callable, Optional, TypeVar, Union

from . import _paceline, _travel

if TYPE_CHECKING:
    from ._paceline import Ack, Loss, Lost, Restart, Sent, Telemetry, Timeout

C = TypeVar("C", bound=type)


class Controller:
    """What a controller may answer; a class need not inherit from it.

    Instants and spans are whole nanoseconds, sizes bytes, as in the event log. After each event the answers are read again.
    Of the methods a class defines only those that it needs, ``on_ack(self, ack)`` at least: ``on_sent(sent)``, which may answer a
    tag that comes back with the packet, ``on_loss(loss)``, ``on_timeout(timeout)``, ``on_spurious(now)``, ``on_cause(packets)``,
    ``on_restart(restart)``, ``on_app_limited(now)``, ``on_telemetry(telemetry)``, ``on_mss(mss)``, ``on_tick(now)``.
    """

    window: float
    """Bytes that may be in flight; below one packet counts as one."""
    pacing_mbps: Optional[float] = None
    """On average this rate, Mbit/s; None leaves packets to the window."""
    gap: Optional[int] = None
    """Exactly this time from the start of one packet to the start of the next, ns; it goes before ``pacing_mbps``."""
    next_tick: Optional[int] = None
    """When ``on_tick`` wants to be called, ns; None never."""
    ssthresh: Optional[float] = None
    """The slow-start threshold in bytes, where one is known."""
    recovery: str = "prr"
    """Who shapes the rate while losses are repaired: ``"prr"`` the datapath, ``"controller"`` the window at every moment."""
    ecn: str = "off"
    """``"off"``, ``"classic"``, ``"exact"`` or ``"l4s"``."""


_ANSWERS = ("pacing_mbps", "gap", "next_tick", "ssthresh", "recovery", "ecn")

Parameter = Union[tuple[float, float, float], tuple[str, Iterable[str]]]


def controller(
    name: str,
    *,
    summary: str = "written in Python",
    params: Optional[Mapping[str, Parameter]] = None,
    show: Iterable[str] = (),
) -> Callable[[C], C]:
    """Registers a class as a controller for as long as the process lasts: ``"NAME@udp"`` is a contestant from now on.

    The class is called with an ``env`` (``mss``, ``seed``, ``paced``) and its parameters as keywords. ``params`` declares these:
    ``{"beta": (0.7, 0.1, 1.0)}`` a number with default, smallest and largest value, ``{"mode": ("a", ["a", "b"])}`` a word; they are
    written ``NAME:beta=0.5,mode=b@udp``. ``show`` names attributes that ``Records.variables`` has. The same name may be registered
    again with the same parameters, as notebooks do: the newest class counts.

    >>> @paceline.controller("half", params={"packets": (10.0, 1.0, 1000.0)})
    ... class Half(paceline.Controller):
    ...     def __init__(self, env, packets):
    ...         self.mss, self.window = env.mss, packets * env.mss
    ...     def on_ack(self, ack):
    ...         self.window += self.mss * ack.bytes / self.window
    ...     def on_loss(self, loss):
    ...         if loss.new_episode:
    ...             self.window /= 2
    """

    declared: list[tuple[str, Any]] = []
    for key, given in (params or {}).items():
        if len(given) == 3:
            declared.append((key, tuple(float(number) for number in given)))
        else:
            default, words = given
            declared.append((key, (default, list(words))))
    options = {"summary": summary, "params": declared, "show": list(show)}

    def decorate(cls: C) -> C:
        register(name, cls, options)
        return cls

    return decorate


def register(name: str, cls: type, options: dict[str, Any]) -> None:
    """Registers a class with options as :func:`controller` has read them."""
    for answer in _ANSWERS:
        if not hasattr(cls, answer):
            setattr(cls, answer, getattr(Controller, answer))
    _paceline.register_controller(cls, name, options["summary"], options["params"], options["show"])
    _travel.KNOWN[name] = _travel.Registered(register, cls, options)
