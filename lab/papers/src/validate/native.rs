//! Our controllers in the simulator beside native implementations on the same traces.
//!
//! The native figures were measured once: each implementation alone through Mahimahi, the trace downwards and its
//! counterpart upwards, 20 ms each way, 2,000,000 bytes of drop-tail buffer on the downlink, 60 s from the first
//! packet with the start-up, delay = time in the link's queue in whole ms + 20 ms. Copa is genericCC with `auto`,
//! Verus and Sprout are their authors' releases, CUBIC and BBR are Linux 6.18. The traces are not ours to ship: the
//! rows appear when they are given.

use std::sync::Arc;

use paceline_path::Trace;

use super::bench::{BenchError, Dumbbell};
use super::{Group, NamedTrace};
use crate::claim::{Claim, ClaimError};
use paceline_lab::contestant::Contestant;

/// The section's heading.
pub(super) const SECTION: &str = "Beside native implementations";

/// What the section's rows are.
pub(super) const INTRO: &str = "\
    Throughput, and median and 95th percentile of the one-way delay. Each native implementation ran once through Mahimahi: the trace downwards,\n\
    its counterpart upwards, 20 ms each way, 2 MB of drop-tail, 60 s. Copa is genericCC with `auto` (`copa:rules=release` here; `copa` follows\n\
    the paper), Verus and Sprout are their authors' releases, CUBIC and BBR are Linux 6.18, ALCC is its artifact. The traces are not part of\n\
    the project.\n\
    \n";

pub(super) const REASONS: &[&str] = &[AUTOMATIC];

/// How far a figure may be from the native one before it must be explained.
const TOLERANCE: f64 = 0.15;

/// One native measurement: throughput in Mbit/s, one-way delay in ms.
struct Native {
    trace: &'static str,
    ours: &'static str,
    mbps: f64,
    p50: f64,
    p95: f64,
}

const fn native(trace: &'static str, ours: &'static str, mbps: f64, p50: f64, p95: f64) -> Native {
    Native { trace, ours, mbps, p50, p95 }
}

pub(super) const VERIZON: &str = "Verizon-LTE-short.down";
pub(super) const VERIZON_UP: &str = "Verizon-LTE-short.up";
pub(super) const HIGHWAY: &str = "highwayGold";
pub(super) const RAPID: &str = "rapidGold";

/// The traces: downwards, and upwards where that is another file.
pub(super) const TRACES: [&str; 4] = [VERIZON, VERIZON_UP, HIGHWAY, RAPID];

const NATIVE: &[Native] = &[
    native(VERIZON, "copa@udp", 3.17, 28.0, 70.0),
    native(VERIZON, "copa:rules=release@udp", 3.17, 28.0, 70.0),
    native(VERIZON, "copa:delta=0.1,rules=release@udp", 4.21, 46.0, 127.0),
    native(VERIZON, "verus@udp", 4.48, 168.0, 544.0),
    native(VERIZON, "sprout:idle=exact@udp", 2.34, 34.0, 86.0),
    native(VERIZON, "cubic@tcp", 4.73, 2274.0, 4593.0),
    native(VERIZON, "bbr@tcp", 4.59, 143.0, 368.0),
    native(HIGHWAY, "copa@udp", 2.88, 27.0, 56.0),
    native(HIGHWAY, "copa:rules=release@udp", 2.88, 27.0, 56.0),
    native(HIGHWAY, "copa:delta=0.1,rules=release@udp", 6.87, 36.0, 83.0),
    native(HIGHWAY, "copa:delta=0.02,rules=release@udp", 10.56, 107.0, 417.0),
    native(HIGHWAY, "verus@udp", 10.58, 180.0, 424.0),
    native(HIGHWAY, "sprout:idle=exact@udp", 7.21, 44.0, 115.0),
    native(HIGHWAY, "cubic@tcp", 10.90, 1077.0, 1926.0),
    native(HIGHWAY, "bbr@tcp", 10.54, 128.0, 276.0),
    native(HIGHWAY, "copa:delta=0.02,rules=release@alcc", 10.54, 94.0, 255.0),
    native(HIGHWAY, "verus@alcc/cubic", 10.79, 178.0, 339.0),
    native(HIGHWAY, "sprout:idle=exact@alcc/bbr", 4.25, 36.0, 84.0),
    native(RAPID, "copa@udp", 9.77, 24.0, 38.0),
    native(RAPID, "copa:rules=release@udp", 9.77, 24.0, 38.0),
    native(RAPID, "verus@udp", 11.24, 152.0, 278.0),
    native(RAPID, "sprout:idle=exact@udp", 9.94, 35.0, 52.0),
    native(RAPID, "cubic@tcp", 11.36, 972.0, 2323.0),
    native(RAPID, "bbr@tcp", 10.83, 36.0, 198.0),
];

