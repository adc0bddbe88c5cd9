//! What qlogs of ours are called by: their forms, the names of events in each, and our own schema (docs/design/qlog.md).

use std::str::FromStr;

/// The schema of the events of namespace `paceline` (docs/design/qlog.md), by its URI: a placeholder of a reserved name.
pub const SCHEMA: &str = "https://paceline.example/122026/paceline.html";

/// Which qlog is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QlogForm {
    /// draft-ietf-quic-qlog-main-schema-14, with the events of draft-ietf-quic-qlog-quic-events-13.
    #[default]
    Today,
    /// Version 0.3, which qvis reads: draft-ietf-quic-qlog-main-schema-02 and draft-ietf-quic-qlog-quic-events-01.
    V03,
}

/// A form that is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a form of qlog; write today or 0.3")]
pub struct NotAForm;

impl FromStr for QlogForm {
    type Err = NotAForm;

    /// `today`, `0.3`.
    fn from_str(text: &str) -> Result<Self, NotAForm> {
        match text {
            "today" => Ok(Self::Today),
            "0.3" => Ok(Self::V03),
            _ => Err(NotAForm),
        }
    }
}

impl QlogForm {
    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Today => "today",
            Self::V03 => "0.3",
        }
    }

    /// A connection began.
    pub const fn connection_started(self) -> &'static str {
        match self {
            Self::Today => "quic:connection_started",
            Self::V03 => "connectivity:connection_started",
        }
    }

    /// A connection is over.
    pub const fn connection_closed(self) -> &'static str {
        match self {
            Self::Today => "quic:connection_closed",
            Self::V03 => "connectivity:connection_closed",
        }
    }

    /// A packet left.
    pub const fn packet_sent(self) -> &'static str {
        match self {
            Self::Today => "quic:packet_sent",
            Self::V03 => "transport:packet_sent",
        }
    }

    /// A packet came.
    pub const fn packet_received(self) -> &'static str {
        match self {
            Self::Today => "quic:packet_received",
            Self::V03 => "transport:packet_received",
        }
    }

    /// A packet was declared lost.
    pub const fn packet_lost(self) -> &'static str {
        match self {
            Self::Today => "quic:packet_lost",
            Self::V03 => "recovery:packet_lost",
        }
    }

    /// What a sender is set to.
    pub const fn parameters_set(self) -> &'static str {
        match self {
            Self::Today => "quic:recovery_parameters_set",
            Self::V03 => "recovery:parameters_set",
        }
    }

    /// Window, bytes in flight, round trips.
    pub const fn metrics_updated(self) -> &'static str {
        match self {
            Self::Today => "quic:recovery_metrics_updated",
            Self::V03 => "recovery:metrics_updated",
        }
    }

    /// The state of the controller.
    pub const fn congestion_state_updated(self) -> &'static str {
        match self {
            Self::Today => "quic:congestion_state_updated",
            Self::V03 => "recovery:congestion_state_updated",
        }
    }
}
