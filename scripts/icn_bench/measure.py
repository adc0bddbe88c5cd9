"""What programs cost: their processor time, and that of the softirqs which ran for them."""
import json
import os
import re
import subprocess
import time

LINE = re.compile(r"(\d+)\s+([\d.]+):\s+irq:softirq_(entry|exit):.*action=(NET_RX|NET_TX|HRTIMER|TASKLET)\b")


def run(*words, **options):
    for again in (0.1, 0.3, 1, 0):
        done = subprocess.run(words, capture_output=True, text=True, **options)
        # `ip netns exec` itself failed: it mounts /sys, which is busy while another one of that name space goes.
        if done.returncode != 255 or not again:
            break
        time.sleep(again)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: {done.stderr.strip() or done.returncode}")
    return done


def sysfs(space, commands):
    """Runs commands of sh that see the devices of a name space: sysfs shows those of the one in which it was mounted."""
    run("ip", "netns", "exec", space, "unshare", "-m", "sh", "-c", f"mount -t sysfs none /sys; {commands}")


def steer(space, device, processor):
    """What arrives at a device of a name space is received on this processor."""
    sysfs(space, f"for q in /sys/class/net/{device}/queues/rx-*; do echo {1 << processor:x} > $q/rps_cpus; done")


def threads(device):
    """The threads that poll a device."""
    found = []
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{process}/comm") as file:
                found += [int(process)] * file.read().startswith(f"napi/{device}-")
        except FileNotFoundError:
            pass
    return found


class Group:
    """Programs that are measured, on a processor of their own: a control group (cpuacct)."""

    def __init__(self, name, processor):
        self.folder, self.processor = f"/sys/fs/cgroup/cpuacct/{name}", processor
        os.makedirs(self.folder, exist_ok=True)

    def start(self, space, *words, **options):
        # Inside a name space, /sys is another one.
        shell = f"echo $$ > {self.folder}/cgroup.procs; exec taskset -c {self.processor} \"$@\""
        options = {"stdout": subprocess.DEVNULL, **options}
        return subprocess.Popen(["sh", "-c", shell, "sh", "ip", "netns", "exec", space, *words], **options)

    def take(self, process):
        """Counts this one too, from now on."""
        with open(f"{self.folder}/cgroup.procs", "w") as file:
            file.write(str(process))

    def leave(self, process):
        with open(f"{os.path.dirname(self.folder)}/cgroup.procs", "w") as file:
            file.write(str(process))

    def resident(self):
        """Memory of its programs, in kB."""
        lines = []
        for process in self.members():
            with open(f"/proc/{process}/status") as file:
                lines += [line for line in file if line.startswith("VmRSS")]
        return sum(int(line.split()[1]) for line in lines)

    def members(self):
        with open(f"{self.folder}/cgroup.procs") as file:
            return [int(line) for line in file]

    def threads(self):
        found = set()
        for process in self.members():
            try:
                found |= {int(task) for task in os.listdir(f"/proc/{process}/task")}
            except FileNotFoundError:
                pass
        return found

    def seconds(self):
        with open(f"{self.folder}/cpuacct.usage") as file:
            return int(file.read()) / 1e9

    def split(self):
        """User and system, in seconds, by ticks."""
        with open(f"{self.folder}/cpuacct.stat") as file:
            return {line.split()[0]: int(line.split()[1]) / os.sysconf("SC_CLK_TCK") for line in file}

    def remove(self):
        for _ in range(100):
            try:
                return os.rmdir(self.folder)
            except OSError:
                time.sleep(0.05)


def busy(processor):
    """Busy seconds of a processor."""
    with open("/proc/stat") as file:
        fields = [int(word) for word in next(line for line in file if line.startswith(f"cpu{processor} ")).split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


class Perf:
    """Softirqs of a processor that ran while none of some threads did, from here on, by perf, which costs some of what it measures."""

    def __init__(self, processor, folder, most):
        self.file, self.threads = os.path.join(folder, "softirqs"), set()
        self.perf = subprocess.Popen(["perf", "record", "-q", "-e", "irq:softirq_entry,irq:softirq_exit", "-C", str(processor),
                                      "-o", self.file, "--", "sleep", str(most)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def stop(self):
        if self.perf.poll() is None:
            self.perf.send_signal(2)
        self.perf.wait()
        script = subprocess.run(["perf", "script", "-i", self.file, "--ns", "-F", "pid,time,event,trace"], capture_output=True, text=True)
        total, began = 0.0, None
        for line in script.stdout.splitlines():
            found = LINE.match(line.strip())
            if not found or int(found[1]) in self.threads:
                began = None
            elif found[3] == "entry":
                began = float(found[2])
            elif began is not None:
                total, began = total + float(found[2]) - began, None
        return {"softirq": total}


class Counter:
    """The same for some processes, by eBPF (datapaths/kernel/examples/softirqs.rs), and interrupts, and packets of each poll."""

    def __init__(self, program, processor, processes):
        self.program = subprocess.Popen([program, str(processor), *map(str, processes)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.threads, self.began = set(), self.line()

    def line(self):
        line = self.program.stdout.readline()
        if not line:
            raise SystemExit(f"{self.program.args[0]}: it does not count; see above")
        return json.loads(line)

    def stop(self):
        self.program.stdin.write("\n")
        self.program.stdin.flush()
        ended = self.line()
        self.program.communicate()
        counted = {key: ended[key] - self.began[key] for key in ended}
        return {"softirq": counted["softirq_ns"] / 1e9, "interrupt": counted["interrupt_ns"] / 1e9,
                "packets_a_poll": counted["packets"] / max(1, counted["polls"])}


class Count:
    """Processor time of a group from here on: its own, and that of softirqs on its processor (NET_RX, NET_TX, HRTIMER, TASKLET, by
    their tracepoints) that ran while none of its threads did: by `counter` (an eBPF program) for the processes that it has now, else by perf."""

    def __init__(self, group, folder, most, counter=None):
        self.group = group
        self.softirqs = Counter(counter, group.processor, group.members()) if counter else Perf(group.processor, folder, most)
        self.look()
        self.start, self.split, self.began, self.busy = group.seconds(), group.split(), time.monotonic(), busy(group.processor)

    def look(self):
        """Threads that a program has by now."""
        self.softirqs.threads |= self.group.threads()

    def stop(self):
        self.look()
        own = self.group.seconds() - self.start
        split = {key: value - self.split[key] for key, value in self.group.split().items()}
        took, occupied = time.monotonic() - self.began, busy(self.group.processor) - self.busy
        counted = self.softirqs.stop()
        total = counted["softirq"]
        # Ticks say how much of it was the program itself, the exact clock how much there was.
        ticks = sum(split.values())
        user = own * split.get("user", 0.0) / ticks if ticks > 0 else 0.0
        return {**counted, "seconds": took, "program": own, "user": user, "system": own - user, "processor": (own + total) / took,
                "foreign": max(0.0, occupied - own - total - counted.get("interrupt", 0.0)) / took}
