//! The questions: what is asked, on which paths it is run, and who answers.

use paceline_lab::contestant::Contestant;

use super::answers;
use super::cells::TRACES;
use super::{AnswerChart, Cells, Effort, QuestionCell};

/// A question.
pub(super) struct Question {
    pub(super) id: &'static str,
    pub(super) asks: fn(&str) -> String,
    pub(super) source: &'static str,
    pub(super) setup: fn(Effort) -> String,
    pub(super) cells: fn(&Contestant, Effort) -> Vec<QuestionCell>,
    pub(super) answer: fn(&str, &Cells, Effort) -> (String, Vec<AnswerChart>),
}

/// What RFC 9743 wants and no question here asks: clause, and what it is about.
pub(super) const NOT_ASKED: [(&str, &str); 11] = [
    ("3, 4, 5.3", "experience, scope, deployment, deviations from the principles: matters of words"),
    ("5.1.1", "congestion collapse: what is sent while nearly everything is lost"),
    ("5.2.2", "real-time traffic beside it"),
    ("6.2", "tunnels that hide marks"),
    ("7.2", "circuit breakers"),
    ("7.4", "constrained nodes"),
    ("7.6", "misbehaving receivers, routers and attackers"),
    ("7.8", "sudden crowds of other flows"),
    ("7.10", "several paths at once"),
    ("7.11", "data centres"),
    ("8", "security and privacy"),
];

/// Those it must live with.
pub(super) const RIVALS: [&str; 3] = ["reno", "cubic", "bbr"];
/// Buffers in BDP.
const BUFFERS: [f64; 4] = [0.5, 1.0, 2.0, 4.0];
/// Shares of random losses.
const LOSSES: [f64; 5] = [0.0001, 0.001, 0.01, 0.03, 0.05];
/// Shares of packets that others overtake.
const DISORDERS: [f64; 5] = [0.001, 0.01, 0.05, 0.2, 0.5];
/// Flows of itself at once.
const ITSELF: [u32; 4] = [2, 4, 8, 16];
/// Round trips of the second flow over those of the first.
const TIMES: [f64; 4] = [1.0, 2.0, 4.0, 8.0];
/// Shares of losses of the medium beside which harm is measured.
const MEDIUM: [f64; 3] = [0.001, 0.01, 0.05];
/// Seconds that the second flow of `convergence` has at least to come to its share and keep it.
pub(super) const CONVERGENCE_SECONDS: u32 = 57;
/// Queues with an AQM for everybody, each a number of the figure.
pub(super) const QUEUES: [&str; 3] = ["codel", "fq_codel", "pie"];
/// How a path changes after 20 and after 40 s of a minute, each a number of the figure: rate, delay, an outage.
const CHANGES: [&str; 3] = [
    "schedule = [[\"0s\", \"50 Mbit/s\"], [\"20s\", \"10 Mbit/s\"], [\"40s\", \"50 Mbit/s\"]]\ndelay = \"20ms\"\n",
    "rate = \"50 Mbit/s\"\ndelay_schedule = [[\"0s\", \"20ms\"], [\"20s\", \"100ms\"], [\"40s\", \"20ms\"]]\n",
    "rate = \"50 Mbit/s\"\ndelay = \"20ms\"\noutages = [[\"20s\", \"23s\"]]\n",
];
/// Satellites, each a number of the figure: round trip in ms and share of losses.
const FAR: [(f64, f64); 3] = [(250.0, 0.0), (600.0, 0.0), (600.0, 0.001)];
/// Flows of a run, at most.
const MANY: [u32; 6] = [1, 10, 50, 100, 500, 1000];

/// A link with a round trip and a queue; `more` stands under `[down]`.
fn path(mbps: f64, rtt_ms: f64, queue: &str, more: &str) -> String {
    let delay = rtt_ms * 500.0;
    format!(
        "[down]\nrate = \"{mbps} Mbit/s\"\ndelay = \"{delay}us\"\nqueue = \"{queue}\"\n{more}\n[up]\ndelay = \"{delay}us\"\n"
    )
}

