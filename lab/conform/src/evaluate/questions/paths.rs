//! Sections 5.3.2, 6.4 and 7.7: what the equipment of a path and its medium do.

use super::{PLAIN, Question, each, every, plain};
use crate::evaluate::answers::{Answer, Axis, BREAKER, Lines, Measure, measured, points, reading, said, upper, used};
use crate::evaluate::cells::{CellRun, Cells, TRACES};
use crate::evaluate::verdict::Bound;
use crate::evaluate::watched::Side;
use crate::evaluate::{Effort, QuestionCell};
use crate::page::figure;

/// Shares of random losses.
const LOSSES: [f64; 5] = [0.0001, 0.001, 0.01, 0.03, 0.05];
/// Shares of packets that others overtake.
const DISORDERS: [f64; 5] = [0.001, 0.01, 0.05, 0.2, 0.5];
/// Tokens of a policer, Mbit/s, and its buckets in kB.
const TOKENS: f64 = 10.0;
const BUCKETS: [f64; 3] = [15.0, 125.0, 1250.0];
/// Links of radio: Wi-Fi with 40 ms behind it, jitter, bursts.
const RADIO: Axis = Axis::conditions(&[
    "Wi-Fi",
    "Wi-Fi, 2 competitors",
    "Wi-Fi, MCS 4 to 9 in turn",
    "50 Mbit/s, jitter of 5 ms",
    "50 Mbit/s, 1 % lost in tens",
]);
const CELLULAR: Axis = Axis::conditions(&["lte-like", "lte-driving", "3g-like"]);

pub(super) const QUESTIONS: &[Question] = &[
    Question {
        id: "cellular",
        asks: |name| format!("What does {name} do on cellular links?"),
        clauses: &["6.4"],
        setup: |_| {
            "three synthetic traces (lte-like, lte-driving, 3g-like), 20 ms each way, drop-tail of 2 MB".to_owned()
        },
        cells: |contestant, _| {
            every(contestant, &["cubic", "bbr"], CELLULAR, |one, number| {
                let name = TRACES[number as usize - 1].0;
                let path = format!(
                    "[down]\ntrace = \"{name}\"\ndelay = \"20ms\"\nqueue = \"droptail:bytes=2MB\"\n\n[up]\ndelay = \"20ms\"\n"
                );
                one.at(number, path)
            })
        },
        answer: cellular,
        ..PLAIN
    },
    Question {
        id: "radio",
        asks: |name| format!("What does {name} do over Wi-Fi, jitter and bursts of losses?"),
        clauses: &["6.4"],
        setup: |_| {
            "Wi-Fi (802.11ac, 80 MHz, two streams) with 40 ms behind it: alone, beside two competitors, with a modulation that wanders; \
             50 Mbit/s with exponential jitter of 5 ms in order, and with 1 % lost in bursts of ten; 30 s"
                .to_owned()
        },
        cells: |contestant, _| {
            every(contestant, &["cubic", "bbr"], RADIO, |one, number| {
                let wifi = |more: &str| {
                    let link = format!("wifi = {{ phy = \"vht80-2ss-mcs9\"{more} }}\ndelay = \"20ms\"\n");
                    format!("[down]\n{link}\n[up]\n{link}")
                };
                let path = match number {
                    1 => wifi(""),
                    2 => wifi(", competitors = 2"),
                    3 => wifi(", walk = { lowest = 4, highest = 9, hold = \"100ms\" }"),
                    4 => plain("jitter = { wifi = \"5ms\" }\n"),
                    _ => plain("loss = { gilbert = { enter = 0.00101, leave = 0.1, good = 0, bad = 1 } }\n"),
                };
                QuestionCell { seconds: Some(30), weight: 8, ..one.at(number, path) }
            })
        },
        answer: |name, cells, _| {
            let readings = [
                reading("6.4", "used of radio links, %", Some(100.0), Bound::MoreIsBetter(1.0), |run, _| used(run)),
                reading("6.4", "delay p95 on them, ms", None, Bound::LessIsBetter(1.0), |run, _| delay(run)),
            ];
            measured(name, cells, RADIO, &["itself", "cubic", "bbr"], &readings)
        },
        ..PLAIN
    },
    Question {
        id: "policer",
        asks: |name| format!("What does {name} do behind a policer?"),
        clauses: &["5.3.2", "7.2"],
        setup: |_| {
            "50 Mbit/s, 40 ms, drop-tail of 1 BDP behind a token bucket of 10 Mbit/s and 15 kB, 125 kB, 1.25 MB without a queue; 30 s, \
             losses in the second half"
                .to_owned()
        },
        cells: |contestant, _| {
            each(contestant, &["cubic", "bbr"], &BUCKETS, |one, kb| {
                let bucket = format!("policer = {{ rate = \"{TOKENS} Mbit/s\", burst = \"{kb}kB\" }}\n");
                one.at(kb, plain(&bucket)).watched(30)
            })
        },
        answer: |name, cells, _| {
            const AXIS: Axis = Axis::numbers("bucket, kB");
            let readings = [
                reading(
                    "5.3.2",
                    "delivered of a policer's rate, %",
                    Some(100.0),
                    Bound::like_or_more(1.0),
                    |run, _| Some(100.0 * run.watched.mbps(Side::Own, &(15.0..30.0)) / TOKENS),
                ),
                reading("5.3.2", "lost at a policer, %", None, Bound::MostBeside(2.0, 1.0), |run, _| {
                    run.watched.lost(Side::Own, &(15.0..30.0))
                }),
                BREAKER,
            ];
            measured(name, cells, AXIS, &["itself", "cubic", "bbr"], &readings)
        },
        ..PLAIN
    },
    Question {
        id: "loss",
        asks: |name| format!("How much of its path does {name} use when packets are lost at random?"),
        clauses: &["6.4", "5.3.1"],
        after: "RFC 2914: less is sent where more is lost",
        setup: |_| "50 Mbit/s, 40 ms, drop-tail of 1 BDP, 0.01 to 5 % random loss".to_owned(),
        cells: |contestant, _| {
            each(contestant, &["cubic", "bbr"], &LOSSES, |one, loss| {
                one.at(loss * 100.0, plain(&format!("loss = {loss}\n")))
            })
        },
        answer: |name, cells, _| {
            const AXIS: Axis = Axis::numbers("lost at random, %");
            let mut answer = disturbed(name, cells, AXIS, "of the packets lost", &LOSSES);
            let judged = points(cells, AXIS, ["itself", "cubic"], |run, _| used(run));
            let high = LOSSES[LOSSES.len() - 1] * 100.0;
            let most: Vec<_> = judged.iter().filter(|point| point.at == AXIS.at(high)).cloned().collect();
            let what = "used although 5 % are lost, %";
            answer.checks = vec![
                Measure { clause: "6.4", what: "used under loss, %", bound: Bound::MoreIsBetter(1.0) }.of(&judged),
                Measure { clause: "5.3.1", what, bound: Bound::LessIsBetter(1.0) }.of(&most),
            ];
            answer
        },
        ..PLAIN
    },
    Question {
        id: "reordering",
        asks: |name| format!("How much of its path does {name} use when packets overtake each other?"),
        clauses: &["7.7"],
        setup: |_| {
            "50 Mbit/s, 40 ms, drop-tail of 1 BDP; 0.1 to 50 % of the packets held back by one round trip".to_owned()
        },
        cells: |contestant, _| {
            each(contestant, &["cubic", "bbr"], &DISORDERS, |one, share| {
                one.at(share * 100.0, plain(&format!("reorder = {{ share = {share}, delay = \"40ms\" }}\n")))
            })
        },
        answer: |name, cells, _| {
            const AXIS: Axis = Axis::numbers("held back by 40 ms, %");
            let mut answer = disturbed(name, cells, AXIS, "of the packets held back", &DISORDERS);
            let judged = points(cells, AXIS, ["itself", "cubic"], |run, _| used(run));
            let what = "used while packets overtake, %";
            answer.checks = vec![Measure { clause: "7.7", what, bound: Bound::LeastBeside(1.0, 5.0) }.of(&judged)];
            answer
        },
        ..PLAIN
    },
];

