//! The Wi-Fi link against published figures of 802.11n and 802.11ac: ns-3's regression bounds, and an event model of the same rules.

use std::collections::VecDeque;

use paceline_cc::{Bytes, Codepoint, Nanos, Rate, Time};
use paceline_experiment::Seed;
use paceline_path::{Air, Direction, LossModel, Packet, Path, Phy, Wifi, build_link};
use rand::RngExt;

use super::BenchError;
use super::{Group, SEED};
use crate::claim::{Claim, ClaimError};

pub(super) const SECTION: &str = "Wi-Fi links";

pub(super) const INTRO: &str = "\
    One access point and one station, no controller; an event model unless said. Goodput counts 1472 bytes of a packet of 1500; requests have\n\
    84 bytes. Rows of evenly spaced requests have the share of time on the air, frames in an aggregate, and median and 99th percentile of\n\
    the delay from the access point to the end of the answer; rows beside stations the 50th, 95th and 99th percentile.\n\
    \n";

/// The source of figures, unless said.
const MODEL: &str = "event model";

pub(super) const REASONS: &[&str] = &[PHASE];

/// Towards the station, and towards the access point.
const DOWN: usize = 0;
const UP: usize = 1;
/// A full packet and its payload; a request; a unit of 1400 bytes with UDP and IP.
const FULL: u32 = 1500;
const PAYLOAD: f64 = 1472.0;
const REQUEST: u32 = 84;
const UNIT: u32 = 1428;
/// What follows the data of an aggregate: SIFS and Block Ack.
const ANSWER: Nanos = Nanos::from_micros(48);
/// From the request that has arrived to its data at the access point.
const WIRE: Nanos = Nanos::from_millis(1);

pub(super) fn groups() -> Result<Vec<Group>, ClaimError> {
    Ok(vec![
        Group::new("Wi-Fi saturated", &[], |_| saturated())?,
        Group::new("Wi-Fi requests", &[], |_| requests())?,
        Group::new("Wi-Fi bursts", &[], |_| bursts())?,
        Group::new("Wi-Fi access delay", &[], |_| access())?,
        Group::new("Wi-Fi aggregates", &[], |_| aggregates())?,
    ])
}

fn phy(text: &str) -> Wifi {
    let phy: Phy = text.parse().expect("a rate of the standard");
    Wifi::new(phy)
}

/// Both directions of a link.
struct Link {
    paths: [Path<()>; 2],
    now: Time,
}

impl Link {
    fn new(wifi: &Wifi) -> Result<Self, BenchError> {
        let both = Direction { wifi: Some(wifi.clone()), ..Direction::default() };
        let seeds = ["down", "up"].map(|name| Seed(SEED).derive(name));
        let paths = build_link([&both, &both], seeds, Nanos::ZERO, &|_: &str| Err("no trace"))?;
        Ok(Self { paths, now: Time::ZERO })
    }

    fn push(&mut self, way: usize, size: u32) {
        self.paths[way].push(self.now, Packet::new(0, size, Codepoint::NotEct, ()));
    }

    /// What comes out next, by `until`, where time then stands.
    fn pop(&mut self, until: Time) -> Option<(usize, Nanos)> {
        loop {
            for way in [DOWN, UP] {
                if let Some(packet) = self.paths[way].pop(self.now) {
                    return Some((way, packet.delay.queue + packet.delay.transmission + ANSWER));
                }
            }
            let next = self.paths[DOWN].next().min(self.paths[UP].next());
            self.now = next.min(until);
            if next > until {
                return None;
            }
        }
    }

    fn air(&self, way: usize) -> Air {
        self.paths[way].air().unwrap_or_default()
    }

