//! `paceline int watch`.

use std::cmp::Reverse;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use paceline_cc::Cause;
use paceline_int::bus::board::{BoardFlow, BoardQueue, BoardView, LivePublisher};
use paceline_int::bus::{Board, SubjectFilter, Subscription};

use super::super::WatchArgs;
use super::metrics;
use crate::commands::live::{self, Column, Space, amount, counted, table};

const FLOWS: [Column; 11] = [
    Column::text("SENDER", 9),
    Column::text("RECEIVER", 0),
    Column::text("PATH", 5),
    Column::number("ROOM", 3),
    Column::number("QUEUE kB", 6),
    Column::number("WINDOW", 1),
    Column::number("MEDIUM %", 2),
    Column::number("QUEUE %", 2),
    Column::number("UNKNOWN %", 7),
    Column::number("DELAY ms", 4),
    Column::text("VERDICT", 8),
];

const HOPS: [Column; 10] = [
    Column::number("NODE", 0),
    Column::number("EGRESS", 1),
    Column::number("ROOM", 2),
    Column::number("LIMIT", 5),
    Column::number("QUEUE kB", 6),
    Column::number("PACKETS/s", 3),
    Column::number("FLOWS", 4),
    Column::number("DROPS", 2),
    Column::number("LINK LOSSES", 7),
    Column::number("SIGNAL dBm", 8),
];

const ENDS: [Column; 8] = [
    Column::text("ROLE", 1),
    Column::text("NAME", 0),
    Column::number("UP s", 5),
    Column::number("SILENT s", 2),
    Column::number("FLOWS", 4),
    Column::number("PUBLISHED", 6),
    Column::number("DROPPED", 3),
    Column::number("REFUSED", 3),
];

/// Messages are taken in for this long before anything is shown. Our choice: a sign of life and ten reports of a hop.
const FIRST: Duration = Duration::from_millis(1200);
/// How long a message is waited for at a time.
const STEP: Duration = Duration::from_secs(1);

pub(super) fn run(args: &WatchArgs) -> anyhow::Result<ExitCode> {
    let board = Arc::new(Mutex::new(Board::default()));
    let _metrics = args.metrics.map(|address| metrics::answer(address, &board)).transpose()?;
    let _otlp = args.otlp.as_ref().map(|url| metrics::send(url, &board)).transpose()?;
    let bus = args.bus.open(None)?;
    let messages = bus.subscribe(&[SubjectFilter::Flows, SubjectFilter::Nodes, SubjectFilter::Health])?;
    let taken = board.clone();
    thread::Builder::new().name("watch".to_owned()).spawn(move || take(&taken, &messages))?;
    thread::sleep(FIRST);
    let view = BoardView::of(args.hops, args.ends);
    live::show(&args.live, |space| {
        let mut board = board.lock().unwrap_or_else(PoisonError::into_inner);
        board.forget(Instant::now());
        let objects = || board.objects(view).iter().map(|object| format!("{object}\n")).collect();
        Ok(if args.live.json { objects() } else { draw(&board, args, space) })
    })
}

/// Takes in what comes, until the process ends.
fn take(board: &Mutex<Board>, messages: &Subscription) {
    loop {
        if let Some(message) = messages.next(STEP) {
            board.lock().unwrap_or_else(PoisonError::into_inner).take(&message, Instant::now());
        }
    }
}

fn draw(board: &Board, args: &WatchArgs, space: Space) -> String {
    if args.hops {
        let heading = match board.queues.len() {
            0 => "no hop reports, and no packet has a record of one".to_owned(),
            count => {
                format!("{} (room and limit in packets; drops and losses since this began)", counted(count, "queue"))
            }
        };
        return table(&heading, &HOPS, board.queues.iter().map(|(key, queue)| hop(*key, queue)).collect(), space);
    }
    if args.ends {
        let heading = match board.ends.len() {
            0 => "no end of the bus has given a sign of life".to_owned(),
            count => counted(count, "end"),
        };
        let rows = board.ends.iter().map(|((role, name), one)| end(role.into(), name, one)).collect();
        return table(&heading, &ENDS, rows, space);
    }
    let mut flows: Vec<&BoardFlow> = board.flows.values().collect();
    flows.sort_by_key(|flow| (Reverse(flow.packets.received), flow.report.tuple));
    let heading = match flows.len() {
        0 => "no reports: is there a sink, and does its bus, domain and key fit? --ends shows who is there".to_owned(),
        count => format!("{} (room and window in packets; losses since this began)", counted(count, "flow")),
    };
    table(&heading, &FLOWS, flows.into_iter().map(cells).collect(), space)
}

fn unknown() -> String {
    "-".to_owned()
}

fn shown<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(unknown, |value| value.to_string())
}

fn kilobytes(bytes: Option<u32>) -> String {
    bytes.map_or_else(unknown, |bytes| amount(f64::from(bytes) / 1e3))
}

fn cells(flow: &BoardFlow) -> Vec<String> {
    let report = &flow.report;
    let tuple = &report.tuple;
    let share = |lost: u64| amount(100.0 * lost as f64 / flow.packets.expected.max(1) as f64);
    let bottleneck = report.bottleneck();
    vec![
        format!("[{}]:{}", tuple.src, tuple.sport),
        format!("[{}]:{}", tuple.dst, tuple.dport),
        flow.path.clone(),
        shown(bottleneck.and_then(|hop| hop.avail_pkts)),
        kilobytes(bottleneck.and_then(|hop| hop.qbytes)),
        shown(report.cwnd_echo),
        share(flow.packets.lost_medium),
        share(flow.packets.lost_congestion),
        share(flow.packets.lost_unknown),
        report.lat_us.map_or_else(unknown, |latency| amount(latency.avg as f64 / 1e3)),
        verdict(report.verdict).to_owned(),
    ]
}

const fn verdict(cause: Cause) -> &'static str {
    match cause {
        Cause::Medium => "medium",
        Cause::Congestion => "congestion",
        Cause::Policer => "policer",
        _ => "-",
    }
}

fn hop((node, egress): (u32, u16), queue: &BoardQueue) -> Vec<String> {
    let newest = &queue.newest;
    vec![
        node.to_string(),
        shown((egress != u16::MAX).then_some(egress)),
        shown(newest.avail_pkts),
        shown(newest.limit_pkts),
        kilobytes(newest.qbytes),
        shown(newest.rate_pps),
        shown(newest.flows),
        queue.drops.to_string(),
        queue.link_losses.to_string(),
        shown(newest.rssi),
    ]
}

fn end(role: &str, name: &str, end: &LivePublisher) -> Vec<String> {
    let health = &end.health;
    vec![
        role.to_owned(),
        name.to_owned(),
        health.up_s.to_string(),
        amount(end.heard.elapsed().as_secs_f64()),
        health.flows.to_string(),
        health.published.to_string(),
        health.dropped.to_string(),
        health.refused.to_string(),
    ]
}
