//! BBR, version 1: Linux `tcp_bbr.c`, draft-cardwell-iccrg-bbr-congestion-control-00.

use crate::rig::Rig;
use crate::rule::{Rule, Seen, TrajectorySpan};
use crate::trajectory::{Origin, Trajectory, TrajectoryPoint, median, quantile};

const WHO: &str = "bbr";
/// Seconds after which start-up and drain are over on the paths here (our choice).
const STEADY: f64 = 3.0;
/// A window of this many packets is ProbeRTT's: 4, and one for the packet on its way (draft section 4.3.5).
const PROBING: f64 = 5.5;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "bbr-startup-gain",
        controller: WHO,
        says: "Startup paces at 2.885 (2/ln 2) of the bandwidth",
        source: "draft-cardwell-iccrg-bbr-congestion-control-00 section 4.3.2.1; Linux bbr_high_gain",
        measures: "highest pace before 3 s over the median pace after",
        expect: (2.6, 3.1),
        tolerance: "10 %: the bandwidth filter at the end of Startup",
        rig: Rig::Deep,
        needs: &[],
        measure: |of| early(of, |pace, kept| pace > kept),
    },
    Rule {
        id: "bbr-drain",
        controller: WHO,
        says: "Drain empties the queue of Startup at 0.35 of the bandwidth",
        source: "draft-cardwell-iccrg-bbr-congestion-control-00 section 4.3.3; Linux bbr_drain_gain",
        measures: "lowest pace before 3 s over the median pace after",
        expect: (0.3, 0.4),
        tolerance: "15 %: the bandwidth filter at the end of Startup",
        rig: Rig::Deep,
        needs: &[],
        measure: |of| early(of, |pace, kept| pace < kept),
    },
    Rule {
        id: "bbr-probe-up",
        controller: WHO,
        says: "ProbeBW probes at 1.25 of the bandwidth",
        source: "draft-cardwell-iccrg-bbr-congestion-control-00 section 4.3.4.2; Linux bbr_pacing_gain",
        measures: "97th percentile of the pace over its median",
        expect: (1.2, 1.3),
        tolerance: "4 %",
        rig: Rig::Deep,
        needs: &[],
        measure: |of| share(of, 0.97),
    },
    Rule {
        id: "bbr-probe-down",
        controller: WHO,
        says: "ProbeBW drains what it probed for at 0.75 of the bandwidth",
        source: "draft-cardwell-iccrg-bbr-congestion-control-00 section 4.3.4.2; Linux bbr_pacing_gain",
        measures: "3rd percentile of the pace over its median",
        expect: (0.71, 0.79),
        tolerance: "5 %",
        rig: Rig::Deep,
        needs: &[],
        measure: |of| share(of, 0.03),
    },
    Rule {
        id: "bbr-cycle",
        controller: WHO,
        says: "ProbeBW's cycle has eight phases of about a round trip",
        source: "draft-cardwell-iccrg-bbr-congestion-control-00 section 4.3.4.1; Linux bbr_update_cycle_phase",
        measures: "smallest round trips from one probe to the next, median",
        expect: (7.0, 11.0),
        tolerance: "each phase ends with the acknowledgement after its round trip; the probe lasts until the queue shows",
        rig: Rig::Deep,
        needs: &[],
        measure: cycle,
    },
    Rule {
        id: "bbr-probe-rtt",
        controller: WHO,
        says: "10 s after the smallest RTT was last seen the window falls to 4 packets",
        source: "draft-cardwell-iccrg-bbr-congestion-control-00 section 4.3.5; Linux bbr_update_min_rtt",
        measures: "longest time in s without the smallest RTT and without a window of 4 packets",
        expect: (0.0, 11.5),
        tolerance: "a round trip, and the way down to 4 packets",
        rig: Rig::Deep,
        needs: &[],
        measure: probe_rtt,
    },
    Rule {
        id: "bbr-cwnd-gain",
        controller: WHO,
        says: "ProbeBW's window is twice the bandwidth-delay product",
        source: "draft-cardwell-iccrg-bbr-congestion-control-00 section 4.2.3; Linux bbr_cwnd_gain",
        measures: "median window over bandwidth times smallest RTT",
        expect: (1.85, 2.6),
        tolerance: "upwards what bursts and stretched acknowledgements add",
        rig: Rig::Deep,
        needs: &[],
        measure: cwnd_gain,
    },
    Rule {
        id: "bbr-loss",
        controller: WHO,
        says: "random loss of 1 % does not reduce its rate",
        source: "Cardwell et al., ACM Queue 2016, figure 8; Linux bbr_set_cwnd",
        measures: "payload delivered after 3 s over the path's rate",
        expect: (0.82, 1.0),
        tolerance: "headers take 3.5 %, losses 1 %, ProbeRTT 2 %",
        rig: Rig::Lossy,
        needs: &[],
        measure: lossy,
    },
];

