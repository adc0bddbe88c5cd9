//! Which messages are let in.
//!
//! A message is refused that is malformed, whose publisher is a stranger, whose MAC is not by its publisher's key, whose publisher has no
//! business with the subject, that is too old or from the future, or whose number is not larger than the last of its publisher on
//! this subject. Each is counted, and one line in ten seconds says of each reason what it was and what to do.
//!
//! Memory is bounded: what is remembered of a subject is forgotten when a repetition of it would be too old.

use std::collections::HashMap;

use strum::VariantArray;

use crate::envelope::Envelope;
use crate::key::{Keys, PublisherRole, is_name};
use crate::subject::{BusSubject, MessageKind};

/// How old a message may be, and by how much the publisher's clock may be ahead, in microseconds, unless the options say otherwise.
/// Our choice: well above what NTP leaves between machines; a report that was held back for this long was true a second ago.
pub const MAX_AGE: u64 = 1_000_000;
/// Subjects of which numbers are remembered. Our choice: 16384 flows and as many again that ended within [`MAX_AGE`].
const SUBJECTS_MAX: usize = 32_768;
/// Between two lines about the same reason, in microseconds. Our choice.
const LINE_EVERY: u64 = 10_000_000;

/// Whom an end believes.
#[derive(Clone, Debug)]
pub enum Trust {
    /// Every process that reaches it: the bus is of this machine, and its folder says who that is.
    Machine,
    /// Publishers whose key it has.
    Keys(Keys),
}

/// Why a message was refused, and what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, thiserror::Error, VariantArray)]
pub enum RefusalReason {
    /// It is not a message of telemetry.
    #[error("it is not a message of telemetry; keep other publishers off int.v1.>")]
    Malformed,
    /// There is no key of its publisher.
    #[error("there is no key of this publisher; copy its NAME.key here")]
    Stranger,
    /// It has no MAC.
    #[error("it has no MAC; give its publisher --keys")]
    Unsigned,
    /// Its MAC is not by its publisher's key.
    #[error("its MAC is not by the key of this publisher here; copy its NAME.key again")]
    WrongKey,
    /// Its publisher may not speak of this.
    #[error("the key of this publisher has not the role for it; see the first word of NAME.key")]
    Role,
    /// It is too old.
    #[error("it is too old; is the clock of its publisher right?")]
    Stale,
    /// It is from the future.
    #[error("it is from the future; is the clock of its publisher right?")]
    Ahead,
    /// It came before, or a newer one did.
    #[error("it, or a newer one, came before")]
    Replay,
    /// Its text is not a report, or not one of this subject.
    #[error("its text is not a report of its subject")]
    Content,
    /// It is of a namespace, or a version, that is not known here.
    #[error("its namespace or version is not known; run the same paceline at both ends")]
    Namespace,
}

/// A message was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message on {} by {} is refused: {reason}", known(.subject), known(.publisher))]
pub struct MessageRefused {
    /// Why.
    pub reason: RefusalReason,
    /// Who says to have sent it; empty where that could not be read.
    pub publisher: String,
    /// What it says to be about; empty where that could not be read.
    pub subject: String,
}

fn known(text: &str) -> &str {
    if text.is_empty() { "?" } else { text }
}

/// How many messages were let in, and refused for each reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GateCounts {
    /// Let in.
    pub taken: u64,
    refused: [u64; RefusalReason::VARIANTS.len()],
}

impl GateCounts {
    /// Refused for this reason.
    pub fn refused(&self, reason: RefusalReason) -> u64 {
        self.refused[reason as usize]
    }

    /// Refused for any.
    pub fn all_refused(&self) -> u64 {
        self.refused.iter().sum()
    }
}

/// The memory of one subscriber.
#[derive(Debug)]
pub struct Gate {
    domain: String,
    trust: Trust,
    max_age: u64,
    /// The last number, by publisher and kind.
    last: HashMap<(String, MessageKind), u64>,
    /// When what is too old was last forgotten.
    forgot: u64,
    counts: GateCounts,
    /// When a line was last due, and what was counted then, by reason.
    said: HashMap<RefusalReason, (u64, u64)>,
}

impl Gate {
    /// For a domain. `max_age`: microseconds, see [`MAX_AGE`].
    pub fn new(domain: &str, trust: Trust, max_age: u64) -> Self {
        let (last, said) = (HashMap::new(), HashMap::new());
        Self { domain: domain.to_owned(), trust, max_age, last, forgot: 0, counts: GateCounts::default(), said }
    }

