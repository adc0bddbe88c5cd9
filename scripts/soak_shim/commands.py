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


def into(sink, fetch, inside=""):
    """What `fetch` puts into a file, or into a file of this name inside of a folder."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "got")
        fetch(path)
        with open(os.path.join(path, inside) if inside else path, "rb") as file:
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


class Curl(Command):
    """By the protocol that its options name."""

    def __init__(self, host, behaviour, timeout, port, scheme, words):
        super().__init__(host, behaviour, timeout, port)
        self.curl = ["curl", "--silent", "--show-error", "--fail", "--noproxy", "*", *words]
        self.url = f"{scheme}://{host}:{port}"

    def down(self, name, sink, last=True):
        self.run([*self.curl, f"{self.url}/files/{name}"], sink)


class Mqtt(Command):
    def words(self, program, name):
        return [program, "-h", self.host, "-p", str(self.port), "-q", "1", "-k", "1200", "-t", name]

    def down(self, name, sink, last=True):
        self.run([*self.words("mosquitto_sub", name), "-C", "1", "-N"], sink)

    def up(self, name, path, last=True):
        self.run([*self.words("mosquitto_pub", name), "-r", "-f", path])


class Axfr(Command):
    def down(self, name, sink, last=True):
        self.run(["dig", f"@{self.host}", "-p", str(self.port), "+noall", "+answer", "+onesoa", "+time=1200", name, "AXFR"], Rows(sink))


class Rows:
    """What the text records of dig's output have in quotes, a line each."""

    def __init__(self, sink):
        self.sink, self.rest = sink, b""

    def block(self):
        return self.sink.block()

    def write(self, block):
        *lines, self.rest = (self.rest + block).split(b"\n")
        texts = [line.split(b'"')[1] for line in lines if b'"' in line]
        self.sink.write(b"".join(text + b"\n" for text in texts))


class Git(Command):
    """A repository for each file; what is sent is a branch."""

    def down(self, name, sink, last=True):
        into(sink, lambda path: self.clone(name, path), name)

    def clone(self, name, path):
        self.run(["git", "clone", "-q", f"git://{self.host}:{self.port}/{name}", path])
        self.run(["git", "-C", path, "fsck", "--full", "--no-progress"])

    def up(self, name, path, last=True):
        with tempfile.TemporaryDirectory() as folder:
            for words in committing(folder, path, name):
                self.run(words)
            self.run(["git", "-C", folder, "push", "-q", f"git://{self.host}:{self.port}/up", f"HEAD:refs/heads/{name}"])


def committing(folder, path, name):
    """Commands that make a repository of one file."""
    git = ["git", "-C", folder, "-c", "user.name=soak", "-c", "user.email=soak@localhost"]
    return [["git", "init", "-q", folder], ["cp", path, f"{folder}/{name}"], [*git, "add", name], [*git, "commit", "-q", "-m", name]]


class Svn(Command):
    def down(self, name, sink, last=True):
        self.run(["svn", "cat", "--non-interactive", f"svn://{self.host}:{self.port}/files/{name}"], sink)

    def up(self, name, path, last=True):
        self.run(["svn", "import", "-q", "--non-interactive", "-m", name, path, f"svn://{self.host}:{self.port}/up/{name}"])


class Hg(Command):
    def down(self, name, sink, last=True):
        into(sink, lambda path: self.run(["hg", "clone", "-q", f"http://{self.host}:{self.port}/{name}", path]), name)


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
            "beanstalk": sessions.Beanstalk, "ftp": sessions.Ftp, "imap": sessions.Imap, "psql": Psql, "mariadb": Mariadb,
            "rsync": Rsync, "ssh": Ssh, "curl": Curl, "mqtt": Mqtt, "axfr": Axfr, "git": Git, "svn": Svn, "hg": Hg,
            "replica": Replica}
