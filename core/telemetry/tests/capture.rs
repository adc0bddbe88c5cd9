//! A capture with a packet of each form, and what tshark makes of it.
//!
//! `UPDATE=1 cargo test -p paceline-telemetry capture` writes the capture again.

use std::path::{Path, PathBuf};
use std::process::Command;

use paceline_cc::{Nanos, Time};
use paceline_telemetry::{Edge, Long, NodeRecord, RecordProfile, StandardEdge, TelemetryHeader, push_record};
use pcap_parser::{EnhancedPacketBlock, InterfaceDescriptionBlock, Linktype, SectionHeaderBlock, ToVec};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/telemetry.pcapng")
}

fn edge() -> Edge {
    Edge { segs: 1, seq: 77, sent_us: 4_000_000_000, cwnd: Some(33), ..Edge::default() }
}

/// An access point, in all that it can know.
fn radio() -> NodeRecord {
    NodeRecord {
        hop_limit: 63,
        node: 7,
        ingress: Some(100),
        egress: Some(101),
        at: Some(Time::from_nanos(1_700_000_000_123_456_000)),
        transit: Some(Nanos::from_micros(250)),
        room_packets: Some(59),
        flows: Some(2),
        arrival_pps: Some(1650.0),
        queue_bytes: Some(87_812),
        occupancy: Some(0.25),
        flow_dropped: Some(6),
        link_lost: Some(1808),
        dropped: Some(9),
        rssi_dbm: Some(-67),
        mcs: Some(1 << 5 | 7),
        rate_100k: Some(1300),
    }
}

/// A switch, which knows little.
fn switch() -> NodeRecord {
    NodeRecord { hop_limit: 62, node: 0x22_2222, egress: Some(3), queue_bytes: Some(0), ..NodeRecord::default() }
}

fn headers() -> Vec<TelemetryHeader> {
    let two =
        |profile| TelemetryHeader { records: vec![radio(), switch()], ..TelemetryHeader::new(profile, 2, edge()) };
    let long = Edge { segs: 44, long: Some(Long { flow: 0xdead_0001, ssthresh: 64, srtt_64us: 312 }), ..edge() };
    let standard = StandardEdge { seq: 77, seconds: 1_700_000_000, micros: 123_456 };
    vec![
        TelemetryHeader::new(RecordProfile::Lean, 0, edge()),
        two(RecordProfile::Lean),
        two(RecordProfile::Timed),
        two(RecordProfile::Counted),
        TelemetryHeader { edge: Some(long), ..two(RecordProfile::Full) },
        TelemetryHeader { standard: Some(standard), ..two(RecordProfile::Lean) },
        TelemetryHeader {
            edge: Some(Edge { cwnd: None, ..edge() }),
            ..TelemetryHeader::new(RecordProfile::Lean, 2, edge())
        },
    ]
}

/// An Ethernet frame with an empty TCP segment behind the header.
fn frame(header: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; 12];
    frame.extend_from_slice(&0x86ddu16.to_be_bytes());
    frame.extend_from_slice(&[0x60, 0, 0, 0]);
    frame.extend_from_slice(&(header.len() as u16 + 20).to_be_bytes());
    frame.extend_from_slice(&[0, 62]);
    for host in [1u128, 2] {
        frame.extend_from_slice(&(0xfd00 << 112 | host).to_be_bytes());
    }
    frame.extend_from_slice(header);
    frame.extend_from_slice(&[0x14, 0x51, 0x9c, 0x40, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0]);
    frame
}

