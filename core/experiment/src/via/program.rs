//! `@program`: a program that is not ours, in the real world alone.

use paceline_cc::datapath::PROGRAM;
use paceline_transport::HEADER_BYTES;

use super::{DatapathRow, one_way, reads_nothing, writes_nothing};

/// `program`, which stands beside the table: it has no controller of ours.
pub(super) static ROW: DatapathRow = DatapathRow {
    datapath: &PROGRAM,
    way: one_way,
    takes: None,
    read: reads_nothing,
    write: writes_nothing,
    above: false,
    payload: None,
    headers: HEADER_BYTES,
    ends: None,
};
