//! Every controller over every datapath where paths are at their worst: they reorder, double, go dark, are crowded, very short or
//! very long. None has to win there; all have to get through where plain Reno does, without a flood.

use std::sync::{Arc, OnceLock};

use paceline_cc::Nanos;
use paceline_cc::registry::CONTROLLERS;
use paceline_path::{Direction as PathSpec, Reorder};

use super::Group;
use super::bench::{BenchError, Dumbbell};
use crate::claim::{Cell, Claim, ClaimError};
use paceline_lab::contestant::Contestant;

pub(super) const SECTION: &str = "Edges";
pub(super) const INTRO: &str = "\
    Every controller over every datapath on ten paths: `30 % late` (by 20 ms), `30 % twice`, `dark 1 s`, `3 s`, `10 s` and `30 s`, `50 flows` at\n\
    50 Mbit/s, `500 flows` at 100 Mbit/s, `0.1 ms` at 1 Gbit/s, `2 s` at 10 Mbit/s; unless said 20 Mbit/s, 40 ms, 1 BDP, one flow. A path is missed\n\
    by more than three times the losses of `reno@tcp` and more than 1 %, or by less than half of its goodput: bounds of ours, since a crash\n\
    is a factor, a difference of algorithms rarely is. Missed paths have the goodput in Mbit/s (and the losses in %).\n\
    \n";

/// Why edges are missed where that is the published algorithm.
pub(super) const REASONS: &[&str] = &[
    BBR_LATE,
    BBR_FLOWS,
    BBR_DARK,
    BBR_SHORT,
    BBR_REQUESTS,
    BBR_LONG,
    EPOCH,
    BORNE,
    SPROUT_FLOWS,
    SPROUT_SHORT,
    SPROUT_LONG,
    AVERAGE,
    AVERAGE_SHORT,
];
const BBR_LATE: &str = "late packets arrive beside later ones, some rates are measured above the link's, and the largest of ten rounds counts \
    (Linux tcp_bbr.c, bbr_update_bw); losses are not answered";
const BBR_FLOWS: &str = "the flows together keep twice the BDP in flight (bbr_cwnd_gain), all that path and buffer hold, over icn 1.5 times one that has the queue in it, and \
    three bursts each (bbr_quantization_budget); losses are not answered";
const BBR_DARK: &str = "losses at the end of the window wait for a timeout computed from RTTs of half a minute (tcp_rtt_estimator), while \
    ProbeRTT (bbr_update_min_rtt) sends nothing that would show them";
const BBR_SHORT: &str = "path and buffer hold 17 packets, and the window adds three bursts to two BDP (bbr_quantization_budget); losses are not \
    answered";
const BBR_REQUESTS: &str =
    "a request asks for up to 64 units at once (Liu et al., equation 8); path and buffer hold 17";
const BBR_LONG: &str = "ProbeRTT comes every 5 s, a round trip or two, before Startup has seen three rounds without growth (bbr_full_bw_cnt), and Startup and \
    its overflow begin anew (bbr_check_probe_rtt_done) until 88 s";
const EPOCH: &str =
    "a window leaves once in an epoch of 5 ms (Zaki et al., SIGCOMM 2015, section 5.1), 50 round trips there";
const BORNE: &str = "as without the edge: delays of up to R = 6 times the smallest are borne (Verus' R; our default, as in ALCC), more than a \
    buffer of one BDP shows, so that losses alone stop it";
const SPROUT_FLOWS: &str = "losses are not answered, and 100 ms of delay are aimed at (Winstein et al., NSDI 2013, section 3.5), which the buffer \
    of 40 ms does not show; with idle=exact, as published, 14 % are lost";
const SPROUT_SHORT: &str = "rates above 1000 packets/s are not believed, and packets leave by ticks of 20 ms (Winstein et al., section 3.1), in \
    which path and buffer hold 17";
const SPROUT_LONG: &str = "what is in flight has to arrive within 100 ms of a forecast of 160 ms (Winstein et al., sections 3.3 and 3.5), a \
    twentieth of this path";
const AVERAGE: &str = "100 ms at the average rate are sent without caution (Winstein et al., section 5.3), the buffer holds 40 ms, and losses are \
    not answered";
const AVERAGE_SHORT: &str = "packets leave by ticks of 20 ms (Winstein et al., section 3.1), in which path and buffer hold 17, and losses are not \
    answered";

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
type Yardstick = Arc<OnceLock<Result<Vec<Figures>, BenchError>>>;

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

