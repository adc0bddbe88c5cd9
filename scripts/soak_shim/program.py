"""What is known of a program, and the table of all."""
import dataclasses
import glob
import shutil
import signal
from typing import Callable, Optional

# Every round has a network of its own, so that ports are always free.
PORT, ORIGIN_PORT = 8000, 8001
# Where Debian puts programs, ahead of what else the caller's PATH may have.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ALL = {}


@dataclasses.dataclass
class Server:
    """How a round starts a server, speaks with it and ends it."""
    argv: list
    # Which of sessions.SESSIONS, and its arguments.
    protocol: str
    options: dict = dataclasses.field(default_factory=dict)
    # Ends it in order.
    stop: int = signal.SIGTERM
    user: Optional[str] = None
    cwd: Optional[str] = None
    env: dict = dataclasses.field(default_factory=dict)
    # Called when it listens: puts the files where it serves them from.
    load: Optional[Callable] = None
    # SHA-256 of what it has under the name of an upload. Not asked where it answers an upload with that itself.
    stored: Optional[Callable] = None


@dataclasses.dataclass(frozen=True)
class Program:
    """A program under the shim, or one way to use it."""
    name: str
    packages: tuple
    # Executables, and patterns of files, without which it is skipped.
    needs: tuple
    start: Callable
    ways: tuple = ("down", "up")
    # Whether a connection can have more than one transfer.
    keep: bool = True
    # The most clients at once, bytes in one transfer, and different files.
    clients: int = 50
    largest: int = 1 << 30
    files: int = 4
    # The most idle connections beside; it need not serve others meanwhile. None where each would take a thread or a process.
    idle: int = 0
    # Whether its client comes again when a connection ends: a stop is not the end of a transfer then.
    returns: bool = False
    # Whether it can live with 64 descriptors.
    little: bool = True
    # Whether it says at the end of a TLS connection that it is one (close_notify).
    notifies: bool = True
    # A package that cannot be there as well.
    excludes: str = ""

    def missing(self):
        """What it needs and is not there."""
        return [need for need in self.needs
                if not (glob.glob(need) if need.startswith("/") else shutil.which(need, path=PATH))]


def program(name, packages, needs, **known):
    """Puts what a function starts into the table."""
    def add(start):
        ALL[name] = Program(name, tuple(packages.split()), tuple(needs.split()), start, **known)
        return start
    return add
