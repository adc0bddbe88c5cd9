//! Options of a sender.

use paceline_cc::Nanos;

/// Pacing of controllers that answer [`paceline_cc::Pacing::Free`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PaceStyle {
    /// Packets leave as the window opens (Linux without `fq`).
    #[default]
    Off,
    /// Linux `tcp_update_pacing_rate`: 200 % of window/SRTT below half of the slow-start threshold, else 120 %; the
    /// first ten packets unpaced. A datapath does not see the threshold, so it takes the window after the last
    /// reduction (our choice).
    Linux,
}

/// Options of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SenderConfig {
    /// Payload bytes of a full packet. 1448: 1500 less IPv4, TCP and time-stamp headers.
    pub mss: u32,
    /// Pacing of controllers that have none of their own. Off.
    pub pace: PaceStyle,
    /// How far a paced sender that was held up may catch up in a burst ([`paceline_cc::Pacing::Rate`] only). 1 ms:
    /// Linux `tcp_tso_autosize` lets 2^-10 s of data leave at once.
    pub burst: Nanos,
    /// Least variance term of the retransmission timeout. 200 ms: Linux `TCP_RTO_MIN` (RFC 6298 has 1 s for the
    /// whole).
    pub min_rto: Nanos,
    /// Largest timeout. 120 s: Linux `TCP_RTO_MAX`.
    pub max_rto: Nanos,
    /// Timeout before the first RTT sample. 1 s: RFC 6298 section 2.1.
    pub initial_rto: Nanos,
    /// Later packets delivered before a hole is taken for a loss at once, as long as no reordering was seen. 3: RFC
    /// 8985 `DupThresh`.
    pub dup_threshold: u32,
    /// Tail loss probes. On: RFC 8985 section 7.
    pub tail_probe: bool,
    /// Before any data an empty packet goes out and its answer is waited for, so that the controller knows an RTT. Off:
    /// a flow begins with data.
    pub handshake: bool,
}

impl SenderConfig {
    /// Full packets of `mss` payload bytes; the rest as each field says.
    pub const fn new(mss: u32) -> Self {
        Self {
            mss,
            pace: PaceStyle::Off,
            burst: Nanos::from_millis(1),
            min_rto: Nanos::from_millis(200),
            max_rto: Nanos::from_secs(120),
            initial_rto: Nanos::from_secs(1),
            dup_threshold: 3,
            tail_probe: true,
            handshake: false,
        }
    }
}

impl Default for SenderConfig {
    fn default() -> Self {
        Self::new(1448)
    }
}
