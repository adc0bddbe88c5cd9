//! What a scenario file says of a Wi-Fi link: `wifi = { phy = "vht80-2ss-mcs9", competitors = 1 }`.

use paceline_cc::{Bytes, Nanos, Rate};
use serde::{Deserialize, Serialize};

use super::Phy;
use super::contention::CW_MIN;
use super::phy::{ACK, AIFS, BLOCK_ACK, CTS, RTS, SIFS, SLOT};
use crate::loss::LossModel;

/// Most frames that one Block Ack answers (10.24.7).
const MOST_FRAMES: u32 = 64;
/// MAC header with QoS field, and frame check sequence (9.2.3).
const MAC: u64 = 26 + 4;
/// LLC and SNAP in front of an IP packet (IEEE 802.2).
const LLC: u64 = 8;
/// Header of a packet inside an A-MSDU (9.3.2.2.2).
const SUBFRAME: u64 = 14;
/// Header and check of CCMP (12.5.3.2).
const CCMP: u64 = 16;
/// Delimiter in front of a frame of an A-MPDU (9.7.1).
const DELIMITER: u64 = 4;
/// The IP packet by which capacities are reckoned.
const FULL: u64 = 1500;

/// One direction of a Wi-Fi link: how its sender sends, and what else is on the channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wifi {
    /// Rate of the physical layer.
    pub phy: Phy,
    /// Links with the same channel share one medium; without it, a link has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// Stations on the channel that always have full packets to send.
    #[serde(default)]
    pub competitors: u32,
    /// Their rate; without it, that of the channel's first link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub competitor_phy: Option<Phy>,
    /// Share of the time in which something else, not Wi-Fi, keeps the channel busy.
    #[serde(default)]
    pub interference: f64,
    /// Mean length of such a busy time (our choice: a burst of some frames).
    #[serde(default = "default::interference_on")]
    pub interference_on: Nanos,
    /// Whether exchanges begin with request and clear to send, so that a collision costs a short frame only.
    #[serde(default)]
    pub rts: bool,
    /// Which of an access point's stations is next.
    #[serde(default)]
    pub turns: Turns,
    /// Each frame is lost with this probability, or in bursts, and sent again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per: Option<LossModel>,
    /// How often a frame is sent again (802.11's retry limits of drivers: 7 to 15).
    #[serde(default = "default::retries")]
    pub retries: u32,
    /// The MCS walks up and down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub walk: Option<Walk>,
    /// Most frames of an aggregate; 1 does not aggregate.
    #[serde(default = "default::mpdus")]
    pub mpdus: u32,
    /// Most bytes of an aggregate; without it, what the format permits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ampdu: Option<Bytes>,
    /// Most bytes of packets in one frame (A-MSDU); without it, each packet is a frame.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amsdu: Option<Bytes>,
    /// Longest time on the air (9.19: 5.484 ms; many drivers stop at 4 ms, HT alone may take 10 ms).
    #[serde(default = "default::ppdu")]
    pub ppdu: Nanos,
    /// How far ahead of the oldest unacknowledged frame the sender may be.
    #[serde(default)]
    pub window: WifiWindow,
    /// Frames are encrypted by CCMP, which takes 16 bytes of each.
    #[serde(default)]
    pub ccmp: bool,
}

/// Which of an access point's stations is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Turns {
    /// One aggregate each, in turn.
    #[default]
    Rounds,
    /// The one that has used the least time on the air.
    Airtime,
}

/// How far ahead of the oldest unacknowledged frame the sender may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WifiWindow {
    /// As far as frames are sent again: an aggregate is full while enough waits.
    #[default]
    Count,
    /// Sequence numbers within one Block-Ack window of `mpdus`: after a loss, an aggregate ends there.
    Sequence,
}

/// A walk of the MCS: `{ lowest = 4, highest = 9, hold = "100ms" }`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Walk {
    /// Lowest MCS.
    pub lowest: u8,
    /// Highest MCS.
    pub highest: u8,
    /// Mean time for which one holds, exponentially distributed (Linux `minstrel_ht` decides every 50 to 100 ms).
    #[serde(default = "default::hold")]
    pub hold: Nanos,
}

/// What links on one channel must say alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SharedChannel {
    pub(super) competitors: u32,
    pub(super) competitor_phy: Option<Phy>,
    pub(super) interference: f64,
    pub(super) interference_on: Nanos,
    pub(super) rts: bool,
    pub(super) turns: Turns,
}

mod default {
    use paceline_cc::Nanos;

    pub(super) fn interference_on() -> Nanos {
        Nanos::from_millis(1)
    }

    pub(super) fn retries() -> u32 {
        10
    }

    pub(super) fn mpdus() -> u32 {
        super::MOST_FRAMES
    }

    pub(super) fn ppdu() -> Nanos {
        Nanos::from_micros(5_484)
    }

    pub(super) fn hold() -> Nanos {
        Nanos::from_millis(100)
    }
}

