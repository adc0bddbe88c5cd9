"""What is printed and written: progress on a terminal, what was wrong, a table, JSON."""
import json
import sys
import threading

# Lines about one round.
MOST = 6


def numbers(plan, result):
    """A round as one flat object."""
    transfers = result["transfers"]
    moved = {way: sum(one["bytes"] for one in transfers if one["way"] == way) for way in ("down", "up")}
    compared = [one for one in transfers if "left" not in one and "cut" not in one]
    wrong = [one for one in compared if "error" in one]
    return {"program": plan["program"], "mode": plan["mode"], "seed": plan["seed"], "round": plan["round"],
            "kind": plan["kind"], "path": plan["path"],
            "clients": max(map(len, plan["phases"])), "bytes_down": moved["down"], "bytes_up": moved["up"],
            "whole": len(compared) - len(wrong), "total": len(compared), "left": len(transfers) - len(compared),
            "seconds": result["seconds"], "stop_seconds": result["stop_seconds"], "emulator": result.get("emulator", []),
            "faults": result["faults"],
            "errors": [describe(plan, one) for one in wrong], "kept": result.get("kept")}


def describe(plan, one):
    behaviour = ", ".join(f"{name} {value}" for name, value in one.get("behaviour", {}).items()) or "fast"
    return (f"client {one['client']} {one['way']} {one.get('name', 'f' + str(one['file']))}: {one['error']}; "
            f"{one['bytes']} of {plan['files'][one['file']]} bytes, {one.get('seconds', 0)} s, {behaviour}")


class Report:
    def __init__(self, path):
        self.rows, self.lock, self.wrong = [], threading.Lock(), 0
        self.file = open(path, "w") if path else None
        self.live = sys.stderr.isatty()

    def add(self, plan, result, again):
        """Of a round that has ended. `again` is the command that repeats it."""
        row = numbers(plan, result)
        lines = [f"server: {fault}" for fault in row["faults"]] + row["errors"]
        with self.lock:
            self.rows.append(row)
            if self.file:
                self.file.write(json.dumps(row) + "\n")
                self.file.flush()
            if lines:
                self.wrong += 1
                self.clear()
                path = " ".join(f"{name} {value}" for name, value in row["path"].items())
                print(f"{row['program']}, {row['mode']}, round {row['round']} ({row['kind']}), {path}: "
                      f"{row['whole']} of {row['total']} transfers whole")
                for line in lines[:MOST]:
                    print(f"  {line}")
                if len(lines) > MOST:
                    print(f"  and {len(lines) - MOST} more")
                print(f"  again: {again}\n  logs:  {row['kept']}", flush=True)
        return bool(lines)

    def note(self, text):
        with self.lock:
            self.clear()
            print(f"  {text}", flush=True)

    def progress(self, text):
        """One line on a terminal, nothing elsewhere."""
        if self.live:
            with self.lock:
                print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)

    def clear(self):
        if self.live:
            print("\r\033[K", end="", file=sys.stderr, flush=True)

    def table(self):
        """A line for each program and mode, with the sums of its rounds."""
        self.clear()
        print(f"{'program':15} {'mode':7} {'rounds':>6} {'clients':>7} {'bytes down':>13} {'bytes up':>13} {'whole/total':>12} "
              f"{'seconds':>8}")
        groups = {}
        for row in self.rows:
            groups.setdefault((row["program"], row["mode"]), []).append(row)
        for (program, mode), rows in sorted(groups.items()):
            line(program, mode, rows)
        if len(groups) > 1:
            line("all", "", self.rows)
        rounds = [row for row in self.rows if row["faults"]]
        if rounds:
            print(f"servers: wrong in {len(rounds)} of {len(self.rows)} rounds")


def line(program, mode, rows):
    def total(key):
        return sum(row[key] for row in rows)
    whole = f"{total('whole')}/{total('total')}"
    print(f"{program:15} {mode:7} {len(rows):6} {total('clients'):7} {total('bytes_down'):13} {total('bytes_up'):13} {whole:>12} "
          f"{total('seconds'):8.1f}", flush=True)
