//! Feeding the events of a log to a controller.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::BufRead;

use super::event::Recorded;
use super::field::Field;
use super::reader::{Line, LogError, Reader};
use super::{Constants, Header, Variables};
use crate::controller::{Acked, Controller, Lost};
use crate::foreign::clipped;
use crate::observe::{Answers, Reply};
use crate::units::Time;

/// The first answer in which a controller differs from the recorded one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{name}:{line}: after '{event}' the controller answers {replayed} as its {answer}, and the log says {recorded}"
)]
pub struct Mismatch {
    /// Name of the log.
    pub name: String,
    /// Which line, from 1; the header is the first.
    pub line: usize,
    /// The event of that line; `start` in the header.
    pub event: &'static str,
    /// Which answer, or `variable NAME`.
    pub answer: Cow<'static, str>,
    /// What was recorded.
    pub recorded: String,
    /// What the controller answers now.
    pub replayed: String,
}

/// Why a replay did not come to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The log is at fault.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The controller answers otherwise.
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
}

/// Feeds the events of a log to `controller`, which has seen none, and compares each of its answers with the recorded one.
/// Says how many events there were.
///
/// # Errors
/// [`Mismatch`] at the first difference, or what is wrong with the log.
pub fn replay<R: BufRead>(reader: &mut Reader<R>, controller: &mut dyn Controller) -> Result<u64, ReplayError> {
    let name = reader.name().to_owned();
    let Header { constants, answers, variables, .. } = reader.header();
    let compare = Compare { name: &name, line: 1, event: "start" };
    compare.constants(constants, &Constants::of(controller))?;
    compare.answers(answers, &Answers::of(controller))?;
    compare.variables(variables.as_ref(), controller)?;
    let mut events = 0;
    for line in reader {
        let Line { number, event, answers, variables } = line?;
        let reply = event.feed(controller);
        let compare = Compare { name: &name, line: number, event: event.name() };
        compare.replies(event.reply(), reply)?;
        compare.answers(&answers, &Answers::of(controller))?;
        compare.variables(variables.as_ref(), controller)?;
        events += 1;
    }
    Ok(events)
}

struct Compare<'a> {
    name: &'a str,
    line: usize,
    event: &'static str,
}

impl Compare<'_> {
    fn equal<T: Field + Copy + PartialEq>(
        &self,
        answer: &'static str,
        recorded: T,
        replayed: T,
    ) -> Result<(), Mismatch> {
        if recorded == replayed {
            return Ok(());
        }
        let written = |value: T| {
            let mut text = String::new();
            value.write(&mut text);
            if text.is_empty() { "nothing".to_owned() } else { text }
        };
        Err(self.mismatch(answer.into(), written(recorded), written(replayed)))
    }

    fn mismatch(&self, answer: Cow<'static, str>, recorded: String, replayed: String) -> Mismatch {
        Mismatch { name: self.name.to_owned(), line: self.line, event: self.event, answer, recorded, replayed }
    }

    /// The controller's own variables, where the log has them.
    fn variables(&self, recorded: Option<&Variables>, controller: &dyn Controller) -> Result<(), Mismatch> {
        let Some(recorded) = recorded else { return Ok(()) };
        let replayed = Variables::of(controller);
        let Some((name, recorded, replayed)) = recorded.first_difference(&replayed) else { return Ok(()) };
        let written = |value: Option<f64>| value.map_or_else(|| "nothing".to_owned(), |value| format!("{value:?}"));
        Err(self.mismatch(format!("variable {}", clipped(name)).into(), written(recorded), written(replayed)))
    }

    fn constants(&self, recorded: &Constants, replayed: &Constants) -> Result<(), Mismatch> {
        let Constants { recovery, ecn, heartbeat } = *recorded;
        self.equal("recovery", recovery, replayed.recovery)?;
        self.equal("ecn", ecn, replayed.ecn)?;
        self.equal("heartbeat", heartbeat, replayed.heartbeat)
    }

    fn answers(&self, recorded: &Answers, replayed: &Answers) -> Result<(), Mismatch> {
        let Answers { window, pacing, next_tick, threshold, holds_against_marks } = *recorded;
        self.equal("window", window, replayed.window)?;
        self.equal("pacing", pacing, replayed.pacing)?;
        self.equal("next_tick", next_tick, replayed.next_tick)?;
        self.equal("threshold", threshold, replayed.threshold)?;
        self.equal("holds_against_marks", holds_against_marks, replayed.holds_against_marks)
    }

    fn replies(&self, recorded: Reply, replayed: Reply) -> Result<(), Mismatch> {
        match (recorded, replayed) {
            (Reply::Stamp(recorded), Reply::Stamp(replayed)) => self.equal("stamp", recorded, replayed),
            (Reply::Refused(recorded), Reply::Refused(replayed)) => self.equal("refused", recorded, replayed),
            _ => Ok(()),
        }
    }
}

