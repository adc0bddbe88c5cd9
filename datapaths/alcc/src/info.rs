//! `TCP_INFO`: what the kernel knows of a connection.

use std::io;
use std::os::fd::AsFd;

use nix::sys::socket::getsockopt;
use paceline_cc::{Nanos, Rate};

use crate::sockopt::{TCP_INFO_BYTES, TcpInfo};

/// `TCP_ESTABLISHED`, and the states after which nothing is delivered any more.
const ESTABLISHED: u8 = 1;
const CLOSE_WAIT: u8 = 8;
const CLOSE: u8 = 7;
/// `TCP_CA_Recovery`; `TCP_CA_Loss` follows.
const RECOVERY: u8 = 3;
const LOSS: u8 = 4;

/// What the kernel knows of a connection (`struct tcp_info`).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Info {
    pub(crate) state: u8,
    /// Stage of the congestion control's state machine.
    ca_state: u8,
    /// Timeouts in a row.
    pub(crate) backoff: u8,
    /// Payload bytes of a full segment at present.
    pub(crate) mss: u32,
    /// Segments sent and not acknowledged.
    pub(crate) unacked: u32,
    /// Those of them that were acknowledged selectively: they arrived behind a loss.
    pub(crate) sacked: u32,
    /// Segments that are taken for lost and have not been repaired.
    lost: u32,
    /// Segments that were sent again and have not been acknowledged since.
    again: u32,
    /// The kernel's smoothed RTT; zero before the first sample.
    pub(crate) rtt: Nanos,
    /// Mean deviation of the samples from it, smoothed.
    pub(crate) rtt_deviation: Nanos,
    /// The slow-start threshold in segments; of the open window, the smallest RTT of late in microseconds.
    threshold: u32,
    /// Its window, in segments.
    pub(crate) cwnd: u32,
    /// Segments without data that came since the connection began: acknowledgements, nearly all.
    acks: u32,
    /// Segments sent again since the connection began.
    pub(crate) retransmits: u32,
    /// Bytes acknowledged since the connection began.
    pub(crate) acked: u64,
    /// Bytes in its buffer that have not been sent.
    pub(crate) unsent: u32,
    /// Smallest RTT of the last minutes; zero before the first sample.
    pub(crate) min_rtt: Nanos,
    /// Its newest delivery-rate sample.
    pub(crate) rate: Rate,
    /// The application limited that sample.
    pub(crate) app_limited: bool,
    /// This long the receiver's window has held it back since the connection began.
    pub(crate) held_by_receiver: Nanos,
}

impl Info {
    /// Asks the kernel.
    ///
    /// # Errors
    /// The kernel's: not a TCP socket.
    pub(crate) fn of(fd: &impl AsFd) -> io::Result<Self> {
        Ok(Self::parse(&getsockopt(fd, TcpInfo)?))
    }

