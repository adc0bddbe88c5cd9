"""What a client says in each protocol. A session is one connection: `down` writes what it gets into a sink, `up` sends a file
and returns the SHA-256 that the server answers, if it does. `last` ends the connection, and looks at how it ends."""
import os
import re
import socket

from .stream import FAST, Sink, Stream, Wrong

HASH = re.compile(rb"[0-9a-f]{64}")


class Session:
    """Of a protocol above one connection."""

    def __init__(self, host, behaviour, timeout, port, tls=False, notifies=True, socks=None):
        self.behaviour, self.goes_on = behaviour, True
        self.stream = Stream(host, port, behaviour, timeout, tls, notifies, socks)

    def behave(self, behaviour):
        """From the next transfer on."""
        self.behaviour = behaviour

    def close(self):
        self.stream.close()


class Http(Session):
    def ask(self, request, last):
        self.stream.send(f"{request} HTTP/1.1\r\nHost: soak\r\nConnection: {'close' if last else 'keep-alive'}\r\n".encode())

    def answer(self, sink):
        """Returns whether the connection can go on."""
        version, status, *_ = self.stream.line().split(b" ") + [b""]
        head = {}
        while line := self.stream.line():
            name, _, value = line.partition(b":")
            head[name.strip().lower()] = value.strip().lower()
        if not status.startswith(b"20"):
            raise Wrong(f"HTTP status {status.decode()}")
        if head.get(b"transfer-encoding") == b"chunked":
            while size := int(self.stream.line().split(b";")[0], 16):
                self.stream.take(size, sink)
                self.stream.skip(b"\r\n")
            self.stream.skip(b"\r\n")
        elif b"content-length" in head:
            self.stream.take(int(head[b"content-length"]), sink)
        elif status != b"204":
            self.stream.drain(sink)
            return False
        return version == b"HTTP/1.1" and head.get(b"connection") != b"close"

    def finish(self, goes_on, last):
        self.goes_on = goes_on and not last
        if not self.goes_on:
            self.stream.end()

    def down(self, name, sink, last=False):
        self.ask(f"GET /files/{name}", last)
        self.stream.send(b"\r\n")
        self.finish(self.answer(sink), last)

    def up(self, name, path, last=False):
        self.ask(f"PUT /up/{name}", last)
        self.stream.send(f"Content-Length: {os.path.getsize(path)}\r\n\r\n".encode())
        self.stream.send_file(path, self.behaviour)
        kept = Kept()
        self.finish(self.answer(kept), last)
        return kept.digest_in_it()


class Kept(Sink):
    """Keeps what comes: a short answer."""

    def __init__(self):
        super().__init__()
        self.data = b""

    def write(self, block):
        self.data += block

    def digest_in_it(self):
        return self.data.decode() if HASH.fullmatch(self.data.strip()) else None


class Line(Session):
    """One request a connection: "GET NAME" or "PUT BYTES", see servers/line.sh."""

    def down(self, name, sink, last=True):
        self.stream.send(f"GET files/{name}\n".encode())
        self.stream.drain(sink)
        self.close()

    def up(self, name, path, last=True):
        self.stream.send(f"PUT {os.path.getsize(path)}\n".encode())
        self.stream.send_file(path, self.behaviour)
        digest = self.stream.line()
        self.stream.end()
        return digest.decode()


class Redis(Session):
    def say(self, *words):
        self.stream.send(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))

    def down(self, name, sink, last=False):
        self.say(b"GET", name.encode())
        answer = self.stream.line()
        if not answer.startswith(b"$") or answer == b"$-1":
            raise Wrong(f"GET is answered with {answer!r}")
        self.stream.take(int(answer[1:]), sink)
        self.stream.skip(b"\r\n")
        self.finish(last)

    def up(self, name, path, last=False):
        self.stream.send(b"*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n" % (len(name), name.encode(), os.path.getsize(path)))
        self.stream.send_file(path, self.behaviour)
        self.stream.send(b"\r\n")
        self.stream.skip(b"+OK\r\n")
        self.finish(last)

    def finish(self, last):
        if last:
            self.say(b"QUIT")
            self.stream.skip(b"+OK\r\n")
            self.stream.end()


class Memcached(Session):
    def down(self, name, sink, last=False):
        self.stream.send(f"get {name}\r\n".encode())
        answer = self.stream.line().split()
        if answer[:1] != [b"VALUE"]:
            raise Wrong(f"get is answered with {answer!r}")
        self.stream.take(int(answer[3]), sink)
        self.stream.skip(b"\r\nEND\r\n")
        self.finish(last)

    def up(self, name, path, last=False):
        self.stream.send(f"set {name} 0 0 {os.path.getsize(path)}\r\n".encode())
        self.stream.send_file(path, self.behaviour)
        self.stream.send(b"\r\n")
        self.stream.skip(b"STORED\r\n")
        self.finish(last)

    def finish(self, last):
        if last:
            self.stream.send(b"quit\r\n")
            self.stream.end()


