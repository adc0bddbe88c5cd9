//! What of a capture is not read, and packets that hold others, each by its name.

use std::collections::BTreeMap;

use super::link::{Internet, Unread, internet};
use super::packet::{CapturePlace, CapturedPacket, packet};
use super::{End, Record};

/// Most kinds that are named (our choice: one line).
const NAMED: usize = 4;
/// How what stands before an IP header is cut off.
const CONVERT: &str = "capture where packets are plain IP (tcpdump -i any), or cut off the bytes before the IP header \
                       (editcap -T rawip -C COUNT FILE OUT)";
/// Protocols that carry other packets (IANA's numbers).
const TUNNELS: [(u8, &str); 5] =
    [(4, "IP in IP"), (41, "IPv6 in IP"), (47, "GRE"), (50, "IPsec ESP"), (115, "L2TP version 3")];
/// UDP ports of tunnels (IANA's numbers).
const PORTS: [(u16, &str); 4] = [(4789, "VXLAN"), (6081, "Geneve"), (2152, "GTP-U"), (1701, "L2TP")];
/// Captures of others, by their first bytes (wiretap of Wireshark).
const OTHERS: [(&[u8], &str); 9] = [
    (b"snoop\0\0\0", "snoop"),
    (b"btsnoop\0", "Bluetooth snoop"),
    (b"GMBU", "Network Monitor"),
    (b"RTSS", "Network Monitor 1"),
    (b"TRSNIFF data", "Sniffer"),
    (b"iptrace ", "iptrace"),
    (&[0xac, 1, 0, 0x1c], "Ixia lcap"),
    (&[0xab, 1, 0, 0x1c], "Ixia lcap"),
    (b"XCP\0", "NetXRay"),
];

/// What is said of a capture of another format.
pub(super) fn other_capture(head: &[u8]) -> Option<String> {
    let (_, name) = OTHERS.iter().find(|(magic, _)| head.starts_with(magic))?;
    Some(format!("it is a capture of the format {name}; convert it first (editcap -F pcap FILE OUT)"))
}

/// Counts what is found.
#[derive(Default)]
pub(super) struct Findings {
    /// IP packets.
    pub packets: u64,
    unread: BTreeMap<Unread, u64>,
    tunnels: BTreeMap<&'static str, u64>,
    /// Packets without a time.
    timeless: u64,
}

impl Findings {
    /// The IP packet of a record.
    pub(super) fn packet(&mut self, record: &Record<'_>) -> Option<CapturedPacket> {
        let Some(at) = record.at else {
            self.timeless += 1;
            return None;
        };
        let found = internet(record.link, record.frame).and_then(|found| {
            let before = record.frame.len() - found.bytes.len();
            let whole = (record.wire as usize).max(record.frame.len());
            let wire = whole.saturating_sub(before).saturating_sub(record.link.fcs as usize);
            let packet = packet(found.bytes, u32::try_from(wire).unwrap_or(u32::MAX)).ok_or(Unread::Short)?;
            Ok((found, packet))
        });
        let (found, packet) = match found {
            Ok(found) => found,
            Err(unread) => {
                *self.unread.entry(unread).or_default() += 1;
                return None;
            }
        };
        self.packets += 1;
        if let Some(name) = tunnel(&packet) {
            *self.tunnels.entry(name).or_default() += 1;
        }
        Some(CapturedPacket {
            number: record.number,
            at,
            place: place(record, found),
            interface: interface(record, found),
            ..packet
        })
    }

    /// Why there is nothing.
    pub(super) fn refusal(&self) -> String {
        if self.timeless > 0 {
            let count = self.timeless;
            return format!(
                "its {count} packets have no times (simple packet blocks); capture with tcpdump or dumpcap"
            );
        }
        match self.named(|_| true) {
            Some(kinds) => format!("it has no IP packets that are read, but {kinds}; {CONVERT}"),
            None => "it has no packets; capture some (tcpdump -s 128 -w FILE)".to_owned(),
        }
    }

    /// What is to be said beside what was read: a sentence each.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(kinds) = self.named(|kind| !kind.is_usual()) {
            notes.push(format!("Not read: {kinds}."));
        }
        if self.timeless > 0 {
            notes.push(format!("Not read: {} packets without times (simple packet blocks).", self.timeless));
        }
        if !self.tunnels.is_empty() {
            let tunnels = self.tunnels.iter().map(|(name, count)| format!("{count} of {name}"));
            let tunnels = tunnels.collect::<Vec<_>>().join(", ");
            notes.push(format!("It has packets of tunnels ({tunnels}): what is within them is not looked at."));
        }
        notes
    }

    /// Kinds with how often each is there, the most frequent first.
    fn named(&self, of: impl Fn(&Unread) -> bool) -> Option<String> {
        let mut kinds: Vec<_> = self.unread.iter().filter(|(kind, _)| of(kind)).collect();
        kinds.sort_by_key(|(kind, count)| (std::cmp::Reverse(**count), **kind));
        let more = kinds.len().saturating_sub(NAMED);
        let named = kinds.iter().take(NAMED).map(|(kind, count)| format!("{count} of {kind}"));
        let mut text = named.collect::<Vec<_>>().join(", ");
        if more > 0 {
            text += &format!(" and {more} kinds more");
        }
        (!text.is_empty()).then_some(text)
    }
}

fn tunnel(packet: &CapturedPacket) -> Option<&'static str> {
    let named = |&(_, name): &(_, &'static str)| name;
    if packet.protocol == 17 {
        let of = |(port, _): &&(u16, &str)| [packet.from.port(), packet.to.port()].contains(port);
        return PORTS.iter().find(of).map(|(_, name)| *name);
    }
    TUNNELS.iter().find(|(protocol, _)| *protocol == packet.protocol).map(named)
}

/// Where an emulated path shows a packet: which end of which link, and whether it came in there.
fn place(record: &Record<'_>, found: Internet<'_>) -> CapturePlace {
    let Some((link, end)) = record.end else { return CapturePlace::Anywhere };
    let (down, up) = (2 * link, 2 * link + 1);
    match (end, found.sent) {
        (End::Dropped, _) => CapturePlace::Dropped(link),
        (End::Far, Some(true)) => CapturePlace::Left(up),
        (End::Far, _) => CapturePlace::Entered(down),
        (End::Near, Some(true)) => CapturePlace::Left(down),
        (End::Near, _) => CapturePlace::Entered(up),
    }
}

/// The interface by the file's number and the kernel's, and the direction.
fn interface(record: &Record<'_>, found: Internet<'_>) -> u64 {
    let sent = u64::from(found.sent == Some(true));
    u64::from(found.interface.unwrap_or(0)) << 32 | u64::from(record.interface) << 1 | sent
}