/// All headers, and one in which a second hop found no room.
fn capture() -> Vec<u8> {
    let mut headers: Vec<Vec<u8>> = headers().iter().map(TelemetryHeader::encode).collect();
    let mut full =
        TelemetryHeader { records: vec![radio()], ..TelemetryHeader::new(RecordProfile::Counted, 1, edge()) }.encode();
    push_record(&mut full, &switch()).expect_err("there is room for one");
    headers.push(full);
    let mut file = Vec::new();
    // Types and lengths are filled in as blocks are written.
    put(
        &mut file,
        SectionHeaderBlock {
            block_type: 0,
            block_len1: 0,
            bom: 0,
            major_version: 1,
            minor_version: 0,
            section_len: -1,
            options: Vec::new(),
            block_len2: 0,
        },
    );
    put(
        &mut file,
        InterfaceDescriptionBlock {
            block_type: 0,
            block_len1: 0,
            linktype: Linktype::ETHERNET,
            reserved: 0,
            snaplen: 0,
            options: Vec::new(),
            block_len2: 0,
            // Milliseconds.
            if_tsresol: 3,
            if_tsoffset: 0,
        },
    );
    for (number, header) in headers.iter().enumerate() {
        let data = frame(header);
        put(
            &mut file,
            EnhancedPacketBlock {
                block_type: 0,
                block_len1: 0,
                if_id: 0,
                ts_high: 0,
                ts_low: number as u32,
                caplen: data.len() as u32,
                origlen: data.len() as u32,
                data: &data,
                options: Vec::new(),
                block_len2: 0,
            },
        );
    }
    file
}

fn put(file: &mut Vec<u8>, mut block: impl ToVec) {
    file.extend(block.to_vec().expect("memory takes it"));
}

#[test]
fn the_capture_is_what_the_encoder_writes() {
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(golden(), capture()).expect("the folder is ours");
    }
    assert!(
        std::fs::read(golden()).expect("it is there") == capture(),
        "the format has changed; UPDATE=1 writes it anew"
    );
}

/// Fields of each packet of the capture, hop by hop in the order of the packet; `None` where there is no tshark.
fn tshark(options: &[&str], fields: &[&str]) -> Option<Vec<Vec<String>>> {
    let fields = fields.iter().flat_map(|field| ["-e", field]);
    let mut command = Command::new("tshark");
    command.args(["-n", "-o", "tcp.relative_sequence_numbers:false"]).args(options).arg("-r").arg(golden());
    let run = match command.args(["-T", "fields", "-E", "separator=|"]).args(fields).output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("skipped: tshark: it is not installed");
            return None;
        }
        run => run.expect("tshark runs"),
    };
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success() && !said.contains("Lua"), "{said}");
    let text = String::from_utf8(run.stdout).expect("tshark writes text");
    let field = |field: &str| field.split(',').map(number).collect::<Vec<_>>().join(",");
    Some(text.lines().map(|line| line.split('|').map(field).collect()).collect())
}

/// Which fields are hexadecimal, and how flags are written, differs between versions of tshark.
fn number(text: &str) -> String {
    match (text, text.strip_prefix("0x")) {
        ("True", _) => "1".to_owned(),
        ("False", _) => "0".to_owned(),
        (_, Some(digits)) => u64::from_str_radix(digits, 16).expect(text).to_string(),
        _ => text.to_owned(),
    }
}