/// Paces after the start, outside ProbeRTT and repairs.
fn steady(of: &Trajectory) -> Vec<f64> {
    let steady = of.between(STEADY, of.end()).iter().filter(|point| point.window > 2.0 * PROBING);
    steady.filter_map(|point| point.pacing_mbps).collect()
}

fn base(of: &Trajectory) -> Result<f64, &'static str> {
    median(steady(of)).filter(|pace| *pace > 0.0).ok_or("its pace is not known")
}

/// A pace of the first seconds over the usual one.
fn early(of: &Trajectory, choose: fn(f64, f64) -> bool) -> Result<Seen, &'static str> {
    let base = base(of)?;
    let points = of.between(0.0, STEADY).iter().filter(|point| point.delivered > 100.0);
    let mut best: Option<(f64, f64)> = None;
    for (t, pace) in points.filter_map(|point| Some((point.t, point.pacing_mbps?))) {
        if best.is_none_or(|(_, kept)| choose(pace, kept)) {
            best = Some((t, pace));
        }
    }
    let (at, pace) = best.ok_or("its pace at the start is not known")?;
    let value = pace / base;
    Ok(Seen { value, spans: vec![TrajectorySpan { from: (at - 0.1).max(0.0), to: at + 0.1, value }] })
}

fn share(of: &Trajectory, q: f64) -> Result<Seen, &'static str> {
    let base = base(of)?;
    let value = quantile(steady(of), q).ok_or("its pace is not known")? / base;
    Ok(Seen { value, spans: vec![TrajectorySpan { from: STEADY, to: of.end(), value }] })
}

fn cycle(of: &Trajectory) -> Result<Seen, &'static str> {
    let base = base(of)?;
    let rtt = of.min_rtt().ok_or("no round trip is known")?;
    let (mut spans, mut last, mut high) = (Vec::new(), None::<f64>, false);
    for point in of.between(STEADY, of.end()) {
        let Some(pace) = point.pacing_mbps else { continue };
        if point.window <= 2.0 * PROBING {
            last = None;
        }
        let now = pace > 1.15 * base;
        if now && !high {
            if let Some(from) = last {
                spans.push(TrajectorySpan { from, to: point.t, value: (point.t - from) / rtt });
            }
            last = Some(point.t);
        }
        high = now;
    }
    Seen::median(spans).ok_or("it never probed twice")
}

/// The longest time without the smallest RTT and without ProbeRTT's window.
fn probe_rtt(of: &Trajectory) -> Result<Seen, &'static str> {
    if of.end() < 15.0 {
        return Err("it is shorter than 15 s");
    }
    let (mut smallest, mut since) = (f64::INFINITY, 0.0);
    let mut longest = TrajectorySpan { from: 0.0, to: 0.0, value: 0.0 };
    let take = |since: f64, to: f64, longest: &mut TrajectorySpan| {
        if to - since > longest.value {
            *longest = TrajectorySpan { from: since, to, value: to - since };
        }
    };
    for point in &of.points {
        let lower = point.rtt_ms.is_some_and(|rtt| rtt <= smallest);
        if lower || point.t > STEADY && is_probing(point) {
            take(since, point.t, &mut longest);
            since = point.t;
        }
        smallest = if is_probing(point) && point.t > STEADY { f64::INFINITY } else { smallest };
        smallest = smallest.min(point.rtt_ms.unwrap_or(f64::INFINITY));
    }
    take(since, of.end(), &mut longest);
    Ok(Seen { value: longest.value, spans: vec![longest] })
}

fn is_probing(point: &TrajectoryPoint) -> bool {
    point.window <= PROBING
}

fn cwnd_gain(of: &Trajectory) -> Result<Seen, &'static str> {
    if of.origin == Origin::Packets {
        return Err("packets show what is in flight, which its pace keeps below the window");
    }
    let rtt = of.min_rtt().ok_or("no round trip is known")?;
    let bandwidth = of.bandwidth().ok_or("nothing was delivered")?;
    let product = bandwidth * 1e6 / 8.0 * rtt / of.mss;
    let points = of.between(STEADY, of.end()).iter().filter(|point| !is_probing(point));
    let value = median(points.map(|point| point.window).collect()).ok_or("it is shorter than 3 s")? / product;
    Ok(Seen { value, spans: vec![TrajectorySpan { from: STEADY, to: of.end(), value }] })
}

fn lossy(of: &Trajectory) -> Result<Seen, &'static str> {
    let rate = of.facts.rate_mbps.ok_or("the path's rate is not known")?;
    let losses = of.losses.iter().filter(|at| **at > STEADY).count();
    if losses < 20 && of.origin != Origin::Kernel {
        return Err("fewer than 20 losses");
    }
    let value = of.mbps(STEADY, of.end()) / rate;
    Ok(Seen { value, spans: vec![TrajectorySpan { from: STEADY, to: of.end(), value }] })
}
