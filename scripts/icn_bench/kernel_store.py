"""The router with its store in the kernel (`icn serve --kernel-store`), at the server's end of its link."""
import re
import subprocess
import sys
from contextlib import contextmanager

from icn_bench.measure import run
from icn_bench.path import ADDRESS, PORT, UNIT, inside

# Of the router, and of what is asked for: one part of an object, and what no processor's caches hold (92 MB).
MEMORY, METRICS = "128MB", "127.0.0.1:9464"
HOT, COLD = 64, 65_536
# Seconds until all of that is in the kernel: 64 parts of 64 units each 250 ms.
FILLED = 8.0
NUMBERS = f"import urllib.request; print(urllib.request.urlopen('http://{METRICS}/metrics').read().decode())"


def rows(args):
    """What is measured."""
    found = {}
    if args.kernel_store:
        found["kernel 1 unit"] = {"us": args.coalesce}
        found["kernel frames"] = {"us": args.coalesce, "units": HOT, "rate": args.rate * 125_000 / UNIT}
        found["kernel saturated"] = {"us": 0, "units": HOT}
    if args.kernel_store and args.apart:
        found["kernel saturated apart"] = {"us": 0, "units": COLD, "warm": FILLED}
    return found


def router(serve):
    """The words that begin it, behind those of the store and the address."""
    return [serve, f"kernel-store={MEMORY}", "interface=icnb1a", f"metrics={METRICS}"]


@contextmanager
def padding(peer):
    """Within, the middle's end of the server's link is one that answers reach, and sockets' requests have their sums, and room for an answer."""
    run(*inside("middle", "ethtool", "-K", "icnb1b", "tx", "off"))
    program = subprocess.Popen(inside("middle", peer, "icnb1b"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        if not program.stdout.readline():
            sys.exit("bench-icn: veth_peer failed; see above")
        yield
    finally:
        program.communicate()
        run(*inside("middle", "ethtool", "-K", "icnb1b", "tx", "on"))


def frames(args, receivers, rate, units, warm):
    """Who asks by frames, `rate` of them in a second (0: as many as go), and where."""
    words = [args.store_load, "icnb1b", f"{ADDRESS}:{PORT}", args.name, receivers, rate, units, warm, args.seconds]
    return "middle", words


def asked():
    """Requests so far, and those of them that the kernel answered."""
    text = run(*inside("server", "nice", "-n", "-10", sys.executable, "-c", NUMBERS)).stdout
    found = {key: int(value) for key, value in re.findall(r"^(paceline_icn_\S+) (\d+)$", text, re.MULTILINE)}
    return found["paceline_icn_requests_total"], found['paceline_icn_kernel_requests_total{outcome="answered"}']


def share(before, after):
    """Of the requests in between, how many the kernel answered."""
    return (after[1] - before[1]) / max(1, after[0] - before[0])