    /// Goodput of a saturated direction over 20 s, Mbit/s; with one request for this many packets.
    fn saturate(&mut self, per_request: Option<u32>) -> f64 {
        let seconds = 20;
        (0..900).for_each(|_| self.push(DOWN, FULL));
        let (mut arrived, mut since) = (0, 0);
        while let Some((way, _)) = self.pop(Time::ZERO + Nanos::from_secs(seconds)) {
            if way == UP {
                continue;
            }
            arrived += 1;
            since += 1;
            self.push(DOWN, FULL);
            if per_request.is_some_and(|count| since >= count) {
                since = 0;
                self.push(UP, REQUEST);
            }
        }
        f64::from(arrived) * PAYLOAD * 8e-6 / seconds as f64
    }
}

fn saturated() -> Result<Vec<Claim>, BenchError> {
    let (ht, vht) = (phy("ht20-1ss-mcs7-lgi"), phy("vht80-2ss-mcs9"));
    let (model, ns3) = (MODEL, "ns-3 bounds 51 to 52");
    let rows = [
        (
            "HT20 65, aggregates of 65,535 B, 10 ms",
            Wifi { ppdu: Nanos::from_millis(10), ..ht.clone() },
            60.5,
            0.02,
            model,
        ),
        ("HT20 65, no aggregation", Wifi { mpdus: 1, ..ht.clone() }, 30.8, 0.02, model),
        ("HT20 65, A-MSDU 7935 alone", Wifi { mpdus: 1, amsdu: Some(Bytes(7935)), ..ht.clone() }, 51.5, 0.02, ns3),
        (
            "HT20 65, A-MPDU 32 K of A-MSDU 3839",
            Wifi { ampdu: Some(Bytes(32_767)), amsdu: Some(Bytes(3839)), ..ht },
            58.5,
            0.02,
            "ns-3 bounds 58 to 59",
        ),
        ("HT40 150", phy("ht40-1ss-mcs7"), 135.4, 0.02, model),
        ("VHT80 866.7, aggregates of 65,535 B", Wifi { ampdu: Some(Bytes(65_535)), ..vht.clone() }, 615.0, 0.02, model),
        ("VHT80 433.3", phy("vht80-1ss-mcs9"), 372.0, 0.02, model),
        ("VHT80 866.7", vht.clone(), 675.0, 0.02, model),
        ("HT40 300", phy("ht40-2ss-mcs7"), 256.0, 0.02, model),
        (
            "VHT80 866.7, 10 % of the frames lost",
            Wifi { per: Some(LossModel::Rate(0.1)), ..vht.clone() },
            607.0,
            0.02,
            model,
        ),
        ("VHT80 866.7, two saturated stations beside", Wifi { competitors: 2, ..vht }, 212.0, 0.03, model),
    ];
    let claim = |(setup, wifi, mbps, share, source): (&str, Wifi, f64, f64, &str)| {
        let ours = Link::new(&wifi)?.saturate(None);
        let claim = Claim::on(SECTION, format!("saturated, {setup}"), format!("{mbps} Mbit/s"));
        let claim = if source == MODEL { claim.by(source) } else { claim.after(source) };
        Ok(claim.within(mbps, share).measured(format!("{ours:.1} Mbit/s"), &[ours]))
    };
    rows.into_iter().map(claim).collect()
}

fn requests() -> Result<Vec<Claim>, BenchError> {
    let mut claims = Vec::new();
    for (name, wifi, rows) in [
        ("866.7", phy("vht80-2ss-mcs9"), [(1, 508.0), (2, 567.0), (5, 586.0), (20, 592.0), (64, 593.0)]),
        ("144.4", phy("ht20-2ss-mcs7"), [(1, 108.0), (2, 116.0), (5, 119.0), (20, 120.0), (64, 121.0)]),
    ] {
        for (count, mbps) in rows {
            let ours = Link::new(&wifi)?.saturate(Some(count));
            let setup = format!("{name}, saturated, a request for every {count} packets");
            let claim = Claim::on(SECTION, setup, format!("{mbps} Mbit/s")).by(MODEL);
            claims.push(claim.within(mbps, 0.03).measured(format!("{ours:.1} Mbit/s"), &[ours]));
        }
    }
    Ok(claims)
}

