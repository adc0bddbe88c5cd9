//! Flows of programs that are not ours, as their path sees them: packets are known by the addresses of the two ends, whatever ports and
//! protocols they use.
//!
//! Source: QUIC's invariants (RFC 8999), versions 1 (RFC 9000) and 2 (RFC 9369), drafts; TCP as [`Tcp`] reads it. What a sender waited for,
//! and what a QUIC stack declared lost, cannot be seen from outside.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use paceline_cc::{Nanos, Time};
use paceline_emulator::frame::{self, FlowKey};
use paceline_experiment::program::SeenOutside;
use paceline_transport::seen::{SeenSegment, SegmentMeaning, Tcp};

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;

/// Most connections of a flow that are followed (our choice: about 1 MB).
const MOST_CONNECTIONS: usize = 4096;

/// By which addresses the packets of a program's flow are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StubAddresses {
    /// Where data comes from: of each family there is.
    pub(crate) sender: Vec<IpAddr>,
    /// Where it goes, in the same order.
    pub(crate) receiver: Vec<IpAddr>,
}

impl StubAddresses {
    /// Whether a packet is one of theirs, and then whether it goes the way of data.
    pub(super) fn leads(&self, key: &FlowKey) -> Option<bool> {
        let (source, destination) = (key.source.ip(), key.destination.ip());
        let between = |from: &[IpAddr], to: &[IpAddr]| from.contains(&source) && to.contains(&destination);
        if matches!(key.protocol, ICMP | ICMPV6) {
            return None;
        }
        if between(&self.sender, &self.receiver) {
            return Some(true);
        }
        between(&self.receiver, &self.sender).then_some(false)
    }
}

/// Whether a packet on the way of data is one: with TCP, if it has bytes of the stream. Fragments that are not the first are.
pub(super) fn holds_data(packet: &[u8]) -> bool {
    match frame::upper(packet) {
        Some((TCP, Some(segment))) => segment.get(12).is_none_or(|byte| segment.len() > usize::from(byte >> 4) * 4),
        other => other.is_some(),
    }
}

/// What a flow shows.
#[derive(Debug)]
pub(super) struct Outside {
    pub(super) addresses: StubAddresses,
    /// By their protocol, the socket where data comes from and the one where it goes.
    connections: BTreeMap<(u8, SocketAddr, SocketAddr), Connection>,
    /// There were more of them.
    overfull: bool,
    other: bool,
    retransmits: u64,
    /// The first packet, of either way, and the first of data.
    first: Option<Time>,
    first_data: Option<Time>,
    /// When the last packet of data arrived.
    last_arrival: Option<Time>,
}

#[derive(Debug)]
enum Connection {
    Tcp { tcp: Tcp, carried: bool },
    Udp { quic: bool, carried: bool },
}

impl Outside {
    pub(super) fn of(addresses: StubAddresses) -> Self {
        Self {
            addresses,
            connections: BTreeMap::new(),
            overfull: false,
            other: false,
            retransmits: 0,
            first: None,
            first_data: None,
            last_arrival: None,
        }
    }

    /// The connection of a packet, where it is followed; `forward`: on the way of data.
    fn connection(&mut self, packet: &[u8], forward: bool) -> Option<(&mut Connection, Option<SeenSegment>)> {
        let key = frame::flow_key(packet)?;
        let (protocol, above) = frame::upper(packet)?;
        let (from, to) = if forward { (key.source, key.destination) } else { (key.destination, key.source) };
        if !matches!(protocol, TCP | UDP) {
            self.other = true;
            return None;
        }
        // Of a fragment that is not the first nothing is known.
        let above = above?;
        let (name, full) = ((protocol, from, to), self.connections.len() >= MOST_CONNECTIONS);
        if full && !self.connections.contains_key(&name) {
            self.overfull = true;
            return None;
        }
        let connection = self.connections.entry(name).or_insert_with(|| match protocol {
            TCP => Connection::Tcp { tcp: Tcp::default(), carried: false },
            _ => Connection::Udp { quic: begins_quic(above), carried: false },
        });
        Some((connection, if protocol == TCP { segment(above) } else { None }))
    }