/// Feeds the events of another controller's log to one: what it would have answered, although the flow went its recorded way.
/// Its own tags come back to it in place of the recorded ones.
pub struct Substitute {
    controller: Box<dyn Controller>,
    /// The tags of packets that may come back, by position and time of sending.
    tags: BTreeMap<(u64, Time), u64>,
}

impl Substitute {
    /// Of a controller that has seen nothing.
    pub fn new(controller: Box<dyn Controller>) -> Self {
        Self { controller, tags: BTreeMap::new() }
    }

    /// Feeds one event.
    pub fn feed(&mut self, event: &Recorded) -> Answers {
        match event {
            Recorded::Sent(sent, _) => {
                // The stamp of an empty packet does not come back.
                if let Reply::Stamp(stamp) = event.feed(self.controller.as_mut())
                    && sent.bytes > 0
                {
                    self.tags.insert((sent.seq, sent.now), stamp.tag);
                }
            }
            Recorded::Acked(ack, packets) => {
                let own = |packet: &Acked| Acked { tag: self.tag(packet.seq, packet.sent_at), ..*packet };
                let event = Recorded::Acked(*ack, packets.iter().map(own).collect());
                event.feed(self.controller.as_mut());
                self.tags = self.tags.split_off(&(ack.una, Time::ZERO));
            }
            Recorded::Lost(loss, packets) => {
                Recorded::Lost(*loss, self.lost(packets)).feed(self.controller.as_mut());
            }
            Recorded::Timeout(timeout, packets) => {
                Recorded::Timeout(*timeout, self.lost(packets)).feed(self.controller.as_mut());
            }
            Recorded::Cause(now, packets) => {
                Recorded::Cause(*now, self.lost(packets)).feed(self.controller.as_mut());
            }
            Recorded::Telemetry(telemetry, hops) => {
                let mut telemetry = *telemetry;
                if let Some(packet) = &mut telemetry.packet {
                    packet.tag = self.tag(packet.seq, packet.sent_at);
                }
                Recorded::Telemetry(telemetry, hops.clone()).feed(self.controller.as_mut());
            }
            _ => {
                event.feed(self.controller.as_mut());
            }
        }
        self.answers()
    }

    /// What it answers now.
    pub fn answers(&self) -> Answers {
        Answers::of(self.controller.as_ref())
    }

    fn lost(&self, packets: &[Lost]) -> Vec<Lost> {
        packets.iter().map(|packet| Lost { tag: self.tag(packet.seq, packet.sent_at), ..*packet }).collect()
    }

    /// The tag of the packet that left from this position at `sent_at`, or last before: above TCP, `sent_at` is corrected later.
    fn tag(&self, seq: u64, sent_at: Time) -> u64 {
        let mut here = self.tags.range((seq, Time::ZERO)..=(seq, Time::NEVER));
        let exact = self.tags.get(&(seq, sent_at));
        exact.or_else(|| here.next_back().map(|(_, tag)| tag)).copied().unwrap_or_default()
    }
}
