"""The path of bench-icn: three name spaces in a row, joined by veth, the server on a processor of its own."""
import os
import subprocess
import sys
from contextlib import contextmanager

from icn_bench.measure import Group, run, steer, sysfs, threads

SERVER, OTHERS = 0, 1
SPACES = {"server": "icnb-s", "middle": "icnb-m", "receivers": "icnb-r"}
ADDRESS, MIDDLE, PORT = "10.231.1.1", "10.231.1.2", 4871
# Bytes; TCP's segments have timestamps.
UNIT, SEGMENT = 1400, 1448
# The server's link: whose end, the processor that receives there.
ENDS = {"icnb1a": ("server", SERVER), "icnb1b": ("middle", OTHERS)}
PEER = dict(zip(ENDS, reversed(ENDS)))
# Polls by interrupt never: by the timer.
NEVER = 2_000_000_000
KICK = ("import socket; s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); s.bind(('{}', 0)); "
        "s.send(b'\\xff' * 6 + b'\\x02\\0\\0\\0\\0\\x09' + b'\\x88\\xb5' + bytes(50))")


def inside(space, *words):
    return ["ip", "netns", "exec", SPACES[space], *words]


class Path:
    """server ---- middle ---- receivers, with a bottleneck behind the middle."""

    def __init__(self, args):
        self.args = args

    def __enter__(self):
        self.clear()
        for space in SPACES.values():
            run("ip", "netns", "add", space)
        for (one, near), (other, far), net in ((("server", "1"), ("middle", "2"), 1), (("middle", "1"), ("receivers", "2"), 2)):
            run("ip", "link", "add", f"icnb{net}a", "netns", SPACES[one], "type", "veth", "peer", f"icnb{net}b", "netns", SPACES[other])
            for space, device, host in ((one, f"icnb{net}a", near), (other, f"icnb{net}b", far)):
                run(*inside(space, "ip", "addr", "add", f"10.231.{net}.{host}/24", "dev", device))
                run(*inside(space, "ip", "link", "set", device, "up"))
                run(*inside(space, "ip", "link", "set", "lo", "up"))
                steer(SPACES[space], device, SERVER if space == "server" else OTHERS)
        run(*inside("server", "ip", "route", "add", "10.231.2.0/24", "via", MIDDLE))
        run(*inside("receivers", "ip", "route", "add", "10.231.1.0/24", "via", "10.231.2.1"))
        run(*inside("middle", "sysctl", "-qw", "net.ipv4.ip_forward=1"))
        limit = int(self.args.rate * 125 * self.args.queue)
        run(*inside("middle", "tc", "qdisc", "add", "dev", "icnb2a", "root", "tbf", "rate", f"{self.args.rate * 1.06:.0f}mbit",
                    "burst", "65536", "limit", str(limit)))
        self.group = Group("icn-bench", SERVER)
        self.rest()
        return self

    def rest(self):
        """How each end of the server's link receives, if a variant asks for nothing else: what --no-offloads and --coalesce say."""
        self.cut()
        if self.args.coalesce:
            # Where the server cuts by itself, the middle's end too: those of veth that are not polled would take each packet as it comes.
            self.poll(self.args.coalesce, ENDS if self.args.no_offloads == "all" else ["icnb1a"])

    def cut(self):
        """Switches off what lets a packet be longer than the link's."""
        devices = {"path": [("middle", "icnb2a"), ("receivers", "icnb2b")], None: []}
        devices["all"] = [("server", "icnb1a"), ("middle", "icnb1b"), *devices["path"]]
        for space, device in devices[self.args.no_offloads]:
            for feature in ("tso", "gso", "gro", "tx-udp-segmentation"):
                run(*inside(space, "ethtool", "-K", device, feature, "off"))

    def poll(self, us, devices=ENDS):
        """These ends of the server's link are polled (NAPI), as a network card's are: by a timer, as one that coalesces its interrupts, each
        so many microseconds; 0: by a thread, as fast as it goes. Thus several packets share a poll."""
        for device in devices:
            space, other = ENDS[device][0], ENDS[PEER[device]][0]
            # A veth polls only where its peer does not hand over segments of TCP.
            run(*inside(other, "ethtool", "-K", PEER[device], "tso", "off"))
            run(*inside(space, "ethtool", "-K", device, "gro", "on"))
            sysfs(SPACES[space], f"echo 0 > /sys/class/net/{device}/queues/rx-0/rps_cpus")
        (self.by_timers if us else self.by_threads)(us, devices)

    def by_timers(self, us, devices):
        for _ in range(8):
            for device in devices:
                (space, processor), (other, _) = ENDS[device], ENDS[PEER[device]]
                # The timer stays on the processor that sends the first packet behind this.
                files = f"/sys/class/net/{device}"
                sysfs(SPACES[space], f"echo 0 > {files}/gro_flush_timeout; echo 0 > {files}/napi_defer_hard_irqs; sleep 0.02; "
                                     f"echo {us * 1000} > {files}/gro_flush_timeout; echo {NEVER} > {files}/napi_defer_hard_irqs")
                run(*inside(other, "taskset", "-c", str(processor), sys.executable, "-c", KICK.format(PEER[device])))
            polled = self.polled()
            if all(polled.get(device) == {ENDS[device][1]} for device in devices):
                return
        raise SystemExit(f"bench-icn: polls by a timer: that of {', '.join(devices)} runs elsewhere: {polled}")

    def by_threads(self, _, devices):
        for device in devices:
            space, processor = ENDS[device]
            sysfs(SPACES[space], f"cd /sys/class/net/{device}; echo 0 > gro_flush_timeout; echo 0 > napi_defer_hard_irqs; echo 1 > threaded")
            for thread in threads(device):
                run("taskset", "-cp", str(processor), str(thread))
                run("renice", "-n", "-20" if space == "server" else "-10", "-p", str(thread))
                if space == "server":
                    self.group.take(thread)

    @contextmanager
    def polling(self, us):
        """Within, both ends of the server's link are polled thus (`poll`)."""
        self.unpoll()
        try:
            self.poll(us)
            yield
        finally:
            self.unpoll()
            self.rest()

    def unpoll(self):
        """Each packet is received as it comes, as at the start."""
        for device, (space, processor) in ENDS.items():
            for thread in threads(device):
                self.group.leave(thread)
            sysfs(SPACES[space], f"cd /sys/class/net/{device}; echo 0 > threaded; echo 0 > gro_flush_timeout; echo 0 > napi_defer_hard_irqs")
            run(*inside(space, "ethtool", "-K", device, "gro", "off", "tso", "on"))
            steer(SPACES[space], device, processor)

    def polled(self):
        """The processors that poll each device."""
        file = os.path.join(self.args.folder, "polls")
        subprocess.run(["perf", "record", "-q", "-a", "-e", "napi:napi_poll", "-o", file, "--", "sleep", "0.1"], capture_output=True)
        lines = subprocess.run(["perf", "script", "-i", file, "-F", "cpu,trace"], capture_output=True, text=True).stdout.splitlines()
        found = {}
        for words in (line.split() for line in lines):
            if "device" in words:
                found.setdefault(words[words.index("device") + 1], set()).add(int(words[0].strip("[]")))
        return found

    def clear(self):
        for space in SPACES.values():
            subprocess.run(["ip", "netns", "del", space], capture_output=True)

    def __exit__(self, *_):
        self.clear()
        self.group.remove()