fn over(contestant: &Contestant, edge: &Edge) -> Result<Figures, BenchError> {
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

fn claim(contestant: &Contestant, reno: &Contestant, yardstick: &Yardstick) -> Result<Vec<Claim>, BenchError> {
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
    let claim = Claim::on(SECTION, contestant.to_string(), "no flood, no starvation");
    let claim = claim.by("our bounds").got(ours, cells);
    let note = notes(contestant, claim.cells.iter().filter(|cell| !cell.holds));
    Ok(vec![claim.note(note)])
}

/// What is known of edges that are missed: each sentence once, after the edges that it is of, with their figures. One that nothing is
/// known of says so.
fn notes<'a>(contestant: &Contestant, missed: impl Iterator<Item = &'a Cell>) -> String {
    let (name, via) = (contestant.controller.entry().name, contestant.via.datapath().name);
    let mut notes: Vec<(Vec<String>, &str)> = Vec::new();
    for Cell { setup: edge, ours, .. } in missed {
        let sentence = known(name, via, edge).unwrap_or("not known");
        let edge = format!("{edge} {ours}");
        match notes.iter_mut().find(|(_, other)| *other == sentence) {
            Some((edges, _)) => edges.push(edge),
            None => notes.push((vec![edge], sentence)),
        }
    }
    notes.iter().map(|(edges, sentence)| format!("{}: {sentence}.", edges.join(", "))).collect::<Vec<_>>().join(" ")
}

/// Neither a flood nor a flow that starves.
fn is_fair(own: &Figures, reno: &Figures) -> bool {
    own.loss <= (3.0 * reno.loss).max(LEAST_LOSS) && own.mbps >= reno.mbps / 2.0
}

/// Why a controller over a datapath may not hold over an edge, where that is the published algorithm.
fn known(controller: &str, via: &str, edge: &str) -> Option<&'static str> {
    Some(match (controller, via, edge) {
        ("bbr", _, "30 % late") => BBR_LATE,
        ("bbr", _, "50 flows") => BBR_FLOWS,
        ("bbr", "tcp", "dark 30 s") => BBR_DARK,
        ("bbr", "icn", "0.1 ms") => BBR_REQUESTS,
        ("bbr", "icn", "2 s") => BBR_LONG,
        ("bbr", _, "0.1 ms") => BBR_SHORT,
        ("verus" | "mdi", _, "0.1 ms") => EPOCH,
        ("verus" | "mdi", _, "30 % twice" | "dark 1 s" | "dark 3 s" | "dark 10 s" | "dark 30 s") => BORNE,
        ("sprout", "udp", "50 flows") => SPROUT_FLOWS,
        ("sprout", _, "0.1 ms") => SPROUT_SHORT,
        ("sprout" | "sprout-ewma", _, "2 s") => SPROUT_LONG,
        ("sprout-ewma", _, "0.1 ms") => AVERAGE_SHORT,
        ("sprout-ewma", "udp", _) => AVERAGE,
        _ => return None,
    })
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
    fn sentences_are_of_the_edges_that_were_missed() {
        let missed = |edge: &&str| Cell {
            setup: (*edge).to_owned(),
            ours: "1.0 (2.0)".to_owned(),
            holds: false,
            command: String::new(),
        };
        let of = |contestant: &str, edges: &[&str]| {
            let missed: Vec<Cell> = edges.iter().map(missed).collect();
            notes(&contestant.parse().unwrap(), missed.iter())
        };
        assert_eq!(of("reno@tcp", &[]), "");
        assert_eq!(of("reno@tcp", &["2 s"]), "2 s 1.0 (2.0): not known.");
        let verus = of("verus@udp", &["dark 1 s", "dark 3 s", "0.1 ms"]);
        assert!(
            verus.starts_with("dark 1 s 1.0 (2.0), dark 3 s 1.0 (2.0): as without")
                && verus.contains("stop it. 0.1 ms 1.0 (2.0): a window"),
            "{verus}"
        );
        // What is known of a controller over one datapath is not taken for what happens over another.
        assert_ne!(of("bbr@icn", &["0.1 ms"]), of("bbr@tcp", &["0.1 ms"]));
        assert_eq!(of("bbr@udp", &["dark 30 s"]), "dark 30 s 1.0 (2.0): not known.");
    }

    #[test]
    fn a_letter_stands_for_one_reason() {
        for (index, reason) in REASONS.iter().enumerate() {
            assert_eq!(REASONS.iter().position(|other| other.contains(reason)), Some(index), "{reason}");
        }
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