/// Most competitors (our choice: more than any channel carries).
const MOST_COMPETITORS: u32 = 100;
/// Most that a frame is sent again (our choice: far above what drivers do).
const MOST_RETRIES: u32 = 100;
/// Shortest and longest times on the air that may be asked for (the shortest: our choice, below one full frame at the lowest rate).
const PPDU: [Nanos; 2] = [Nanos::from_micros(500), Nanos::from_millis(10)];
/// Largest share of interference (our choice: above it hardly anything gets through).
const MOST_INTERFERENCE: f64 = 0.9;
/// Shortest times of interference and of the walk (our choice: below them they are no bursts any more).
const SHORTEST: Nanos = Nanos::from_micros(10);
/// Largest A-MSDU: the largest frame of VHT less its header (9.2.4.7).
const MOST_AMSDU: u64 = 11_454 - MAC;

impl Wifi {
    /// A link that has its channel for itself, without losses.
    pub fn new(phy: Phy) -> Self {
        Self {
            phy,
            channel: None,
            competitors: 0,
            competitor_phy: None,
            interference: 0.0,
            interference_on: default::interference_on(),
            rts: false,
            turns: Turns::default(),
            per: None,
            retries: default::retries(),
            walk: None,
            mpdus: default::mpdus(),
            ampdu: None,
            amsdu: None,
            ppdu: default::ppdu(),
            window: WifiWindow::default(),
            ccmp: false,
        }
    }

    /// What all links of its channel have in common.
    pub fn shared(&self) -> SharedChannel {
        let Self { competitors, competitor_phy, interference, interference_on, rts, turns, .. } = *self;
        SharedChannel { competitors, competitor_phy, interference, interference_on, rts, turns }
    }

