//! BBR, version 3: the test cases of draft-ietf-ccwg-bbr-06, appendix A.
//!
//! What the draft says of a case is a rule, or several. Where it names no figure, the band is our choice: around what a controller
//! after its pseudocode does, by the arithmetic of a fluid. Rules without a need judge foreign logs too.

mod changes;
mod cycle;
mod losses;
mod start;

use crate::cases::{A1, Case};
use crate::rig::Rig;
use crate::rule::{Rule, Seen, TrajectorySpan};
use crate::trajectory::{Trajectory, TrajectoryPoint};
use crate::variables::Spell;

pub(super) const RULES: [&[Rule]; 4] = [start::RULES, cycle::RULES, losses::RULES, changes::RULES];

/// Share of a link's rate that is payload: 1448 of 1500 bytes.
const PAYLOAD: f64 = 1448.0 / 1500.0;
/// Share of the bandwidth at which it paces.
const PACED: f64 = 0.99;

const STARTUP: f64 = 0.0;
const DRAIN: f64 = 1.0;
const DOWN: f64 = 2.0;
const CRUISE: f64 = 3.0;
const REFILL: f64 = 4.0;
const UP: f64 = 5.0;
const PROBE_RTT: f64 = 6.0;

type Found = Result<Seen, &'static str>;

/// What rules have in common.
const RULE: Rule = Rule {
    id: "",
    controller: "bbr3",
    says: "",
    source: "",
    measures: "",
    expect: (0.0, 0.0),
    tolerance: "",
    rig: Rig::Case(&A1),
    needs: &["state"],
    measure: |_| Err("nothing is measured"),
};

/// A rule of a case.
const fn of(case: &'static Case, source: &'static str, tolerance: &'static str) -> Rule {
    Rule { rig: Rig::Case(case), source, tolerance, ..RULE }
}

fn one(from: f64, to: f64, value: f64) -> Found {
    Ok(Seen { value, spans: vec![TrajectorySpan { from, to, value }] })
}

/// What a count, or a truth, is as a figure.
fn count(from: f64, to: f64, found: usize) -> Found {
    one(from, to, found as f64)
}

fn payload(of: &Trajectory) -> Result<f64, &'static str> {
    of.facts.rate_mbps.map(|rate| PAYLOAD * rate).ok_or("the path's rate is not known")
}

/// The states that it went through.
fn states(of: &Trajectory) -> Vec<Spell> {
    of.spells("state")
}

/// A state that ended, by how many of its kind come before it.
fn state(of: &Trajectory, wanted: f64, skip: usize) -> Result<Spell, &'static str> {
    let found = states(of).into_iter().filter(|one| one.value == wanted).nth(skip);
    found.filter(|one| one.next.is_some()).ok_or("it never came into that state, or never left it")
}

/// The first state of a kind that began at this time or later, and ended.
fn state_from(of: &Trajectory, wanted: f64, from: f64) -> Result<Spell, &'static str> {
    let found = states(of).into_iter().find(|one| one.value == wanted && one.from >= from);
    found.filter(|one| one.next.is_some()).ok_or("it never came into that state again, or never left it")
}

/// The state that was there at a time.
fn state_at(of: &Trajectory, t: f64) -> Result<Spell, &'static str> {
    states(of).into_iter().find(|one| one.from <= t && t <= one.to).ok_or("no state is known then")
}

fn value(of: &Trajectory, name: &str, t: f64) -> Result<f64, &'static str> {
    of.value(name, t).ok_or("a variable is not known yet")
}

fn before(of: &Trajectory, name: &str, t: f64) -> Result<f64, &'static str> {
    of.value_before(name, t).ok_or("a variable is not known yet")
}

/// Rounds from one time to another.
fn rounds(of: &Trajectory, from: f64, to: f64) -> Result<f64, &'static str> {
    Ok(value(of, "rounds", to)? - value(of, "rounds", from)?)
}

/// Points after a state began, up to its end; with the acknowledgement that ended it or without.
fn within<'t>(of: &'t Trajectory, spell: &Spell) -> impl Iterator<Item = &'t TrajectoryPoint> {
    let (from, to) = (spell.from, spell.to);
    of.between(from, to).iter().filter(move |point| point.t > from && point.t < to)
}

/// Packets of the bandwidth-delay product of a bandwidth that is a variable, as an acknowledgement at `t` found it.
fn product(of: &Trajectory, bandwidth: f64, t: f64) -> Result<f64, &'static str> {
    Ok(bandwidth * 1e3 / 8.0 * before(of, "min_rtt_ms", t)? / of.mss)
}

/// Losses from one time to another.
fn losses(of: &Trajectory, from: f64, to: f64) -> usize {
    of.losses.iter().filter(|at| (from..=to).contains(*at)).count()
}

/// The first loss at this time or later.
fn first_loss(of: &Trajectory, from: f64) -> Result<f64, &'static str> {
    of.losses.iter().copied().find(|at| *at >= from).ok_or("nothing was lost")
}

/// The value that is farthest from another.
fn farthest(values: impl Iterator<Item = f64>, from: f64) -> Option<f64> {
    values.max_by(|one, other| (one - from).abs().total_cmp(&(other - from).abs()))
}

/// Pace over the share of the bandwidth at which it paces, where it is farthest from `gain`, in a state.
fn pace_over_bandwidth(of: &Trajectory, spell: &Spell, gain: f64) -> Found {
    let ratio = |point: &TrajectoryPoint| {
        let bandwidth = of.value("bw_mbps", point.t).filter(|bandwidth| *bandwidth > 0.0)?;
        Some(of.value("pacing_mbps", point.t)? / PACED / bandwidth)
    };
    let value = farthest(within(of, spell).filter_map(ratio), gain).ok_or("no acknowledgement came in that state")?;
    one(spell.from, spell.to, value)
}

/// Payload delivered over what the link carries.
fn goodput(of: &Trajectory, from: f64, to: f64, link_mbps: f64) -> Found {
    if to > of.end() + 0.1 {
        return Err("it ends too early");
    }
    one(from, to, of.mbps(from, to) / (PAYLOAD * link_mbps))
}
