//! Workloads of frames: audio and video that are handed over as they are made. What is asked of them is how long each frame took.
//!
//! Source: the media tests of draft-huitema-ccwg-c4-test-04 and picoquic's `quicperf.c`, and for the encoder that follows its
//! controller RFC 8867. What differs:
//! - The sender gives frames up, as it sees that they are late; in picoquic the receiver asks it to, a group at a time.
//! - What a packet carries is chosen as it leaves, so that a frame of greater importance waits for one packet at most.

mod frames;

use paceline_cc::{Bytes, Nanos, Pacing, Rate};
use paceline_transport::Steering;
use serde::{Deserialize, Serialize};

pub use frames::{Frames, StreamOutcome};

/// Frames of one kind: voice, or one layer of a video. Frame `k` is made at `k / fps` from the start of its flow on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stream {
    /// Its name in records.
    pub name: String,
    /// Frames in a second.
    pub fps: f64,
    /// Payload bytes of a frame.
    pub size: Bytes,
    /// How many; without it, as long as the flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// Frames in a group, which begins with a key frame; 0: there are no groups.
    #[serde(default)]
    pub group: u64,
    /// Payload bytes of a key frame; without it, as the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<Bytes>,
    /// Of the streams that have something to send, the one with the smallest number sends.
    #[serde(default)]
    pub priority: u8,
    /// What is lost is not sent again, where the datapath leaves that to its application (`@udp`).
    #[serde(default)]
    pub datagram: bool,
    /// A frame that is not all sent so long after it was made is given up, and with it the others up to the next key frame.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drop_after: Option<Nanos>,
    /// A frame that is not complete so long after it was made is late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_after: Option<Nanos>,
    /// Figures are of frames made so long after the start of the flow, or later.
    #[serde(default)]
    pub stats_from: Nanos,
}

/// Video whose encoder follows its controller: now and then it takes the highest step of a ladder that [`permitted`] allows, less what
/// waits to be sent (our choice, as encoders with a rate control do). What is lost is not sent again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MediaRate {
    /// Frames in a second.
    pub fps: f64,
    /// The lowest step, and the first.
    pub least: Rate,
    /// No step is above it; each is 25 % above the one before (our choice).
    pub most: Rate,
    /// Time between two looks at the controller.
    #[serde(default = "a_second")]
    pub every: Nanos,
    /// From when to when, counted from the start of the flow, no frame is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silent: Option<[Nanos; 2]>,
    /// As of a [`Stream`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_after: Option<Nanos>,
    /// As of a [`Stream`].
    #[serde(default)]
    pub stats_from: Nanos,
}

fn a_second() -> Nanos {
    Nanos::from_secs(1)
}

impl MediaRate {
    /// The step for what the controller permits.
    fn step(&self, permitted: Option<Rate>) -> Rate {
        let permitted = permitted.unwrap_or(self.least).min(self.most);
        let steps = std::iter::successors(Some(self.least), |step| Some(step.mul_f64(1.25)));
        // From 4 bytes a second on a step is above the one before.
        steps.take_while(|step| *step <= permitted).take(MOST_STEPS).last().unwrap_or(self.least)
    }
}

/// From 1 kbit/s so many steps lead beyond every link.
const MOST_STEPS: usize = 200;

/// What a controller permits: its window in each smoothed RTT, and no more than its pacing rate where it has one. `None` before the
/// first RTT.
pub fn permitted(steering: &dyn Steering) -> Option<Rate> {
    let srtt = steering.srtt().filter(|srtt| *srtt > Nanos::ZERO)?;
    let by_window = Rate::from_bytes_in(steering.window(), srtt);
    match steering.controller().pacing() {
        Pacing::Rate(rate) => Some(by_window.min(rate)),
        _ => Some(by_window),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_the_highest_that_is_permitted() {
        let kbps = |kbps: f64| Rate::from_mbps(kbps / 1000.0);
        let media = MediaRate {
            fps: 30.0,
            least: kbps(160.0),
            most: kbps(400.0),
            every: a_second(),
            silent: None,
            late_after: None,
            stats_from: Nanos::ZERO,
        };
        // 160, 200, 250, 312.5, 390.625.
        for (permitted, step) in [(10.0, 160.0), (199.9, 160.0), (200.0, 200.0), (311.0, 250.0), (9000.0, 390.625)] {
            let found = media.step(Some(kbps(permitted)));
            assert!((found.as_mbps() * 1000.0 - step).abs() < 0.1, "{permitted}: {found}");
        }
        assert_eq!(media.step(None), media.least);
    }
}
