//! Equal flows over one bottleneck share it, and flows of different round trips by a law.

use super::Group;
use super::bench::{BenchError, Dumbbell};
use crate::claim::{Claim, ClaimError, Expected};
use paceline_lab::contestant::Contestant;
use paceline_lab::stats::Median;

pub(super) const SECTION: &str = "Equal flows";
pub(super) const INTRO: &str = "\
    Two, four and eight flows of `reno`, `cubic`, `dctcp`, `bbr` and `copa:mode=default`, 100 Mbit/s, 20 ms, 120 s: Jain's index, 1 where shares\n\
    are equal. The floors are ours.\n\
    \n";

pub(super) const UNLIKE_SECTION: &str = "Flows of different round trips";
pub(super) const UNLIKE_INTRO: &str = "\
    Two flows over 100 Mbit/s, every second packet acknowledged, medians of 12 seeds, alone and beside Poisson packets of 10 Mbit/s, which end\n\
    phase effects (Floyd and Jacobson 1992). A row has the ratio of rates (95 % interval), that of round trips with queues, and the power of\n\
    the second that the first is, which must be within 0.2 of:\n\
    \n\
    - `reno`: 1 where both lose at one probability, 2 where both lose at one time (Lakshman and Madhow 1997);\n\
    - `cubic` from 60 ms on: 0.25 at one probability (RFC 9438, equation 5), 1 at one time;\n\
    - `cubic` from 20 ms on: up to the 2 of Reno, as which the nearer flow grows at times (RFC 9438, section 4.3);\n\
    - `dctcp`: 1 to 2 (Alizadeh et al., SIGMETRICS 2011).\n\
    \n\
    The ratio must not fall where that of round trips grows.\n\
    \n";
pub(super) const REASONS: &[&str] = &[PHASE];
const PHASE: &str =
    "phase effects, which a packet time of noise at the hosts does not end; not so beside other traffic";
const CONTESTANTS: &[(&str, &str, f64)] = &[
    ("reno@tcp", "droptail:bdp=1", 0.90),
    ("cubic@tcp", "droptail:bdp=1", 0.90),
    ("dctcp@tcp", "step:threshold=1ms,limit=2MB", 0.95),
    ("bbr@tcp", "droptail:bdp=2", 0.80),
    ("copa:mode=default@udp", "infinite", 0.95),
];

pub(super) fn groups() -> Result<Vec<Group>, ClaimError> {
    let equal = CONTESTANTS.iter().map(|(name, queue, floor)| {
        Group::new(format!("equal flows of {name}"), &[name], move |flows| jain(&flows[0], name, queue, *floor))
    });
    let unlike = UNLIKE.iter().map(|case| {
        let name = format!("{}@tcp", case.controller);
        Group::new(format!("{name} at different round trips"), &[&name], move |flows| unlike(&flows[0], case))
    });
    equal.chain(unlike).collect()
}

fn jain(flow: &Contestant, name: &str, queue: &str, floor: f64) -> Result<Vec<Claim>, BenchError> {
    let mut claims = Vec::new();
    for count in [2_u32, 4, 8] {
        let mut bench = Dumbbell::new(100.0, 20.0, queue).seconds(120);
        for index in 0..count {
            bench = bench.flow(flow, f64::from(index) * 0.5);
        }
        let run = bench.run()?;
        let shares: Vec<f64> = run.outcome.flows.iter().map(|flow| flow.wire_bytes_arrived as f64).collect();
        let index = paceline_lab::measure::jain(&shares);
        let claim = Claim::on(SECTION, format!("{count} {name}, {queue}"), format!("at least {floor}"));
        let claim = claim.by("our floor").expect(Expected::AtLeast(floor));
        claims.push(claim.measured(format!("{index:.3}"), &[index]));
    }
    Ok(claims)
}

/// Flows of different round trips: exponents of the ratio of round trips, queue included, within which the ratio of
/// rates has to be.
struct Unlike {
    controller: &'static str,
    queue: &'static str,
    /// Of the nearer flow.
    rtt_ms: f64,
    seconds: u64,
    /// Poisson packets beside the two, Mbit/s.
    background: f64,
    exponents: (f64, f64),
    source: &'static str,
    /// Why it may not hold.
    known: &'static str,
}

const RENO: Unlike = Unlike {
    controller: "reno",
    queue: "droptail:bdp=2",
    rtt_ms: 20.0,
    seconds: 240,
    background: 0.0,
    exponents: (1.0, 2.0),
    source: "1 where both lose at one probability, 2 where both lose at one time (Lakshman and Madhow 1997)",
    known: "",
};

