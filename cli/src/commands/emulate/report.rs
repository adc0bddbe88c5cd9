//! What an emulator leaves behind, for people and for programs.

use paceline_cc::Nanos;
use paceline_emulator::emulator::{DirectionReport, EmulatorReport};
use serde_json::json;

/// One line: how late the emulator was, and what it carried.
pub(super) fn summary(report: &EmulatorReport) -> String {
    let lateness = &report.lateness;
    let way = |name: &str, way: &DirectionReport| {
        format!("{name} {} packets, {} dropped", way.entered.packets, way.dropped.packets)
    };
    let verdict = match (lateness.count(), report.trusted()) {
        (0, _) => "nothing to judge by",
        (_, true) => "trusted",
        (_, false) => "NOT to be trusted",
    };
    format!(
        "{}, {}; release error p50 {}, p99 {}, max {}; {} of {} later than {}: {verdict}",
        way("down", &report.links[0].down),
        way("up", &report.links[0].up),
        micros(lateness.p50()),
        micros(lateness.p99()),
        micros(lateness.max()),
        lateness.late(),
        lateness.count(),
        micros(lateness.bound()),
    )
}

/// A time as whole microseconds.
pub(super) fn micros(span: Nanos) -> String {
    format!("{} us", (span.as_nanos() + 500) / 1000)
}

/// The same in full.
pub(super) fn as_json(report: &EmulatorReport) -> serde_json::Value {
    let lateness = &report.lateness;
    let us = |span: Nanos| span.as_nanos() as f64 / 1e3;
    let way = |way: &DirectionReport| {
        json!({
            "packets": way.entered.packets,
            "bytes": way.entered.bytes,
            "delivered_packets": way.left.packets,
            "delivered_bytes": way.left.bytes,
            "dropped_packets": way.dropped.packets,
            "overflowed_packets": way.overflowed,
            "refused_packets": way.refused,
        })
    };
    json!({
        "seconds": report.end.as_nanos() as f64 / 1e9,
        "cpu_s": report.cpu.as_nanos() as f64 / 1e9,
        "scheduling": report.scheduling.to_string(),
        "release_error_us": { "p50": us(lateness.p50()), "p99": us(lateness.p99()), "max": us(lateness.max()) },
        "moments": lateness.count(),
        "late": lateness.late(),
        "bound_us": us(lateness.bound()),
        "trusted": report.trusted(),
        "down": way(&report.links[0].down),
        "up": way(&report.links[0].up),
        "version": env!("CARGO_PKG_VERSION"),
    })
}