fn delay(run: &CellRun) -> Option<f64> {
    run.record.delay_ms.map(|delay| delay.p95)
}

fn cellular(name: &str, cells: &Cells, _: Effort) -> Answer {
    let keys = ["itself", "cubic", "bbr"];
    let (rates, delays) = (Lines::of(cells, name, &keys, used), Lines::of(cells, name, &keys, delay));
    let both = |at: &str, line: usize| format!("{}{at}{}", rates.range(line, " %"), delays.range(line, " ms"));
    let text = format!(
        "On the three traces it used {}; CUBIC {}, BBR {}.",
        both(" at a 95th percentile of delay of ", 0),
        both(" at ", 1),
        both(" at ", 2),
    );
    let checks = vec![
        Measure { clause: "6.4", what: "used of cellular links, %", bound: Bound::MoreIsBetter(1.0) }.of(&points(
            cells,
            CELLULAR,
            ["itself", "cubic"],
            |run, _| used(run),
        )),
        Measure { clause: "6.4", what: "delay p95 there, ms", bound: Bound::LessIsBetter(1.0) }.of(&points(
            cells,
            CELLULAR,
            ["itself", "cubic"],
            |run, _| delay(run),
        )),
    ];
    let charts = vec![CELLULAR.chart("used, %", Some(100.0), rates), CELLULAR.chart("delay p95, ms", None, delays)];
    Answer { text, charts, checks }
}

/// What is used while something else than congestion disturbs.
fn disturbed(name: &str, cells: &Cells, axis: Axis, what: &str, of: &[f64]) -> Answer {
    let keys = ["itself", "cubic", "bbr"];
    let uses = Lines::of(cells, name, &keys, used);
    let both = |line: usize| format!("{} and {} %", said(uses.at(line, 0)), said(uses.at(line, of.len() - 1)));
    let (first, last) = (of[0] * 100.0, of[of.len() - 1] * 100.0);
    let text = format!(
        "With {} and {} % {what} it used {} of its path; {} {}, {} {}.",
        figure(first),
        figure(last),
        both(0),
        upper(keys[1]),
        both(1),
        upper(keys[2]),
        both(2)
    );
    Answer { text, charts: vec![axis.chart("used, %", Some(100.0), uses)], checks: Vec::new() }
}
