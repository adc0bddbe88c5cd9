//! Every controller over every datapath where paths are at their worst: they reorder, double, go dark, are crowded, very short or
//! very long. None has to win there; all have to get through where plain Reno does, without a flood.

use std::sync::{Arc, OnceLock};

use paceline_cc::registry::CONTROLLERS;
use paceline_cc::{Nanos, Spec};
use paceline_path::{Direction as PathSpec, PathError, Reorder};

use super::Group;
use super::bench::Dumbbell;
use crate::claim::{Cell, Claim, ClaimError};
use paceline_lab::contestant::Contestant;

pub(super) const SECTION: &str = "Edges";
pub(super) const INTRO: &str = "Each figure is goodput in Mbit/s and, in brackets, the share of packets that were dropped, in %, over these paths \
    in order (20 Mbit/s, 40 ms, drop-tail of 1 BDP, 40 s and one flow unless said): 30 % of the packets 20 ms late; 30 % twice; dark from 10 s on \
    for 1, 3, 10 and 30 s, with 40 s of light after it; 50 flows at 50 Mbit/s; 500 at 100 Mbit/s; 1 Gbit/s and 0.1 ms for 5 s; 10 Mbit/s and 2 s for 200 s. TCP \
    acknowledges every second packet. A figure in bold loses more than three times as much as `reno@tcp` there, and more than 1 %, or brings over \
    less than half. These bounds are ours: a crash is a factor, a difference of algorithms rarely is; 1 % because Reno \
    loses a packet in thousands where a buffer is deep.\n\n";

/// A path at an edge.
struct Edge {
    mbps: f64,
    rtt_ms: f64,
    flows: u32,
    seconds: u64,
    harm: fn(&mut PathSpec),
}

const PLAIN: Edge = Edge { mbps: 20.0, rtt_ms: 40.0, flows: 1, seconds: 40, harm: |_| {} };

const EDGES: [Edge; 10] = [
    Edge { harm: |down| down.reorder = Some(Reorder { share: 0.3, delay: Nanos::from_millis(20) }), ..PLAIN },
    Edge { harm: |down| down.duplicate = Some(0.3), ..PLAIN },
    Edge { seconds: 51, harm: |down| dark(down, 1), ..PLAIN },
    Edge { seconds: 53, harm: |down| dark(down, 3), ..PLAIN },
    Edge { seconds: 60, harm: |down| dark(down, 10), ..PLAIN },
    Edge { seconds: 80, harm: |down| dark(down, 30), ..PLAIN },
    Edge { mbps: 50.0, flows: 50, ..PLAIN },
    Edge { mbps: 100.0, flows: 500, ..PLAIN },
    Edge { mbps: 1000.0, rtt_ms: 0.1, seconds: 5, ..PLAIN },
    Edge { mbps: 10.0, rtt_ms: 2000.0, seconds: 200, ..PLAIN },
];

const NAMES: [&str; 10] = [
    "30 % late",
    "30 % twice",
    "dark 1 s",
    "dark 3 s",
    "dark 10 s",
    "dark 30 s",
    "50 flows",
    "500 flows",
    "0.1 ms",
    "2 s",
];

fn dark(down: &mut PathSpec, seconds: u64) {
    down.outages = vec![(Nanos::from_secs(10), Nanos::from_secs(10 + seconds))];
}

/// Three times Reno's losses count as many from this share on.
const LEAST_LOSS: f64 = 0.01;

/// What a contestant did over an edge.
#[derive(Clone, Copy)]
struct Figures {
    mbps: f64,
    loss: f64,
}

/// What Reno did over each: it is run once for all.
type Yardstick = Arc<OnceLock<Result<Vec<Figures>, PathError>>>;

pub(super) fn groups() -> Result<Vec<Group>, ClaimError> {
    let reno = ClaimError::check(SECTION, "reno@tcp")?;
    let yardstick = Yardstick::default();
    let group = |name: String| {
        let (reno, yardstick) = (reno.clone(), Arc::clone(&yardstick));
        Group::new(format!("edges of {name}"), &[name.as_str()], move |flows| claim(&flows[0], &reno, &yardstick))
    };
    contestants().into_iter().map(group).collect()
}

/// Every controller that decides anything, over each datapath that carries it.
fn contestants() -> Vec<String> {
    let controllers = CONTROLLERS.iter().map(|entry| entry.name).filter(|name| *name != "fixed");
    let vias = ["udp", "tcp", "alcc", "icn"];
    let carried = |name: &str, via: &&str| {
        let contestant: Option<Contestant> = format!("{name}@{via}").parse().ok();
        contestant.is_some_and(|contestant| contestant.via.datapath().carries(&contestant.controller).is_ok())
    };
    controllers
        .flat_map(|name| vias.into_iter().filter(move |via| carried(name, via)).map(move |via| format!("{name}@{via}")))
        .collect()
}

