"""Client programs: each transfer is one run of them."""
import os
import signal
import subprocess
import tempfile
import threading
import time

from . import sessions
from .sessions import Kept, Local
from .stream import BLOCK, Wrong

# Seconds after its start at which a client program is stopped for a while.
STALL_AFTER = 1.0
# MariaDB's: a file's lines become the rows of a table.
LOAD = "CREATE TABLE {name} (line TEXT); LOAD DATA LOCAL INFILE '{path}' INTO TABLE {name} (line)"


class Command:
    """A client program for each transfer."""

    def __init__(self, host, behaviour, timeout, port):
        self.host, self.behaviour, self.timeout, self.port = host, behaviour, timeout, port
        self.goes_on = False

    def behave(self, behaviour):
        self.behaviour = behaviour

    def run(self, argv, sink=None, source=None):
        """Writes what it prints into the sink."""
        with tempfile.TemporaryFile() as said:
            process = subprocess.Popen(argv, stdin=source or subprocess.DEVNULL, stderr=said, start_new_session=True,
                                       stdout=subprocess.PIPE if sink else subprocess.DEVNULL)
            timers = [threading.Timer(self.timeout, process.kill)]
            if not sink and "stall" in self.behaviour:
                seconds = self.behaviour["stall"][1]
                timers += [threading.Timer(STALL_AFTER, process.send_signal, [signal.SIGSTOP]),
                           threading.Timer(STALL_AFTER + seconds, process.send_signal, [signal.SIGCONT])]
            try:
                for timer in timers:
                    timer.start()
                while sink and (block := process.stdout.read1(sink.block())):
                    sink.write(block)
                status = process.wait()
            finally:
                for timer in timers:
                    timer.cancel()
                process.kill()
                process.wait()
            said.seek(0)
            if status != 0:
                text = said.read()[-300:].decode(errors="replace").strip()
                raise Wrong(f"{os.path.basename(argv[0])} ends with {status}: {text}")

    def close(self):
        pass


def into(sink, fetch):
    """What `fetch` puts into a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "got")
        fetch(path)
        with open(path, "rb") as file:
            while block := file.read(BLOCK):
                sink.hash.update(block)
                sink.bytes += len(block)


class Psql(Command):
    def __init__(self, host, behaviour, timeout, port, psql):
        super().__init__(host, behaviour, timeout, port)
        self.psql = [*psql, "-h", host, "-p", str(port)]

    def down(self, name, sink, last=True):
        self.run([*self.psql, "-c", f"COPY {name} TO STDOUT"], sink)

    def up(self, name, path, last=True):
        with open(path, "rb") as source:
            self.run([*self.psql, "-c", f"CREATE TABLE {name} (line text)", "-c", f"COPY {name} FROM STDIN"], source=source)


class Mariadb(Command):
    def __init__(self, host, behaviour, timeout, port, client):
        super().__init__(host, behaviour, timeout, port)
        self.client = [*client, "-h", host, "-P", str(port), "soak"]

    def down(self, name, sink, last=True):
        self.run([*self.client, "--execute", f"SELECT line FROM {name}"], sink)

    def up(self, name, path, last=True):
        self.run([*self.client, "--execute", LOAD.format(name=name, path=path)])


class Rsync(Command):
    def down(self, name, sink, last=True):
        into(sink, lambda path: self.run(["rsync", "-q", f"rsync://{self.host}:{self.port}/files/{name}", path]))

    def up(self, name, path, last=True):
        self.run(["rsync", "-q", path, f"rsync://{self.host}:{self.port}/up/{name}"])


class Ssh(Command):
    def __init__(self, host, behaviour, timeout, port, key, www):
        super().__init__(host, behaviour, timeout, port)
        self.www, self.who = www, f"root@{host}"
        self.options = ["-F", "none", "-i", key, *(word for setting in (
            f"Port={port}", "BatchMode=yes", "IdentitiesOnly=yes", "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null",
            "LogLevel=ERROR") for word in ("-o", setting))]

    def down(self, name, sink, last=True):
        far = f"{self.www}/files/{name}"
        if self.copies(name):
            return into(sink, lambda path: self.run(["scp", "-q", *self.options, f"{self.who}:{far}", path]))
        return self.run(["ssh", *self.options, self.who, f"cat {far}"], sink)

    def up(self, name, path, last=True):
        far = f"{self.www}/up/{name}"
        if self.copies(name):
            return self.run(["scp", "-q", *self.options, path, f"{self.who}:{far}"])
        with open(path, "rb") as source:
            return self.run(["ssh", *self.options, self.who, f"cat > {far}"], source=source)

    @staticmethod
    def copies(name):
        """Whether by scp."""
        return int(name[-1]) % 2 == 1


class Replica(Command):
    """A redis that copies another one."""

    def down(self, name, sink, last=True):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "socket")
            argv = ["redis-server", "--port", "0", "--unixsocket", path, "--dir", folder, "--save", "", "--rdbcompression", "no",
                    "--repl-timeout", "1200", "--replicaof", self.host, str(self.port)]
            replica = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
            try:
                self.wait(path)
                connection = Local(path)
                connection.down(name, sink)
                connection.close()
            finally:
                replica.terminate()
                replica.wait()

    def wait(self, path):
        until = time.monotonic() + self.timeout
        while time.monotonic() < until:
            time.sleep(0.2)
            try:
                connection, kept = Local(path), Kept()
            except (FileNotFoundError, ConnectionRefusedError):
                # It is not made, or no program listens at it yet.
                continue
            connection.say(b"INFO", b"replication")
            connection.stream.take(int(connection.stream.line()[1:]), kept)
            connection.close()
            if b"master_link_status:up" in kept.data:
                return
        raise Wrong(f"not in step after {self.timeout:.0f} s")


SESSIONS = {"http": sessions.Http, "line": sessions.Line, "redis": sessions.Redis, "memcached": sessions.Memcached,
            "ftp": sessions.Ftp, "psql": Psql, "mariadb": Mariadb, "rsync": Rsync, "ssh": Ssh, "replica": Replica}
