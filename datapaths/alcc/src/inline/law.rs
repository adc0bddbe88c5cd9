//! From a window and a flight to a rate: how fast the kernel may send until the next look.
//!
//! Our choice, because a window is what controllers mean: as much may leave as arrives, and room in the window is filled
//! within half a round trip; a flight that is too large waits until it fits. So the flight follows the window whatever the RTT is
//! taken for, and when the path stands still no more leaves than was expected to arrive within one look, and a burst now and then.
//! (A rate of window / RTT, corrected by how far the flight is off, lets an outage's flight grow by a share of the window each look.)
//!
//! The kernel sets the time of the next burst when one leaves, by the rate of that moment; a higher rate later neither brings it
//! forward nor counts before the next acknowledgement (Linux `tcp_update_skb_after_send`, `tcp_update_pacing_rate`). So a flow
//! that has no room never waits for long at once.

use paceline_cc::{Nanos, Rate};

/// Packets that leave together at low rates (Linux `net.ipv4.tcp_min_tso_segs`).
const BURST: u64 = 2;
/// How long a flow without room waits for its next burst, at least and at most; in between it is the time in which
/// [`WAIT_BURSTS`] arrive. It grows with an outage, since the delivery rate falls. Our choice, by measurement: waits of up to 50 ms from the start
/// cost a tenth of the throughput of a link that changes by the millisecond, whose window has room sooner than expected.
const WAIT: (Nanos, Nanos) = (Nanos::from_millis(10), Nanos::from_millis(100));
const WAIT_BURSTS: u64 = 2;
/// Room in the window is filled within this part of a round trip. Our choice, by measurement: by the next look is too soon, since one that
/// comes late then lets out much more than there is room for; in a whole one a link that changes loses a twentieth of its throughput.
const FILLED: u64 = 2;
/// A link on which they take longer than the longest wait is slow, up to this (our choice: 23 kbit/s).
const SLOWEST: Nanos = Nanos::from_secs(2);
/// Bursts over which the delivery rate is averaged at least, and never over less than a round trip: less says nothing of a link
/// that changes by the millisecond. Without news it becomes this many in the time of the silence (our choice).
const AVERAGED: u64 = 4;

/// What the law goes by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Law {
    /// The controller's window, in bytes.
    pub(super) window: u64,
    /// Bytes in the network.
    pub(super) flight: u64,
    /// The controller's pacing rate; [`Rate::INFINITY`] for none.
    pub(super) pacing: Rate,
    /// How fast they arrive at present.
    pub(super) delivery: Rate,
    /// How fast they arrived when they last did; zero when that is not known.
    pub(super) usual: Rate,
    /// Time until the next look.
    pub(super) gap: Nanos,
    /// The path's smallest RTT.
    pub(super) rtt: Nanos,
    /// Payload bytes of a full packet.
    pub(super) mss: u32,
}

impl Law {
    /// The rate until the next look; never zero, which the kernel takes for none.
    pub(super) fn rate(&self) -> Rate {
        let burst = BURST * u64::from(self.mss);
        let least = Rate::from_bytes_in(burst, self.wait(burst)).max(Rate::from_bytes_per_sec(1));
        if let Some(room) = self.window.checked_sub(self.flight) {
            let filled = self.gap.max(self.rtt.mul_div(1, FILLED));
            return sum(self.delivery, Rate::from_bytes_in(room, filled)).min(self.pacing).max(least);
        }
        let excess = self.flight - self.window;
        let fits = self.delivery.bytes_in(self.gap).saturating_sub(excess);
        // The next burst leaves when what is in its way has arrived.
        let next = Rate::from_bytes_in(burst, self.delivery.time_for(excess.saturating_add(burst)).max(self.gap));
        Rate::from_bytes_in(fits, self.gap).max(next).min(self.pacing).max(least)
    }

    /// The longest time until the next burst.
    fn wait(&self, burst: u64) -> Nanos {
        let arrive = |rate: Rate| rate.time_for(WAIT_BURSTS * burst);
        let usual = if self.usual == Rate::ZERO { Nanos::ZERO } else { arrive(self.usual).min(SLOWEST) };
        arrive(self.delivery).clamp(WAIT.0, WAIT.1.max(usual))
    }
}

/// The delivery rate after `bytes` more have arrived in `span`.
pub(super) fn average(before: Rate, bytes: u64, span: Nanos, rtt: Nanos, mss: u32) -> Rate {
    if span == Nanos::ZERO {
        return before;
    }
    let now = Rate::from_bytes_in(bytes, span);
    if before == Rate::ZERO {
        return now;
    }
    let over = rtt.max(before.time_for(AVERAGED * BURST * u64::from(mss)));
    let share = span.as_secs_f64() / (span + over).as_secs_f64();
    sum(before.mul_f64(1.0 - share), now.mul_f64(share))
}

fn sum(one: Rate, other: Rate) -> Rate {
    Rate::from_bytes_per_sec(one.as_bytes_per_sec().saturating_add(other.as_bytes_per_sec()))
}

#[cfg(test)]
mod tests;
