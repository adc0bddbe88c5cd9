//! A scenario file: who races on which path; `docs/guide/scenarios.md` describes every key.
//!
//! A [`Scenario`] that was parsed is a valid one. Every error names file, line and key, and how to fix it.

use std::collections::BTreeMap;

use paceline_cc::foreign::printable;
use paceline_cc::{Bytes, Nanos, Rate};
use paceline_experiment::{Misbehaviour, Program, Timing, Workload, config};
use paceline_path::{Direction, PathError};
use paceline_transport::HEADER_BYTES;
use serde::{Deserialize, Serialize};

use crate::contestant::Contestant;
use crate::named::fields_of;

mod check;
mod effective;
mod link;
mod media;
mod nodes;
pub(crate) mod places;
mod programs;
mod racers;
mod range;
mod setting;
mod source;
mod telemetry;
mod topology;
mod traffic;
mod when;

use check::{MAX_SECONDS, MAX_SEED};
pub use link::Link;
pub use nodes::ContentNode;
pub use programs::read_programs;
pub use source::{Options, Plan, Source};
pub use telemetry::{Forged, Telemetry};
pub use when::When;

/// A scenario, without ranges: what one run does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Its name in records.
    #[serde(deserialize_with = "one_line")]
    pub name: String,
    /// One line for people.
    #[serde(default, deserialize_with = "one_line")]
    pub title: String,
    /// Simulated time of a run, seconds.
    #[serde(default = "default::seconds")]
    pub seconds: f64,
    /// How often each contestant runs, each time with another seed.
    #[serde(default = "default::runs")]
    pub runs: u32,
    /// Where all randomness comes from.
    #[serde(default = "default::seed")]
    pub seed: u64,
    /// Congestion control of a TCP connection that carries all flows, as a VPN over TCP does. In the real world alone:
    /// the simulator shows flows the path itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tunnel: Option<String>,
    /// Who races, each alone in a world of its own.
    #[serde(default)]
    pub contestants: Vec<Contestant>,
    /// Programs that are not ours, by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub programs: BTreeMap<String, Program>,
    /// A file with further ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub programs_from: Option<String>,
    /// The path from the network to the user.
    #[serde(default)]
    pub down: Direction,
    /// The path from the user to the network.
    #[serde(default)]
    pub up: Direction,
    /// Links by name, in place of the two paths, of which a scenario without links is the short form.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub links: BTreeMap<String, Link>,
    /// Nodes with content routers, by the names that links give them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub nodes: BTreeMap<String, ContentNode>,
    /// In-band telemetry: what hops see reaches the senders.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub telemetry: Option<Telemetry>,
    /// Flows of a world; without any, one bulk flow of the contestant.
    #[serde(default)]
    pub flows: Vec<Flow>,
    /// Traffic without a controller.
    #[serde(default)]
    pub cross: Vec<Cross>,
    /// Changes that controllers trigger.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub when: Vec<When>,
}

/// Flows of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Flow {
    /// Whose flow it is.
    pub contestant: Who,
    /// How many such flows.
    pub count: u32,
    /// Time from the start of one of them to the start of the next.
    pub stagger: Nanos,
    /// Which way its data travels, where there are no links.
    pub direction: config::DumbbellWay,
    /// The node that sends its data, where there are links.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The node that receives it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// What it fetches from a content router: flows with the same name the same object. Without it each has its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// Further nodes with routers that are asked for it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,
    /// When it starts (the first of `count`).
    pub start: Nanos,
    /// When its application stops writing; without it, with the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<Nanos>,
    /// What its application writes.
    pub workload: Workload,
    /// Added to the path's delay for this flow alone, each way.
    pub extra_delay: Nanos,
    /// Payload bytes of a full packet.
    pub mss: u32,
    /// Packets for one acknowledgement of TCP's receiver; 1 acknowledges each.
    pub ack_every: u32,
    /// Longest delay of an acknowledgement.
    pub ack_delay: Nanos,
    /// Pace TCP flows whose controller leaves pacing to the datapath.
    pub paced: bool,
    /// An empty packet and its answer before any data.
    pub handshake: bool,
    /// What an earlier flow to the same place learnt, for a start-up that makes use of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remembered: Option<Earlier>,
    /// What one of these flows learns is lent to the next.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub remember: bool,
    /// Acknowledgements report when each packet arrived.
    pub arrivals: bool,
    /// What its receiver does in place of what it should.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receiver: Option<Misbehaviour>,
    /// How well its two hosts keep time.
    pub timers: Timing,
    /// Whether its packets carry telemetry, where the scenario has it and the datapath can: without the key they do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub telemetry: Option<bool>,
}