    /// A packet entered the first hop of its way.
    pub(super) fn entered(&mut self, at: Time, packet: &[u8], forward: bool) {
        self.first = self.first.or(Some(at));
        let data = forward && holds_data(packet);
        if data {
            self.first_data = self.first_data.or(Some(at));
        }
        let again = match self.connection(packet, forward) {
            Some((Connection::Tcp { tcp, carried }, Some(segment))) if forward => {
                *carried |= data;
                tcp.sent(at.as_nanos() as i64, &segment) == SegmentMeaning::Again
            }
            Some((Connection::Udp { carried, .. }, _)) => {
                *carried |= data;
                false
            }
            _ => false,
        };
        self.retransmits += u64::from(again);
    }

    /// A packet of data arrived.
    pub(super) fn arrived(&mut self, at: Time) {
        self.last_arrival = Some(at);
    }

    /// A packet on the way back left its last hop. Its round trip, where one was timed.
    pub(super) fn acknowledged(&mut self, at: Time, packet: &[u8]) -> Option<Nanos> {
        let Some((Connection::Tcp { tcp, .. }, Some(segment))) = self.connection(packet, false) else { return None };
        tcp.acknowledged(at.as_nanos() as i64, &segment, &[])?.rtt.map(Nanos::from_nanos)
    }

    /// From its first packet to the last of its data that arrived.
    pub(super) fn lasted(&self) -> Option<Nanos> {
        Some(self.last_arrival?.since(self.first?))
    }

    /// All of it.
    pub(super) fn seen(&self) -> SeenOutside {
        let mut seen = SeenOutside { first_data: self.first_data, overfull: self.overfull, ..SeenOutside::default() };
        let (mut tcp, mut quic, mut udp, mut acknowledged) = (false, false, false, 0);
        for connection in self.connections.values() {
            let carried = match connection {
                Connection::Tcp { tcp: stream, carried } => {
                    tcp = true;
                    acknowledged += stream.acknowledged_bytes();
                    carried
                }
                Connection::Udp { quic: is_quic, carried } => {
                    quic |= is_quic;
                    udp |= !is_quic;
                    carried
                }
            };
            seen.connections += u64::from(*carried);
        }
        seen.protocol = match (tcp, quic, udp) {
            (true, false, false) => Some("tcp"),
            (false, true, false) => Some("quic"),
            (false, false, true) => Some("udp"),
            (true, true, false) => Some("tcp+quic"),
            (true, false, true) => Some("tcp+udp"),
            (false, true, true) => Some("quic+udp"),
            (true, true, true) => Some("tcp+quic+udp"),
            (false, false, false) => self.other.then_some("other"),
        };
        // Of the stream alone, and where nothing else carries data.
        if seen.protocol == Some("tcp") && !self.overfull && !self.other {
            (seen.retransmits, seen.acknowledged) = (Some(self.retransmits), Some(acknowledged));
        }
        seen
    }
}

/// Whether the first datagram of a connection is one of QUIC: a long header with the fixed bit and a version that is known.
fn begins_quic(datagram: &[u8]) -> bool {
    const VERSION_2: u32 = 0x6b33_43cf;
    // Behind the header of UDP.
    let Some([first, version @ ..]) = datagram.get(8..) else { return false };
    let Some(version) = version.first_chunk::<4>().copied().map(u32::from_be_bytes) else { return false };
    first & 0xc0 == 0xc0 && (matches!(version, 1 | VERSION_2) || version >> 8 == 0x00ff_0000)
}

