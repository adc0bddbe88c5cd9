//! In-band telemetry of a flow: what its packets carry, how reports reach its sender, and what goes wrong with them.

use std::fmt;
use std::str::FromStr;

use paceline_cc::foreign::clipped;
use paceline_cc::{Cause, Nanos, Time};
use paceline_telemetry::sink::INTERVAL;
use paceline_telemetry::{Edge, RecordProfile, TelemetryHeader};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::lie::Lie;

/// Telemetry of one flow.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowTelemetry {
    /// What each of its data packets carries.
    pub trace: ReportTrace,
    /// Longest time between two reports while packets come.
    pub interval: Nanos,
    /// How long a report takes to the sender; `None`: as long as an acknowledgement without queues.
    pub delay: Option<Nanos>,
    /// What goes wrong.
    pub faults: Faults,
    /// The bus that carries reports in the real world; `None`: one within the process.
    pub bus: Option<String>,
}

impl Default for FlowTelemetry {
    fn default() -> Self {
        Self { trace: ReportTrace::default(), interval: INTERVAL, delay: None, faults: Faults::default(), bus: None }
    }
}

/// What goes wrong with the reports of a flow.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults {
    /// From when on no report reaches the sender.
    pub stops: Option<Time>,
    /// When they reach it again.
    pub resumes: Option<Time>,
    /// Each report says this of losses, whatever was lost: a sink that lies.
    pub forge: Option<Cause>,
    /// What the last hop on the way says of itself that is not so.
    pub lie: Option<Lie>,
    /// Added to the delay of each report.
    pub late: Nanos,
    /// Share of reports that are lost.
    pub drop: f64,
    /// Who sends reports in a real race from `stops` on; readers refuse them. In the simulator none come.
    pub impostor: Option<Impostor>,
}

/// Who sends reports on the bus of a real race that are not the sink's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Impostor {
    /// Someone without a key that readers know.
    Stranger,
    /// Someone with the sink's name and another key.
    WrongKey,
    /// Someone who sends again what the sink has sent.
    Replay,
}

impl Faults {
    /// Whether a report made at `now` reaches the sender at all, but for those that are lost.
    pub fn passes(&self, now: Time) -> bool {
        self.stops.is_none_or(|stops| now < stops) || self.resumes.is_some_and(|resumes| now >= resumes)
    }
}

/// What a data packet carries: the fields of each record, and for how many hops there is room. As text the letter of the
/// profile and the number: `L2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportTrace {
    /// The fields.
    pub profile: RecordProfile,
    /// Records that fit; further hops write nothing.
    pub hops: u8,
}

/// The letters of the profiles.
const LETTERS: [(char, RecordProfile); 5] = [
    ('L', RecordProfile::Lean),
    ('T', RecordProfile::Timed),
    ('C', RecordProfile::Counted),
    ('X', RecordProfile::Full),
    ('W', RecordProfile::Word),
];

impl Default for ReportTrace {
    /// `L2`: what a path over two access points takes.
    fn default() -> Self {
        Self { profile: RecordProfile::Lean, hops: 2 }
    }
}

impl ReportTrace {
    /// Bytes of the header on each packet.
    pub fn header_bytes(self) -> u32 {
        TelemetryHeader::new(self.profile, self.hops, Edge::default()).octets() as u32
    }
}

impl fmt::Display for ReportTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = LETTERS.iter().find(|(_, profile)| *profile == self.profile).map_or('L', |(letter, _)| *letter);
        write!(f, "{letter}{}", self.hops)
    }
}

/// A text that is not a [`ReportTrace`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoTrace {
    /// Not a letter and a number.
    #[error("'{0}' is not a profile; write L, T, C, X or W and the number of records, such as \"L2\"")]
    Text(String),
    /// Too many records, or none.
    #[error("{profile} has room for 1 to {most} records, not {hops}; give fewer, or a profile with fewer fields")]
    Hops {
        /// The letter.
        profile: char,
        /// As given.
        hops: u64,
        /// Most that fit.
        most: usize,
    },
}

impl FromStr for ReportTrace {
    type Err = NoTrace;

    fn from_str(text: &str) -> Result<Self, NoTrace> {
        let unknown = || NoTrace::Text(clipped(text));
        let letter = text.chars().next().ok_or_else(unknown)?;
        let (_, profile) = *LETTERS.iter().find(|(known, _)| *known == letter).ok_or_else(unknown)?;
        let number = text.strip_prefix(letter).filter(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()));
        let hops: u64 = number.and_then(|number| number.parse().ok()).ok_or_else(unknown)?;
        let most = profile.max_hops();
        match u8::try_from(hops) {
            Ok(hops) if (1..=most).contains(&usize::from(hops)) => Ok(Self { profile, hops }),
            _ => Err(NoTrace::Hops { profile: letter, hops, most }),
        }
    }
}

