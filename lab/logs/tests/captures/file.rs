//! Writes captures of one flow, in every form.

/// Nanoseconds since 1970 of the first packet.
pub(crate) const BEGUN: u64 = 1_700_000_000_000_000_000;
pub(crate) const MS: u64 = 1_000_000;

/// An IP packet, and when it was seen.
#[derive(Clone)]
pub(crate) struct Seen {
    pub(crate) at: u64,
    /// As much as is kept.
    pub(crate) ip: Vec<u8>,
    /// Bytes on the wire.
    pub(crate) wire: u32,
}

/// Twelve windows of ten segments, 1 ms apart; each window is acknowledged 40 ms after its first segment.
pub(crate) fn flow() -> Vec<Seen> {
    let mut seen = Vec::new();
    let (mut id, mut seq) = (0, 1000);
    for round in 0..12 {
        let at = round * 41 * MS;
        for packet in 0..10 {
            id += 1;
            seen.push(four(at + packet * MS, true, id, [seq, 1], 1448));
            seq += 1448;
        }
        seen.push(four(at + 40 * MS, false, id, [1, seq], 0));
    }
    seen
}

/// Sequence and acknowledgement, ports, and options up to 32 bytes.
fn tcp(out: bool, [seq, ack]: [u32; 2]) -> Vec<u8> {
    let ports: [u8; 4] = if out { [1, 187, 195, 80] } else { [195, 80, 1, 187] };
    [&ports[..], &seq.to_be_bytes(), &ack.to_be_bytes(), &[0x80, 0x10, 2, 0, 0, 0, 0, 0], &[1; 12]].concat()
}

/// A segment in IPv4.
pub(crate) fn four(at: u64, out: bool, id: u16, numbers: [u32; 2], bytes: u32) -> Seen {
    let wire = 52 + bytes;
    let ends: [u8; 8] = if out { [10, 0, 0, 1, 10, 0, 0, 2] } else { [10, 0, 0, 2, 10, 0, 0, 1] };
    let mut ip = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 6, 0, 0];
    ip[2..4].copy_from_slice(&u16::try_from(wire).unwrap_or(0).to_be_bytes());
    ip[4..6].copy_from_slice(&id.to_be_bytes());
    ip.extend(ends);
    ip.extend(tcp(out, numbers));
    ip.resize(80, 0);
    Seen { at: BEGUN + at, ip, wire }
}

/// A segment in IPv6, with these options before it; `length` is what its header says.
pub(crate) fn six(at: u64, out: bool, options: &[u8], length: u16, numbers: [u32; 2], bytes: u32) -> Seen {
    let next = if options.is_empty() { 6 } else { 0 };
    let mut ip = vec![0x60, 0, 0, 0, 0, 0, next, 64];
    ip[4..6].copy_from_slice(&length.to_be_bytes());
    let end = |last: u8| [&[0xfd][..], &[0; 14], &[last]].concat();
    ip.extend(if out { [end(1), end(2)] } else { [end(2), end(1)] }.concat());
    ip.extend(options);
    ip.extend(tcp(out, numbers));
    ip.resize(100, 0);
    Seen { at: BEGUN + at, ip, wire: 72 + options.len() as u32 + bytes }
}

/// What stands before a packet: a link type, and its header.
#[derive(Clone)]
pub(crate) struct Link {
    pub(crate) number: u32,
    pub(crate) before: Vec<u8>,
}

impl Link {
    pub(crate) fn new(number: u32, before: &[u8]) -> Self {
        Self { number, before: before.to_vec() }
    }

    pub(crate) fn ethernet() -> Self {
        Self::new(1, &[2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 8, 0])
    }
}

/// The form of a pcap.
#[derive(Clone)]
pub(crate) struct Pcap {
    pub(crate) link: Link,
    pub(crate) big: bool,
    pub(crate) nanos: bool,
    pub(crate) modified: bool,
    pub(crate) snap: u32,
    /// The length on the wire, where records say another.
    pub(crate) says: Option<u32>,
    /// Records say a second less, and a fraction of a second more.
    pub(crate) over: bool,
    /// Bytes behind each packet.
    pub(crate) fcs: u32,
}

