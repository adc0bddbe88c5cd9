//! How a run in real time goes on: behind the bar on a terminal, or a line every so often.

use std::io::Write;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use paceline_experiment::{Glance, Live};

use crate::progress::Bar;

/// A thread that looks every so often; it ends with this.
pub(super) struct Watch {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// `lines`: whether lines are wanted, and then whether standard output is taken.
    pub(super) fn begin(live: Arc<Live>, every: Duration, bar: Bar, lines: Option<bool>) -> Self {
        let (end, ended) = channel::<()>();
        let body = move || {
            let (mut name, mut begun, mut before) = (String::new(), Instant::now(), Instant::now());
            while ended.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                let (now, glance) = (Instant::now(), live.glance());
                if live.name() != name {
                    (name, begun) = (live.name(), before);
                }
                if name.is_empty() {
                    continue;
                }
                let line = line(&name, now - begun, now - before, &glance);
                before = now;
                bar.say(&line);
                match lines {
                    Some(false) => bar.beside(|| drop(crate::print::out(&format!("{line}\n")))),
                    // When standard error is closed there is nowhere to report to.
                    Some(true) => bar.beside(|| drop(writeln!(std::io::stderr(), "{line}"))),
                    None => {}
                }
            }
        };
        let thread = std::thread::Builder::new().name("watch".to_owned()).spawn(body).ok();
        Self { end: Some(end), thread }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.end.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn line(name: &str, since: Duration, took: Duration, glance: &Glance) -> String {
    let mbps = glance.bytes as f64 * 8e-6 / took.as_secs_f64().max(1e-9);
    let (mean, most) = (glance.queue.as_millis_f64(), glance.queue_most.as_millis_f64());
    let (since, loss) = (since.as_secs_f64(), 100.0 * glance.loss());
    format!("{name}  {since:.1} s  {mbps:.2} Mbit/s  queue {mean:.1} ms (at most {most:.1})  {loss:.2} % lost")
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_cc::Nanos;

    #[test]
    fn a_line_has_rate_delay_and_loss() {
        let queue = Nanos::from_millis(3);
        let glance = Glance { bytes: 1_500_000, packets: 999, dropped: 1, queue, queue_most: Nanos::from_millis(7) };
        let second = Duration::from_secs(1);
        let expected = "copa@udp run 1  2.0 s  12.00 Mbit/s  queue 3.0 ms (at most 7.0)  0.10 % lost";
        assert_eq!(line("copa@udp run 1", 2 * second, second, &glance), expected);
    }
}
