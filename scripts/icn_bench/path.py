"""The path of bench-icn: three name spaces in a row, joined by veth, the server on a processor of its own."""
import os
import subprocess
import sys

from icn_bench.measure import Group, run, steer, sysfs

SERVER, OTHERS = 0, 1
SPACES = {"server": "icnb-s", "middle": "icnb-m", "receivers": "icnb-r"}
ADDRESS, MIDDLE, PORT = "10.231.1.1", "10.231.1.2", 4871
# Bytes; TCP's segments have timestamps.
UNIT, SEGMENT = 1400, 1448
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
        self.cut()
        self.group = Group("icn-bench", SERVER)
        if self.args.coalesce:
            self.coalesce()
        return self

    def cut(self):
        """Switches off what lets a packet be longer than the link's."""
        devices = {"path": [("middle", "icnb2a"), ("receivers", "icnb2b")], None: []}
        devices["all"] = [("server", "icnb1a"), ("middle", "icnb1b"), *devices["path"]]
        for space, device in devices[self.args.no_offloads]:
            for feature in ("tso", "gso", "gro", "tx-udp-segmentation"):
                run(*inside(space, "ethtool", "-K", device, feature, "off"))

    def coalesce(self):
        """The server's end of its link, and the middle's where the server cuts by itself, are polled by a timer (NAPI), as a card that
        coalesces its interrupts: those of veth that are not would take each packet as it comes."""
        ends = {"icnb1a": ("server", SERVER, "middle", "icnb1b")}
        if self.args.no_offloads == "all":
            ends["icnb1b"] = ("middle", OTHERS, "server", "icnb1a")
        for device, (space, _, other, peer) in ends.items():
            # A veth polls only where its peer does not hand over segments of TCP.
            run(*inside(other, "ethtool", "-K", peer, "tso", "off"))
            run(*inside(space, "ethtool", "-K", device, "gro", "on"))
            sysfs(SPACES[space], f"echo 0 > /sys/class/net/{device}/queues/rx-0/rps_cpus")
        for _ in range(8):
            for device, (space, processor, other, peer) in ends.items():
                # The timer stays on the processor that sends the first packet behind this.
                files = f"/sys/class/net/{device}"
                sysfs(SPACES[space], f"echo 0 > {files}/gro_flush_timeout; echo 0 > {files}/napi_defer_hard_irqs; sleep 0.02; "
                                     f"echo {self.args.coalesce * 1000} > {files}/gro_flush_timeout; echo {NEVER} > {files}/napi_defer_hard_irqs")
                run(*inside(other, "taskset", "-c", str(processor), sys.executable, "-c", KICK.format(peer)))
            polled = self.polled()
            if all(polled.get(device) == {processor} for device, (_, processor, _, _) in ends.items()):
                return
        raise SystemExit(f"bench-icn: --coalesce: the timer of {', '.join(ends)} runs elsewhere: {polled}")

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
