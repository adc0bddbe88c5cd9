//! Attacks, each on a router with a store in the kernel and on one without: what they get is the same.

use std::net::{IpAddr, SocketAddr};
use std::process::Command;

use paceline_fixture::PATIENCE;
use paceline_fixture::frame::set_sums;
use paceline_icn::wire::{AddressToken, MAX_HOPS, MAX_MESSAGE, UnitAnswer};
use paceline_linux::clock::wait;
use rustix::event::{PollFd, PollFlags};

use super::*;

const SENDERS: [&str; 2] = ["198.51.100.9:40000", "[2001:db8:7:1::9]:40000"];

/// Where the messages of a request with one range of one unit have their fields.
const RANGES: usize = 43;
const OPTION: usize = 54;

/// What a router says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Unit(u64),
    Refused(MissingReason),
    Token,
}

const UNIT_5: &[Said] = &[Said::Unit(5)];
const NOTHING: &[Said] = &[];
const TOKEN: &[Said] = &[Said::Token];
const NO_TOKEN: &[Said] = &[Said::Token, Said::Refused(MissingReason::NoToken)];

/// A host that a router has given a token, and its request for unit 5.
struct Attacker<'a> {
    bed: &'a Bed,
    ends: UdpEnds,
    request: UnitRequest,
    /// Another one's request, which the router's socket takes: what was said before was said to this one.
    last: Vec<u8>,
    last_to: SocketAddr,
}

impl<'a> Attacker<'a> {
    fn new(bed: &'a Bed, from: &str, name: Name) -> Self {
        let from: SocketAddr = from.parse().unwrap();
        let to =
            if from.is_ipv4() { bed.ends.to } else { SocketAddr::new("fd77::1".parse().unwrap(), bed.ends.to.port()) };
        let ends = UdpEnds { from, to, ..bed.ends };
        let other = UdpEnds { from: SocketAddr::new(from.ip(), from.port() + 1000), ..ends };
        let of = |unit, token| UnitRequest { nonce: 7, name, ranges: Ranges::one(unit), token, hops: 0, padded: 0 };
        let granted = |ends: &UdpEnds| {
            bed.put(&ends.frame(&encoded(&of(0, None))));
            let answer = loop {
                // Others may have been answered before.
                let (answered, message) = bed.next();
                if answered.to == ends.from {
                    break message;
                }
            };
            let Ok(UnitAnswer::Grant(grant)) = UnitAnswer::decode(&answer) else { panic!("{answer:02x?}") };
            Some(grant.token)
        };
        let (token, others) = (granted(&ends), granted(&other));
        // The last unit is short, and so never in the kernel.
        let last = other.frame(&encoded(&of(299, others)));
        Self { bed, ends, request: of(5, token), last, last_to: other.from }
    }

    /// A frame of full length, with room for an answer.
    fn frame(&self, message: &[u8]) -> Vec<u8> {
        let mut frame = self.ends.frame(message);
        frame.resize(frame.len().max(1514), 0);
        frame
    }

    /// What the router says to a frame, to whomever.
    fn said(&self, frame: &[u8]) -> Vec<Said> {
        self.bed.put(frame);
        self.bed.put(&self.last);
        let mut all = Vec::new();
        loop {
            let (ends, answer) = self.bed.next();
            if ends.to == self.last_to {
                return all;
            }
            assert_eq!(ends.link.1[0] & 1, 0, "to a group of hosts");
            all.push(match UnitAnswer::decode(&answer).unwrap() {
                UnitAnswer::Data(head, _) => Said::Unit(head.unit),
                UnitAnswer::Nack(nack) => Said::Refused(nack.reason),
                UnitAnswer::Grant(_) => Said::Token,
            });
        }
    }

    const fn is_ipv4(&self) -> bool {
        self.ends.from.is_ipv4()
    }

    /// Where UDP's head begins.
    const fn udp(&self) -> usize {
        if self.is_ipv4() { 34 } else { 54 }
    }

