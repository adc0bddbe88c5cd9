//! Packets of one flow that leave together as one frame, as a network card joins them on arrival (Linux: `tcp_gro_receive`,
//! `udp_gro_receive`), under a stricter rule: only packets that the receiving kernel would get back to the byte by splitting
//! the frame.
//!
//! What may differ between the packets of a frame is therefore what splitting makes: TCP sequence numbers that follow
//! each other, identifications of IPv4 that do, `PSH` and `FIN` on the last, `CWR` on the first, a last packet that is
//! shorter. Acknowledgement, window, options, ECN, hop limit and all else must agree.

use std::ops::Range;

use super::layout::{CWR, FIN, PSH, Part, RST, SYN, Transport, URG};
use super::packet::{Frame, View, partial};
use super::virtio::{FrameKind, Segmentation, Virtio};

/// Largest frame: with the header of a link and of a VLAN it stays below the 65,536 bytes that Linux lets an interface send
/// without splitting (`GSO_LEGACY_MAX_SIZE`).
const LARGEST: usize = 65_535 - 18;
/// Flows with an unfinished frame at once (`MAX_GRO_SKBS` of Linux).
const FLOWS: usize = 8;

/// Joins packets. Kept from turn to turn for its memory.
#[derive(Debug, Default)]
pub struct Joiner {
    groups: Vec<Group>,
    used: usize,
    /// Those groups that can grow, oldest first.
    open: Vec<usize>,
    /// The headers of all groups.
    headers: Vec<u8>,
}

/// Packets that become one frame.
#[derive(Debug)]
struct Group {
    /// The first of them.
    head: usize,
    view: Option<View>,
    packets: u32,
    payload: usize,
    /// `PSH` and `FIN` of the last.
    ending: u8,
    full: bool,
    /// Pieces of payload: which packet's bytes, and where in them.
    pieces: Vec<(usize, Range<usize>)>,
    virtio: Virtio,
    header: Range<usize>,
}

/// Packets in one frame.
#[derive(Clone, Copy, Debug)]
pub struct Joined<'a> {
    frames: &'a [Frame],
    group: &'a Group,
    headers: &'a [u8],
}

impl<'a> Joined<'a> {
    /// What the receiving kernel has still to do with it.
    pub fn virtio(&self) -> Virtio {
        self.group.virtio
    }

    /// How many packets it holds.
    pub fn packets(&self) -> u64 {
        u64::from(self.group.packets)
    }

    /// Its bytes, in pieces, from the IP header on.
    pub fn pieces(self) -> impl Iterator<Item = &'a [u8]> {
        let (frames, group) = (self.frames, self.group);
        let header = &self.headers[group.header.clone()];
        let payload = group.pieces.iter().map(|(frame, range)| &frames[*frame].stored()[range.clone()]);
        std::iter::once(header).filter(|header| !header.is_empty()).chain(payload)
    }
}

impl Joiner {
    /// Joins what can be joined among packets that leave at the same time, in the order of their first packets; the packets of
    /// a flow stay in their order. UDP is joined only when `datagrams` says so: Linux takes such frames since 6.2.
    pub fn join<'a>(&'a mut self, frames: &'a [Frame], datagrams: bool) -> impl Iterator<Item = Joined<'a>> {
        self.used = 0;
        self.open.clear();
        self.headers.clear();
        for (index, frame) in frames.iter().enumerate() {
            self.add(frames, index, frame, datagrams);
        }
        for group in &mut self.groups[..self.used] {
            group.finish(&frames[group.head], &mut self.headers);
        }
        let headers = &self.headers[..];
        self.groups[..self.used].iter().map(move |group| Joined { frames, group, headers })
    }

    fn add(&mut self, frames: &[Frame], index: usize, frame: &Frame, datagrams: bool) {
        let view = frame.view().filter(|view| datagrams || view.layout.transport == Transport::Tcp);
        let Some(view) = view else {
            // It may belong to any flow, and must not overtake it.
            self.open.clear();
            self.begin(index, None);
            return;
        };
        let flow = self.open.iter().rposition(|open| self.groups[*open].has_flow_of(frames, frame, &view));
        if let Some(place) = flow {
            let group = &mut self.groups[self.open[place]];
            if group.takes(frames, frame, &view) {
                group.append(frames, index, &view);
                return;
            }
            self.open.remove(place);
        }
        let grows = view.can_begin();
        let number = self.begin(index, Some(view));
        if grows {
            if self.open.len() == FLOWS {
                self.open.remove(0);
            }
            self.open.push(number);
        }
    }

