//! The questions: what is asked, on which paths it is run, and who answers.

use paceline_lab::contestant::Contestant;

use super::answers;
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
pub(super) const BUFFERS: [f64; 4] = [0.5, 1.0, 2.0, 4.0];
/// Shares of random losses.
pub(super) const LOSSES: [f64; 5] = [0.0001, 0.001, 0.01, 0.03, 0.05];
/// Shares of packets that others overtake.
pub(super) const DISORDERS: [f64; 5] = [0.001, 0.01, 0.05, 0.2, 0.5];
/// Flows of itself at once.
const ITSELF: [u32; 4] = [2, 4, 8, 16];
/// Round trips of the second flow over those of the first.
const TIMES: [f64; 4] = [1.0, 2.0, 4.0, 8.0];
/// Shares of losses of the medium beside which harm is measured.
pub(super) const MEDIUM: [f64; 3] = [0.001, 0.01, 0.05];
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

/// The contestant, and those whose figures stand beside its.
fn beside(contestant: &Contestant, names: &[&str]) -> Vec<(String, Contestant)> {
    let own = [("itself".to_owned(), contestant.clone())];
    own.into_iter().chain(names.iter().map(|name| ((*name).to_owned(), named(name)))).collect()
}

const STARTS: &str = "\n[[flows]]\nstart = \"0ms..200ms\"\n";

