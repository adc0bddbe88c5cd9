//! `paceline top`: the sockets of shimmed programs, live.

mod table;

use std::collections::HashMap;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use paceline_alcc::export::{Process, survey};
use serde_json::{Value, json};

use crate::complaint;

/// Watch the connections of programs under `paceline shim`: those of this user's programs; for root of everybody's, in
/// containers too. Programs that do not answer within a second are counted, in a line below.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Once, then end.
    #[arg(long)]
    once: bool,
    /// One JSON object per connection; a line that is empty ends each round. What may be missing goes to standard error.
    #[arg(long)]
    json: bool,
}

/// Time between rounds.
const ROUND: Duration = Duration::from_secs(1);
/// Start of the screen; what is behind the text is cleared line by line, so that nothing flickers.
const HOME: &str = "\x1b[H";
const CLEAR_LINE: &str = "\x1b[K\n";
const CLEAR_BELOW: &str = "\x1b[J";

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let live = io::stdout().is_terminal() && !args.once && !args.json;
    let mut first = true;
    let mut before = None;
    let mut said = Vec::new();
    loop {
        let mut answers = survey();
        let notes = answers.notes();
        let processes = &mut answers.processes;
        if args.json {
            // Once as long as it stays so.
            notes.iter().filter(|note| !said.contains(*note)).for_each(|note| complaint::print(note));
            said.clone_from(&notes);
        } else {
            before = Some(as_seen(processes, before.as_ref()));
        }
        let text = match (args.json, live) {
            (true, _) => as_json(processes),
            (false, true) => {
                let size = rustix::termios::tcgetwinsize(io::stdout()).ok();
                let size = size.map_or((80, 24), |size| (size.ws_col.into(), size.ws_row.into()));
                on_screen(&table::draw(processes, &notes, size.0, size.1), first)
            }
            (false, false) => table::draw(processes, &notes, usize::MAX, usize::MAX),
        };
        let separator = if first || live { "" } else { "\n" };
        let mut out = io::stdout().lock();
        match write!(out, "{separator}{text}").and_then(|()| out.flush()) {
            // `paceline top | head`
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(ExitCode::SUCCESS),
            result => result?,
        }
        drop(out);
        if args.once {
            return Ok(ExitCode::SUCCESS);
        }
        first = false;
        std::thread::sleep(ROUND);
    }
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

/// A text in the place of the one before.
fn on_screen(text: &str, first: bool) -> String {
    let start = if first { format!("{HOME}{CLEAR_BELOW}") } else { HOME.to_owned() };
    // No end of line behind the last, which would scroll a full screen.
    start + &text.trim_end().replace('\n', CLEAR_LINE) + CLEAR_LINE.trim_end() + CLEAR_BELOW
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
