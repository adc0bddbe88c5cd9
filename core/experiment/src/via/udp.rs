//! `@udp`: native datagrams.

use paceline_cc::datapath::UDP;
use paceline_transport::{HEADER_BYTES, datagram};

use super::{DatapathRow, one_way, reads_nothing, writes_nothing};
use crate::endpoints::{FlowEnds, Making};
use crate::tap::Layer;

fn ends(mut making: Making<'_>) -> FlowEnds {
    let receiver = if making.flow.arrivals { datagram::receiver_with_arrivals } else { datagram::receiver };
    let controller = making.controller(&making.flow.controller, Layer::Packets);
    FlowEnds::Push(datagram::sender(&making.config, controller), receiver(making.half()))
}

/// `udp` in the table.
pub(super) static ROW: DatapathRow = DatapathRow {
    datapath: &UDP,
    way: one_way,
    takes: None,
    read: reads_nothing,
    write: writes_nothing,
    above: false,
    payload: None,
    headers: HEADER_BYTES,
    ends: Some(ends),
};