class Beanstalk(Session):
    """A tube for each file, with one job that stays."""

    def down(self, name, sink, last=False):
        self.use(name)
        self.stream.send(b"peek-ready\r\n")
        answer = self.stream.line().split()
        if answer[:1] != [b"FOUND"]:
            raise Wrong(f"peek-ready is answered with {answer!r}")
        self.stream.take(int(answer[2]), sink)
        self.stream.skip(b"\r\n")
        self.finish(last)

    def up(self, name, path, last=False):
        self.use(name)
        self.stream.send(b"put 1 0 1200 %d\r\n" % os.path.getsize(path))
        self.stream.send_file(path, self.behaviour)
        self.stream.send(b"\r\n")
        answer = self.stream.line()
        if not answer.startswith(b"INSERTED"):
            raise Wrong(f"put is answered with {answer!r}")
        self.finish(last)

    def use(self, name):
        self.stream.send(f"use {name}\r\n".encode())
        self.stream.skip(f"USING {name}\r\n".encode())

    def finish(self, last):
        if last:
            self.stream.send(b"quit\r\n")
            self.stream.end()


class Imap(Session):
    """Each file is the mail of a mailbox, which the server sends with CR and LF at its lines' ends."""

    def __init__(self, host, behaviour, timeout, port):
        super().__init__(host, behaviour, timeout, port)
        self.stream.line()
        self.command("LOGIN soak soak")

    def command(self, text, *answers):
        self.stream.send(f"a {text}\r\n".encode())
        self.answer(*answers)

    def answer(self, *answers):
        while not (line := self.stream.line()).startswith(b"a "):
            pass
        if not line.startswith(answers or b"a OK"):
            raise Wrong(f"IMAP answers {line!r}")

    def down(self, name, sink, last=False):
        self.command(f"EXAMINE {name}")
        self.stream.send(b"a FETCH 1 BODY.PEEK[]\r\n")
        line = self.stream.line()
        found = re.search(rb"\{(\d+)\}$", line)
        if not found:
            raise Wrong(f"FETCH is answered with {line!r}")
        self.stream.take(int(found[1]), Lines(sink))
        self.answer()
        self.finish(last)

    def up(self, name, path, last=False):
        # Dovecot's processes complete each other's folders: it may be there before its own is done.
        self.command(f"CREATE {name}", b"a OK", b"a NO [ALREADYEXISTS]")
        self.stream.send(f"a APPEND {name} {{{os.path.getsize(path)}}}\r\n".encode())
        if not (line := self.stream.line()).startswith(b"+"):
            raise Wrong(f"APPEND is answered with {line!r}")
        self.stream.send_file(path, self.behaviour)
        self.stream.send(b"\r\n")
        self.answer()
        self.finish(last)

    def finish(self, last):
        if last:
            self.command("LOGOUT")
            self.stream.end()


class Lines:
    """Passes lines on without CR, which no file here has."""

    def __init__(self, sink):
        self.sink = sink

    def block(self):
        return self.sink.block()

    def write(self, block):
        self.sink.write(block.replace(b"\r", b""))


class Ftp(Session):
    """Passive, anonymous unless a user is named."""

    def __init__(self, host, behaviour, timeout, port, user="anonymous"):
        # What is slow is the connection of the data.
        super().__init__(host, FAST, timeout, port)
        self.behaviour, self.timeout = behaviour, timeout
        self.expect(b"220")
        self.command(f"USER {user}", b"331", b"230")
        self.command("PASS soak", b"230")
        self.command("TYPE I", b"200")

    def expect(self, *codes):
        while not re.match(rb"\d{3} ", line := self.stream.line()):
            pass
        if not line.startswith(codes):
            raise Wrong(f"FTP answers {line!r}")
        return line

    def command(self, text, *codes):
        self.stream.send(f"{text}\r\n".encode())
        return self.expect(*codes)

    def connection(self):
        found = re.search(rb"(\d+),(\d+),(\d+),(\d+),(\d+),(\d+)", self.command("PASV", b"227"))
        numbers = [int(number) for number in found.groups()]
        return Stream(".".join(map(str, numbers[:4])), numbers[4] * 256 + numbers[5], self.behaviour, self.timeout)

    def down(self, name, sink, last=False):
        data = self.connection()
        self.command(f"RETR files/{name}", b"150", b"125")
        try:
            data.drain(sink)
        finally:
            data.close()
        self.finish(last)

    def up(self, name, path, last=False):
        data = self.connection()
        self.command(f"STOR up/{name}", b"150", b"125")
        data.send_file(path, self.behaviour)
        data.close()
        self.finish(last)

    def finish(self, last):
        self.expect(b"226")
        if last:
            self.command("QUIT", b"221")
            self.stream.end()


class Local(Redis):
    """Over a Unix socket."""

    def __init__(self, path):
        self.behaviour, self.goes_on = FAST, True
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(path)
        self.stream = Stream.over(connection)
