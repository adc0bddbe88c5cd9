//! What the kernel knows of TCP: its congestion controls, and `struct tcp_info` of a connection.
//!
//! Source: Linux `include/uapi/linux/tcp.h`, whose offsets these are.

use std::fs;

use paceline_cc::{Nanos, Rate};
use strum::{FromRepr, IntoStaticStr};

use crate::layout::{u16_at, u32_at, u64_at};

/// `TCP_ESTABLISHED`, and the states after which nothing is delivered any more.
const ESTABLISHED: u8 = 1;
const CLOSE_WAIT: u8 = 8;
const CLOSE: u8 = 7;
/// `TCP_INFINITE_SSTHRESH`.
const NO_THRESHOLD: u32 = 0x7fff_ffff;

/// The congestion controls that the kernel offers; empty when it does not say.
pub fn controllers() -> Vec<String> {
    let file = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    fs::read_to_string(file).unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}

/// How a connection stands with losses (`enum tcp_ca_state`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, FromRepr, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
#[repr(u8)]
pub enum Recovery {
    /// Nothing is missing.
    #[default]
    Open,
    /// Something came out of order.
    Disorder,
    /// The window shrinks, for a mark of ECN or a full queue of this host.
    Reducing,
    /// Losses are repaired.
    Repairing,
    /// The retransmission timer has fired.
    #[strum(serialize = "timed out")]
    TimedOut,
}

impl Recovery {
    /// In a word.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// What the kernel knows of a connection (`struct tcp_info`). Counters begin with the connection; of what an older kernel does not
/// report they are zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    state: u8,
    /// How it stands with losses.
    pub recovery: Recovery,
    /// Timeouts in a row.
    pub backoff: u8,
    /// The application limited the newest delivery-rate sample.
    pub app_limited: bool,
    /// Payload bytes of a full segment at present.
    pub mss: u32,
    /// Segments sent and not acknowledged.
    pub unacked: u32,
    /// Those of them that were acknowledged selectively: they arrived behind a loss.
    pub sacked: u32,
    /// Segments that are taken for lost and have not been repaired.
    lost: u32,
    /// Segments that were sent again and have not been acknowledged since.
    again: u32,
    /// Smoothed RTT; zero before the first sample.
    pub rtt: Nanos,
    /// Mean deviation of the samples from it, smoothed.
    rtt_deviation: Nanos,
    /// The slow-start threshold in segments; of the open window, the smallest RTT of late in microseconds.
    threshold: u32,
    /// Congestion window in segments.
    pub cwnd: u32,
    /// Segments without data that came: acknowledgements, nearly all.
    acks: u32,
    /// Segments sent again.
    pub retransmits: u32,
    /// Pacing rate in bytes a second; all ones where nothing paces.
    pacing: u64,
    /// Bytes acknowledged.
    pub acked: u64,
    /// Bytes in its buffer that have not been sent.
    pub unsent: u32,
    /// Smallest RTT of the last minutes; zero before the first sample.
    pub min_rtt: Nanos,
    /// Segments with data that were sent, those sent again among them.
    pub segments_sent: u32,
    /// The newest delivery-rate sample.
    pub rate: Rate,
    /// Time for which the receiver's window has held it back.
    pub held_by_receiver: Nanos,
    /// Segments delivered.
    pub delivered: u32,
    /// Those of them that arrived with a CE mark.
    pub ce: u32,
    /// Payload bytes sent, those sent again among them.
    pub bytes_sent: u64,
    /// Retransmission timeouts.
    pub timeouts: u16,
}

impl TcpInfo {
    /// Reads the structure as far as it goes; `None` where it is shorter than that of Linux 2.6.
    pub fn read(raw: &[u8]) -> Option<Self> {
        let word = |at| u32_at(raw, at).unwrap_or(0);
        let long = |at| u64_at(raw, at).unwrap_or(0);
        let micros = |at| Nanos::from_micros(u64::from(word(at)));
        let retransmits = u32_at(raw, 100)?;
        Some(Self {
            state: raw[0],
            recovery: Recovery::from_repr(raw[1]).unwrap_or(Recovery::TimedOut),
            backoff: raw[4],
            app_limited: raw[7] & 1 != 0,
            mss: word(16),
            unacked: word(24),
            sacked: word(28),
            lost: word(32),
            again: word(36),
            rtt: micros(68),
            rtt_deviation: micros(72),
            threshold: word(76),
            cwnd: word(80),
            acks: word(140).wrapping_sub(word(152)),
            retransmits,
            pacing: long(104),
            acked: long(120),
            unsent: word(144),
            // Linux says u32::MAX for a smallest RTT that it does not know.
            min_rtt: if word(148) == u32::MAX { Nanos::ZERO } else { micros(148) },
            segments_sent: word(156),
            rate: Rate::from_bytes_per_sec(long(160)),
            held_by_receiver: Nanos::from_micros(long(176)),
            delivered: word(192),
            ce: word(196),
            bytes_sent: long(200),
            timeouts: u16_at(raw, 240).unwrap_or(0),
        })
    }

    /// The slow-start threshold in segments; `None` before there is one.
    pub fn threshold(&self) -> Option<u32> {
        (self.threshold < NO_THRESHOLD).then_some(self.threshold)
    }

