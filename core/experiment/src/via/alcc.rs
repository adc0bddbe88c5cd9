//! `@alcc`: above a TCP flow with a controller of its own.

use paceline_cc::datapath::ALCC;
use paceline_cc::{Bytes, Datapath};
use paceline_transport::{Acks, HEADER_BYTES, Mode, above, stream};

use super::{DatapathRow, How, name_of, named};
use crate::endpoints::{FlowEnds, Making};
use crate::tap::Layer;

/// How a real socket is used by the controller above it. The simulator has one way: chunks, and acknowledgements of which
/// TCP reports when they came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Handover {
    /// How bytes reach TCP.
    pub mode: Mode,
    /// Where acknowledgements come from.
    pub acks: Acks,
    /// Bytes of the socket's send buffer (`SO_SNDBUF`); `None` leaves it to the datapath.
    pub buffer: Option<u32>,
    /// Flows of a world with the same contestant and direction are sockets of one process, which share what they know
    /// of the path.
    pub share: bool,
}

const MODES: [(&str, Mode); 3] = [("queue", Mode::Queue), ("inline", Mode::Inline), ("framed", Mode::Framed)];
const ACKS: [(&str, Acks); 2] = [("stamps", Acks::Stamps), ("info", Acks::Info)];
const SWITCH: [(&str, bool); 2] = [("on", true), ("off", false)];

fn way(how: &How) -> Option<&'static Datapath> {
    Some(how.handover.mode.datapath())
}

fn read(how: &mut How, key: &str, word: &str) -> Option<()> {
    let handover = &mut how.handover;
    match key {
        "mode" => handover.mode = named(&MODES, word)?,
        "acks" => handover.acks = named(&ACKS, word)?,
        "buffer" => {
            let bytes: Bytes = word.parse().ok()?;
            let bytes = u32::try_from(bytes.0).ok().filter(|bytes| (4096..=1 << 30).contains(bytes));
            handover.buffer = Some(bytes?);
        }
        "share" => handover.share = named(&SWITCH, word)?,
        _ => return None,
    }
    Some(())
}

fn write(how: &How) -> Vec<String> {
    let handover = how.handover;
    let mode = name_of(&MODES, &handover.mode).map(|name| format!("mode={name}"));
    let acks = name_of(&ACKS, &handover.acks).map(|name| format!("acks={name}"));
    let buffer = handover.buffer.map(|bytes| format!("buffer={}", Bytes(bytes.into())));
    let share = handover.share.then(|| "share=on".to_owned());
    mode.into_iter().chain(acks).chain(buffer).chain(share).collect()
}

fn ends(mut making: Making<'_>) -> FlowEnds {
    let flow = making.flow;
    // Without a TCP that is named the controller drives both.
    let lower = making.controller(flow.via.lower().unwrap_or(&flow.controller), Layer::Packets);
    let upper = making.controller(&flow.controller, Layer::Above);
    FlowEnds::Push(above::sender(&making.config, upper, lower), stream::receiver(&making.policy, making.half()))
}

/// `alcc` in the table.
pub(super) static ROW: DatapathRow = DatapathRow {
    datapath: &ALCC,
    way,
    takes: Some("mode=queue, inline or framed, acks=stamps or info, buffer=BYTES and share=on"),
    read,
    write,
    above: true,
    payload: None,
    headers: HEADER_BYTES,
    ends: Some(ends),
};
