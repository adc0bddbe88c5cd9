//! The ECN field of a packet.

use crate::controller::Ecn;

/// The ECN field of the IP header (RFC 3168, RFC 9331).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Codepoint {
    /// Not ECN-capable: an AQM drops it instead.
    #[default]
    NotEct,
    /// ECN-capable, classic.
    Ect0,
    /// ECN-capable, L4S.
    Ect1,
    /// Congestion experienced.
    Ce,
}

impl From<Ecn> for Codepoint {
    /// What a controller's packets carry.
    fn from(ecn: Ecn) -> Self {
        match ecn {
            Ecn::Off => Self::NotEct,
            Ecn::Classic | Ecn::Exact => Self::Ect0,
            Ecn::L4s => Self::Ect1,
        }
    }
}
