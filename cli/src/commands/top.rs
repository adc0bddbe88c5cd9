//! `paceline top`: the sockets of shimmed programs, live.

mod table;

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use std::time::Instant;

use clap::ValueEnum;
use paceline_alcc::export::{Line, Process, Unserved, survey};
use serde_json::{Value, json};

use super::{BadValue, count, live};
use crate::complaint;

/// Watch the connections of programs under `paceline shim`.
///
/// Those of this user's programs; for root of everybody's, in containers too. Programs that do not answer within a second are counted,
/// in a line below. On a terminal q leaves, and s sorts by the next column.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// What the table is sorted by.
    #[arg(long, value_enum, default_value_t = Sort::Rate)]
    sort: Sort,
    /// This program alone; may be given again.
    #[arg(long, value_name = "PID", value_parser = count::<u32>)]
    pid: Vec<u32>,
    /// Connections to this address alone: an address, or ADDRESS:PORT; may be given again.
    #[arg(long, value_name = "ADDR", value_parser = peer)]
    peer: Vec<Peer>,
    #[command(flatten)]
    live: live::Live,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut unserved = Unserved::default();
    let mut before = None;
    let mut said = Vec::new();
    let mut sort = args.sort;
    live::show_keyed(&args.live, |space, key| {
        let mut answers = survey();
        args.select(&mut answers.processes);
        answers.missing.extend(unserved.note());
        let notes = answers.notes();
        if args.live.json {
            // Once as long as it stays so.
            notes.iter().filter(|note| !said.contains(*note)).for_each(|note| complaint::print(note));
            said.clone_from(&notes);
            return Ok(as_json(&answers.processes));
        }
        before = Some(as_seen(&mut answers.processes, before.as_ref()));
        if matches!(key, Some(b's' | b'S')) {
            sort = sort.next();
        }
        if space.height == usize::MAX {
            return Ok(table::draw(&answers.processes, &notes, sort, space));
        }
        let hint = live::clipped(&format!("q leaves, s sorts (now by {})", sort.name()), space.width);
        let space = live::Space { height: space.height.saturating_sub(1), ..space };
        Ok(table::draw(&answers.processes, &notes, sort, space) + &hint + "\n")
    })
}

/// What a table is sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sort {
    /// The fastest first.
    Rate,
    /// The longest round trip first.
    Rtt,
    /// The most bytes that wait first.
    Queue,
    /// The largest window first.
    Window,
    /// By the address of the other end.
    Peer,
    /// By process.
    Pid,
}

impl Sort {
    /// The next of them, and the first behind the last.
    fn next(self) -> Self {
        let all = Self::value_variants();
        all[(self as usize + 1) % all.len()]
    }

    /// As `--sort` takes it.
    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// An address, with a port or with any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Peer(IpAddr, Option<u16>);

fn peer(text: &str) -> Result<Peer, BadValue> {
    let whole = text.parse::<SocketAddr>().map(|address| Peer(address.ip(), Some(address.port())));
    let alone = || text.trim_matches(['[', ']']).parse().map(|address| Peer(address, None));
    let bad = |_| BadValue::new("an address", "one such as 192.0.2.1, 192.0.2.1:443 or [2001:db8::1]:443");
    whole.or_else(|_| alone()).map_err(bad)
}

impl Args {
    /// Leaves what was asked for.
    fn select(&self, processes: &mut Vec<Process>) {
        if !self.pid.is_empty() {
            processes.retain(|process| self.pid.contains(&process.pid));
        }
        if self.peer.is_empty() {
            return;
        }
        let wanted = |line: &Line| {
            line.peer.is_some_and(|peer| {
                self.peer.iter().any(|Peer(ip, port)| {
                    peer.ip().to_canonical() == ip.to_canonical() && port.is_none_or(|port| port == peer.port())
                })
            })
        };
        processes.iter_mut().for_each(|process| process.sockets.retain(wanted));
        processes.retain(|process| !process.sockets.is_empty());
    }
}

/// What was delivered by then, by process and socket.
struct Round {
    at: Instant,
    delivered: HashMap<(u32, u64), u64>,
}

/// Replaces rates, which are a flow's newest samples however old, by what arrived since the round before.
fn as_seen(processes: &mut [Process], before: Option<&Round>) -> Round {
    let mut now = Round { at: Instant::now(), delivered: HashMap::new() };
    for process in processes {
        for line in &mut process.sockets {
            let key = (process.pid, line.id);
            let known = before.and_then(|before| Some((before.at, *before.delivered.get(&key)?)));
            if let Some((at, delivered)) = known {
                let seconds = (now.at - at).as_secs_f64().max(1e-3);
                line.rate_mbps = line.delivered_bytes.saturating_sub(delivered) as f64 * 8e-6 / seconds;
            } else if line.in_flight_bytes == 0 && line.queue_bytes == 0 {
                line.rate_mbps = 0.0;
            }
            now.delivered.insert(key, line.delivered_bytes);
        }
    }
    now
}

fn as_json(processes: &[Process]) -> String {
    let mut text = String::new();
    for process in processes {
        for socket in &process.sockets {
            let mut object = json!({ "pid": process.pid, "program": process.program });
            if let (Value::Object(all), Ok(Value::Object(fields))) = (&mut object, serde_json::to_value(socket)) {
                all.extend(fields);
            }
            text += &format!("{object}\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn socket(rate_mbps: f64, delivered_bytes: u64, in_flight_bytes: u64) -> Vec<Process> {
        let line = Line { rate_mbps, delivered_bytes, in_flight_bytes, ..Line::default() };
        vec![Process { pid: 1, sockets: vec![line], ..Process::default() }]
    }

    #[test]
    fn one_program_or_one_peer_alone() {
        use clap::Parser;
        #[derive(Parser)]
        struct Command {
            #[command(flatten)]
            args: Args,
        }
        let left = |options: &[&str]| {
            let line = |peer: &str| Line { peer: peer.parse().ok(), ..Line::default() };
            let process = |pid, peer| Process { pid, sockets: vec![line(peer)], ..Process::default() };
            let mut processes =
                vec![process(1, "192.0.2.1:80"), process(2, "[::ffff:192.0.2.1]:443"), process(3, "[2001:db8::1]:80")];
            let args =
                Command::try_parse_from([&["top"], options].concat()).unwrap_or_else(|error| panic!("{error}")).args;
            args.select(&mut processes);
            processes.iter().map(|process| process.pid).collect::<Vec<_>>()
        };
        assert_eq!(left(&[]), [1, 2, 3]);
        assert_eq!(left(&["--pid", "3", "--pid", "1"]), [1, 3]);
        assert_eq!(left(&["--peer", "192.0.2.1"]), [1, 2]);
        assert_eq!(left(&["--peer", "192.0.2.1:443", "--peer", "2001:db8::1"]), [2, 3]);
        assert!(peer("example.org").unwrap_err().to_string().starts_with("it is not an address; give one"));
    }

    #[test]
    fn rates_are_of_the_last_round() {
        let rate = |processes: &[Process]| processes[0].sockets[0].rate_mbps;
        let mut idle = socket(8.0, 1000, 0);
        let mut before = as_seen(&mut idle, None);
        assert_eq!(rate(&idle), 0.0);
        let mut busy = socket(8.0, 1000, 1);
        as_seen(&mut busy, None);
        assert_eq!(rate(&busy), 8.0);
        before.at -= Duration::from_secs(2);
        let mut later = socket(8.0, 1_001_000, 1);
        as_seen(&mut later, Some(&before));
        assert!((rate(&later) - 4.0).abs() < 0.1, "{}", rate(&later));
    }
}
