//! Sections 7.4, 7.5 and 7.11: long paths, thin ones, and data centres.

use super::{PLAIN, Question, every, path};
use crate::evaluate::QuestionCell;
use crate::evaluate::answers::{Axis, NEVER, lost, measured, percent, reading, used, waits};
use crate::evaluate::cells::own;
use crate::evaluate::verdict::Bound;
use crate::evaluate::watched::Side;

/// Satellites: round trip in ms, share of losses, and an object where there is one.
const SATELLITES: [(f64, f64, &str); 5] =
    [(250.0, 0.0, ""), (600.0, 0.0, ""), (600.0, 0.001, ""), (600.0, 0.0, "100kB"), (600.0, 0.0, "1MB")];
const FAR: Axis =
    Axis::conditions(&["250 ms", "600 ms", "600 ms, 0.1 % lost", "100 kB over 600 ms", "1 MB over 600 ms"]);
/// HyStart++ in the place of a long path's slow start.
const HYSTART: &str = "cubic:start=hystart++";

/// Thin links: kbit/s, round trip in ms, flows.
const LINKS: [(f64, f64, u32); 4] = [(64.0, 300.0, 1), (64.0, 300.0, 2), (20.0, 1000.0, 1), (20.0, 1000.0, 2)];
const THIN: Axis = Axis::conditions(&[
    "64 kbit/s, 300 ms",
    "64 kbit/s, 300 ms, two flows",
    "20 kbit/s, 1 s",
    "20 kbit/s, 1 s, two flows",
]);

/// A data centre: incast alone, and a long flow beside one of another.
const RACKS: [&str; 3] = ["", "dctcp", "cubic"];
const FABRIC: Axis = Axis::conditions(&["32 senders, 20 rounds", "beside DCTCP", "beside CUBIC"]);