    fn parse(raw: &[u8; TCP_INFO_BYTES]) -> Self {
        let u32_at = |at: usize| u32::from_ne_bytes([raw[at], raw[at + 1], raw[at + 2], raw[at + 3]]);
        let u64_at = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&raw[at..at + 8]);
            u64::from_ne_bytes(bytes)
        };
        let micros = |at: usize| Nanos::from_micros(u64::from(u32_at(at)));
        // Offsets of include/uapi/linux/tcp.h. Linux says u32::MAX for a smallest RTT that it does not know.
        let min_rtt = if u32_at(148) == u32::MAX { Nanos::ZERO } else { micros(148) };
        Self {
            state: raw[0],
            ca_state: raw[1],
            backoff: raw[4],
            app_limited: raw[7] & 1 != 0,
            mss: u32_at(16),
            unacked: u32_at(24),
            sacked: u32_at(28),
            lost: u32_at(32),
            again: u32_at(36),
            rtt: micros(68),
            rtt_deviation: micros(72),
            threshold: u32_at(76),
            cwnd: u32_at(80),
            acks: u32_at(140).wrapping_sub(u32_at(152)),
            retransmits: u32_at(100),
            acked: u64_at(120),
            unsent: u32_at(144),
            min_rtt,
            rate: Rate::from_bytes_per_sec(u64_at(160)),
            held_by_receiver: Nanos::from_micros(u64_at(176)),
        }
    }

    /// Of `outstanding` bytes that are not acknowledged, this many lie up to the newest that has arrived behind a loss, and so
    /// many of them have arrived: the rest are the holes. As if all packets were of one size.
    pub(crate) fn ahead(&self, outstanding: u64) -> (u64, u64) {
        let sent = outstanding.saturating_sub(u64::from(self.unsent));
        let of = |packets: u32| sent * u64::from(packets.min(self.unacked)) / u64::from(self.unacked.max(1));
        // There is a hole before it is taken for a loss.
        (of(self.sacked.saturating_add(self.lost.max(1))), of(self.sacked))
    }

    /// Bytes in the network, as RFC 6675 counts them (`pipe`). After a timeout all count as lost, and many are not.
    pub(crate) fn pipe(&self) -> u64 {
        let gone = if self.timed_out() { 0 } else { self.sacked.saturating_add(self.lost) };
        let packets = self.unacked.saturating_sub(gone).saturating_add(self.again).min(self.unacked);
        u64::from(packets) * u64::from(self.mss)
    }

    /// Bytes that have arrived since the connection began, as far as the peer has said.
    pub(crate) fn arrived(&self) -> u64 {
        self.acked + u64::from(self.sacked) * u64::from(self.mss)
    }

    /// RTT of what was acknowledged since an earlier look, on average. The kernel's estimate takes in an eighth of each sample, one
    /// an acknowledgement (RFC 6298 section 2; Linux `tcp_rtt_estimator`); what it was before is taken out of it here.
    pub(crate) fn rtt_since(&self, earlier: &Self) -> Nanos {
        let acks = self.acks.wrapping_sub(earlier.acks).min(100) as i32;
        if acks == 0 || earlier.rtt == Nanos::ZERO {
            return self.rtt;
        }
        let kept = (7.0 / 8.0_f64).powi(acks);
        let millis = (self.rtt.as_millis_f64() - kept * earlier.rtt.as_millis_f64()) / (1.0 - kept);
        Nanos::from_secs_f64((millis / 1000.0).max(0.0))
    }

    /// About the smallest of the newest RTTs: samples that lie evenly within a span have its end two mean deviations below
    /// their mean. So they do whose packets left together: the first of them waits for none, and the last for all.
    pub(crate) fn smallest_rtt(&self) -> Nanos {
        (self.rtt - self.rtt_deviation.mul_div(2, 1)).max(self.min_rtt.min(self.rtt))
    }

    /// The same above the open window, which knows it; `None` before the first sample.
    pub(crate) fn smallest_rtt_of_late(&self) -> Option<Nanos> {
        /// The kernel's word for no threshold (Linux `TCP_INFINITE_SSTHRESH`).
        const UNKNOWN: u32 = 0x7fff_ffff;
        (self.threshold < UNKNOWN).then(|| Nanos::from_micros(u64::from(self.threshold)))
    }

    /// Something arrived behind what has not.
    pub(crate) fn has_holes(&self) -> bool {
        self.sacked > 0 || self.lost > 0
    }

    /// Data can be sent.
    pub(crate) fn is_connected(&self) -> bool {
        matches!(self.state, ESTABLISHED | CLOSE_WAIT)
    }

    /// Nothing will be delivered any more.
    pub(crate) fn is_dead(&self) -> bool {
        self.state == CLOSE
    }

    /// Losses are being repaired.
    pub(crate) fn is_repairing(&self) -> bool {
        self.ca_state >= RECOVERY
    }

    /// A timeout started the repair.
    pub(crate) fn timed_out(&self) -> bool {
        self.ca_state >= LOSS
    }

    /// Everything written has been sent and acknowledged.
    pub(crate) fn is_quiet(&self) -> bool {
        self.unacked == 0 && self.unsent == 0
    }

    /// The kernel's window in bytes.
    pub(crate) fn window(&self) -> u64 {
        u64::from(self.cwnd) * u64::from(self.mss)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smoothing_of_the_kernels_rtt_is_undone() {
        let smooth = |rtt: Nanos, sample: u64| Nanos::from_micros((rtt.as_nanos() * 7 / 8 + sample * 125) / 1000);
        let before = Info { rtt: Nanos::from_millis(20), acks: u32::MAX, ..Info::default() };
        let mut now = before;
        for sample in [30_000, 30_000, 30_000] {
            now.rtt = smooth(now.rtt, sample);
            now.acks = now.acks.wrapping_add(1);
        }
        assert!(now.rtt < Nanos::from_millis(24), "{}", now.rtt);
        let millis = now.rtt_since(&before).as_millis_f64();
        assert!((millis - 30.0).abs() < 0.05, "{millis}");
        // Nothing came, or nothing was known before.
        assert_eq!(before.rtt_since(&before), before.rtt);
        assert_eq!(now.rtt_since(&Info::default()), now.rtt);
    }

    #[test]
    fn the_smallest_rtt_is_below_the_mean_and_not_below_the_path() {
        let [path, mean] = [20, 24].map(Nanos::from_millis);
        let smallest = |micros| {
            Info { rtt: mean, min_rtt: path, rtt_deviation: Nanos::from_micros(micros), ..Info::default() }
                .smallest_rtt()
        };
        assert_eq!([smallest(0), smallest(500), smallest(9000)], [mean, Nanos::from_millis(23), path]);
        // The path has become longer than it ever was, or shorter.
        assert_eq!(Info { rtt: path, min_rtt: mean, ..Info::default() }.smallest_rtt(), path);
    }

    #[test]
    fn what_arrived_behind_a_loss_is_above_its_holes() {
        let info = Info { unacked: 20, sacked: 7, lost: 2, unsent: 500, ..Info::default() };
        assert_eq!(info.ahead(20_500), (9_000, 7_000));
        // A hole that has not been declared lost yet.
        assert_eq!(Info { lost: 0, ..info }.ahead(20_500), (8_000, 7_000));
        assert_eq!(Info::default().ahead(0), (0, 0));
    }
}
