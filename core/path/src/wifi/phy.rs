//! Rates of the physical layer, and how long frames are on the air. Source: IEEE 802.11-2016, clauses 10 (access), 17 (the
//! rates of control frames), 19 (HT) and 21 (VHT), for the 5 GHz band.

use std::fmt;
use std::str::FromStr;

use paceline_cc::Nanos;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Slot of OFDM at 20 MHz spacing (Table 17-21).
pub(super) const SLOT: Nanos = Nanos::from_micros(9);
/// Short interframe space at 5 GHz (Table 17-21).
pub(super) const SIFS: Nanos = Nanos::from_micros(16);
/// Arbitration interframe space of best effort: SIFS and 3 slots (10.22.2.4, AIFSN of Table 9-137).
pub(super) const AIFS: Nanos = Nanos::from_micros(16 + 3 * 9);
/// Acknowledgement of 14 bytes at 24 Mbit/s: 20 µs of preamble, 22 more bits, 96 bits in 4 µs (17.4.3).
pub(super) const ACK: Nanos = Nanos::from_micros(28);
/// Compressed Block Ack of 32 bytes.
pub(super) const BLOCK_ACK: Nanos = Nanos::from_micros(32);
/// Request to send, 20 bytes.
pub(super) const RTS: Nanos = Nanos::from_micros(28);
/// Clear to send, 14 bytes.
pub(super) const CTS: Nanos = Nanos::from_micros(28);
/// Service field and tail of the PHY's data (19.3.11, 21.3.10), for one encoder.
const SERVICE_AND_TAIL: u64 = 16 + 6;
/// Most spatial streams here (our choice: what access points have).
const MOST_STREAMS: u8 = 4;

/// A rate of the physical layer: `vht80-2ss-mcs9` is 802.11ac, 80 MHz, 2 spatial streams, MCS 9; `ht20-1ss-mcs7` is
/// 802.11n, with MCS 0 to 7 per stream. The guard interval is the short one (0.4 µs) unless `-lgi` is behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phy {
    family: Family,
    width_mhz: u16,
    streams: u8,
    mcs: u8,
    long_guard: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    /// High throughput, 802.11n.
    Ht,
    /// Very high throughput, 802.11ac.
    Vht,
}

/// Why a text is not a PHY rate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not a Wi-Fi rate: {problem}; write such as vht80-2ss-mcs9, ht40-1ss-mcs7 or ht20-1ss-mcs7-lgi")]
pub struct PhyError {
    text: String,
    problem: &'static str,
}

impl Phy {
    /// The modulation and coding scheme, per stream.
    pub fn mcs(self) -> u8 {
        self.mcs
    }

    /// The same with another modulation and coding scheme; `None` where there is none.
    pub fn with_mcs(self, mcs: u8) -> Option<Self> {
        let most = if self.family == Family::Ht { 7 } else { 9 };
        let phy = Self { mcs, ..self };
        // Combinations whose symbols do not hold whole bits are excluded (21.5).
        (mcs <= most && phy.bits().is_some()).then_some(phy)
    }

    /// Bits in a symbol, whole or not: subcarriers times bits of each, in twelfths for the code rate.
    fn bits(self) -> Option<u64> {
        let subcarriers = match (self.family, self.width_mhz) {
            (_, 20) => 52,
            (_, 40) => 108,
            (Family::Vht, 80) => 234,
            (Family::Vht, 160) => 468,
            _ => return None,
        };
        // Coded bits of a subcarrier and code rate in twelfths (Tables 19-27 and 21-30).
        let (coded, twelfths) =
            [(1, 6), (2, 6), (2, 9), (4, 6), (4, 9), (6, 8), (6, 9), (6, 10), (8, 9), (8, 10)][usize::from(self.mcs)];
        let bits = subcarriers * coded * twelfths * u64::from(self.streams);
        bits.is_multiple_of(12).then_some(bits / 12)
    }

    fn bits_per_symbol(self) -> u64 {
        self.bits().unwrap_or(1)
    }

    fn symbol(self) -> Nanos {
        Nanos::from_nanos(if self.long_guard { 4_000 } else { 3_600 })
    }

    /// Training and signal fields: HT mixed format or VHT.
    fn preamble(self) -> Nanos {
        let fixed = if self.family == Family::Ht { 32 } else { 36 };
        Nanos::from_micros(fixed + 4 * u64::from(self.streams))
    }

    /// Rate of the data symbols, Mbit/s.
    pub fn mbps(self) -> f64 {
        self.bits_per_symbol() as f64 * 1000.0 / self.symbol().as_nanos() as f64
    }

    /// Most bytes of an A-MPDU by the format (9.4.2.56.3, 9.4.2.158.2).
    pub(super) fn most_aggregated(self) -> u64 {
        if self.family == Family::Ht { 65_535 } else { 1_048_575 }
    }

    /// How long this many bytes are on the air.
    pub(super) fn air(self, bytes: u64) -> Nanos {
        let symbols = (8 * bytes + SERVICE_AND_TAIL).div_ceil(self.bits_per_symbol());
        self.preamble() + self.symbol().mul_div(symbols, 1)
    }

    /// The most bytes that are on the air for no longer than this.
    pub(super) fn most_bytes(self, air: Nanos) -> u64 {
        let symbols = (air - self.preamble()).as_nanos() / self.symbol().as_nanos();
        (symbols * self.bits_per_symbol()).saturating_sub(SERVICE_AND_TAIL) / 8
    }
}