fn named(name: &str) -> Contestant {
    format!("{name}@tcp").parse().unwrap_or_else(|error| unreachable!("{name} comes with paceline: {error}"))
}

/// A link of 50 Mbit/s and 40 ms with a buffer of this many BDP.
fn buffered(bdp: f64) -> String {
    path(50.0, 40.0, &format!("droptail:bdp={bdp}"), "")
}

/// The same with a buffer of one BDP, and with more under `[down]`.
fn plain(more: &str) -> String {
    path(50.0, 40.0, "droptail:bdp=1", more)
}

/// The contestant, or one whose figures stand beside its.
struct Compared {
    key: &'static str,
    who: Contestant,
}

impl Compared {
    /// One bulk flow of it on this path.
    fn at(&self, x: impl Into<f64>, path: String) -> QuestionCell {
        QuestionCell::new(self.key, x.into(), &self.who, path)
    }
}

/// Cells of the contestant and of those whose figures stand beside its, at each of these values.
fn each<T: Copy>(
    contestant: &Contestant,
    beside: &[&'static str],
    values: &[T],
    cell: impl Fn(&Compared, T) -> QuestionCell,
) -> Vec<QuestionCell> {
    let own = Compared { key: "itself", who: contestant.clone() };
    let others = beside.iter().map(|key| Compared { key, who: named(key) });
    let all = std::iter::once(own).chain(others);
    all.flat_map(|one| values.iter().map(|value| cell(&one, *value)).collect::<Vec<_>>()).collect()
}

/// Cells of a CUBIC flow alone, beside the contestant, and beside another CUBIC flow, at each of these values.
fn harm<T: Copy>(
    contestant: &Contestant,
    values: &[T],
    x: fn(T) -> f64,
    path: impl Fn(T) -> String,
) -> Vec<QuestionCell> {
    let alone = values.iter().map(|value| QuestionCell::new("alone", x(*value), &named("cubic"), path(*value)));
    let beside = |one: &Compared, value| one.at(x(value), path(value)).with(format!("{CUBIC}{STARTS}"));
    alone.chain(each(contestant, &["cubic"], values, beside)).collect()
}

const STARTS: &str = "\n[[flows]]\nstart = \"0ms..200ms\"\n";
const CUBIC: &str = "\n[[flows]]\ncontestant = \"cubic@tcp\"\nstart = \"0ms..200ms\"\n";
/// Of the figures whose axis has a number for each of three conditions.
const THREE: [u32; 3] = [1, 2, 3];

pub(super) const ALL: &[Question] = &[
    Question {
        id: "alone",
        asks: |name| format!("Does a lone {name} flow use its path, and how much does it keep waiting in the buffer?"),
        source: "RFC 9743 section 5.1.2: bufferbloat",
        setup: |_| "50 Mbit/s, 40 ms, drop-tail of 0.5 to 4 BDP; beside it CUBIC and BBR, each alone".to_owned(),
        cells: |contestant, _| {
            each(contestant, &["cubic", "bbr"], &BUFFERS, |one, buffer| one.at(buffer, buffered(buffer)))
        },
        answer: answers::alone,
    },
    Question {
        id: "itself",
        asks: |name| format!("Do {name} flows share a link fairly with each other?"),
        source: "RFC 9743 section 5.1.4: fairness within the algorithm",
        setup: |_| "2 to 16 flows, 100 Mbit/s, 40 ms, drop-tail of 1 BDP, starts 1 s apart".to_owned(),
        cells: |contestant, _| {
            each(contestant, &["cubic"], &ITSELF, |one, count| {
                let flows = format!("\n[[flows]]\ncount = {count}\nstagger = \"1s\"\nstart = \"0ms..200ms\"\n");
                one.at(count, path(100.0, 40.0, "droptail:bdp=1", "")).with(flows)
            })
        },
        answer: answers::itself,
    },
    Question {
        id: "rivals",
        asks: |name| format!("What does {name} get beside Reno, CUBIC and BBR?"),
        source: "RFC 9743 section 5.2.1: existing general-purpose congestion control",
        setup: |_| "one flow each, 50 Mbit/s, 40 ms, drop-tail of 0.5 to 4 BDP".to_owned(),
        cells: |contestant, _| {
            let cell = |rival: &'static str| {
                let flows = format!("{STARTS}\n[[flows]]\ncontestant = \"{rival}@tcp\"\nstart = \"0ms..200ms\"\n");
                BUFFERS.map(|buffer| QuestionCell::new(rival, buffer, contestant, buffered(buffer)).with(flows.clone()))
            };
            RIVALS.into_iter().flat_map(cell).collect()
        },
        answer: answers::rivals,
    },
    Question {
        id: "rtt",
        asks: |name| format!("Of two {name} flows, what does the one with the longer round trip get?"),
        source: "RFC 9743 section 5.1.4: fairness within the algorithm",
        setup: |_| "two flows, 50 Mbit/s, 20 ms, and 1 to 8 times that, drop-tail of 2 BDP of the shorter".to_owned(),
        cells: |contestant, _| {
            each(contestant, &["cubic"], &TIMES, |one, times| {
                let extra = 10_000.0 * (times - 1.0);
                let flows = format!("{STARTS}\n[[flows]]\nstart = \"0ms..200ms\"\nextra_delay = \"{extra}us\"\n");
                one.at(times, path(50.0, 20.0, "droptail:bdp=2", "")).with(flows)
            })
        },
        answer: answers::rtt,
    },
    Question {
        id: "harm",
        asks: |name| format!("Does {name} harm a CUBIC flow more than another CUBIC flow would?"),
        source: "RFC 9743 section 5.2: harm; Ware et al., Beyond Jain's Fairness Index, HotNets 2019",
        setup: |_| {
            "a CUBIC flow alone, beside the contestant, and beside CUBIC; 50 Mbit/s, 40 ms, drop-tail of 0.5 to 4 BDP"
                .to_owned()
        },
        cells: |contestant, _| harm(contestant, &BUFFERS, |buffer| buffer, buffered),
        answer: |name, cells, _| answers::harms(name, cells, "buffer, BDP", &BUFFERS, "buffers"),
    },
    Question {
        id: "harm-loss",
        asks: |name| {
            format!("Does {name} harm a CUBIC flow more than another CUBIC flow would, where the medium loses packets?")
        },
        source: "RFC 9743 sections 5.2 and 6.4: harm, wireless paths",
        setup: |_| "as harm, with a drop-tail of 1 BDP and 0.1 to 5 % random loss".to_owned(),
        cells: |contestant, _| {
            harm(contestant, &MEDIUM, |loss| loss * 100.0, |loss| plain(&format!("loss = {loss}\n")))
        },
        answer: |name, cells, _| {
            answers::harms(name, cells, "lost at random, %", &MEDIUM.map(|share| share * 100.0), "shares of losses")
        },
    },
    Question {
        id: "convergence",
        asks: |name| format!("How long does a second {name} flow take to get its share?"),
        source: "RFC 9743 section 5.1.4; RFC 5166: convergence times",
        setup: |_| "50 Mbit/s, 40 ms, drop-tail of 1 and 2 BDP; the second flow starts after 15 s".to_owned(),
        cells: |contestant, _| {
            let flows = format!("{STARTS}\n[[flows]]\nstart = \"15s..16s\"\n");
            each(contestant, &["cubic", "bbr"], &[1.0, 2.0], |one, buffer| QuestionCell {
                seconds: Some(16 + CONVERGENCE_SECONDS + 2),
                series: true,
                ..one.at(buffer, buffered(buffer)).with(flows.clone())
            })
        },
        answer: answers::convergence,
    },
    Question {
        id: "l4s",
        asks: |name| format!("What does {name} do at an L4S bottleneck?"),
        source: "RFC 9743 section 7.1: active queue management; RFC 9330, RFC 9332",
        setup: |_| {
            "100 Mbit/s, 20 ms: DualPI2 alone (1) and beside CUBIC (2), marks from 1 ms of queue on (3)".to_owned()
        },
        cells: |contestant, _| {
            let beside_cubic = format!("{STARTS}{CUBIC}");
            let conditions =
                [("dualpi2", ""), ("dualpi2", beside_cubic.as_str()), ("step:threshold=1ms,limit=2MB", "")];
            each(contestant, &["cubic", "prague"], &THREE, |one, number| {
                let (queue, flows) = conditions[number as usize - 1];
                one.at(number, path(100.0, 20.0, queue, "")).with(flows)
            })
        },
        answer: answers::l4s,
    },
    Question {
        id: "aqm",
        asks: |name| format!("What does {name} do where a queue drops before it is full?"),
        source: "RFC 9743 section 7.1: active queue management",
        setup: |_| "50 Mbit/s, 40 ms: CoDel (1), FQ-CoDel (2), PIE (3), alone and beside a CUBIC flow".to_owned(),
        cells: |contestant, _| {
            let alone = each(contestant, &["cubic"], &THREE, |one, number| {
                one.at(number, path(50.0, 40.0, QUEUES[number as usize - 1], ""))
            });
            let beside = alone.iter().map(|cell| {
                let key = format!("{} beside", cell.key);
                QuestionCell { key, ..cell.clone() }.with(format!("{STARTS}{CUBIC}"))
            });
            alone.iter().cloned().chain(beside).collect()
        },
        answer: answers::aqm,
    },
    Question {
        id: "changes",
        asks: |name| format!("How much of a path that changes does {name} use?"),
        source: "RFC 9743 sections 7.3, 7.8 and 7.9: varying delay, transients, sudden path changes",
        setup: |_| {
            "50 Mbit/s, 40 ms, drop-tail of 250 kB, for a minute: 10 Mbit/s from 20 to 40 s (1), 120 ms from 20 to 40 s (2), an outage from 20 to 23 s (3)".to_owned()
        },
        cells: |contestant, _| {
            each(contestant, &["cubic", "bbr"], &THREE, |one, number| {
                let change = CHANGES[number as usize - 1];
                let path = format!("[down]\n{change}queue = \"droptail:bytes=250kB\"\n\n[up]\ndelay = \"20ms\"\n");
                QuestionCell { seconds: Some(60), ..one.at(number, path) }
            })
        },
        answer: |name, cells, _| {
            answers::on_paths(
                name,
                cells,
                "1: rate; 2: delay; 3: outage",
                "With another rate, another delay and an outage for a while",
            )
        },
    },
    Question {
        id: "far",
        asks: |name| format!("How much of a satellite's path does {name} use?"),
        source: "RFC 9743 section 7.5: high delay",
        setup: |_| {
            "20 Mbit/s, drop-tail of 1 BDP, for a minute: 250 ms (1), 600 ms (2), 600 ms and 0.1 % random loss (3)"
                .to_owned()
        },
        cells: |contestant, _| {
            each(contestant, &["cubic", "bbr"], &THREE, |one, number| {
                let (rtt, loss) = FAR[number as usize - 1];
                let path = path(20.0, rtt, "droptail:bdp=1", &format!("loss = {loss}\n"));
                QuestionCell { seconds: Some(60), ..one.at(number, path) }
            })
        },
        answer: |name, cells, _| {
            answers::on_paths(
                name,
                cells,
                "1: 250 ms; 2: 600 ms; 3: 600 ms, 0.1 % lost",
                "With 250 ms, 600 ms, and 600 ms with losses",
            )
        },
    },
    Question {
        id: "cellular",
        asks: |name| format!("What does {name} do on cellular links?"),
        source: "RFC 9743 section 6.4: wireless paths",
        setup: |_| {
            "three synthetic traces (lte-like, lte-driving, 3g-like), 20 ms each way, drop-tail of 2 MB".to_owned()
        },
        cells: |contestant, _| {
            each(contestant, &["cubic", "bbr"], &THREE, |one, number| {
                let name = TRACES[number as usize - 1].0;
                let path = format!(
                    "[down]\ntrace = \"{name}\"\ndelay = \"20ms\"\nqueue = \"droptail:bytes=2MB\"\n\n[up]\ndelay = \"20ms\"\n"
                );
                one.at(number, path)
            })
        },
        answer: answers::cellular,
    },
    Question {
        id: "loss",
        asks: |name| format!("How much of its path does {name} use when packets are lost at random?"),
        source: "RFC 9743 section 6.4: wireless paths",
        setup: |_| "50 Mbit/s, 40 ms, drop-tail of 1 BDP, 0.01 to 5 % random loss".to_owned(),
        cells: |contestant, _| {
            each(contestant, &["cubic", "bbr"], &LOSSES, |one, loss| {
                one.at(loss * 100.0, plain(&format!("loss = {loss}\n")))
            })
        },
        answer: |name, cells, _| answers::disturbed(name, cells, "lost at random, %", "of the packets lost", &LOSSES),
    },
    Question {
        id: "reordering",
        asks: |name| format!("How much of its path does {name} use when packets overtake each other?"),
        source: "RFC 9743 section 7.7: extreme packet reordering",
        setup: |_| "50 Mbit/s, 40 ms, drop-tail of 1 BDP; 0.1 to 50 % of the packets held back by 8 ms".to_owned(),
        cells: |contestant, _| {
            each(contestant, &["cubic", "bbr"], &DISORDERS, |one, share| {
                one.at(share * 100.0, plain(&format!("reorder = {{ share = {share}, delay = \"8ms\" }}\n")))
            })
        },
        answer: |name, cells, _| {
            answers::disturbed(name, cells, "held back by 8 ms, %", "of the packets held back", &DISORDERS)
        },
    },
    Question {
        id: "short",
        asks: |name| format!("How long do short flows take beside a long {name} flow?"),
        source: "RFC 9743 sections 5.1.5 and 5.2.3: short flows, short and long flows",
        setup: |_| {
            "CUBIC flows of 4 kB to 4 MB (Pareto, 5 a second) beside one long flow; 50 Mbit/s, 40 ms, drop-tail of 1 and 4 BDP".to_owned()
        },
        cells: |contestant, _| {
            let short = "\n[[flows]]\ncontestant = \"cubic@tcp\"\nstart = \"2s\"\n\
                         workload = { poisson = { mean_gap = \"200ms\", alpha = 1.2, min = \"4kB\", max = \"4MB\" } }\n";
            each(contestant, &["cubic", "bbr"], &[1.0, 4.0], |one, buffer| {
                one.at(buffer, buffered(buffer)).with(format!("{STARTS}{short}"))
            })
        },
        answer: answers::beside_short,
    },
    Question {
        id: "many",
        asks: |name| format!("What becomes of a link with up to a thousand {name} flows?"),
        source: "RFC 9743 sections 5.1.3 and 5.1.4: high packet loss, fairness",
        setup: |effort| {
            format!("1 to {} flows, 500 Mbit/s, 40 ms, drop-tail of 1 BDP, starts within 5 s", effort.flows)
        },
        cells: |contestant, effort| {
            let counts: Vec<u32> = MANY.into_iter().filter(|count| *count <= effort.flows).collect();
            each(contestant, &["cubic"], &counts, |one, count| {
                let stagger = 5_000_000 / count;
                let flows =
                    format!("\n[[flows]]\ncount = {count}\nstagger = \"{stagger}us\"\nstart = \"0ms..200ms\"\n");
                let cell = one.at(count, path(500.0, 40.0, "droptail:bdp=1", "")).with(flows);
                QuestionCell { seconds: Some(20), weight: 10, ..cell }
            })
        },
        answer: answers::many,
    },
];