impl<'de> Deserialize<'de> for ReportTrace {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl Serialize for ReportTrace {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Losses of one kind, by the reason that the sink gave for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NamedLosses {
    /// The medium.
    pub medium: u64,
    /// A queue that was full, or its AQM.
    pub overflow: u64,
    /// A policer.
    pub policed: u64,
    /// None: it gave no reason, or had not seen the loss by the end.
    pub unknown: u64,
}

impl NamedLosses {
    /// All of them.
    pub fn all(&self) -> u64 {
        self.medium + self.overflow + self.policed + self.unknown
    }
}

/// What telemetry did for a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TelemetryOutcome {
    /// Reports that reached the sender.
    pub reports: u64,
    /// Of these, those that it did not believe.
    pub refused: u64,
    /// Packets that the medium lost, as the sink named them.
    pub medium: NamedLosses,
    /// Packets that a queue dropped, as the sink named them.
    pub overflow: NamedLosses,
    /// Packets that a policer dropped, as the sink named them.
    pub policed: NamedLosses,
}

impl TelemetryOutcome {
    /// Of one gap: what truly became of its packets, by the medium, by queues and by policers, and what the sink made of them. Which of
    /// them was which it does not say, so that the two are matched as well as they can be; what it did not name stays unknown.
    pub fn count(&mut self, mut truth: [u64; 3], mut called: [u64; 3]) {
        let named = [&mut self.medium, &mut self.overflow, &mut self.policed];
        let mut names = named.map(|losses| {
            let NamedLosses { medium, overflow, policed, unknown } = losses;
            ([medium, overflow, policed], unknown)
        });
        // First what is right, then each cause with what is left of the others.
        for step in 0..3 {
            for cause in 0..3 {
                let name = (cause + step) % 3;
                let matched = truth[cause].min(called[name]);
                *names[cause].0[name] += matched;
                truth[cause] -= matched;
                called[name] -= matched;
            }
        }
        for ((_, unknown), left) in names.iter_mut().zip(truth) {
            **unknown += left;
        }
    }
}

impl std::ops::AddAssign<&Self> for TelemetryOutcome {
    fn add_assign(&mut self, other: &Self) {
        self.reports += other.reports;
        self.refused += other.refused;
        let own = [&mut self.medium, &mut self.overflow, &mut self.policed];
        for (sum, part) in own.into_iter().zip([&other.medium, &other.overflow, &other.policed]) {
            sum.medium += part.medium;
            sum.overflow += part.overflow;
            sum.policed += part.policed;
            sum.unknown += part.unknown;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_a_letter_and_a_number_and_its_size_is_that_of_the_specification() {
        let bytes = |text: &str| text.parse::<ReportTrace>().unwrap().header_bytes();
        assert_eq!(["L1", "L2", "L3", "T2", "C2", "X2", "W1"].map(bytes), [48, 64, 80, 80, 72, 112, 40]);
        for text in ["L15", "T10", "C3", "X6"] {
            assert_eq!(text.parse::<ReportTrace>().unwrap().to_string(), text);
        }
        let refused = |text: &str| text.parse::<ReportTrace>().unwrap_err().to_string();
        assert_eq!(refused("X7"), "X has room for 1 to 6 records, not 7; give fewer, or a profile with fewer fields");
        for text in ["", "2", "L", "L0", "L-1", "l2", "L2 ", "Q3", "W2", "L99999999999999999999"] {
            assert!(text.parse::<ReportTrace>().is_err(), "{text}");
        }
    }

    #[test]
    fn reports_pass_outside_their_silence() {
        let faults = Faults { stops: Some(Time::from_millis(5)), ..Faults::default() };
        let passes = |faults: &Faults| [4, 5, 8, 9].map(|ms| faults.passes(Time::from_millis(ms)));
        assert_eq!(passes(&Faults::default()), [true; 4]);
        assert_eq!(passes(&faults), [true, false, false, false]);
        assert_eq!(passes(&Faults { resumes: Some(Time::from_millis(9)), ..faults }), [true, false, false, true]);
    }

    #[test]
    fn what_a_gap_was_and_what_it_was_called_are_matched() {
        let count = |truth, called| {
            let mut outcome = TelemetryOutcome::default();
            let two = |[medium, overflow]: [u64; 2]| [medium, overflow, 0];
            outcome.count(two(truth), two(called));
            let TelemetryOutcome { medium, overflow, .. } = outcome;
            [[medium.medium, medium.overflow, medium.unknown], [overflow.medium, overflow.overflow, overflow.unknown]]
        };
        assert_eq!(count([3, 2], [3, 2]), [[3, 0, 0], [0, 2, 0]]);
        assert_eq!(count([3, 2], [5, 0]), [[3, 0, 0], [2, 0, 0]]);
        assert_eq!(count([3, 2], [0, 4]), [[0, 2, 1], [0, 2, 0]]);
        assert_eq!(count([1, 1], [0, 0]), [[0, 0, 1], [0, 0, 1]]);
        assert_eq!(count([0, 0], [2, 2]), [[0; 3]; 2], "late packets, which were not lost");
        let mut outcome = TelemetryOutcome::default();
        outcome.count([1, 2, 4], [3, 1, 2]);
        let TelemetryOutcome { medium, overflow, policed, .. } = outcome;
        let by = |losses: NamedLosses| [losses.medium, losses.overflow, losses.policed, losses.unknown];
        assert_eq!([medium, overflow, policed].map(by), [[1, 0, 0, 0], [0, 1, 0, 1], [2, 0, 2, 0]]);
    }
}