    /// Says whether a message is let in at `now` (microseconds since 1970). What it holds is not looked at.
    ///
    /// # Errors
    /// Why not.
    pub fn open<'a>(
        &mut self,
        subject: &str,
        bytes: &'a [u8],
        now: u64,
    ) -> Result<(BusSubject, Envelope<'a>), MessageRefused> {
        self.examine(subject, bytes, now).map_err(|(reason, publisher)| {
            let subject = subject.parse::<BusSubject>().map_or_else(|_| String::new(), |subject| subject.to_string());
            MessageRefused { reason, publisher, subject }
        })
    }

    fn examine<'a>(
        &mut self,
        subject: &str,
        bytes: &'a [u8],
        now: u64,
    ) -> Result<(BusSubject, Envelope<'a>), (RefusalReason, String)> {
        let none = || (RefusalReason::Malformed, String::new());
        let envelope = Envelope::read(bytes).ok_or_else(none)?;
        let by = |reason| (reason, envelope.publisher.to_owned());
        let about: BusSubject = subject.parse().map_err(|_| by(RefusalReason::Malformed))?;
        if about.domain != self.domain {
            return Err(by(RefusalReason::Malformed));
        }
        if let Trust::Keys(keys) = &self.trust {
            let key = keys.of(envelope.publisher).ok_or_else(|| by(RefusalReason::Stranger))?;
            if !envelope.is_signed() {
                return Err(by(RefusalReason::Unsigned));
            }
            if !envelope.is_by(key, subject) {
                return Err(by(RefusalReason::WrongKey));
            }
            if !may(key.roles(), &about.kind, envelope.publisher) {
                return Err(by(RefusalReason::Role));
            }
        }
        if envelope.number.saturating_add(self.max_age) < now {
            return Err(by(RefusalReason::Stale));
        }
        if envelope.number > now.saturating_add(self.max_age) {
            return Err(by(RefusalReason::Ahead));
        }
        self.remember(envelope.publisher, &about.kind, envelope.number, now).map_err(by)?;
        Ok((about, envelope))
    }

    fn remember(&mut self, publisher: &str, kind: &MessageKind, number: u64, now: u64) -> Result<(), RefusalReason> {
        let key = (publisher.to_owned(), kind.clone());
        if let Some(last) = self.last.get_mut(&key) {
            if number <= *last {
                return Err(RefusalReason::Replay);
            }
            *last = number;
            return Ok(());
        }
        // A pass over all of them is not for every message.
        if self.last.len() >= SUBJECTS_MAX && now >= self.forgot.saturating_add(self.max_age / 4) {
            self.forgot = now;
            let oldest = now.saturating_sub(self.max_age);
            self.last.retain(|_, last| *last >= oldest);
        }
        if self.last.len() >= SUBJECTS_MAX {
            // Without memory of it, it could be one that came before.
            return Err(RefusalReason::Replay);
        }
        self.last.insert(key, number);
        Ok(())
    }

    /// Counts a message that was let in, and could be used.
    pub fn take(&mut self) {
        self.counts.taken += 1;
    }

    /// Counts a message that was refused. Answers the line that is due, if any.
    pub fn refuse(&mut self, refused: &MessageRefused, now: u64) -> Option<String> {
        let count = &mut self.counts.refused[refused.reason as usize];
        *count += 1;
        let (at, before) = self.said.get(&refused.reason).copied().unwrap_or((0, 0));
        if before > 0 && now < at.saturating_add(LINE_EVERY) {
            return None;
        }
        self.said.insert(refused.reason, (now, *count));
        let more = *count - before - 1;
        Some(if before > 0 && more > 0 {
            format!("{refused} ({more} more since the last line)")
        } else {
            refused.to_string()
        })
    }

    /// What became of messages so far.
    pub fn counts(&self) -> &GateCounts {
        &self.counts
    }
}

/// Whether a publisher of these roles may publish this. A sign of life is one's own.
fn may(roles: &[PublisherRole], kind: &MessageKind, publisher: &str) -> bool {
    match kind {
        MessageKind::Flow(_) => roles.contains(&PublisherRole::Sink),
        MessageKind::Node(_) => roles.contains(&PublisherRole::Hop),
        MessageKind::Control(_) => roles.contains(&PublisherRole::Controller),
        MessageKind::Health { role, host } => roles.contains(role) && is_name(host) && host == publisher,
    }
}

#[cfg(test)]
mod tests;