pub(super) const QUESTIONS: &[Question] = &[
    Question {
        id: "far",
        asks: |name| format!("How much of a satellite's path does {name} use?"),
        clauses: &["7.5"],
        setup: |_| {
            "20 Mbit/s, drop-tail of 1 BDP, for a minute: bulk over 250 ms, 600 ms, 600 ms and 0.1 % random loss; objects of 100 kB and \
             1 MB; beside it CUBIC, BBR, and CUBIC with HyStart++"
                .to_owned()
        },
        cells: |contestant, _| {
            every(contestant, &["cubic", "bbr", HYSTART], FAR, |one, number| {
                let (rtt, loss, object) = SATELLITES[number as usize - 1];
                let path = path(20.0, rtt, "droptail:bdp=1", &format!("loss = {loss}\n"));
                let flows = if object.is_empty() {
                    String::new()
                } else {
                    format!("\n[[flows]]\nworkload = {{ bytes = \"{object}\" }}\n")
                };
                one.at(number, path).with(flows).watched(60)
            })
        },
        answer: |name, cells, _| {
            let readings = [
                reading("7.5", "used, %", Some(100.0), Bound::LeastBeside(1.0, 5.0), |run, x| {
                    used(run).filter(|_| x <= 3.0)
                }),
                reading("7.5", "until 80 % is used, s", None, Bound::LessIsBetter(0.5), |run, x| {
                    (x <= 3.0).then(|| run.watched.reaches(Side::Own, 16.0, &(0.0..60.0)).unwrap_or(NEVER))
                }),
                reading("7.5", "completion, ms", None, Bound::LessIsBetter(20.0), |run, _| {
                    own(run).find_map(|flow| flow.fct_ms).map(|fct| fct.p50)
                }),
                reading("7.5", "queue p95, ms", None, Bound::LessIsBetter(5.0), |run, x| {
                    waits(run).filter(|_| x <= 3.0)
                }),
            ];
            measured(name, cells, FAR, &["itself", "cubic", "bbr", HYSTART], &readings)
        },
        ..PLAIN
    },
    Question {
        id: "thin",
        asks: |name| format!("What does {name} do on links of constrained nodes?"),
        clauses: &["7.4"],
        setup: |_| {
            "64 kbit/s over 300 ms and 20 kbit/s over 1 s, drop-tail of 8 packets of 512 bytes of payload, one and two flows, two minutes".to_owned()
        },
        unasked: "what an acknowledgement costs, which the benchmarks count in instructions",
        cells: |contestant, _| {
            every(contestant, &["cubic", "reno"], THIN, |one, number| {
                let (kbps, rtt, count) = LINKS[number as usize - 1];
                let flows = format!("\n[[flows]]\ncount = {count}\nmss = 512\nstart = \"0ms..200ms\"\n");
                one.at(number, path(kbps / 1e3, rtt, "droptail:packets=8", "")).with(flows).watched(120)
            })
        },
        answer: |name, cells, _| {
            let readings = [
                reading("7.4", "goodput over the rate, %", Some(100.0), Bound::Least(70.0), |run, x| {
                    let (kbps, ..) = *LINKS.get(x as usize - 1)?;
                    Some(100.0 * run.record.goodput_mbps? * 1e3 / kbps)
                }),
                reading("7.4", "sent twice, %", None, Bound::MostBeside(2.0, 1.0), |run, _| {
                    let packets: u64 = run.record.flows.iter().map(|flow| flow.packets).sum();
                    Some(100.0 * run.record.retransmits? as f64 / packets.max(1) as f64)
                }),
                reading("7.4", "acknowledgements for a packet", None, Bound::LessIsBetter(0.1), |run, _| {
                    let all = run.watched.sum(Side::Own, &(0.0..120.0));
                    Some(all.acks as f64 / all.arrived.max(1) as f64)
                }),
                reading("7.4", "delay p95, ms", None, Bound::LessIsBetter(50.0), |run, _| {
                    run.record.delay_ms.map(|delay| delay.p95)
                }),
                reading("7.4", "Jain's index of two", Some(1.0), Bound::MoreIsBetter(0.05), |run, _| run.record.jain),
            ];
            measured(name, cells, THIN, &["itself", "cubic", "reno"], &readings)
        },
        ..PLAIN
    },
    Question {
        id: "fabric",
        asks: |name| format!("What does {name} do in a data centre, and whom does it live with there?"),
        clauses: &["7.11"],
        setup: |_| {
            "10 Gbit/s, 0.1 ms, marks from 65 packets on, 1 MB, a second, one run: 20 rounds of 32 senders with 64 kB each at once; \
             a long flow beside one of DCTCP, and of CUBIC"
                .to_owned()
        },
        cells: |contestant, _| {
            every(contestant, &["cubic", "dctcp"], FABRIC, |one, number| {
                let path = path(10_000.0, 0.1, "step:threshold=65packets,limit=1MB", "");
                let round = |turn: u32| {
                    let start = 5 + 40 * turn;
                    format!("\n[[flows]]\ncount = 32\nstart = \"{start}ms\"\nworkload = {{ bytes = \"64kB\" }}\n")
                };
                let flows: String = match RACKS[number as usize - 1] {
                    "" => (0..20).map(round).collect(),
                    rival => format!("\n[[flows]]\n\n[[flows]]\ncontestant = \"{rival}@tcp\"\n"),
                };
                let cell = one.at(number, path).with(flows);
                QuestionCell { runs: Some(1), seconds: Some(1), weight: 100, ..cell }
            })
        },
        answer: |name, cells, _| {
            let readings = [
                reading("7.11", "completion p99, ms", None, Bound::LessIsBetter(0.1), |run, x| {
                    let all = run.record.flows.iter().filter_map(|flow| flow.fct_ms).map(|fct| fct.max);
                    crate::trajectory::quantile(all.collect(), 0.99).filter(|_| x < 2.0)
                }),
                reading("7.11", "lost, %", None, Bound::LessIsBetter(1.0), |run, _| lost(run)),
                reading("7.11", "queue p99, ms", None, Bound::LessIsBetter(0.05), |run, _| {
                    run.record.queue_ms.map(|queue| queue.p99)
                }),
                reading("7.11", "share away from half, %", None, Bound::LessIsBetter(20.0), |run, x| {
                    percent(run).map(|share| (share - 50.0).abs()).filter(|_| x >= 2.0)
                }),
            ];
            measured(name, cells, FABRIC, &["itself", "cubic", "dctcp"], &readings)
        },
        ..PLAIN
    },
];
