//! What fuzzing of the readers begins with.

use crate::file::{BEGUN, Blocks, Link, MS, Pcap, Seen, flow, six};
use crate::plot;

/// Small captures of every link and form, which fuzzing begins with.
fn seeds() -> Vec<(String, Vec<u8>)> {
    let short: Vec<Seen> = flow().into_iter().filter(|seen| seen.at < BEGUN + 42 * MS).step_by(5).collect();
    let form = |link| Pcap::of(link);
    let ethernet = |rest: &[u8]| Link::new(1, &[&[2; 12], rest].concat());
    let links = [
        ("null", Link::new(0, &[2, 0, 0, 0])),
        ("vlan", ethernet(&[0x88, 0xa8, 0, 7, 0x81, 0, 0, 42, 8, 0])),
        ("macsec", ethernet(&[0x88, 0xe5, 0, 0, 0, 0, 0, 1, 8, 0])),
        ("pppoe", ethernet(&[0x88, 0x64, 0x11, 0, 0, 9, 5, 0xde, 0, 0x21])),
        ("mpls", ethernet(&[0x88, 0x47, 0, 1, 1, 64])),
        ("snap", ethernet(&[0, 80, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0])),
        ("arp", ethernet(&[8, 6])),
        ("ppp", Link::new(9, &[0xff, 3, 0, 0x21])),
        ("hdlc", Link::new(104, &[0x0f, 0, 8, 0])),
        ("raw", Link::new(101, &[])),
        (
            "cooked",
            Link::new(113, &[&[0, 4, 0, 1, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0][..], &[0x81, 0, 0, 42, 8, 0]].concat()),
        ),
        ("cooked2", Link::new(276, &[&[8, 0, 0, 0, 0, 0, 0, 2, 0, 1, 4, 6][..], &[0; 8]].concat())),
        ("pktap", Link::new(258, &[12, 0, 0, 0, 1, 0, 0, 0, 101, 0, 0, 0])),
        ("radiotap", Link::new(127, &[0; 30])),
    ];
    let mut seeds: Vec<(String, Vec<u8>)> =
        links.into_iter().map(|(name, link)| (format!("link-{name}"), form(link).write(&short))).collect();
    let mut add = |name: &str, bytes| seeds.push((name.to_owned(), bytes));
    let plain = form(Link::ethernet());
    add("pcap-modified", Pcap { modified: true, ..plain.clone() }.write(&short));
    add("pcap-modified-big", Pcap { modified: true, big: true, ..plain.clone() }.write(&short));
    add("pcap-nanos-big-fcs", Pcap { nanos: true, big: true, fcs: 4, ..plain.clone() }.write(&short));
    add("pcap-odd-lengths", Pcap { snap: 70, says: Some(60), over: true, ..plain }.write(&short));
    let jumbo = six(0, true, &[6, 0, 0xc2, 4, 0, 1, 0x86, 0xa0], 0, [1000, 1], 99_960);
    let reply = six(40 * MS, false, &[], 32, [1, 100_960], 0);
    add("pcap-jumbo", form(Link::new(1, &[&[2; 12][..], &[0x86, 0xdd]].concat())).write(&[jumbo, reply]));
    for big in [false, true] {
        let (blocks, link) = (Blocks { big }, Link::ethernet());
        let offset = if big { 100_i64.to_be_bytes() } else { 100_i64.to_le_bytes() };
        let options = [blocks.option(9, &[0x80 | 31]), blocks.option(13, &[4]), blocks.option(14, &offset)].concat();
        let mut file = [blocks.section(&blocks.option(3, b"\xe4")), blocks.interface(&link, &[])].concat();
        file.extend([blocks.interface(&link, &options), blocks.block(5, &[0; 12])].concat());
        for (number, seen) in short.iter().enumerate() {
            file.extend(blocks.packet([6, 2][number % 2], (number % 2) as u16, &link, 1000, seen));
        }
        file.extend([blocks.simple(&link, &short[0]), blocks.section(&[])].concat());
        add(if big { "pcapng-blocks-big" } else { "pcapng-blocks" }, file);
    }
    seeds
}

/// `UPDATE=1 cargo test -p paceline-logs --test captures seeds` writes them.
#[test]
fn seeds_are_what_is_written_here() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    let update = std::env::var_os("UPDATE").is_some();
    for (name, bytes) in seeds() {
        // Those that are refused are for one of the two.
        let targets = if plot(&bytes).is_ok() { &["logs", "conform"][..] } else { &["conform"] };
        for target in targets {
            let path = folder.join(target).join(&name);
            if update {
                std::fs::write(&path, &bytes).unwrap();
            }
            assert!(std::fs::read(&path).is_ok_and(|there| there == bytes), "{}", path.display());
        }
    }
}
