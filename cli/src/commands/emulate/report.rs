//! What an emulator leaves behind, for people and for programs.

use std::fmt::Write as _;

use paceline_cc::{Distribution, Nanos};
use paceline_emulator::emulator::{DirectionReport, EmulatorReport};
use paceline_lab::numbers::plain;
use serde_json::json;

/// One line: how late the emulator was, and what it carried.
pub(super) fn summary(report: &EmulatorReport, waited: &[Distribution; 2]) -> String {
    let lateness = &report.lateness;
    let way = |name: &str, way: &DirectionReport, waited: &Distribution| {
        let mut text = format!("{name} {} packets, {} dropped", way.entered.packets, way.dropped.packets);
        if way.left.packets > 0 {
            let queue = |q| plain(waited.quantile_ms(q).unwrap_or(0.0));
            let mbps = plain(mbps(report, way));
            let _ = write!(text, ", {mbps} Mbit/s, queue p50 {} p95 {} ms", queue(0.5), queue(0.95));
        }
        text
    };
    let verdict = match (lateness.count(), report.trusted()) {
        (0, _) => "nothing to judge by",
        (_, true) => "trusted",
        (_, false) => "NOT to be trusted",
    };
    format!(
        "{}; {}; release error p50 {}, p99 {}, max {}; {} of {} later than {}: {verdict}",
        way("down", &report.links[0].down, &waited[0]),
        way("up", &report.links[0].up, &waited[1]),
        micros(lateness.p50()),
        micros(lateness.p99()),
        micros(lateness.max()),
        lateness.late(),
        lateness.count(),
        micros(lateness.bound()),
    )
}

/// What came through, on average from the start to the end.
fn mbps(report: &EmulatorReport, way: &DirectionReport) -> f64 {
    way.left.bytes as f64 * 8e-6 / (report.end.as_nanos() as f64 / 1e9).max(1e-9)
}

/// A time as whole microseconds.
pub(super) fn micros(span: Nanos) -> String {
    format!("{} us", (span.as_nanos() + 500) / 1000)
}

/// The same in full.
pub(super) fn as_json(report: &EmulatorReport, waited: &[Distribution; 2]) -> serde_json::Value {
    let lateness = &report.lateness;
    let us = |span: Nanos| span.as_nanos() as f64 / 1e3;
    let way = |way: &DirectionReport, waited: &Distribution| {
        let queue = |q| waited.quantile_ms(q);
        json!({
            "mbps": mbps(report, way),
            "queue_ms": { "p50": queue(0.5), "p95": queue(0.95), "p99": queue(0.99), "max": waited.max_ms() },
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
        "down": way(&report.links[0].down, &waited[0]),
        "up": way(&report.links[0].up, &waited[1]),
        "version": env!("CARGO_PKG_VERSION"),
    })
}