/// A segment from its header on.
fn segment(bytes: &[u8]) -> Option<SeenSegment> {
    let header = bytes.first_chunk::<20>()?;
    let four = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let length = usize::from(header[12] >> 4) * 4;
    let flags = header[13];
    let (fin, syn, reset) = (flags & 1 != 0, flags & 2 != 0, flags & 4 != 0);
    Some(SeenSegment {
        seq: four(4),
        ack: (flags & 16 != 0).then(|| four(8)),
        bytes: u32::try_from(bytes.len().checked_sub(length)?).ok()?,
        syn,
        control: syn || fin || reset,
        window: u16::from_be_bytes([header[14], header[15]]),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use paceline_experiment::program::{ProgramEnd, ProgramOutcome};
    use paceline_experiment::{DumbbellWay, Flow, Graph, Outcome, Program, Via, Workload};
    use paceline_path::DelaySplit;

    use super::super::{Glimpse, RaceTap};
    use super::*;
    use paceline_emulator::emulator::{EmulatorTap, Passage};

    const NEAR: [u8; 4] = [10, 9, 0, 1];
    const FAR: [u8; 4] = [10, 9, 0, 2];

    fn addresses() -> StubAddresses {
        let six = |host: u8| IpAddr::from([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]);
        StubAddresses { sender: vec![NEAR.into(), six(1)], receiver: vec![FAR.into(), six(2)] }
    }

    fn flow() -> Flow {
        let program = Arc::new(Program::new("own", "s", "r"));
        Flow::bulk(paceline_cc::Spec::elsewhere("own"), Via::of_program(Some(program)))
    }

    /// An IPv4 packet; its number makes it another.
    fn packet(forward: bool, protocol: u8, number: u8, above: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 20];
        (bytes[0], bytes[5], bytes[9]) = (0x45, number, protocol);
        let (from, to) = if forward { (NEAR, FAR) } else { (FAR, NEAR) };
        bytes[12..16].copy_from_slice(&from);
        bytes[16..20].copy_from_slice(&to);
        bytes.extend(above);
        bytes
    }

    /// A segment from the first port to the second.
    fn tcp(ports: [u16; 2], seq: u32, ack: u32, payload: usize, flags: u8) -> Vec<u8> {
        let mut bytes = vec![0; 20 + payload];
        bytes[..2].copy_from_slice(&ports[0].to_be_bytes());
        bytes[2..4].copy_from_slice(&ports[1].to_be_bytes());
        bytes[4..8].copy_from_slice(&seq.to_be_bytes());
        bytes[8..12].copy_from_slice(&ack.to_be_bytes());
        (bytes[12], bytes[13], bytes[14]) = (5 << 4, flags, 1);
        bytes
    }

    fn udp(ports: [u16; 2], payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 8];
        bytes[..2].copy_from_slice(&ports[0].to_be_bytes());
        bytes[2..4].copy_from_slice(&ports[1].to_be_bytes());
        bytes.extend(payload);
        bytes
    }

    /// What a tap sees: down the path, or up it.
    struct Seen {
        tap: RaceTap,
    }

    impl Seen {
        fn new(flow: Flow) -> Self {
            let glimpses: Vec<Glimpse> = vec![Arc::default()];
            let tap = RaceTap::new(&Graph::dumbbell(), &[flow], &glimpses, 0, None, Time::from_millis(1_000));
            Self { tap: tap.programs(&[Some(addresses())]) }
        }

        fn passage(bytes: &[u8], forward: bool, entered: u64, at: u64, marked: bool) -> Passage<'_> {
            let direction = if forward { DumbbellWay::Down } else { DumbbellWay::Up };
            let (entered, at) = (Time::from_millis(entered), Time::from_millis(at));
            let delay = DelaySplit { queue: at - entered, ..DelaySplit::default() };
            Passage { link: 0, direction, id: 0, bytes, entered, at, released: at, delay, marked, reason: None }
        }

        fn enters(&mut self, bytes: &[u8], forward: bool, at: u64) {
            self.tap.entered(&Self::passage(bytes, forward, at, at, false));
        }

        /// It enters and leaves.
        fn crosses(&mut self, bytes: &[u8], forward: bool, from: u64, to: u64) {
            self.enters(bytes, forward, from);
            self.tap.left(&Self::passage(bytes, forward, from, to, false));
        }

        fn finish(mut self, outcome: ProgramOutcome) -> Outcome {
            self.tap.program(0, outcome);
            self.tap.finish(Graph::dumbbell(), Vec::new())
        }
    }

    fn seen(outcome: &Outcome) -> &SeenOutside {
        &outcome.flows[0].program.as_ref().unwrap().seen
    }

    #[test]
    fn tcp_has_retransmissions_round_trips_and_goodput() {
        const SYN: u8 = 2;
        const ACK: u8 = 16;
        const RST: u8 = 4;
        let ports = [20_000, 40_000];
        let back = [40_000, 20_000];
        let mut path = Seen::new(Flow { workload: Workload::Bytes(paceline_cc::Bytes(3_000)), ..flow() });
        // The side that data goes to is the client.
        path.crosses(&packet(false, TCP, 1, &tcp(back, 99, 0, 0, SYN)), false, 10, 20);
        path.crosses(&packet(true, TCP, 1, &tcp(ports, 999, 100, 0, SYN | ACK)), true, 20, 30);
        path.crosses(&packet(false, TCP, 2, &tcp(back, 100, 1_000, 50, ACK)), false, 30, 40);
        // An acknowledgement of the request is not data.
        path.crosses(&packet(true, TCP, 2, &tcp(ports, 1_000, 150, 0, ACK)), true, 40, 50);
        path.crosses(&packet(true, TCP, 3, &tcp(ports, 1_000, 150, 1_000, ACK)), true, 41, 51);
        // The second is dropped, so that the third is not acknowledged until it came again.
        let second = packet(true, TCP, 4, &tcp(ports, 2_000, 150, 1_000, ACK));
        path.enters(&second, true, 42);
        path.tap.dropped(&Seen::passage(&second, true, 42, 43, false));
        path.crosses(&packet(true, TCP, 5, &tcp(ports, 3_000, 150, 1_000, ACK)), true, 43, 53);
        path.crosses(&packet(false, TCP, 3, &tcp(back, 150, 2_000, 0, ACK)), false, 51, 61);
        path.crosses(&packet(true, TCP, 6, &tcp(ports, 2_000, 150, 1_000, ACK)), true, 62, 72);
        path.crosses(&packet(false, TCP, 4, &tcp(back, 150, 4_000, 0, ACK)), false, 72, 82);
        // A receiver that has closed resets what still comes, and acknowledges nothing by that.
        let last = packet(true, TCP, 9, &tcp(ports, 4_000, 150, 500, ACK));
        path.enters(&last, true, 82);
        path.tap.dropped(&Seen::passage(&last, true, 82, 83, false));
        path.crosses(&packet(false, TCP, 5, &tcp(back, 150, 4_500, 0, RST)), false, 83, 84);
        // ICMP between the two, and packets of others, are no part of it.
        path.crosses(&packet(true, ICMP, 7, &[0; 64]), true, 83, 84);
        let mut stranger = packet(true, TCP, 8, &tcp(ports, 1, 1, 100, ACK));
        stranger[15] = 7;
        path.crosses(&stranger, true, 85, 86);

        let ended = |status| ProgramEnd { status, ended: Time::from_millis(90), ..ProgramEnd::default() };
        let (sender, receiver) = (ended(None), ended(Some(0)));
        let outcome = path.finish(ProgramOutcome { sender, receiver, ..ProgramOutcome::default() });
        let flow = &outcome.flows[0];
        assert_eq!((flow.packets_entered, flow.packets_arrived, flow.packets_dropped), (5, 3, 2));
        assert_eq!((flow.wire_bytes_arrived, flow.ack_split.count), (3 * 1_040, 5));
        // Of the first segment alone: what is sent again ends a measurement (Karn).
        assert_eq!((flow.rtt.count(), flow.rtt.min_ms()), (1, Some(20.0)));
        let of = seen(&outcome);
        assert_eq!((of.protocol, of.connections), (Some("tcp"), 1));
        assert_eq!((of.retransmits, of.acknowledged, of.overfull), (Some(1), Some(3_000), false));
        assert_eq!(of.first_data, Some(Time::from_millis(41)));
        // From the client's first packet to the last of data.
        assert_eq!(flow.completions, [(3_000, Nanos::from_millis(62))]);
    }

    #[test]
    fn of_a_transfer_that_was_cut_off_nothing_is_complete() {
        let mut path = Seen::new(Flow { workload: Workload::Bytes(paceline_cc::Bytes(3_000)), ..flow() });
        path.crosses(&packet(true, UDP, 1, &udp([1, 2], &[0; 100])), true, 1, 2);
        let cut = ProgramEnd { signal: Some(15), ended: Time::from_millis(1_000), ..ProgramEnd::default() };
        let outcome = path.finish(ProgramOutcome { sender: cut, receiver: cut, ..ProgramOutcome::default() });
        assert!(outcome.flows[0].completions.is_empty());
    }

    #[test]
    fn every_packet_of_other_protocols_is_data_fragments_too() {
        let quic = [&[0xc3, 0, 0, 0, 1][..], &[7; 1_195]].concat();
        let mut path = Seen::new(flow());
        // QUIC by the first packet of a connection, whichever side sent it.
        path.crosses(&packet(false, UDP, 1, &udp([5_000, 443], &quic)), false, 1, 11);
        path.crosses(&packet(true, UDP, 1, &udp([443, 5_000], &[0x40; 1_200])), true, 11, 21);
        let mut fragment = packet(true, UDP, 2, &[0; 500]);
        fragment[7] = 185;
        path.crosses(&fragment, true, 12, 22);
        let outcome = path.finish(ProgramOutcome::default());
        let flow = &outcome.flows[0];
        assert_eq!((flow.packets_arrived, flow.wire_bytes_arrived, flow.ack_split.count), (2, 1_228 + 520, 1));
        let of = seen(&outcome);
        assert_eq!((of.protocol, of.connections, of.retransmits, of.acknowledged), (Some("quic"), 1, None, None));
        assert_eq!(flow.rtt.count(), 0);
    }

    #[test]
    fn protocols_are_told_apart() {
        let protocol = |packets: &[(u8, Vec<u8>)]| {
            let mut path = Seen::new(flow());
            for (number, (protocol, above)) in packets.iter().enumerate() {
                path.crosses(&packet(true, *protocol, number as u8, above), true, 1, 2);
            }
            seen(&path.finish(ProgramOutcome::default())).protocol
        };
        let version = |number: u32| (UDP, udp([1, 2], &[&[0xc0][..], &number.to_be_bytes()].concat()));
        let stream = (TCP, tcp([1, 2], 1, 1, 10, 16));
        let datagram = (UDP, udp([3, 4], &[0x80; 12]));
        for (packets, name) in [
            (vec![version(1)], "quic"),
            (vec![version(0x6b33_43cf)], "quic"),
            (vec![version(0xff00_001d)], "quic"),
            (vec![version(0x1234_5678)], "udp"),
            (vec![datagram.clone(), stream.clone()], "tcp+udp"),
            (vec![version(1), stream.clone()], "tcp+quic"),
            (vec![stream], "tcp"),
            // A later packet of a connection does not say what it is.
            (vec![(UDP, udp([1, 2], &[0x40; 8])), version(1)], "udp"),
            (vec![(132, vec![0; 20])], "other"),
        ] {
            assert_eq!(protocol(&packets), Some(name));
        }
        assert_eq!(protocol(&[]), None);
    }

    #[test]
    fn marks_are_those_of_the_path() {
        let mut path = Seen::new(flow());
        for (number, (ecn, marked)) in [(3, false), (3, true), (1, false)].into_iter().enumerate() {
            // Marked by its sender, to test its peer; by the path; not at all.
            let mut bytes = packet(true, UDP, number as u8, &udp([1, 2], &[0; 50]));
            bytes[1] = ecn;
            path.enters(&bytes, true, 1);
            path.tap.left(&Seen::passage(&bytes, true, 1, 2, marked));
        }
        assert_eq!(path.finish(ProgramOutcome::default()).flows[0].ce_packets, 1);
    }

    #[test]
    fn more_connections_than_are_followed_leave_no_figures_of_streams() {
        let mut path = Seen::new(flow());
        for port in 0..=MOST_CONNECTIONS as u16 {
            path.crosses(&packet(true, TCP, 1, &tcp([port, 80], 1, 1, 10, 16)), true, 1, 2);
        }
        let outcome = path.finish(ProgramOutcome::default());
        let of = seen(&outcome);
        assert_eq!((of.overfull, of.retransmits, of.acknowledged), (true, None, None));
        assert_eq!(of.connections, MOST_CONNECTIONS as u64);
    }

    #[test]
    fn what_is_cut_short_does_no_harm() {
        let whole = [
            packet(true, TCP, 1, &tcp([1, 2], 1, 1, 10, 18)),
            packet(false, TCP, 1, &tcp([2, 1], 1, 1, 0, 16)),
            packet(true, UDP, 1, &udp([1, 2], &[0xc0; 6])),
        ];
        let mut path = Seen::new(flow());
        for bytes in &whole {
            for (length, byte) in (0..=bytes.len()).flat_map(|length| [(length, 0), (length, 0xff)]) {
                let mut bytes = bytes[..length].to_vec();
                if let Some(last) = bytes.get_mut(20..).and_then(<[u8]>::last_mut) {
                    *last = byte;
                }
                path.crosses(&bytes, true, 1, 2);
                path.crosses(&bytes, false, 1, 2);
            }
        }
        path.finish(ProgramOutcome::default());
    }
}
