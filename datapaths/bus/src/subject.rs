//! What a message is about: `int.v1.DOMAIN.KIND...`.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use crate::key::{PublisherRole, is_name};

/// What comes before the domain: the family of messages, and the version of their meaning.
const FAMILY: &str = "int.v1.";

/// What a message is about, in its domain: the deployments that share a server keep apart by the domain's name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BusSubject {
    /// A name ([`is_name`]).
    pub domain: String,
    /// What it is.
    pub kind: MessageKind,
}

/// The kinds of messages.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MessageKind {
    /// What a sink says of a flow, by the flow's number.
    Flow(u32),
    /// What a hop says of itself, by its node's number.
    Node(u32),
    /// What a source is to do, by its host's name.
    Control(String),
    /// A sign of life.
    Health {
        /// In which role.
        role: PublisherRole,
        /// The publisher's name.
        host: String,
    },
}

impl Display for BusSubject {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{FAMILY}{}.", self.domain)?;
        match &self.kind {
            MessageKind::Flow(flow) => write!(f, "flow.{flow:08x}"),
            MessageKind::Node(node) => write!(f, "node.{node}"),
            MessageKind::Control(host) => write!(f, "ctl.{host}"),
            MessageKind::Health { role, host } => write!(f, "health.{role}.{host}"),
        }
    }
}

/// It is not one of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is not a subject of telemetry, int.v1.DOMAIN.flow|node|ctl|health...")]
pub struct NoSubject;

impl FromStr for BusSubject {
    type Err = NoSubject;

    fn from_str(text: &str) -> Result<Self, NoSubject> {
        let rest = text.strip_prefix(FAMILY).ok_or(NoSubject)?;
        let words: Vec<&str> = rest.split('.').take(5).collect();
        let [domain, kind @ ..] = words.as_slice() else { return Err(NoSubject) };
        let host = |text: &str| is_name(text).then(|| text.to_owned()).ok_or(NoSubject);
        let kind = match *kind {
            ["flow", flow] if flow.len() == 8 => {
                MessageKind::Flow(u32::from_str_radix(flow, 16).map_err(|_| NoSubject)?)
            }
            ["node", node] => MessageKind::Node(node.parse().map_err(|_| NoSubject)?),
            ["ctl", to] => MessageKind::Control(host(to)?),
            ["health", role, of] => MessageKind::Health { role: role.parse().map_err(|_| NoSubject)?, host: host(of)? },
            _ => return Err(NoSubject),
        };
        let subject = Self { domain: host(domain)?, kind };
        // One spelling for each: `+7` and `007` are numbers too.
        if subject.to_string() == text { Ok(subject) } else { Err(NoSubject) }
    }
}

/// Which messages of a domain a subscriber wants.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SubjectFilter {
    /// The reports of one flow.
    Flow(u32),
    /// Those of all flows.
    Flows,
    /// Those of all hops.
    Nodes,
    /// What a source is to do, by its host's name.
    Control(String),
    /// All signs of life.
    Health,
}

impl SubjectFilter {
    /// Whether it lets a message through.
    pub fn takes(&self, kind: &MessageKind) -> bool {
        match (self, kind) {
            (Self::Flow(wanted), MessageKind::Flow(flow)) => wanted == flow,
            (Self::Control(wanted), MessageKind::Control(host)) => wanted == host,
            (Self::Flows, MessageKind::Flow(_))
            | (Self::Nodes, MessageKind::Node(_))
            | (Self::Health, MessageKind::Health { .. }) => true,
            _ => false,
        }
    }

    /// As a NATS server has it.
    pub fn pattern(&self, domain: &str) -> String {
        match self {
            Self::Flow(flow) => format!("{FAMILY}{domain}.flow.{flow:08x}"),
            Self::Flows => format!("{FAMILY}{domain}.flow.*"),
            Self::Nodes => format!("{FAMILY}{domain}.node.*"),
            Self::Control(host) => format!("{FAMILY}{domain}.ctl.{host}"),
            Self::Health => format!("{FAMILY}{domain}.health.*.*"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_is_read_as_it_was_written() {
        let kinds = [
            MessageKind::Flow(0x00ab_cdef),
            MessageKind::Node(u32::MAX),
            MessageKind::Control("sta1".to_owned()),
            MessageKind::Health { role: PublisherRole::Sink, host: "sta-2".to_owned() },
        ];
        for kind in kinds {
            let subject = BusSubject { domain: "lab".to_owned(), kind };
            assert_eq!(subject.to_string().parse(), Ok(subject));
        }
        assert_eq!(
            BusSubject { domain: "lab".to_owned(), kind: MessageKind::Flow(255) }.to_string(),
            "int.v1.lab.flow.000000ff"
        );
    }

    #[test]
    fn what_is_none_is_refused() {
        let none = [
            "",
            "int.v1",
            "int.v1.lab",
            "int.v2.lab.node.1",
            "int.v1.lab.node",
            "int.v1.lab.node.1.2",
            "int.v1.lab.node.-1",
            "int.v1.lab.node.+1",
            "int.v1.lab.node.01",
            "int.v1.lab.flow.ff",
            "int.v1.lab.flow.000000FF",
            "int.v1.*.node.1",
            "int.v1.lab.ctl.>",
            "int.v1.lab.health.king.a",
            "int.v1.a b.node.1",
            "int.v1..node.1",
        ];
        for text in none {
            assert_eq!(text.parse::<BusSubject>(), Err(NoSubject), "{text}");
        }
    }

    #[test]
    fn filters_take_what_their_pattern_says() {
        let flow = MessageKind::Flow(7);
        assert!(SubjectFilter::Flow(7).takes(&flow) && SubjectFilter::Flows.takes(&flow));
        assert!(
            !SubjectFilter::Flow(8).takes(&flow)
                && !SubjectFilter::Nodes.takes(&flow)
                && !SubjectFilter::Health.takes(&flow)
        );
        assert_eq!(
            SubjectFilter::Flow(7).pattern("lab"),
            BusSubject { domain: "lab".to_owned(), kind: flow }.to_string()
        );
        assert_eq!(SubjectFilter::Health.pattern("lab"), "int.v1.lab.health.*.*");
    }
}