pub(super) const ALL: &[Question] = &[
    Question {
        id: "alone",
        asks: |name| format!("Does a lone {name} flow use its path, and how much does it keep waiting in the buffer?"),
        source: "RFC 9743 section 5.1.2: bufferbloat",
        setup: |_| "50 Mbit/s, 40 ms, drop-tail of 0.5 to 4 BDP; beside it CUBIC and BBR, each alone".to_owned(),
        cells: |contestant, _| {
            let cell = |(key, who): (String, Contestant)| {
                BUFFERS.map(|buffer| {
                    QuestionCell::new(&key, buffer, &who, path(50.0, 40.0, &format!("droptail:bdp={buffer}"), ""))
                })
            };
            beside(contestant, &["cubic", "bbr"]).into_iter().flat_map(cell).collect()
        },
        answer: answers::alone,
    },
    Question {
        id: "itself",
        asks: |name| format!("Do {name} flows share a link fairly with each other?"),
        source: "RFC 9743 section 5.1.4: fairness within the algorithm",
        setup: |_| "2 to 16 flows, 100 Mbit/s, 40 ms, drop-tail of 1 BDP, starts 1 s apart".to_owned(),
        cells: |contestant, _| {
            let flows =
                |count: u32| format!("\n[[flows]]\ncount = {count}\nstagger = \"1s\"\nstart = \"0ms..200ms\"\n");
            let cell = |(key, who): (String, Contestant)| {
                ITSELF.map(|count| {
                    QuestionCell::new(&key, count.into(), &who, path(100.0, 40.0, "droptail:bdp=1", ""))
                        .with(flows(count))
                })
            };
            beside(contestant, &["cubic"]).into_iter().flat_map(cell).collect()
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
                BUFFERS.map(|buffer| {
                    let path = path(50.0, 40.0, &format!("droptail:bdp={buffer}"), "");
                    QuestionCell::new(rival, buffer, contestant, path).with(flows.clone())
                })
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
            let cell = |(key, who): (String, Contestant)| {
                TIMES.map(|times| {
                    let extra = 10_000.0 * (times - 1.0);
                    let flows = format!("{STARTS}\n[[flows]]\nstart = \"0ms..200ms\"\nextra_delay = \"{extra}us\"\n");
                    QuestionCell::new(&key, times, &who, path(50.0, 20.0, "droptail:bdp=2", "")).with(flows)
                })
            };
            beside(contestant, &["cubic"]).into_iter().flat_map(cell).collect()
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
        cells: |contestant, _| {
            let victim = "\n[[flows]]\ncontestant = \"cubic@tcp\"\nstart = \"0ms..200ms\"\n";
            let mut cells = Vec::new();
            for buffer in BUFFERS {
                let path = || path(50.0, 40.0, &format!("droptail:bdp={buffer}"), "");
                cells.push(QuestionCell::new("alone", buffer, &named("cubic"), path()));
                for (key, who) in beside(contestant, &["cubic"]) {
                    cells.push(QuestionCell::new(key, buffer, &who, path()).with(format!("{victim}{STARTS}")));
                }
            }
            cells
        },
        answer: answers::harm,
    },
    Question {
        id: "harm-loss",
        asks: |name| {
            format!("Does {name} harm a CUBIC flow more than another CUBIC flow would, where the medium loses packets?")
        },
        source: "RFC 9743 sections 5.2 and 6.4: harm, wireless paths",
        setup: |_| "as harm, with a drop-tail of 1 BDP and 0.1 to 5 % random loss".to_owned(),
        cells: |contestant, _| {
            let victim = "\n[[flows]]\ncontestant = \"cubic@tcp\"\nstart = \"0ms..200ms\"\n";
            let mut cells = Vec::new();
            for loss in MEDIUM {
                let path = || path(50.0, 40.0, "droptail:bdp=1", &format!("loss = {loss}\n"));
                cells.push(QuestionCell::new("alone", loss * 100.0, &named("cubic"), path()));
                for (key, who) in beside(contestant, &["cubic"]) {
                    cells.push(QuestionCell::new(key, loss * 100.0, &who, path()).with(format!("{victim}{STARTS}")));
                }
            }
            cells
        },
        answer: answers::harm_by_loss,
    },
    Question {
        id: "convergence",
        asks: |name| format!("How long does a second {name} flow take to get its share?"),
        source: "RFC 9743 section 5.1.4; RFC 5166: convergence times",
        setup: |_| "50 Mbit/s, 40 ms, drop-tail of 1 and 2 BDP; the second flow starts after 15 s".to_owned(),
        cells: |contestant, _| {
            let flows = format!("{STARTS}\n[[flows]]\nstart = \"15s..16s\"\n");
            let cell = |(key, who): (String, Contestant)| {
                [1.0, 2.0].map(|buffer| {
                    let path = path(50.0, 40.0, &format!("droptail:bdp={buffer}"), "");
                    let cell = QuestionCell::new(&key, buffer, &who, path).with(flows.clone());
                    QuestionCell { seconds: Some(16 + CONVERGENCE_SECONDS + 2), series: true, ..cell }
                })
            };
            beside(contestant, &["cubic", "bbr"]).into_iter().flat_map(cell).collect()
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
            let cubic = format!("{STARTS}\n[[flows]]\ncontestant = \"cubic@tcp\"\nstart = \"0ms..200ms\"\n");
            let cell = |(key, who): (String, Contestant)| {
                let dual = || path(100.0, 20.0, "dualpi2", "");
                let step = path(100.0, 20.0, "step:threshold=1ms,limit=2MB", "");
                [
                    QuestionCell::new(&key, 1.0, &who, dual()),
                    QuestionCell::new(&key, 2.0, &who, dual()).with(cubic.clone()),
                    QuestionCell::new(&key, 3.0, &who, step),
                ]
            };
            beside(contestant, &["cubic", "prague"]).into_iter().flat_map(cell).collect()
        },
        answer: answers::l4s,
    },
    Question {
        id: "aqm",
        asks: |name| format!("What does {name} do where a queue drops before it is full?"),
        source: "RFC 9743 section 7.1: active queue management",
        setup: |_| "50 Mbit/s, 40 ms: CoDel (1), FQ-CoDel (2), PIE (3), alone and beside a CUBIC flow".to_owned(),
        cells: |contestant, _| {
            let cubic = format!("{STARTS}\n[[flows]]\ncontestant = \"cubic@tcp\"\nstart = \"0ms..200ms\"\n");
            let mut cells = Vec::new();
            for (key, who) in beside(contestant, &["cubic"]) {
                for (number, queue) in (1..).zip(QUEUES) {
                    let path = || path(50.0, 40.0, queue, "");
                    cells.push(QuestionCell::new(&key, number.into(), &who, path()));
                    cells.push(
                        QuestionCell::new(format!("{key} beside"), number.into(), &who, path()).with(cubic.clone()),
                    );
                }
            }
            cells
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
            let cell = |(key, who): (String, Contestant)| {
                [0, 1, 2].map(|index| {
                    let path = format!(
                        "[down]\n{}queue = \"droptail:bytes=250kB\"\n\n[up]\ndelay = \"20ms\"\n",
                        CHANGES[index]
                    );
                    let cell = QuestionCell::new(&key, index as f64 + 1.0, &who, path);
                    QuestionCell { seconds: Some(60), ..cell }
                })
            };
            beside(contestant, &["cubic", "bbr"]).into_iter().flat_map(cell).collect()
        },
        answer: answers::changes,
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
            let cell = |(key, who): (String, Contestant)| {
                [0, 1, 2].map(|index| {
                    let (rtt, loss) = FAR[index];
                    let path = path(20.0, rtt, "droptail:bdp=1", &format!("loss = {loss}\n"));
                    let cell = QuestionCell::new(&key, index as f64 + 1.0, &who, path);
                    QuestionCell { seconds: Some(60), ..cell }
                })
            };
            beside(contestant, &["cubic", "bbr"]).into_iter().flat_map(cell).collect()
        },
        answer: answers::far,
    },
    Question {
        id: "cellular",
        asks: |name| format!("What does {name} do on cellular links?"),
        source: "RFC 9743 section 6.4: wireless paths",
        setup: |_| {
            "three synthetic traces (lte-like, lte-driving, 3g-like), 20 ms each way, drop-tail of 2 MB".to_owned()
        },
        cells: |contestant, _| {
            let cell = |(key, who): (String, Contestant)| {
                let on = |(index, name): (usize, &str)| {
                    let path = format!(
                        "[down]\ntrace = \"{name}\"\ndelay = \"20ms\"\nqueue = \"droptail:bytes=2MB\"\n\n[up]\ndelay = \"20ms\"\n"
                    );
                    QuestionCell::new(&key, index as f64 + 1.0, &who, path)
                };
                ["lte-like.mahi", "lte-driving.mahi", "3g-like.mahi"]
                    .into_iter()
                    .enumerate()
                    .map(on)
                    .collect::<Vec<_>>()
            };
            beside(contestant, &["cubic", "bbr"]).into_iter().flat_map(cell).collect()
        },
        answer: answers::cellular,
    },
    Question {
        id: "loss",
        asks: |name| format!("How much of its path does {name} use when packets are lost at random?"),
        source: "RFC 9743 section 6.4: wireless paths",
        setup: |_| "50 Mbit/s, 40 ms, drop-tail of 1 BDP, 0.01 to 5 % random loss".to_owned(),
        cells: |contestant, _| {
            let cell = |(key, who): (String, Contestant)| {
                LOSSES.map(|loss| {
                    QuestionCell::new(
                        &key,
                        loss * 100.0,
                        &who,
                        path(50.0, 40.0, "droptail:bdp=1", &format!("loss = {loss}\n")),
                    )
                })
            };
            beside(contestant, &["cubic", "bbr"]).into_iter().flat_map(cell).collect()
        },
        answer: answers::loss,
    },
    Question {
        id: "reordering",
        asks: |name| format!("How much of its path does {name} use when packets overtake each other?"),
        source: "RFC 9743 section 7.7: extreme packet reordering",
        setup: |_| "50 Mbit/s, 40 ms, drop-tail of 1 BDP; 0.1 to 50 % of the packets held back by 8 ms".to_owned(),
        cells: |contestant, _| {
            let cell = |(key, who): (String, Contestant)| {
                DISORDERS.map(|share| {
                    let more = format!("reorder = {{ share = {share}, delay = \"8ms\" }}\n");
                    QuestionCell::new(&key, share * 100.0, &who, path(50.0, 40.0, "droptail:bdp=1", &more))
                })
            };
            beside(contestant, &["cubic", "bbr"]).into_iter().flat_map(cell).collect()
        },
        answer: answers::reordering,
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
            let cell = |(key, who): (String, Contestant)| {
                [1.0, 4.0].map(|buffer| {
                    let path = path(50.0, 40.0, &format!("droptail:bdp={buffer}"), "");
                    QuestionCell::new(&key, buffer, &who, path).with(format!("{STARTS}{short}"))
                })
            };
            beside(contestant, &["cubic", "bbr"]).into_iter().flat_map(cell).collect()
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
            let cell = |(key, who): (String, Contestant)| {
                let on = |count: u32| {
                    let stagger = 5_000_000 / count;
                    let flows =
                        format!("\n[[flows]]\ncount = {count}\nstagger = \"{stagger}us\"\nstart = \"0ms..200ms\"\n");
                    let cell = QuestionCell::new(&key, count.into(), &who, path(500.0, 40.0, "droptail:bdp=1", ""))
                        .with(flows);
                    QuestionCell { seconds: Some(20), weight: 10, ..cell }
                };
                MANY.into_iter().filter(|count| *count <= effort.flows).map(on).collect::<Vec<_>>()
            };
            beside(contestant, &["cubic"]).into_iter().flat_map(cell).collect()
        },
        answer: answers::many,
    },
];