/// What requests of this many units, as often as the rate asks for, do: share of the time on the air with the interframe space before it,
/// frames in an aggregate, median and 99th percentile of the delay in ms.
fn burst(wifi: &Wifi, rate: Rate, units: u32) -> Result<[f64; 4], BenchError> {
    let mut link = Link::new(wifi)?;
    let gap = rate.time_for(u64::from(units) * 1400);
    let (mut delays, mut answers, mut request) = (Vec::new(), VecDeque::new(), Time::ZERO);
    let end = Time::from_millis(20_000);
    while request < end {
        let next = answers.front().copied().unwrap_or(Time::NEVER).min(request);
        if let Some((way, delay)) = link.pop(next) {
            if way == UP { answers.push_back(link.now + WIRE) } else { delays.push(delay) }
        } else if answers.pop_front_if(|at| *at <= next).is_some() {
            (0..units).for_each(|_| link.push(DOWN, UNIT));
        } else {
            link.push(UP, REQUEST);
            request += gap;
        }
    }
    let (down, up) = (link.air(DOWN), link.air(UP));
    // AIFS; of two that collide both count, so that half of what collided is taken off.
    let space = Nanos::from_micros(43).mul_div(down.aggregates + up.aggregates, 1);
    let busy = (down.time + up.time + space).as_secs_f64() / end.as_secs_f64();
    let [median, tail] = percentiles(&mut delays, [50, 99]);
    Ok([100.0 * busy, down.frames as f64 / down.aggregates.max(1) as f64, median, tail])
}

fn percentiles<const N: usize>(delays: &mut [Nanos], wanted: [usize; N]) -> [f64; N] {
    delays.sort_unstable();
    wanted.map(|percent| delays.get(delays.len() * percent / 100).map_or(f64::NAN, |delay| delay.as_millis_f64()))
}

fn bursts() -> Result<Vec<Claim>, BenchError> {
    let mut claims = Vec::new();
    for (name, wifi, mbps, rows) in [
        (
            "300 Mbit/s on 866.7",
            phy("vht80-2ss-mcs9"),
            300.0,
            &[
                (1, [85.0, 29.0, 1.0, 4.2]),
                (5, [84.0, 26.0, 0.9, 3.6]),
                (20, [72.0, 22.0, 0.6, 1.6]),
                (27, [64.0, 27.0, 0.6, 0.75]),
                (64, [48.0, 64.0, 1.1, 1.15]),
                (81, [51.0, 40.0, 1.1, 1.8]),
            ][..],
        ),
        (
            "60 Mbit/s on 144.4",
            phy("ht20-2ss-mcs7"),
            60.0,
            &[
                (1, [87.0, 7.0, 1.3, 5.0]),
                (5, [72.0, 5.5, 0.7, 1.7]),
                (15, [54.0, 15.0, 1.4, 1.6]),
                (64, [48.0, 32.0, 3.8, 5.8]),
            ],
        ),
    ] {
        for (units, figures) in rows {
            let ours = burst(&wifi, Rate::from_mbps(mbps), *units)?;
            let text = |[busy, frames, median, tail]: [f64; 4]| {
                format!("{busy:.0} %, {frames:.1}, {median:.2} / {tail:.2} ms")
            };
            let setup = format!("{name}, requests of {units} units");
            let shares = [BUSY, FRAMES, MEDIAN, TAIL];
            let claim = Claim::on(SECTION, setup, text(*figures)).by(MODEL);
            let claim = figures.iter().zip(shares).fold(claim, |claim, (figure, share)| claim.near(*figure, share));
            let claim = claim.measured(text(ours), &ours);
            let depends = (ours[3] - figures[3]).abs() > TAIL * figures[3];
            claims.push(if depends { claim.note(PHASE) } else { claim });
        }
    }
    Ok(claims)
}

/// Why a tail is another one.
const PHASE: &str =
    "the tail depends on when data come between two requests, and so on the wire's delay, which is not published";

