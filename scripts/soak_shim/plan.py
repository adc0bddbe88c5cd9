"""What a round does: drawn from a seed, or fixed. A plan is plain data, so that it can be passed on and kept."""
import math
import random

from . import kinds

MODES = ("plain", "auto", "queue", "inline")
# Shares of the rounds' volume, and sizes at which something begins or ends: nothing, one byte, a packet, TCP's first ten, a pipe.
EDGES = (0, 1, 1448, 14480, 14481, 65535, 65536, 65537)
QUEUES = ("droptail:2MB", "droptail:2MB", "droptail:300kB", "droptail:1bdp", "codel", "pie")
# How often a round has losses, and how many.
LOSSY, LOSS = 0.25, 0.005
# Seconds that a round is meant to take. More than the library's linger time, within which slow transfers once had to end.
LEAST, MOST = 5, 60
# Of what is meant: what a busy machine, losses and controllers that take turns may cost. Then it is a hang.
PATIENCE = 6
PACKET_BITS = 1448 * 8
# Seconds from one client's start to the next one's in the fixed check. All at once would overflow the listening queue of some
# servers (vsftpd's is 32), and who waits there for a greeting waits for ever.
APART = 0.05


def order(names, seed):
    """Every program once, then again in another order, without end."""
    number = 0
    while True:
        names = sorted(names)
        random.Random(f"{seed} {number}").shuffle(names)
        yield from names
        number += 1


def drawn(program, seed, number, kind=None):
    """The random round of a program. Where it cannot be of the kind that is asked for, it is a usual one."""
    draw = random.Random(f"{seed} {number} {program.name}")
    possible = kinds.fit(program)
    shares = [share for share, name in zip(kinds.SHARES, kinds.KINDS) if name in possible]
    of_itself = draw.choices(possible, shares)[0]
    kind = of_itself if kind is None else kind if kind in possible else "usual"
    mode = draw.choice(MODES[1:])
    rate, delay = spread(draw, 1.5, 50), draw.uniform(5, 60)
    lossy, queue = draw.random() < LOSSY, draw.choice(QUEUES)
    count, seconds = round(spread(draw, 1, program.clients)), draw.uniform(LEAST, MOST)
    # Mathis et al. (1997): what a flow gets under random loss.
    attained = min(rate, count * PACKET_BITS / (2e3 * delay) * math.sqrt(1.5 / LOSS)) if lossy else rate
    share = attained * 125_000 * seconds / count
    sizes = [share, share * draw.uniform(0.05, 0.5), draw.uniform(1, 100_000), draw.choice(EDGES)][:program.files]
    sizes = [min(int(size), program.largest) for size in sizes]
    clients = [client(draw, program, sizes, share, delay) for _ in range(count)]
    if count > 1 and draw.random() < 0.3:
        clients[-1]["behaviour"]["leave"] = round(draw.uniform(0, 0.9), 2)
    path = {"rate": f"{rate:.2f}Mbit/s", "delay": f"{delay:.1f}ms", "queue": queue, "seed": draw.randrange(1 << 31)}
    if lossy:
        path["loss"] = LOSS
    plan = {"program": program.name, "mode": mode, "seed": seed, "round": number, "kind": kind, "path": path, "files": sizes,
            "phases": [clients], "timeout": 180 + PATIENCE * (seconds + MOST), "also_plain": draw.random() < 1 / 8}
    if change := kinds.KINDS[kind]:
        change(draw, program, plan)
    return plan


def spread(draw, low, high):
    """As many between 1 and 2 as between 10 and 20."""
    return math.exp(draw.uniform(math.log(low), math.log(high)))


def client(draw, program, sizes, share, delay):
    transfers, volume = [], 0
    while not transfers or (volume < 0.7 * share and len(transfers) < 20 and program.files > 1):
        file = draw.choices(range(len(sizes)), (3, 3, 2, 2)[:len(sizes)])[0]
        way = program.ways[0] if len(program.ways) == 1 else draw.choices(program.ways, (7, 3))[0]
        transfers.append([way, file])
        volume += sizes[file]
    behaviour, kind = {}, draw.random()
    if kind < 0.15:
        behaviour["pace"] = int(max(volume / draw.uniform(5, 30), 20_000))
    elif kind < 0.35:
        behaviour["stall"] = [round(draw.uniform(0, 0.9), 2), round(draw.uniform(2, 8), 1)]
    elif kind < 0.5:
        # Not so small that one window a round trip takes longer than 30 s for everything.
        behaviour["buffer"] = int(max(draw.choice((2048, 8192, 32_768)), volume * delay * 2e-3 / 30))
    return {"keep": program.keep and draw.random() < 0.6, "start": round(draw.uniform(0, 2), 2), "behaviour": behaviour,
            "transfers": transfers}


def fixed(program, mode, seed, check):
    """This many bytes each way, first down and then up, spread over clients that begin one shortly after the other."""
    count = min(check.clients, program.clients)
    share = check.megabytes * 1_000_000 / count
    pieces = math.ceil(share / program.largest)
    sizes = [int(share / pieces)] * min(2, program.files)
    phases = [[{"keep": program.keep, "start": number * APART, "behaviour": {}, "transfers": [[way, number % len(sizes)]] * pieces}
               for number in range(count)] for way in program.ways if way in check.ways]
    path = {"rate": f"{check.rate:g}Mbit/s", "delay": f"{check.delay:g}ms", "queue": check.queue, "seed": 1}
    seconds = check.megabytes * 8 / check.rate
    return {"program": program.name, "mode": mode, "seed": seed, "round": 0, "kind": "usual", "path": path, "files": sizes, "phases": phases,
            "timeout": 180 + PATIENCE * seconds, "also_plain": False}
