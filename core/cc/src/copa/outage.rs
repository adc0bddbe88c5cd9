//! The end of an outage: nothing of what was in flight has arrived for long, and now something has (our choice; the paper is
//! silent, and the authors' release starts again after 2 s of silence).
//!
//! What was sent before waited for the path, not in a queue. Were its RTTs believed, each flow would stay for seconds in the
//! epochs of an RTT that is over, while those that begin behind the outage double their windows.

use crate::controller::{Acked, Lost, Sent};
use crate::units::{Nanos, Time};

/// Beyond a smallest RTT a silence of more than this is an outage: TCP's first timeout (RFC 6298, section 2.1).
const SILENCE: Nanos = Nanos::from_secs(1);

/// Since when something is in flight and nothing has arrived, and what was sent before the last outage ended.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Outage {
    since: Option<Time>,
    ended: Option<Time>,
}

impl Outage {
    /// A packet leaves. To a timeout all that was in flight is lost: what it sends again begins the silence anew, and where the
    /// answer to that comes soon, its RTT is the path's.
    #[inline]
    pub(super) fn on_sent(&mut self, sent: &Sent) {
        if sent.in_flight <= u64::from(sent.bytes) {
            self.since = Some(sent.now);
        }
    }

    /// Something arrives; true when that ends an outage. Before the first RTT that is believed once, as a long path looks like one.
    #[inline]
    pub(super) fn ends(&mut self, now: Time, rtt_min: Option<Nanos>) -> bool {
        let silence = self.since.replace(now).map_or(Nanos::ZERO, |since| now.since(since));
        let ends = match rtt_min {
            Some(rtt_min) => silence > rtt_min + SILENCE,
            None => self.ended.is_none() && silence > SILENCE,
        };
        if ends {
            self.ended = Some(now);
        }
        ends
    }

    /// How many of these were sent since it ended: a path that is dark says nothing of how much it carries.
    pub(super) fn lost_since(&self, packets: &[Lost]) -> usize {
        packets.iter().filter(|packet| self.ended.is_none_or(|ended| packet.sent_at >= ended)).count()
    }

    /// All of these were sent before it ended.
    #[inline]
    pub(super) fn delayed(&self, packets: &[Acked]) -> bool {
        let Some(ended) = self.ended else { return false };
        !packets.is_empty() && packets.iter().all(|packet| packet.sent_at < ended)
    }
}
