"""Controllers written in Python."""

from __future__ import annotations

import difflib
import inspect
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
    ``on_restart(restart)``, ``on_app_limited(now)``, ``on_telemetry(telemetry)``, ``on_mss(mss)``, ``on_tick(now)``; behind a start-up
    ``on_start_end(now)``.
    """

    window: float
    """Bytes that may be in flight, from 0 on; below one packet counts as one."""
    pacing_mbps: Optional[float] = None
    """On average this rate, Mbit/s above 0; None leaves packets to the window."""
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
    again with the same parameters, as notebooks do: the newest class counts. Other parameters need another name.

    Every start-up of paceline can stand before it, ``NAME:start=hystart@udp``, unless it declares a parameter of such a name: while it is
    in charge the class is informed of nothing; then ``window`` and ``ssthresh`` are what it has found, and ``on_start_end(now)`` is called.

    Raises ValueError where name, parameters or a method's name cannot be, and TypeError where a method is not one that can be called.

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
        declared.append((key, _declared(f"controller '{name}': parameter '{key}'", given)))
    options = {"summary": summary, "params": declared, "show": list(show)}

    def decorate(cls: C) -> C:
        register(name, cls, options)
        return cls

    return decorate


def _declared(told: str, given: Any) -> Any:
    """A parameter as the compiled half takes it."""
    try:
        if len(given) == 3:
            return tuple(float(number) for number in given)
        default, words = given
        named = [] if isinstance(words, str) else list(words)
        if named and all(isinstance(word, str) for word in (default, *named)):
            return default, named
    except (TypeError, ValueError):
        pass
    raise ValueError(
        f"{told}: {given!r} is neither a number with its smallest and largest, (0.7, 0.1, 1.0), nor a word with all words, "
        "('a', ['a', 'b'])"
    )


def register(name: str, cls: type, options: dict[str, Any]) -> None:
    """Registers a class with options as :func:`controller` has read them."""
    _check(name, cls)
    for answer in _ANSWERS:
        if not hasattr(cls, answer):
            setattr(cls, answer, getattr(Controller, answer))
    _paceline.register_controller(cls, name, options["summary"], options["params"], options["show"])
    _travel.KNOWN[name] = _travel.Registered(register, cls, options)


def _check(name: str, cls: type) -> None:
    """Refuses methods that would never be called, or whose calls would do nothing."""
    plain = {method.replace("_", ""): method for method in _paceline.METHODS}
    for method in sorted(dir(cls)):
        # onLoss and onloss too.
        meant = None if method.startswith("_") else plain.get(method.replace("_", "").lower())
        if meant is None and not method.startswith("on_"):
            continue
        told = f"controller '{name}': {cls.__name__}.{method}"
        if method not in _paceline.METHODS:
            near = [meant] if meant else difflib.get_close_matches(method, _paceline.METHODS, 1)
            hint = f"did you mean {near[0]}, or" if near else f"those that are called: {', '.join(_paceline.METHODS)};"
            raise ValueError(f"{told} would never be called; {hint} a name that does not begin with on_, or reads like one of these")
        function = inspect.unwrap(getattr(cls, method))
        if not callable(function):
            raise TypeError(f"{told} is {function!r}, and no method; define {method}(self, ...)")
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(f"{told} is async, so that a call would do nothing; write def instead of async def")
        if inspect.isgeneratorfunction(function):
            raise TypeError(f"{told} has a yield, so that a call would do nothing; take it out")