    /// What a host can send that is wrong, and what it gets for that.
    fn attacks(&self) -> Vec<(String, Vec<u8>, &'static [Said])> {
        let mut all = Vec::new();
        let mut add = |what: &str, frame: Vec<u8>, said: &'static [Said]| all.push((what.to_owned(), frame, said));
        let good = encoded(&self.request);
        let asking = |change: &dyn Fn(&mut UnitRequest)| {
            let mut request = self.request;
            change(&mut request);
            self.frame(&encoded(&request))
        };
        let message = |parts: &[&[u8]]| self.frame(&parts.concat());
        add("nothing is wrong", self.frame(&good), UNIT_5);
        add("the same again", self.frame(&good), UNIT_5);

        // Tokens.
        for at in 0..24 {
            add(
                "a token with another byte",
                asking(&|request| request.token.as_mut().unwrap().0[at] ^= 0x10),
                NO_TOKEN,
            );
        }
        add("a token of one's own making", asking(&|request| request.token = Some(AddressToken([2; 24]))), NO_TOKEN);
        for (what, from) in [
            ("the token of another port", SocketAddr::new(self.ends.from.ip(), 40_001)),
            ("the router's own port", SocketAddr::new(self.ends.from.ip(), self.ends.to.port())),
            ("the token of another address", SocketAddr::new(next(self.ends.from.ip()), self.ends.from.port())),
        ] {
            let mut frame = UdpEnds { from, ..self.ends }.frame(&good);
            frame.resize(1514, 0);
            add(what, frame, NO_TOKEN);
        }
        add("no token", asking(&|request| request.token = None), TOKEN);
        add("no token, but as long", asking(&|request| (request.token, request.padded) = (None, 81)), NO_TOKEN);
        let first = asking(&|request| (request.token, request.padded) = (None, 1200));
        add("a first request", first, &[Said::Token, Said::Unit(5)]);

        // Options.
        let (head, option) = good.split_at(OPTION);
        add("two tokens", message(&[&good, option]), NOTHING);
        add("padding first", message(&[head, &[0, 0, 4, 0, 0, 0, 0], option]), UNIT_5);
        add("padding twice", message(&[&good, &[0, 0, 0], &[0, 0, 0]]), NOTHING);
        add("padding that is not zero", message(&[&good, &[0, 0, 1, 1]]), NOTHING);
        add("an option that must be understood", message(&[&good, &[2, 0, 0]]), NOTHING);
        add("an option that may be skipped", message(&[&good, &[128, 0, 1, 9]]), UNIT_5);
        add("an option past the end", message(&[&good, &[128, 0, 9]]), NOTHING);
        add("a token that is too short", message(&[head, &[1, 0, 23], &option[3..26]]), NOTHING);
        let long = vec![0; MAX_MESSAGE + 1 - good.len() - 3];
        let [high, low] = (long.len() as u16).to_be_bytes();
        add("a message that is too long", message(&[&good, &[128, high, low], &long]), NOTHING);

        // Fields.
        let with = |at: usize, bytes: &[u8]| {
            let mut message = good.clone();
            message[at..at + bytes.len()].copy_from_slice(bytes);
            self.frame(&message)
        };
        add("the most hops", with(1, &[MAX_HOPS]), UNIT_5);
        add("a loop", with(1, &[MAX_HOPS + 1]), &[Said::Refused(MissingReason::Loop)]);
        for kind in [0x10, 0x12, 0x13, 0x14, 0x1f, 0x21] {
            add("another kind of message", with(0, &[kind]), NOTHING);
        }
        add("another object", with(20, &[0xff]), &[Said::Refused(MissingReason::NotFound)]);
        add("no name", with(10, &[0xff]), NOTHING);
        for ranges in [0, 2, 17] {
            add("another number of ranges", with(RANGES, &[ranges]), NOTHING);
        }
        add("no unit", with(RANGES + 9, &[0, 0]), NOTHING);
        add("too many units", with(RANGES + 9, &[0, 65]), NOTHING);
        for unit in [300, 1 << 48 | 5, u64::MAX - 1] {
            add("past the end", with(RANGES + 1, &unit.to_be_bytes()), &[Said::Refused(MissingReason::End)]);
        }
        for length in 0..good.len() {
            add(
                "a message that is cut off",
                self.frame(&good[..length]),
                if length == OPTION { TOKEN } else { NOTHING },
            );
        }

        // Heads.
        let frame = self.frame(&good);
        for length in 14..self.udp() + 8 + good.len() {
            add("a frame that is cut off", frame[..length].to_vec(), NOTHING);
        }
        let raw = |at: usize, bytes: &[u8]| {
            let mut frame = frame.clone();
            frame[at..at + bytes.len()].copy_from_slice(bytes);
            frame
        };
        let summed = |at: usize, bytes: &[u8]| {
            let mut frame = raw(at, bytes);
            set_sums(&mut frame);
            frame
        };
        let (udp, ipv4) = (self.udp(), self.is_ipv4());
        add("a wrong sum", raw(udp + 6, &[!frame[udp + 6]]), NOTHING);
        add("no sum", raw(udp + 6, &[0, 0]), if ipv4 { UNIT_5 } else { NOTHING });
        add("a shorter datagram", summed(udp + 4, &88_u16.to_be_bytes()), NOTHING);
        add("a longer datagram", summed(udp + 4, &90_u16.to_be_bytes()), NOTHING);
        add("another port", summed(udp + 2, &9_u16.to_be_bytes()), NOTHING);
        add("from port 0", summed(udp, &[0, 0]), NOTHING);
        add("for another host of the link", raw(5, &[!frame[5]]), NOTHING);
        add("for all hosts of the link", raw(0, &[0xff; 6]), UNIT_5);
        add("from a group of the link", raw(6, &[0xff; 6]), UNIT_5);
        let from_own = if ipv4 { &frame[30..34] } else { &frame[38..54] }.to_vec();
        if ipv4 {
            add("a wrong sum of the head", raw(24, &[!frame[24]]), NOTHING);
            add("a longer packet", summed(16, &110_u16.to_be_bytes()), UNIT_5);
            add("a shorter packet", summed(16, &108_u16.to_be_bytes()), NOTHING);
            add("another version", summed(14, &[0x65]), NOTHING);
            add("a shorter head", summed(14, &[0x44]), NOTHING);
            add("a first fragment", summed(20, &[0x20]), NOTHING);
            add("a later fragment", summed(20, &[0, 1]), NOTHING);
            add("TCP", summed(23, &[6]), NOTHING);
            for hops in [0, 1, 255] {
                add("another hop limit", summed(22, &[hops]), UNIT_5);
            }
            for from in [[0, 0, 0, 0], [127, 0, 0, 1], [224, 0, 0, 5], [255; 4], [10, 77, 0, 255]] {
                add("from where no host is", summed(26, &from), NOTHING);
            }
            add("from itself", summed(26, &from_own), NOTHING);
            add("for another address of it", summed(30, &[10, 78, 0, 1]), UNIT_5);
            for to in [[10, 77, 0, 99], [10, 78, 0, 2], [198, 51, 100, 3], [127, 0, 0, 1], [224, 0, 0, 5]] {
                add("for another host", summed(30, &to), NOTHING);
            }
        } else {
            add("a longer packet", summed(18, &90_u16.to_be_bytes()), UNIT_5);
            add("a shorter packet", summed(18, &88_u16.to_be_bytes()), NOTHING);
            add("another version", summed(14, &[0x40]), NOTHING);
            for next in [0, 6, 43, 44, 58, 60] {
                add("another head", summed(20, &[next]), NOTHING);
            }
            for hops in [0, 1, 255] {
                add("another hop limit", summed(21, &[hops]), UNIT_5);
            }
            for from in ["::", "::1", "ff02::1"] {
                let IpAddr::V6(from) = from.parse().unwrap() else { panic!("{from}") };
                add("from where no host is", summed(22, &from.octets()), NOTHING);
            }
            add("from itself", summed(22, &from_own), NOTHING);
            // Taken for IPv4's, of which it is not the token.
            let IpAddr::V6(mapped) = "::ffff:198.51.100.9".parse().unwrap() else { panic!("not of IPv6") };
            add("from IPv4's address", summed(22, &mapped.octets()), NO_TOKEN);
            for to in ["fd77::99", "2001:db8::1", "::1", "ff02::5"] {
                let IpAddr::V6(to) = to.parse().unwrap() else { panic!("{to}") };
                add("for another host", summed(38, &to.octets()), NOTHING);
            }
        }
        all
    }

