"""One connection, and what a client does with what comes over it."""
import hashlib
import os
import socket
import ssl
import time

BLOCK = 1 << 16
# Reads as fast as it can.
FAST = {}


class Wrong(Exception):
    """A transfer did not end as it does without the library."""
    end = "an error"


class Cut(Wrong):
    """The end came early, and in order."""
    end = "an early end"


class Reset(Wrong):
    """The connection was reset."""
    end = "reset"


class Left(Exception):
    """The client went in the middle, as it was to."""


class Sink:
    """Counts and hashes, and slows the reader down.

    behaviour: `pace` bytes a second at most; `stall`, at what share of the transfer, for seconds, nothing is read; `leave`,
    at what share the client goes; `buffer` bytes for SO_RCVBUF."""

    def __init__(self, behaviour=FAST, size=0):
        self.behaviour, self.size = behaviour, size
        self.hash, self.bytes, self.stalled = hashlib.sha256(), 0, False

    def block(self):
        return 8192 if self.behaviour.get("pace") else BLOCK

    def passed(self, count):
        """This many bytes more have gone either way."""
        self.bytes += count
        if self.behaviour.get("pace"):
            time.sleep(count / self.behaviour["pace"])
        if "stall" in self.behaviour and not self.stalled:
            at, seconds = self.behaviour["stall"]
            if self.bytes >= at * self.size:
                self.stalled = True
                time.sleep(seconds)
        if "leave" in self.behaviour and self.bytes > self.behaviour["leave"] * self.size:
            raise Left()

    def write(self, block):
        self.hash.update(block)
        self.passed(len(block))

    def digest(self):
        return self.hash.hexdigest()


class Stream:
    """A TCP connection, with TLS or without."""

    def __init__(self, host, port, behaviour, timeout, tls=False, notifies=True, socks=None):
        self.rest, self.notifies = b"", notifies
        raw = socket.socket()
        if behaviour.get("buffer"):
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, behaviour["buffer"])
        raw.settimeout(timeout)
        try:
            raw.connect((host, port))
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.socket = self.secure(raw) if tls else raw
        except OSError as error:
            raw.close()
            raise Wrong(f"no connection: {error}") from error
        if socks:
            self.ask_for(socks)

    def ask_for(self, port):
        """Lets the other end pass it on to a port of its own (RFC 1928)."""
        self.send(b"\x05\x01\x00")
        self.skip(b"\x05\x00")
        self.send(b"\x05\x01\x00\x01" + socket.inet_aton("127.0.0.1") + port.to_bytes(2, "big"))
        self.skip(b"\x05\x00\x00\x01")
        self.take(6, Sink())

    @classmethod
    def over(cls, connected):
        """A connection that is there already."""
        stream = cls.__new__(cls)
        stream.rest, stream.notifies, stream.socket = b"", True, connected
        return stream

    @staticmethod
    def secure(raw):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context.wrap_socket(raw, suppress_ragged_eofs=False)

    def receive(self, limit=BLOCK):
        """Some bytes; none at the end of the stream."""
        if self.rest:
            block, self.rest = self.rest[:limit], self.rest[limit:]
            return block
        try:
            return self.socket.recv(limit)
        except ssl.SSLEOFError as error:
            if not self.notifies:
                return b""
            raise Cut("an end that TLS did not announce") from error
        except TimeoutError as error:
            raise Wrong(f"silence for {self.socket.gettimeout():.0f} s") from error
        except OSError as error:
            raise Reset(f"reset: {error}") from error

    def line(self):
        line = b""
        while not line.endswith(b"\n"):
            if not self.rest:
                self.rest = self.receive()
                if not self.rest:
                    raise Cut(f"the end after {line!r}")
            end = self.rest.find(b"\n") + 1 or len(self.rest)
            line, self.rest = line + self.rest[:end], self.rest[end:]
        return line.rstrip(b"\r\n")

    def take(self, count, sink):
        """Exactly this many bytes."""
        while count:
            block = self.receive(min(count, sink.block()))
            if not block:
                raise Cut(f"the end, {count} bytes early")
            count -= len(block)
            sink.write(block)

    def drain(self, sink):
        """All to the end of the stream."""
        while block := self.receive(sink.block()):
            sink.write(block)

    def skip(self, expected):
        sink = Sink()
        self.take(len(expected), sink)
        if sink.digest() != hashlib.sha256(expected).hexdigest():
            raise Wrong(f"something else where {expected!r} was due")

    def send(self, data):
        try:
            self.socket.sendall(data)
        except OSError as error:
            raise Reset(f"sending: {error}") from error

    def send_file(self, path, behaviour):
        """All of a file; as slowly as the client is."""
        pace = Sink(behaviour, os.path.getsize(path))
        with open(path, "rb") as file:
            while block := file.read(pace.block()):
                self.send(block)
                pace.passed(len(block))

    def end(self):
        """The server has said all: what must come now is a clean end."""
        extra = self.receive()
        if extra:
            raise Wrong(f"more bytes than there are: {extra[:40]!r}")
        self.close()

    def close(self):
        self.socket.close()
