//! Captures in every form that tcpdump and Wireshark read: the same flow has the same figures, and what is not read has its name.

mod file;
mod links;
mod seeds;

use file::{BEGUN, Blocks, Link, MS, Pcap, Seen, flow, four, six};
use paceline_conform::capture;
use paceline_conform::read::FileError;
use paceline_logs::{Kind, kind_of, read_from};
use paceline_report::logs::PlottedLog;

const FLOW: &str = "10.0.0.1:443 > 10.0.0.2:50000";

fn plot(bytes: &[u8]) -> Result<PlottedLog, FileError> {
    let kind = kind_of("c", bytes)?;
    assert_eq!(kind, Kind::Capture);
    read_from("c", bytes, kind, None)
}

fn figure(log: &PlottedLog, of: &str, what: &str) -> Option<f64> {
    log.figures.iter().find(|figure| figure.of == of && figure.what.starts_with(what)).map(|figure| figure.value)
}

/// Milliseconds of every round trip that is drawn.
fn round_trips(log: &PlottedLog) -> Vec<f64> {
    let chart = log.charts.iter().find(|chart| chart.title.starts_with("round trip"));
    chart.iter().flat_map(|chart| &chart.curves).flat_map(|curve| &curve.points).filter_map(|(_, rtt)| *rtt).collect()
}

fn plain() -> Vec<u8> {
    Pcap::of(Link::ethernet()).write(&flow())
}

/// Both readers say what they say of the plain capture, with these notes.
#[track_caller]
fn assert_same(what: &str, bytes: &[u8], notes: &[&str]) {
    let (log, expected) = (plot(bytes).unwrap_or_else(|error| panic!("{what}: {error}")), plot(&plain()).unwrap());
    assert_eq!((log.seconds, log.step_s), (expected.seconds, expected.step_s), "{what}");
    assert_eq!(log.charts, expected.charts, "{what}");
    let without_count = |log: &PlottedLog| {
        let figures = log.figures.iter().filter(|figure| figure.what != "packets in the file");
        figures.cloned().collect::<Vec<_>>()
    };
    assert_eq!(without_count(&log), without_count(&expected), "{what}");
    let read = |bytes: &[u8]| capture::read("c", bytes, None).unwrap();
    let (flow, expected) = (read(bytes), read(&plain()));
    assert_eq!((flow.points, flow.losses, flow.mss), (expected.points, expected.losses, expected.mss), "{what}");
    for said in [&log.notes, &flow.notes] {
        for note in notes {
            assert!(said.iter().any(|line| line.starts_with(note)), "{what}: {note} is not in {said:?}");
        }
    }
    // Beside these a page says where its flows were captured, and which are not drawn.
    assert_eq!((log.notes.len(), flow.notes.len()), (notes.len() + 2, notes.len()), "{what}: {:?}", log.notes);
}

#[test]
fn figures_of_the_flow() {
    let log = plot(&plain()).unwrap();
    // 120 packets of 1500 bytes in 491 ms.
    assert!((log.seconds - 0.491).abs() < 1e-9, "{}", log.seconds);
    assert!((figure(&log, FLOW, "throughput").unwrap() - 120.0 * 1500.0 * 8e-6 / 0.491).abs() < 1e-9);
    assert_eq!((figure(&log, FLOW, "sent again"), figure(&log, "", "packets in")), (None, Some(132.0)));
    assert!(round_trips(&log).len() == 12 && round_trips(&log).iter().all(|rtt| (rtt - 40.0).abs() < 1e-9));
}

#[test]
fn every_form_of_pcap_says_the_same() {
    let form = Pcap::of(Link::ethernet());
    for big in [false, true] {
        for (what, form) in [
            ("plain", form.clone()),
            ("nanoseconds", Pcap { nanos: true, ..form.clone() }),
            ("modified", Pcap { modified: true, ..form.clone() }),
            ("records longer than the header says", Pcap { snap: 70, ..form.clone() }),
            ("a header that says 0", Pcap { snap: 0, ..form.clone() }),
            ("kept more than there was", Pcap { says: Some(60), ..form.clone() }),
            ("a fraction above a second", Pcap { over: true, ..form.clone() }),
            ("a check sequence", Pcap { fcs: 4, ..form.clone() }),
        ] {
            assert_same(what, &Pcap { big, ..form }.write(&flow()), &[]);
        }
    }
}

