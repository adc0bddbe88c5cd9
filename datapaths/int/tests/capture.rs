//! What tshark reads in packets that the programs wrote.
#![cfg(target_os = "linux")]

mod nodes;

use std::process::Command;

use nodes::{Chain, Frames, has, opened, telemetry};
use paceline_int::{SourceNode, SourceOptions, TransitNode, TransitOptions};
use paceline_telemetry::RecordProfile;

const PORT: u16 = 5204;
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/wireshark/paceline-int.lua");

/// A capture file of frames (pcap, version 2.4, Ethernet).
fn pcap(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::new();
    for word in [0xa1b2_c3d4_u32, 2 | 4 << 16, 0, 0, 262_144, 1] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    for frame in frames {
        let length = frame.len() as u32;
        for word in [0, 0, length, length] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(frame);
    }
    out
}

#[test]
fn tshark_reads_each_profile() {
    let test = "tshark_reads_each_profile";
    if !has(test, "tshark", "--version") {
        return;
    }
    let Some(chain) = Chain::new(test) else { return };
    chain.a.enter(|| paceline_emulator::port::packet::without_offloads("a0")).unwrap().unwrap();
    let fields = [
        "ipv6.opt.ioam.trace.nodelen",
        "ipv6.opt.ioam.trace.node.id",
        "ipv6.opt.ioam.trace.node.hlim",
        "tcp.dstport",
        "paceline_int.word.available",
        "paceline_int.word.share",
        "paceline_int.word.delay",
        "paceline_int.word.hlim",
    ];
    for (port, profile) in (PORT..).zip(RecordProfile::ALL) {
        // An odd number of hops, so that one profile has padding.
        let options = SourceOptions { profile, full_every: 0, hops: 1, patience: None, ..SourceOptions::default() };
        let Some(_source) = opened(test, chain.a.enter(|| SourceNode::open("a0", &options)).unwrap()) else { return };
        let rate = Some("20 Gbit/s".parse().unwrap());
        let hop = TransitOptions { node: Some(77), rate, ..TransitOptions::default() };
        let _transit = chain.r.enter(|| TransitNode::open("r1", &hop)).unwrap().unwrap();
        let wire = Frames::open(&chain.b, "b0");
        chain.transfer(port, 50_000);
        let mut frames = wire.drain();
        frames.retain(|frame| telemetry(frame).is_some());
        assert!(frames.len() > 50_000 / 1428, "{profile:?}: {}", frames.len());
        assert!(frames.iter().all(|frame| telemetry(frame).unwrap().0.profile == profile));
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("frames.pcap");
        std::fs::write(&file, pcap(&frames)).unwrap();
        let mut tshark = Command::new("tshark");
        tshark.arg("-X").arg(format!("lua_script:{SCRIPT}")).arg("-r").arg(file).args([
            "-T",
            "fields",
            "-E",
            "separator=|",
            "-e",
            "_ws.malformed",
        ]);
        tshark.args(fields.iter().flat_map(|field| ["-e", field]));
        let output = tshark.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(text.lines().count(), frames.len());
        for line in text.lines() {
            let read: Vec<&str> = line.split('|').collect();
            if profile == RecordProfile::Word {
                // One of three values, from the router.
                let values: Vec<f64> = read[5..8].iter().filter_map(|value| value.parse().ok()).collect();
                assert_eq!(
                    (read[0], read[1], read[4], read[8], values.len()),
                    ("", "1", &*port.to_string(), "63", 1),
                    "{line}"
                );
                continue;
            }
            // Which numbers are hexadecimal differs between versions.
            let node =
                [read[2].strip_prefix("0x").map(|digits| u32::from_str_radix(digits, 16)), Some(read[2].parse())];
            assert!(node.into_iter().flatten().any(|node| node == Ok(77)), "{line}");
            assert_eq!(
                (read[0], read[1], read[3], read[4]),
                ("", &*profile.words().to_string(), "63", &*port.to_string())
            );
        }
    }
}
