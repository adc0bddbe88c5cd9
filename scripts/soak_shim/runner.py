"""Runs plans, each in namespaces of its own, and keeps the logs of those in which something was wrong."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading

from . import kinds
from .round import START, STOP

# Above what a round bounds itself: the files have to be made, and removed.
MARGIN = 120
# Bytes of a log that is kept.
KEPT = 20_000_000
NAMESPACES = ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "--pid", "--mount", "--ipc", "--fork", "--kill-child",
              "--mount-proc", "--"]


class Runner:
    def __init__(self, paceline, keep):
        self.keep, self.lock, self.running, self.closed = keep, threading.Lock(), set(), False
        self.folder = tempfile.mkdtemp(prefix="soak-shim-")
        os.chmod(self.folder, 0o755)
        try:
            self.copy(paceline)
        except OSError as error:
            self.close()
            print(f"soak-shim: {error}; build it with `make build`, or give --paceline FILE", file=sys.stderr)
            raise SystemExit(2) from error

    def copy(self, paceline):
        """What is soaked stays as it is when it is built anew meanwhile, and every user can run it."""
        self.bin = os.path.join(self.folder, "bin")
        os.mkdir(self.bin)
        beside = os.path.dirname(os.path.realpath(paceline))
        name = "libpaceline_shim.so"
        places = [os.environ.get("PACELINE_SHIM", ""), f"{beside}/{name}", f"{beside}/../lib/paceline/{name}"]
        library = next(filter(os.path.exists, places), places[1])
        for source, target in ((paceline, "paceline"), (library, name)):
            shutil.copyfile(source, os.path.join(self.bin, target))
            os.chmod(os.path.join(self.bin, target), 0o755)

    def close(self):
        """Ends what runs, and removes what was made."""
        with self.lock:
            self.closed = True
            running = list(self.running)
        for process in running:
            process.kill()
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, plan, plain=None):
        """What became of a plan; adds `kept`, where logs were kept. `plain`: what did without the library."""
        folder = tempfile.mkdtemp(dir=self.folder)
        os.chmod(folder, 0o755)
        limit = START + STOP * 2 + MARGIN + len(plan["phases"]) * (plan["timeout"] + START)
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": folder,
                       "PYTHONPATH": os.path.dirname(os.path.dirname(os.path.abspath(__file__)))}
        environment.pop("PACELINE_SHIM", None)
        with open(os.path.join(folder, "round.log"), "wb") as said, self.lock:
            if self.closed:
                return None
            process = subprocess.Popen([*NAMESPACES, sys.executable, "-m", "soak_shim.round"], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, stderr=said, env=environment, start_new_session=True)
            self.running.add(process)
        job = json.dumps({"plan": plan, "folder": folder, "bin": self.bin})
        try:
            out, _ = process.communicate(job.encode(), timeout=limit)
            result = json.loads(out) if out else failed(f"the round ended with {process.returncode}: {tail(folder)}")
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            result = failed(f"the round did not end within {limit:.0f} s")
        with self.lock:
            self.running.discard(process)
            if self.closed:
                return None
        if plain:
            result["faults"] += kinds.differences(plan, result, plain)
        if result["faults"] or any("error" in one for one in result["transfers"]):
            result["kept"] = self.keep_logs(plan, result, folder)
        shutil.rmtree(folder, ignore_errors=True)
        return result

    def keep_logs(self, plan, result, folder):
        kept = os.path.join(self.keep, f"{plan['seed']}-{plan['round']}-{plan['program']}-{plan['mode']}")
        os.makedirs(kept, exist_ok=True)
        places = [folder, os.path.join(folder, "tmp")]
        for path in (os.path.join(place, name) for place in places if os.path.isdir(place) for name in os.listdir(place)):
            if os.path.isfile(path) and os.path.getsize(path) <= KEPT:
                shutil.copyfile(path, os.path.join(kept, os.path.basename(path)))
        with open(os.path.join(kept, "round.json"), "w") as file:
            json.dump({"plan": plan, "result": result}, file, indent=1)
        return kept


def failed(text):
    return {"transfers": [], "faults": [text], "seconds": 0, "stop_seconds": 0}


def tail(folder):
    with open(os.path.join(folder, "round.log"), errors="replace") as file:
        return file.read()[-600:].strip()
