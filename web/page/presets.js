// Races that teach. Each has one sentence, and switches: what to change to see the lesson. Where a preset is a shipped scenario, its
// text is the file's.

const bloat = `# One flow fills the buffer of an access link.
name = "buffer-bloat"
title = "20 Mbit/s, 20 ms each way, a buffer of 8 BDP"
seconds = 30
runs = 3
contestants = ["cubic@tcp", "bbr@tcp"]

[down]
rate = "20 Mbit/s"
delay = "20ms"
queue = "droptail:bdp=8"

[up]
delay = "20ms"

[[flows]]
start = "0ms..100ms"
`;

const rtts = `# Two flows share a queue; the way of the second is 60 ms longer, there and back.
name = "two-rtts"
title = "Round trips of 20 and 80 ms over 40 Mbit/s, drop-tail of 1 BDP"
seconds = 30
runs = 3
contestants = ["cubic@tcp"]

[down]
rate = "40 Mbit/s"
delay = "10ms"
queue = "droptail:bdp=1"

[up]
delay = "10ms"

[[flows]]
start = "0ms..100ms"

[[flows]]
extra_delay = "30ms"
start = "0ms..100ms"
`;

const cellular = `# A cellular link whose capacity comes from a trace, and changes all the time.
name = "cellular-race"
title = "One flow over a cellular link, 20 ms each way, 2 MB drop-tail"
seconds = 30
runs = 3
contestants = ["cubic@tcp", "bbr@tcp", "copa@udp", "sprout@udp"]

[down]
trace = "traces/lte-like.mahi"
delay = "20ms"
queue = "droptail:bytes=2MB"

[up]
delay = "20ms"

[[flows]]
start = "0ms..100ms"
`;

const l4s = `# Prague beside CUBIC over an L4S bottleneck.
name = "l4s-race"
title = "Beside a CUBIC flow over DualPI2: 40 Mbit/s, 7.5 ms each way"
seconds = 20
runs = 3
contestants = ["prague@tcp"]

[down]
rate = "40 Mbit/s"
delay = "7500us"
queue = "dualpi2"

[up]
delay = "7500us"

[[flows]]

[[flows]]
contestant = "cubic@tcp"
start = "0ms..500ms"
`;

const radio = `# The second radio loses packets. Every hop writes what it sees of its queue into the packets, so that the sender learns which
# losses were the radio's.
name = "lossy-radio"
title = "Two access points, 20 Mbit/s, 5 % lost by the radio; hops report"
seconds = 20
runs = 3
contestants = ["cubic@tcp", "cubic-l1g@tcp"]

[links.radio1]
between = ["sta1", "ap1"]
rate = "100 Mbit/s"
delay = "2ms"
queue = "droptail:packets=300"

[links.wire]
between = ["ap1", "ap2"]
rate = "1 Gbit/s"
delay = "6ms"
queue = "droptail:packets=1000"

# The bottleneck.
[links.radio2]
between = ["ap2", "sta2"]
rate = "20 Mbit/s"
delay = "2ms"
queue = "droptail:packets=60"
loss = 0.05
back = { rate = "20 Mbit/s", delay = "2ms", queue = "droptail:packets=60" }

[telemetry]
profile = "C3"

[[flows]]
from = "sta1"
to = "sta2"
`;

const chirps = `# One flow starts on an idle link: how soon has it the link, and what queue does its start-up add?
name = "start-ups"
title = "One flow starts: 100 Mbit/s, 25 ms each way, drop-tail of 1 BDP"
seconds = 3
runs = 3
contestants = ["dctcp:start=slow@tcp", "dctcp:start=chirp@tcp"]

[down]
rate = "100 Mbit/s"
delay = "25ms"
queue = "droptail:bdp=1"

[up]
delay = "25ms"

[[flows]]
handshake = true
start = "0ms..100ms"
`;

/** `edits` are pairs of a place and its value; the first switch is on as the preset opens. */
export const presets = [
  {
    id: "bloat", name: "Buffer bloat", scenario: bloat,
    lesson: "CUBIC fills whatever buffer there is, and everything behind it waits; a managed queue takes the wait away.",
    switches: [["Drop-tail", [["down.queue", "droptail:bdp=8"]]], ["CoDel", [["down.queue", "codel"]]]],
  },
  {
    id: "rtts", name: "Two round trips", scenario: rtts,
    lesson: "Two flows share one queue: the one with the longer way gets less than half as much, unless each has a queue of its own.",
    switches: [["One queue", [["down.queue", "droptail:bdp=1"]]], ["A queue each", [["down.queue", "fq_codel"]]]],
  },
  {
    id: "cellular", name: "Cellular", scenario: cellular,
    lesson: "When capacity falls, what is in the buffer has to wait: controllers made for such links leave the buffer nearly empty.",
    switches: [["LTE", [["down.trace", "traces/lte-like.mahi"]]], ["Driving", [["down.trace", "traces/lte-driving.mahi"]]], ["3G", [["down.trace", "traces/3g-like.mahi"]]]],
  },
  {
    id: "l4s", name: "L4S", scenario: l4s,
    lesson: "With DualPI2 Prague keeps its delay near zero beside CUBIC, and both get a share; in a plain buffer both wait.",
    switches: [["DualPI2", [["down.queue", "dualpi2"]]], ["Drop-tail", [["down.queue", "droptail:bdp=2"]]]],
  },
  {
    id: "radio", name: "Lossy radio", scenario: radio,
    lesson: "CUBIC takes the radio's losses for a full queue and slows down; with telemetry it knows better, and keeps its rate.",
    switches: [["5 % lost", [["links.radio2.loss", 0.05]]], ["1 % lost", [["links.radio2.loss", 0.01]]], ["None lost", [["links.radio2.loss", 0]]]],
  },
  {
    id: "chirps", name: "Chirps", scenario: chirps,
    lesson: "Slow start fills the queue, and loses packets, before it knows the capacity; paced chirping measures it first, with almost no queue.",
    switches: [["100 Mbit/s", [["down.rate", "100 Mbit/s"]]], ["20 Mbit/s", [["down.rate", "20 Mbit/s"]]]],
  },
];