#[test]
fn every_link_says_the_same() {
    let ethernet = |rest: &[u8]| Link::new(1, &[&[2; 12], rest].concat());
    let sll = |rest: &[u8]| Link::new(113, &[&[0; 14], rest].concat());
    let sll2 = |kind: [u8; 2], rest: &[u8]| Link::new(276, &[&kind[..], &[0; 18], rest].concat());
    for link in [
        ethernet(&[0x81, 0, 0, 42, 8, 0]),
        ethernet(&[0x88, 0xa8, 0, 7, 0x81, 0, 0, 42, 8, 0]),
        ethernet(&[0x88, 0x64, 0x11, 0, 0, 9, 5, 0xde, 0, 0x21]),
        ethernet(&[0x88, 0x47, 0, 1, 1, 64]),
        sll(&[8, 0]),
        sll(&[0x81, 0, 0, 42, 8, 0]),
        sll2([8, 0], &[]),
        sll2([0x81, 0], &[0, 42, 8, 0]),
        Link::new(0, &[2, 0, 0, 0]),
        Link::new(0, &[0, 0, 0, 2]),
        Link::new(108, &[0, 0, 0, 2]),
        Link::new(9, &[0xff, 3, 0, 0x21]),
        Link::new(104, &[0x0f, 0, 8, 0]),
        Link::new(12, &[]),
        Link::new(101, &[]),
        Link::new(228, &[]),
    ] {
        let what = format!("{} {:x?}", link.number, link.before);
        assert_same(&what, &Pcap::of(link).write(&flow()), &[]);
    }
}

#[test]
fn whatever_is_kept_of_a_packet_says_the_same() {
    // From the flags of TCP on.
    for kept in 34..80 {
        let cut = flow().into_iter().map(|seen| Seen { ip: seen.ip[..kept].to_vec(), ..seen });
        assert_same(&format!("{kept} bytes"), &Pcap::of(Link::ethernet()).write(&cut.collect::<Vec<_>>()), &[]);
    }
}

#[test]
fn every_form_of_pcapng_says_the_same() {
    let link = Link::ethernet();
    for big in [false, true] {
        let blocks = Blocks { big };
        let file = |kind| {
            let packets = flow().iter().flat_map(|seen| blocks.packet(kind, 0, &link, 1000, seen)).collect::<Vec<_>>();
            [blocks.section(&[]), blocks.interface(&link, &[]), packets].concat()
        };
        assert_same("enhanced", &file(6), &[]);
        assert_same("obsolete", &file(2), &[]);
        // A Windows code page, and blocks that are not known or not needed.
        let texts = blocks.option(3, b"f\xfcr G\xe4ste");
        let mut odd = [blocks.section(&texts), blocks.interface(&link, &texts)].concat();
        for seen in flow() {
            odd.extend(blocks.block(0xdead, b"of others"));
            odd.extend(blocks.block(5, &[0; 12]));
            odd.extend(blocks.packet(6, 0, &link, 1000, &seen));
        }
        odd.extend(blocks.block(10, &[0; 100]));
        assert_same("texts and blocks of others", &odd, &[]);
        // Nanoseconds, and seconds before 1970.
        let offset = |seconds: i64| blocks.option(14, &if big { seconds.to_be_bytes() } else { seconds.to_le_bytes() });
        let nanos = [blocks.option(9, &[9]), offset(-100)].concat();
        let mut file = [blocks.section(&[]), blocks.interface(&link, &nanos)].concat();
        for seen in flow() {
            let later = Seen { at: seen.at + 100_000 * MS, ..seen };
            file.extend(blocks.packet(6, 0, &link, 1, &later));
        }
        assert_same("resolution and offset", &file, &[]);
        // A binary resolution: its units are below 1 ns.
        let binary = blocks.option(9, &[0x80 | 31]);
        let mut file = [blocks.section(&[]), blocks.interface(&link, &binary)].concat();
        for seen in flow() {
            let units = ((u128::from(seen.at) << 31).div_ceil(1_000_000_000)) as u64;
            file.extend(blocks.packet(6, 0, &link, 1, &Seen { at: units, ..seen }));
        }
        assert_same("binary resolution", &file, &[]);
    }
}

