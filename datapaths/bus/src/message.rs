//! What messages say: a type for each kind, as JSON.

use std::net::Ipv6Addr;

use paceline_telemetry::report::VERSION;
use paceline_telemetry::wire::NAMESPACE;
use paceline_telemetry::{FlowReport, MalformedReport, NodeReport, Tuple};
use serde::{Deserialize, Serialize};

use crate::gate::RefusalReason;
use crate::subject::{BusSubject, MessageKind};

/// What a source is to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Control {
    /// The version of reports.
    pub v: u8,
    /// The namespace.
    pub ns: u16,
    /// Whether it inserts headers at all.
    pub on: bool,
    /// It inserts a header into one of this many packets; 1: into each.
    #[serde(default = "one")]
    pub every: u32,
}

const fn one() -> u32 {
    1
}

impl Control {
    /// On, in one of this many packets, or off.
    pub const fn new(on: bool, every: u32) -> Self {
        Self { v: VERSION, ns: NAMESPACE, on, every }
    }
}

/// A sign of life.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// The version of reports.
    pub v: u8,
    /// The namespace.
    pub ns: u16,
    /// Seconds since it began.
    pub up_s: u64,
    /// Flows that it serves.
    #[serde(default)]
    pub flows: u32,
    /// Messages published.
    #[serde(default)]
    pub published: u64,
    /// Messages that were replaced by newer ones, expired, or found a subscriber slow.
    #[serde(default)]
    pub dropped: u64,
    /// Messages taken in.
    #[serde(default)]
    pub taken: u64,
    /// Messages refused.
    #[serde(default)]
    pub refused: u64,
}

impl Default for Health {
    fn default() -> Self {
        Self { v: VERSION, ns: NAMESPACE, up_s: 0, flows: 0, published: 0, dropped: 0, taken: 0, refused: 0 }
    }
}

/// A message's content.
#[derive(Clone, Debug, PartialEq)]
pub enum MessageBody {
    /// On [`MessageKind::Flow`].
    Flow(FlowReport),
    /// On [`MessageKind::Node`].
    Node(NodeReport),
    /// On [`MessageKind::Control`].
    Control(Control),
    /// On [`MessageKind::Health`].
    Health(Health),
}

/// A message that was let in.
#[derive(Clone, Debug, PartialEq)]
pub struct BusMessage {
    /// What it is about.
    pub subject: BusSubject,
    /// Who published it.
    pub publisher: String,
    /// Its number: when it was published, in microseconds since 1970.
    pub number: u64,
    /// What it says.
    pub body: MessageBody,
}

/// The number of a flow in subjects and in the long form of the edge option: a hash of its ends, the same for everyone who knows
/// them, so that a sender can subscribe to its own. Two flows with the same number get each other's reports, and look at the ends in
/// these. Each word is mixed in by a multiplication with 2^64 over the golden ratio (Knuth, The Art of Computer Programming 3, section
/// 6.4), which eBPF can do as well.
pub fn flow_number(tuple: &Tuple) -> u32 {
    let mixed = |hash: u64, word: u64| {
        let hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash ^ hash >> 32
    };
    let words = |address: Ipv6Addr| [96, 64, 32, 0].map(|shift| u64::from((address.to_bits() >> shift) as u32));
    let addresses = words(tuple.src).into_iter().zip(words(tuple.dst));
    let hash = addresses.fold(0, |hash, (source, destination)| mixed(hash, source | destination << 32));
    (mixed(hash, u64::from(tuple.sport) | u64::from(tuple.dport) << 16) >> 32) as u32
}

