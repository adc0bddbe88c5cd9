//! Cross traffic in a race: datagrams at a rate, whatever happens to them.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use paceline_cc::{Nanos, Time};
use paceline_experiment::{Cross, Gaps, Seed};

use paceline_linux::clock::{Clock, Sleeper};

/// Bytes of IPv4 and UDP headers: the smallest packet.
pub(super) const HEADERS: u32 = 28;
/// The largest packet of an emulated wire.
pub(super) const LARGEST: u32 = 1500;

/// One source, connected to the far end of its way. [`Source::run`] in a thread of its own.
pub(super) struct Source {
    pub(super) cross: Cross,
    pub(super) index: usize,
    pub(super) seed: Seed,
    pub(super) socket: UdpSocket,
    pub(super) clock: Clock,
    pub(super) until: Time,
    pub(super) abort: Arc<AtomicBool>,
}

impl Source {
    /// Sends until it stops. Packets that a stall has held up leave in a row: the rate is kept.
    pub(super) fn run(self) {
        let mut gaps = Gaps::new(&self.cross, self.seed, self.index);
        let mut sleeper = Sleeper::new(self.clock);
        let payload = vec![0; (self.cross.packet - HEADERS) as usize];
        let stop = self.cross.stop.unwrap_or(Time::NEVER).min(self.until);
        let mut at = self.cross.start;
        while at < stop && !self.abort.load(Ordering::Relaxed) {
            // In steps, so that a source of few packets sees the end of a failed run.
            if sleeper.sleep_until(at.min(self.clock.now() + Nanos::from_millis(500))) < at {
                continue;
            }
            for _ in 0..self.cross.burst {
                // What the kernel refuses is lost, as on a path.
                let _ = self.socket.send(&payload);
            }
            at += gaps.draw();
        }
    }
}