    /// Frames of which one byte is another, with right and with wrong sums.
    fn alterations(&self) -> Vec<Vec<u8>> {
        let (frame, mut all) = (self.frame(&encoded(&self.request)), Vec::new());
        for at in 0..self.udp() + 8 + 81 {
            for flip in [1, 0x80] {
                let mut altered = frame.clone();
                altered[at] ^= flip;
                all.push(altered.clone());
                set_sums(&mut altered);
                all.push(altered);
            }
        }
        all
    }
}

impl Bed {
    fn put(&self, frame: &[u8]) {
        rustix::io::write(self.frames.as_fd(), frame).unwrap();
    }

    /// What the router sends next, and to whom.
    fn next(&self) -> (UdpEnds, Vec<u8>) {
        let mut buffer = [0; 2048];
        loop {
            let Ok(length) = rustix::io::read(self.frames.as_fd(), &mut buffer) else {
                let mut fds = [PollFd::new(&self.frames, PollFlags::IN)];
                assert!(wait(&mut fds, Some(PATIENCE)).unwrap(), "the router says nothing");
                continue;
            };
            match UdpEnds::read(&buffer[..length]) {
                Some((ends, message)) if ends.link.0 == self.ends.link.1 && ends.from.port() == self.ends.to.port() => {
                    return (ends, message.to_vec());
                }
                _ => {}
            }
        }
    }
}

