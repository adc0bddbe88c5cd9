//! How far it is: a bar on standard error, where that is a terminal.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use paceline_lab::runner::{Batch, Progress};

use crate::terminal;

/// What takes longer than this on the wall's clock is announced (our choice).
const LONG: Duration = Duration::from_secs(60);

/// When the expected duration is printed beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Announce {
    /// Always.
    Always,
    /// Where standard error is a terminal.
    OnTerminals,
}

/// The form of a bar of bytes.
#[cfg(target_os = "linux")]
pub(crate) const BYTES: &str = "{bytes} of {total_bytes} [{wide_bar}] {binary_bytes_per_sec}, {eta} left";

/// A bar in this form (`indicatif`'s templates) on standard error, where that is a terminal.
pub(crate) fn drawn(template: &str) -> ProgressBar {
    if !terminal::draws() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::new(0).with_style(style);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// A bar of runs.
#[derive(Clone)]
pub(crate) struct Bar {
    bar: ProgressBar,
    announces: bool,
}

impl Bar {
    /// In this form (`indicatif`'s templates).
    pub(crate) fn new(template: &str, announce: Announce) -> Self {
        let announces = std::io::stderr().is_terminal() || announce == Announce::Always;
        Self { bar: drawn(template), announces }
    }

    /// Says something behind it.
    pub(crate) fn say(&self, text: &str) {
        self.bar.set_message(text.to_owned());
    }

    /// Prints a line without disturbing it.
    pub(crate) fn beside(&self, print: impl FnOnce()) {
        self.bar.suspend(print);
    }

    /// A bar of files to be read.
    pub(crate) fn of_files(files: usize) -> Self {
        let bar = Self::new("{bar:40} {pos}/{len} {msg}", Announce::OnTerminals);
        bar.bar.inc_length(files as u64);
        bar
    }

    /// The next file is read.
    pub(crate) fn file(&self, name: &str) {
        self.bar.set_message(name.to_owned());
        self.bar.inc(1);
    }

    /// One in this form (`indicatif`'s templates) while `work` goes on.
    pub(crate) fn during<T>(template: &str, announce: Announce, work: impl FnOnce(&Self) -> T) -> T {
        let bar = Self::new(template, announce);
        let done = work(&bar);
        bar.finish();
        done
    }

    /// Takes it off the terminal.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl Progress for Bar {
    fn part(&self, name: &str) {
        self.bar.set_message(name.to_owned());
    }

    fn command(&self, line: &str) {
        // A line of a script is not to pass for a command of its own.
        let lines = line.lines().map(crate::complaint::one_line).collect::<Vec<_>>();
        self.beside(|| eprintln!("{}", lines.join("\n  | ")));
    }

    fn begin(&self, batch: &Batch) {
        self.bar.inc_length(batch.tasks as u64);
        if self.announces && batch.lasts > LONG {
            self.bar.suspend(|| eprintln!("{}", announcement(batch)));
        }
    }

    fn ended(&self) {
        self.bar.inc(1);
    }
}

fn announcement(batch: &Batch) -> String {
    let minutes = (batch.lasts.as_secs_f64() / 60.0).ceil();
    let at_once = if batch.threads > 1 { format!(", {} at once", batch.threads) } else { String::new() };
    format!("{} runs in real time{at_once}: about {minutes} min", batch.tasks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_long_is_announced_in_minutes() {
        let batch = Batch { tasks: 12, threads: 1, lasts: Duration::from_secs(121) };
        assert_eq!(announcement(&batch), "12 runs in real time: about 3 min");
        assert_eq!(announcement(&Batch { threads: 2, ..batch }), "12 runs in real time, 2 at once: about 3 min");
    }
}