    fn begin(&mut self, head: usize, view: Option<View>) -> usize {
        if self.used == self.groups.len() {
            self.groups.push(Group::new());
        }
        let group = &mut self.groups[self.used];
        group.pieces.clear();
        group.pieces.extend(view.as_ref().map(|view| (head, view.payload.clone())));
        group.payload = view.as_ref().map_or(0, |view| view.part.length);
        (group.head, group.view, group.packets, group.ending, group.full) = (head, view, 1, 0, false);
        self.used += 1;
        self.used - 1
    }
}

impl View {
    /// Whether other packets may follow it in one frame.
    fn can_begin(&self) -> bool {
        self.part.length > 0 && self.part.flags & (SYN | RST | URG | PSH | FIN) == 0
    }
}

impl Group {
    fn new() -> Self {
        Self {
            head: 0,
            view: None,
            packets: 0,
            payload: 0,
            ending: 0,
            full: false,
            pieces: Vec::new(),
            virtio: Virtio::default(),
            header: 0..0,
        }
    }

    fn has_flow_of(&self, frames: &[Frame], frame: &Frame, view: &View) -> bool {
        let Some(own) = &self.view else { return false };
        let head = &frames[self.head];
        if head.shares(frame) {
            return true;
        }
        let (one, other) = (head.stored(), frame.stored());
        let addresses = if view.layout.six { 8..40 } else { 12..20 };
        own.layout.transport == view.layout.transport
            && own.layout.six == view.layout.six
            && one[addresses.clone()] == other[addresses]
            && one[own.layout.start..own.layout.start + 4] == other[view.layout.start..view.layout.start + 4]
    }

    /// Whether a packet of the same flow goes on where this frame ends.
    fn takes(&self, frames: &[Frame], frame: &Frame, view: &View) -> bool {
        let Some(own) = &self.view else { return false };
        let Part { length, flags, ecn, .. } = view.part;
        let head = &frames[self.head];
        !self.full
            && length > 0
            && length <= own.part.length
            && own.layout.payload + self.payload + length <= LARGEST
            && ecn == own.part.ecn
            && flags & (SYN | RST | URG | CWR) == 0
            && view.layout == own.layout
            && (view.layout.transport == Transport::Udp
                || view.sequence == own.sequence.wrapping_add(self.payload as u32))
            && (view.layout.six || view.id == own.id.wrapping_add(self.packets as u16))
            && (head.shares(frame) || own.layout.agree(head.stored(), frame.stored()))
    }

    fn append(&mut self, frames: &[Frame], index: usize, view: &View) {
        self.packets += 1;
        self.payload += view.part.length;
        self.ending = view.part.flags & (PSH | FIN);
        let size = self.view.as_ref().map_or(0, |own| own.part.length);
        self.full = self.ending != 0 || view.part.length < size;
        match self.pieces.last_mut() {
            Some((last, piece)) if piece.end == view.payload.start && frames[*last].shares(&frames[index]) => {
                piece.end = view.payload.end;
            }
            _ => self.pieces.push((index, view.payload.clone())),
        }
    }

    /// Writes its header.
    fn finish(&mut self, head: &Frame, headers: &mut Vec<u8>) {
        let start = headers.len();
        match &self.view {
            Some(view) if self.packets > 1 => {
                let View { layout, part, .. } = view;
                let flags = part.flags | self.ending;
                layout.header(head.stored(), Part { length: self.payload, flags, ..*part }, headers);
                let kind = match (layout.transport, layout.six) {
                    (Transport::Udp, _) => FrameKind::Udp,
                    (Transport::Tcp, false) => FrameKind::Tcp4,
                    (Transport::Tcp, true) => FrameKind::Tcp6,
                };
                let split = Segmentation { kind, cwr: part.flags & CWR != 0, size: part.length as u16 };
                self.virtio = Virtio { split: Some(split), ..partial(*layout) };
            }
            _ => {
                let (virtio, rest) = head.alone(headers);
                self.virtio = virtio;
                self.pieces.clear();
                self.pieces.push((self.head, rest));
            }
        }
        self.header = start..headers.len();
    }
}