impl FromStr for Phy {
    type Err = PhyError;

    fn from_str(text: &str) -> Result<Self, PhyError> {
        let wrong = |problem| PhyError { text: paceline_cc::foreign::clipped(text), problem };
        let mut parts = text.split('-');
        let mut part = || parts.next().unwrap_or_default();
        let (band, streams, mcs, guard) = (part(), part(), part(), part());
        let (family, width) = match (band.strip_prefix("vht"), band.strip_prefix("ht")) {
            (Some(width), _) => (Family::Vht, width),
            (_, Some(width)) => (Family::Ht, width),
            _ => return Err(wrong("it does not begin with ht or vht")),
        };
        let width_mhz = match (family, width) {
            (_, "20") => 20,
            (_, "40") => 40,
            (Family::Vht, "80") => 80,
            (Family::Vht, "160") => 160,
            _ => return Err(wrong("the width is 20 or 40 MHz, of vht also 80 or 160")),
        };
        let number = |text: &str| {
            let digits = !text.is_empty() && text.len() < 3 && text.bytes().all(|byte| byte.is_ascii_digit());
            digits.then(|| text.parse::<u8>().ok()).flatten()
        };
        let streams =
            streams.strip_suffix("ss").and_then(number).filter(|streams| (1..=MOST_STREAMS).contains(streams));
        let streams = streams.ok_or_else(|| wrong("spatial streams are 1ss to 4ss"))?;
        let long_guard = match guard {
            "" => false,
            "lgi" => true,
            _ => return Err(wrong("behind the MCS there is only lgi, for the long guard interval")),
        };
        if parts.next().is_some() || text.ends_with('-') {
            return Err(wrong("it has a part too many"));
        }
        let mcs = mcs.strip_prefix("mcs").and_then(number);
        let mcs = mcs.ok_or_else(|| wrong("the third part is the MCS, such as mcs7"))?;
        let phy = Self { family, width_mhz, streams, mcs: 0, long_guard };
        phy.with_mcs(mcs).ok_or_else(|| wrong("there is no such MCS here; per stream ht has 0 to 7, vht 0 to 9"))
    }
}

impl fmt::Display for Phy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { family, width_mhz, streams, mcs, long_guard } = self;
        let family = if *family == Family::Ht { "ht" } else { "vht" };
        let guard = if *long_guard { "-lgi" } else { "" };
        write!(f, "{family}{width_mhz}-{streams}ss-mcs{mcs}{guard}")
    }
}

impl<'de> Deserialize<'de> for Phy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl Serialize for Phy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phy(text: &str) -> Phy {
        text.parse().expect(text)
    }

    #[test]
    fn rates_are_those_of_the_standard() {
        for (text, mbps) in [
            ("ht20-1ss-mcs7-lgi", 65.0),
            ("ht20-1ss-mcs7", 72.2),
            ("ht20-2ss-mcs7", 144.4),
            ("ht40-1ss-mcs7", 150.0),
            ("ht40-2ss-mcs7", 300.0),
            ("vht80-1ss-mcs9", 433.3),
            ("vht80-1ss-mcs7-lgi", 292.5),
            ("vht80-1ss-mcs4", 195.0),
            ("vht80-2ss-mcs9-lgi", 780.0),
            ("vht80-2ss-mcs9", 866.7),
            ("vht160-2ss-mcs9", 1733.3),
        ] {
            assert!((phy(text).mbps() - mbps).abs() < 0.05, "{text}: {}", phy(text).mbps());
            assert_eq!(phy(text).to_string(), text);
        }
    }

    #[test]
    fn frames_take_whole_symbols() {
        // 64 subframes of 1544 bytes: 790 550 bits in symbols of 3120 are 254 symbols; 44 µs of preamble.
        let fast = phy("vht80-2ss-mcs9");
        assert_eq!(fast.air(64 * 1544), Nanos::from_nanos(44_000 + 254 * 3_600));
        // One frame of 1538 bytes at 65 Mbit/s: 12 326 bits, 260 in a symbol.
        assert_eq!(phy("ht20-1ss-mcs7-lgi").air(1538), Nanos::from_micros(36 + 48 * 4));
        for bytes in [1, 40, 1544, 65_535] {
            let most = fast.most_bytes(fast.air(bytes));
            assert!(most >= bytes && fast.air(most) == fast.air(bytes) && fast.air(most + 1) > fast.air(bytes));
        }
        assert_eq!(fast.most_bytes(Nanos::from_micros(10)), 0);
    }

    #[test]
    fn what_is_no_rate_is_refused() {
        for (text, problem) in [
            ("", "begin with ht or vht"),
            ("he80-2ss-mcs9", "begin with ht or vht"),
            ("ht80-2ss-mcs7", "the width"),
            ("vht80", "spatial streams"),
            ("vht80-5ss-mcs1", "spatial streams"),
            ("vht80-2ss", "the third part"),
            ("vht80-2ss-mcs10", "no such MCS"),
            ("vht20-1ss-mcs9", "no such MCS"),
            ("ht20-2ss-mcs15", "no such MCS"),
            ("vht80-2ss-mcs9-sgi", "only lgi"),
            ("vht80-2ss-mcs9-lgi-lgi", "a part too many"),
            ("vht80-+2ss-mcs9", "spatial streams"),
        ] {
            let error = text.parse::<Phy>().unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }
}
