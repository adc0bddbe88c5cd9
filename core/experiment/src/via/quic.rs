//! `@quic` and `@quic/noq`: in the real world alone.

use paceline_cc::datapath::{QUIC, QUIC_NOQ};
use paceline_transport::HEADER_BYTES;

use super::{DatapathRow, one_way, reads_nothing, writes_nothing};

/// `quic` in the table.
pub(super) static ROW: DatapathRow = DatapathRow {
    datapath: &QUIC,
    way: one_way,
    takes: None,
    read: reads_nothing,
    write: writes_nothing,
    above: false,
    payload: None,
    headers: HEADER_BYTES,
    ends: None,
};

/// `quic/noq` in the table.
pub(super) static NOQ: DatapathRow = DatapathRow {
    datapath: &QUIC_NOQ,
    way: one_way,
    takes: None,
    read: reads_nothing,
    write: writes_nothing,
    above: false,
    payload: None,
    headers: HEADER_BYTES,
    ends: None,
};
