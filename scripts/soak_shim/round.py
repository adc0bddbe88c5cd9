"""One round, in namespaces of its own (network, processes, mounts): what it starts ends with it, whatever ends it, and every
port is free. Reads the round from standard input, prints what became of it."""
import base64
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

from . import kinds
from . import files, languages, mail, relays, repositories, stores, web  # noqa: F401  (they fill the table)
from .program import ALL, ORIGIN_PORT, PATH, PORT
from .stream import Wrong

# Seconds until a server listens: Java compiles its program first, and several rounds may run at once.
START = 120
# Seconds a server has for its end: with the library up to its linger time (30 s) for what the peer did not take, and its own time.
STOP = 90
# Bytes in a line of a file: base64 of 54 and the end of the line.
LINE = 73
# What a server's log says when one of its processes crashed.
CRASH = re.compile(r".*(?:signal 11|signal 6|SIGSEGV|SIGABRT|SIGSYS|[Ss]egmentation|panicked|core dumped|double free).*")
# States of sockets in /proc/net/tcp.
CONNECTED, LISTEN = "01", "0A"
# What `paceline emulate` says when interfaces take the kernel too long, as on a very busy machine; and how often it may begin.
NO_PATH, TRIES = "the kernel gives no interface", 3


class Fault(Exception):
    """The round cannot be run."""


class Work:
    """The folder of a round, and what programs need to be started in it."""

    def __init__(self, folder, plan):
        self.folder, self.plan = folder, plan
        self.www, self.tmp = os.path.join(folder, "www"), os.path.join(folder, "tmp")
        self.volume = sum(plan["files"][file] for phase in plan["phases"] for client in phase for _, file in client["transfers"])
        for path, mode in ((self.www, 0o755), (f"{self.www}/files", 0o755), (f"{self.www}/up", 0o1777), (self.tmp, 0o1777),
                           (f"{folder}/run", 0o1777)):
            os.mkdir(path)
            os.chmod(path, mode)
        shutil.copytree(os.path.join(os.path.dirname(__file__), "servers"), os.path.join(folder, "servers"))
        self.digests = [self.fill(path, size, number) for number, (size, (_, path)) in enumerate(zip(plan["files"], self.files()))]

    def files(self):
        """Name and path of each."""
        return [(f"f{number}", os.path.join(self.www, "files", f"f{number}")) for number in range(len(self.plan["files"]))]

    def fill(self, path, size, number):
        """Random lines, so that a data base can have them as rows; returns the SHA-256."""
        source, digest = random.Random(f"{self.plan['seed']} {self.plan['round']} {number}"), hashlib.sha256()
        with open(path, "wb") as file:
            left = size
            while left:
                lines = base64.encodebytes(source.randbytes(54 * 2000)).replace(b"\n", b"")
                block = b"\n".join(lines[at:at + LINE - 1] for at in range(0, len(lines), LINE - 1)) + b"\n"
                block = block if len(block) < left else block[:left - 1] + b"\n"
                file.write(block)
                digest.update(block)
                left -= len(block)
        os.chmod(path, 0o644)
        return digest.hexdigest()

    def beginning(self, number, count):
        """SHA-256 of the first bytes of a file."""
        with open(self.files()[number][1], "rb") as file:
            return hashlib.sha256(file.read(count)).hexdigest()

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, 0o644)
        return path

    def source(self, name):
        """One of the small servers."""
        return os.path.join(self.folder, "servers", name)

    def run(self, argv, user=None, env=None):
        """A command that prepares something, or asks for it; what it prints."""
        done = subprocess.run(argv, user=user, group=group(user), extra_groups=[] if user else None, cwd=self.tmp,
                              env={**os.environ, "PATH": PATH, **(env or {})}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, check=False)
        if done.returncode != 0:
            said = (done.stdout + done.stderr)[-500:].decode(errors="replace")
            raise Fault(f"{argv[0]} ended with {done.returncode}: {said}")
        return done.stdout

    def run_when_ready(self, argv):
        """A command that a server refuses for as long as it only listens."""
        until = time.monotonic() + START
        while True:
            try:
                return self.run(argv)
            except Fault:
                if time.monotonic() > until:
                    raise
                time.sleep(0.2)

    def certificate(self):
        """Paths of a certificate and its key, which every user may read."""
        paths = [os.path.join(self.folder, name) for name in ("certificate.pem", "key.pem")]
        self.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=soak",
                  "-days", "30", "-out", paths[0], "-keyout", paths[1]])
        os.chmod(paths[1], 0o644)
        return paths

    def origin(self):
        """Starts what is behind a proxy."""
        path = os.path.join(os.path.dirname(__file__), "servers", "origin.py")
        process = subprocess.Popen([sys.executable, path, self.www, str(ORIGIN_PORT)], start_new_session=True)
        self.listens(process, ORIGIN_PORT)

    def listens(self, process, port):
        """Waits for it without a connection, which some servers would take for a client."""
        until = time.monotonic() + START
        while time.monotonic() < until:
            if process.poll() is not None:
                raise Fault(f"the server ended with {process.returncode} before it listened")
            if has_socket(port, LISTEN):
                return
            time.sleep(0.05)
        raise Fault(f"the server does not listen after {START} s")