#[test]
fn sections_and_interfaces_are_each_their_own() {
    let (link, raw) = (Link::ethernet(), Link::new(101, &[]));
    // A section for each window, in both orders of bytes, with the interfaces in either order.
    let mut file = Vec::new();
    for (number, window) in flow().chunks(11).enumerate() {
        let blocks = Blocks { big: number % 2 == 1 };
        let (first, second) = if number % 3 == 0 { (&link, &raw) } else { (&raw, &link) };
        file.extend(blocks.section(&[]));
        file.extend(blocks.interface(first, &[]));
        file.extend(blocks.interface(second, &blocks.option(9, &[9])));
        for (index, seen) in window.iter().enumerate() {
            let other = index % 2;
            file.extend(blocks.packet(6, other as u16, [first, second][other], [1000, 1][other], seen));
        }
    }
    assert_same("sections", &file, &[]);
    // What a section described is gone in the next one.
    let blocks = Blocks { big: false };
    file.extend([blocks.section(&[]), blocks.packet(6, 0, &link, 1000, &flow()[0])].concat());
    assert_same("no interface", &file, &["It is damaged or cut off at packet 133 (its interface 0 is not described)"]);
}

#[test]
fn a_million_interfaces_take_no_longer_each() {
    let (blocks, link) = (Blocks { big: false }, Link::ethernet());
    let mut file = blocks.section(&[]);
    let interface = blocks.interface(&link, &[]);
    for _ in 0..1_000_000 {
        file.extend(&interface);
    }
    for seen in flow() {
        file.extend(blocks.packet(6, 9, &link, 1000, &seen));
    }
    assert_same("interfaces", &file, &[]);
}

#[test]
fn lengths_that_the_header_leaves_out_are_those_of_the_wire() {
    let write = |seen: &[Seen], ip6: bool| {
        let kind = if ip6 { [0x86, 0xdd] } else { [8, 0] };
        Pcap::of(Link::new(1, &[&[2; 12][..], &kind].concat())).write(seen)
    };
    // Ten windows of one piece, which the card cuts into packets; the option has the length in it.
    for (bytes, option) in
        [(14_480, None), (72_400, None), (72_400, Some(false)), (72_400, Some(true)), (600_000, None)]
    {
        let mut seen = Vec::new();
        for round in 0..10 {
            let (at, seq) = (round * 40 * MS, 1000 + round as u32 * bytes);
            let length = (bytes + 40).to_be_bytes();
            let jumbo = [6, 0, 0xc2, 4, length[0], length[1], length[2], length[3]];
            let mut data = match option {
                None => four(at, true, round as u16 + 1, [seq, 1], bytes),
                Some(with) => six(at, true, if with { &jumbo } else { &[] }, 0, [seq, 1], bytes),
            };
            if option.is_none() {
                data.ip[2..4].fill(0);
            }
            seen.push(data);
            seen.push(match option {
                None => four(at + 40 * MS, false, 7, [1, seq + bytes], 0),
                Some(_) => six(at + 40 * MS, false, &[], 32, [1, seq + bytes], 0),
            });
        }
        let file = write(&seen, option.is_some());
        let log = plot(&file).unwrap();
        let of = if option.is_none() { FLOW } else { "[fd00::1]:443 > [fd00::2]:50000" };
        let expected = f64::from(seen[0].wire) * 10.0 * 8e-6 / 0.4;
        assert!((figure(&log, of, "throughput").unwrap() - expected).abs() < 1e-9, "{bytes} {option:?}");
        assert!(round_trips(&log).iter().all(|rtt| (rtt - 40.0).abs() < 1e-9));
        let flow = capture::read("c", &file[..], None).unwrap();
        assert!(flow.name.contains("443-") && (flow.points[0].window * flow.mss - f64::from(bytes)).abs() < 1e-6);
    }
}

const COPIES: &str = "264 packets are in it more than once";

