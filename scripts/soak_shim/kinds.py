"""Kinds of rounds beside the usual one. Each changes a plan that was drawn; what it must show is in `differences`."""
import os

# A path that is slow, and then fast: what was written at its slow time must not stay slow.
STEPS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "steps.toml")
# Of the slowest transfer without the library over such a path, and seconds beside: what a busy machine may cost.
SLOWER, BESIDE = 1.5, 5
# Limits of descriptors, as prlimit(1) takes them: as systemd sets them, which is usual; as containers do; as little as a program can live
# with.
SOFT, EQUAL, LITTLE = "1024:", "1024:1024", "64:4096"


def idle(draw, program, plan):
    """After the first client has its answers, more come than a `select` can see, say a word or nothing, and go without having asked."""
    plan["idle"] = {"count": draw.choice((program.idle // 4, program.idle)), "seconds": 3, "word": draw.choice(("", "GET "))}
    plan["limit"] = draw.choice((SOFT, EQUAL))


def limits(draw, program, plan):
    """Few descriptors."""
    plan["limit"] = draw.choice((SOFT, EQUAL, LITTLE) if program.little else (SOFT, EQUAL))
    plan["phases"] = [phase[:8] for phase in plan["phases"]]


def brief(draw, program, plan):
    """Many connections with one short answer each."""
    plan["files"] = [draw.choice((1, 1000, 14_480, 20_000)) for _ in plan["files"]]
    plan["phases"] = [[{**quick(draw, [draw.choice(program.ways) for _ in range(25)], plan), "keep": False}
                       for _ in phase[:8]] for phase in plan["phases"]]


def stop(draw, program, plan):
    """The server is asked to end in the middle of its answers, which take ten seconds."""
    plan["phases"] = [[{**quick(draw, ["down"], plan), "transfers": [["down", 0]]} for _ in phase[:20]] for phase in plan["phases"]]
    plan["path"].pop("loss", None)
    bytes_a_second = float(plan["path"]["rate"].removesuffix("Mbit/s")) * 125_000
    plan["files"] = [min(int(bytes_a_second * 10 / len(plan["phases"][0])), program.largest) for _ in plan["files"]]
    plan["stop"] = round(draw.uniform(2, 6), 1)


def steps(draw, program, plan):
    """A slow link becomes fast."""
    plan["path"] = {"scenario": STEPS, "seed": plan["path"]["seed"]}
    plan["files"] = [min(draw.choice((60_000, 120_000, 240_000)), program.largest) for _ in plan["files"]]
    plan["phases"] = [[{**quick(draw, ["down"], plan), "keep": False} for _ in phase[:3]] for phase in plan["phases"]]


def quick(draw, ways, plan):
    """A client that reads all the time."""
    return {"keep": False, "start": round(draw.uniform(0, 0.5), 2), "behaviour": {},
            "transfers": [[way, draw.randrange(len(plan["files"]))] for way in ways]}


KINDS = {"usual": None, "idle": idle, "limits": limits, "brief": brief, "stop": stop, "steps": steps}
# How often each is drawn.
SHARES = (6, 1, 1, 1, 1, 1)


def fit(program):
    """The kinds that a program can have."""
    return [kind for kind in KINDS if (kind != "idle" or program.idle) and (kind != "stop" or not program.returns)]


def is_compared(plan):
    """Whether the same round without the library says what is right."""
    return plan["kind"] in ("stop", "steps")


def differences(plan, result, plain):
    """What is not as it was without the library."""
    if plan["kind"] == "stop":
        return worse_ends(plan, result, plain)
    return slower(result, plain)


def worse_ends(plan, result, plain):
    """A transfer that the stop cuts must end as without the library: the whole of it, or an orderly end. In queue mode a reset is
    as good, because it says that something is missing."""
    ends, due = ({one["cut"] for one in each["transfers"] if "cut" in one} for each in (result, plain))
    if due and plan["mode"] == "queue":
        due = due | {"reset"}
    return [f"transfers that the stop cuts end by {end}, and without the library by {' or '.join(sorted(due)) or 'nothing: all are whole'}"
            for end in sorted(ends - due)]


def slower(result, plain):
    slowest, due = (max((one.get("seconds", 0) for one in each["transfers"]), default=0) for each in (result, plain))
    if slowest <= due * SLOWER + BESIDE:
        return []
    return [f"the slowest transfer took {slowest:.1f} s, and without the library {due:.1f} s"]