impl Default for Flow {
    /// One bulk flow of the contestant under test.
    ///
    /// 1448 bytes: 1500 less IPv4, TCP and time-stamp headers. An acknowledgement every second packet, at the latest
    /// after 40 ms: RFC 5681 section 4.2 with Linux's `TCP_DELACK_MIN`. Unpaced: as Linux without fq.
    fn default() -> Self {
        Self {
            contestant: Who::Each,
            count: 1,
            stagger: Nanos::ZERO,
            direction: config::DumbbellWay::Down,
            from: None,
            to: None,
            object: None,
            sources: Vec::new(),
            start: Nanos::ZERO,
            stop: None,
            workload: Workload::Bulk,
            extra_delay: Nanos::ZERO,
            mss: 1448,
            ack_every: 2,
            ack_delay: Nanos::from_millis(40),
            paced: false,
            handshake: false,
            remembered: None,
            remember: false,
            arrivals: false,
            receiver: None,
            timers: Timing::default(),
            telemetry: None,
        }
    }
}

/// What an earlier flow to the same place learnt of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Earlier {
    /// What was acknowledged in a round trip.
    pub window: Bytes,
    /// Smallest RTT.
    pub rtt: Nanos,
    /// How long before the start of the run that was.
    #[serde(default)]
    pub age: Nanos,
}

/// Whose flow it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Who {
    /// The contestant under test: `each`.
    Each,
    /// Always this one.
    Fixed(Box<Contestant>),
}

/// Traffic without a controller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cross {
    /// Which way it travels, where there are no links.
    #[serde(default)]
    pub direction: config::DumbbellWay,
    /// The node that sends it, where there are links.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The node that it goes to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Mean rate on the wire.
    pub rate: Rate,
    /// Bytes of a packet on the wire.
    #[serde(default = "default::packet")]
    pub packet: Bytes,
    /// Packets that leave together, such as those of a frame.
    #[serde(default = "default::burst", skip_serializing_if = "default::is_burst")]
    pub burst: u32,
    /// Gaps are exponentially distributed rather than equal.
    #[serde(default)]
    pub poisson: bool,
    /// When it starts.
    #[serde(default)]
    pub start: Nanos,
    /// When it stops; without it, with the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Nanos>,
}

/// The keys of a scenario's tables, by the tables' names in this crate: for bindings that have types of their own.
pub fn keys() -> [(&'static str, Vec<&'static str>); 9] {
    let direction = fields_of::<Direction>();
    let link = ["between", "back"].into_iter().chain(direction.iter().copied()).collect();
    [
        ("Scenario", fields_of::<Scenario>()),
        ("Program", fields_of::<Program>()),
        ("Direction", direction),
        ("Link", link),
        ("ContentNode", fields_of::<ContentNode>()),
        ("Flow", fields_of::<Flow>()),
        ("Cross", fields_of::<Cross>()),
        ("Telemetry", fields_of::<Telemetry>()),
        ("When", fields_of::<When>()),
    ]
}

