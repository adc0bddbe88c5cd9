"""The clients of a round: a thread each, in one process that runs behind the emulated path. Reads the job from standard input,
prints what became of each transfer."""
import json
import os
import resource
import socket
import sys
import threading
import time

from .commands import SESSIONS
from .stream import Left, Sink, Wrong

# Seconds for the ends of connections to arrive, at most.
SETTLE = 20
# States of sockets in /proc/net/tcp: TIME_WAIT, CLOSE, LISTEN.
ENDED = ("06", "07", "0A")


class Client:
    """One client, which does its transfers one after the other."""

    def __init__(self, job, number):
        self.job, self.number, self.plan = job, number, job["clients"][number]
        self.results = []

    def run(self):
        time.sleep(self.plan.get("start", 0))
        session, transfers = None, self.plan["transfers"]
        for index, (way, file) in enumerate(transfers):
            last = not self.plan["keep"] or index == len(transfers) - 1
            # Only the last one goes away early.
            behaviour = self.plan["behaviour"] if index == len(transfers) - 1 else \
                {key: value for key, value in self.plan["behaviour"].items() if key != "leave"}
            session = self.transfer(session, way, file, last, behaviour, index)

    def transfer(self, session, way, file, last, behaviour, index):
        """Returns the session, where it goes on."""
        size, name = self.job["files"][file], f"f{file}"
        result = {"client": self.number, "way": way, "file": file, "bytes": 0, "behaviour": behaviour}
        sink, began = Sink(behaviour, size), time.monotonic()
        self.results.append(result)
        try:
            if session is None:
                session = SESSIONS[self.job["protocol"]](os.environ["PACELINE_BASE"], behaviour, self.job["timeout"],
                                                         **self.job["options"])
            session.behave(behaviour)
            if way == "down":
                session.down(name, sink, last)
                result["bytes"], result["digest"] = sink.bytes, sink.digest()
            else:
                result["name"] = f"u{index}_{self.number}"
                result["digest"] = session.up(result["name"], os.path.join(self.job["folder"], name), last)
                result["bytes"] = size
        except Left:
            result["left"], result["bytes"], result["digest"] = True, sink.bytes, sink.digest()
        except Wrong as error:
            result["error"], result["end"], result["bytes"], result["digest"] = str(error), error.end, sink.bytes, sink.digest()
        except Exception as error:  # Whatever it is, the other clients go on.
            result["error"] = f"{type(error).__name__}: {error}"
        result["seconds"] = round(time.monotonic() - began, 2)
        if session and (last or not session.goes_on or "error" in result or "left" in result):
            session.close()
            return None
        return session


def be_idle(idle, port):
    """Connections that ask for nothing, all at once, for some seconds."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    connections = [socket.socket() for _ in range(idle["count"])]
    for connection in connections:
        connection.setblocking(False)
        connection.connect_ex((os.environ["PACELINE_BASE"], port))
    time.sleep(idle["seconds"])
    for connection in connections:
        try:
            connection.send(idle["word"].encode())
        except OSError:
            pass  # It is not let in.
    time.sleep(idle["seconds"])
    for connection in connections:
        connection.close()


def settle():
    """Waits until the ends of the connections have arrived: the path is gone with this process, and what is on it."""
    until = time.monotonic() + SETTLE
    while time.monotonic() < until:
        time.sleep(0.5)
        with open("/proc/net/tcp") as file:
            if all(line.split()[3] in ENDED for line in file.readlines()[1:]):
                return


def main():
    job = json.load(sys.stdin)
    clients = [Client(job, number) for number in range(len(job["clients"]))]
    results = []
    if job["idle"]:
        # The server has answered someone before the idle ones come.
        first = clients.pop(0)
        first.run()
        results += first.results
        be_idle(job["idle"], job["options"]["port"])
    threads = [threading.Thread(target=client.run, daemon=True) for client in clients]
    for thread in threads:
        thread.start()
    until = time.monotonic() + job["timeout"]
    for thread in threads:
        thread.join(max(0, until - time.monotonic()))
    for client, thread in zip(clients, threads):
        if thread.is_alive() and client.results:
            client.results[-1].setdefault("error", f"not finished after {job['timeout']:.0f} s")
        results += client.results
        results += [{"client": client.number, "way": way, "file": file, "bytes": 0, "error": "not begun in time"}
                    for way, file in client.plan["transfers"][len(client.results):]]
    print(json.dumps(results), flush=True)
    settle()
    # Threads that hang must not keep it.
    os._exit(0)


if __name__ == "__main__":
    main()
