//! Packets of one direction in the log format of Mahimahi's `mm-link`, for its graphs and for scripts that read it.
//!
//! Source: the link queue of Mahimahi's release, whose lines are `TIME + BYTES` (a packet arrived), `TIME - BYTES DELAY` (it
//! left the link, after this delay in it), `TIME # BYTES` (a delivery opportunity) and `TIME d PACKETS BYTES` (dropped);
//! times in milliseconds.
//!
//! What differs: bytes are those of the IP packet (Mahimahi's have 4 more, the header of its tunnel); the opportunities of
//! a millisecond are one line with the sum of their bytes, and links of a rate have such lines as well, with what they
//! can carry since the millisecond before. The link is the path's
//! first; the delay counts what the packet waited for and its transmission, and not the distance behind the link.

use std::collections::BTreeMap;
use std::io::{self, Write};

use paceline_cc::{Nanos, Time};
use paceline_experiment::DumbbellWay;
use paceline_path::Schedule;

use crate::emulator::{EmulatorTap, Passage};
use crate::log::{LogLost, Sink};
use paceline_linux::clock::Clock;

/// Lines kept to put them in order (our choice). A line waits for departures before it, whose packets still are on the
/// distance behind the link.
const KEPT: usize = 1 << 16;

/// A packet log of one direction in Mahimahi's format.
pub struct Mahimahi {
    name: String,
    sink: Sink,
    direction: DumbbellWay,
    schedule: Option<Schedule>,
    /// Lines in the order of their times, then of their writing.
    kept: BTreeMap<(u64, u64), String>,
    lines: u64,
    /// The first millisecond whose opportunities are not written yet.
    opportunities: u64,
}

impl Mahimahi {
    /// Begins a log of `direction`, whose link has `schedule` (`None`: no opportunities are written). `name` is for messages;
    /// `clock` is the emulator's; `place` puts the written file in its place.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub fn new<W: Write + Send + 'static>(
        name: &str,
        file: W,
        clock: Clock,
        direction: DumbbellWay,
        schedule: Option<Schedule>,
        place: impl FnOnce(W) -> io::Result<()> + Send + 'static,
    ) -> io::Result<Self> {
        let mut sink = Sink::new(file, place)?;
        let link = if direction == DumbbellWay::Down { "downlink" } else { "uplink" };
        let started = clock.unix_nanos(Time::ZERO) / 1_000_000;
        writeln!(sink, "# mahimahi mm-link ({link}), written by paceline\n# init timestamp: {started}")?;
        writeln!(sink, "# base timestamp: 0")?;
        let name = name.to_owned();
        Ok(Self { name, sink, direction, schedule, kept: BTreeMap::new(), lines: 0, opportunities: 1 })
    }

    fn keep(&mut self, at: Time, rest: &str) {
        self.lines += 1;
        let milli = at.as_nanos() / 1_000_000;
        self.kept.insert((milli, self.lines), format!("{milli} {rest}"));
        if self.kept.len() > KEPT
            && let Some(((milli, _), _)) = self.kept.first_key_value()
        {
            self.write_before(milli + 1);
        }
    }

    /// Writes the lines of the milliseconds before this one.
    fn write_before(&mut self, milli: u64) {
        let later = self.kept.split_off(&(milli, 0));
        for ((at, _), line) in std::mem::replace(&mut self.kept, later) {
            self.write_opportunities(at + 1);
            // A sink never refuses; it says at the end what went wrong.
            let _ = writeln!(self.sink, "{line}");
        }
    }

    fn write_opportunities(&mut self, before: u64) {
        let Some(schedule) = &self.schedule else { return };
        for milli in self.opportunities..before {
            let by = Time::from_millis(milli);
            let bytes = schedule.capacity(by - Nanos::from_millis(1), by);
            if bytes > 0 {
                let _ = writeln!(self.sink, "{milli} # {bytes}");
            }
        }
        self.opportunities = self.opportunities.max(before);
    }
}

impl EmulatorTap for Mahimahi {
    fn entered(&mut self, passage: &Passage<'_>) {
        if passage.direction == self.direction {
            self.keep(passage.entered, &format!("+ {}", passage.bytes.len()));
        }
    }

    fn left(&mut self, passage: &Passage<'_>) {
        if passage.direction == self.direction {
            let inside = passage.delay.queue + passage.delay.transmission;
            let departed = passage.entered + inside;
            self.keep(departed, &format!("- {} {}", passage.bytes.len(), inside.as_nanos() / 1_000_000));
            self.write_before(departed.as_nanos() / 1_000_000);
        }
    }

    fn dropped(&mut self, passage: &Passage<'_>) {
        if passage.direction == self.direction {
            self.keep(passage.at, &format!("d 1 {}", passage.bytes.len()));
        }
    }

    fn finish(&mut self) -> Result<(), LogLost> {
        self.write_before(u64::MAX);
        self.sink.finish().map_err(|problem| LogLost { name: self.name.clone(), problem })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_path::{DelaySplit, Trace};
    use std::sync::{Arc, Mutex};

    #[test]
    fn lines_are_in_order_and_opportunities_between_them() {
        let file = Arc::new(Mutex::new(Vec::new()));
        let placed = Arc::clone(&file);
        let place = move |written| {
            *placed.lock().unwrap() = written;
            Ok(())
        };
        let trace = Trace::from_millis("t", vec![1, 1, 4]).unwrap();
        let schedule = Some(Schedule::from_trace(Arc::new(trace)));
        let clock = Clock::new();
        let mut log = Mahimahi::new("m.log", Vec::new(), clock, DumbbellWay::Down, schedule, place).unwrap();
        let ms = Nanos::from_millis;
        let passage = |entered: u64, bytes: &'static [u8]| {
            let (entered, delay) = (Time::from_millis(entered), DelaySplit::default());
            let (direction, released) = (DumbbellWay::Down, Time::NEVER);
            Passage {
                link: 0,
                direction,
                id: 0,
                bytes,
                entered,
                at: entered,
                released,
                delay,
                marked: false,
                reason: None,
            }
        };
        let first = passage(0, &[0; 1500]);
        log.entered(&first);
        log.entered(&passage(3, &[0; 40]));
        log.dropped(&passage(3, &[0; 40]));
        log.entered(&Passage { direction: DumbbellWay::Up, ..first });
        // Left the link at 1 ms, and 20 ms later the path.
        let delay = DelaySplit { propagation: ms(20), queue: ms(1), transmission: Nanos::ZERO };
        log.left(&Passage { at: Time::from_millis(21), delay, ..first });
        log.entered(&passage(6, &[0; 600]));
        log.finish().unwrap();
        let text = String::from_utf8(file.lock().unwrap().clone()).unwrap();
        let started = clock.unix_nanos(Time::ZERO) / 1_000_000;
        let wanted = format!(
            "# mahimahi mm-link (downlink), written by paceline\n# init timestamp: {started}\n# base timestamp: 0\n\
             0 + 1500\n1 # 3000\n1 - 1500 1\n3 + 40\n3 d 1 40\n4 # 1500\n5 # 3000\n6 + 600\n"
        );
        assert_eq!(text, wanted);
    }
}