#[test]
fn a_packet_that_was_seen_three_times_counts_once() {
    let thrice = |apart: u64| {
        let copies = |seen: &Seen, copy: u64| Seen { at: seen.at + copy * apart, ..seen.clone() };
        (0..3).flat_map(move |copy| flow().into_iter().map(move |seen| (copy, copies(&seen, copy)))).collect::<Vec<_>>()
    };
    // Cooked, with and without the interface; a mirrored port; three interfaces of a pcapng.
    let cooked = |with: bool| {
        let mut packets = thrice(5000);
        packets.sort_by_key(|(_, seen)| seen.at);
        let packets = packets.into_iter().map(|(copy, seen)| {
            let mut before =
                if with { vec![8, 0, 0, 0, 0, 0, 0, copy as u8, 0, 1, 4, 6] } else { vec![0, 4, 0, 1, 0, 6] };
            before.resize(if with { 20 } else { 14 }, 0);
            if !with {
                before.extend([8, 0]);
            }
            Seen { ip: [before, seen.ip].concat(), wire: seen.wire + if with { 20 } else { 16 }, ..seen }
        });
        Pcap::of(Link::new(if with { 276 } else { 113 }, &[])).write(&packets.collect::<Vec<_>>())
    };
    assert_eq!(plot(&cooked(true)).unwrap().seconds, 0.491_01);
    let seconds = |file: &[u8]| {
        let log = plot(file).unwrap();
        assert!(log.notes[0].starts_with(COPIES), "{:?}", log.notes);
        let flow = capture::read("c", file, None).unwrap();
        let expected = capture::read("c", &plain()[..], None).unwrap();
        assert!(flow.notes[0].starts_with(COPIES) && flow.points == expected.points && flow.losses.is_empty());
        assert!(figure(&log, FLOW, "sent again").is_none() && round_trips(&log) == vec![40.0; 12]);
        (figure(&log, FLOW, "throughput").unwrap() * log.seconds / 8e-6).round()
    };
    assert_eq!((seconds(&cooked(true)), seconds(&cooked(false))), (180_000.0, 180_000.0));
    let (blocks, link) = (Blocks { big: false }, Link::ethernet());
    let mut file = [blocks.section(&[]), blocks.interface(&link, &[]).repeat(3)].concat();
    for (copy, seen) in thrice(MS / 10) {
        file.extend(blocks.packet(6, copy as u16, &link, 1000, &seen));
    }
    let log = plot(&file).unwrap();
    assert!(log.notes.iter().any(|note| note.starts_with(COPIES)) && round_trips(&log) == vec![40.0; 12]);
}

const SORTED: &str = "Its packets are not in the order of time";

#[test]
fn any_order_of_packets_says_the_same() {
    let write = |packets: &[Seen]| Pcap::of(Link::ethernet()).write(packets);
    let packets = flow();
    let mut late_first = packets.clone();
    let late = late_first.remove(43);
    late_first.insert(0, late);
    assert_same("the first is late", &write(&late_first), &[SORTED]);
    let reversed: Vec<Seen> = packets.iter().rev().cloned().collect();
    assert_same("reversed", &write(&reversed), &[SORTED]);
    let mut state = 1_u64;
    for _ in 0..20 {
        let mut mixed = packets.clone();
        for at in (1..mixed.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            mixed.swap(at, (state >> 33) as usize % (at + 1));
        }
        assert_same("mixed", &write(&mixed), &[SORTED]);
    }
}

#[test]
fn a_clock_that_is_set_back_is_noted_and_goes_on() {
    let mut packets = flow();
    for seen in &mut packets[66..] {
        seen.at -= 3_600_000 * MS;
    }
    let file = Pcap::of(Link::ethernet()).write(&packets);
    let note = "Times go back by 3599.999 s at packet 67";
    let log = plot(&file).unwrap();
    assert!(log.notes[0].starts_with(note), "{:?}", log.notes);
    // A millisecond between two windows is lost.
    assert!((log.seconds - 0.49).abs() < 1e-9, "{}", log.seconds);
    // The last one came at the end, and has no step.
    assert_eq!(round_trips(&log), [40.0; 11]);
    assert!(capture::read("c", &file[..], None).unwrap().notes[0].starts_with(note));
    packets[0].at = BEGUN - 7_200_000 * MS;
    packets.truncate(50);
    let log = plot(&Pcap::of(Link::ethernet()).write(&packets)).unwrap();
    assert!(log.notes[0].starts_with("Nothing comes for 7200 of its 7200 s before packet 2"), "{:?}", log.notes);
}