/// Windows of several hundred packets, which grow by the cubic curve alone.
const CUBIC: Unlike = Unlike {
    controller: "cubic",
    rtt_ms: 60.0,
    seconds: 480,
    exponents: (0.25, 1.0),
    source: "0.25 where both lose at one probability (RFC 9438, equation 5), 1 where both lose at one time: windows then are equal",
    ..RENO
};

const CUBIC_AS_RENO: Unlike = Unlike {
    rtt_ms: RENO.rtt_ms,
    seconds: RENO.seconds,
    exponents: (0.25, 2.0),
    source: "from CUBIC's 0.25 to the 2 of Reno, as which the nearer flow grows at times (RFC 9438, section 4.3)",
    known: PHASE,
    ..CUBIC
};

const DCTCP: Unlike = Unlike {
    controller: "dctcp",
    queue: "step:threshold=2ms,limit=2MB",
    source: "between 1 and 2 (Alizadeh et al., SIGMETRICS 2011)",
    ..RENO
};

const UNLIKE: &[Unlike] = &[
    RENO,
    Unlike { background: BACKGROUND, ..RENO },
    CUBIC,
    Unlike { background: BACKGROUND, ..CUBIC },
    CUBIC_AS_RENO,
    Unlike { background: BACKGROUND, ..CUBIC_AS_RENO },
    DCTCP,
];

/// A tenth of the link: enough to end phase effects (Floyd and Jacobson 1992, section 3.5), and little beside the
/// flows.
const BACKGROUND: f64 = 10.0;

/// Round trips of the farther flow over those of the nearer. 2.23 is not a ratio of small numbers: phase effects show as a
/// difference between it and 2 or 3 (Floyd and Jacobson 1992).
const TIMES: [f64; 5] = [2.0, 2.23, 3.0, 4.0, 8.0];

/// By how much an exponent may be beyond its range: finite time, and probabilities that are the same only about.
const SLACK: f64 = 0.2;

/// Single runs differ by a tenth to a fifth: this many make the median sure to about as much as ratios differ.
const SEEDS: u64 = 12;

fn unlike(flow: &Contestant, case: &Unlike) -> Result<Vec<Claim>, BenchError> {
    let Unlike { controller, queue, rtt_ms, seconds, background, exponents: (low, high), source, known } = case;
    let beside = if *background > 0.0 { " beside Poisson packets" } else { "" };
    // The lower end of the interval of the largest ratio of rates yet.
    let mut floor = 1.0_f64;
    let mut claims = Vec::new();
    for times in TIMES {
        let mut figures = Vec::new();
        for seed in 1..=SEEDS {
            let mut bench = Dumbbell::new(100.0, *rtt_ms, queue).seconds(*seconds).seed(seed);
            bench = bench.far(flow, 0.0, 1.0).far(flow, 0.3, times);
            if *background > 0.0 {
                bench = bench.background(*background);
            }
            let run = bench.run()?;
            let rtt = |flow: usize| run.outcome.flows[flow].rtt.mean_ms().unwrap_or(f64::NAN);
            figures.push((run.late_mbps(0) / run.late_mbps(1), rtt(1) / rtt(0)));
        }
        let (rates, round_trips): (Vec<f64>, Vec<f64>) = figures.into_iter().unzip();
        let (Some(rates), Some(round_trips)) = (Median::of(&rates), Median::of(&round_trips)) else { continue };
        let (least, most) = rates.interval.unwrap_or((rates.median, rates.median));
        let exponent = rates.median.ln() / round_trips.median.ln();
        let scenario = format!("{controller}{beside}, {queue}, {rtt_ms} ms and {times} times that");
        let claim = format!("power {low} to {high}");
        let got = format!(
            "{:.2} : 1 ({least:.2} to {most:.2}), round trips 1 : {:.2}, power {exponent:.2}",
            rates.median, round_trips.median
        );
        let claim = Claim { source: (*source).to_owned(), ..Claim::on(UNLIKE_SECTION, scenario, claim) }
            .expect(Expected::Between(low - SLACK, high + SLACK))
            .expect(Expected::AtLeast(floor))
            .measured(got, &[exponent, most]);
        floor = floor.max(least);
        let note = if claim.holds() { "" } else { known };
        claims.push(claim.note(note));
    }
    Ok(claims)
}