class Round:
    def __init__(self, plan, folder, bin_folder):
        self.plan, self.paceline = plan, os.path.join(bin_folder, "paceline")
        self.work, self.program = Work(folder, plan), ALL[plan["program"]]
        self.log, self.said = (os.path.join(folder, name) for name in ("server.log", "library.log"))
        self.server = self.process = None
        # What it carried, and how late it was.
        self.emulator = []

    def run(self):
        """What became of it: transfers, and what was wrong with the server."""
        faults, transfers, began, stop = [], [], time.monotonic(), 0
        try:
            self.start()
            for phase in self.plan["phases"]:
                transfers += self.clients(phase)
            if self.process.poll() is not None and "stop" not in self.plan:
                faults.append(f"the server ended with {self.process.returncode} before the clients did")
            self.check(transfers)
            taken = round(time.monotonic() - began, 2)
            stop = self.stop(faults)
        except (Fault, Wrong) as fault:
            faults.append(str(fault))
            taken = round(time.monotonic() - began, 2)
        faults += self.look_at_logs()
        return {"transfers": transfers, "faults": faults, "seconds": taken, "stop_seconds": stop, "emulator": self.emulator,
                "digests": self.work.digests}

    def start(self):
        self.server = self.program.start(self.work)
        prefix = [] if self.plan["mode"] == "plain" else \
            [self.paceline, "shim", "--mode", self.plan["mode"], "--log", self.said, "--"]
        prefix = ["prlimit", f"--nofile={self.plan.get('limit', kinds.SOFT)}", "--", *prefix]
        environment = {**os.environ, "PATH": PATH, "XDG_RUNTIME_DIR": os.path.join(self.work.folder, "run"), **self.server.env}
        user = self.server.user
        self.work.write("library.log", "")
        os.chmod(self.said, 0o666)
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([*prefix, *self.server.argv], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env=environment, user=user, group=group(user), extra_groups=[] if user else None,
                                            cwd=self.server.cwd or self.work.tmp, start_new_session=True)
        self.work.listens(self.process, PORT)
        if self.server.load:
            self.server.load(self.work)

    def clients(self, phase):
        """Runs those of a phase behind the path."""
        options = dict(self.server.options)
        if options.get("tls"):
            options["notifies"] = self.program.notifies
        job = {"protocol": self.server.protocol, "options": options, "files": self.plan["files"], "clients": phase, "idle": self.plan.get("idle"),
               "folder": os.path.join(self.work.www, "files"), "timeout": self.plan["timeout"]}
        path = [word for name, value in self.plan["path"].items() for word in (f"--{name}", str(value))]
        argv = [self.paceline, "emulate", *path, "--", sys.executable, "-m", "soak_shim.client"]
        environment = {**os.environ, "PATH": f"{PATH}:{os.environ.get('PATH', '')}"}
        for left in reversed(range(TRIES)):
            run = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment,
                                   start_new_session=True)
            over = threading.Event()
            if "stop" in self.plan:
                threading.Thread(target=self.stop_within, args=(over,)).start()
            try:
                out, said = run.communicate(json.dumps(job).encode(), timeout=self.plan["timeout"] + START)
            except subprocess.TimeoutExpired as error:
                run.kill()
                raise Fault("the clients did not end") from error
            finally:
                over.set()
            said = said.decode(errors="replace").strip()
            if run.returncode == 0 and out:
                self.emulator += said.splitlines()[-1:]
                return json.loads(out)
            if left == 0 or NO_PATH not in said:
                raise Fault(f"the clients ended with {run.returncode}: {said[-500:]}")

    def stop_within(self, over):
        """Asks the server to end this long after its first client came, which on a busy machine takes a while."""
        while not has_socket(PORT, CONNECTED):
            if over.wait(0.05):
                return
        if not over.wait(self.plan["stop"]):
            self.process.send_signal(self.server.stop)

    def check(self, transfers):
        """Compares what came with what was to come."""
        for one in transfers:
            due = self.work.digests[one["file"]]
            if "error" in one or "left" in one:
                self.check_part(one)
                continue
            if one["way"] == "up" and one["digest"] is None:
                try:
                    one["digest"] = (self.server.stored or stored_file)(self.work, one["name"])
                except Wrong as error:
                    one["digest"] = f"could not be asked ({error})"
            if one["digest"] != due:
                one["error"] = f"SHA-256 {one['digest']} where {due} is due"

    def check_part(self, one):
        """What came of a transfer that did not end must be a beginning. The stop of the server may cut it."""
        if one["way"] == "down" and "digest" in one and one["digest"] != self.work.beginning(one["file"], one["bytes"]):
            one["error"] = f"wrong bytes among {one['bytes']}; {one.get('error', 'the client left')}"
        elif "stop" in self.plan and "end" in one:
            one["cut"] = one["end"]
            del one["error"]

    def stop(self, faults):
        """Ends the server in order; returns the seconds that took."""
        began = time.monotonic()
        if self.process.poll() is None:
            self.process.send_signal(self.server.stop)
        try:
            status = self.process.wait(STOP)
            if status < 0 and -status != self.server.stop:
                faults.append(f"the server was ended by {signal.Signals(-status).name}")
        except subprocess.TimeoutExpired:
            faults.append(f"the server runs on {STOP} s after {signal.Signals(self.server.stop).name}")
            self.process.kill()
            return STOP
        until = began + STOP
        while (left := self.left_running()) and time.monotonic() < until:
            time.sleep(0.1)
        if left:
            faults.append(f"processes of the server run on {STOP} s after its end: {', '.join(left)}")
        return round(time.monotonic() - began, 2)

    @staticmethod
    def left_running():
        """Names of processes here that are neither of this program nor dead."""
        names = []
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{entry}/stat") as file:
                    name, fields = re.fullmatch(r"\d+ \((.*)\) (.*)", file.read().strip(), re.DOTALL).groups()
                with open(f"/proc/{entry}/cmdline") as file:
                    own = int(entry) == os.getpid() or "origin.py" in file.read()
            except OSError:
                continue
            if not own and fields[0] not in "ZX":
                names.append(f"{name} ({entry})")
        return names

    def look_at_logs(self):
        """Crashes, and whether the library was there at all."""
        faults = []
        for path in (self.log, os.path.join(self.work.tmp, "errors")):
            if os.path.exists(path):
                with open(path, errors="replace") as file:
                    faults += [f"the server's log: {line.strip()[:200]}" for line in file if CRASH.match(line)][:3]
        if self.plan["mode"] != "plain":
            with open(self.said, errors="replace") as file:
                if "TCP sockets are served" not in file.read():
                    faults.append("the library does not say that it serves")
        return faults


def has_socket(port, state):
    """Whether a socket of this port is in this state."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(table) as file:
            rows = [line.split() for line in file.readlines()[1:]]
        if any(row[3] == state and int(row[1].split(":")[1], 16) == port for row in rows):
            return True
    return False


def group(user):
    return {"nobody": "nogroup"}.get(user, user)


def stored_file(work, name):
    digest = hashlib.sha256()
    try:
        with open(os.path.join(work.www, "up", name), "rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    except OSError as error:
        return str(error)
    return digest.hexdigest()


def main():
    job = json.load(sys.stdin)
    for argv in (["ip", "link", "set", "lo", "up"], ["mount", "-t", "tmpfs", "tmpfs", "/run"], ["mkdir", "/run/sshd"]):
        subprocess.run(argv, check=True)
    try:
        result = Round(job["plan"], job["folder"], job["bin"]).run()
    except OSError as error:
        result = {"transfers": [], "faults": [f"the round cannot be run: {error}"], "seconds": 0, "stop_seconds": 0}
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