    /// The rate at which it is paced; `None` where nothing paces.
    pub fn pacing(&self) -> Option<Rate> {
        (self.pacing < u64::MAX).then(|| Rate::from_bytes_per_sec(self.pacing))
    }

    /// Segments in flight (Linux `tcp_packets_in_flight`).
    pub fn in_flight(&self) -> u32 {
        (self.unacked + self.again).saturating_sub(self.sacked + self.lost)
    }

    /// Of `outstanding` bytes that are not acknowledged, this many lie up to the newest that has arrived behind a loss, and so
    /// many of them have arrived: the rest are the holes. As if all packets were of one size.
    pub fn ahead(&self, outstanding: u64) -> (u64, u64) {
        let sent = outstanding.saturating_sub(u64::from(self.unsent));
        let of = |packets: u32| sent * u64::from(packets.min(self.unacked)) / u64::from(self.unacked.max(1));
        // There is a hole before it is taken for a loss.
        (of(self.sacked.saturating_add(self.lost.max(1))), of(self.sacked))
    }

    /// Bytes in the network, as RFC 6675 counts them (`pipe`). After a timeout all count as lost, and many are not.
    pub fn pipe(&self) -> u64 {
        let gone = if self.timed_out() { 0 } else { self.sacked.saturating_add(self.lost) };
        let packets = self.unacked.saturating_sub(gone).saturating_add(self.again).min(self.unacked);
        u64::from(packets) * u64::from(self.mss)
    }

    /// Bytes that have arrived since the connection began, as far as the peer has said.
    pub fn arrived(&self) -> u64 {
        self.acked + u64::from(self.sacked) * u64::from(self.mss)
    }

    /// RTT of what was acknowledged since an earlier look, on average. The kernel's estimate takes in an eighth of each sample, one
    /// an acknowledgement (RFC 6298 section 2; Linux `tcp_rtt_estimator`); what it was before is taken out of it here.
    pub fn rtt_since(&self, earlier: &Self) -> Nanos {
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
    pub fn smallest_rtt(&self) -> Nanos {
        (self.rtt - self.rtt_deviation.mul_div(2, 1)).max(self.min_rtt.min(self.rtt))
    }

    /// The same above the open window, which knows it; `None` before the first sample.
    pub fn smallest_rtt_of_late(&self) -> Option<Nanos> {
        self.threshold().map(|micros| Nanos::from_micros(micros.into()))
    }

    /// Something arrived behind what has not.
    pub fn has_holes(&self) -> bool {
        self.sacked > 0 || self.lost > 0
    }

    /// Data can be sent.
    pub fn is_connected(&self) -> bool {
        matches!(self.state, ESTABLISHED | CLOSE_WAIT)
    }

    /// Nothing will be delivered any more.
    pub fn is_dead(&self) -> bool {
        self.state == CLOSE
    }

    /// Losses are being repaired.
    pub fn is_repairing(&self) -> bool {
        self.recovery >= Recovery::Repairing
    }

    /// A timeout started the repair.
    pub fn timed_out(&self) -> bool {
        self.recovery == Recovery::TimedOut
    }

    /// Everything written has been sent and acknowledged.
    pub fn is_quiet(&self) -> bool {
        self.unacked == 0 && self.unsent == 0
    }

    /// The kernel's window in bytes.
    pub fn window(&self) -> u64 {
        u64::from(self.cwnd) * u64::from(self.mss)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smoothing_of_the_kernels_rtt_is_undone() {
        let smooth = |rtt: Nanos, sample: u64| Nanos::from_micros((rtt.as_nanos() * 7 / 8 + sample * 125) / 1000);
        let before = TcpInfo { rtt: Nanos::from_millis(20), acks: u32::MAX, ..TcpInfo::default() };
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
        assert_eq!(now.rtt_since(&TcpInfo::default()), now.rtt);
    }

    #[test]
    fn the_smallest_rtt_is_below_the_mean_and_not_below_the_path() {
        let [path, mean] = [20, 24].map(Nanos::from_millis);
        let smallest = |micros| {
            TcpInfo { rtt: mean, min_rtt: path, rtt_deviation: Nanos::from_micros(micros), ..TcpInfo::default() }
                .smallest_rtt()
        };
        assert_eq!([smallest(0), smallest(500), smallest(9000)], [mean, Nanos::from_millis(23), path]);
        // The path has become longer than it ever was, or shorter.
        assert_eq!(TcpInfo { rtt: path, min_rtt: mean, ..TcpInfo::default() }.smallest_rtt(), path);
    }

    #[test]
    fn what_arrived_behind_a_loss_is_above_its_holes() {
        let info = TcpInfo { unacked: 20, sacked: 7, lost: 2, unsent: 500, ..TcpInfo::default() };
        assert_eq!(info.ahead(20_500), (9_000, 7_000));
        // A hole that has not been declared lost yet.
        assert_eq!(TcpInfo { lost: 0, ..info }.ahead(20_500), (8_000, 7_000));
        assert_eq!(TcpInfo::default().ahead(0), (0, 0));
    }
}