#[test]
fn probes_are_not_sent_again() {
    let mut packets = flow();
    let end = 1000 + 120 * 1448;
    for probe in 0..5 {
        // Of a byte that has arrived, as Windows and BSD ask.
        packets.push(four((500 + probe * 100) * MS, true, 500 + probe as u16, [end - 1, 1], 1));
        packets.push(four((540 + probe * 100) * MS, false, 600 + probe as u16, [1, end], 0));
    }
    let file = Pcap::of(Link::ethernet()).write(&packets);
    let (log, flow) = (plot(&file).unwrap(), capture::read("c", &file[..], None).unwrap());
    let note = "5 segments of a byte ask whether the other end takes more";
    assert!(log.notes.iter().chain(&flow.notes).filter(|line| line.starts_with(note)).count() == 2, "{:?}", log.notes);
    assert!(figure(&log, FLOW, "sent again").is_none() && flow.losses.is_empty());
}

#[test]
fn a_file_that_is_cut_anywhere_says_what_is_before() {
    let (blocks, link) = (Blocks { big: false }, Link::ethernet());
    let packets = flow().iter().flat_map(|seen| blocks.packet(6, 0, &link, 1000, seen)).collect::<Vec<_>>();
    let pcapng = [blocks.section(&[]), blocks.interface(&link, &[]), packets].concat();
    for whole in [plain(), pcapng] {
        let (mut packets, mut seconds) = (0.0, 0.0);
        for length in (0..=whole.len()).step_by(7) {
            match plot(&whole[..length]) {
                Ok(log) => {
                    let count = figure(&log, "", "packets in").unwrap();
                    assert!(count >= packets && log.seconds >= seconds, "{length}: less than before");
                    (packets, seconds) = (count, log.seconds);
                    let said = log.notes.iter().any(|note| note.starts_with("It is damaged or cut off at packet "));
                    let clean = plot(&whole[..length - 1])
                        .is_ok_and(|before| figure(&before, "", "packets in").unwrap() < count);
                    assert!(said || clean, "{length}: {:?}", log.notes);
                }
                Err(error) => assert!(packets == 0.0, "{length}: {error}"),
            }
            // A flow needs an acknowledgement.
            let read = capture::read("c", &whole[..length], None);
            assert!(packets < 12.0 || read.is_ok(), "{length}: {:?}", read.err());
        }
        assert!(packets >= 131.0);
    }
}

#[test]
fn what_is_not_read_has_its_name() {
    let refusal = |bytes: &[u8]| plot(bytes).unwrap_err().to_string();
    let of = |link: Link| refusal(&Pcap::of(link).write(&flow()));
    let fix = "; capture where packets are plain IP (tcpdump -i any), or cut off the bytes before the IP header \
               (editcap -T rawip -C COUNT FILE OUT)";
    let named = |what: &str| format!("c: it has no IP packets that are read, but 132 of {what}{fix}");
    assert_eq!(of(Link::new(127, &[0; 30])), named("link type 127 (IEEE802_11_RADIOTAP, Wi-Fi)"));
    assert_eq!(of(Link::new(1, &[[2; 12].as_slice(), &[0x88, 0xe7]].concat())), named("802.1ah (EtherType 0x88e7)"));
    let secret = [[2; 12].as_slice(), &[0x88, 0xe5, 0x0c, 0, 0, 0, 0, 1]].concat();
    assert_eq!(of(Link::new(1, &secret)), named("MACsec, encrypted (EtherType 0x88e5)"));
    assert_eq!(refusal(&plain()[..24]), "c: it has no packets; capture some (tcpdump -s 128 -w FILE)");
    let blocks = Blocks { big: false };
    let mut simple = [blocks.section(&[]), blocks.interface(&Link::ethernet(), &[])].concat();
    simple.extend(blocks.simple(&Link::ethernet(), &flow()[0]));
    assert_eq!(
        refusal(&simple),
        "c: its 1 packets have no times (simple packet blocks); capture with tcpdump or dumpcap"
    );
    for (head, what) in [
        (&b"\x1f\x8b\x08\0"[..], "it is compressed by gzip: unpack it first, gunzip FILE"),
        (b"\x28\xb5\x2f\xfd", "it is compressed by zstd: unpack it first, unzstd FILE"),
        (b"\x04\x22\x4d\x18", "it is compressed by lz4: unpack it first, unlz4 FILE"),
        (b"snoop\0\0\0", "it is a capture of the format snoop; convert it first (editcap -F pcap FILE OUT)"),
        (b"\xac\x01\x00\x1c", "it is a capture of the format Ixia lcap; convert it first (editcap -F pcap FILE OUT)"),
    ] {
        assert_eq!(refusal(head), format!("c: {what}"));
        assert_eq!(capture::read("c", head, None).unwrap_err().to_string(), format!("c: {what}"));
    }
}