pub(super) fn groups(traces: &[NamedTrace]) -> Result<Vec<Group>, ClaimError> {
    let find = |name: &str| traces.iter().find(|(known, _)| known == name).map(|(_, trace)| Arc::clone(trace));
    let group = |native: &'static Native| {
        let up = if native.trace == VERIZON { VERIZON_UP } else { native.trace };
        let traces = find(native.trace).zip(find(up));
        Group::new(format!("{} on {}", native.ours, native.trace), &[native.ours], move |flows| match &traces {
            Some((down, up)) => compare(&flows[0], native, down, up),
            None => Ok(vec![claim(native).note("the trace was not given")]),
        })
    };
    NATIVE.iter().map(group).collect()
}

/// Throughput, and the quantiles of delay.
fn row(mbps: f64, p50: f64, p95: f64) -> String {
    format!("{mbps:.2} Mbit/s, {p50:.0} / {p95:.0} ms")
}

fn claim(native: &Native) -> Claim {
    let says = row(native.mbps, native.p50, native.p95);
    let claim = Claim::on(SECTION, format!("{} on {}", native.ours, native.trace), says);
    claim.near(native.mbps, TOLERANCE).near(native.p50, TOLERANCE).near(native.p95, TOLERANCE)
}

fn compare(flow: &Contestant, native: &Native, down: &Arc<Trace>, up: &Arc<Trace>) -> Result<Vec<Claim>, BenchError> {
    let mut dumbbell = Dumbbell::on_traces(Arc::clone(down), Arc::clone(up), 40.0, "droptail:bytes=2MB");
    dumbbell = dumbbell.flow(flow, 0.0);
    // The release of Sprout always loads both directions.
    if native.ours.starts_with("sprout") {
        dumbbell = dumbbell.both_ways();
    }
    let run = dumbbell.delayed_acks().run()?;
    let flow = &run.outcome.flows[0];
    let mbps = flow.wire_bytes_arrived as f64 * 8e-6 / run.seconds;
    let quantile = |q| flow.delay.quantile_ms(q).unwrap_or(f64::NAN);
    let (p50, p95) = (quantile(0.5), quantile(0.95));
    let claim = claim(native).measured(row(mbps, p50, p95), &[mbps, p50, p95]);
    let note = if claim.holds() { "" } else { why(native) };
    Ok(vec![claim.note(note)])
}

/// Copa's `auto` at delta 0.02.
const AUTOMATIC: &str = "throughput agrees; the two native runs differ from each other too: how long the automatic mode takes the flow's own queue for a \
    competitor depends on timing noise";

/// Why a figure differs from the native one, where we know.
fn why(native: &Native) -> &'static str {
    match native.ours {
        "copa@udp" => {
            "the paper's rule; the release's, in the next row, leaves capacity unused: it holds the window for the first \
             19 acknowledgements and takes its direction from the sign of the last round's steps"
        }
        copa if copa.starts_with("copa:delta=0.02") => AUTOMATIC,
        "sprout:idle=exact@udp" => "how long the published rule takes its own silence for a slow link is chance",
        "verus@alcc/cubic" => {
            "not explained; over twenty starts within 0.2 s ours has 374 to 511 ms, 402 in the median"
        }
        "sprout:idle=exact@alcc/bbr" => "not explained; the native program is Sprout's port to TCP, with other framing",
        _ => "not explained",
    }
}
