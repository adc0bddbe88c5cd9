//! `@quic` and `@quic/noq`: in the real world alone.

use paceline_cc::datapath::{QUIC, QUIC_NOQ};

use super::DatapathRow;

/// `quic` in the table.
pub(super) static ROW: DatapathRow = DatapathRow::real(&QUIC);

/// `quic/noq` in the table.
pub(super) static NOQ: DatapathRow = DatapathRow::real(&QUIC_NOQ);