    /// What is wrong with it: the key, the problem, and how to fix it.
    pub(crate) fn check(&self) -> Result<(), (&'static str, String, &'static str)> {
        if let Some(channel) = &self.channel
            && (channel.is_empty() || !channel.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_'))
        {
            let problem = format!("'{}' is not a name", paceline_cc::foreign::clipped(channel));
            return Err(("wifi.channel", problem, "use letters, digits, - and _, such as air"));
        }
        if self.competitors > MOST_COMPETITORS {
            let problem = format!("{} are more than {MOST_COMPETITORS}", self.competitors);
            return Err(("wifi.competitors", problem, "give fewer"));
        }
        if self.competitor_phy.is_some() && self.competitors == 0 {
            let problem = "there are no competitors".to_owned();
            return Err(("wifi.competitor_phy", problem, "give competitors, or leave it out"));
        }
        if !(0.0..=MOST_INTERFERENCE).contains(&self.interference) {
            let problem = format!("{} is not a share from 0 to {MOST_INTERFERENCE}", self.interference);
            return Err(("wifi.interference", problem, "give a number such as 0.3"));
        }
        if self.interference_on < SHORTEST {
            return Err(("wifi.interference_on", "it is below 10us".to_owned(), "give a time such as 1ms"));
        }
        self.check_losses()?;
        self.check_aggregates()
    }

    fn check_losses(&self) -> Result<(), (&'static str, String, &'static str)> {
        for (name, probability) in self.per.iter().flat_map(LossModel::probabilities) {
            if !(0.0..=1.0).contains(&probability) {
                let key = match name {
                    "loss.gilbert.enter" => "wifi.per.gilbert.enter",
                    "loss.gilbert.leave" => "wifi.per.gilbert.leave",
                    "loss.gilbert.good" => "wifi.per.gilbert.good",
                    "loss.gilbert.bad" => "wifi.per.gilbert.bad",
                    _ => "wifi.per",
                };
                return Err((key, format!("{probability} is not a probability"), "give a number from 0 to 1"));
            }
        }
        if self.retries > MOST_RETRIES {
            let problem = format!("{} are more than {MOST_RETRIES}", self.retries);
            return Err(("wifi.retries", problem, "give fewer; drivers have 7 to 15"));
        }
        let Some(Walk { lowest, highest, hold }) = self.walk else { return Ok(()) };
        if lowest >= highest || !(lowest..=highest).contains(&self.phy.mcs()) {
            let problem = format!("the MCS of {} is not between {lowest} and {highest}", self.phy);
            return Err(("wifi.walk", problem, "write { lowest = 4, highest = 9 } around it"));
        }
        if let Some(mcs) = (lowest..=highest).find(|mcs| self.phy.with_mcs(*mcs).is_none()) {
            let problem = format!("{} has no MCS {mcs} at this width and number of streams", self.phy);
            return Err(("wifi.walk", problem, "leave it outside the walk"));
        }
        if hold < SHORTEST {
            return Err(("wifi.walk.hold", "it is below 10us".to_owned(), "give a time such as 100ms"));
        }
        Ok(())
    }

    fn check_aggregates(&self) -> Result<(), (&'static str, String, &'static str)> {
        if !(1..=MOST_FRAMES).contains(&self.mpdus) {
            let problem = format!("{} is not from 1 to {MOST_FRAMES}", self.mpdus);
            return Err(("wifi.mpdus", problem, "give 64, or 1 to send frames one by one"));
        }
        if let Some(Bytes(bytes)) = self.ampdu
            && !(1..=self.phy.most_aggregated()).contains(&bytes)
        {
            let problem = format!("{bytes} bytes are not from 1 to {}", self.phy.most_aggregated());
            return Err(("wifi.ampdu", problem, "give a size such as 65535"));
        }
        if let Some(Bytes(bytes)) = self.amsdu
            && !(1..=MOST_AMSDU).contains(&bytes)
        {
            let problem = format!("{bytes} bytes are not from 1 to {MOST_AMSDU}");
            return Err(("wifi.amsdu", problem, "give a size such as 3839 or 7935"));
        }
        let [least, most] = PPDU;
        if !(least..=most).contains(&self.ppdu) {
            let problem = "it is not from 500us to 10ms".to_owned();
            return Err(("wifi.ppdu", problem, "give a time such as 4ms"));
        }
        Ok(())
    }

    /// Bytes of a frame with one packet.
    pub(super) fn frame(&self, packet: u64) -> u64 {
        MAC + LLC + packet + self.encryption()
    }

    /// Bytes of a frame with no packets yet (A-MSDU).
    pub(super) fn empty_frame(&self) -> u64 {
        MAC + self.encryption()
    }

    /// Bytes of packets in a frame of several, and those with one more.
    pub(super) fn and_one_more(packets: u64, packet: u64) -> u64 {
        packets.next_multiple_of(4) + SUBFRAME + LLC + packet
    }

    fn encryption(&self) -> u64 {
        if self.ccmp { CCMP } else { 0 }
    }

    /// Bytes of a frame inside an aggregate.
    pub(super) fn in_aggregate(frame: u64) -> u64 {
        (DELIMITER + frame).next_multiple_of(4)
    }

    /// Most bytes of an aggregate at this rate.
    pub(super) fn most_bytes(&self, phy: Phy) -> u64 {
        let most = self.ampdu.map_or(phy.most_aggregated(), |Bytes(bytes)| bytes.min(phy.most_aggregated()));
        most.min(phy.most_bytes(self.ppdu))
    }

    /// How long an exchange lasts in which this many full packets, or the most that an aggregate holds, are sent at this rate without a
    /// collision: from the first bit to the end of the data, and the rest; and the packets.
    pub(super) fn full(&self, phy: Phy) -> (Nanos, Nanos, u64) {
        let (mut frame, mut each) = (self.frame(FULL), 1);
        if let Some(Bytes(most)) = self.amsdu {
            let mut packets = Self::and_one_more(0, FULL);
            while Self::and_one_more(packets, FULL) <= most {
                packets = Self::and_one_more(packets, FULL);
                each += 1;
            }
            if each > 1 {
                frame = self.empty_frame() + packets;
            }
        }
        let frames = (self.most_bytes(phy) / Self::in_aggregate(frame)).clamp(1, u64::from(self.mpdus));
        let air = if frames == 1 { phy.air(frame) } else { phy.air(frames * Self::in_aggregate(frame)) };
        let air = if self.rts { RTS + SIFS + CTS + SIFS + air } else { air };
        (air, SIFS + response(frames), frames * each)
    }

    /// What full packets alone on the channel get at this rate, counted from the IP header on, with what is lost and sent again.
    fn alone(&self, phy: Phy) -> f64 {
        let (air, rest, packets) = self.full(phy);
        let access = AIFS + SLOT.mul_div(u64::from(CW_MIN), 2);
        let arrives = 1.0 - self.per.map_or(0.0, |loss| loss.mean());
        (packets * FULL) as f64 * arrives / (access + air + rest).as_secs_f64()
    }

    /// What full packets alone on the channel get at an MCS of the walk; without a walk, of the rate.
    pub(super) fn expected(&self, phy: Phy) -> Rate {
        Rate::from_bytes_per_sec(self.alone(phy) as u64)
    }

    /// What full packets alone on the channel get, over the walk: the capacity by which the direction is reckoned.
    pub fn nominal(&self) -> Rate {
        let Some(Walk { lowest, highest, .. }) = self.walk else { return self.expected(self.phy) };
        let mean: f64 = (lowest..=highest)
            .filter_map(|mcs| self.phy.with_mcs(mcs))
            .map(|phy| {
                let inside = phy.mcs() > lowest && phy.mcs() < highest;
                let weight = if inside { 2.0 } else { 1.0 };
                weight * self.alone(phy) / (2.0 * f64::from(highest - lowest))
            })
            .sum();
        Rate::from_bytes_per_sec(mean as u64)
    }
}

/// How long the answer to this many frames takes.
pub(super) fn response(frames: u64) -> Nanos {
    if frames == 1 { ACK } else { BLOCK_ACK }
}
