//! Copa: Arun and Balakrishnan, NSDI 2018.

use super::{rate_limited, start};
use crate::rig::Rig;
use crate::rule::{Rule, Seen, TrajectorySpan};
use crate::trajectory::{Trajectory, median, quantile};

const WHO: &str = "copa";
/// Seconds after which the start is over on the paths here (our choice).
const STEADY: f64 = 3.0;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "copa-slow-start",
        controller: WHO,
        says: "before the rate reaches its target for the first time the window doubles in a round trip",
        source: "Copa (NSDI 2018) section 2.1",
        measures: "window over that of a round trip before, median",
        expect: (1.8, 2.15),
        tolerance: "10 %",
        rig: Rig::Endless,
        needs: &[],
        measure: start::growth,
    },
    Rule {
        id: "copa-target",
        controller: WHO,
        says: "the queue is about 2.5/delta packets and less: the target rate is 1/(delta d_q), delta = 0.5",
        source: "Copa (NSDI 2018) sections 2.2 and 2.4",
        measures: "packets in the queue times delta, mean after 3 s",
        expect: (0.8, 2.75),
        tolerance: "section 2.2 has 2.5/delta as the highest queue of a lone flow's cycle; 1 is the target itself",
        rig: Rig::Endless,
        needs: &[],
        measure: target,
    },
    Rule {
        id: "copa-empties",
        controller: WHO,
        says: "a lone flow nearly empties the queue in each cycle of five round trips",
        source: "Copa (NSDI 2018) section 2.2",
        measures: "share of five-round-trip intervals whose smallest queue is below a packet and a tenth of the largest",
        expect: (0.8, 1.0),
        tolerance: "intervals are not aligned to the cycles",
        rig: Rig::Endless,
        needs: &[],
        measure: empties,
    },
    Rule {
        id: "copa-competes",
        controller: WHO,
        says: "beside a flow that fills the buffer it competes: delta falls, and it keeps a share",
        source: "Copa (NSDI 2018) section 2.2, Detecting buffer-fillers",
        measures: "payload in the last 30 s over half of the path's rate",
        expect: (0.45, 1.6),
        tolerance: "the paper's flows come within a factor of two of their share",
        rig: Rig::Beside,
        needs: &[],
        measure: competes,
    },
    rate_limited::COPA,
];

/// Packets in the queue at each point: what the RTT has above the smallest, at the path's rate.
fn queues(of: &Trajectory, from: f64, to: f64) -> Result<Vec<f64>, &'static str> {
    let rtt = of.min_rtt().ok_or("no round trip is known")?;
    let bandwidth = of.bandwidth().ok_or("nothing was delivered")?;
    let packets_a_second = bandwidth * 1e6 / 8.0 / of.mss;
    let points = of.between(from, to).iter().filter_map(|point| point.rtt_ms);
    Ok(points.map(|ms| (ms / 1e3 - rtt).max(0.0) * packets_a_second).collect())
}

fn target(of: &Trajectory) -> Result<Seen, &'static str> {
    let queues = queues(of, STEADY, of.end())?;
    if queues.is_empty() {
        return Err("it is shorter than 3 s");
    }
    let value = 0.5 * queues.iter().sum::<f64>() / queues.len() as f64;
    Ok(Seen { value, spans: vec![TrajectorySpan { from: STEADY, to: of.end(), value }] })
}

fn empties(of: &Trajectory) -> Result<Seen, &'static str> {
    let rtt = of.min_rtt().ok_or("no round trip is known")?;
    let (mut at, mut spans) = (STEADY, Vec::new());
    while at + 5.5 * rtt < of.end() {
        let to = at + 5.5 * rtt;
        let queues = queues(of, at, to)?;
        let (low, high) = (quantile(queues.clone(), 0.0), quantile(queues, 1.0));
        let (Some(low), Some(high)) = (low, high) else { break };
        spans.push(TrajectorySpan { from: at, to, value: f64::from(u8::from(low < (0.1 * high).max(1.0))) });
        at = to;
    }
    median(spans.iter().map(|span| span.value).collect()).ok_or("it is shorter than 3 s")?;
    let value = spans.iter().map(|span| span.value).sum::<f64>() / spans.len() as f64;
    Ok(Seen { value, spans })
}

fn competes(of: &Trajectory) -> Result<Seen, &'static str> {
    let rate = of.facts.rate_mbps.ok_or("the path's rate is not known")?;
    if of.end() < 45.0 {
        return Err("it is shorter than 45 s");
    }
    let from = of.end() - 30.0;
    let value = of.mbps(from, of.end()) / (rate / 2.0);
    Ok(Seen { value, spans: vec![TrajectorySpan { from, to: of.end(), value }] })
}