fn over(contestant: &Contestant, edge: &Edge) -> Result<Figures, PathError> {
    let mut bench = Dumbbell::new(edge.mbps, edge.rtt_ms, "droptail:bdp=1").harmed(edge.harm).seconds(edge.seconds);
    for index in 0..edge.flows {
        bench = bench.flow(contestant, f64::from(index) * 0.02);
    }
    let run = bench.delayed_acks().unsampled().run()?;
    let sum = |count: fn(&paceline_experiment::FlowOutcome) -> u64| run.outcome.flows.iter().map(count).sum::<u64>();
    let (sent, dropped) = (sum(|flow| flow.packets_entered), sum(|flow| flow.packets_dropped));
    Ok(Figures {
        mbps: sum(|flow| flow.bytes_ready) as f64 * 8e-6 / run.seconds,
        loss: dropped as f64 / sent.max(1) as f64,
    })
}

fn claim(contestant: &Contestant, reno: &Contestant, yardstick: &Yardstick) -> Result<Vec<Claim>, PathError> {
    let all = |who: &Contestant| EDGES.iter().map(|edge| over(who, edge)).collect::<Result<Vec<_>, _>>();
    let reno = yardstick.get_or_init(|| all(reno)).clone()?;
    let cell = |((name, own), reno): ((&str, &Figures), &Figures)| Cell {
        setup: name.to_owned(),
        ours: format!("{:.3} ({:.1})", own.mbps, own.loss * 100.0),
        holds: is_fair(own, reno),
        command: String::new(),
    };
    let own = all(contestant)?;
    let cells: Vec<Cell> = NAMES.into_iter().zip(&own).zip(&reno).map(cell).collect();
    let figure =
        |cell: &Cell| if cell.holds { cell.ours.clone() } else { format!("**{}: {}**", cell.setup, cell.ours) };
    let ours = cells.iter().map(figure).collect::<Vec<_>>().join(", ");
    let claim =
        Claim::on(SECTION, contestant.to_string(), "at most 3 times Reno's losses, at least half of its goodput");
    let claim = claim.after("our bounds").got(ours, cells);
    let known = if claim.misses() { known(&contestant.controller) } else { "" };
    Ok(vec![claim.note(known)])
}

/// Neither a flood nor a flow that starves.
fn is_fair(own: &Figures, reno: &Figures) -> bool {
    own.loss <= (3.0 * reno.loss).max(LEAST_LOSS) && own.mbps >= reno.mbps / 2.0
}

/// Why a controller may not hold, where that is the published algorithm.
fn known(controller: &Spec) -> &'static str {
    match controller.entry().name {
        "bbr" => {
            "version 1 answers no loss, and its flows keep two BDP in flight (Linux tcp_bbr.c, bbr_cwnd_gain); after a long outage it waits \
             for its timer as Linux's does"
        }
        "verus" => {
            "it bears delays of R = 6 times the smallest (Zaki et al., SIGCOMM 2015), more than one BDP of buffer shows, so that \
             losses alone stop it"
        }
        "mdi" => "a model of Verus with R = 6, which bears the same delays, and moves once in an epoch",
        "sprout-ewma" => "no caution in the forecast: it aims at the mean rate (Winstein et al., NSDI 2013)",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_controller_is_tried_over_every_datapath_that_carries_it() {
        let all = contestants();
        for wanted in ["reno@udp", "reno@tcp", "reno@alcc", "reno@icn", "sprout@udp", "sprout@alcc", "mdi@icn"] {
            assert!(all.iter().any(|name| name == wanted), "{wanted} in {all:?}");
        }
        assert!(!all.iter().any(|name| name == "sprout@tcp" || name.starts_with("fixed")));
    }

    #[test]
    fn a_flood_and_a_starving_flow_are_marked() {
        // A window that no loss moves, of three times what the path holds, and one of a packet.
        for (spec, bad) in [("fixed:window=400", true), ("fixed:window=1", true), ("fixed:window=60", false)] {
            let contestant: Contestant = format!("{spec}@tcp").parse().unwrap();
            let edge = Edge { seconds: 5, ..PLAIN };
            let [own, reno] = [&contestant, &"reno@tcp".parse().unwrap()].map(|who| over(who, &edge).unwrap());
            assert_eq!(!is_fair(&own, &reno), bad, "{spec}: {} {}", own.mbps, own.loss);
        }
    }
}
