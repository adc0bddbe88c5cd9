//! Tunnels that do not carry ECN through, as those from before RFC 6040.

use paceline_cc::Codepoint;
use serde::{Deserialize, Serialize};

use crate::packet::Packet;

/// What becomes of the ECN field in a direction: `marks = "bleach"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TunnelMarks {
    /// It is carried through, with the marks of the queue.
    #[default]
    Keep,
    /// It is cleared at the entrance: packets are not ECN-capable from there on, so that the queue drops what it would have marked (RFC
    /// 6040 section 3.1 calls this limited functionality).
    Bleach,
    /// At the exit it is again what it was at the entrance: marks of the queue are lost (the pitfall of RFC 6040 section 1).
    Forget,
}

impl TunnelMarks {
    /// Whether it is what a path does without a tunnel.
    pub fn is_kept(&self) -> bool {
        *self == Self::Keep
    }
}

/// An end of such a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TunnelEnd {
    /// The entrance, where the ECN field is cleared.
    Bleach,
    /// The entrance, where the ECN field is kept aside.
    Enter,
    /// The exit, where it is put back.
    Leave,
}

impl TunnelEnd {
    pub(crate) fn pass<P>(self, packet: &mut Packet<P>) {
        match self {
            Self::Bleach => packet.ecn = Codepoint::NotEct,
            Self::Enter => packet.inner = packet.ecn,
            Self::Leave => packet.ecn = packet.inner,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;

    use paceline_cc::{Nanos, Rate, Time};

    use super::*;
    use crate::config::Direction;

    /// What comes out of a link that marks all, of packets with each ECN field; `None` for what was dropped.
    fn through(marks: TunnelMarks) -> Vec<Option<Codepoint>> {
        let direction = Direction {
            rate: Some(Rate::from_mbps(12.0)),
            queue: Some("step:threshold=1ns,limit=100packets".parse().unwrap()),
            delay: Nanos::from_millis(10),
            marks,
            ..Direction::default()
        };
        let load = |_: &str| -> Result<Arc<crate::Trace>, Infallible> { unreachable!() };
        let mut path = direction.build::<usize, _>(1, Nanos::from_millis(20), &load).unwrap();
        let fields = [Codepoint::NotEct, Codepoint::Ect0, Codepoint::Ect1, Codepoint::Ce];
        // The first packet waits for nothing, and is not marked.
        path.push(Time::ZERO, Packet::new(0, 1500, Codepoint::NotEct, 9));
        for (index, field) in fields.into_iter().enumerate() {
            path.push(Time::ZERO, Packet::new(0, 1500, field, index));
        }
        let mut out = vec![None; fields.len()];
        while let Some(packet) = path.pop(Time::from_millis(1000)) {
            if let Some(place) = out.get_mut(packet.body) {
                *place = Some(packet.ecn);
            }
        }
        out
    }

    #[test]
    fn a_tunnel_keeps_clears_or_forgets() {
        use Codepoint::{Ce, Ect0, Ect1, NotEct};
        assert_eq!(through(TunnelMarks::Keep), [Some(NotEct), Some(Ce), Some(Ce), Some(Ce)]);
        assert_eq!(through(TunnelMarks::Bleach), [Some(NotEct); 4]);
        // What was marked before it stays marked.
        assert_eq!(through(TunnelMarks::Forget), [Some(NotEct), Some(Ect0), Some(Ect1), Some(Ce)]);
    }
}