impl Pcap {
    pub(crate) fn of(link: Link) -> Self {
        let (big, nanos, modified, over) = (false, false, false, false);
        Self { link, big, nanos, modified, snap: 262_144, says: None, over, fcs: 0 }
    }

    pub(crate) fn write(&self, packets: &[Seen]) -> Vec<u8> {
        let word = |value: u32| if self.big { value.to_be_bytes() } else { value.to_le_bytes() };
        let version: [u8; 4] = if self.big { [0, 2, 0, 4] } else { [2, 0, 4, 0] };
        let magic = match (self.nanos, self.modified) {
            (true, _) => 0xa1b2_3c4d,
            (_, true) => 0xa1b2_cd34,
            _ => 0xa1b2_c3d4,
        };
        let fcs = if self.fcs == 0 { 0 } else { 0x0400_0000 | (self.fcs / 2) << 28 };
        let mut file = [word(magic), version, [0; 4], [0; 4], word(self.snap), word(self.link.number | fcs)].concat();
        for packet in packets {
            let frame = [&self.link.before[..], &packet.ip].concat();
            let wire = self.link.before.len() as u32 + packet.wire + self.fcs;
            let (second, rest) = (packet.at / 1_000_000_000, packet.at % 1_000_000_000);
            let unit = if self.nanos { 1 } else { 1000 };
            let over = u64::from(self.over);
            let time = [(second - over) as u32, ((rest + over * 1_000_000_000) / unit) as u32];
            file.extend(
                [word(time[0]), word(time[1]), word(frame.len() as u32), word(self.says.unwrap_or(wire))].concat(),
            );
            if self.modified {
                file.extend([word(2), [8, 0, 0, 0]].concat());
            }
            file.extend(frame);
        }
        file
    }
}

/// Blocks of a pcapng in one order of bytes.
#[derive(Clone, Copy)]
pub(crate) struct Blocks {
    pub(crate) big: bool,
}

impl Blocks {
    fn word(self, value: u32) -> [u8; 4] {
        if self.big { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    fn half(self, value: u16) -> [u8; 2] {
        if self.big { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    pub(crate) fn block(self, kind: u32, body: &[u8]) -> Vec<u8> {
        let padded = body.len().next_multiple_of(4);
        let length = self.word(padded as u32 + 12);
        let mut block = [&self.word(kind)[..], &length, body].concat();
        block.resize(padded + 8, 0);
        block.extend(length);
        block
    }

    pub(crate) fn option(self, code: u16, value: &[u8]) -> Vec<u8> {
        let mut option = [&self.half(code)[..], &self.half(value.len() as u16), value].concat();
        option.resize(option.len().next_multiple_of(4), 0);
        option
    }

    /// A section of unknown length.
    pub(crate) fn section(self, options: &[u8]) -> Vec<u8> {
        let version = [self.half(1), self.half(0)].concat();
        self.block(0x0a0d_0d0a, &[&self.word(0x1a2b_3c4d)[..], &version, &[0xff; 8], options].concat())
    }

    pub(crate) fn interface(self, link: &Link, options: &[u8]) -> Vec<u8> {
        self.block(1, &[&self.half(link.number as u16)[..], &[0; 2], &self.word(0), options].concat())
    }

    /// A packet whose time is in units of `unit` ns, in a block of kind 6, or of the obsolete kind 2.
    pub(crate) fn packet(self, kind: u32, interface: u16, link: &Link, unit: u64, packet: &Seen) -> Vec<u8> {
        let frame = [&link.before[..], &packet.ip].concat();
        let time = packet.at / unit;
        let interface =
            if kind == 6 { self.word(interface.into()).to_vec() } else { [self.half(interface), [0xff; 2]].concat() };
        let wire = link.before.len() as u32 + packet.wire;
        let head = [(time >> 32) as u32, time as u32, frame.len() as u32, wire].map(|value| self.word(value));
        self.block(kind, &[&interface[..], &head.concat(), &frame].concat())
    }

    /// A simple block, which has no time.
    pub(crate) fn simple(self, link: &Link, packet: &Seen) -> Vec<u8> {
        let frame = [&link.before[..], &packet.ip].concat();
        self.block(3, &[&self.word(frame.len() as u32)[..], &frame].concat())
    }
}