/// Why a scenario cannot run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScenarioError {
    /// The file cannot be read.
    #[error("{file}: cannot be read ({source}); name a scenario file (text in UTF-8) that exists")]
    Read {
        /// The file.
        file: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// Something in the file is wrong.
    #[error("{file}:{line}: {}{problem}", colon(field))]
    Field {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The key, such as `down.queue`; empty when the text is not TOML.
        field: String,
        /// What was wrong, and how to fix it.
        problem: String,
    },
    /// An option is wrong.
    #[error("{option}: {problem}")]
    Option {
        /// The option, such as `--seconds`, or `--set` with what it sets.
        option: String,
        /// What was wrong, and how to fix it.
        problem: String,
    },
    /// A trace is wrong; its error names file and line.
    #[error(transparent)]
    Trace(#[from] paceline_path::TraceError),
}

/// A key of a scenario with what is wrong with it, before it is known where in the file it stands.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {problem}")]
pub struct KeyError {
    /// The key, such as `down.queue`.
    pub key: String,
    /// What was wrong, and how to fix it.
    pub problem: String,
}

impl KeyError {
    pub(crate) fn new(key: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { key: key.into(), problem: problem.into() }
    }

    /// Of a path, in the direction of this key.
    fn of_path(direction: &str, error: &PathError) -> Self {
        match error {
            PathError::Field { field, problem, fix } => {
                Self::new(format!("{direction}.{field}"), format!("{problem}; {fix}"))
            }
            other => Self::new(direction, other.to_string()),
        }
    }
}

fn colon(field: &str) -> String {
    if field.is_empty() { String::new() } else { format!("{field}: ") }
}

/// A text that terminals and pages will show: what could move a cursor in it becomes a space.
fn one_line<'de, D: serde::Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    String::deserialize(from).map(|text| printable(&text, usize::MAX))
}

/// Defaults of our choice.
mod default {
    use paceline_cc::Bytes;

    /// Long enough for the start-up to weigh little.
    pub(super) fn seconds() -> f64 {
        60.0
    }

    /// The interval of the median then covers 97.9 %, and outlives an outlier at either end.
    pub(super) fn runs() -> u32 {
        10
    }

    pub(super) fn seed() -> u64 {
        1
    }

    /// A full Ethernet payload.
    pub(super) fn packet() -> Bytes {
        Bytes(1500)
    }

    /// Packets leave one by one.
    pub(super) fn burst() -> u32 {
        1
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives references")]
    pub(super) fn is_burst(packets: &u32) -> bool {
        *packets == burst()
    }
}

impl TryFrom<String> for Who {
    type Error = crate::contestant::ContestantError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        if text == "each" { Ok(Self::Each) } else { Ok(Self::Fixed(Box::new(text.parse()?))) }
    }
}

impl From<Who> for String {
    fn from(who: Who) -> Self {
        match who {
            Who::Each => "each".to_owned(),
            Who::Fixed(contestant) => contestant.to_string(),
        }
    }
}

impl Scenario {
    /// The flows of a world; a scenario that names none has one bulk flow of the contestant.
    pub fn flows(&self) -> Vec<Flow> {
        if self.flows.is_empty() { vec![Flow::default()] } else { self.flows.clone() }
    }

    /// The trace of the record: of the path down, or of the first link that has one.
    pub(crate) fn trace(&self) -> Option<&str> {
        if self.links.is_empty() {
            return self.down.trace.as_deref();
        }
        self.directions().into_iter().find_map(|(_, direction)| direction.trace.as_deref())
    }

    /// Bytes on the wire of the largest packet that a flow or cross traffic sends.
    fn largest_packet(&self) -> u32 {
        let data = self.flows().iter().map(|flow| flow.mss + HEADER_BYTES).max().unwrap_or(0);
        let cross = self.cross.iter().map(|cross| u32::try_from(cross.packet.0).unwrap_or(u32::MAX)).max();
        data.max(cross.unwrap_or(0))
    }

    /// The whole scenario as a file again, every default filled in.
    pub fn to_toml(&self) -> String {
        let text = self.to_table().and_then(|table| toml::to_string(&table));
        text.unwrap_or_else(|error| format!("# cannot be written: {error}\n"))
    }

    /// The same as a table: with links, without the keys of the short form.
    fn to_table(&self) -> Result<toml::Table, toml::ser::Error> {
        let mut whole = toml::Table::try_from(self)?;
        if !self.links.is_empty() {
            whole.retain(|key, _| key != "down" && key != "up");
            let traffic = whole.iter_mut().filter(|(key, _)| matches!(key.as_str(), "flows" | "cross"));
            for one in traffic.filter_map(|(_, value)| value.as_array_mut()).flatten() {
                one.as_table_mut().map(|table| table.remove("direction"));
            }
        }
        Ok(whole)
    }
}
