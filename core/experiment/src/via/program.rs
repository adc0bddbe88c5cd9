//! `@program`: a program that is not ours, in the real world alone.

use paceline_cc::datapath::PROGRAM;

use super::DatapathRow;

/// `program`, which stands beside the table: it has no controller of ours.
pub(super) static ROW: DatapathRow = DatapathRow::real(&PROGRAM);
