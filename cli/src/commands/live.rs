//! What is looked at again and again: a table in the place of the one before on a terminal, one text after the other elsewhere.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};

use crate::exit::Exit;
use crate::terminal;

/// Time between rounds.
const ROUND: Duration = Duration::from_secs(1);
/// Start of the screen; what is behind the text is cleared line by line, so that nothing flickers.
const HOME: &str = "\x1b[H";
const CLEAR_LINE: &str = "\x1b[K\n";
const CLEAR_BELOW: &str = "\x1b[J";

/// How long it goes on, and for whom.
#[derive(clap::Args)]
pub(super) struct Live {
    /// Once, then end.
    #[arg(long)]
    pub(super) once: bool,
    /// One JSON object per connection; a line that is empty ends each round. What may be missing goes to standard error.
    #[arg(long)]
    pub(super) json: bool,
}

/// The space for a text: columns and rows.
#[derive(Clone, Copy)]
pub(super) struct Space {
    pub(super) width: usize,
    pub(super) height: usize,
}

impl Space {
    pub(super) const ANY: Self = Self { width: usize::MAX, height: usize::MAX };
}

/// Shows a text each second, until no one reads it.
#[cfg(feature = "ebpf")]
pub(super) fn show(args: &Live, mut text: impl FnMut(Space) -> anyhow::Result<String>) -> anyhow::Result<ExitCode> {
    show_keyed(args, |space, _| text(space))
}

/// Shows a text each second, until no one reads it or `q` is pressed. `text` gets any other key.
///
/// # Errors
/// What `text` fails for, or standard output.
pub(super) fn show_keyed(
    args: &Live,
    mut text: impl FnMut(Space, Option<u8>) -> anyhow::Result<String>,
) -> anyhow::Result<ExitCode> {
    let live = io::stdout().is_terminal() && terminal::obeys() && !args.once && !args.json;
    let keys = live.then(Keys::begin).flatten();
    let (mut first, mut key) = (true, None);
    loop {
        let text = if live { on_screen(&text(screen(), key)?, first) } else { text(Space::ANY, None)? };
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
        key = match &keys {
            None => {
                std::thread::sleep(ROUND);
                None
            }
            Some(keys) => match keys.pressed(ROUND) {
                // q, Ctrl-D, Ctrl-C.
                Some(b'q' | b'Q' | 4) => return Ok(ended(ExitCode::SUCCESS)),
                Some(3) => return Ok(ended(Exit::Interrupted.into())),
                other => other,
            },
        };
    }
}

/// The shell's next line starts below the table.
fn ended(status: ExitCode) -> ExitCode {
    let _ = crate::print::out("\n");
    status
}

/// Keys as they are pressed, not shown; the terminal is as it was when this ends.
struct Keys {
    before: Termios,
}

impl Keys {
    /// Where standard input is a terminal.
    fn begin() -> Option<Self> {
        let before = tcgetattr(io::stdin()).ok()?;
        let mut now = before.clone();
        now.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
        // Ctrl-C is read: a signal would leave the terminal like this.
        now.special_codes[SpecialCodeIndex::VINTR] = 0;
        now.special_codes[SpecialCodeIndex::VQUIT] = 0;
        now.special_codes[SpecialCodeIndex::VMIN] = 1;
        now.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(io::stdin(), OptionalActions::Now, &now).ok()?;
        Some(Self { before })
    }

    /// The key that was pressed last; waits for one at most this long.
    fn pressed(&self, wait: Duration) -> Option<u8> {
        let stdin = io::stdin();
        let mut ends = [PollFd::new(&stdin, PollFlags::IN)];
        let ready = poll(&mut ends, Some(&Timespec::try_from(wait).ok()?)).is_ok_and(|ready| ready > 0);
        let mut keys = [0; 64];
        let read = if ready { rustix::io::read(&stdin, &mut keys).unwrap_or(0) } else { 0 };
        if ready && read == 0 {
            // The terminal is gone: no one presses anything, and polling would never wait.
            std::thread::sleep(wait);
        }
        keys[..read].last().copied()
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

fn screen() -> Space {
    let (width, height) = terminal::size(io::stdout());
    Space { width, height }
}

/// A text in the place of the one before.
fn on_screen(text: &str, first: bool) -> String {
    let start = if first { format!("{HOME}{CLEAR_BELOW}") } else { HOME.to_owned() };
    // No end of line behind the last, which would scroll a full screen.
    start + &text.trim_end().replace('\n', CLEAR_LINE) + CLEAR_LINE.trim_end() + CLEAR_BELOW
}

/// A column's title, and how it is set.
#[derive(Clone, Copy)]
pub(super) struct Column {
    pub(super) title: &'static str,
    /// How soon it is left out when there is too little space: the highest goes first.
    pub(super) dispensable: u8,
    /// Numbers stand at the right.
    pub(super) number: bool,
}

#[cfg(feature = "ebpf")]
impl Column {
    /// Of words.
    pub(super) const fn text(title: &'static str, dispensable: u8) -> Self {
        Self { title, dispensable, number: false }
    }

    /// Of numbers.
    pub(super) const fn number(title: &'static str, dispensable: u8) -> Self {
        Self { title, dispensable, number: true }
    }
}

/// Between columns.
const GAP: usize = 2;

/// A heading, the titles, and one line a row, as many columns and rows as there is space for; the rest is counted.
pub(super) fn table(heading: &str, columns: &[Column], mut rows: Vec<Vec<String>>, space: Space) -> String {
    let mut text = clipped(heading, space.width) + "\n";
    if rows.is_empty() {
        return text;
    }
    // The heading, the titles, and what is left out.
    let room = space.height.saturating_sub(3).max(1);
    let left_out = rows.len().saturating_sub(room);
    rows.truncate(room);
    rows.insert(0, columns.iter().map(|column| column.title.to_owned()).collect());
    let longest = |index: usize| rows.iter().map(|row| row[index].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns.len()).map(longest).collect();
    let shown = shown(columns, &widths, space.width);
    for row in &rows {
        let cells = shown.iter().map(|&index| {
            let (cell, width) = (&row[index], widths[index]);
            if columns[index].number { format!("{cell:>width$}") } else { format!("{cell:width$}") }
        });
        let line = cells.collect::<Vec<_>>().join(&" ".repeat(GAP));
        text += &(clipped(line.trim_end(), space.width) + "\n");
    }
    if left_out > 0 {
        text += &(clipped(&format!("and {left_out} more"), space.width) + "\n");
    }
    text
}

/// The columns that fit, in their order.
fn shown(columns: &[Column], widths: &[usize], room: usize) -> Vec<usize> {
    let mut shown: Vec<usize> = (0..widths.len()).collect();
    let needed = |shown: &[usize]| shown.iter().map(|&index| widths[index] + GAP).sum::<usize>() - GAP;
    while shown.len() > 1 && needed(&shown) > room {
        let Some(most) = (0..shown.len()).max_by_key(|&at| columns[shown[at]].dispensable) else { break };
        shown.remove(most);
    }
    shown
}

pub(super) fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

pub(super) fn clipped(text: &str, width: usize) -> String {
    text.chars().take(width).collect()
}

/// Three significant digits, as far as a column takes them.
pub(super) fn amount(value: f64) -> String {
    match value {
        // The sum of nothing is -0.
        value if value < 9.995 => format!("{:.2}", value + 0.0),
        value if value < 99.95 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}
