//! `@quic`, `@quic/noq` and `@quic/s2n`: in the real world alone.

use paceline_cc::datapath::{QUIC, QUIC_NOQ, QUIC_S2N};

use super::DatapathRow;

/// `quic` in the table.
pub(super) static ROW: DatapathRow = DatapathRow::real(&QUIC);

/// `quic/noq` in the table.
pub(super) static NOQ: DatapathRow = DatapathRow::real(&QUIC_NOQ);

/// `quic/s2n` in the table.
pub(super) static S2N: DatapathRow = DatapathRow::real(&QUIC_S2N);
