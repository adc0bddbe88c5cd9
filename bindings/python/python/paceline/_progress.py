"""How far runs are, where a person looks on."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import Callable, Optional, Union

Progress = Union[Callable[[int, int], object], bool, None]

#: Nothing is said of what is over by then, and not more often, s (our choice: shorter waits need no word).
QUIET_S, AGAIN_S = 2.0, 0.5


class Line:
    """One line on standard error that is written again and again: ``12 of 60 runs, 35 s left``."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._next = self._begun + QUIET_S
        self._first: Optional[int] = None
        self._width = 0

    def __call__(self, made: int, due: int) -> None:
        now = time.monotonic()
        if self._first is None:
            self._first = made
        if now < self._next:
            return
        self._next = now + AGAIN_S
        spent, done = now - self._begun, made - self._first
        left = f"{spent / done * (due - made):.0f} s left" if done else f"{spent:.0f} s so far"
        text = f"{made} of {due} runs, {left}"
        self._width = max(self._width, len(text))
        sys.stderr.write(f"\r{text:{self._width}}")
        sys.stderr.flush()

    def end(self) -> None:
        """Takes the line away."""
        if self._width:
            sys.stderr.write(f"\r{'':{self._width}}\r")
            sys.stderr.flush()


def _is_watched() -> bool:
    """Whether standard error is a terminal, or a notebook's."""
    stream = sys.stderr
    return stream is not None and (type(stream).__module__.startswith("ipykernel") or stream.isatty())


def line(progress: Progress) -> Optional[Line]:
    """A line where one is wanted: True asks for it, and None where someone looks on."""
    return Line() if progress is True or progress is None and _is_watched() else None


@contextlib.contextmanager
def watching(progress: Progress) -> Iterator[Optional[Callable[[int, int], object]]]:
    """What is called with the runs that are over and how many there are: what is given, or a line that is taken away at the end."""
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise TypeError(f"progress: {progress!r} is neither a bool nor a function of two numbers, runs over and due")
    shown = line(progress)
    try:
        yield progress if callable(progress) else shown
    finally:
        if shown is not None:
            shown.end()