#[test]
fn tshark_dissects_the_trace() {
    let trace = "ipv6.opt.ioam.trace";
    let fields = ["ns", "nodelen", "remlen", "type", "flag.o", "node.hlim", "node.id", "node.iif", "node.eif"];
    let more =
        ["node.tss", "node.tsf", "node.trdelay", "node.nsdata", "node.qdepth", "node.nsdata_wide", "node.bufoccup"];
    let errors = ["invalid_nodelen", "invalid_remlen", "invalid_type"];
    let mut names: Vec<String> =
        fields.iter().chain(&more).chain(&errors).map(|name| format!("{trace}.{name}")).collect();
    names.extend(["tcp.srcport", "ipv6.opt.type", "_ws.malformed"].map(str::to_owned));
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let Some(packets) = tshark(&[], &names) else { return };
    let unknown = "4294967295";
    let lean = ["0x8001", "4", "0", "0xc60000", "0", "62,63", "2236962,7", "65535,100", "3,101"];
    let expect = |packet: usize, wanted: &[&str]| {
        let line = &packets[packet];
        let wanted: Vec<String> =
            wanted.iter().map(|field| field.split(',').map(number).collect::<Vec<_>>().join(",")).collect();
        assert_eq!(line[..wanted.len()], *wanted, "packet {packet}");
        assert_eq!(line[16..20], ["", "", "", "5201"], "packet {packet}");
        assert_eq!(line[21], "", "packet {packet}");
    };
    assert_eq!(packets.len(), 8);
    expect(0, &["0x8001", "4", "0", "0xc60000", "0", "", "", "", ""]);
    expect(1, &[&lean[..], &["", "", "", "0xffffffff,0x003b0256", "0,87812", "", ""]].concat());
    let timed = ["0x8001", "6", "0", "0xf60000"];
    let seconds = format!("{unknown},1700000000");
    let micros = format!("{unknown},123456");
    expect(2, &[&timed[..], &lean[4..], &[&seconds, &micros, "", "0xffffffff,0x003b0256", "0,87812", "", ""]].concat());
    let counted = ["0x8001", "5", "0", "0xc61000"];
    let queue = format!("{unknown},{}", 6 << 16 | 0x4000);
    expect(3, &[&counted[..], &lean[4..], &["", "", "", "0xffffffff,0x003b0256", "0,87812", "", &queue]].concat());
    let full = ["0x8001", "10", "0", "0xfe3000"];
    let transit = format!("{unknown},250000");
    let wide = "0xffffffffffffffff,0x07100009bd270514";
    expect(
        4,
        &[&full[..], &lean[4..], &[&seconds, &micros, &transit, "0xffffffff,0x003b0256", "0,87812", wide, &queue]]
            .concat(),
    );
    expect(5, &lean);
    assert_eq!(packets[5][20], "1,49,17,30,1");
    expect(6, &["0x8001", "4", "8", "0xc60000", "0", "", "", "", ""]);
    expect(7, &["0x8001", "5", "0", "0xc61000", "1", "63", "7", "100", "101"]);
}

#[test]
fn the_post_dissector_shows_what_is_ours() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/wireshark/paceline-int.lua");
    let script = format!("lua_script:{}", script.display());
    let ours = ["seq", "segs", "sent_us", "cwnd", "flow", "ssthresh", "srtt_us", "overflow"];
    let hop = [
        "node",
        "room",
        "flows",
        "arrival",
        "lost",
        "dropped",
        "rssi",
        "streams",
        "mcs",
        "rate",
        "flow_dropped",
        "occupancy",
    ];
    let names: Vec<String> = (ours.iter().map(|name| format!("paceline_int.{name}")))
        .chain(hop.iter().map(|name| format!("paceline_int.hop.{name}")))
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let Some(packets) = tshark(&["-X", &script], &names) else { return };
    let edge = ["77", "1", "4000000000", "33", "", "", "", ""];
    // First hop first; what a hop does not know is left out.
    let hops = ["7,2236962", "59", "2"];
    let near = |text: &str, wanted: f64| (text.parse::<f64>().expect(text) / wanted - 1.0).abs() < 0.045;
    for (packet, line) in packets.iter().enumerate().take(6).skip(1) {
        assert_eq!(line[8..11], hops, "packet {packet}");
        assert!(near(&line[11], 1650.0), "packet {packet}: {}", line[11]);
        if packet != 4 {
            assert_eq!(line[..8], edge, "packet {packet}");
        }
    }
    assert_eq!(packets[0][..9], [&edge[..], &[""]].concat());
    assert_eq!(packets[1][12..], [""; 8]);
    assert_eq!(packets[3][12..19], ["", "", "", "", "", "", "6"]);
    assert_eq!(packets[4][..8], ["77", "44", "4000000000", "33", "3735879681", "64", "19968", ""]);
    assert_eq!(packets[4][12..19], ["1808", "9", "-67", "2", "7", "130", "6"]);
    for packet in [3, 4] {
        assert!(near(&packets[packet][19], 0.25), "{}", packets[packet][19]);
    }
    assert_eq!(packets[6][..8], ["77", "1", "4000000000", "", "", "", "", ""]);
    assert_eq!(packets[7][7], "1");
}
