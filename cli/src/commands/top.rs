//! `paceline top`: the sockets of shimmed programs, live.

mod table;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use paceline_alcc::export::{Process, processes};
use serde_json::{Value, json};

/// Watch the connections of programs under `paceline shim`: those of this user's programs; for root of everybody's, in
/// containers too.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Once, then end.
    #[arg(long)]
    once: bool,
    /// One JSON object a connection; a line that is empty ends each round.
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
    loop {
        let processes = processes();
        let text = match (args.json, live) {
            (true, _) => as_json(&processes),
            (false, true) => {
                let size = rustix::termios::tcgetwinsize(io::stdout()).ok();
                let size = size.map_or((80, 24), |size| (size.ws_col.into(), size.ws_row.into()));
                on_screen(&table::draw(&processes, size.0, size.1), first)
            }
            (false, false) => table::draw(&processes, usize::MAX, usize::MAX),
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
