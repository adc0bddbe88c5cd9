//! `paceline top`: the sockets of shimmed programs, live.

mod table;

use std::collections::HashMap;
use std::process::ExitCode;
use std::time::Instant;

use paceline_alcc::export::{Process, survey};
use serde_json::{Value, json};

use super::live;
use crate::complaint;

/// Watch the connections of programs under `paceline shim`: those of this user's programs; for root of everybody's, in
/// containers too. Programs that do not answer within a second are counted, in a line below.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    live: live::Live,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut before = None;
    let mut said = Vec::new();
    live::show(&args.live, |space| {
        let mut answers = survey();
        let notes = answers.notes();
        if args.live.json {
            // Once as long as it stays so.
            notes.iter().filter(|note| !said.contains(*note)).for_each(|note| complaint::print(note));
            said.clone_from(&notes);
            return Ok(as_json(&answers.processes));
        }
        before = Some(as_seen(&mut answers.processes, before.as_ref()));
        Ok(table::draw(&answers.processes, &notes, space))
    })
}

/// What was delivered by then, by process and socket.
struct Round {
    at: Instant,
    delivered: HashMap<(u32, u64), u64>,
}

/// Replaces rates, which are a flow's newest samples however old, by what came since the round before: nothing where
/// nothing is on its way.
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
    use paceline_alcc::export::Line;

    fn socket(rate_mbps: f64, delivered_bytes: u64, in_flight_bytes: u64) -> Vec<Process> {
        let line = Line { rate_mbps, delivered_bytes, in_flight_bytes, ..Line::default() };
        vec![Process { pid: 1, sockets: vec![line], ..Process::default() }]
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
