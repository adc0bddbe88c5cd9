//! `paceline kernel watch`.

use std::cmp::Reverse;
use std::process::ExitCode;

use anyhow::Context;
use paceline_cc::Rate;
use paceline_kernel::MODULES;
use paceline_linux::connections::{Connection, Diagnosis};
use paceline_linux::tcp::TcpInfo;
use serde_json::{Value, json};

use super::super::WatchArgs;
use crate::commands::live::{self, Column, Space, amount, counted, table};

const COLUMNS: [Column; 10] = [
    Column::text("LOCAL", 9),
    Column::text("PEER", 0),
    Column::text("CONTROL", 1),
    Column::number("Mbit/s", 2),
    Column::number("RTT ms", 3),
    Column::number("WINDOW", 4),
    Column::number("IN FLIGHT", 6),
    Column::number("PACING", 7),
    Column::number("RESENT", 8),
    Column::text("STATE", 5),
];

pub(super) fn run(args: &WatchArgs) -> anyhow::Result<ExitCode> {
    let mut diagnosis =
        Diagnosis::open().context("the kernel does not say what its connections are (CONFIG_INET_DIAG)")?;
    live::show(&args.live, |space| {
        let mut all = diagnosis.all()?;
        all.retain(|one| args.all || MODULES.iter().any(|module| module.name == one.controller));
        Ok(if args.live.json { all.iter().map(|one| format!("{}\n", object(one))).collect() } else { draw(all, space) })
    })
}

/// A line of sums, then the fastest connections first.
fn draw(mut connections: Vec<Connection>, space: Space) -> String {
    connections.sort_by_key(|one| (Reverse(one.info.rate), one.local, one.remote));
    let heading = match connections.len() {
        0 => "no connection of this network namespace uses a module of paceline's (--all shows others)".to_owned(),
        count => format!("{} (window and flight in packets, pacing in Mbit/s)", counted(count, "connection")),
    };
    table(&heading, &COLUMNS, connections.iter().map(cells).collect(), space)
}

fn cells(one: &Connection) -> Vec<String> {
    let info = &one.info;
    let unknown = || "-".to_owned();
    vec![
        one.local.to_string(),
        one.remote.to_string(),
        one.controller.clone(),
        amount(info.rate.as_mbps()),
        rtt_ms(one).map_or_else(unknown, amount),
        info.cwnd.to_string(),
        info.in_flight().to_string(),
        pacing_mbps(info).map_or_else(unknown, amount),
        info.retransmits.to_string(),
        state(one).to_owned(),
    ]
}

/// How it stands with losses, or that it ends.
fn state(one: &Connection) -> &'static str {
    if one.info.is_connected() { one.info.recovery.name() } else { "closing" }
}

fn rtt_ms(one: &Connection) -> Option<f64> {
    let nanos = one.info.rtt.as_nanos();
    (nanos > 0).then_some(nanos as f64 / 1e6)
}

fn pacing_mbps(info: &TcpInfo) -> Option<f64> {
    info.pacing().map(Rate::as_mbps)
}

fn object(one: &Connection) -> Value {
    let info = &one.info;
    json!({
        "local": one.local,
        "peer": one.remote,
        "controller": one.controller,
        "state": state(one),
        "window_packets": info.cwnd,
        "threshold_packets": info.threshold(),
        "packet_bytes": info.mss,
        "in_flight_packets": info.in_flight(),
        "pacing_mbps": pacing_mbps(info),
        "delivery_mbps": info.rate.as_mbps(),
        "rtt_ms": rtt_ms(one),
        "delivered_bytes": info.acked,
        "retransmits": info.retransmits,
        "timeouts": info.timeouts,
        "ce_packets": info.ce,
    })
}