fn encoded(request: &UnitRequest) -> Vec<u8> {
    let mut message = Vec::new();
    request.encode(&mut message);
    message
}

fn next(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(ip) => IpAddr::V4((u32::from(ip) + 1).into()),
        IpAddr::V6(ip) => IpAddr::V6((u128::from(ip) + 1).into()),
    }
}

/// A bed that is reached from everywhere, whose frames are whole.
fn open_bed(test: &str, place: &Place, kernel: bool) -> Option<Bed> {
    let bed = bed(test, place, "[::]:4871", kernel)?;
    bed.s.enter(|| without_offloads("s0")).unwrap().unwrap();
    for words in [
        "address add 10.78.0.1 peer 10.78.0.2 dev s0",
        "route add default via 10.77.0.2",
        "-6 route add default via fd77::2",
    ] {
        let routed = bed.s.enter(|| Command::new("ip").args(words.split(' ')).status()).unwrap();
        assert!(routed.unwrap().success(), "ip {words}");
    }
    Some(bed)
}

#[test]
fn attacks_get_the_same_over_both_ways() {
    let test = "attacks_get_the_same_over_both_ways";
    let (place, name, _) = published(300);
    let (Some(plain), Some(mut kernel)) = (open_bed(test, &place, false), open_bed(test, &place, true)) else { return };
    kernel.ask(name, 0, PADDED, 2);
    kernel.fill(name, 5);
    for from in SENDERS {
        let attackers = [&plain, &kernel].map(|bed| Attacker::new(bed, from, name));
        let before = kernel.kernel();
        for attacker in &attackers {
            let way = if std::ptr::eq(attacker.bed, &kernel) { "kernel" } else { "socket" };
            for (what, frame, said) in attacker.attacks() {
                assert_eq!(attacker.said(&frame), said, "{from}, {way}: {what}: {frame:02x?}");
            }
        }
        let [plainly, by_kernel] = attackers.each_ref().map(Attacker::alterations);
        for (plainly, by_kernel) in plainly.iter().zip(&by_kernel) {
            let said = (attackers[0].said(plainly), attackers[1].said(by_kernel));
            assert_eq!(said.0, said.1, "{from}: {plainly:02x?}");
        }
        until("it has been counted", || kernel.kernel().answered > before.answered + 20);
        assert!(kernel.kernel().bad_tokens > before.bad_tokens + 20);
    }
    // Who has done nothing is served as before.
    assert!(kernel.server.counts().router.garbage > 0 && plain.server.counts().kernel.is_none());
    for bed in [plain, kernel] {
        let mut client = bed.client;
        client.units.clear();
        client.ask(name, 7, 1, PADDED, 1);
        while client.units.is_empty() {
            assert!(client.take(PATIENCE));
        }
    }
}