#[test]
fn what_is_beside_ip_packets_is_noted() {
    let blocks = Blocks { big: false };
    let links = [Link::ethernet(), Link::new(127, &[0; 30]), Link::new(1, &[[2; 12].as_slice(), &[8, 6]].concat())];
    let mut file = blocks.section(&[]);
    links.iter().for_each(|link| file.extend(blocks.interface(link, &[])));
    for seen in flow() {
        // ARP is everywhere.
        for (interface, link) in links.iter().enumerate() {
            file.extend(blocks.packet(6, interface as u16, link, 1000, &seen));
        }
        file.extend(blocks.simple(&links[0], &seen));
    }
    let expected =
        ["Not read: 132 of link type 127 (IEEE802_11_RADIOTAP, Wi-Fi).", "Not read: 132 packets without times"];
    assert_same("others", &file, &expected);
    let mut tunnel = flow();
    tunnel[131].ip[9] = 47;
    let log = plot(&Pcap::of(Link::ethernet()).write(&tunnel)).unwrap();
    assert!(log.notes[0].starts_with("It has packets of tunnels (1 of GRE)"), "{:?}", log.notes);
}

/// As `paceline emulate --log` writes it: every packet of the flow enters at one end and leaves at the other, 10 ms later; the second window
/// is dropped.
#[test]
fn an_emulated_path_shows_delays_and_drops() {
    let blocks = Blocks { big: false };
    let cooked =
        |sent: bool| Link::new(113, &[0, if sent { 4 } else { 0 }, 0xff, 0xfe, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0]);
    let write = |delay: i64| {
        let mut file = blocks.section(&[]);
        for name in ["near", "far", "dropped"] {
            file.extend(blocks.interface(&cooked(false), &blocks.option(2, name.as_bytes())));
        }
        for (number, seen) in flow().into_iter().enumerate() {
            let later = Seen { at: seen.at.strict_add_signed(delay), ..seen.clone() };
            let data = seen.wire == 1500;
            // Down is from the far end.
            let (enters, leaves) = if data { (1, 0) } else { (0, 1) };
            file.extend(blocks.packet(6, enters, &cooked(false), 1000, &seen));
            if data && (11..21).contains(&number) {
                file.extend(blocks.packet(6, 2, &cooked(false), 1000, &later));
            } else {
                file.extend(blocks.packet(6, leaves, &cooked(true), 1000, &later));
            }
        }
        file
    };
    let log = plot(&write(10_000_000)).unwrap();
    assert_eq!(log.kind, "packets on an emulated path");
    let figures = ["packets", "dropped, packets", "one-way delay p50, ms"];
    assert_eq!(figures.map(|what| figure(&log, "down", what)), [Some(120.0), Some(10.0), Some(10.0)]);
    assert_eq!(figures.map(|what| figure(&log, "up", what)), [Some(12.0), Some(0.0), Some(10.0)]);
    // Acknowledgements reach the sender 10 ms after they entered: after the first segment of a window, then after the last of the one before.
    assert!((round_trips(&log)[0] - 50.0).abs() < 1e-9 && (round_trips(&log)[1] - 41.0).abs() < 1e-9);
    let flow = capture::read("c", &write(10_000_000)[..], None).unwrap();
    assert!((flow.points[0].rtt_ms.unwrap() - 50.0).abs() < 1e-9 && flow.losses.is_empty());
    let log = plot(&write(-10_000_000)).unwrap();
    let note = "122 packets left before they entered: their delays are not counted.";
    assert!(
        log.notes.iter().any(|line| line == note) && figure(&log, "down", "one-way delay p50, ms").is_none(),
        "{:?}",
        log.notes
    );
}