impl MessageBody {
    /// Reads a message's text.
    ///
    /// # Errors
    /// When it is not of this kind, or speaks of something else than its subject.
    pub fn read(kind: &MessageKind, text: &[u8]) -> Result<Self, RefusalReason> {
        match kind {
            MessageKind::Flow(flow) => {
                let report = FlowReport::from_json(text).map_err(|error| why(&error))?;
                if flow_number(&report.tuple) == *flow { Ok(Self::Flow(report)) } else { Err(RefusalReason::Content) }
            }
            MessageKind::Node(node) => {
                let report = NodeReport::from_json(text).map_err(|error| why(&error))?;
                if report.node == *node { Ok(Self::Node(report)) } else { Err(RefusalReason::Content) }
            }
            MessageKind::Control(_) => {
                let control: Control = serde_json::from_slice(text).map_err(|_| RefusalReason::Content)?;
                spoken(control.v, control.ns)?;
                if control.every > 0 { Ok(Self::Control(control)) } else { Err(RefusalReason::Content) }
            }
            MessageKind::Health { .. } => {
                let health: Health = serde_json::from_slice(text).map_err(|_| RefusalReason::Content)?;
                spoken(health.v, health.ns)?;
                Ok(Self::Health(health))
            }
        }
    }

    /// As it travels.
    pub fn text(&self) -> Vec<u8> {
        match self {
            Self::Flow(report) => report.to_json(),
            Self::Node(report) => report.to_json(),
            Self::Control(control) => serde_json::to_vec(control).unwrap_or_default(),
            Self::Health(health) => serde_json::to_vec(health).unwrap_or_default(),
        }
    }
}

fn why(error: &MalformedReport) -> RefusalReason {
    match error {
        MalformedReport::Version(_) | MalformedReport::Namespace(_) => RefusalReason::Namespace,
        _ => RefusalReason::Content,
    }
}

fn spoken(version: u8, namespace: u16) -> Result<(), RefusalReason> {
    if (version, namespace) == (VERSION, NAMESPACE) { Ok(()) } else { Err(RefusalReason::Namespace) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::PublisherRole;

    #[test]
    fn a_message_is_read_as_it_was_written() {
        let tuple = Tuple { sport: 1, dport: 2, ..Tuple::default() };
        let health = MessageKind::Health { role: PublisherRole::Sink, host: "a".to_owned() };
        let all = [
            (MessageKind::Flow(flow_number(&tuple)), MessageBody::Flow(FlowReport { tuple, ..FlowReport::default() })),
            (MessageKind::Node(7), MessageBody::Node(NodeReport { node: 7, ..NodeReport::default() })),
            (MessageKind::Control("a".to_owned()), MessageBody::Control(Control::new(true, 8))),
            (health, MessageBody::Health(Health { up_s: 3, ..Health::default() })),
        ];
        for (kind, body) in &all {
            assert_eq!(MessageBody::read(kind, &body.text()).as_ref(), Ok(body));
            assert_eq!(MessageBody::read(kind, b"{}"), Err(RefusalReason::Content));
            assert_eq!(MessageBody::read(kind, b""), Err(RefusalReason::Content));
            let text = String::from_utf8(body.text()).unwrap();
            let other = text.replace(&format!("\"ns\":{NAMESPACE}"), "\"ns\":1");
            assert_ne!(other, text);
            assert_eq!(MessageBody::read(kind, other.as_bytes()), Err(RefusalReason::Namespace));
        }
        let flow = MessageBody::read(&MessageKind::Flow(flow_number(&tuple) ^ 1), &all[0].1.text());
        assert_eq!(
            (flow, MessageBody::read(&MessageKind::Node(8), &all[1].1.text())),
            (Err(RefusalReason::Content), Err(RefusalReason::Content))
        );
        let never = serde_json::to_vec(&Control::new(true, 0)).unwrap();
        assert_eq!(MessageBody::read(&all[2].0, &never), Err(RefusalReason::Content));
    }

    #[test]
    fn ends_that_differ_have_different_numbers() {
        let other = "::1".parse().unwrap();
        let flows = [
            Tuple::default(),
            Tuple { sport: 1, ..Tuple::default() },
            Tuple { dport: 1, ..Tuple::default() },
            Tuple { src: other, ..Tuple::default() },
            Tuple { dst: other, ..Tuple::default() },
        ];
        let mut numbers = flows.map(|flow| flow_number(&flow));
        numbers.sort_unstable();
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
        // The ports alone: (1 * 0x9e3779b97f4a7c15) ^ (that >> 32), of which the upper half.
        assert_eq!(flow_number(&flows[1]), 0x9e37_79b9);
    }
}