/// Shares within which each figure of a burst is to be.
const BUSY: f64 = 0.1;
const FRAMES: f64 = 0.25;
const MEDIAN: f64 = 0.4;
const TAIL: f64 = 0.4;

/// Times at which Poisson packets of this goodput come, by `end`.
fn poisson(mbps: f64, end: Time) -> impl Iterator<Item = Time> {
    let mut draws = Seed(SEED).stream("arrivals");
    let mean = PAYLOAD * 8e-6 / mbps;
    let mut at = 0.0;
    std::iter::from_fn(move || {
        at -= mean * (1.0 - draws.random::<f64>()).ln();
        Some(Time::from_secs_f64(at)).filter(|at| *at < end)
    })
}

fn access() -> Result<Vec<Claim>, BenchError> {
    let mut claims = Vec::new();
    for (name, base, rows) in [
        (
            "866.7",
            phy("vht80-2ss-mcs9"),
            [(0, [0.22, 0.28, 0.28]), (1, [1.4, 3.8, 7.0]), (2, [2.5, 9.1, 18.0]), (4, [3.6, 20.0, 32.0])],
        ),
        (
            "144.4",
            phy("ht20-2ss-mcs7"),
            [(0, [0.29, 0.35, 0.35]), (1, [5.8, 17.0, 40.0]), (2, [9.6, 44.0, 75.0]), (4, [14.0, 77.0, 129.0])],
        ),
    ] {
        for (competitors, figures) in rows {
            let mut link = Link::new(&Wifi { competitors, ..base.clone() })?;
            let mut delays = Vec::new();
            for at in poisson(1.0, Time::from_millis(300_000)) {
                delays.extend(std::iter::from_fn(|| link.pop(at)).map(|(_, delay)| delay));
                link.push(DOWN, FULL);
            }
            let ours = percentiles(&mut delays, [50, 95, 99]);
            // With whom alone nothing is random but the backoff.
            let share = if competitors == 0 { 0.15 } else { 0.4 };
            let text = |[median, high, tail]: [f64; 3]| format!("{median:.2} / {high:.2} / {tail:.2} ms");
            let setup = format!("{name}, 1 Mbit/s beside {competitors} saturated stations");
            let claim = Claim::on(SECTION, setup, text(figures)).by(MODEL);
            let claim = figures.iter().fold(claim, |claim, figure| claim.near(*figure, share));
            claims.push(claim.measured(text(ours), &ours));
        }
    }
    Ok(claims)
}

fn aggregates() -> Result<Vec<Claim>, BenchError> {
    let claim = |(mbps, frames): (f64, f64)| {
        let mut link = Link::new(&phy("vht80-2ss-mcs9"))?;
        for at in poisson(mbps, Time::from_millis(20_000)) {
            while link.pop(at).is_some() {}
            link.push(DOWN, FULL);
        }
        let air = link.air(DOWN);
        let ours = air.frames as f64 / air.aggregates.max(1) as f64;
        let setup = format!("866.7, Poisson packets of {mbps} Mbit/s");
        let claim = Claim::on(SECTION, setup, format!("{frames} frames in an aggregate")).by(MODEL);
        Ok(claim.within(frames, 0.12).measured(format!("{ours:.1}"), &[ours]))
    };
    [(98.0, 2.1), (294.0, 7.9), (490.0, 20.9)].into_iter().map(claim).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validate::markdown;
    use paceline_lab::runner::Task;

    #[test]
    fn every_figure_is_within_its_tolerance() {
        let claims: Vec<Claim> = groups().unwrap().iter().flat_map(|group| group.run().unwrap().output).collect();
        assert_eq!(claims.len(), 11 + 10 + 10 + 8 + 3);
        let page = markdown(&claims);
        assert!(claims.iter().all(|claim| claim.holds() || claim.note == PHASE), "{page}");
        assert!(claims.iter().filter(|claim| !claim.holds()).count() <= 2, "{page}");
    }
}
